"""EVENT: numbers from names, arguments, reports, and the sequence with all that a link does to it."""

from __future__ import annotations

import struct

import pytest
from captures import capture
from px4_events import event_message

from bridge.codec import Decoder
from bridge.event_names import EVENTS
from bridge.events import ARMING_SUMMARY, HEALTH_SUMMARY, Event, EventReader, decode_event, event_id
from bridge.tlog import read_tlog

SEEN = {  # numbers in PX4 1.17's traffic
    "check_estimator_missing_data": 22831554,
    "check_modes_attitude": 27227279,
    "check_rc_dl_no_dllink": 23579003,
    "commander_arm_denied_resolve_failures": 16910493,
    ARMING_SUMMARY: 27825120,
    HEALTH_SUMMARY: 18691879,
}


def report(sequence: int, *checks: str, can_arm: int = 0, time_ms: int = 1000) -> list[Event]:
    """An arming report, its events numbered from `sequence`."""
    messages = [event_message(ARMING_SUMMARY, 0, 0, 0, can_arm, 0, severity=8, sequence=sequence, time_ms=time_ms)]
    for name in checks:
        sequence = (sequence + 1) & 0xFFFF
        messages.append(event_message(name, 0x10, 3, sequence=sequence, time_ms=time_ms))
    last = (sequence + 1) & 0xFFFF
    messages.append(event_message(HEALTH_SUMMARY, 0, 0, 0, 0, severity=8, sequence=last, time_ms=time_ms))
    return [decode_event(message) for message in messages]


@pytest.mark.parametrize(("name", "number"), SEEN.items())
def test_the_number_follows_from_the_name(name: str, number: int) -> None:
    assert event_id(name) == number


def test_no_two_names_have_one_number() -> None:
    assert len({event_id(name) for name in EVENTS}) == len(EVENTS)


@pytest.mark.parametrize("name", EVENTS)
def test_every_text_has_its_arguments(name: str) -> None:
    types = EVENTS[name][1]
    event = decode_event(event_message(name, *range(1, len(types) + 1)))
    assert event.name == name
    assert "{" not in event.text
    assert event.arguments == tuple(range(1, len(types) + 1))
    assert struct.calcsize(f"<{types}") <= 25  # PX4's own bound


def test_arguments_stand_in_the_text() -> None:
    event = decode_event(event_message("check_cpuload_too_high", 0xFFFFFFFF, 20, 97.25))
    assert (event.text, event.severity, event.modes) == ("CPU load too high: 97.2%", 3, 0xFFFFFFFF)
    assert decode_event(event_message("check_baro_missing", 16, 1, 2)).text == "Barometer 2 missing"


def test_the_severity_is_the_one_for_the_ground() -> None:
    message = event_message("check_baro_missing", 16, 1, 2)
    message.log_levels = 0x53  # the upper half is for PX4's own log
    assert decode_event(message).severity == 3


def test_a_report_that_a_restart_cuts_off_is_none() -> None:
    reader = EventReader()
    for event in report(100, "check_modes_attitude", time_ms=50_000)[:-1]:
        assert reader.take(event)
    assert reader.take(report(2, time_ms=2_000)[-1])
    assert reader.report is None


def test_an_unknown_number_is_kept() -> None:
    message = event_message("check_baro_missing", 16, 1, 2)
    message.id = 5
    event = decode_event(message)
    assert (event.name, event.text, event.is_check, event.modes) == ("event 5", "event 5", False, 0)


def test_a_report() -> None:
    reader = EventReader()
    assert [reader.take(event) for event in report(65534, "check_modes_attitude", can_arm=0x18)] == [True, True, True]
    assert reader.report is not None
    assert (reader.report.can_arm, reader.report.whole) == (0x18, True)
    assert [check.name for check in reader.report.checks] == ["check_modes_attitude"]
    assert (reader.lost, reader.reports) == (0, 1)


def test_an_event_that_is_missing_makes_a_report_incomplete_and_the_next_is_not() -> None:
    reader = EventReader()
    events = report(65530, "check_modes_attitude", "check_modes_local_pos", "check_modes_local_alt")
    for event in (*events[:2], *events[3:]):
        assert reader.take(event)
    assert reader.report is not None
    assert (reader.lost, reader.report.whole, len(reader.report.checks)) == (1, False, 2)
    for event in report(65535, "check_modes_attitude"):
        assert reader.take(event)
    assert (reader.report.whole, len(reader.report.checks), reader.reports) == (True, 1, 2)


def test_what_comes_twice_or_late_does_not_count() -> None:
    reader = EventReader()
    events = report(65534, "check_modes_attitude", "check_modes_local_pos")
    assert [reader.take(event) for event in (events[0], events[1], events[1], events[0], *events[2:])] == [
        *(True, True, False, False, True, True)
    ]
    assert reader.report is not None
    assert len(reader.report.checks) == 2
    assert reader.lost == 0


def test_a_px4_that_starts_again_numbers_anew() -> None:
    reader = EventReader()
    for event in report(100, "check_modes_attitude", time_ms=50_000):
        reader.take(event)
    for event in report(2, "check_modes_local_pos", time_ms=2_000):
        assert reader.take(event)
    assert reader.report is not None
    assert [check.name for check in reader.report.checks] == ["check_modes_local_pos"]
    assert reader.lost == 0


def test_recorded_reports() -> None:
    """PX4 1.17 in HITL, killed and started again: 32 events, four reports, none lost."""
    reader, decoder, events = EventReader(), Decoder(datagrams=True), []
    for record in read_tlog(capture("hitl_pty_px4_restart")):
        events += [decode_event(message) for message in decoder.feed(record.frame) if message.get_type() == "EVENT"]
    assert all(reader.take(event) for event in events)
    assert (len(events), reader.reports, reader.lost) == (32, 4, 0)
    assert not any(event.name.startswith("event ") for event in events)
    assert reader.report is not None
    assert reader.report.can_arm == 0x80013B80
