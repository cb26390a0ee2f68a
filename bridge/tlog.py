"""tlog files: eight bytes of big-endian wall time [us], then one raw MAVLink frame, again and again."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from firmware_profiles.errors import DataError, NoInputError


class TlogRecord(NamedTuple):
    """One frame and the wall time at which it was seen [us since 1970]."""

    time_us: int
    frame: bytes


def read_tlog(path: Path) -> list[TlogRecord]:
    """All frames of a file, in order.

    Raises:
        NoInputError: the file cannot be read.
        DataError: it is not a tlog, or ends inside a frame; names the byte.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise NoInputError(f"{path}: cannot be read: {error.strerror or error}") from None
    records = []
    position = 0
    while position < len(data):
        start = position + 8
        end = start + _frame_length(data, start, path)
        if end > len(data):
            raise DataError(f"{path}: ends inside the frame at byte {start}")
        records.append(TlogRecord(int.from_bytes(data[position:start], "big"), data[start:end]))
        position = end
    return records


def _frame_length(data: bytes, start: int, path: Path) -> int:
    if start + 3 > len(data):
        raise DataError(f"{path}: ends inside the record at byte {start - 8}")
    marker, payload, flags = data[start : start + 3]
    if marker == 0xFD:
        return payload + 12 + (13 if flags & 1 else 0)
    if marker == 0xFE:
        return payload + 8
    raise DataError(f"{path}: no MAVLink frame at byte {start}: not a tlog, or damaged")
