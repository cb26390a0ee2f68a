"""How PX4 on a board decides to speak MAVLink on USB: it looks for a HEARTBEAT in what it reads first."""

from __future__ import annotations

WINDOW = 80
"""Bytes that are looked at in one go."""
AGAIN_US = 1_000_000
"""After bytes without a HEARTBEAT it looks again so much later."""
_HEARTBEAT_LENGTH = 9


class UsbStart:
    """Looks for a HEARTBEAT of MAVLink 1 or 2 with a payload of exactly 9 bytes.

    Attributes:
        done: it has been seen.
    """

    def __init__(self) -> None:
        self.done = False
        self._window = b""
        self._deaf_until_us = 0

    def seen(self, data: bytes, time_us: int) -> bool:
        """Take bytes that arrived at this time; whether the line is MAVLink's from here on."""
        if self.done:
            return True
        if time_us < self._deaf_until_us:
            return False
        self._window = (self._window + data)[:WINDOW]
        if _has_heartbeat(self._window):
            self.done = True
        elif len(self._window) == WINDOW:
            self._window = b""
            self._deaf_until_us = time_us + AGAIN_US
        return self.done


def _has_heartbeat(data: bytes) -> bool:
    for start, byte in enumerate(data):
        head = data[start : start + 10]
        if len(head) < 10:
            return False
        if byte == 0xFE and head[1] == _HEARTBEAT_LENGTH and head[5] == 0:
            return True
        if byte == 0xFD and head[1] == _HEARTBEAT_LENGTH and not any(head[7:10]):
            return True
    return False
