"""Outcomes taken apart into named fields: what a comparison looks at, and what it can be told to overlook."""

from __future__ import annotations

import msgspec
from pymavlink.dialects.v20 import common

from bridge.codec import Message
from firmware_profiles.errors import UsageError
from lav2_hil.session.truth import decode_truth

Value = float | int | str
Fields = dict[str, Value]

_TRUTH_GROUPS = (("pos_enu_m", 3), ("q_enu_flu", 4), ("vel_enu_m_s", 3), ("rates_flu_rad_s", 3))
_HEADER = ("sequence", "system", "component")
_MESSAGES = (
    common.MAVLink_heartbeat_message,
    common.MAVLink_hil_gps_message,
    common.MAVLink_hil_sensor_message,
    common.MAVLink_hil_state_quaternion_message,
    common.MAVLink_odometry_message,
)
"""What a session sends."""


def known_fields() -> list[str]:
    """All names that a field can have, arrays without their indices."""
    names = [f"truth.{name}" for name in ("time_us", *(group for group, _ in _TRUTH_GROUPS), "ticks", "digest")]
    for message in _MESSAGES:
        names += [f"{message.msgname}.{name}" for name in (*_HEADER, *message.fieldnames)]
    return names


def check_name(name: str, option: str) -> None:
    """Whether a name means any field: the whole of one, or the beginning of several up to a dot or a bracket.

    Raises:
        UsageError: it means none.
    """
    known = known_fields()
    if any(covers(name, field) or covers(field, name) for field in known):
        return
    group = name.partition(".")[0]
    near = [field for field in known if covers(group, field)] or sorted({field.partition(".")[0] for field in known})
    raise UsageError(f"{option} {name}: no such field; there are {', '.join(near)}")


def covers(name: str, field: str) -> bool:
    """Whether a name means a field: `truth`, `truth.pos_enu_m` and `truth.pos_enu_m[2]` all mean the last."""
    return field.startswith(name) and field[len(name) : len(name) + 1] in ("", ".", "[")


def fields_of_frame(frame: bytes) -> Fields:
    """A frame's header and fields, `HIL_SENSOR.xacc`; what cannot be decoded is one field, `frame.bytes`."""
    try:
        message: Message = common.MAVLink(None).decode(bytearray(frame))
    except common.MAVError:
        return {"frame.bytes": frame.hex()}
    name = message.get_type()
    header = (message.get_seq(), message.get_srcSystem(), message.get_srcComponent())
    fields: Fields = {f"{name}.{part}": value for part, value in zip(_HEADER, header, strict=True)}
    for part in message.get_fieldnames():
        value = getattr(message, part)
        if isinstance(value, list):
            fields |= {f"{name}.{part}[{index}]": item for index, item in enumerate(value)}
        else:
            fields[f"{name}.{part}"] = value
    return fields


def message_name(frame: bytes) -> str:
    """The message that a frame carries."""
    return next(iter(fields_of_frame(frame))).partition(".")[0]


def fields_of_truth(data: bytes) -> Fields:
    """A truth sample's fields, `truth.pos_enu_m[2]`; what cannot be decoded is one field, `truth.bytes`."""
    try:
        sample = decode_truth(data)
    except msgspec.MsgspecError:
        return {"truth.bytes": data.hex()}
    fields: Fields = {"truth.time_us": sample.time_us, "truth.ticks": sample.ticks}
    state = iter(sample.state)
    for group, length in _TRUTH_GROUPS:
        fields |= {f"truth.{group}[{index}]": next(state) for index in range(length)}
    fields["truth.digest"] = sample.digest
    return fields
