"""TIMESYNC (https://mavlink.io/en/services/timesync.html): who asks with tc1 = 0 is told the other side's time."""

from __future__ import annotations

from pymavlink.dialects.v20 import common

from bridge.codec import Message


def asks_for_time(message: Message) -> bool:
    """Whether a message is a TIMESYNC that wants an answer, and not one itself."""
    return bool(message.get_msgId() == common.MAVLINK_MSG_ID_TIMESYNC and message.tc1 == 0)


def answer(request: Message, now_us: int) -> Message:
    """The answer to a request: our time [ns] beside the asker's own, so that it can tell the way from the offset."""
    return common.MAVLink_timesync_message(now_us * 1000, request.ts1)
