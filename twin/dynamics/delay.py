"""Commands that arrive late: whole steps of delay, different from world to world."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]


class CommandDelay:
    """A ring of past commands, from which each world takes an older one.

    Args:
        delay_s: (N, 1) delay [s], taken as whole steps: the nearest number of them.
        dt_s: length of a step [s].
        width: numbers in a world's command.
    """

    def __init__(self, delay_s: FloatArray, dt_s: float, width: int) -> None:
        self.steps = np.rint(delay_s[:, 0] / dt_s).astype(np.int64)
        self._length = int(self.steps.max()) + 1
        self._worlds = np.arange(delay_s.shape[0])
        self._ring = np.zeros((self._length, delay_s.shape[0], width))
        self._now = 0

    def reset(self) -> None:
        """Nothing is on its way but zeros."""
        self._ring[:] = 0.0

    def step(self, command: FloatArray) -> FloatArray:
        """(N, width) command sent at this step to the one that arrives."""
        self._now = (self._now + 1) % self._length
        self._ring[self._now] = command
        arrived: FloatArray = self._ring[(self._now - self.steps) % self._length, self._worlds]
        return arrived
