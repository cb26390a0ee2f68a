"""What moving air does to a turning rotor, as PX4's Gazebo Classic has it: loss of thrust, drag, rolling moment.

With v the hub's velocity relative to the air, its part along the rotor's axis takes thrust away, linearly to nothing at
`max_relative_airspeed_m_s`, upwards and downwards alike; its part across, v_p, drags with -w c_D v_p and rolls with
d w c_R v_p (d = +1 clockwise), which cancels on a balanced vehicle. The reaction torque stays that of the whole thrust.
On an Iris this stands instead of the linear drag of the body. Source: PX4-SITL_gazebo-classic
src/gazebo_motor_model.cpp (after Martin and Salaun, "The true role of accelerometer feedback in quadrotor control",
ICRA 2010); some releases of it leave out the direction in the rolling moment.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from firmware_profiles.errors import UsageError
from twin.control.arrays import Arrays
from twin.dynamics.base import DynamicsBase
from twin.dynamics.body_force import to_body
from twin.dynamics.wrench import cross
from twin.world_params import WorldParams


def axial_thrust_share(axial_airspeed_m_s: Any, *, xp: Any, max_relative_airspeed_m_s: Any) -> Any:
    """(N, R) share of the thrust that remains under an airspeed along the axis [m/s], between 0 and 1."""
    zero = xp.zeros_like(axial_airspeed_m_s)
    return xp.maximum(zero + 1.0 - xp.abs(axial_airspeed_m_s) / max_relative_airspeed_m_s, zero)


def across_axis(airspeed: Any, axis: Any, *, xp: Any) -> tuple[Any, Any]:
    """(N, R) part of (N, R, 3) velocities along unit axes, and the (N, R, 3) rest."""
    along = xp.sum(airspeed * axis, axis=-1)
    return along, airspeed - along[..., None] * axis


def rotor_drag(speed_rad_s: Any, airspeed_across: Any, *, xp: Any, rotor_drag_n_s2_m: Any) -> Any:
    """(N, R, 3) drag forces [N] of rotors at (N, R) speeds under (N, R, 3) velocities across their axes [m/s]."""
    return -(xp.abs(speed_rad_s) * rotor_drag_n_s2_m)[..., None] * airspeed_across


def rolling_moment(speed_rad_s: Any, airspeed_across: Any, *, xp: Any, spin_dir: Any, rolling_moment_n_s2: Any) -> Any:
    """(N, R, 3) moments [N m] on the body of the same; (N, R) spin directions, +1 clockwise seen from above."""
    return (xp.abs(speed_rad_s) * spin_dir * rolling_moment_n_s2)[..., None] * airspeed_across


@dataclass(frozen=True, slots=True)
class MotorForces:
    """What the moving air does, in the body's frame (FLU).

    Attributes:
        thrust: (N, R) that remains, along each rotor's axis [N]; what the ground and wall effects start from.
        loss_body: (N, R, 3) what the axial flow takes from each rotor's force [N].
        drag_body: (N, R, 3) force across each axis, at the hub [N].
        moment_body: (N, R, 3) rolling moment of each rotor on the body [N m].
    """

    thrust: Any
    loss_body: Any
    drag_body: Any
    moment_body: Any

    @property
    def rotor_increment_body(self) -> Any:
        """(N, R, 3) all that is added to each rotor's force, at its hub [N]."""
        return self.loss_body + self.drag_body


class MotorAerodynamics(DynamicsBase):
    """The three effects for N vehicles with R rotors.

    Args:
        params: parameters of the N worlds.
        spin_dir: of the R rotors, +1 clockwise seen from above, -1 counter-clockwise.
        axis_body: (R, 3) unit vectors along which the rotors push, body frame; by default +z.
        arrays: where the arrays live; by default NumPy, float64.

    Raises:
        UsageError: axes that are no unit vectors, or a shape that does not fit.
    """

    def __init__(
        self,
        params: WorldParams,
        spin_dir: npt.ArrayLike,
        *,
        axis_body: npt.ArrayLike | None = None,
        arrays: Arrays | None = None,
    ) -> None:
        arrays = Arrays(params.n) if arrays is None else arrays
        super().__init__(arrays)
        count = params.rotor_position_flu_m.shape[1]
        axes = np.tile([0.0, 0.0, 1.0], (count, 1)) if axis_body is None else np.asarray(axis_body, dtype=np.float64)
        if axes.shape != (count, 3) or not np.allclose(np.linalg.norm(axes, axis=1), 1.0, atol=1e-6):
            raise UsageError(f"axis_body: expected {count} unit vectors, got {axes.tolist()}")
        self._axis = arrays.array(np.tile(axes, (self.n, 1, 1)))
        self._hub = arrays.array(params.rotor_position_flu_m)
        self._spin = arrays.spread("spin_dir", spin_dir, count)
        self._max_airspeed = arrays.spread("max_relative_airspeed_m_s", params.max_relative_airspeed_m_s, count)
        self._drag = arrays.spread("rotor_drag_n_s2_m", params.rotor_drag_n_s2_m, count)
        self._rolling = arrays.spread("rolling_moment_n_s2", params.rolling_moment_n_s2, count)

    def reset(self, worlds: Any = None) -> None:
        """Nothing: the air has no memory here."""
        self._rows(worlds)

    def forces(
        self,
        *,
        thrust: Any,
        speed_rad_s: Any,
        rotation_world_body: Any,
        velocity_world: Any,
        rates_body: Any,
        wind_world: Any = None,
    ) -> MotorForces:
        """The three effects.

        Args:
            thrust: (N, R) in still air [N].
            speed_rad_s: (N, R) of the rotors.
            rotation_world_body: (N, 3, 3) v_world = R v_body.
            velocity_world: (N, 3) of the body's origin [m/s].
            rates_body: (N, 3) angular velocity [rad/s].
            wind_world: (N, 3) velocity of the air [m/s]; None is still air.
        """
        xp = self._xp
        relative = velocity_world if wind_world is None else velocity_world - wind_world
        hub_velocity = cross(rates_body[:, None, :], self._hub, xp=xp)
        airspeed = to_body(relative, rotation_world_body)[:, None, :] + hub_velocity
        along, across = across_axis(airspeed, self._axis, xp=xp)
        remaining = thrust * axial_thrust_share(along, xp=xp, max_relative_airspeed_m_s=self._max_airspeed)
        return MotorForces(
            thrust=remaining,
            loss_body=(remaining - thrust)[..., None] * self._axis,
            drag_body=rotor_drag(speed_rad_s, across, xp=xp, rotor_drag_n_s2_m=self._drag),
            moment_body=rolling_moment(
                speed_rad_s, across, xp=xp, spin_dir=self._spin, rolling_moment_n_s2=self._rolling
            ),
        )
