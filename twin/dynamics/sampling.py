"""Uniform numbers for parameters that are drawn anew for each world, for all worlds at once.

A generator object for each world, as the sensors' noise has, would be a Python loop over worlds at every reset. A
counter-based generator needs none: Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC
2011) of the counter (world, draw, block). World 7 gets the same numbers whether 8 or 8,000 worlds are drawn, and its
third draw is its third draw whatever the other worlds did.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from firmware_profiles.errors import UsageError

FloatArray = npt.NDArray[np.float64]
UintArray = npt.NDArray[np.uint64]

THRUSTER_STREAM, GROUND_DRIVE_STREAM = 1, 2
"""Who draws: first number of a stream. A number once given keeps its meaning."""

_ROUNDS = 10
_MULTIPLIERS = (np.uint64(0xD2511F53), np.uint64(0xCD9E8D57))
_KEY_STEPS = (np.uint64(0x9E3779B9), np.uint64(0xBB67AE85))
_LOW = np.uint64(0xFFFFFFFF)
_WORD = np.uint64(32)


def philox4x32(counter: UintArray, key: UintArray) -> UintArray:
    """(..., 4) counters and (2,) key to (..., 4) random words, all of 32 bits."""
    x0, x1, x2, x3 = (counter[..., index] for index in range(4))
    k0, k1 = key[0], key[1]
    for _ in range(_ROUNDS):
        p0, p1 = _MULTIPLIERS[0] * x0, _MULTIPLIERS[1] * x2
        x0, x1, x2, x3 = (p1 >> _WORD) ^ x1 ^ k0, p1 & _LOW, (p0 >> _WORD) ^ x3 ^ k1, p0 & _LOW
        k0, k1 = (k0 + _KEY_STEPS[0]) & _LOW, (k1 + _KEY_STEPS[1]) & _LOW
    return np.stack((x0, x1, x2, x3), axis=-1)


class WorldSampler:
    """Uniform numbers in [0, 1), for N worlds.

    Args:
        seed: the run's seed, at least 0.
        stream: who draws; different streams are independent.
        n: number of worlds.

    Raises:
        UsageError: the seed is negative.
    """

    def __init__(self, seed: int, stream: tuple[int, ...], n: int) -> None:
        if seed < 0:
            raise UsageError(f"seed {seed} is not possible; allowed: 0 and above")
        self._key = np.random.SeedSequence(seed, spawn_key=stream).generate_state(2).astype(np.uint64)
        self._draws = np.zeros(n, dtype=np.uint64)

    def uniform(self, columns: int, chosen: npt.NDArray[np.bool_]) -> FloatArray:
        """(N, columns) numbers; only the worlds of the (N,) choice use up a draw, and only their rows count."""
        blocks = (columns + 1) // 2
        counter = np.zeros((self._draws.shape[0], blocks, 4), dtype=np.uint64)
        counter[:, :, 0] = np.arange(self._draws.shape[0], dtype=np.uint64)[:, None]
        counter[:, :, 1] = self._draws[:, None]
        counter[:, :, 2] = np.arange(blocks, dtype=np.uint64)
        words = philox4x32(counter, self._key).reshape(self._draws.shape[0], -1)
        self._draws = self._draws + chosen.astype(np.uint64)
        high, low = words[:, 0::2] >> np.uint64(5), words[:, 1::2] >> np.uint64(6)  # 27 and 26 bits
        return np.asarray((high * 2.0**26 + low) * 2.0**-53)[:, :columns]
