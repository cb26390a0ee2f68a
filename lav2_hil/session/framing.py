"""How records go from the loop's process to the recorder's: one after the other on a pipe."""

from __future__ import annotations

import struct
from collections.abc import Iterator

FRAME = struct.Struct("<BIq")
"""Kind, length of the data that follow, time_us."""

HEADER = 0
"""In place of a kind, first on the pipe: the session's header as JSON."""


def take_frames(buffer: bytearray) -> Iterator[tuple[int, int, bytes]]:
    """Take the whole frames out of a buffer: kind, time_us and data of each."""
    at = 0
    view = memoryview(buffer)
    try:
        while len(buffer) - at >= FRAME.size:
            kind, length, time_us = FRAME.unpack_from(view, at)
            end = at + FRAME.size + length
            if end > len(buffer):
                break
            yield kind, time_us, bytes(view[at + FRAME.size : end])
            at = end
    finally:
        view.release()
        del buffer[:at]
