"""Messages that PX4 sends and pymavlink's `common` dialect lacks: one table, registered with the dialect at import.

Names, types and order are those of MAVLink's common.xml (declaration order); the CRC extra follows from them
(https://mavlink.io/en/guide/serialization.html#crc_extra) and is written down so that a slip in a row is noticed.
"""

from __future__ import annotations

import struct
from typing import Any, NamedTuple

from pymavlink.dialects.v20 import common


class ExtraMessage(NamedTuple):
    """One row: message id, name, CRC extra, and (type, name) of each field; `uint8_t[40]` is an array."""

    id: int
    name: str
    crc_extra: int
    fields: tuple[tuple[str, str], ...]


EXTRA_MESSAGES = (
    ExtraMessage(
        8,
        "LINK_NODE_STATUS",
        117,
        (
            ("uint64_t", "timestamp"),
            ("uint8_t", "tx_buf"),
            ("uint8_t", "rx_buf"),
            ("uint32_t", "tx_rate"),
            ("uint32_t", "rx_rate"),
            ("uint16_t", "rx_parse_err"),
            ("uint16_t", "tx_overflows"),
            ("uint16_t", "rx_overflows"),
            ("uint32_t", "messages_sent"),
            ("uint32_t", "messages_received"),
            ("uint32_t", "messages_lost"),
        ),
    ),
    ExtraMessage(
        290,
        "ESC_INFO",
        251,
        (
            ("uint8_t", "index"),
            ("uint64_t", "time_usec"),
            ("uint16_t", "counter"),
            ("uint8_t", "count"),
            ("uint8_t", "connection_type"),
            ("uint8_t", "info"),
            ("uint16_t[4]", "failure_flags"),
            ("uint32_t[4]", "error_count"),
            ("int16_t[4]", "temperature"),
        ),
    ),
    ExtraMessage(
        291,
        "ESC_STATUS",
        10,
        (
            ("uint8_t", "index"),
            ("uint64_t", "time_usec"),
            ("int32_t[4]", "rpm"),
            ("float[4]", "voltage"),
            ("float[4]", "current"),
        ),
    ),
    ExtraMessage(
        380,
        "TIME_ESTIMATE_TO_TARGET",
        232,
        (
            ("int32_t", "safe_return"),
            ("int32_t", "land"),
            ("int32_t", "mission_next_item"),
            ("int32_t", "mission_end"),
            ("int32_t", "commanded_action"),
        ),
    ),
    ExtraMessage(
        410,
        "EVENT",
        160,
        (
            ("uint8_t", "destination_component"),
            ("uint8_t", "destination_system"),
            ("uint32_t", "id"),
            ("uint32_t", "event_time_boot_ms"),
            ("uint16_t", "sequence"),
            ("uint8_t", "log_levels"),
            ("uint8_t[40]", "arguments"),
        ),
    ),
    ExtraMessage(411, "CURRENT_EVENT_SEQUENCE", 106, (("uint16_t", "sequence"), ("uint8_t", "flags"))),
    ExtraMessage(
        436,
        "CURRENT_MODE",
        193,
        (("uint8_t", "standard_mode"), ("uint32_t", "custom_mode"), ("uint32_t", "intended_custom_mode")),
    ),
)

_STRUCT_CODES = {
    "uint8_t": "B",
    "int8_t": "b",
    "uint16_t": "H",
    "int16_t": "h",
    "uint32_t": "I",
    "int32_t": "i",
    "float": "f",
    "uint64_t": "Q",
    "int64_t": "q",
    "double": "d",
}


def _split(kind: str) -> tuple[str, int]:
    """("uint8_t[40]") -> ("uint8_t", 40); a scalar has length 0."""
    base, _, rest = kind.partition("[")
    return base, int(rest[:-1]) if rest else 0


def _message_class(row: ExtraMessage) -> type[Any]:
    """A message class of the form that pymavlink's generator writes."""
    names = [name for _, name in row.fields]
    types = dict(zip(names, (_split(kind) for kind, _ in row.fields), strict=True))
    # On the wire fields are ordered by size, largest first, otherwise as declared.
    ordered = sorted(names, key=lambda name: -struct.calcsize(_STRUCT_CODES[types[name][0]]))
    codes = [_STRUCT_CODES[types[name][0]] for name in ordered]
    array_lengths = [types[name][1] for name in ordered]

    def init(self: Any, *values: Any) -> None:
        common.MAVLink_message.__init__(self, row.id, row.name)
        self._fieldnames = names
        self._instance_field = None
        self._instance_offset = -1
        for name, value in zip(names, values, strict=True):
            setattr(self, name, value)

    def pack(self: Any, mav: Any, force_mavlink1: bool = False) -> bytes:
        flat: list[Any] = []
        for name, length in zip(ordered, array_lengths, strict=True):
            value = getattr(self, name)
            flat.extend(value) if length else flat.append(value)
        packed: bytes = self._pack(mav, row.crc_extra, cls.unpacker.pack(*flat), force_mavlink1=force_mavlink1)
        return packed

    cls: Any = type(
        f"MAVLink_{row.name.lower()}_message",
        (common.MAVLink_message,),
        {
            "__doc__": f"{row.name} (MAVLink common.xml).",
            "id": row.id,
            "msgname": row.name,
            "name": row.name,
            "fieldnames": names,
            "ordered_fieldnames": ordered,
            "fieldtypes": [types[name][0] for name in names],
            "native_format": bytearray(b"<" + "".join(codes).encode()),
            "orders": [ordered.index(name) for name in names],
            "lengths": [max(length, 1) for length in array_lengths],
            "array_lengths": array_lengths,
            "crc_extra": row.crc_extra,
            "unpacker": struct.Struct(
                "<" + "".join(f"{length or ''}{code}" for code, length in zip(codes, array_lengths, strict=True))
            ),
            "__init__": init,
            "pack": pack,
        },
    )
    return cls  # type: ignore[no-any-return]


def register() -> None:
    """Make the dialect decode these messages; a message that the dialect already knows is left alone."""
    for row in EXTRA_MESSAGES:
        common.mavlink_map.setdefault(row.id, _message_class(row))
