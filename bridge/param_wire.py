"""Parameters on the wire: INT32 bytewise in the float of PARAM_VALUE and PARAM_SET, as PX4 has it.

The bytes are taken from the frame and put into it as they are: a float that was one of Python's on the way loses bits
where an integer looks like a signalling NaN (-5,000,000 does).
"""

from __future__ import annotations

import struct

from pymavlink.dialects.v20 import common

from bridge.codec import Message
from firmware_profiles.px4_params import INT32, REAL32, Value, kind_of

HASH_CHECK = "_HASH_CHECK"
"""Not a parameter: a checksum over all, which PX4 sends first."""


class _IntegerSet(common.MAVLink_param_set_message):  # type: ignore[misc]
    """PARAM_SET whose value is packed as an integer."""

    unpacker = struct.Struct("<iBB16sB")


class _IntegerValue(common.MAVLink_param_value_message):  # type: ignore[misc]
    """PARAM_VALUE whose value is packed as an integer."""

    unpacker = struct.Struct("<iHH16sB")


def value_of(message: Message) -> Value | None:
    """The value in a PARAM_VALUE or PARAM_SET; None when its type is none of PX4's.

    The message must have been decoded from a frame.
    """
    frame = bytes(message.get_msgbuf())
    start = 10 if frame[0] == common.PROTOCOL_MARKER_V2 else 6
    (value,) = struct.unpack("<i" if message.param_type == INT32 else "<f", frame[start : start + 4])
    return value if message.param_type in (INT32, REAL32) else None


def name_of(message: Message) -> str:
    """The parameter's name in a message."""
    name = message.param_id
    return name.decode(errors="replace") if isinstance(name, bytes) else str(name)


def set_message(system: int, component: int, name: str, value: Value) -> Message:
    """PARAM_SET."""
    kind = _IntegerSet if isinstance(value, int) else common.MAVLink_param_set_message
    return kind(system, component, name.encode(), value, kind_of(value))


def value_message(name: str, value: Value, count: int, index: int) -> Message:
    """PARAM_VALUE."""
    kind = _IntegerValue if isinstance(value, int) else common.MAVLink_param_value_message
    return kind(name.encode(), value, kind_of(value), count, index)


def list_message(system: int, component: int) -> Message:
    """PARAM_REQUEST_LIST."""
    return common.MAVLink_param_request_list_message(system, component)


def read_message(system: int, component: int, which: str | int) -> Message:
    """PARAM_REQUEST_READ, by name or by index."""
    name, index = (which, -1) if isinstance(which, str) else ("", which)
    return common.MAVLink_param_request_read_message(system, component, name.encode(), index)
