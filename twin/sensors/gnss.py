"""GNSS receiver: position and velocity, measured at one tick and delivered at a later one."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from twin.random_streams import GaussMarkov, NoiseBlock, StreamKey, per_world
from twin.sensors.schedule import SampleSchedule, ticks_to_wait

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from firmware_profiles.profile import GnssParams

    FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class GnssBatch:
    """One fix of each world.

    Attributes:
        pos_ned: (N, 3) position relative to home [m].
        vel_ned: (N, 3) velocity [m/s].
        measured_tick: the tick at which both were true; the fix's UTC is that tick's, not the one of delivery.
    """

    pos_ned: FloatArray
    vel_ned: FloatArray
    measured_tick: int


class Gnss:
    """Measures at its rate and delivers each fix `delay_s` later, rounded up to whole ticks.

    Deliveries therefore come at the rate of the measurements, later by a constant number of ticks. Position has white
    noise and a Gauss-Markov drift from zero, velocity white noise; horizontal values hold for north and for east.

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

    __slots__ = ("_drift", "_due", "_noise", "_pending", "_tick_us", "_vel_sigma", "_white", "delay_ticks")

    def __init__(self, params: GnssParams, *, tick_us: int, seed: int, worlds: Sequence[int]) -> None:
        n = len(worlds)

        def north_east_down(horizontal: str, vertical: str) -> FloatArray:
            across = np.broadcast_to(per_world(getattr(params, horizontal), n, horizontal), (n, 2))
            down = np.broadcast_to(per_world(getattr(params, vertical), n, vertical), (n, 1))
            return np.concatenate((across, down), axis=1)

        self._due = SampleSchedule(params.rate_hz, tick_us).due
        self._tick_us = tick_us
        self.delay_ticks = ticks_to_wait(params.delay_s, tick_us)
        self._white = north_east_down("horizontal_noise_m", "vertical_noise_m")
        self._drift = GaussMarkov(
            north_east_down("horizontal_drift_m", "vertical_drift_m"),
            per_world(params.drift_time_constant_s, n, "drift_time_constant_s"),
            n,
            3,
        )
        self._vel_sigma = per_world(params.velocity_noise_m_s, n, "velocity_noise_m_s")
        self._noise = NoiseBlock(seed, worlds, StreamKey.GNSS, 9)
        self._pending: deque[GnssBatch] = deque()

    def reset(self) -> None:
        """Nothing under way, drift back to zero at tick 0, noise from its beginning."""
        self._pending.clear()
        self._drift.reset()
        self._noise.reset()

    def due(self, tick: int) -> bool:
        """Whether `sample` measures at this tick: asked first, it saves preparing a state that nobody reads."""
        return self._due(tick)

    def sample(self, tick: int, pos_ned: FloatArray, vel_ned: FloatArray) -> GnssBatch | None:
        """Measure and deliver, once a tick; ticks never go back.

        Args:
            tick: counted from 0.
            pos_ned: (N, 3) true position of the antenna relative to home [m].
            vel_ned: (N, 3) its true velocity [m/s].

        Returns:
            The fix that arrives at this tick, or None.
        """
        pending = self._pending
        if self._due(tick):
            pending.append(self._measure(tick, pos_ned, vel_ned))
        if pending and tick - pending[0].measured_tick >= self.delay_ticks:
            return pending.popleft()
        return None

    def _measure(self, tick: int, pos_ned: FloatArray, vel_ned: FloatArray) -> GnssBatch:
        normals = self._noise.next()
        drift = self._drift.advance(tick * self._tick_us, normals[:, 3:6])
        return GnssBatch(
            pos_ned + drift + self._white * normals[:, :3],
            vel_ned + self._vel_sigma * normals[:, 6:],
            tick,
        )
