"""The geometric controller on SE(3): force and attitude errors without angles, so nothing is singular.

F = m (a_d + K_v (v_d - v) + g e_3), with v_d holding the position error too; f = F . R e_3;
M = J (-K_R e_R - K_w e_w) + w x J w, e_R = vee(R_d^T R - R^T R_d) / 2, e_w = w - R^T R_d w_d.
Source: T. Lee, M. Leok, N. H. McClamroch, "Geometric tracking control of a quadrotor UAV on SE(3)", CDC 2010.

What differs from the paper: gains are divided by mass and inertia, so that they fit a vehicle of any size; the position
error counts no more than what calls for the largest speed; the force keeps to tilt and thrust limits (`thrust_vector`);
yaw is the third XYZ-intrinsic angle, as in the seed's table; and w_d is the yaw rate of the target alone, for the
derivative of R_d would need the jerk.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy.typing as npt

from firmware_profiles.profile import VehicleParams
from twin.control.arrays import Arrays, checked
from twin.control.base import FLIGHT_ENTRIES, ControllerBase
from twin.control.flight_params import FlightLimits, flight_options
from twin.control.so3 import column, cross, dot, rotation_error, times, transposed
from twin.control.thrust_curve import NormalisedThrust
from twin.control.thrust_vector import ThrustVector, limit_horizontal
from twin.frames import quat_of_euler_xyz, rotation_of_xyzw


@dataclass(frozen=True, slots=True)
class GeometricGains:
    """Gains of the two loops, each a number or what broadcasts to (N, 3).

    The defaults: the attitude loop is as stiff as the PID cascade's; there is no integral, so the vertical is stiff
    enough that a tenth more mass and a tenth less thrust together are worth 0.05 m.

    Attributes:
        position: K_p [1/s^2].
        velocity: K_v [1/s].
        attitude: K_R [1/s^2].
        rates: K_w [1/s].

    Raises:
        UsageError: a value outside of its range.
    """

    position: npt.ArrayLike = (5.0, 5.0, 45.0)
    velocity: npt.ArrayLike = (3.5, 3.5, 12.0)
    attitude: npt.ArrayLike = (180.0, 180.0, 22.0)
    rates: npt.ArrayLike = (28.0, 28.0, 8.0)

    def __post_init__(self) -> None:
        checked("position", self.position, least=0.0)
        checked("velocity", self.velocity, above=0.0)
        checked("attitude", self.attitude, least=0.0)
        checked("rates", self.rates, least=0.0)


class GeometricController(ControllerBase):
    """The law for N worlds; entries, targets, states and the result are those of `FlightController`.

    Args:
        mass_kg, inertia_kg_m2: as numbers, or what broadcasts to (N, 1) and (N, 3).
        max_thrust_n: total thrust at full speed [N]; likewise (N, 1).
        gravity_m_s2: of the place.
        gains: see `GeometricGains`.
        limits: see `flight_params`; the limits of rates do not apply. By default 8 m/s^2 upwards, for there is no
            integral: a weight that the law does not know has to find its thrust within this limit.
        control_mask: the entry.
        normalised_thrust: where the target's `thrust` is a signal in [0, 1], what takes it to newtons.
        arrays: where the arrays live; by default NumPy, float64, one world.

    Raises:
        UsageError: a parameter that cannot be.
    """

    entries = FLIGHT_ENTRIES

    def __init__(
        self,
        *,
        mass_kg: npt.ArrayLike,
        inertia_kg_m2: npt.ArrayLike,
        max_thrust_n: npt.ArrayLike,
        gravity_m_s2: float = 9.80665,
        gains: GeometricGains | None = None,
        limits: FlightLimits | None = None,
        control_mask: str | Mapping[str, bool] = "cmd_pos",
        normalised_thrust: NormalisedThrust | None = None,
        arrays: Arrays | None = None,
    ) -> None:
        gains = GeometricGains() if gains is None else gains
        limits = FlightLimits(up_acc_m_s2=8.0) if limits is None else limits
        arrays = Arrays() if arrays is None else arrays
        for name, value in (("mass_kg", mass_kg), ("inertia_kg_m2", inertia_kg_m2), ("max_thrust_n", max_thrust_n)):
            checked(name, value, above=0.0)
        self._xp, self._arrays, spread = arrays.xp, arrays, arrays.spread
        self._mass, self._inertia = spread("mass_kg", mass_kg, 1), spread("inertia_kg_m2", inertia_kg_m2, 3)
        self._max_thrust = spread("max_thrust_n", max_thrust_n, 1)
        self._gravity = arrays.array([[0.0, 0.0, gravity_m_s2]]) + arrays.zeros(3)
        self._vector = ThrustVector(limits, mass_kg, max_thrust_n, gravity_m_s2, arrays)
        self._velocity = spread("velocity", gains.velocity, 3)
        self._speed_per_metre = spread("position", gains.position, 3) / self._velocity
        self._attitude, self._rates = spread("attitude", gains.attitude, 3), spread("rates", gains.rates, 3)
        self._horizontal_speed = spread("horizontal_speed_m_s", limits.horizontal_speed_m_s, 1)
        self._climb, self._sink = spread("climb_m_s", limits.climb_m_s, 1), -spread("sink_m_s", limits.sink_m_s, 1)
        self._horizontal_acc = spread("horizontal_acc_m_s2", limits.horizontal_acc_m_s2, 1)
        self._up_acc = spread("up_acc_m_s2", limits.up_acc_m_s2, 1)
        self._down_acc = -spread("down_acc_m_s2", limits.down_acc_m_s2, 1)
        self._normalised_thrust = normalised_thrust
        self._zero, self._nothing = arrays.zeros(1), arrays.zeros(3)
        self._up = arrays.array([[0.0, 0.0, 1.0]]) + self._nothing
        super().__init__(control_mask)

    @classmethod
    def of(cls, vehicle: VehicleParams, **options: Any) -> GeometricController:
        """For a vehicle; `options` are the constructor's, and replace what the vehicle says."""
        return cls(**(flight_options(vehicle) | options))

    def _selected(self) -> None:
        mask = self.control_mask
        self._vel_given, self._acc_given, self._yaw_given = mask["vel"], mask["acc"], mask["att_euler"]

    def reset(self, worlds: Any = None) -> None:
        """Nothing to forget: the law has no memory."""

    def update(self, target: Mapping[str, Any], state: Mapping[str, Any]) -> Any:
        """One tick; see `FlightController.update`."""
        try:
            return self._law(target, state, self._nothing, self._nothing)
        except KeyError as error:
            raise self._missing(error) from None

    def _law(self, target: Mapping[str, Any], state: Mapping[str, Any], pushed: Any, turned: Any) -> Any:
        """The wrench (N, 4), when something else already accelerates the vehicle.

        Args:
            target: as for `update`.
            state: as for `update`.
            pushed: (N, 3) acceleration by forces that the law does not know, world [m/s^2].
            turned: (N, 3) angular acceleration by such moments, body [rad/s^2].
        """
        xp = self._xp
        if self.mode == "cmd_ctbm":
            return xp.concat((self._given_thrust(target), target["moment"] + self._nothing), axis=1)
        rates = state["ang_vel"]
        if self.mode == "cmd_ctbr":
            thrust, accelerated = self._given_thrust(target), self._rates * (target["ang_vel"] - rates)
        else:
            rotation = rotation_of_xyzw(state["att_quat"], xp=xp)
            if self.mode == "cmd_ctatt":
                thrust = self._given_thrust(target)
                quat = target["att_quat"] if not self._yaw_given else quat_of_euler_xyz(target["att_euler"], xp=xp)
                wanted_rates = self._nothing
            else:
                thrust, quat, wanted_rates = self._outer(target, state, rotation, pushed)
            relative = xp.matmul(transposed(rotation, xp=xp), rotation_of_xyzw(quat, xp=xp))
            accelerated = self._rates * (wanted_rates - rates) - self._attitude * rotation_error(relative, xp=xp)
        moment = self._inertia * (accelerated - turned) + cross(rates, self._inertia * rates, xp=xp)
        return xp.concat((thrust, moment), axis=1)

    def _given_thrust(self, target: Mapping[str, Any]) -> Any:
        thrust, curve = target["thrust"], self._normalised_thrust
        return self._possible(thrust if curve is None else curve.newtons(thrust))

    def _possible(self, thrust: Any) -> Any:
        return self._xp.minimum(self._xp.maximum(thrust, self._zero), self._max_thrust)

    def _outer(self, target: Mapping[str, Any], state: Mapping[str, Any], rotation: Any, pushed: Any) -> Any:
        """Thrust (N, 1), attitude to reach (N, 4), and the rates that go with it (N, 3)."""
        xp = self._xp
        asked = target["acc"] if self._acc_given else self._nothing
        if self.mode != "cmd_acc":
            speed = target["vel"] if self._vel_given else self._nothing
            if self.mode == "cmd_pos":
                back = self._speed_per_metre * (target["pos"] - state["pos"])
                speed = speed + limit_horizontal(back, self._horizontal_speed, self._sink, self._climb, xp=xp)
            asked = asked + self._velocity * (speed - state["vel"])
        asked = limit_horizontal(asked, self._horizontal_acc, self._down_acc, self._up_acc, xp=xp)
        (roll, pitch), _, achieved = self._vector.of_acceleration(asked - pushed)
        thrust = self._mass * dot(achieved + self._gravity, column(rotation, 2), xp=xp)
        if self._yaw_given:
            yaw, wanted_rates = target["att_euler"][:, 2:3] + self._zero, self._nothing
        else:
            # A yaw rate is turned about the world's vertical; the heading is left where it is.
            yaw = xp.atan2(-rotation[:, 0, 1], rotation[:, 0, 0])[:, None]
            wanted_rates = times(transposed(rotation, xp=xp), self._up, xp=xp) * target["ang_vel"][:, 2:3]
        return self._possible(thrust), quat_of_euler_xyz(xp.concat((roll, pitch, yaw), axis=1), xp=xp), wanted_rates
