"""Records as MCAP messages: the topics of a session file, their schemas, and both ways between them.

Every message is something that Foxglove shows without knowing us: frames are ROS 1 messages of one byte array, the
rest is JSON with a schema, notices are its own log type.
"""

from __future__ import annotations

import struct
from typing import Any, NamedTuple

import msgspec

from bridge.session_io import SetSpeed
from lav2_hil.session.records import Kind, Record, event_of, fault_of, record_of
from lav2_hil.session.truth import decode_truth


class Channel(NamedTuple):
    """A topic.

    Attributes:
        topic: its name.
        encoding: of its messages.
        schema_name, schema_encoding, schema: what they are made of.
    """

    topic: str
    encoding: str
    schema_name: str
    schema_encoding: str
    schema: bytes


def _json(topic: str, name: str, properties: dict[str, Any]) -> Channel:
    schema = {"title": name, "type": "object", "properties": properties}
    return Channel(topic, "json", name, "jsonschema", msgspec.json.encode(schema))


def _numbers(count: int, description: str) -> dict[str, Any]:
    return {
        "type": "array",
        "items": {"type": "number"},
        "minItems": count,
        "maxItems": count,
        "description": description,
    }


def _frames(topic: str) -> Channel:
    return Channel(topic, "ros1", "lav2_hil/Bytes", "ros1msg", b"uint8[] data\n")


_STRING, _INTEGER, _NUMBER = {"type": "string"}, {"type": "integer"}, {"type": "number"}

FROM_PX4 = _frames("/mavlink/from_px4")
TO_PX4 = _frames("/mavlink/to_px4")
FROM_GROUND = _frames("/mavlink/from_ground")
EVENT = _json("/event", "lav2_hil.Event", {"event": _STRING, "text": _STRING, "speed": _NUMBER})
TRUTH = _json(
    "/truth",
    "lav2_hil.Truth",
    {
        "time_us": _INTEGER,
        "position_ned_m": _numbers(3, "north, east, down from home"),
        "velocity_ned_m_s": _numbers(3, "north, east, down"),
        "rates_frd_rad_s": _numbers(3, "about forward, right, down"),
        "q_enu_flu": _numbers(4, "w, x, y, z; takes forward-left-up to east-north-up"),
        "roll_deg": _NUMBER,
        "pitch_deg": _NUMBER,
        "heading_deg": _NUMBER,
        "ticks": _INTEGER,
        "digest": _STRING,
    },
)
NOTICE = _json(
    "/notice",
    "foxglove.Log",
    {
        "timestamp": {"type": "object", "title": "time", "properties": {"sec": _INTEGER, "nsec": _INTEGER}},
        "level": _INTEGER,
        "message": _STRING,
        "name": _STRING,
        "file": _STRING,
        "line": _INTEGER,
    },
)
SHADOW = _json(
    "/shadow",
    "lav2_hil.Shadow",
    {
        "t_us": _INTEGER,
        "n": _INTEGER,
        "channels": {
            "type": "object",
            "additionalProperties": {
                "type": "object",
                "properties": dict.fromkeys(("p05", "p50", "p95", "live", "rank"), _NUMBER),
            },
        },
    },
)
END = _json("/end", "lav2_hil.End", {"ended_by": _STRING})

CHANNELS = (FROM_PX4, TO_PX4, FROM_GROUND, EVENT, TRUTH, NOTICE, SHADOW, END)

_CHANNEL_OF = {
    Kind.RECEIVED: FROM_PX4,
    Kind.SENT: TO_PX4,
    Kind.TRUTH: TRUTH,
    Kind.NOTICE: NOTICE,
    Kind.SHADOW: SHADOW,
    Kind.GROUND: FROM_GROUND,
    Kind.END: END,
}
_OF_FRAMES = (FROM_PX4, TO_PX4, FROM_GROUND)
_KIND_OF_TOPIC = {channel.topic: kind for kind, channel in _CHANNEL_OF.items()}
_CHANNELS_OF_KINDS = {kind: _CHANNEL_OF.get(kind, EVENT) for kind in Kind}
_EVENT_KINDS = {kind.name.lower(): kind for kind in Kind if kind not in _CHANNEL_OF}
_WITH_VALUES = (Kind.LINK_UP, Kind.LINK_DOWN, Kind.SET_SPEED, Kind.FAULT)
_BARE_EVENTS = {
    kind: msgspec.json.encode({"event": name}) for name, kind in _EVENT_KINDS.items() if kind not in _WITH_VALUES
}
_LENGTH = struct.Struct("<I")


def message_of(record: Record, time_ns: int) -> tuple[Channel, bytes]:
    """A record as a message.

    Args:
        record: of TRUTH the data is a sample, as `encode_truth` gives it.
        time_ns: its wall-clock time since 1970.
    """
    kind, _, data = record
    channel = _CHANNELS_OF_KINDS[kind]
    if channel in _OF_FRAMES:
        return channel, _LENGTH.pack(len(data)) + data
    if channel is NOTICE:
        return channel, _log_of_notice(data, time_ns)
    if channel is not EVENT:
        return channel, data
    bare = _BARE_EVENTS.get(kind)
    if bare is not None:
        return channel, bare
    event = event_of(record) if kind is Kind.SET_SPEED else None
    values = {"speed": event.speed} if isinstance(event, SetSpeed) else {"text": data.decode()}
    return channel, msgspec.json.encode({"event": kind.name.lower(), **values})


def record_of_message(topic: str, data: bytes, time_us: int) -> Record | None:
    """The inverse of `message_of`; None for a topic that this version does not know.

    Raises:
        ValueError, struct.error, msgspec.MsgspecError: it is not one of ours.
    """
    if topic == EVENT.topic:
        return _event(data, time_us)
    kind = _KIND_OF_TOPIC.get(topic)
    if kind is None:
        return None
    channel = _CHANNEL_OF[kind]
    if channel in _OF_FRAMES:
        if _LENGTH.unpack_from(data)[0] != len(data) - _LENGTH.size:
            raise ValueError(f"a message of {topic} has a wrong length")
        data = data[_LENGTH.size :]
    elif channel is NOTICE:
        data = _notice_of_log(data)
    elif channel is TRUTH:
        decode_truth(data)
    return Record(kind, time_us, data)


class _Event(msgspec.Struct):
    event: str
    text: str = ""
    speed: float = 0.0


_EVENT_DECODER = msgspec.json.Decoder(_Event)


def _event(data: bytes, time_us: int) -> Record:
    event = _EVENT_DECODER.decode(data)
    kind = _EVENT_KINDS.get(event.event)
    if kind is None:
        raise ValueError(f"unknown event {event.event!r}")
    if kind is Kind.SET_SPEED:
        return record_of(SetSpeed(event.speed), time_us)
    if kind is Kind.FAULT:
        fault_of(event.text.encode())
    return Record(kind, time_us, event.text.encode())


class _Notice(msgspec.Struct):
    level: int
    name: str
    text: str


class _Log(msgspec.Struct):
    """foxglove.Log; its levels are a tenth of Python's."""

    timestamp: dict[str, int]
    level: int
    message: str
    name: str
    file: str = ""
    line: int = 0


def _log_of_notice(data: bytes, time_ns: int) -> bytes:
    notice = msgspec.json.decode(data, type=_Notice)
    sec, nsec = divmod(time_ns, 1_000_000_000)
    return msgspec.json.encode(_Log({"sec": sec, "nsec": nsec}, notice.level // 10, notice.text, notice.name))


def _notice_of_log(data: bytes) -> bytes:
    log = msgspec.json.decode(data, type=_Log)
    return msgspec.json.encode({"level": log.level * 10, "name": log.name, "text": log.message})
