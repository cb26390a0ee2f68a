"""The autopilot's side of the MAVLink services that ground stations use: commands, parameters, set-points, missions."""

from __future__ import annotations

import logging
import math
from typing import TYPE_CHECKING

from pymavlink.dialects.v20 import common

from bridge.codec import Message
from lav2_hil.autopilot.modes import Mode, Result

if TYPE_CHECKING:
    from lav2_hil.autopilot.commander import Commander
    from lav2_hil.autopilot.telemetry import Telemetry

FORCE = 21196
"""MAV_CMD_COMPONENT_ARM_DISARM's magic number."""
_POSITION_IGNORED = 0b111
_YAW_IGNORED = 1 << 10
_RELATIVE = (common.MAV_FRAME_GLOBAL_RELATIVE_ALT, common.MAV_FRAME_GLOBAL_RELATIVE_ALT_INT)
_NOWHERE = 2**31 - 1
"""COMMAND_INT's x or y that says nothing."""

logger = logging.getLogger("lav2_hil")


class GroundStationService:
    """Answers one message at a time; what it answers goes back on the link that asked.

    Args:
        commander: does what is asked.
        telemetry: builds what is asked for.
    """

    def __init__(self, commander: Commander, telemetry: Telemetry) -> None:
        self._commander = commander
        self._telemetry = telemetry
        self._handlers = {
            "COMMAND_LONG": self._command_long,
            "COMMAND_INT": self._command_int,
            "SET_MODE": self._set_mode,
            "SET_POSITION_TARGET_LOCAL_NED": self._position_target,
            "PARAM_REQUEST_LIST": self._parameter_list,
            "PARAM_REQUEST_READ": self._parameter_read,
            "PARAM_SET": self._parameter_set,
            "MISSION_REQUEST_LIST": self._mission_list,
            "TIMESYNC": self._timesync,
            "PING": self._ping,
            "STATUSTEXT": self._status_text,
        }

    def handle(self, message: Message) -> list[Message]:
        """The answers to a message; none for what is not addressed to this autopilot or not understood."""
        handler = self._handlers.get(message.get_type())
        if (
            handler is None
            or getattr(message, "target_system", 0) not in (0, self._commander.system)
            or getattr(message, "target_component", 0) not in (0, common.MAV_COMP_ID_AUTOPILOT1)
        ):
            return []
        return handler(message)

    # Commands

    def _command_long(self, message: Message) -> list[Message]:
        params = [getattr(message, f"param{i}") for i in range(1, 8)]
        return self._acknowledged(message, self._command(message.command, params))

    def _command_int(self, message: Message) -> list[Message]:
        params = [message.param1, message.param2, message.param3, message.param4]
        place = [math.nan if value == _NOWHERE else value * 1e-7 for value in (message.x, message.y)]
        home = self._commander.estimator.home
        height = message.z + home[2] if message.frame in _RELATIVE and home is not None else message.z
        return self._acknowledged(message, self._command(message.command, [*params, *place, height]))

    def _acknowledged(self, message: Message, answer: tuple[Result, list[Message]]) -> list[Message]:
        result, more = answer
        return [
            common.MAVLink_command_ack_message(
                message.command, result, 0, 0, message.get_srcSystem(), message.get_srcComponent()
            ),
            *more,
        ]

    def _command(self, command: int, params: list[float]) -> tuple[Result, list[Message]]:
        commander = self._commander
        p1, p2, _, p4, p5, p6, p7 = params
        if command == common.MAV_CMD_COMPONENT_ARM_DISARM:
            if p1 not in (0.0, 1.0):
                return Result.DENIED, []
            return (commander.arm(force=p2 == FORCE) if p1 else commander.disarm(force=p2 == FORCE)), []
        if command == common.MAV_CMD_RUN_PREARM_CHECKS:
            return commander.tell_faults(), []
        if command == common.MAV_CMD_NAV_TAKEOFF:
            return commander.take_off_to_altitude(p7), []
        if command == common.MAV_CMD_NAV_LAND:
            return commander.land(), []
        if command == common.MAV_CMD_DO_REPOSITION:
            return commander.go_to_place(p5, p6, p7, p4), []
        if command == common.MAV_CMD_DO_SET_MODE:
            return self._mode(p2, params[2]), []
        if command == common.MAV_CMD_DO_SET_ACTUATOR:
            return commander.set_actuators(p1, p2), []
        if command == common.MAV_CMD_REQUEST_MESSAGE:
            wanted = self._telemetry.message(int(p1)) if math.isfinite(p1) else None
            return (Result.DENIED, []) if wanted is None else (Result.ACCEPTED, [wanted])
        if command == common.MAV_CMD_REQUEST_AUTOPILOT_CAPABILITIES:
            return Result.ACCEPTED, [self._telemetry.autopilot_version()]
        if command in (common.MAV_CMD_SET_MESSAGE_INTERVAL, common.MAV_CMD_DO_SET_HOME):
            return Result.DENIED, []  # the streams have fixed rates, home is where the vehicle started
        return Result.UNSUPPORTED, []

    def _set_mode(self, message: Message) -> list[Message]:
        self._mode(message.custom_mode >> 16 & 0xFF, message.custom_mode >> 24 & 0xFF)
        return []

    def _mode(self, main: float, sub: float) -> Result:
        mode = Mode.of(main, sub)
        return Result.DENIED if mode is None else self._commander.set_mode(mode)

    def _position_target(self, message: Message) -> list[Message]:
        if message.type_mask & _POSITION_IGNORED or message.coordinate_frame != common.MAV_FRAME_LOCAL_NED:
            return []
        yaw = None if message.type_mask & _YAW_IGNORED else message.yaw
        self._commander.offboard_position((message.x, message.y, message.z), yaw)
        return []

    def _status_text(self, message: Message) -> list[Message]:
        """What the vehicle's own companion computer has to report; PX4 passes such texts on, too."""
        own = message.get_srcSystem() == self._commander.system
        if own and message.severity <= common.MAV_SEVERITY_ERROR:
            self._commander.companion_failed(message.text)
        return []

    # Parameters

    def _parameter_list(self, message: Message) -> list[Message]:
        parameters = self._commander.parameters
        return [parameters.message(index) for index in range(len(parameters))]

    def _parameter_read(self, message: Message) -> list[Message]:
        parameters = self._commander.parameters
        index = message.param_index
        if index >= 0:
            return [parameters.message(index)] if index < len(parameters) else []
        named = parameters.named(_name(message.param_id))
        return [] if named is None else [named]

    def _parameter_set(self, message: Message) -> list[Message]:
        parameters, name = self._commander.parameters, _name(message.param_id)
        if not parameters.set(name, message.param_value, message.param_type):
            self._commander.say(common.MAV_SEVERITY_WARNING, f"parameter {name} refused")
        named = parameters.named(name)
        return [] if named is None else [named]

    # The rest

    def _mission_list(self, message: Message) -> list[Message]:
        return [
            common.MAVLink_mission_count_message(
                message.get_srcSystem(), message.get_srcComponent(), 0, message.mission_type
            )
        ]

    def _timesync(self, message: Message) -> list[Message]:
        if message.tc1 != 0:
            return []
        return [common.MAVLink_timesync_message(self._commander.time_us * 1000, message.ts1)]

    def _ping(self, message: Message) -> list[Message]:
        if message.target_system != 0:
            return []
        return [
            common.MAVLink_ping_message(
                message.time_usec, message.seq, message.get_srcSystem(), message.get_srcComponent()
            )
        ]


def _name(param_id: str | bytes) -> str:
    return param_id.decode(errors="replace") if isinstance(param_id, bytes) else param_id
