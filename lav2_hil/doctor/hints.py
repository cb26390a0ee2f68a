"""What to do about a text of the board while it flies here, in a few words; the doctor looks closer."""

from __future__ import annotations

from bridge.board_texts import BOARD_SAYS
from bridge.session_io import Notice
from lav2_hil.doctor.complaints import Cause, cause_of_text

_HINTS = {
    Cause.GPS: "no GPS yet: it has a fix some seconds after the first HIL_GPS",
    Cause.ESTIMATOR: "EKF not aligned: it needs some seconds of sensors from a vehicle at rest",
    Cause.SENSOR_CONSTANT: "a sensor is stale: its readings do not change",
    Cause.SENSOR_MISSING: "a sensor is missing: the board does not take it from HIL_SENSOR",
    Cause.MAGNETIC_FIELD: "heading not settled: place, date and magnetic field must agree",
    Cause.GROUND_STATION: "no ground station: connect one to the forwarded port",
    Cause.MANUAL_CONTROL: "no sticks: connect a joystick, or choose another mode",
    Cause.KILL_SWITCH: "the kill switch is engaged: release it",
    Cause.FLIGHT_TERMINATION: "flight termination: restart the board",
    Cause.BOARD: "a check of the real board: lav2-hil board prepare sets what HITL needs",
}


def with_hint(notice: Notice) -> str:
    """The text of a notice; of what the board says, with what it means and what to do."""
    cause = cause_of_text(notice.text) if notice.name == BOARD_SAYS else None
    if cause is None:
        return notice.text
    hint = _HINTS.get(cause)
    return f"{notice.text} ({'' if hint is None else hint + '; '}lav2-hil doctor looks into it)"
