"""Magnetometer: the field in the body frame with white noise."""

from __future__ import annotations

from typing import TYPE_CHECKING

from twin.random_streams import NoiseBlock, StreamKey, per_world
from twin.sensors.schedule import SampleSchedule

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    import numpy.typing as npt

    from firmware_profiles.profile import MagnetometerParams

    FloatArray = npt.NDArray[np.float64]


class Magnetometer:
    """Samples at its own rate; noise is Gaussian on each sample and axis.

    Args:
        params: the noise may be a number or (N, 1).
        tick_us: length of a tick [us].
        seed: the run's seed.
        worlds: number of each world, N of them.

    Raises:
        UsageError: a value has another shape or is negative, or the rate is above the tick rate.
    """

    __slots__ = ("_due", "_noise", "_white")

    def __init__(self, params: MagnetometerParams, *, tick_us: int, seed: int, worlds: Sequence[int]) -> None:
        self._due = SampleSchedule(params.rate_hz, tick_us).due
        self._white = per_world(params.noise_gauss, len(worlds), "noise_gauss")
        self._noise = NoiseBlock(seed, worlds, StreamKey.MAGNETOMETER, 3)

    def due(self, tick: int) -> bool:
        """Whether `sample` measures at this tick: asked first, it saves rotating a field that nobody reads."""
        return self._due(tick)

    def reset(self) -> None:
        """Noise from its beginning."""
        self._noise.reset()

    def sample(self, tick: int, mag_frd: FloatArray) -> FloatArray | None:
        """Measure at a tick, if the sensor is due.

        Args:
            tick: counted from 0.
            mag_frd: (N, 3) noise-free field in the body frame, FRD [gauss]; (1, 3) broadcasts.

        Returns:
            None when not due, else the reading (N, 3) [gauss].
        """
        if not self._due(tick):
            return None
        return mag_frd + self._white * self._noise.next()
