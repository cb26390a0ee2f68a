"""The companion computer, sans-io: what it sees and hears goes in, torques and MAVLink frames come out.

It sees what one on the vehicle would: the arm's joints, the force at its tip, its own pose by motion capture, and what
the autopilot says on the link. It speaks on that link as component 191 of the vehicle's system: a HEARTBEAT,
set-points while its task has any, the command that gives the vehicle back, and, where the task failed, why.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pymavlink.dialects.v20 import common

from bridge.codec import Encoder, Message
from firmware_profiles.errors import UsageError
from firmware_profiles.profile import VehicleParams
from firmware_profiles.signals import SensorSample
from lav2_hil.companion.params import CompanionParams
from lav2_hil.companion.task import BasePose, FloatArray, Orders, SetPoint, Situation, Task

if TYPE_CHECKING:
    from twin.control.task_space.arm_state import ArmState

COMPONENT = common.MAV_COMP_ID_ONBOARD_COMPUTER
HEARTBEAT_US = 1_000_000
SET_POINT_US = 50_000
"""20 Hz; PX4 wants more than 2."""
COMMAND_US = 500_000
"""The vehicle is given back again and again, until the autopilot has taken it."""
_OFFBOARD, _AUTO, _LOITER = 6, 4, 3
"""PX4's main modes, and the sub mode of AUTO that is hold."""
_POSITION_AND_YAW = (
    common.POSITION_TARGET_TYPEMASK_VX_IGNORE
    | common.POSITION_TARGET_TYPEMASK_VY_IGNORE
    | common.POSITION_TARGET_TYPEMASK_VZ_IGNORE
    | common.POSITION_TARGET_TYPEMASK_AX_IGNORE
    | common.POSITION_TARGET_TYPEMASK_AY_IGNORE
    | common.POSITION_TARGET_TYPEMASK_AZ_IGNORE
    | common.POSITION_TARGET_TYPEMASK_YAW_RATE_IGNORE
)
_TEXT_LENGTH = 50


class Companion:
    """One companion computer between its boot and its end.

    Args:
        params: its task.
        vehicle: what it believes of the vehicle: its arm, and the walls around it.
        system: MAVLink system id of the vehicle.

    Raises:
        UsageError: the vehicle has no arm, or the task needs a wall and there is none.
    """

    def __init__(self, params: CompanionParams, vehicle: VehicleParams, system: int) -> None:
        self._params = params
        self._vehicle = vehicle
        self._system = system
        self.reset()

    def reset(self) -> None:
        """Boot again: the flight controller did, and the vehicle stands where it started."""
        self.task: Task = _task(self._params, self._vehicle)
        self.torque_nm: FloatArray | None = None
        """(1, J) for the twin's next step; None brakes the arm."""
        self._encoder = Encoder(self._system, COMPONENT)
        self._base: BasePose | None = None
        self._in_command = False
        self._heartbeat_us = self._set_point_us = self._command_us = 0
        self._told = False

    @property
    def failure(self) -> str | None:
        """Why the task could not be done; None while it can."""
        return self.task.failure

    def heard(self, messages: list[Message]) -> None:
        """Take what the flight controller says on the link."""
        for message in messages:
            if message.get_msgId() < 0 or message.get_srcComponent() != common.MAV_COMP_ID_AUTOPILOT1:
                continue
            kind = message.get_type()
            if kind == "HEARTBEAT":
                self._in_command = message.custom_mode >> 16 & 0xFF == _OFFBOARD
            elif kind == "COMMAND_ACK" and self._is_taken_back(message):
                # Its HEARTBEAT comes late: a second command would stop what the autopilot goes on with.
                self._in_command = False

    def tick(self, sample: SensorSample, arm: ArmState) -> list[bytes]:
        """Look and decide, after a step of the twin; gives the frames that go out before its sensors.

        Args:
            sample: of that step; of its readings motion capture is the companion's.
            arm: its state, of one world.
        """
        pose = sample.motion_capture
        if pose is not None and pose.quality >= 0:
            self._base = BasePose(pose.pos_ned, pose.q_ned_frd)
        orders = self.task.step(Situation(sample.time_us, arm, self._base, self._in_command))
        self.torque_nm = orders.torque_nm
        return [self._encoder.encode(message) for message in self._say(sample.time_us, orders)]

    def _is_taken_back(self, message: Message) -> bool:
        wanted = (COMPONENT, common.MAV_CMD_DO_SET_MODE, common.MAV_RESULT_ACCEPTED)
        return bool((message.target_component, message.command, message.result) == wanted)

    def _say(self, time_us: int, orders: Orders) -> list[Message]:
        messages: list[Message] = []
        if time_us >= self._heartbeat_us:
            self._heartbeat_us = time_us + HEARTBEAT_US
            kind, none = common.MAV_TYPE_ONBOARD_CONTROLLER, common.MAV_AUTOPILOT_INVALID
            messages.append(common.MAVLink_heartbeat_message(kind, none, 0, 0, common.MAV_STATE_ACTIVE, 3))
        if self.task.failure is not None and not self._told:
            self._told = True
            text = self.task.failure.encode()[:_TEXT_LENGTH]
            messages.append(common.MAVLink_statustext_message(common.MAV_SEVERITY_ERROR, text))
        if orders.set_point is not None and time_us >= self._set_point_us:
            self._set_point_us = time_us + SET_POINT_US
            messages.append(self._position_target(time_us, orders.set_point))
        if orders.hand_back and time_us >= self._command_us:
            self._command_us = time_us + COMMAND_US
            messages.append(self._hold())
        return messages

    def _position_target(self, time_us: int, wanted: SetPoint) -> Message:
        unused: tuple[Any, ...] = (0.0,) * 6
        return common.MAVLink_set_position_target_local_ned_message(
            *(time_us // 1000 & 0xFFFFFFFF, self._system, common.MAV_COMP_ID_AUTOPILOT1, common.MAV_FRAME_LOCAL_NED),
            *(_POSITION_AND_YAW, *wanted.pos_ned, *unused, wanted.yaw_ned, 0.0),
        )

    def _hold(self) -> Message:
        mode = common.MAV_MODE_FLAG_CUSTOM_MODE_ENABLED
        return common.MAVLink_command_long_message(
            *(self._system, common.MAV_COMP_ID_AUTOPILOT1, common.MAV_CMD_DO_SET_MODE, 0),
            *(mode, _AUTO, _LOITER, 0.0, 0.0, 0.0, 0.0),
        )


def check_task(params: CompanionParams, vehicle: VehicleParams) -> None:
    """See whether a vehicle is made for a task.

    Raises:
        UsageError: it lacks an arm, a wall, or motion capture.
    """
    _task(params, vehicle)


def _task(params: CompanionParams, vehicle: VehicleParams) -> Task:
    arm, walls = vehicle.arm, vehicle.environment.walls
    if arm is None:
        raise UsageError("no arm for the companion computer to move: the profile has no vehicle.arm")
    # Imported here: every run has a place for a companion, and hardly one needs the arm's controllers.
    from lav2_hil.companion.stow import Stow
    from lav2_hil.companion.wall_inspection import WallInspection

    if params.task == "stow":
        return Stow(arm)
    if not walls:
        raise UsageError("no wall to inspect: the profile has no vehicle.environment.walls")
    if vehicle.sensors.motion_capture is None:
        raise UsageError("nobody sees where the vehicle is: the profile has no vehicle.sensors.motion_capture")
    return WallInspection(params, arm, walls[0], vehicle.step_dt_s)
