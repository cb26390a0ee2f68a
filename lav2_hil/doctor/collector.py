"""Makes an observation of the messages of a flight controller; without input or output."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from typing import Any

from pymavlink.dialects.v20 import common

from bridge.codec import Message
from bridge.events import Event, EventReader, decode_event
from bridge.statustext import Text, TextReader
from lav2_hil.doctor.observation import GpsSeen, OutputsSeen, SensorSeen
from twin.environment import magnetic_field_ned_gauss

_MODEL_DATE = datetime(2026, 1, 1, tzinfo=UTC)
"""The field's strength changes by a thousandth a year."""
DEBUG = 7
"""Beyond it an event is for machines."""
_GROUPS = {
    "accelerometer": (0x007, ("xacc", "yacc", "zacc")),
    "gyroscope": (0x038, ("xgyro", "ygyro", "zgyro")),
    "magnetometer": (0x1C0, ("xmag", "ymag", "zmag")),
    "barometer": (0x200, ("abs_pressure",)),
}


class _Sensor:
    def __init__(self) -> None:
        self.updates = 0
        self.values: set[tuple[float, ...]] = set()


class Collector:
    """Takes every message of one autopilot.

    Attributes:
        reader: of its events.
        acks: MAV_RESULT by command.
    """

    def __init__(self) -> None:
        self.reader = EventReader()
        self.acks: dict[int, int] = {}
        self._texts = TextReader()
        self._told: list[Text] = []
        self._events: list[Event] = []
        self._beat: Message | None = None
        self._status: Message | None = None
        self._gps: Message | None = None
        self._estimator: int | None = None
        self._uptime_ms: int | None = None
        self._attitudes = 0
        self._looked = 0
        self._sensors = {name: _Sensor() for name in _GROUPS}
        self._hil_us: list[int] = []
        self._armed = self._armed_zero = self._servo = 0

    def take(self, message: Message) -> None:
        """Take one message."""
        take = getattr(self, f"_{message.get_type().lower()}", None)
        if take is not None:
            take(message)

    @property
    def told(self) -> list[Text]:
        """The texts so far."""
        return self._told

    def look_again(self) -> None:
        """Forget what the sensors were: from here on counts. So does what is told, if it is told again on request."""
        if self.acks.get(common.MAV_CMD_RUN_PREARM_CHECKS) == common.MAV_RESULT_ACCEPTED:
            self._told.clear()
        self._looked = 0
        self._sensors = {name: _Sensor() for name in _GROUPS}

    def seen(self) -> dict[str, Any]:
        """The observation's fields that messages tell."""
        self._told += self._texts.flush()
        beat, status, gps = self._beat, self._status, self._gps
        prearm = common.MAV_SYS_STATUS_PREARM_CHECK
        return {
            "base_mode": 0 if beat is None else beat.base_mode,
            "custom_mode": 0 if beat is None else beat.custom_mode,
            "system_status": 0 if beat is None else beat.system_status,
            "prearm_bit": None if status is None else bool(status.onboard_control_sensors_health & prearm),
            "uptime_s": None if self._uptime_ms is None else 1e-3 * self._uptime_ms,
            "attitudes": self._attitudes,
            "sensors": {
                name: SensorSeen(self._looked, sensor.updates, len(sensor.values))
                for name, sensor in self._sensors.items()
            },
            "gps": None if gps is None else _gps_of(gps),
            "outputs": OutputsSeen(len(self._hil_us), self._hil_rate_hz(), self._servo, self._armed, self._armed_zero),
            "report": self.reader.report,
            "events": tuple(self._events),
            "texts": tuple(self._told),
            "estimator_flags": self._estimator,
            "field_gauss": _mean_length(self._sensors["magnetometer"].values),
            "field_there_gauss": None if gps is None else _field_at(gps),
            "prearm_answer": self.acks.get(common.MAV_CMD_RUN_PREARM_CHECKS),
        }

    def _hil_rate_hz(self) -> float:
        times = self._hil_us
        seconds = 1e-6 * (times[-1] - times[0]) if times else 0.0
        return (len(times) - 1) / seconds if seconds > 0 else 0.0

    # One message each

    def _heartbeat(self, message: Message) -> None:
        self._beat = message

    def _sys_status(self, message: Message) -> None:
        self._status = message

    def _gps_raw_int(self, message: Message) -> None:
        self._gps = message

    def _estimator_status(self, message: Message) -> None:
        self._estimator = message.flags

    def _attitude(self, message: Message) -> None:
        self._attitudes += 1
        self._uptime_ms = message.time_boot_ms

    def _system_time(self, message: Message) -> None:
        self._uptime_ms = message.time_boot_ms

    def _event(self, message: Message) -> None:
        event = decode_event(message)
        if self.reader.take(event) and not event.is_check and event.severity <= DEBUG:
            self._events.append(event)

    def _statustext(self, message: Message) -> None:
        self._told += self._texts.take(message)

    def _command_ack(self, message: Message) -> None:
        self.acks[message.command] = message.result

    def _highres_imu(self, message: Message) -> None:
        self._looked += 1
        for name, (bits, fields) in _GROUPS.items():
            if message.fields_updated & bits == bits:
                sensor = self._sensors[name]
                sensor.updates += 1
                sensor.values.add(tuple(getattr(message, field) for field in fields))

    def _hil_actuator_controls(self, message: Message) -> None:
        if self._hil_us and message.time_usec < self._hil_us[-1]:
            self._hil_us = []  # it has started again
        self._hil_us.append(message.time_usec)
        if message.mode & common.MAV_MODE_FLAG_SAFETY_ARMED:
            self._armed += 1
            self._armed_zero += not any(message.controls)

    def _servo_output_raw(self, message: Message) -> None:
        self._servo += 1


def _mean_length(values: set[tuple[float, ...]]) -> float | None:
    return sum(math.hypot(*value) for value in values) / len(values) if values else None


def _field_at(gps: Message) -> float | None:
    if gps.fix_type < common.GPS_FIX_TYPE_3D_FIX:
        return None
    field = magnetic_field_ned_gauss(1e-7 * gps.lat, 1e-7 * gps.lon, 1e-3 * gps.alt, _MODEL_DATE)
    return math.hypot(*field.tolist())


def _gps_of(message: Message) -> GpsSeen:
    eph, epv = getattr(message, "h_acc", 0), getattr(message, "v_acc", 0)  # [mm]; `eph` itself is HDOP in PX4
    return GpsSeen(
        message.fix_type,
        message.satellites_visible,
        1e-3 * eph if 0 < eph < 0xFFFFFFFF else None,
        1e-3 * epv if 0 < epv < 0xFFFFFFFF else None,
    )
