"""Who a MAVLink frame is from and to, read from its bytes without decoding the rest."""

from __future__ import annotations

import struct
from typing import NamedTuple

from pymavlink.dialects.v20 import common

from bridge import extra_messages

extra_messages.register()


class Addresses(NamedTuple):
    """What routing needs to know of a frame.

    Attributes:
        message: its id.
        system, component: the sender's.
        target_system, target_component: the receiver's; 0 is everybody, as for a message without such a field.
    """

    message: int
    system: int
    component: int
    target_system: int
    target_component: int


def addresses_of(frame: bytes) -> Addresses:
    """The addresses of one whole frame, of version 1 or 2.

    A message that the dialect does not know is for everybody: nobody can tell where its target would be.
    """
    if frame[0] == common.PROTOCOL_MARKER_V2:
        message, system, component = int.from_bytes(frame[7:10], "little"), frame[5], frame[6]
    else:
        message, system, component = frame[5], frame[3], frame[4]
    places = TARGETS.get(message)
    if places is None:
        return Addresses(message, system, component, 0, 0)
    payload = payload_of(frame)
    # Trailing zeros of a payload are not sent.
    target_system, target_component = (payload[place] if 0 <= place < len(payload) else 0 for place in places)
    return Addresses(message, system, component, target_system, target_component)


def payload_of(frame: bytes) -> bytes:
    """The payload of one whole frame, as it came."""
    start = 10 if frame[0] == common.PROTOCOL_MARKER_V2 else 6
    return frame[start : start + frame[1]]


def is_autopilot(frame: bytes) -> bool:
    """Whether a frame is the HEARTBEAT of a flight controller, and not of one of the others that speak on a link."""
    payload = payload_of(frame)
    return len(payload) > _AUTOPILOT and payload[_AUTOPILOT] != common.MAV_AUTOPILOT_INVALID


_AUTOPILOT = 5
"""Where a HEARTBEAT's payload has its autopilot."""


def _places(message: type) -> tuple[int, int] | None:
    """Where a message's payload has its target system and component; -1 for none."""
    names = message.ordered_fieldnames  # type: ignore[attr-defined]
    if "target_system" not in names:
        return None
    places, at = {}, 0
    codes = bytes(message.native_format[1:]).decode()  # type: ignore[attr-defined]
    for name, code, length in zip(names, codes, message.array_lengths, strict=True):  # type: ignore[attr-defined]
        places[name] = at
        at += struct.calcsize(f"<{code}") * max(length, 1)
    return places["target_system"], places.get("target_component", -1)


TARGETS = {message.id: places for message in common.mavlink_map.values() if (places := _places(message)) is not None}
"""Of each message that has them: the places of its targets."""

HIL_MESSAGES = frozenset(row.id for row in common.mavlink_map.values() if row.msgname.startswith("HIL_"))
"""What only the simulator and the flight controller say to each other."""
