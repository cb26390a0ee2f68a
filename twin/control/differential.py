"""The controller of a differential drive: position, heading or yaw rate to the speeds of left and right output shaft.

v_left = v - B psi_dot / 2, v_right = v + B psi_dot / 2. Source: seed "controllers" (LAV2), whose limits and gains are
the defaults; the saturation is that of PX4's DifferentialActControl and of the `diff_wheel_ctrl` that the seed names.

What the seed leaves open, and what is done here:

* Forward speed comes from the part of the position error that lies ahead of the nose. A vehicle that looks away from
  its target turns on the spot; it never reverses and never drives away.
* The acceptance radius itself counts as inside. The bearing is used outside only, so it is always defined.
* A vehicle stops just inside, where an error of its position may carry it out again, and its final heading with it:
  `leave_radius_m` may be larger, and then it is outside again only beyond that.
* Inside, without a final heading in the control mask, the yaw rate is 0.
* Heading errors are wrapped to [-pi, pi]; at exactly half a turn the way round is the sign of the difference.
* The derivative of a heading is the measured yaw rate, and that of the position the measured forward speed: neither
  jumps where an angle wraps, nor where the target does.
* The heading loop's integral starts anew when the goal changes from bearing to final heading or back.
* Bearings are directions in the world, so the nose's heading is taken from all three angles of `att_euler`; on flat
  ground it is the third one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from firmware_profiles.errors import UsageError
from twin.control.arrays import Arrays, checked
from twin.control.base import ControllerBase, Entry
from twin.control.pid import Pid, PidGains
from twin.frames import heading_of_euler_xyz


@dataclass(frozen=True, slots=True)
class DriveGains:
    """Gains of the two loops, from the seed: those of the vehicle's parameter log.

    Attributes:
        position: to forward speed [m/s per m].
        heading: to yaw rate [rad/s per rad]; the integral's limit is ours.
    """

    position: PidGains = field(default_factory=lambda: PidGains(5.0, 0.0, 0.0))
    heading: PidGains = field(default_factory=lambda: PidGains(5.0, 0.15, 0.001, integral_limit=0.5))


class DifferentialDriveController(ControllerBase):
    """The drive of N worlds.

    Entries (`control_mask`): `cmd_pos` takes `pos` (x and y), and if the mask names `att_euler` the final heading, its
    third angle; `cmd_ctatt` takes forward speed, the first component of `vel_b`, and heading; `cmd_ctbr` takes forward
    speed and yaw rate, the third component of `ang_vel`. States: `pos`, `att_euler`, `vel_b`, `ang_vel`.

    Args:
        dt_s: time between two calls of `update` [s].
        width_m: effective width B of the allocation, from the measured yaw response: wider than the tracks are apart,
            where tracks or wheels skid. It and the others broadcast to (N, 1).
        wheel_radius_m: of the output shaft's wheel.
        max_speed_m_s: largest forward speed.
        max_yaw_rate_rad_s: largest yaw rate.
        acceptance_radius_m: within it of the target the vehicle does not drive any more.
        leave_radius_m: once inside, it counts as outside only beyond this; None is the acceptance radius.
        side_limit_m_s: largest speed of a side; None is the largest forward speed.
        gains: see `DriveGains`.
        control_mask: the entry.
        arrays: where the arrays live, and of how many worlds; by default NumPy, float64, one world.

    Raises:
        UsageError: a parameter that cannot be.
    """

    entries = (
        Entry("cmd_pos", frozenset({"pos"}), (), frozenset({"att_euler"})),
        Entry("cmd_ctatt", frozenset({"vel_b", "att_euler"})),
        Entry("cmd_ctbr", frozenset({"vel_b", "ang_vel"})),
    )

    def __init__(
        self,
        *,
        dt_s: float,
        width_m: npt.ArrayLike,
        wheel_radius_m: npt.ArrayLike,
        max_speed_m_s: npt.ArrayLike = 2.5,
        max_yaw_rate_rad_s: float = 7.0,
        acceptance_radius_m: npt.ArrayLike = 0.5,
        leave_radius_m: npt.ArrayLike | None = None,
        side_limit_m_s: npt.ArrayLike | None = None,
        gains: DriveGains | None = None,
        control_mask: str | Mapping[str, bool] = "cmd_pos",
        arrays: Arrays | None = None,
    ) -> None:
        arrays = Arrays() if arrays is None else arrays
        gains = DriveGains() if gains is None else gains
        side_limit_m_s = max_speed_m_s if side_limit_m_s is None else side_limit_m_s
        for name, value in (
            ("width_m", width_m),
            ("wheel_radius_m", wheel_radius_m),
            ("max_speed_m_s", max_speed_m_s),
            ("max_yaw_rate_rad_s", max_yaw_rate_rad_s),
            ("side_limit_m_s", side_limit_m_s),
        ):
            checked(name, value, above=0.0)
        leave_radius_m = acceptance_radius_m if leave_radius_m is None else leave_radius_m
        checked("acceptance_radius_m", acceptance_radius_m, least=0.0)
        checked("leave_radius_m", leave_radius_m, least=float(np.max(acceptance_radius_m)))
        if min(gains.heading.output_limit, gains.position.output_limit) != float("inf"):
            raise UsageError("gains: the outputs are limited by max_speed_m_s and max_yaw_rate_rad_s")
        self._xp, spread = arrays.xp, arrays.spread
        self._half_width = spread("width_m", width_m, 1) * 0.5
        self._per_radius = 1.0 / spread("wheel_radius_m", wheel_radius_m, 1)
        self._max_speed = spread("max_speed_m_s", max_speed_m_s, 1)
        self._max_yaw_rate = spread("max_yaw_rate_rad_s", max_yaw_rate_rad_s, 1)
        self._radius = spread("acceptance_radius_m", acceptance_radius_m, 1)
        self._leave_radius = spread("leave_radius_m", leave_radius_m, 1)
        self._side_limit = spread("side_limit_m_s", side_limit_m_s, 1)
        self._zero = arrays.zeros(1)
        self._position = Pid(gains.position, 1, dt_s, arrays)
        self._heading = Pid(replace(gains.heading, output_limit=max_yaw_rate_rad_s), 1, dt_s, arrays)
        self._arrays = arrays
        self._outside = self._was_inside = self._zero > 0
        super().__init__(control_mask)

    def _selected(self) -> None:
        self._final_heading = self.control_mask["att_euler"]

    def reset(self, worlds: Any = None) -> None:
        """Forget the integrals of some worlds, or of all, and that they were inside."""
        self._was_inside = self._xp.where(self._arrays.mask(worlds), self._outside, self._was_inside)
        self._position.reset(worlds)
        self._heading.reset(worlds)

    def update(self, target: Mapping[str, Any], state: Mapping[str, Any]) -> Any:
        """One step.

        Returns:
            (N, 2): speeds of the left and the right output shaft [rad/s]; both positive is forward.

        Raises:
            UsageError: target or state lacks an entry.
        """
        try:
            if self.mode == "cmd_pos":
                return self.allocate(*self._to_position(target, state))
            speed = target["vel_b"][:, 0:1]
            if self.mode == "cmd_ctbr":
                return self.allocate(speed, target["ang_vel"][:, 2:3])
            heading = heading_of_euler_xyz(state["att_euler"], xp=self._xp)
            error = self._wrapped(target["att_euler"][:, 2:3] - heading)
            return self.allocate(speed, self._heading.update(error, rate=state["ang_vel"][:, 2:3]))
        except KeyError as error:
            raise self._missing(error) from None

    def allocate(self, speed_m_s: Any, yaw_rate_rad_s: Any) -> Any:
        """Forward speed and yaw rate (counter-clockwise positive), each (N, 1), to shaft speeds (N, 2) [rad/s].

        Both are limited; then, if a side would be too fast, both sides are shifted alike, so that the difference,
        the yaw rate, stays, and forward speed pays for it.
        """
        speed = self._within(speed_m_s, self._max_speed)
        half = self._within(self._within(yaw_rate_rad_s, self._max_yaw_rate) * self._half_width, self._side_limit)
        centre = self._within(speed, self._side_limit - abs(half))
        return self._xp.concat(((centre - half) * self._per_radius, (centre + half) * self._per_radius), axis=1)

    def _to_position(self, target: Mapping[str, Any], state: Mapping[str, Any]) -> tuple[Any, Any]:
        xp, zero = self._xp, self._zero
        away = target["pos"] - state["pos"]
        x, y = away[:, 0:1], away[:, 1:2]
        distance = xp.hypot(x, y)
        heading = heading_of_euler_xyz(state["att_euler"], xp=xp)
        yaw_rate = state["ang_vel"][:, 2:3]
        inside = distance <= xp.where(self._was_inside, self._leave_radius, self._radius)
        bearing_error = self._wrapped(xp.atan2(y, x) - heading)

        ahead = xp.where(inside, zero, xp.maximum(distance * xp.cos(bearing_error), zero))
        self._position.forget_integral(inside)
        speed = self._position.update(ahead, rate=state["vel_b"][:, 0:1])
        speed = xp.where(inside, zero, xp.maximum(speed, zero))

        self._heading.forget_integral(inside != self._was_inside)
        self._was_inside = inside
        if self._final_heading:
            error = xp.where(inside, self._wrapped(target["att_euler"][:, 2:3] - heading), bearing_error)
            return speed, self._heading.update(error, rate=yaw_rate)
        turn = self._heading.update(xp.where(inside, zero, bearing_error), rate=yaw_rate)
        return speed, xp.where(inside, zero, turn)

    def _within(self, value: Any, limit: Any) -> Any:
        return self._xp.minimum(self._xp.maximum(value, -limit), limit)

    def _wrapped(self, angle: Any) -> Any:
        return self._xp.atan2(self._xp.sin(angle), self._xp.cos(angle))
