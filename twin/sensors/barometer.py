"""Barometer: static pressure with white noise and a slow drift."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from twin.environment import pressure_altitude_m, pressure_hpa_at, temperature_c_at
from twin.random_streams import GaussMarkov, NoiseBlock, StreamKey, per_world
from twin.sensors.schedule import SampleSchedule

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from firmware_profiles.profile import BarometerParams

    FloatArray = npt.NDArray[np.float64]


class Barometer:
    """Samples at its own rate; noise is Gaussian on each sample, the drift a Gauss-Markov process from zero.

    Args:
        params: each value but the rate may be a number or (N, 1).
        tick_us: length of a tick [us].
        seed: the run's seed.
        worlds: number of each world, N of them.

    Raises:
        UsageError: a value has another shape or is negative, or the rate is above the tick rate.
    """

    __slots__ = ("_drift", "_due", "_noise", "_tick_us", "_white")

    def __init__(self, params: BarometerParams, *, tick_us: int, seed: int, worlds: Sequence[int]) -> None:
        n = len(worlds)
        self._due = SampleSchedule(params.rate_hz, tick_us).due
        self._tick_us = tick_us
        self._white = per_world(params.noise_hpa, n, "noise_hpa")[:, 0]
        self._drift = GaussMarkov(
            per_world(params.drift_hpa, n, "drift_hpa"),
            per_world(params.drift_time_constant_s, n, "drift_time_constant_s"),
            n,
            1,
        )
        self._noise = NoiseBlock(seed, worlds, StreamKey.BAROMETER, 2)

    def reset(self) -> None:
        """Drift back to zero at tick 0, noise from its beginning."""
        self._drift.reset()
        self._noise.reset()

    def sample(self, tick: int, alt_amsl_m: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray] | None:
        """Measure at a tick, if the sensor is due; ticks never go back.

        Args:
            tick: counted from 0.
            alt_amsl_m: (N,) height above mean sea level [m].

        Returns:
            None when not due, else pressure [hPa], PX4's altitude for that pressure [m AMSL] and air temperature
            [degrees C], each (N,).
        """
        if not self._due(tick):
            return None
        normals = self._noise.next()
        drift = self._drift.advance(tick * self._tick_us, normals[:, 1:])
        pressure_hpa = pressure_hpa_at(alt_amsl_m) + self._white * normals[:, 0] + drift[:, 0]
        return pressure_hpa, pressure_altitude_m(pressure_hpa), temperature_c_at(alt_amsl_m)
