"""What a flight controller complains of, sorted by cause: EVENTs of PX4 1.17, STATUSTEXTs of 1.12 and of `sim`."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum

from lav2_hil.doctor.observation import Observation


class Cause(StrEnum):
    """Why a vehicle does not arm, or would not fly in HITL."""

    FIRMWARE = "firmware"
    HITL_OFF = "hitl_off"
    NO_OUTPUTS = "no_outputs"
    SLOW_LINK = "slow_link"
    FLIGHT_TERMINATION = "flight_termination"
    KILL_SWITCH = "kill_switch"
    NO_FEED = "no_feed"
    SENSOR_MISSING = "sensor_missing"
    SENSOR_CONSTANT = "sensor_constant"
    MAGNETIC_FIELD = "magnetic_field"
    GPS = "gps"
    ESTIMATOR_LATE = "estimator_late"
    ESTIMATOR = "estimator"
    GROUND_STATION = "ground_station"
    MANUAL_CONTROL = "manual_control"
    BOARD = "board"
    OTHER = "other"


@dataclass(frozen=True, slots=True)
class Complaint:
    """One of them, in the flight controller's words; `source` is EVENT's name, or STATUSTEXT."""

    cause: Cause
    text: str
    source: str


_BY_EVENT = (
    (r"check_estimator_(heading_not_stable|mag_)|check_mag_fault", Cause.MAGNETIC_FIELD),
    (r"check_estimator_(gps|gnss)", Cause.GPS),
    (r"check_modes_(attitude|angular_velocity|local_|global_|home)|check_system_no_(global|home)", Cause.ESTIMATOR),
    (r"check_estimator_", Cause.ESTIMATOR),
    (r"check_(accel|gyro|mag|baro)_(missing|no_data|sys_has_mag_missing)", Cause.SENSOR_MISSING),
    (r"check_rc_dl_no_dllink", Cause.GROUND_STATION),
    (r"check_modes_manual_control|check_rc_|check_man_control_(rtl|landing)", Cause.MANUAL_CONTROL),
    (r"check_man_control_kill_engaged", Cause.KILL_SWITCH),
    (r"check_system_flight_term_active", Cause.FLIGHT_TERMINATION),
    (r"check_system_(safety_button|usb)|check_avionics|check_missing_(system_power|cpuload|fmu)", Cause.BOARD),
    (r"check_(power|cpuload|ram|battery|hardfault)", Cause.BOARD),
    (r"", Cause.OTHER),
)
_BY_TEXT = (
    (r"kill.?switch|kill engaged", Cause.KILL_SWITCH),
    (r"terminat|critical failure detected", Cause.FLIGHT_TERMINATION),
    (r"no connection to the gcs|ground station", Cause.GROUND_STATION),
    (r"safety (switch|button)|usb|power|cpu|sd card|battery|crash dump", Cause.BOARD),
    (r"is stuck|stale", Cause.SENSOR_CONSTANT),
    (r"(accel|gyro|compass|baro|magnetometer).*( missing|timeout)|no valid data from|is silent", Cause.SENSOR_MISSING),
    (r"no (magnetometer|barometer) data|found \d+ compass", Cause.SENSOR_MISSING),
    (r"magnet|heading estimate|yaw estimate|compass|magnetometer reads|heading disagrees", Cause.MAGNETIC_FIELD),
    (r"high (accelerometer|gyro) bias", Cause.ESTIMATOR),
    (r"barometer is -?\d+ m off|accelerometer|gyroscope|barometer", Cause.OTHER),
    (r"gps|global position", Cause.GPS),
    (r"estimat|ekf2|aligning|position required|home position", Cause.ESTIMATOR),
    (r"manual control|\brc\b|throttle|rtl switch", Cause.MANUAL_CONTROL),
    (r"resolve system health failures", None),  # says only that there is something
    (r"preflight|arming denied|takeoff denied|^fail|not arming", Cause.OTHER),
)
_ERROR, _WARNING = 3, 4
"""MAV_SEVERITY: smaller is worse."""
_ALSO_AS_TEXT = (Cause.FLIGHT_TERMINATION, Cause.SENSOR_CONSTANT)
"""What PX4 1.17 has no failing check for: it tells of it once."""
_STICK_MODES = 0x8407
"""Manual, altitude, position, acro, stabilised."""


def cause_of_event(name: str) -> Cause:
    """Of a check that failed."""
    return next(cause for pattern, cause in _BY_EVENT if re.match(pattern, name))


def cause_of_text(text: str) -> Cause | None:
    """Of a text; None when it is no complaint."""
    found = (cause for pattern, cause in _BY_TEXT if re.search(pattern, text, re.IGNORECASE))
    return next(found, None)


def complaints(seen: Observation) -> list[Complaint]:
    """All of them, each once. Who has sent a report says in it what counts now; texts are of then."""
    if seen.report is not None:
        told = [
            Complaint(cause_of_event(check.name), check.text, check.name)
            for check in seen.report.checks
            if _counts(check.name, check.severity, check.modes, seen)
        ]
        told += [found for found in _of_texts(seen) if found.cause in _ALSO_AS_TEXT]
    else:
        told = [] if seen.prearm_bit else _of_texts(seen)
    return list(dict.fromkeys(told))


def _of_texts(seen: Observation) -> list[Complaint]:
    told = []
    for text in seen.texts:
        cause = cause_of_text(text.text)
        if cause is not None and text.severity <= _WARNING:
            told.append(Complaint(cause, text.text, "STATUSTEXT"))
    return told


def _counts(name: str, severity: int, modes: int, seen: Observation) -> bool:
    """Whether a check is more than the remark that some mode, not the present one, needs something."""
    mode = seen.mode_bit
    if name in ("check_modes_mission", "check_modes_offboard_signal"):
        return bool(modes & mode)
    if name == "check_modes_manual_control":
        return bool(mode & _STICK_MODES and not seen.can_arm)
    if name in ("check_modes_home_position", "check_modes_global_pos"):
        return severity <= _ERROR
    return severity <= (_ERROR if seen.can_arm else _WARNING)


def told(seen: Observation, cause: Cause) -> tuple[str, ...]:
    """The complaints about a cause, as evidence."""
    return tuple(f"{found.source}: {found.text}" for found in complaints(seen) if found.cause is cause)
