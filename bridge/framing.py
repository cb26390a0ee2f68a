"""Where a MAVLink frame ends, from its first bytes; nothing is checked but the marker."""

from __future__ import annotations

from pymavlink.dialects.v20 import common

MARKERS = (common.PROTOCOL_MARKER_V1, common.PROTOCOL_MARKER_V2)
HEADER_BYTES = 3
"""Bytes from which the length of a frame can be told."""


def frame_length(data: bytes | bytearray, start: int = 0) -> int | None:
    """Length of the frame that begins at `start`, of which `HEADER_BYTES` must be there; None if none begins."""
    marker, payload, flags = data[start : start + HEADER_BYTES]
    if marker == common.PROTOCOL_MARKER_V2:
        return payload + 12 + (13 if flags & common.MAVLINK_IFLAG_SIGNED else 0)
    return payload + 8 if marker == common.PROTOCOL_MARKER_V1 else None


class FrameCutter:
    """Cuts a byte stream into frames, however it came in pieces; bytes between frames are a piece of their own."""

    def __init__(self) -> None:
        self._waiting = bytearray()

    def feed(self, data: bytes) -> list[bytes]:
        """The pieces that are complete with these bytes, in order; joined again they are the stream."""
        waiting = self._waiting
        waiting += data
        pieces = []
        while waiting:
            if waiting[0] in MARKERS:
                if len(waiting) < HEADER_BYTES:
                    break
                length = frame_length(waiting) or 0
                if length > len(waiting):
                    break
            else:
                length = min((at for at in map(waiting.find, MARKERS) if at >= 0), default=len(waiting))
            pieces.append(bytes(waiting[:length]))
            del waiting[:length]
        return pieces

    def clear(self) -> None:
        """Forget the beginning of a frame whose end will not come."""
        self._waiting.clear()
