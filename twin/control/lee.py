"""Isaac Lab's Lee controllers: the same commands, the same wrench; for policies that were trained behind them.

`GeometricController` is what the twin flies with. Source: isaaclab_contrib controllers (Isaac Lab 3.0.0, BSD-3), from
their behaviour. Two things differ, both where upstream's answer is no use: a desired force of nothing (exact free fall)
gives NaN there and keeps the present thrust axis here; and masses and inertias are arguments, read from no simulator.
As upstream, no inclination limit is applied.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from firmware_profiles.errors import UsageError
from twin.control.arrays import Arrays, checked
from twin.control.so3 import column, cross, dot, rotation_error, rotation_towards, times, transposed
from twin.frames import euler_zyx_of_rotation, quat_of_euler_zyx, rotation_of_xyzw

LeeMode = Literal["position", "velocity", "acceleration", "attitude"]
LEE_MODES: tuple[LeeMode, ...] = ("position", "velocity", "acceleration", "attitude")


@dataclass(frozen=True, slots=True)
class LeeGains:
    """Gains, each what broadcasts to (N, 3); the defaults are the middle of Isaac Lab's ranges for its ARL robot.

    Attributes:
        position: K_pos [1/s^2].
        velocity: K_vel [1/s].
        rotation: K_rot [N m/rad].
        angular_velocity: K_angvel [N m s/rad].
        max_yaw_rate_rad_s: bound of the set-point's rate about the body's z axis.

    Raises:
        UsageError: a value outside of its range.
    """

    position: npt.ArrayLike = (3.5, 3.5, 2.25)
    velocity: npt.ArrayLike = (3.0, 3.0, 1.75)
    rotation: npt.ArrayLike = (1.725, 1.725, 0.325)
    angular_velocity: npt.ArrayLike = (0.45, 0.45, 0.0825)
    max_yaw_rate_rad_s: npt.ArrayLike = np.pi / 3

    def __post_init__(self) -> None:
        for name in ("position", "velocity", "rotation", "angular_velocity", "max_yaw_rate_rad_s"):
            checked(name, getattr(self, name), least=0.0)


class LeeController:
    """A command of four numbers to a wrench, for N worlds.

    Modes: `position` takes x, y, z [m] and heading [rad]; `velocity` takes a velocity [m/s] in the frame that is turned
    by the present yaw only, and a yaw rate [rad/s]; `acceleration` takes an acceleration [m/s^2], world, and a yaw
    rate; `attitude` takes thrust (-1 is none, 0 carries the weight), roll, pitch [rad], ZYX, and a yaw rate.

    Args:
        mode: see above.
        mass_kg: broadcasts to (N, 1).
        inertia_kg_m2: (3, 3) or (N, 3, 3) about the centre of mass, body axes.
        gravity_m_s2: of the place, downwards.
        gains: see `LeeGains`.
        arrays: where the arrays live; by default NumPy, float64, one world.

    Raises:
        UsageError: no such mode, or a parameter that cannot be.
    """

    def __init__(
        self,
        mode: LeeMode,
        *,
        mass_kg: npt.ArrayLike,
        inertia_kg_m2: npt.ArrayLike,
        gravity_m_s2: float = 9.81,
        gains: LeeGains | None = None,
        arrays: Arrays | None = None,
    ) -> None:
        arrays = Arrays() if arrays is None else arrays
        gains = LeeGains() if gains is None else gains
        if mode not in LEE_MODES:
            raise UsageError(f"mode: {mode!r}; allowed: {', '.join(LEE_MODES)}")
        checked("mass_kg", mass_kg, above=0.0)
        checked("gravity_m_s2", gravity_m_s2, least=0.0)
        inertia = np.asarray(inertia_kg_m2, dtype=np.float64)
        if inertia.shape not in ((3, 3), (arrays.n, 3, 3)):
            raise UsageError(f"inertia_kg_m2: expected (3, 3) or {(arrays.n, 3, 3)}, got {inertia.shape}")
        checked("inertia_kg_m2", inertia)
        self.mode = mode
        self._xp, spread = arrays.xp, arrays.spread
        self._mass = spread("mass_kg", mass_kg, 1)
        self._inertia = arrays.array(np.broadcast_to(inertia, (arrays.n, 3, 3)))
        self._up = arrays.array(np.tile((0.0, 0.0, gravity_m_s2), (arrays.n, 1)))
        self._gravity = spread("gravity_m_s2", gravity_m_s2, 1)
        self._position, self._velocity = spread("position", gains.position, 3), spread("velocity", gains.velocity, 3)
        self._rotation = spread("rotation", gains.rotation, 3)
        self._angular_velocity = spread("angular_velocity", gains.angular_velocity, 3)
        self._max_yaw_rate = spread("max_yaw_rate_rad_s", gains.max_yaw_rate_rad_s, 1)

    def update(self, command: Any, state: Mapping[str, Any]) -> Any:
        """One step.

        Args:
            command: (N, 4) as the mode has it.
            state: `pos` (in `position` only), `vel`, `att_quat`, `ang_vel`, as in `twin.control`.

        Returns:
            (N, 6): force [N], only its z is not 0 and may be negative upside down; moment [N m], body.
        """
        xp = self._xp
        rotation = rotation_of_xyzw(state["att_quat"], xp=xp)
        euler = euler_zyx_of_rotation(rotation, xp=xp)
        up_now = column(rotation, 2)
        yaw, last = euler[:, 2:3], command[:, 3:4]
        yaw_rate = xp.zeros_like(last) if self.mode == "position" else last
        if self.mode == "attitude":
            thrust = (command[:, 0:1] + 1.0) * self._mass * self._gravity
            angles = xp.concat((command[:, 1:3], yaw), axis=1)
            wanted = rotation_of_xyzw(quat_of_euler_zyx(angles, xp=xp), xp=xp)
        else:
            force = self._mass * (self._acceleration(command, state, yaw) + self._up)
            thrust = dot(force, up_now, xp=xp)
            wanted = rotation_towards(force, last if self.mode == "position" else yaw, up_now, xp=xp)
        moment = self._moment(rotation, wanted, self._body_rates(euler, yaw_rate), state["ang_vel"])
        nothing = xp.zeros_like(thrust)
        return xp.concat((nothing, nothing, thrust, moment), axis=1)

    def _acceleration(self, command: Any, state: Mapping[str, Any], yaw: Any) -> Any:
        asked = command[:, 0:3]
        if self.mode == "acceleration":
            return asked
        if self.mode == "position":
            return self._position * (asked - state["pos"]) - self._velocity * state["vel"]
        xp, x, y = self._xp, asked[:, 0:1], asked[:, 1:2]
        cos, sin = xp.cos(yaw), xp.sin(yaw)
        wanted = xp.concat((cos * x - sin * y, sin * x + cos * y, asked[:, 2:3]), axis=1)
        return self._velocity * (wanted - state["vel"])

    def _body_rates(self, euler: Any, yaw_rate: Any) -> Any:
        """What a rate of the ZYX yaw is about the body's axes; the limit is that of the body's own z."""
        xp = self._xp
        cos, sin = xp.cos(euler), xp.sin(euler)
        level, most = cos[:, 1:2] * yaw_rate, self._max_yaw_rate
        about_z = xp.minimum(xp.maximum(cos[:, 0:1] * level, -most), most)
        return xp.concat((-sin[:, 1:2] * yaw_rate, sin[:, 0:1] * level, about_z), axis=1)

    def _moment(self, rotation: Any, wanted: Any, wanted_rates: Any, rates: Any) -> Any:
        xp = self._xp
        relative = xp.matmul(transposed(rotation, xp=xp), wanted)
        rate_error = rates - wanted_rates
        gyroscopic = cross(rates, times(self._inertia, rates, xp=xp), xp=xp)
        return gyroscopic - self._rotation * rotation_error(relative, xp=xp) - self._angular_velocity * rate_error


def aggregate_inertia(
    mass_kg: npt.ArrayLike,
    inertia_kg_m2: npt.ArrayLike,
    link_pos: npt.ArrayLike,
    link_quat: npt.ArrayLike,
    com_pos: npt.ArrayLike,
    com_quat: npt.ArrayLike,
    root_quat: npt.ArrayLike,
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Mass (N,) and inertia (N, 3, 3) of B rigid bodies, about their common centre of mass, in the root's axes.

    Args:
        mass_kg: (N, B).
        inertia_kg_m2: (N, B, 3, 3) or (N, B, 9), each about its own centre of mass, in its own mass frame.
        link_pos: (N, B, 3) links in the world [m].
        link_quat: (N, B, 4) their attitudes, (x, y, z, w).
        com_pos: (N, B, 3) centre of mass in the link's frame [m].
        com_quat: (N, B, 4) mass frame to link.
        root_quat: (N, 4) attitude of the root, whose axes the result is in.
    """
    mass = np.asarray(mass_kg, dtype=np.float64)
    n, bodies = mass.shape

    def rotations(quat: npt.ArrayLike, shape: tuple[int, ...]) -> npt.NDArray[np.float64]:
        flat = np.asarray(quat, dtype=np.float64).reshape(-1, 4)
        return np.asarray(rotation_of_xyzw(flat, xp=np)).reshape(*shape, 3, 3)

    inertia = np.asarray(inertia_kg_m2, dtype=np.float64).reshape(n, bodies, 3, 3)
    link, root = rotations(link_quat, (n, bodies)), rotations(root_quat, (n, 1))
    axes = root.swapaxes(-1, -2) @ link @ rotations(com_quat, (n, bodies))
    com_world = np.asarray(link_pos) + (link @ np.asarray(com_pos, dtype=np.float64)[..., None])[..., 0]
    total = mass.sum(axis=1)
    common = (mass[..., None] * com_world).sum(axis=1) / total[:, None]
    arm = (root.swapaxes(-1, -2) @ (com_world - common[:, None])[..., None])[..., 0]
    squared = (arm * arm).sum(axis=-1)[..., None, None] * np.eye(3) - arm[..., :, None] * arm[..., None, :]
    about_own = axes @ inertia @ axes.swapaxes(-1, -2)
    return total, (about_own + mass[..., None, None] * squared).sum(axis=1)
