"""Frames from the ground that wait for the link to the flight controller: bounded, and fair to each channel."""

from __future__ import annotations

from collections import OrderedDict, deque

from pymavlink.dialects.v20 import common

from bridge.addresses import Addresses, addresses_of

CHANNEL_LIMIT = 64
"""Frames of one channel that wait; what comes beyond is dropped."""
NEWEST_WINS = frozenset(
    {
        common.MAVLINK_MSG_ID_HEARTBEAT,
        common.MAVLINK_MSG_ID_MANUAL_CONTROL,
        common.MAVLINK_MSG_ID_RC_CHANNELS_OVERRIDE,
        common.MAVLINK_MSG_ID_SET_ATTITUDE_TARGET,
        common.MAVLINK_MSG_ID_SET_POSITION_TARGET_LOCAL_NED,
        common.MAVLINK_MSG_ID_SET_POSITION_TARGET_GLOBAL_INT,
    }
)
"""Said again and again, and only the last word counts: a newer one takes the place of one that still waits."""


class GroundQueue:
    """Takes frames of many channels and gives them one by one, each channel in its turn.

    So a channel that floods costs the others nothing but their turn, and never their frames.

    Attributes:
        dropped: frames that found their channel's queue full.
        superseded: frames whose place a newer one took.
    """

    def __init__(self) -> None:
        self.dropped = 0
        self.superseded = 0
        self._numbers = 0
        self._waiting: dict[int, OrderedDict[Addresses | int, bytes]] = {}
        self._turns: deque[int] = deque()

    def __len__(self) -> int:
        return sum(map(len, self._waiting.values()))

    def put(self, channel: int, frame: bytes) -> None:
        """Let a frame wait, or drop and count it."""
        addresses = addresses_of(frame)
        waiting = self._waiting.get(channel)
        if waiting is None:
            waiting = self._waiting[channel] = OrderedDict()
            self._turns.append(channel)
        if addresses.message in NEWEST_WINS:
            if addresses in waiting:
                self.superseded += 1
                waiting[addresses] = frame
                return
            key: Addresses | int = addresses
        else:
            self._numbers += 1
            key = self._numbers
        if len(waiting) >= CHANNEL_LIMIT:
            self.dropped += 1
            return
        waiting[key] = frame

    def first(self) -> bytes | None:
        """Whose turn it is; None if nothing waits. It stays until `pop`."""
        return next(iter(self._waiting[self._turns[0]].values())) if self._turns else None

    def pop(self) -> None:
        """Take the first away: it has gone."""
        channel = self._turns.popleft()
        waiting = self._waiting[channel]
        waiting.popitem(last=False)
        if waiting:
            self._turns.append(channel)
        else:
            del self._waiting[channel]
