"""Motion capture: cameras around the place measure the vehicle's pose; it arrives a little later."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from firmware_profiles.signals import MotionCapturePose
from twin.frames import quat_multiply, vec3
from twin.random_streams import NoiseBlock, StreamKey, per_world
from twin.sensors.schedule import SampleSchedule, ticks_to_wait

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from firmware_profiles.motion_capture import MotionCaptureParams

    FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class MotionCaptureBatch:
    """One pose of each world.

    Attributes:
        pos_ned: (N, 3) position of the body's origin relative to home [m].
        q_ned_frd: (N, 4) unit quaternions, w first and not negative, that take FRD body vectors to NED.
        pos_sigma_m, attitude_sigma_rad: (N, 1) or (1, 1) standard deviations of both, for each axis.
        age_us: how long ago, at the delivery, both were true.
    """

    pos_ned: FloatArray
    q_ned_frd: FloatArray
    pos_sigma_m: FloatArray
    attitude_sigma_rad: FloatArray
    age_us: int

    def pose(self, time_us: int, world: int) -> MotionCapturePose:
        """One world's pose as it is reported, delivered at a time."""
        w, x, y, z = self.q_ned_frd[world].tolist()
        return MotionCapturePose(
            measured_us=time_us - self.age_us,
            pos_ned=vec3(self.pos_ned[world]),
            q_ned_frd=(w, x, y, z),
            pos_variance_m2=_of_world(self.pos_sigma_m, world) ** 2,
            attitude_variance_rad2=_of_world(self.attitude_sigma_rad, world) ** 2,
        )


class MotionCapture:
    """Measures at its rate and delivers each pose `delay_s` later, rounded up to whole ticks.

    Position has white noise on each axis; attitude is turned by a small random angle about each body axis.

    Args:
        params: each noise value may be a number or (N, 1); rate and delay are numbers.
        tick_us: length of a tick [us].
        seed: the run's seed.
        worlds: number of each world, N of them.

    Raises:
        UsageError: a value has another shape or is negative, or the rate is above the tick rate.

    Attributes:
        delay_ticks: ticks from measurement to delivery.
    """

    __slots__ = ("_attitude_sigma", "_due", "_noise", "_pending", "_pos_sigma", "_tick_us", "delay_ticks")

    def __init__(self, params: MotionCaptureParams, *, tick_us: int, seed: int, worlds: Sequence[int]) -> None:
        n = len(worlds)
        self._due = SampleSchedule(params.rate_hz, tick_us).due
        self._tick_us = tick_us
        self.delay_ticks = ticks_to_wait(params.delay_s, tick_us)
        self._pos_sigma = per_world(params.position_noise_m, n, "position_noise_m")
        self._attitude_sigma = per_world(params.attitude_noise_rad, n, "attitude_noise_rad")
        self._noise = NoiseBlock(seed, worlds, StreamKey.MOTION_CAPTURE, 6)
        self._pending: deque[tuple[int, FloatArray, FloatArray]] = deque()

    def reset(self) -> None:
        """Nothing under way, noise from its beginning."""
        self._pending.clear()
        self._noise.reset()

    def due(self, tick: int) -> bool:
        """Whether `sample` measures at this tick: asked first, it saves preparing a pose that nobody reads."""
        return self._due(tick)

    def sample(self, tick: int, pos_ned: FloatArray, q_ned_frd: FloatArray) -> MotionCaptureBatch | None:
        """Measure and deliver, once a tick; ticks never go back.

        Args:
            tick: counted from 0.
            pos_ned: (N, 3) true position of the body's origin relative to home [m].
            q_ned_frd: (N, 4) its true attitude.

        Returns:
            The pose that arrives at this tick, or None.
        """
        pending = self._pending
        if self._due(tick):
            normals = self._noise.next()
            q = quat_multiply(q_ned_frd, _small_rotation(self._attitude_sigma * normals[:, 3:]))
            q = np.where(q[:, :1] < 0.0, -q, q)
            pending.append((tick, pos_ned + self._pos_sigma * normals[:, :3], q))
        if not pending or tick - pending[0][0] < self.delay_ticks:
            return None
        measured, pos, q = pending.popleft()
        return MotionCaptureBatch(pos, q, self._pos_sigma, self._attitude_sigma, (tick - measured) * self._tick_us)


def _of_world(column: FloatArray, world: int) -> float:
    return float(column[world if len(column) > 1 else 0, 0])


def _small_rotation(angles: FloatArray) -> FloatArray:
    """(N, 3) small angles about the three axes [rad] to unit quaternions (N, 4), w first."""
    q = np.concatenate((np.ones((len(angles), 1)), 0.5 * angles), axis=1)
    unit: FloatArray = q / np.linalg.norm(q, axis=1, keepdims=True)
    return unit
