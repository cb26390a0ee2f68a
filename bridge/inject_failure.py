"""MAV_CMD_INJECT_FAILURE from a ground station: what it asks for, and the one answer that it gets.

The simulator takes these commands out of the stream, as it is the one who can break something: PX4 would answer DENIED
unless SYS_FAILURE_EN is set, and even then only falsify what its own drivers say. Pure: no input or output here.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import IntEnum

from pymavlink.dialects.v20 import common

from bridge.codec import Encoder, Message

COMMAND = common.MAV_CMD_INJECT_FAILURE


class Result(IntEnum):
    """What becomes of a request: MAV_RESULT."""

    ACCEPTED = common.MAV_RESULT_ACCEPTED
    DENIED = common.MAV_RESULT_DENIED
    UNSUPPORTED = common.MAV_RESULT_UNSUPPORTED


@dataclass(frozen=True, slots=True)
class FailureRequest:
    """One command.

    Attributes:
        unit: FAILURE_UNIT; -1 where it is no whole number.
        kind: FAILURE_TYPE; likewise.
        instance: which of several, counted from 1; 0 is all of them; likewise.
        system, component: who is to do it: the answer comes from there.
        from_system, from_component: who asks: the answer goes there.
    """

    unit: int
    kind: int
    instance: int
    system: int
    component: int
    from_system: int
    from_component: int


def decode(message: Message, system: int, component: int = common.MAV_COMP_ID_AUTOPILOT1) -> FailureRequest | None:
    """What a message asks for; None unless it is MAV_CMD_INJECT_FAILURE to this system or to all.

    Args:
        message: any.
        system: id of the flight controller.
        component: its component id, for who asks all components.
    """
    if message.get_type() not in ("COMMAND_LONG", "COMMAND_INT") or message.command != COMMAND:
        return None
    if message.target_system not in (0, system):
        return None
    return FailureRequest(
        _whole(message.param1),
        _whole(message.param2),
        _whole(message.param3),
        message.target_system or system,
        message.target_component or component,
        message.get_srcSystem(),
        message.get_srcComponent(),
    )


def ack(request: FailureRequest, result: Result) -> Message:
    """The COMMAND_ACK; to be sent in the name of `request.system` and `request.component`."""
    return common.MAVLink_command_ack_message(
        COMMAND, result, target_system=request.from_system, target_component=request.from_component
    )


def ack_frame(request: FailureRequest, result: Result, sequence: int = 0) -> bytes:
    """The COMMAND_ACK as a frame that comes from the component that was asked."""
    return Encoder(request.system, request.component, sequence).encode(ack(request, result))


def _whole(value: float) -> int:
    return int(value) if math.isfinite(value) and value == int(value) else -1
