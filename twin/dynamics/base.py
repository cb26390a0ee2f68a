"""What all dynamics have in common: N worlds side by side, one code path for all array libraries, a reset for some."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np
import numpy.typing as npt

from twin.control.arrays import Arrays


class DynamicsBase(ABC):
    """Dynamics of N worlds; every array has a leading axis over them.

    Args:
        arrays: library, precision, device and number of worlds.
    """

    def __init__(self, arrays: Arrays) -> None:
        self._arrays = arrays
        self._xp = arrays.xp

    @property
    def n(self) -> int:
        """Number of worlds."""
        return self._arrays.n

    @abstractmethod
    def reset(self, worlds: Any = None) -> None:
        """Back to the start.

        Args:
            worlds: which ones, as indices, a slice or an (N,) mask; None is all of them.

        Raises:
            UsageError: no such world.
        """

    def _rows(self, worlds: Any) -> npt.NDArray[np.bool_]:
        """(N,) truth of a choice of worlds, in this process's memory."""
        if isinstance(worlds, slice):
            worlds = np.arange(self.n)[worlds]
        rows: npt.NDArray[np.bool_] = Arrays(self.n).mask(worlds)[:, 0]
        return rows

    def _chosen(self, worlds: Any) -> Any:
        """(N, 1) the same where the arrays live."""
        return self._arrays.mask(self._rows(worlds))
