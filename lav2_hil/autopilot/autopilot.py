"""The autopilot, sans-io: sensor messages in, HIL_ACTUATOR_CONTROLS out; ground stations on the side.

It sees HIL_SENSOR and HIL_GPS and, where a motion capture system sees the vehicle, ODOMETRY, and nothing else of the
vehicle; its only clock is HIL_SENSOR's time_usec.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from pymavlink.dialects.v20 import common

from bridge.codec import Encoder, Message
from bridge.hil_messages import ACCEL, BARO, GYRO, MAG
from bridge.session_base import HEARTBEAT_US, SIMULATOR_COMPONENT
from firmware_profiles.profile import VehicleProfile
from firmware_profiles.signals import GpsFix, MotionCapturePose
from lav2_hil.autopilot.commander import Commander
from lav2_hil.autopilot.estimator import Estimator
from lav2_hil.autopilot.ground_station import GroundStationService
from lav2_hil.autopilot.mission import Mission, MissionRunner
from lav2_hil.autopilot.parameters import Parameters
from lav2_hil.autopilot.telemetry import Telemetry
from lav2_hil.autopilot.vehicle import Vehicle
from lav2_hil.autopilot.vehicle_control import OUTER_EVERY, VehicleControl

COMPONENT = common.MAV_COMP_ID_AUTOPILOT1
TEXT_LENGTH = 50
_DISARMED, _ARMED, _LOCKSTEP = 1, 129, 1


class Autopilot:
    """One autopilot between its boot and its end.

    Args:
        profile: the nominal vehicle.
        system: MAVLink system id.
        mission: what to do, if anything.
        report: is given progress and results, as dictionaries that JSON can hold.
        parameters: that have outlived the last boot; else fresh ones.
        base_mode: what HEARTBEAT's base_mode has beside the usual.
    """

    def __init__(
        self,
        profile: VehicleProfile,
        system: int,
        mission: Mission | None = None,
        report: Callable[[dict[str, Any]], None] = lambda _: None,
        parameters: Parameters | None = None,
        base_mode: int = 0,
    ) -> None:
        tick_s = 1e-6 * profile.vehicle.step_dt_us
        parameters = Parameters(system) if parameters is None else parameters
        capture = profile.vehicle.sensors.motion_capture
        estimator = Estimator(tick_s, None if capture is None else capture.delay_s)
        self.commander = Commander(estimator, VehicleControl(profile, tick_s), parameters, system, tick_s)
        self.telemetry = Telemetry(self.commander, base_mode)
        self.ground = GroundStationService(self.commander, self.telemetry)
        self.vehicle = Vehicle(self.commander, report)
        self._runner = None if mission is None else MissionRunner(mission, self.vehicle)
        self._simulator = Encoder(system, COMPONENT)
        self._fix: GpsFix | None = None
        self._pose: MotionCapturePose | None = None
        self._led = False
        self._heartbeat_us: int | None = None
        self._unsettled: Message | None = None
        self._ticks = 0
        self._text_id = 0

    @property
    def finished(self) -> bool:
        """The mission has ended."""
        return self._runner is not None and self._runner.done

    @property
    def failure(self) -> str | None:
        """Why the mission failed, if it did."""
        return None if self._runner is None else self._runner.failure

    def greeting(self) -> list[bytes]:
        """What PX4 says on connecting: that it would like the ground truth for its log, and that it is there.

        The wish has an interval of -1, which takes it back: this autopilot does not want to know the truth.
        """
        return [
            self._simulator.encode(message)
            for message in (
                common.MAVLink_command_long_message(
                    0,
                    0,
                    common.MAV_CMD_SET_MESSAGE_INTERVAL,
                    0,
                    common.MAVLINK_MSG_ID_HIL_STATE_QUATERNION,
                    -1.0,
                    0,
                    0,
                    0,
                    0,
                    0,
                ),
                common.MAVLink_heartbeat_message(0, common.MAV_AUTOPILOT_PX4, 0, 0, 0, 3),
            )
        ]

    def simulator_message(self, message: Message) -> bytes | None:
        """Take a message of the simulator; a HIL_SENSOR is answered, unless the mission has ended before it."""
        kind = message.get_type()
        if kind == "HIL_SENSOR":
            time_us = message.time_usec
            controls = self.sensor(message, time_us)
            if controls is None:
                return None
            mode = _ARMED if self.commander.armed else _DISARMED
            return self._heartbeat(time_us) + self._simulator.encode(
                common.MAVLink_hil_actuator_controls_message(time_us, controls, mode, _LOCKSTEP)
            )
        if kind == "HIL_GPS":
            self.gps(message)
            return None
        if kind == "ODOMETRY" and message.get_srcComponent() == SIMULATOR_COMPONENT:
            self.odometry(message)
            return None
        return self._companion_message(message)

    def _companion_message(self, message: Message) -> bytes | None:
        """Whoever speaks on this link beside the simulator is a computer on the vehicle: it hears us from here on."""
        if message.get_msgId() < 0 or message.get_srcComponent() in (SIMULATOR_COMPONENT, COMPONENT):
            return None
        if self._heartbeat_us is None:
            self._heartbeat_us = self.commander.time_us
        answers = map(self._simulator.encode, self.ground.handle(message))
        return b"".join(answers) or None

    def _heartbeat(self, time_us: int) -> bytes:
        """HEARTBEAT for a computer on the vehicle, when it is due: in front of a sensor's answer, so never late."""
        if self._heartbeat_us is None or time_us < self._heartbeat_us:
            return b""
        self._heartbeat_us = time_us + HEARTBEAT_US
        return self._simulator.encode(self.telemetry.heartbeat())

    def gps(self, message: Message) -> None:
        """Take a HIL_GPS; it counts with the next HIL_SENSOR."""
        self._fix = _fix(message)

    def odometry(self, message: Message) -> None:
        """Take a motion capture system's ODOMETRY; it counts with the next HIL_SENSOR."""
        self._pose = _pose(message)

    def sensor(self, message: Message, time_us: int) -> list[float] | None:
        """Take a HIL_SENSOR that is from this time on the autopilot's clock; gives the 16 controls.

        None when the mission has ended before it.
        """
        self.settle()
        if self.finished:
            return None
        commander = self.commander
        commander.time_us = time_us
        if message.fields_updated & (ACCEL | GYRO) == ACCEL | GYRO:
            commander.estimator.imu(
                time_us,
                (message.xacc, message.yacc, message.zacc),
                (message.xgyro, message.ygyro, message.zgyro),
            )
        self._unsettled = message
        return commander.tick()

    def settle(self) -> None:
        """Do the rest of a tick: the slower sensors and the mission.

        The answer needs none of it, so it is done while the simulator already computes the next sample; what it finds
        out counts from the next tick on.
        """
        message, self._unsettled = self._unsettled, None
        if message is None:
            return
        commander, estimator, fields = self.commander, self.commander.estimator, message.fields_updated
        if fields & MAG == MAG:
            estimator.mag((message.xmag, message.ymag, message.zmag))
        if fields & BARO == BARO:
            estimator.baro(message.abs_pressure)
        if self._fix is not None:
            commander.fix = self._fix
            estimator.gps(self._fix)
            self._fix = None
        if self._pose is not None:
            estimator.pose(self._pose)
            self._pose = None
        if estimator.motion_capture is not None and estimator.motion_capture.leads is not self._led:
            self._led = estimator.motion_capture.leads
            self._tell_who_leads(estimator.motion_capture.why)
        if self._runner is not None and self._ticks % OUTER_EVERY == 0:
            self._runner.tick()
        self._ticks += 1

    def _tell_who_leads(self, why: str) -> None:
        if self._led:
            self.commander.say(common.MAV_SEVERITY_INFO, "Position by motion capture")
        else:
            self.commander.say(common.MAV_SEVERITY_WARNING, f"Position by GPS: {why or 'aligning'}")

    def broadcasts(self) -> list[Message]:
        """What every ground station is told now: the streams that are due, and new texts."""
        messages: list[Message] = self.telemetry.due(self.commander.time_us)
        texts, self.commander.texts = self.commander.texts, []
        for severity, text in texts:
            messages += self._chunks(severity, text.encode())
        return messages

    def _chunks(self, severity: int, text: bytes) -> list[Message]:
        """STATUSTEXT; a long text comes in parts that share an id, as PX4's do."""
        if len(text) <= TEXT_LENGTH:
            return [common.MAVLink_statustext_message(severity, text)]
        self._text_id = self._text_id % 65535 + 1
        # A part of full length says that another follows; the last is shorter, and may be empty.
        return [
            common.MAVLink_statustext_message(severity, text[start : start + TEXT_LENGTH], self._text_id, index)
            for index, start in enumerate(range(0, len(text) + 1, TEXT_LENGTH))
        ]

    def close(self) -> None:
        """End a mission that is still running."""
        if self._runner is not None:
            self._runner.close()


def _fix(message: Message) -> GpsFix:
    return GpsFix(
        utc_us=message.time_usec,
        lat_deg=message.lat * 1e-7,
        lon_deg=message.lon * 1e-7,
        alt_amsl_m=message.alt * 1e-3,
        vel_ned=(message.vn * 1e-2, message.ve * 1e-2, message.vd * 1e-2),
        eph_m=message.eph * 1e-2,
        epv_m=message.epv * 1e-2,
        satellites=message.satellites_visible,
        fix_type=message.fix_type,
    )


def _pose(message: Message) -> MotionCapturePose | None:
    """None where the pose is told in another frame than north, east and down."""
    if message.frame_id != common.MAV_FRAME_LOCAL_NED:
        return None
    w, x, y, z = message.q
    variances = message.pose_covariance  # (21,) rows of the upper right triangle
    return MotionCapturePose(
        measured_us=message.time_usec,
        pos_ned=(message.x, message.y, message.z),
        q_ned_frd=(w, x, y, z),
        pos_variance_m2=_variance(variances[0], variances[6], variances[11]),
        attitude_variance_rad2=_variance(variances[15], variances[18], variances[20]),
        reset_counter=message.reset_counter,
        quality=message.quality,
    )


def _variance(*of_axes: float) -> float:
    """The largest; 0, which the fusion knows to be too little, where it is not known."""
    return max((value for value in of_axes if 0.0 <= value < math.inf), default=0.0)
