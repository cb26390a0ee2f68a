"""A ring of rows in memory that two processes share: one writes, one reads, and neither ever waits for the other."""

from __future__ import annotations

import mmap
import os

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]

_HEAD_BYTES = 64
_NUMBER_BYTES = 8


class SharedRing:
    """The newest rows of a stream; row i stays until row i + `rows` is begun.

    The memory has no name (memfd), so nothing is left of it when both processes are gone, however they ended. The
    count of rows is written after the row, and read again after a row was copied, so that one that was overwritten
    meanwhile is noticed; that takes a processor that shows stores in their order, or a writer as slow as Python.

    Args:
        fd: of the memory, from `allocate`; may be closed afterwards.
        rows: how many it holds.
        width: float64 numbers in a row.
    """

    def __init__(self, fd: int, rows: int, width: int) -> None:
        memory = mmap.mmap(fd, _size(rows, width))
        self._count = np.frombuffer(memory, dtype=np.int64, count=1)
        self._rows = np.frombuffer(memory, dtype=np.float64, offset=_HEAD_BYTES).reshape(rows, width)
        self._length = rows
        self._written = int(self._count[0])

    @staticmethod
    def allocate(name: str, rows: int, width: int) -> int:
        """Memory for a ring, with nothing in it: its file descriptor. The name is for people (/proc/PID/maps)."""
        fd = os.memfd_create(name)
        os.ftruncate(fd, _size(rows, width))
        return fd

    @property
    def count(self) -> int:
        """Rows written so far."""
        return int(self._count[0])

    def next_row(self) -> FloatArray:
        """(width,) the row to be filled next; `publish` shows it. Only for the one that writes."""
        row: FloatArray = self._rows[self._written % self._length]
        return row

    def publish(self) -> None:
        """The row is filled."""
        self._written += 1
        self._count[0] = self._written

    def read(self, index: int) -> FloatArray | None:
        """(width,) a copy of a row, by its number from 0; None if it is not there yet, or no more."""
        if not 0 <= index < self.count:
            return None
        row: FloatArray = self._rows[index % self._length].copy()
        # The row that comes next may be half written, into the place of the oldest.
        return row if self.count - index < self._length else None


def _size(rows: int, width: int) -> int:
    return _HEAD_BYTES + _NUMBER_BYTES * rows * width
