"""PX4's differential rover in PX4's own quantities: normalised throttle and speed difference, yaw clockwise (NED).

`DifferentialDriveController` is what drives the twin; these are for comparing with a board, and for reading its sticks.
Motor 1 is the right wheel, motor 2 the left one. Source: PX4 src/modules/rover_differential (DifferentialActControl,
DifferentialRateControl), src/lib/rover_control, the former differential_drive module, and lib/mathlib; restated.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from twin.control.arrays import Arrays, checked


def _within(value: Any, limit: Any, xp: Any) -> Any:
    return xp.minimum(xp.maximum(value, -limit), limit)


def mix_throttle(throttle: Any, difference: Any, *, xp: Any = np) -> tuple[Any, Any]:
    """Throttle and half difference (positive turns right) to (right, left), as PX4 has them before its last cut.

    What both are above 1 together is taken from the throttle. At a throttle of exactly 0 nothing can be taken, and a
    difference above 1 pushes the throttle beyond 0: both are PX4's.
    """
    over = xp.maximum(abs(throttle) + abs(difference) - 1.0, xp.zeros_like(throttle))
    throttle = throttle - xp.sign(throttle) * over
    return throttle - difference, throttle + difference


def yaw_rate_feed_forward(yaw_rate: Any, *, track: Any, correction: Any, full_speed: Any, xp: Any = np) -> Any:
    """Half difference, at most 1, for a yaw rate [rad/s]: RD_WHEEL_TRACK, RO_YAW_RATE_CORR, RO_MAX_THR_SPEED."""
    ahead = yaw_rate * track * 0.5 * correction / full_speed
    return _within(ahead, xp.ones_like(ahead), xp)


def wheel_kinematics(
    speed: Any, yaw_rate: Any, *, track: Any, max_speed: Any, max_yaw_rate: Any, xp: Any = np
) -> tuple[Any, Any]:
    """The former differential_drive module: speed [m/s] and yaw rate to (v - w b/2, v + w b/2) over the full speed."""
    speed = _within(speed, max_speed, xp)
    half = _within(yaw_rate, max_yaw_rate, xp) * track * 0.5
    over = xp.maximum(abs(speed) + abs(half) - max_speed, xp.zeros_like(speed))
    speed = speed - xp.sign(speed) * over
    return (speed - half) / max_speed, (speed + half) / max_speed


def deadzone(stick: Any, width: Any, *, xp: Any = np) -> Any:
    """A stick without its middle, continuous and still reaching 1."""
    beyond = xp.maximum(abs(stick) - width, xp.zeros_like(stick))
    return xp.sign(stick) * beyond / (1.0 - width)


def superexpo(stick: Any, expo: Any, superexpo: Any) -> Any:
    """A stick made gentle in the middle: expo in [0, 1], superexpo in [0, 0.99]."""
    cubic = (1.0 - expo) * stick + expo * stick * stick * stick
    return cubic * (1.0 - superexpo) / (1.0 - abs(stick) * superexpo)


def slew(previous: Any, wanted: Any, measured: Any, rise: float, fall: float, *, xp: Any = np) -> Any:
    """A set-point that moves by a limited step, unless what is measured is already closer to where it goes.

    Args:
        previous: set-point of the step before.
        wanted: where it is to go.
        measured: the quantity itself: whether it is to grow or to shrink chooses the limit.
        rise: largest step when it is to grow; 0 or less is none.
        fall: likewise, when it is to shrink.
        xp: array namespace.
    """

    def step(limit: float) -> Any:
        if limit <= 0.0:
            return wanted
        moved = previous + _within(wanted - previous, xp.ones_like(wanted) * limit, xp)
        return xp.where(abs(moved - measured) > abs(wanted - measured), wanted, moved)

    return xp.where(abs(wanted) >= abs(measured), step(rise), step(fall))


@dataclass(frozen=True, slots=True)
class RoverRateParams:
    """PX4's parameters of the yaw-rate loop; rates in rad/s.

    Attributes:
        track_m: RD_WHEEL_TRACK; 0, like a `full_speed_m_s` of 0, is no feed-forward.
        correction: RO_YAW_RATE_CORR.
        full_speed_m_s: RO_MAX_THR_SPEED.
        p, i: RO_YAW_RATE_P, RO_YAW_RATE_I.
        accel_rad_s2, decel_rad_s2: RO_YAW_ACCEL_LIM, RO_YAW_DECEL_LIM; 0 or less is none.
        threshold_rad_s: RO_YAW_RATE_TH: what is not above it counts as 0.
        integral_limit, output_limit: normalised.

    Raises:
        UsageError: a value outside of its range.
    """

    track_m: float
    full_speed_m_s: float
    correction: float = 1.0
    p: float = 0.0
    i: float = 0.0
    accel_rad_s2: float = -1.0
    decel_rad_s2: float = -1.0
    threshold_rad_s: float = math.radians(3.0)
    integral_limit: float = 1.0
    output_limit: float = 1.0

    def __post_init__(self) -> None:
        for name in ("track_m", "full_speed_m_s", "correction", "p", "i", "threshold_rad_s"):
            checked(name, getattr(self, name), least=0.0)
        for name in ("integral_limit", "output_limit"):
            checked(name, getattr(self, name), above=0.0)
        for name in ("accel_rad_s2", "decel_rad_s2"):
            checked(name, getattr(self, name))


class RoverRateLoop:
    """PX4's yaw-rate loop of N rovers: a slewed set-point, feed-forward, P and I, to a half difference.

    Args:
        params: see `RoverRateParams`.
        dt_s: time between two updates [s].
        arrays: where the arrays live; by default NumPy, float64, one world.

    Attributes:
        adjusted: (N, 1) the slewed set-point [rad/s].
    """

    def __init__(self, params: RoverRateParams, dt_s: float, arrays: Arrays | None = None) -> None:
        checked("dt_s", dt_s, above=0.0)
        arrays = Arrays() if arrays is None else arrays
        self._params, self._dt_s, self._xp, self._arrays = params, dt_s, arrays.xp, arrays
        self._zero = self.adjusted = self._integral = arrays.zeros(1)

    def reset(self, worlds: Any = None) -> None:
        """Set-point and integral of some worlds, or of all, back to nothing."""
        mask, where = self._arrays.mask(worlds), self._xp.where
        self.adjusted = where(mask, self._zero, self.adjusted)
        self._integral = where(mask, self._zero, self._integral)

    def update(self, wanted: Any, measured: Any) -> Any:
        """One step: yaw rates (N, 1) [rad/s], wanted and measured, clockwise positive, to half differences (N, 1)."""
        xp, params, zero = self._xp, self._params, self._zero
        wanted = xp.where(abs(wanted) > params.threshold_rad_s, wanted, zero)
        measured = xp.where(abs(measured) > params.threshold_rad_s, measured, zero)
        rise, fall = params.accel_rad_s2 * self._dt_s, params.decel_rad_s2 * self._dt_s
        self.adjusted = adjusted = slew(self.adjusted, wanted, measured, rise, fall, xp=xp)
        output = zero
        if params.track_m > 0.0 and params.full_speed_m_s > 0.0:
            output = yaw_rate_feed_forward(
                adjusted, track=params.track_m, correction=params.correction, full_speed=params.full_speed_m_s, xp=xp
            )
        error, limit = adjusted - measured, zero + params.output_limit
        output = output + _within(params.p * error + self._integral, limit, xp)
        # The integral is used before it is updated, as in PX4's PID; a set-point of 0 stops the wheels and forgets it.
        grown = _within(self._integral + (params.i * self._dt_s) * error, zero + params.integral_limit, xp)
        standing = adjusted == 0
        self._integral = xp.where(standing, zero, grown)
        return xp.where(standing, zero, _within(output, limit, xp))
