"""Public reports about boards and links, reproduced: the table of all, and those that need no clock.

The numbers are fixed names of bug reports of PX4, its simulators and ground stations. Every test's name carries its
number (`pytest -k report_NN_`); virtual time here, ptys and processes in `test_reports_on_a_pty.py`, ports that cannot
be had in `test_ports_refused.py`.

  4  HITL waits for nobody          test_reports, test_reports_on_a_pty
 13  no controls, three causes      test_free_running, test_reports_on_a_pty, unit/test_doctor_rules
 14  HEARTBEATs only at first       test_free_running, test_reports, test_reports_on_a_pty
 15  a board that never reads       test_reports_on_a_pty (a minute: long), unit/test_send_queue
 16  above 400 Hz                   test_link_capacity, test_reports_on_a_pty
 17  57600 and 115200 baud          test_link_capacity, test_free_running, test_hitl_flight
 19  groups without a reading       test_reports, unit/test_hil_messages, unit/test_hil_link
 20  SYS_HITL is not 1              test_start_refused, test_free_running, test_hitl_flight, unit/test_doctor_rules
 21  HIL_STATE_QUATERNION, mG       test_free_running, unit/test_hil_link, unit/test_hil_messages
 22  disarmed by itself             test_reports, unit/test_actuator_map
 23  freezes after minutes          test_hitl_soak (one minute; ten: long)
 25  Preflight Fail                 test_board_texts, test_reports_on_a_pty
 26  unplugged, back elsewhere      test_reports, test_reports_on_a_pty, test_free_running, test_hitl_flight,
                                    unit/test_serial_transport, unit/test_shadow_follower
 27  busy port                      test_ports_refused, test_hitl_flight, test_board_cli, unit/test_serial_transport,
                                    integration/test_cli
 28  ids and versions               test_reports, unit/test_hil_session
 29  HIL floods ground stations     unit/test_router, integration/test_forwarder
 30  processor time, delay          test_serial_delay (in real time)
 31  failures on demand             unit/test_twin_faults
 31b real outputs, restore          test_start_refused, test_board_cli, test_board_prepare
 53  motors without outputs         test_start_refused, test_outputs_read_back, unit/test_doctor_rules
 54  1/1, TIMESYNC                  test_reports, test_outputs_read_back, test_reports_on_a_pty (in real time),
                                    integration/test_forwarder
"""

from __future__ import annotations

from typing import Any

import numpy as np
from hitl.test_free_running import PERIOD_US, beat, connected, controls, flying, gaps
from pymavlink.dialects.v20 import common
from twin_rig import twin_of

from bridge.hil_messages import ACCEL, BARO, GYRO, MAG, SensorEncoder, hil_gps
from bridge.session_io import LinkDown, LinkUp, Received
from firmware_profiles.loader import load_profile
from firmware_profiles.signals import ActuatorCommand
from lav2_hil.actuator_map import ActuatorMap
from lav2_hil.autopilot.autopilot import Autopilot
from lav2_hil.gate import Gate

LAV2 = load_profile("lav2")
ARMED, DISARMED = 181, 53
HALF = (0.5,) * 8


def version_1(system: int, *messages: Any) -> bytes:
    mav = common.MAVLink(None, srcSystem=system, srcComponent=1)
    return b"".join(message.pack(mav, force_mavlink1=True) for message in messages)


# 4


def test_report_4_a_board_without_controls_gets_250_sensors_a_second() -> None:
    bench = connected()
    for _ in range(100):
        bench.say(beat())
        bench.run(bench.now + 100_000, board=False)
    sensors = bench.of("HIL_SENSOR")
    assert len(sensors) == 10 * 250
    assert set(gaps(sensors)) == {PERIOD_US}
    assert bench.session.stats.skipped == 0


def test_report_4_controls_that_stop_hold_up_no_sensor() -> None:
    bench = flying()
    before = len(bench.of("HIL_SENSOR"))
    bench.run(bench.now + 1_000_000, board=False)
    assert len(bench.of("HIL_SENSOR")) - before == 250
    assert set(gaps(bench.of("HIL_SENSOR"))) == {PERIOD_US}


# 14


def px4_recognises(window: bytes) -> bool:
    """cdcacm_autostart: a HEARTBEAT of version 1 or 2 whose length byte is 9, whole enough to be seen."""
    for at in range(len(window) - 9):
        if window[at : at + 2] == b"\xfe\x09" and window[at + 5] == 0:
            return True
        if window[at : at + 2] == b"\xfd\x09" and window[at + 7 : at + 10] == b"\0\0\0":
            return True
    return False


def test_report_14_any_80_bytes_of_the_call_are_recognised() -> None:
    bench = connected()
    bench.run(bench.now + 3_000_000, board=False)
    line = b"".join(message.get_msgbuf() for _, message in bench.sent)
    assert {message.get_type() for _, message in bench.sent} == {"HEARTBEAT"}
    assert all(px4_recognises(line[start : start + 80]) for start in range(len(line) - 80))
    assert not px4_recognises(b"\xfd\x08" + line[2:21]), "a trimmed one is not"


# 19


def test_report_19_a_board_never_gets_a_sensor_without_a_group() -> None:
    bench = flying()
    bench.run(bench.now + 1_000_000)
    messages = [message for _, message in bench.of("HIL_SENSOR")]
    assert {message.fields_updated for message in messages} == {ACCEL | GYRO, ACCEL | GYRO | BARO}
    for message in messages:
        assert bool(message.fields_updated & BARO) == (message.time_usec // PERIOD_US % 5 == 0)


def test_report_19_the_built_in_autopilot_ignores_groups_whose_bits_are_clear() -> None:
    """The same state of its estimator, to the bit, whatever stands in the fields that were not announced."""
    autopilots = [Autopilot(LAV2, 1) for _ in range(2)]
    twin, encoder = twin_of("lav2"), SensorEncoder()
    still = ActuatorCommand(np.zeros((1, 4)))
    slower = 0
    for tick in range(1, 2500):
        sample = twin.sample_of(twin.step(still), tick * PERIOD_US)
        whole, zeros = encoder.hil_sensor(sample), encoder.hil_sensor(sample)
        if not zeros.fields_updated & MAG:
            zeros.xmag = zeros.ymag = zeros.zmag = 0.0
        if not zeros.fields_updated & BARO:
            zeros.abs_pressure = zeros.pressure_alt = zeros.temperature = 0.0
        slower += bool(zeros.fields_updated & MAG) + bool(zeros.fields_updated & BARO)
        for autopilot, message in zip(autopilots, (whole, zeros), strict=True):
            if sample.gps is not None:
                autopilot.gps(hil_gps(sample.gps))
            autopilot.sensor(message, sample.time_us)
            autopilot.settle()
    assert slower > 500
    one, other = (autopilot.commander.estimator for autopilot in autopilots)
    assert one.arming_faults() == other.arming_faults() == []
    assert one.state == other.state


# 22


def test_report_22_disarmed_by_the_board_stops_the_motors_within_a_tick_and_the_twin_goes_on() -> None:
    bench = flying()
    actuators = ActuatorMap(LAV2.firmware)

    def speeds() -> list[float]:
        found: list[float] = actuators.command(bench.steps[-1].controls).rotor_speed[0].tolist()
        return found

    for _ in range(200):
        bench.say(controls(bench.now, ARMED, HALF))
        bench.run(bench.now + 5_000, board=False)
    assert min(speeds()) > 0
    assert bench.names().count("armed") == 1
    steps = len(bench.steps)
    # HITL's stream does not go to zero by itself: the mode bit is all there is.
    bench.say(controls(bench.now + 1, DISARMED, HALF))
    assert "disarmed" not in bench.names()
    assert bench.session.wake_us is not None
    bench.run(bench.session.wake_us, board=False)
    assert len(bench.steps) == steps + 1
    assert speeds() == [0.0] * 4
    assert bench.names().count("disarmed") == 1
    for _ in range(100):
        bench.say(controls(bench.now + 1, DISARMED, HALF))
        bench.run(bench.now + 5_000, board=False)
    assert len(bench.steps) == steps + 1 + 125 == len(bench.of("HIL_SENSOR"))
    assert bench.names().count("disarmed") == 1


def test_report_22_a_heartbeat_of_flight_termination_stops_nothing() -> None:
    """PX4 1.12 says so all the time in HITL, for its lockdown; what counts is the mode bit of the controls."""
    bench = flying()
    ended = common.MAVLink_heartbeat_message(
        2, common.MAV_AUTOPILOT_PX4, 0x35, 0, common.MAV_STATE_FLIGHT_TERMINATION, 3
    )
    before = len(bench.of("HIL_SENSOR"))
    for _ in range(100):
        bench.say(ended, controls(bench.now, ARMED, HALF))
        bench.run(bench.now + 5_000, board=False)
    newest = bench.steps[-1].controls
    assert newest is not None
    assert (newest.armed, newest.stale) == (True, False)
    assert len(bench.of("HIL_SENSOR")) - before == 125
    # A termination in earnest is silence while armed.
    bench.run(bench.now + 300_000, board=False)
    newest = bench.steps[-1].controls
    assert not Gate({0: (0.0, 1.0)}).passes(newest)
    assert bench.names().count("flight_termination_suspected") == 1


# 26


def test_report_26_after_the_link_was_lost_a_clock_that_starts_again_is_nothing_new() -> None:
    bench = flying()
    bench.say(controls(90_000_000, ARMED, HALF))
    bench.run(bench.now + 4_000, board=False)
    bench.feed(LinkDown("unplugged"))
    assert bench.resets == 1
    bench.now += 900_000
    bench.feed(LinkUp("the board"))
    bench.say(beat(), controls(2_000, DISARMED, HALF))
    bench.run(bench.now + 8_000, board=False)
    newest = bench.steps[-1].controls
    assert newest is not None
    assert (newest.time_us, newest.armed, newest.stale) == (2_000, False, False)
    assert "px4_restarted" not in bench.names(), "told as a lost link already"
    assert (bench.resets, bench.session.stats.connections) == (1, 2)


def test_report_26_a_board_that_flies_on_when_the_link_is_back_is_no_flight_termination() -> None:
    bench = flying()
    bench.feed(LinkDown("unplugged"))
    bench.now += 900_000
    bench.feed(LinkUp("the board"))
    bench.say(controls(90_000_000, ARMED, HALF))
    bench.run(bench.now + 4_000, board=False)
    newest = bench.steps[-1].controls
    assert newest is not None
    assert (newest.armed, newest.stale) == (True, False)
    assert "flight_termination_suspected" not in bench.names()


# 28


def test_report_28_a_board_with_system_id_7_that_speaks_version_1_is_adopted_and_a_second_ignored() -> None:
    bench = connected()
    bench.feed(Received(version_1(7, beat())))
    for _ in range(40):
        bench.feed(Received(version_1(7, controls(bench.now, ARMED, HALF))))
        bench.run(bench.now + 5_000, board=False)
    sensors = [message for _, message in bench.of("HIL_SENSOR")]
    assert len(sensors) == 50
    assert {(message.get_srcSystem(), message.get_srcComponent()) for message in sensors} == {(7, 200)}
    assert {message.get_msgbuf()[0] for message in sensors} == {0xFD}, "answered in version 2"
    for _ in range(40):
        bench.feed(Received(version_1(9, beat(), controls(2 * bench.now, DISARMED))))
        bench.feed(Received(version_1(7, controls(bench.now, ARMED, HALF))))
        bench.run(bench.now + 5_000, board=False)
    newest = bench.steps[-1].controls
    assert newest is not None
    assert (newest.armed, newest.channels[:4]) == (True, HALF[:4])
    assert bench.session.system == 7
    others = [notice.text for notice in bench.notices if notice.name == "other_system"]
    assert others == ["system id 9 speaks on the link of 7: ignored"]


# 54


def test_report_54_timesync_is_answered_in_the_same_breath() -> None:
    bench = flying()
    for number in range(1, 50):
        bench.now += 777
        before, asked = len(bench.sent), bench.now
        bench.say(common.MAVLink_timesync_message(0, number))
        ((sent_us, answer),) = bench.sent[before:]
        assert (sent_us, answer.get_type()) == (asked, "TIMESYNC")
        assert (answer.ts1, answer.tc1) == (number, asked * 1000)
    bench.say(common.MAVLink_timesync_message(5, 6))  # an answer is not asked back
    assert len(bench.of("TIMESYNC")) == 49


def test_report_54_what_we_send_does_not_come_from_1_1() -> None:
    bench = flying()
    bench.run(bench.now + 2_000_000)
    senders = {(m.get_srcSystem(), m.get_srcComponent()) for _, m in bench.sent}
    assert senders == {(1, 200)}
