"""The rules: from an observation to findings, one function for each cause. Pure; the order is the order of telling."""

from __future__ import annotations

from collections.abc import Callable

from lav2_hil.doctor.complaints import Cause, told
from lav2_hil.doctor.findings import Finding
from lav2_hil.doctor.link_rules import firmware, flight_termination, hitl_off, kill_switch, no_outputs, slow_link
from lav2_hil.doctor.observation import Observation
from lav2_hil.doctor.remedies import board_fix

MIN_LOOKS = 10
"""So often must a sensor have been looked at before its silence means something."""
SAME = 10
"""Readings for each different one: PX4 subtracts biases that it learns, so a dead sensor is not quite constant."""
SATELLITES, EPH_M, EPV_M = 6, 3.0, 5.0
"""EKF2_REQ_NSATS, EKF2_REQ_EPH, EKF2_REQ_EPV."""
FIELD_GAUSS = 0.2
"""PX4 1.17's bound (EKF2_MAG_CHK_STR); 1.12 does not look."""
LATE_SHARE = 0.05
"""PX4 1.17 without lockstep starts its estimator late by so much of its uptime."""
OLD_BOARD_S = 60.0
_HORIZONTAL_POSITION = 16
"""ESTIMATOR_STATUS: an absolute position."""
_IMU = ("accelerometer", "gyroscope")


def _silent(seen: Observation) -> list[str]:
    return [name for name, sensor in seen.sensors.items() if sensor.asked >= MIN_LOOKS and sensor.updates == 0]


def no_feed(seen: Observation) -> Finding | None:
    """Nothing of the simulator reaches the estimator."""
    silent = _silent(seen)
    imu_silent = all(name in silent for name in _IMU)
    never = not seen.attitudes and not seen.sensors.get(_IMU[0]) and bool(told(seen, Cause.ESTIMATOR))
    missing = " ".join(told(seen, Cause.SENSOR_MISSING)).lower()
    if not (imu_silent or never or ("accel" in missing and "gyro" in missing)):
        return None
    evidence = (f"no new readings in {seen.seconds:.0f} s: {', '.join(silent)}",) if silent else ()
    return Finding(
        Cause.NO_FEED,
        "no sensor feed: the board gets no HIL_SENSOR",
        "start lav2-hil run on the board's port and keep it running; check port and rate, and that it is not paused",
        evidence + told(seen, Cause.ESTIMATOR) + told(seen, Cause.SENSOR_MISSING),
    )


def sensor_missing(seen: Observation) -> Finding | None:
    """A group of HIL_SENSOR does not come, or not whole, or too slowly."""
    evidence = told(seen, Cause.SENSOR_MISSING)
    if not evidence:
        return None
    return Finding(
        Cause.SENSOR_MISSING,
        "a sensor is missing in the feed",
        "send every group of HIL_SENSOR with all its fields_updated bits (accel 0x007, gyro 0x038, mag 0x1C0, baro "
        "0x1A00), baro and mag above 4 Hz",
        evidence,
    )


def sensor_constant(seen: Observation) -> Finding | None:
    """Readings that never change: PX4 takes them for a dead sensor."""
    missing = " ".join(told(seen, Cause.SENSOR_MISSING)).lower()
    found = []
    for name, sensor in seen.sensors.items():
        if sensor.updates >= MIN_LOOKS and sensor.values * SAME <= sensor.updates:
            found.append(f"{name}: {sensor.updates} readings, {sensor.values} different ones")
    words = {"magnetometer": ("compass", "mag"), "barometer": ("baro",)}
    found += [
        f"{name}: it is there, and PX4 gave no reading of it in the last seconds (STALE)"
        for name in _silent(seen)
        if not any(word in missing for word in words.get(name, (name[:4],)))
    ]
    evidence = (*found, *told(seen, Cause.SENSOR_CONSTANT))
    if not evidence:
        return None
    return Finding(
        Cause.SENSOR_CONSTANT,
        "a sensor never changes: PX4 throws away what is the same a hundred times",
        "put noise on every sensor (a profile's noise must not be 0), and send a new sample each time",
        evidence,
        blocks=not seen.can_arm,
    )


def magnetic_field(seen: Observation) -> Finding | None:
    """The field is not the one of the place."""
    evidence = told(seen, Cause.MAGNETIC_FIELD)
    measured, there = seen.field_gauss, seen.field_there_gauss
    if measured is not None and there is not None and abs(measured - there) > FIELD_GAUSS:
        evidence = (f"the field is {measured:.2f} G, at the GPS position it should be {there:.2f} G", *evidence)
    if not evidence:
        return None
    return Finding(
        Cause.MAGNETIC_FIELD,
        "the magnetic field is not that of the place: the heading cannot be trusted",
        "let --home, --date and the GPS position agree: the field must be the world magnetic model's within 0.2 G",
        evidence,
        blocks=not seen.can_arm,
    )


def gps(seen: Observation) -> Finding | None:
    """No position from outside."""
    fix, problems = seen.gps, []
    needs_position = bool(told(seen, Cause.ESTIMATOR)) or _no_position(seen)
    if fix is None:
        problems += ["no GPS_RAW_INT"] if needs_position else []
    else:
        if fix.fix_type < 3:
            problems.append(f"GPS fix type {fix.fix_type}, 3 needed")
        if fix.satellites < SATELLITES:
            problems.append(f"{fix.satellites} satellites, {SATELLITES} needed")
        for name, value, bound in (("eph", fix.eph_m, EPH_M), ("epv", fix.epv_m, EPV_M)):
            if value is not None and value > bound:
                problems.append(f"{name} {value:.1f} m, {bound:g} m needed")
    evidence = (*problems, *told(seen, Cause.GPS))
    if not evidence:
        return None
    return Finding(
        Cause.GPS,
        "no usable GPS: there is no position",
        "send HIL_GPS at 1 to 10 Hz with fix 3, 6 satellites or more, eph and epv (cm) below 3 m and 5 m, no drift",
        evidence + told(seen, Cause.ESTIMATOR),
        blocks=not seen.can_arm,
    )


def _no_position(seen: Observation) -> bool:
    flags = seen.estimator_flags
    return flags is not None and not flags & _HORIZONTAL_POSITION


def estimator_late(seen: Observation) -> Finding | None:
    """1.17 without lockstep: the estimator begins after 5 % of the uptime at the first sensor."""
    imu = seen.sensors.get(_IMU[0])
    if imu is None or not imu.updates or seen.attitudes or seen.uptime_s is None or seen.uptime_s < OLD_BOARD_S:
        return None
    if seen.release < (1, 13):
        return None
    return Finding(
        Cause.ESTIMATOR_LATE,
        "the estimator starts late: by 5 % of the time that the board had been up at the first sensor",
        "reboot the board and start the feed at once, or wait",
        (
            f"sensors come and there is no attitude; up for {seen.uptime_s:.0f} s, so up to "
            f"{LATE_SHARE * seen.uptime_s:.0f} s late",
            *told(seen, Cause.ESTIMATOR),
        ),
    )


def estimator(seen: Observation) -> Finding | None:
    """Not aligned, for no reason that is known."""
    evidence = told(seen, Cause.ESTIMATOR)
    if _no_position(seen):
        evidence += ("ESTIMATOR_STATUS: no absolute position",)
    if not evidence:
        return None
    return Finding(
        Cause.ESTIMATOR,
        "the estimator is not aligned",
        "wait: it takes about 4 s of a standing vehicle; if it stays, look at GPS, magnetometer and noise",
        evidence,
        blocks=seen.can_arm is not True or _no_position(seen),
    )


def ground_station(seen: Observation) -> Finding | None:
    """PX4 wants one, and had none before the doctor came."""
    lonely = seen.lonely_report
    missed = lonely is not None and any(
        check.name == "check_rc_dl_no_dllink" and check.severity <= 3 for check in lonely.checks
    )
    evidence = told(seen, Cause.GROUND_STATION)
    if not evidence and not missed:
        return None
    action = seen.parameters.get("NAV_DLL_ACT")
    return Finding(
        Cause.GROUND_STATION,
        "no ground station is connected, and PX4 does not arm without one",
        "start a ground station (QGroundControl), or decide yourself whether NAV_DLL_ACT shall be 0; "
        "while the doctor is here PX4 takes it for one",
        (evidence or ("check_rc_dl_no_dllink: No connection to the ground control station",))
        + (() if action is None else (f"NAV_DLL_ACT is {action}",)),
    )


def manual_control(seen: Observation) -> Finding | None:
    """The present mode, or a check, wants sticks."""
    evidence = told(seen, Cause.MANUAL_CONTROL)
    if not evidence:
        return None
    source = seen.parameters.get("COM_RC_IN_MODE")
    return Finding(
        Cause.MANUAL_CONTROL,
        "manual control is missing, or a stick or switch of it is in the way",
        "connect RC or a joystick, centre it, release its switches, or choose a mode without sticks; COM_RC_IN_MODE "
        "(4: no sticks at all) is yours to decide",
        evidence + (() if source is None else (f"COM_RC_IN_MODE is {source}",)),
    )


def board(seen: Observation) -> Finding | None:
    """Safety switch, power, USB, processor load, SD card, battery."""
    evidence = told(seen, Cause.BOARD)
    if not evidence:
        return None
    return Finding(
        Cause.BOARD,
        "the board misses something that a desk does not have",
        board_fix(" ".join(evidence)),
        evidence,
        blocks=not seen.can_arm,
    )


def other(seen: Observation) -> Finding | None:
    """What PX4 says, where no rule knows it."""
    evidence = told(seen, Cause.OTHER)
    if not evidence:
        return None
    return Finding(
        Cause.OTHER,
        "a check of the flight controller fails",
        "see its words above; PX4's documentation on preflight checks explains them",
        evidence,
        blocks=not seen.can_arm,
    )


RULES: tuple[Callable[[Observation], Finding | None], ...] = (
    *(firmware, hitl_off, no_outputs, slow_link, flight_termination, kill_switch),
    *(no_feed, sensor_missing, sensor_constant, magnetic_field, gps, estimator_late, estimator),
    *(ground_station, manual_control, board, other),
)
_EXPLAINS = {
    Cause.NO_FEED: {Cause.SENSOR_MISSING, Cause.SENSOR_CONSTANT, Cause.MAGNETIC_FIELD, Cause.GPS, Cause.ESTIMATOR},
    Cause.SENSOR_MISSING: {Cause.ESTIMATOR},
    Cause.SENSOR_CONSTANT: {Cause.ESTIMATOR},
    Cause.MAGNETIC_FIELD: {Cause.ESTIMATOR},
    Cause.GPS: {Cause.ESTIMATOR},
    Cause.ESTIMATOR_LATE: {Cause.ESTIMATOR},
}
"""Who has the first has the others, too: no use in telling them."""


def diagnose(seen: Observation) -> list[Finding]:
    """All findings, causes before what they cause; empty when nothing is wrong."""
    found = [finding for rule in RULES if (finding := rule(seen)) is not None]
    causes = {finding.cause for finding in found}
    explained = set().union(*(_EXPLAINS.get(cause, set()) for cause in causes))
    left = [finding for finding in found if finding.cause not in explained]
    if not left and seen.can_arm is False and not seen.armed:
        return [
            Finding(
                Cause.OTHER,
                "the flight controller does not pass its own check, and does not say why",
                "try to arm from a ground station while the doctor listens: PX4 then says its reasons",
            )
        ]
    return left
