"""Every cause of the table in docs/doctor.md, from what PX4 1.17 (EVENT), PX4 1.12 (STATUSTEXT) and the link show.

`tests/data/doctor_visits.json` holds frames of real visits to PX4 SITL, fed wrongly on purpose; the rest is made.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from px4_events import event_message
from pymavlink.dialects.v20 import common

from bridge.codec import Decoder, Encoder, Message
from bridge.event_names import EVENTS
from bridge.events import ARMING_SUMMARY, HEALTH_SUMMARY
from bridge.statustext import Text
from lav2_hil.doctor.collector import Collector
from lav2_hil.doctor.complaints import Cause, cause_of_event, cause_of_text
from lav2_hil.doctor.observation import GpsSeen, Observation, OutputsSeen, SensorSeen
from lav2_hil.doctor.report import as_table, lines_of
from lav2_hil.doctor.rules import diagnose

VISITS: dict[str, dict[str, Any]] = json.loads((Path(__file__).parents[1] / "data" / "doctor_visits.json").read_text())
EXPECTED = {
    "ok": [],
    "gpsless": [Cause.GPS],
    "magoff": [Cause.MAGNETIC_FIELD],
    "nomag": [Cause.SENSOR_MISSING],
    "nobaro": [Cause.SENSOR_MISSING],
    "barofix": [Cause.SENSOR_CONSTANT],
    "accfix": [Cause.SENSOR_CONSTANT],
}
LOITER, MANUAL = 0x03040000, 0x00010000
ALL = 0xFFFFFFFF
GOOD_GPS = GpsSeen(3, 12, 0.3, 0.4)
GOOD = {name: SensorSeen(40, 30, 30) for name in ("accelerometer", "gyroscope", "magnetometer", "barometer")}
PX4_117 = Observation(
    release=(1, 17, 0),
    simulated=True,
    seconds=8.0,
    base_mode=1,
    custom_mode=LOITER,
    attitudes=100,
    sensors=GOOD,
    gps=GOOD_GPS,
    prearm_bit=True,
    parameters={"SYS_HITL": 0},
    uptime_s=20.0,
)
PX4_112 = replace(PX4_117, release=(1, 12, 0), estimator_flags=895)
BOARD = replace(
    PX4_117,
    simulated=False,
    serial=True,
    baud=921600,
    base_mode=53,
    parameters={"SYS_HITL": 1, "HIL_ACT_FUNC1": 101, "HIL_ACT_FUNC2": 102},
    outputs=OutputsSeen(1600, 200.0),
)


def collected(frames: list[Message]) -> dict[str, Any]:
    collector = Collector()
    for message in frames:
        collector.take(message)
    return collector.seen()


def with_report(seen: Observation, *checks: tuple[str, int, int], can_arm: int = 0) -> Observation:
    """The same with an arming report of (name, severity, modes)."""
    messages = [event_message(ARMING_SUMMARY, 0, 0, 0, can_arm, 0, severity=8, sequence=1)]
    for number, (name, severity, modes) in enumerate(checks, 2):
        more = [0] * (len(EVENTS[name][1]) - 2)
        messages.append(event_message(name, modes, 1, *more, severity=severity, sequence=number))
    messages.append(event_message(HEALTH_SUMMARY, 0, 0, 0, 0, severity=8, sequence=len(messages) + 1))
    return replace(seen, report=collected(messages)["report"])


def with_texts(seen: Observation, *texts: str, severity: int = 2) -> Observation:
    """The same, and PX4 1.12 has said this."""
    return replace(seen, prearm_bit=False, texts=tuple(Text(severity, text, False) for text in texts))


def causes(seen: Observation) -> list[Cause]:
    return [finding.cause for finding in diagnose(seen)]


# Recorded


@pytest.mark.parametrize("name", VISITS)
def test_a_recorded_visit(name: str) -> None:
    visit, feed = VISITS[name], name.partition(" ")[2]
    decoder = Decoder(datagrams=True)
    frames = [message for frame in visit["frames"] for message in decoder.feed(bytes.fromhex(frame))]
    assert len(frames) == len(visit["frames"])
    seen = Observation(
        release=tuple(visit["release"]),
        simulated=True,
        parameters=visit["parameters"],
        seconds=5.0,
        **collected(frames),
    )
    assert causes(seen) == EXPECTED[feed]


def test_both_releases_are_recorded() -> None:
    assert {name.split()[0] for name in VISITS} == {"1.17", "1.12"}


# Made, one row of the table after the other

EVENT_ROWS = {
    "estimator has no data": ("check_estimator_missing_data", 3, ALL, Cause.ESTIMATOR),
    "no attitude": ("check_modes_attitude", 2, ALL, Cause.ESTIMATOR),
    "no local position": ("check_modes_local_pos", 3, 0x7E007C, Cause.ESTIMATOR),
    "no global position": ("check_modes_global_pos", 3, 0x38, Cause.ESTIMATOR),
    "no altitude": ("check_modes_local_alt", 2, 0x7E007E, Cause.ESTIMATOR),
    "height": ("check_estimator_hgt_not_stable", 3, ALL, Cause.ESTIMATOR),
    "barometer": ("check_baro_missing", 3, ALL, Cause.SENSOR_MISSING),
    "magnetometer": ("check_mag_no_data", 3, ALL, Cause.SENSOR_MISSING),
    "no compass": ("check_mag_sys_has_mag_missing", 3, ALL, Cause.SENSOR_MISSING),
    "heading": ("check_estimator_heading_not_stable", 3, ALL, Cause.MAGNETIC_FIELD),
    "magnetic strength": ("check_estimator_mag_interference", 4, ALL, Cause.MAGNETIC_FIELD),
    "GPS drift": ("check_estimator_gps_hor_pos_drift_too_high", 4, ALL, Cause.GPS),
    "satellites": ("check_estimator_gps_num_sats_too_low", 3, ALL, Cause.GPS),
    "ground station": ("check_rc_dl_no_dllink", 3, ALL, Cause.GROUND_STATION),
    "RC calibration": ("check_rc_trim_too_small", 3, ALL, Cause.MANUAL_CONTROL),
    "RTL switch": ("check_man_control_rtl_engaged", 3, ALL, Cause.MANUAL_CONTROL),
    "kill switch": ("check_man_control_kill_engaged", 3, ALL, Cause.KILL_SWITCH),
    "termination": ("check_system_flight_term_active", 3, ALL, Cause.FLIGHT_TERMINATION),
    "safety switch": ("check_system_safety_button", 3, ALL, Cause.BOARD),
    "USB": ("check_system_usb_connected", 3, ALL, Cause.BOARD),
    "power": ("check_avionics_power_missing", 3, ALL, Cause.BOARD),
    "CPU": ("check_cpuload_too_high", 3, ALL, Cause.BOARD),
    "SD card": ("check_missing_fmu_sdcard", 3, ALL, Cause.BOARD),
    "battery": ("check_battery_unhealthy", 3, ALL, Cause.BOARD),
    "motor": ("check_failure_detector_motor", 2, ALL, Cause.OTHER),
}


@pytest.mark.parametrize("row", EVENT_ROWS)
def test_an_event_of_1_17(row: str) -> None:
    name, severity, modes, cause = EVENT_ROWS[row]
    seen = with_report(PX4_117, (name, severity, modes))
    assert causes(seen) == [cause]
    (finding,) = diagnose(seen)
    assert finding.blocks
    assert any(line.startswith(f"{name}: {EVENTS[name][0].split()[0]}") for line in finding.evidence)


TEXT_ROWS = {
    "Preflight Fail: no valid data from Accel 0": Cause.SENSOR_MISSING,
    "Preflight Fail: Baro Sensor 0 missing": Cause.SENSOR_MISSING,
    "Preflight Fail: barometer 0 missing": Cause.SENSOR_MISSING,
    "Preflight Fail: Compass Sensor 0 missing": Cause.SENSOR_MISSING,
    "BARO #0 failed: TIMEOUT!": Cause.SENSOR_MISSING,
    "MAG #0 failed:  STALE!": Cause.SENSOR_CONSTANT,
    "Preflight Fail: heading estimate not stable": Cause.MAGNETIC_FIELD,
    "Preflight Fail: strong magnetic interference detected": Cause.MAGNETIC_FIELD,
    "Preflight Fail: Yaw estimate error": Cause.MAGNETIC_FIELD,
    "Preflight Fail: GPS fix too low": Cause.GPS,
    "Preflight Fail: not enough GPS Satellites": Cause.GPS,
    "Preflight Fail: GPS Horizontal Pos Drift too high": Cause.GPS,
    "Arming denied! Global position required": Cause.GPS,
    "Preflight Fail: height estimate not stable": Cause.ESTIMATOR,
    "Preflight Fail: ekf2 missing data": Cause.ESTIMATOR,
    "Preflight Fail: High Accelerometer Bias": Cause.ESTIMATOR,
    "Preflight Fail: No connection to the GCS": Cause.GROUND_STATION,
    "RC calibration check failed": Cause.MANUAL_CONTROL,
    "Manual control lost": Cause.MANUAL_CONTROL,
    "Failure: Kill switch engaged": Cause.KILL_SWITCH,
    "Flight termination active": Cause.FLIGHT_TERMINATION,
    "Critical failure detected: terminate flight": Cause.FLIGHT_TERMINATION,
    "Arming denied! Press safety switch first": Cause.BOARD,
    "Arming denied! Flying with USB is not safe": Cause.BOARD,
    "Arming denied! Connect power module": Cause.BOARD,
    "CAUTION: Avionics Power low:   0.00 Volt": Cause.BOARD,
    "Fail: CPU load too high: 97.3%": Cause.BOARD,
    "Warning! Missing FMU SD Card.": Cause.BOARD,
    "Arming denied! Check battery": Cause.BOARD,
    "Preflight Fail: Roll failure detected": Cause.OTHER,
    "Arming denied, vehicle outside geofence": Cause.OTHER,
}


@pytest.mark.parametrize("text", TEXT_ROWS)
def test_a_text_of_1_12(text: str) -> None:
    seen = with_texts(PX4_112, text)
    assert causes(seen) == [TEXT_ROWS[text]]
    (finding,) = diagnose(seen)
    assert f"STATUSTEXT: {text}" in finding.evidence


BUILT_IN = {
    "Preflight Fail: no GPS": Cause.GPS,
    "Preflight Fail: GPS sees 4 satellites, 6 needed": Cause.GPS,
    "Preflight Fail: aligning: waiting for GPS": Cause.GPS,
    "Preflight Fail: aligning: hold the vehicle still": Cause.ESTIMATOR,
    "Preflight Fail: no magnetometer data": Cause.SENSOR_MISSING,
    "Preflight Fail: barometer is silent": Cause.SENSOR_MISSING,
    "Preflight Fail: barometer is stuck": Cause.SENSOR_CONSTANT,
    "Preflight Fail: GPS is stuck": Cause.SENSOR_CONSTANT,
    "Preflight Fail: magnetic strength disagrees with the world model": Cause.MAGNETIC_FIELD,
    "Preflight Fail: magnetometer reads nothing": Cause.MAGNETIC_FIELD,
    "Preflight Fail: accelerometer says upside down": Cause.OTHER,
    "Preflight Fail: gyroscope x reads 4.0 deg/s at rest": Cause.OTHER,
    "Preflight Fail: barometer is 120 m off the GPS altitude": Cause.OTHER,
}


@pytest.mark.parametrize("text", BUILT_IN)
def test_a_text_of_the_built_in_autopilot(text: str) -> None:
    assert cause_of_text(text) is BUILT_IN[text]


def test_texts_that_are_no_complaint() -> None:
    for text in ("Takeoff detected", "Armed by external command", "Landing detected", "Data link regained"):
        assert cause_of_text(text) is None
    assert causes(replace(with_texts(PX4_112, "Preflight Fail: GPS fix too low"), prearm_bit=True)) == []  # it was then


def test_every_check_has_a_cause() -> None:
    checks = [name for name, (_, types) in EVENTS.items() if name.startswith("check_") and types.startswith("IB")]
    assert len(checks) > 100
    assert {cause_of_event(name) for name in checks} >= {cause for *_, cause in EVENT_ROWS.values()}


# Healthy


@pytest.mark.parametrize("seen", [PX4_117, PX4_112, BOARD], ids=["1.17", "1.12", "board"])
def test_nothing_is_wrong(seen: Observation) -> None:
    assert causes(seen) == []


def test_what_only_other_modes_need_is_no_finding() -> None:
    remarks = (
        ("check_modes_mission", 6, 0x8), ("check_modes_offboard_signal", 3, 0x4000),
        ("check_modes_manual_control", 4, ALL), ("check_rc_dl_no_dllink", 6, ALL),
    )  # fmt: skip
    assert causes(with_report(PX4_117, *remarks, can_arm=0x807F3BB0)) == []


def test_sticks_that_the_present_mode_needs() -> None:
    seen = with_report(replace(PX4_117, custom_mode=MANUAL), ("check_modes_manual_control", 4, ALL))
    assert causes(replace(seen, parameters={"COM_RC_IN_MODE": 1})) == [Cause.MANUAL_CONTROL]


def test_sticks_that_nothing_needs() -> None:
    """With COM_RC_IN_MODE 4 PX4 remarks their absence as an error, and arms."""
    assert causes(with_report(PX4_117, ("check_modes_manual_control", 3, ALL), can_arm=ALL)) == []


def test_a_mission_that_the_present_mode_needs() -> None:
    seen = with_report(replace(PX4_117, custom_mode=0x04040000), ("check_modes_mission", 6, 0x8))
    (finding,) = diagnose(seen)
    assert finding.evidence == ("check_modes_mission: No valid mission available",)


# Streams


def test_no_feed_explains_all_that_is_missing() -> None:
    silent = {name: SensorSeen(40, 0, 0) for name in GOOD}
    checks = [("check_accel_no_data", 3, ALL), ("check_gyro_no_data", 3, ALL), ("check_modes_attitude", 2, ALL)]
    assert causes(with_report(replace(PX4_117, sensors=silent, gps=None), *checks)) == [Cause.NO_FEED]
    never = replace(PX4_117, sensors={}, attitudes=0, gps=None)
    assert causes(with_report(never, ("check_estimator_missing_data", 3, ALL))) == [Cause.NO_FEED]
    old = with_texts(replace(PX4_112, sensors=silent), "Preflight Fail: no valid data from Accel 0")
    assert causes(old) == [Cause.NO_FEED]


@pytest.mark.parametrize("name", GOOD)
def test_a_sensor_that_never_changes(name: str) -> None:
    for sensor, found in ((SensorSeen(40, 30, 1), True), (SensorSeen(40, 30, 3), True), (SensorSeen(40, 30, 4), False)):
        seen = replace(PX4_117, sensors=GOOD | {name: sensor})
        assert causes(seen) == ([Cause.SENSOR_CONSTANT] if found else [])


def test_a_sensor_that_px4_throws_away_without_a_word() -> None:
    seen = replace(with_report(PX4_117, can_arm=ALL), sensors=GOOD | {"barometer": SensorSeen(40, 0, 0)})
    (finding,) = diagnose(seen)
    assert (finding.cause, finding.blocks) == (Cause.SENSOR_CONSTANT, False)


@pytest.mark.parametrize(
    ("fix", "found"),
    [
        (GpsSeen(2, 12, 0.3, 0.4), True), (GpsSeen(3, 5, 0.3, 0.4), True), (GpsSeen(3, 6, 3.0, 5.0), False),
        (GpsSeen(3, 6, 3.1, 5.0), True), (GpsSeen(3, 6, 3.0, 5.1), True), (GpsSeen(3, 6, None, None), False),
    ],
)  # fmt: skip
def test_a_poor_fix(fix: GpsSeen, found: bool) -> None:
    assert causes(replace(PX4_117, gps=fix)) == ([Cause.GPS] if found else [])


def test_the_field_is_measured() -> None:
    for measured, found in ((0.67, False), (0.69, True), (0.27, True), (0.29, False)):
        seen = replace(PX4_112, field_gauss=measured, field_there_gauss=0.48)
        assert causes(seen) == ([Cause.MAGNETIC_FIELD] if found else [])


def test_1_12_would_arm_without_a_position() -> None:
    """Its prearm bit is set before EKF2 aligns."""
    seen = replace(PX4_112, estimator_flags=229)
    assert causes(seen) == [Cause.ESTIMATOR]
    assert causes(replace(seen, gps=None)) == [Cause.GPS]


def test_an_old_board_starts_its_estimator_late() -> None:
    seen = with_report(replace(BOARD, attitudes=0, uptime_s=300.0), ("check_modes_attitude", 2, ALL))
    (finding,) = diagnose(seen)
    assert finding.cause is Cause.ESTIMATOR_LATE
    assert "15 s" in finding.evidence[0]
    assert causes(replace(seen, uptime_s=30.0)) == [Cause.ESTIMATOR]


# The board and its link


def test_report_20_sys_hitl() -> None:
    for value, base_mode, found in ((1, 21, True), (0, 21, True), (2, 53, True), (1, 53, False), (0, 53, False)):
        seen = replace(BOARD, parameters=BOARD.parameters | {"SYS_HITL": value}, base_mode=base_mode)
        assert causes(seen) == ([Cause.HITL_OFF] if found else [])
    sitl = replace(PX4_117, parameters={"SYS_HITL": 1})
    assert causes(sitl) == [Cause.HITL_OFF]


def test_report_13_no_controls() -> None:
    no_module = replace(BOARD, parameters={"SYS_HITL": 1}, outputs=OutputsSeen())
    (finding,) = diagnose(no_module)
    assert finding.cause is Cause.NO_OUTPUTS
    assert any("pwm_out_sim" in line for line in finding.evidence)
    unset = replace(BOARD, parameters={"SYS_HITL": 1, "HIL_ACT_FUNC1": 0})
    assert causes(unset) == [Cause.NO_OUTPUTS]
    assert causes(replace(BOARD, outputs=OutputsSeen())) == [Cause.NO_OUTPUTS]
    assert causes(replace(BOARD, serial=False, outputs=OutputsSeen())) == []  # a ground station's link has none
    armed = replace(BOARD, base_mode=181, outputs=OutputsSeen(1600, 200.0, 0, 100, 100))
    assert causes(armed) == [Cause.NO_OUTPUTS]
    assert causes(replace(armed, outputs=OutputsSeen(1600, 200.0, 0, 100, 99))) == []
    assert causes(replace(BOARD, release=(1, 12, 0), parameters={"SYS_HITL": 1})) == []  # mixers


def test_report_53_a_motor_without_an_output() -> None:
    quad = {"CA_AIRFRAME": 0, "CA_ROTOR_COUNT": 4, "SYS_HITL": 1}
    outputs = {f"HIL_ACT_FUNC{number}": 100 + number for number in range(1, 5)}
    real = {f"PWM_MAIN_FUNC{number}": 100 + number for number in range(1, 5)}
    assert causes(replace(BOARD, parameters=quad | outputs)) == []
    missing = replace(BOARD, parameters=quad | outputs | {"HIL_ACT_FUNC3": 0} | real)
    (finding,) = diagnose(missing)
    assert finding.cause is Cause.NO_OUTPUTS
    assert finding.evidence == (
        "no output for motor 3 of 4: HIL_ACT_FUNC1 = 101, HIL_ACT_FUNC2 = 102, HIL_ACT_FUNC4 = 104",
    )
    # Real outputs are none of HITL's.
    assert causes(replace(BOARD, parameters=quad | dict.fromkeys(outputs, 0) | real)) == [Cause.NO_OUTPUTS]
    # Vehicles that are no multirotor do not fly by CA_ROTOR_COUNT.
    assert causes(replace(missing, parameters=missing.parameters | {"CA_AIRFRAME": 6})) == []


def test_a_slow_link() -> None:
    assert causes(replace(BOARD, outputs=OutputsSeen(216, 27.0))) == [Cause.SLOW_LINK]
    assert causes(replace(BOARD, outputs=OutputsSeen(800, 100.0))) == []
    assert causes(replace(BOARD, baud=57600, outputs=OutputsSeen())) == [Cause.SLOW_LINK]


def test_flight_termination_by_its_heartbeat() -> None:
    ended = replace(PX4_117, base_mode=129, system_status=8)
    assert causes(ended) == [Cause.FLIGHT_TERMINATION]
    assert causes(replace(BOARD, release=(1, 12, 0), system_status=8)) == []  # 1.12 in HITL always says so
    killed = tuple(collected([event_message("commander_kill_sw_engaged", severity=6)])["events"])
    assert causes(replace(ended, events=killed)) == [Cause.KILL_SWITCH]
    assert causes(replace(PX4_112, system_status=8)) == [Cause.KILL_SWITCH]  # disarmed, and PX4 1.12 does not say why
    assert causes(replace(PX4_112, system_status=8, custom_mode=0x000A0000)) == [Cause.FLIGHT_TERMINATION]
    both = [
        event_message(f"commander_kill_sw_{way}", severity=6, sequence=n)
        for n, way in ((1, "engaged"), (2, "disengaged"))
    ]
    assert causes(replace(PX4_117, events=tuple(collected(both)["events"]))) == []


def test_a_ground_station_that_only_the_doctor_replaces() -> None:
    alone = with_report(PX4_117, ("check_rc_dl_no_dllink", 3, ALL)).report
    assert causes(replace(with_report(PX4_117, can_arm=ALL), lonely_report=alone)) == [Cause.GROUND_STATION]


def test_a_missing_ground_station_that_px4_only_remarks_is_none() -> None:
    alone = with_report(PX4_117, ("check_rc_dl_no_dllink", 6, ALL)).report
    assert causes(replace(with_report(PX4_117, can_arm=ALL), lonely_report=alone)) == []


@pytest.mark.parametrize(
    ("custom_mode", "bit"),
    [
        (0x00010000, 0),
        (0x00020000, 1),
        (0x00030000, 2),
        (0x04040000, 3),
        (LOITER, 4),
        (0x05040000, 5),
        (0x00070000, 15),
    ],
)
def test_the_present_mode_decides_whether_it_can_arm(custom_mode: int, bit: int) -> None:
    here = replace(PX4_117, custom_mode=custom_mode)
    assert with_report(here, can_arm=1 << bit).can_arm is True
    assert with_report(here, can_arm=~(1 << bit) & ALL).can_arm is False


def test_an_old_firmware() -> None:
    assert causes(replace(PX4_112, release=(1, 11, 3))) == [Cause.FIRMWARE]
    assert causes(replace(PX4_112, release=(1, 0, 0))) == []  # the built-in autopilot
    assert causes(replace(PX4_112, release=())) == []


def test_who_refuses_without_a_word_is_a_finding() -> None:
    assert causes(replace(PX4_112, prearm_bit=False)) == [Cause.OTHER]


# Telling


def test_the_report_for_people_and_for_machines() -> None:
    seen = with_report(BOARD, ("check_avionics_power_missing", 3, ALL))
    findings = diagnose(seen)
    lines = lines_of(seen, findings)
    assert "PX4 1.17.0" in lines[0]
    assert any("894281" in line for line in lines)
    table = json.loads(json.dumps(as_table(seen, findings)))
    assert (table["healthy"], table["can_arm"], table["in_hil"]) == (False, False, True)
    assert [(found["cause"], found["severity"]) for found in table["findings"]] == [("board", "error")]
    assert "nothing is wrong" in lines_of(PX4_117, [])[-1]
    assert as_table(PX4_117, [])["healthy"] is True


def test_texts_of_before_count_until_they_are_told_again() -> None:
    def take(collector: Collector, message: Message) -> None:
        (decoded,) = Decoder().feed(Encoder(1, 1).encode(message))
        collector.take(decoded)

    for answered in (True, False):
        collector = Collector()
        if answered:
            take(collector, common.MAVLink_command_ack_message(common.MAV_CMD_RUN_PREARM_CHECKS, 0))
        take(collector, common.MAVLink_statustext_message(2, b"Preflight Fail: aligning"))
        collector.look_again()
        take(collector, common.MAVLink_statustext_message(2, b"Preflight Fail: no GPS"))
        texts = [text.text for text in collector.seen()["texts"]]
        assert texts == (
            ["Preflight Fail: no GPS"] if answered else ["Preflight Fail: aligning", "Preflight Fail: no GPS"]
        )
