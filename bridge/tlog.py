"""tlog files: eight bytes of big-endian wall time [us], then one raw MAVLink frame, again and again."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from bridge.framing import HEADER_BYTES, frame_length
from firmware_profiles.errors import DataError, NoInputError

_STAMP_BYTES = 8


class TlogRecord(NamedTuple):
    """One frame and the wall time at which it was seen [us since 1970].

    `to_px4` tells the simulator's frames from the flight controller's, where somebody has found that out.
    """

    time_us: int
    frame: bytes
    to_px4: bool = False


def pack_record(time_us: int, frame: bytes) -> bytes:
    """One record as it stands in a file."""
    return time_us.to_bytes(_STAMP_BYTES, "big") + frame


def read_tlog(path: Path) -> list[TlogRecord]:
    """All frames of a file, in order.

    Raises:
        NoInputError: the file cannot be read.
        DataError: it is not a tlog, or ends inside a frame; names the byte.
    """
    records, damage = read_damaged_tlog(path)
    if damage is not None:
        raise DataError(damage)
    return records


def read_damaged_tlog(path: Path) -> tuple[list[TlogRecord], str | None]:
    """The frames of a file up to where it is damaged, in order; and what is wrong there, if anything is.

    Raises:
        NoInputError: the file cannot be read.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise NoInputError(f"{path}: cannot be read: {error.strerror or error}") from None
    records: list[TlogRecord] = []
    position = 0
    while position < len(data):
        start = position + _STAMP_BYTES
        if start + HEADER_BYTES > len(data):
            return records, f"{path}: ends inside the record at byte {position}"
        length = frame_length(data, start)
        if length is None:
            return records, f"{path}: no MAVLink frame at byte {start}: not a tlog, or damaged"
        if start + length > len(data):
            return records, f"{path}: ends inside the frame at byte {start}"
        records.append(TlogRecord(int.from_bytes(data[position:start], "big"), data[start : start + length]))
        position = start + length
    return records, None
