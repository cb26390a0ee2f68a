"""Random numbers per world: one seed, one independent stream for each (world, user of random numbers).

A stream is `Generator(Philox(SeedSequence(seed, spawn_key=(world, key))))`. It depends on nothing else, so world 7 sees
the same numbers whether 8 or 8,000 worlds run, and a new sensor changes nobody else's numbers.
"""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING, Any

import numpy as np

from firmware_profiles.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    FloatArray = npt.NDArray[np.float64]

_MAX_BUFFER = 1 << 21
"""Numbers a block may hold (16 MiB); with many worlds the blocks get shorter, which changes no number."""
_MAX_INTERVALS = 8
"""Sampling intervals whose coefficients are kept: a schedule has two, skipped ticks make more."""


class StreamKey(IntEnum):
    """Who draws. A number once given keeps its meaning: recorded sessions replay from it."""

    IMU = 1
    BAROMETER = 2
    MAGNETOMETER = 3
    GNSS = 4
    PARAMETERS = 5
    ACCEL_FAULT = 6
    GYRO_FAULT = 7
    MAG_FAULT = 8
    BARO_FAULT = 9
    GPS_FAULT = 10
    MOTION_CAPTURE = 11
    MOCAP_FAULT = 12
    STATE_NOISE = 101


class NoiseBlock:
    """Standard normal numbers for N worlds, drawn in blocks so that one step costs an index.

    Args:
        seed: the run's seed, >= 0.
        worlds: number of each world, >= 0, at least one; its order is the order of the rows.
        key: who draws (`StreamKey`); different keys are independent.
        width: numbers per world and step, >= 1.
        block: steps drawn at once, >= 1. It has no influence on the numbers.

    Raises:
        UsageError: an argument is out of range.
    """

    __slots__ = ("_buffer", "_generators", "_key", "_row", "_rows", "_seed", "_width", "_worlds")

    def __init__(self, seed: int, worlds: Sequence[int], key: int, width: int, block: int = 256) -> None:
        self._worlds = tuple(int(world) for world in worlds)
        if seed < 0:
            raise UsageError(f"seed {seed} is not possible; allowed: 0 and above")
        if not self._worlds or min(self._worlds) < 0:
            raise UsageError("worlds must name at least one world; allowed: numbers of 0 and above")
        if key < 0 or width < 1 or block < 1:
            raise UsageError(
                f"key {key}, width {width}, block {block} are not possible; allowed: key >= 0, width >= 1, block >= 1"
            )
        self._seed = int(seed)
        self._key = int(key)
        self._width = width
        self._rows = max(1, min(block, _MAX_BUFFER // (len(self._worlds) * width)))
        self._buffer: FloatArray = np.empty((self._rows, len(self._worlds), width))
        self.reset()

    def reset(self) -> None:
        """Start each stream again: the next numbers are the first ones."""
        self._generators = [
            np.random.Generator(np.random.Philox(np.random.SeedSequence(self._seed, spawn_key=(world, self._key))))
            for world in self._worlds
        ]
        self._row = self._rows  # nothing left in the block: drawn when first asked for

    def next(self) -> FloatArray:
        """The next numbers, (N, width), as a view that holds them until the next call."""
        row = self._row
        if row == self._rows:
            self._draw()
            row = 0
        self._row = row + 1
        numbers: FloatArray = self._buffer[row]
        return numbers

    def next_block(self) -> FloatArray:
        """As many numbers as are drawn at once, (steps, N, width), as a view; not to be mixed with `next`."""
        self._draw()
        return self._buffer

    def _draw(self) -> None:
        shape = (self._rows, self._width)
        for index, generator in enumerate(self._generators):
            self._buffer[:, index] = generator.standard_normal(shape)


class TickNoise:
    """Standard normal numbers that are a function of (seed, world, key, tick) alone: nobody need draw those before.

    A draw costs a generator, some 10 us: for what is rarely on.

    Args:
        seed: the run's seed, >= 0.
        key: who draws (`StreamKey`).
    """

    __slots__ = ("_key", "_keys", "_seed")

    def __init__(self, seed: int, key: int) -> None:
        self._seed = int(seed)
        self._key = int(key)
        self._keys: dict[int, npt.NDArray[Any]] = {}

    def at(self, tick: int, world: int, width: int) -> FloatArray:
        """The numbers of a tick, >= 0, in a world: (width,)."""
        key = self._keys.get(world)
        if key is None:
            sequence = np.random.SeedSequence(self._seed, spawn_key=(world, self._key))
            key = self._keys[world] = sequence.generate_state(2, np.uint64)
        return np.random.Generator(np.random.Philox(counter=tick << 64, key=key)).standard_normal(width)


class GaussMarkov:
    """First-order Gauss-Markov process, discretised exactly: its law does not depend on how often it is looked at.

    x(t + dt) = a x(t) + sigma sqrt(1 - a^2) n with a = exp(-dt / tau) (Gelb, Applied Optimal Estimation, 1974, section
    3.6). It is zero at the first look, not in its stationary distribution: at power-on all sensors then agree with the
    one reference from which the flight controller takes its origin, and what matters afterwards is how far they drift
    from there. Its standard deviation after t is sigma sqrt(1 - exp(-2 t / tau)).

    Args:
        sigma: stationary standard deviation, broadcastable to (N, width).
        tau_s: correlation time [s], > 0, broadcastable to (N, 1).
        worlds: N.
        width: components.

    Raises:
        UsageError: a correlation time is not positive.

    Attributes:
        state: (N, width) the process at the last look.
    """

    __slots__ = ("_coefficients", "_sigma", "_tau_s", "_time_us", "state")

    def __init__(self, sigma: FloatArray, tau_s: FloatArray, worlds: int, width: int) -> None:
        if np.any(tau_s <= 0.0):
            raise UsageError("a correlation time is not positive; allowed: above 0 s")
        self._sigma = sigma
        self._tau_s = tau_s
        self._coefficients: dict[int, tuple[FloatArray, FloatArray]] = {}
        self._time_us: int | None = None
        self.state = np.zeros((worlds, width))

    def reset(self) -> None:
        """Zero again at the next look, whatever its time."""
        self.state = np.zeros_like(self.state)
        self._time_us = None

    def advance(self, time_us: int, normals: FloatArray) -> FloatArray:
        """Look at the process [us], never back in time; `normals` and the result, a fresh array, are (N, width)."""
        if self._time_us is not None:
            decay, drive = self._over(time_us - self._time_us)
            self.state = decay * self.state + drive * normals
        self._time_us = time_us
        return self.state

    def _over(self, elapsed_us: int) -> tuple[FloatArray, FloatArray]:
        coefficients = self._coefficients.get(elapsed_us)
        if coefficients is None:
            if elapsed_us < 0:
                raise ValueError(f"a Gauss-Markov process was asked to go back by {-elapsed_us} us")
            if len(self._coefficients) >= _MAX_INTERVALS:
                self._coefficients.clear()
            decay = np.exp(-1e-6 * elapsed_us / self._tau_s)
            coefficients = self._coefficients[elapsed_us] = (decay, self._sigma * np.sqrt(1.0 - decay * decay))
        return coefficients


def per_world(value: float | FloatArray, worlds: int, name: str) -> FloatArray:
    """A parameter as a column that broadcasts over worlds: (1, 1) from a number, (N, 1) from one value per world.

    Raises:
        UsageError: the shape is neither a number nor (N, 1), or a value is negative or not finite.
    """
    array = np.asarray(value, dtype=np.float64)
    if array.ndim == 0:
        array = array.reshape(1, 1)
    if array.shape not in ((1, 1), (worlds, 1)):
        raise UsageError(f"{name} has shape {array.shape}; allowed: a number, or ({worlds}, 1), one value per world")
    if not np.all(np.isfinite(array)) or np.any(array < 0.0):
        raise UsageError(f"{name} holds a negative or non-finite value; allowed: finite, 0 and above")
    return array
