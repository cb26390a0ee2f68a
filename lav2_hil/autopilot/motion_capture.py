"""Fusing motion capture: while poses come they lead the estimate, and when they stop GNSS has it back.

What EKF2 does with EKF2_EV_CTRL 11 (position and yaw of the pose) and EKF2_HGT_REF 3, but GNSS stays at hand:

* Poses that for half a second move as the estimate does are believed. The first time the local frame becomes theirs:
  the position goes over to what they say, and home with it, so that the place on the globe stays.
* Position and heading are then taken from them, tilt is not: markers that are put on crooked would tip the vehicle.
* GNSS, barometer and magnetometer do not pull meanwhile. How far GNSS and barometer are from the poses is learnt.
* A pose that is more than five standard deviations off is left out and counted. Without a good one for half a second
  the others lead again, less what was learnt of them: the estimate, and the vehicle, stay where they are.
* Poses that come back are believed if they are within half a metre, and draw the estimate to themselves within seconds.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from lav2_hil.autopilot.sensor_watch import SensorWatch

if TYPE_CHECKING:
    from collections.abc import Sequence

    from firmware_profiles.signals import MotionCapturePose, Quat, Vec3
    from lav2_hil.autopilot.eskf import Eskf

NAME = "motion capture"
START_US = 500_000
LOST_US = 500_000
MAX_GAP_US = 200_000
"""A longer pause between two poses, and believing begins anew."""
GATE = 5.0
MIN_POS_SIGMA_M, MIN_HEADING_SIGMA_RAD = 0.01, 0.005
AGREE_M, AGREE_RAD = 0.15, 0.1
"""How far poses may move from the estimate in half a second before they are believed."""
MAX_HEADING_RAD = math.radians(20.0)
"""Frames of cameras are laid out along north by people; a larger difference to the magnetometer is a mistake."""
MAX_RETURN_M = 0.5
RETURN_S = 2.0
"""Time constant with which poses that are back draw the estimate."""
OFFSET_S = 2.0
"""Time constant of what is learnt of GNSS and barometer."""
_LARGEST_M = 1e5
_HEADING = 8
"""Index of the heading's error in the filter's state; position is 0 to 2, velocity 3 to 5."""


class MotionCaptureFusion:
    """What is believed of the poses of one flight.

    Args:
        delay_samples: age of a pose on arrival, in IMU samples.

    Attributes:
        leads: position, height and heading are those of the poses.
        rejected: poses that were left out because they were too far off.
        offset_ned: where the local origin is as GNSS sees it, relative to the first fix [m]; None before the first pose
            was believed.
        why: why it does not lead; empty while it does.
    """

    def __init__(self, delay_samples: int) -> None:
        self._ago = delay_samples
        self._watch = SensorWatch(NAME, _LARGEST_M)
        self.leads = False
        self.rejected = 0
        self.offset_ned: list[float] | None = None
        self.why = f"no {NAME}"
        self._height_offset_m = 0.0
        self._good_us = 0
        self._reset_counter: int | None = None
        self._apart: Sequence[float] = (0.0, 0.0, 0.0, 0.0)
        self._returned_us = 0
        self._forget()

    def _forget(self) -> None:
        """Nothing gathered of poses that might be believed."""
        self._gathered: list[Sequence[float]] = []
        self._first_us = self._last_us = 0

    def take(self, f: Eskf, now_us: int, pose: MotionCapturePose) -> bool:
        """Take in a pose.

        Returns:
            Whether with this one the local frame has become that of the poses.
        """
        w, x, y, z = pose.q_ned_frd
        if pose.quality < 0 or not self._watch.accepts((*pose.pos_ned, w, x, y, z), now_us):
            return False
        if self._watch.faults(now_us) or abs(w * w + x * x + y * y + z * z - 1.0) > 0.01:
            return False
        if pose.reset_counter != self._reset_counter:
            self._reset_counter = pose.reset_counter
            self._lose(f"{NAME}: its frame has jumped")
        past = f.before(self._ago)
        off = [a - b for a, b in zip(pose.pos_ned, past[0], strict=True)]
        off.append(_turn_down(f, pose.q_ned_frd, past[3]))
        if not self.leads:
            return self._gather(f, now_us, off)
        fade = math.exp(1e-6 * (self._returned_us - now_us) / RETURN_S)
        sigmas = (math.sqrt(pose.pos_variance_m2), math.sqrt(pose.attitude_variance_rad2))
        self._fuse(f, now_us, [value - fade * apart for value, apart in zip(off, self._apart, strict=True)], sigmas)
        return False

    def _fuse(self, f: Eskf, now_us: int, off: Sequence[float], sigmas: tuple[float, float]) -> None:
        pos_sigma, heading_sigma = max(MIN_POS_SIGMA_M, sigmas[0]), max(MIN_HEADING_SIGMA_RAD, sigmas[1])
        errors = [(i, off[i], pos_sigma) for i in range(3)] + [(_HEADING, off[3], heading_sigma)]
        if any(abs(f.ratio(*error)) > GATE for error in errors):
            self.rejected += 1
            return
        self._good_us = now_us
        f.observe(errors)

    def _gather(self, f: Eskf, now_us: int, off: Sequence[float]) -> bool:
        if abs(off[3]) > MAX_HEADING_RAD:
            self.why = f"{NAME} heading is {math.degrees(off[3]):.0f} degrees off"
            self._forget()
            return False
        first = self._gathered[0] if self._gathered else off
        limits = (AGREE_M, AGREE_M, AGREE_M, AGREE_RAD)
        moved = any(abs(a - b) > limit for a, b, limit in zip(off, first, limits, strict=True))
        if moved or now_us - self._last_us > MAX_GAP_US:
            self._forget()
        if not self._gathered:
            self._first_us = now_us
        self._last_us = now_us
        self._gathered.append(off)
        if now_us - self._first_us < START_US:
            return False
        count = len(self._gathered)
        mean = [sum(column) / count for column in zip(*self._gathered, strict=True)]
        self._forget()
        return self._believe(f, now_us, mean)

    def _believe(self, f: Eskf, now_us: int, off: Sequence[float]) -> bool:
        first = self.offset_ned is None
        if first:
            # The filter's doubt is as large as the step: the next pose takes it there, and no other state with it.
            self.offset_ned = [-value for value in off[:3]]
            self._height_offset_m = off[2]
            for index, value in zip((0, 1, 2, _HEADING), off, strict=True):
                f.doubt(index, 4.0 * value * value)
        elif math.hypot(*off[:3]) > MAX_RETURN_M:
            self.why = f"{NAME} is {math.hypot(*off[:3]):.1f} m off"
            return False
        else:
            self._apart, self._returned_us = off, now_us
        self.leads, self.why, self._good_us = True, "", now_us
        return first

    def _lose(self, why: str) -> None:
        if self.leads:
            self.leads, self.why = False, why
        self._forget()

    def tick(self, now_us: int) -> None:
        """Notice that no good pose comes any more."""
        if self.leads and now_us - self._good_us > LOST_US:
            self._lose((self._watch.faults(now_us) or [f"{NAME} gives no good pose"])[0])
        elif not self.leads and self._watch.heard and self._watch.faults(now_us):
            self.why = self._watch.faults(now_us)[0]

    # The sensors that it leads in place of

    def gnss(
        self, f: Eskf, pos: Sequence[float], vel: Vec3, sigmas: tuple[Vec3, Vec3], delay_samples: int, dt: float
    ) -> list[float]:
        """Take in a fix, or only look at it; as `Eskf.correct_gnss`.

        Args:
            f: the filter.
            pos: NED, relative to the first fix [m].
            vel: NED [m/s].
            sigmas: of position and velocity.
            delay_samples: its age in IMU samples.
            dt: time since the fix before [s].

        Returns:
            The six innovations over their standard deviations; 0 for a position that does not count.
        """
        offset = self.offset_ned
        if offset is None:
            return f.correct_gnss(pos, vel, *sigmas)
        if not self.leads:
            return f.correct_gnss([a - b for a, b in zip(pos, offset, strict=True)], vel, *sigmas)
        past = f.before(delay_samples)
        share = min(1.0, dt / OFFSET_S)
        for i in range(3):
            offset[i] += share * (pos[i] - past[0][i] - offset[i])
        return [0.0, 0.0, 0.0, *(f.ratio(3 + i, vel[i] - past[1][i], sigmas[1][i]) for i in range(3))]

    def height(self, f: Eskf, height_m: float, sigma: float, dt: float) -> float:
        """Take in the barometer's height above the first fix, or only look at it; as `Eskf.correct_height`."""
        if not self.leads:
            return f.correct_height(height_m - self._height_offset_m, sigma)
        self._height_offset_m += min(1.0, dt / OFFSET_S) * (height_m + f.pos[2] - self._height_offset_m)
        return 0.0

    def heading(self, f: Eskf, field_ned: Vec3, expected_ned: Vec3, sigma: float) -> float:
        """Take in the magnetometer's heading, or leave it; as `Eskf.correct_heading`."""
        return 0.0 if self.leads else f.correct_heading(field_ned, expected_ned, sigma)


def _turn_down(f: Eskf, q_ned_frd: Quat, turned: Vec3) -> float:
    """How far a pose's attitude is turned to the right of the estimate's at that time [rad].

    It is the down component of the rotation from one to the other, which the filter calls the error of heading.

    Args:
        f: the filter now.
        q_ned_frd: of the pose.
        turned: the filter's running sum of rotation at the time of the pose, FRD [rad].
    """
    hx, hy, hz = (0.5 * (then - now) for then, now in zip(turned, f.turned, strict=True))
    past = _product(f.q, (1.0, hx, hy, hz))
    w, x, y, z = _product(q_ned_frd, (past[0], -past[1], -past[2], -past[3]))
    length = math.sqrt(x * x + y * y + z * z)
    if length < 1e-12:
        return 0.0
    return 2.0 * math.atan2(math.copysign(length, w), abs(w)) * z / length


def _product(a: Quat, b: Quat) -> Quat:
    aw, ax, ay, az = a
    bw, bx, by, bz = b
    return (
        aw * bw - ax * bx - ay * by - az * bz,
        aw * bx + ax * bw + ay * bz - az * by,
        aw * by - ax * bz + ay * bw + az * bx,
        aw * bz + ax * by - ay * bx + az * bw,
    )
