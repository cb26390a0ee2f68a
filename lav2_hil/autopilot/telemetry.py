"""What the autopilot tells ground stations: MAVLink streams on simulated time."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

from pymavlink.dialects.v20 import common

from bridge.codec import Message

if TYPE_CHECKING:
    from lav2_hil.autopilot.commander import Commander

AUTOPILOT = common.MAV_AUTOPILOT_PX4
_SENSORS = (
    common.MAV_SYS_STATUS_SENSOR_3D_GYRO
    | common.MAV_SYS_STATUS_SENSOR_3D_ACCEL
    | common.MAV_SYS_STATUS_SENSOR_3D_MAG
    | common.MAV_SYS_STATUS_SENSOR_ABSOLUTE_PRESSURE
    | common.MAV_SYS_STATUS_SENSOR_GPS
)


class Telemetry:
    """Messages by rate; `due` gives those whose time has come.

    Args:
        commander: whose state is told.
        base_mode: what HEARTBEAT's base_mode has beside the usual.
    """

    def __init__(self, commander: Commander, base_mode: int = 0) -> None:
        self._commander = commander
        self._base_mode = base_mode
        self._streams: dict[int, tuple[Callable[[], Message | None], int]] = {
            common.MAVLINK_MSG_ID_HEARTBEAT: (self.heartbeat, 1_000_000),
            common.MAVLINK_MSG_ID_SYS_STATUS: (self.sys_status, 1_000_000),
            common.MAVLINK_MSG_ID_ATTITUDE: (self.attitude, 100_000),
            common.MAVLINK_MSG_ID_LOCAL_POSITION_NED: (self.local_position, 100_000),
            common.MAVLINK_MSG_ID_GLOBAL_POSITION_INT: (self.global_position, 100_000),
            common.MAVLINK_MSG_ID_GPS_RAW_INT: (self.gps_raw, 500_000),
            common.MAVLINK_MSG_ID_HOME_POSITION: (self.home_position, 1_000_000),
            common.MAVLINK_MSG_ID_EXTENDED_SYS_STATE: (self.extended_sys_state, 500_000),
            common.MAVLINK_MSG_ID_VFR_HUD: (self.vfr_hud, 250_000),
        }
        self._due_us = dict.fromkeys(self._streams, 0)

    def due(self, time_us: int) -> list[Message]:
        """The messages that are due at a simulated time."""
        messages = []
        for kind, (build, interval_us) in self._streams.items():
            if not -interval_us <= time_us - self._due_us[kind] < 0:  # due, or the clock was put back
                self._due_us[kind] = time_us + interval_us
                message = build()
                if message is not None:
                    messages.append(message)
        return messages

    def message(self, kind: int) -> Message | None:
        """One message by its id, on request; None when there is no such stream or nothing to tell."""
        stream = self._streams.get(kind)
        if stream is not None:
            return stream[0]()
        return self.autopilot_version() if kind == common.MAVLINK_MSG_ID_AUTOPILOT_VERSION else None

    @property
    def _boot_ms(self) -> int:
        return self._commander.time_us // 1000 & 0xFFFFFFFF

    def heartbeat(self) -> Message:
        """HEARTBEAT as PX4 sends it."""
        commander = self._commander
        base = common.MAV_MODE_FLAG_CUSTOM_MODE_ENABLED | common.MAV_MODE_FLAG_STABILIZE_ENABLED | self._base_mode
        if commander.armed:
            base |= common.MAV_MODE_FLAG_SAFETY_ARMED
        status = common.MAV_STATE_ACTIVE if commander.armed else common.MAV_STATE_STANDBY
        return common.MAVLink_heartbeat_message(
            int(commander.parameters["MAV_TYPE"]), AUTOPILOT, base, commander.mode.custom_mode, status, 3
        )

    def sys_status(self) -> Message:
        """SYS_STATUS: sensors, and whether the pre-arm checks pass. The battery is always full: there is none."""
        present = _SENSORS | common.MAV_SYS_STATUS_PREARM_CHECK
        health = _SENSORS if self._commander.estimator.ready else 0
        if not self._commander.arming_faults():
            health |= common.MAV_SYS_STATUS_PREARM_CHECK
        return common.MAVLink_sys_status_message(present, present, health, 0, 16_000, -1, 100, 0, 0, 0, 0, 0, 0)

    def attitude(self) -> Message | None:
        """ATTITUDE: ZYX Euler angles [rad] and body rates."""
        if not self._commander.estimator.ready:
            return None
        state = self._commander.estimator.state
        roll, pitch, yaw = self._commander.euler_zyx()
        return common.MAVLink_attitude_message(self._boot_ms, roll, pitch, yaw, *state.rates_frd)

    def local_position(self) -> Message | None:
        """LOCAL_POSITION_NED."""
        if not self._commander.estimator.ready:
            return None
        state = self._commander.estimator.state
        return common.MAVLink_local_position_ned_message(self._boot_ms, *state.pos_ned, *state.vel_ned)

    def global_position(self) -> Message | None:
        """GLOBAL_POSITION_INT."""
        place = self._commander.place()
        if place is None:
            return None
        lat, lon, alt = place
        state = self._commander.estimator.state
        yaw = self._commander.euler_zyx()[2]
        return common.MAVLink_global_position_int_message(
            self._boot_ms,
            round(lat * 1e7),
            round(lon * 1e7),
            _whole(alt * 1e3, 31),
            _whole(state.height_m * 1e3, 31),
            *(_whole(100 * v, 15) for v in state.vel_ned),
            round(100 * math.degrees(yaw)) % 36000,
        )

    def gps_raw(self) -> Message | None:
        """GPS_RAW_INT: the newest fix as the receiver gave it."""
        fix = self._commander.fix
        if fix is None:
            return None
        north, east, _ = fix.vel_ned
        return common.MAVLink_gps_raw_int_message(
            self._commander.time_us,
            fix.fix_type,
            round(fix.lat_deg * 1e7),
            round(fix.lon_deg * 1e7),
            round(fix.alt_amsl_m * 1e3),
            round(100 * fix.eph_m),
            round(100 * fix.epv_m),
            round(100 * math.hypot(north, east)),
            65535,
            fix.satellites,
        )

    def home_position(self) -> Message | None:
        """HOME_POSITION: the estimator's origin."""
        home = self._commander.estimator.home
        if home is None:
            return None
        lat, lon, alt = home
        return common.MAVLink_home_position_message(
            round(lat * 1e7), round(lon * 1e7), round(alt * 1e3), 0.0, 0.0, 0.0, [1.0, 0.0, 0.0, 0.0], 0.0, 0.0, 0.0
        )

    def extended_sys_state(self) -> Message:
        """EXTENDED_SYS_STATE: on the ground or in the air."""
        return common.MAVLink_extended_sys_state_message(0, self._commander.landed.value)

    def vfr_hud(self) -> Message | None:
        """VFR_HUD."""
        place = self._commander.place()
        if place is None:
            return None
        state = self._commander.estimator.state
        speed = math.hypot(state.vel_ned[0], state.vel_ned[1])
        heading = round(math.degrees(self._commander.euler_zyx()[2])) % 360
        return common.MAVLink_vfr_hud_message(speed, speed, heading, 0, place[2], -state.vel_ned[2])

    def autopilot_version(self) -> Message:
        """AUTOPILOT_VERSION: MAVLink 2, bytewise parameters, integer commands."""
        capabilities = (
            common.MAV_PROTOCOL_CAPABILITY_MAVLINK2
            | common.MAV_PROTOCOL_CAPABILITY_PARAM_ENCODE_BYTEWISE
            | common.MAV_PROTOCOL_CAPABILITY_COMMAND_INT
            | common.MAV_PROTOCOL_CAPABILITY_SET_POSITION_TARGET_LOCAL_NED
        )
        nothing = [0] * 8
        return common.MAVLink_autopilot_version_message(
            capabilities, 0x01_00_00_FF, 0, 0, 0, nothing, nothing, nothing, 0, 0, self._commander.system
        )


def _whole(value: float, bits: int) -> int:
    """The nearest integer that a signed field of so many bits can hold."""
    return round(min(max(value, -(2.0**bits) + 1), 2.0**bits - 1))
