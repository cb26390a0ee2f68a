"""What waits to be sent on a slow line: bounded, and of sensors only the newest.

A sensor that waited is worse than none: the board takes the time of arrival for the time of measurement.
"""

from __future__ import annotations

from collections import deque

from pymavlink.dialects.v20 import common

_NEWEST_ONLY = frozenset(
    (
        common.MAVLINK_MSG_ID_HIL_SENSOR,
        common.MAVLINK_MSG_ID_HIL_GPS,
        common.MAVLINK_MSG_ID_HIL_STATE_QUATERNION,
        common.MAVLINK_MSG_ID_ODOMETRY,
    )
)


class SendQueue:
    """Frames in order; the first may have left in part.

    Args:
        limit: with more bytes than this waiting, no frame is taken.

    Attributes:
        size: bytes that wait.
        superseded: frames that were taken, and gave way to a newer one of their kind.
    """

    def __init__(self, limit: int) -> None:
        self.size = 0
        self.superseded = 0
        self._limit = limit
        self._frames: deque[bytes] = deque()
        self._begun = False  # part of the first frame has left

    def __bool__(self) -> bool:
        return self.size > 0

    def add(self, frame: bytes, sent: int = 0) -> bool:
        """Let a frame wait, of which `sent` bytes have left already (only when nothing waits).

        Returns:
            Whether there was room for it.
        """
        kind = _kind(frame)
        if kind in _NEWEST_ONLY:
            for place, other in enumerate(self._frames):
                if _kind(other) == kind and not (place == 0 and self._begun):
                    del self._frames[place]
                    self.size -= len(other)
                    self.superseded += 1
                    break
        if self.size > self._limit:
            return False
        self._frames.append(frame[sent:])
        self.size += len(frame) - sent
        self._begun = self._begun or sent > 0
        return True

    def head(self) -> bytes:
        """What is to be sent next."""
        return self._frames[0]

    def sent(self, count: int) -> None:
        """So many bytes of the head have left."""
        head = self._frames[0]
        self.size -= count
        self._begun = count < len(head)
        if self._begun:
            self._frames[0] = head[count:]
        else:
            self._frames.popleft()

    def clear(self) -> None:
        """Nothing waits any more."""
        self._frames.clear()
        self.size = 0
        self._begun = False


def _kind(frame: bytes) -> int | None:
    """The message id of a MAVLink 2 frame; None of anything else."""
    if len(frame) < 10 or frame[0] != common.PROTOCOL_MARKER_V2:
        return None
    return int.from_bytes(frame[7:10], "little")
