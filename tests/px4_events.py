"""EVENT messages as PX4 sends them, made of names."""

from __future__ import annotations

import struct

from pymavlink.dialects.v20 import common

from bridge.codec import Decoder, Encoder, Message
from bridge.event_names import EVENTS
from bridge.events import event_id


def event_message(name: str, *arguments: float, severity: int = 3, sequence: int = 1, time_ms: int = 1000) -> Message:
    """As PX4 sends it."""
    packed = struct.pack(f"<{EVENTS[name][1]}", *arguments).ljust(40, b"\0")
    levels = severity << 4 | severity
    message = common.mavlink_map[410](1, 0, event_id(name), time_ms, sequence, levels, list(packed))
    (decoded,) = Decoder().feed(Encoder(1, 1).encode(message))
    return decoded
