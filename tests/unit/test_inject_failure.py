"""MAV_CMD_INJECT_FAILURE: what it asks for, what becomes of it, and the one answer."""

from __future__ import annotations

from typing import Any

import pytest
from pymavlink.dialects.v20 import common

from bridge.codec import Decoder, Encoder
from bridge.inject_failure import FailureRequest, Result, ack, decode
from lav2_hil.failure_commands import FailureCommands, changes_of
from twin.faults import SENSOR_KINDS, FaultChange, check_change

GYRO, ACCEL, MAG, BARO, GPS, VIO, MOTOR = 0, 1, 2, 3, 4, 6, 101
OK, OFF, STUCK, GARBAGE, WRONG, SLOW, DELAYED, INTERMITTENT = range(8)
NAN = float("nan")


def long(
    unit: float, kind: float, instance: float = 0, *, system: int = 1, component: int = 1, command: int = 420
) -> Any:
    values = (unit, kind, instance, 0, 0, 0, 0)
    return common.MAVLink_command_long_message(system, component, command, 0, *values)


def from_ground(message: Any, system: int = 255, component: int = 190) -> Any:
    """A message as it is after the wire."""
    (received,) = Decoder().feed(Encoder(system, component).encode(message))
    return received


def request(unit: float, kind: float, instance: float = 0) -> FailureRequest:
    found = decode(from_ground(long(unit, kind, instance)), 1)
    assert found is not None
    return found


def test_a_command_says_who_asks_what_of_whom() -> None:
    assert decode(from_ground(long(MOTOR, OFF, 2)), 1) == FailureRequest(MOTOR, OFF, 2, 1, 1, 255, 190)
    as_int = common.MAVLink_command_int_message(1, 1, 0, 420, 0, 0, GPS, STUCK, 1, 0, 0, 0, 0)
    assert decode(from_ground(as_int, 250, 5), 1) == FailureRequest(GPS, STUCK, 1, 1, 1, 250, 5)


def test_who_asks_all_is_answered_by_the_flight_controller() -> None:
    for system, component in ((0, 0), (0, 1), (7, 0)):
        found = decode(from_ground(long(GPS, OFF, system=system, component=component)), 7)
        assert found is not None
        assert (found.system, found.component) == (7, 1)
    found = decode(from_ground(long(GPS, OFF, system=7, component=100)), 7)
    assert found is not None
    assert found.component == 100


@pytest.mark.parametrize(
    "message",
    [
        long(MOTOR, OFF, command=400),
        long(MOTOR, OFF, system=2),
        common.MAVLink_heartbeat_message(6, 8, 0, 0, 4, 3),
        common.MAVLink_command_ack_message(420, 0),
    ],
    ids=["another command", "another vehicle", "a heartbeat", "an acknowledgement"],
)
def test_anything_else_is_left_alone(message: Any) -> None:
    told: list[Any] = []
    assert decode(from_ground(message), 1) is None
    assert FailureCommands(4, told.append, told.append).take(from_ground(message), 1) is None
    assert told == []


MAPPED = [
    (MOTOR, OFF, 2, [FaultChange("rotor2", "effectiveness", (0.0,))]),
    (MOTOR, STUCK, 4, [FaultChange("rotor4", "stuck", ())]),
    (MOTOR, OFF, 0, [FaultChange(f"rotor{number}", "effectiveness", (0.0,)) for number in (1, 2, 3, 4)]),
    (MOTOR, OK, 3, [FaultChange("rotor3", "effectiveness", None), FaultChange("rotor3", "stuck", None)]),
    (GPS, OFF, 0, [FaultChange("gps", "off", ())]),
    (GPS, OFF, 1, [FaultChange("gps", "off", ())]),
    (GPS, STUCK, 0, [FaultChange("gps", "frozen", ())]),
    (GPS, WRONG, 0, [FaultChange("gps", "jump", (100.0, 0.0, 0.0))]),
    (GPS, GARBAGE, 0, [FaultChange("gps", "noise", (100.0,))]),
    (GPS, OK, 0, [FaultChange("gps", kind, None) for kind in SENSOR_KINDS["gps"]]),
    (BARO, STUCK, 0, [FaultChange("baro", "stuck", ())]),
    (BARO, WRONG, 0, [FaultChange("baro", "bias", (5.0,))]),
    (MAG, OFF, 0, [FaultChange("mag", "silent", ())]),
    (ACCEL, GARBAGE, 0, [FaultChange("accel", "noise", (50.0,))]),
    (GYRO, STUCK, 1, [FaultChange("gyro", "stuck", ())]),
    (GYRO, OK, 0, [FaultChange("gyro", kind, None) for kind in SENSOR_KINDS["gyro"]]),
]


@pytest.mark.parametrize(("unit", "kind", "instance", "changes"), MAPPED)
def test_what_is_simulated_is_accepted(unit: int, kind: int, instance: int, changes: list[FaultChange]) -> None:
    assert changes_of(request(unit, kind, instance), 4) == (Result.ACCEPTED, tuple(changes))


def test_whatever_is_accepted_can_be_done() -> None:
    accepted = 0
    for unit in range(120):
        for kind in range(10):
            for instance in range(-1, 8):
                result, changes = changes_of(request(unit, kind, instance), 4)
                assert (result is Result.ACCEPTED) == bool(changes)
                accepted += bool(changes)
                for change in changes:
                    check_change(change, 4)
    # Five sensors, five types, instances 0 and 1; the motors' three, 0 to 4.
    assert accepted == 5 * 5 * 2 + 3 * 5


@pytest.mark.parametrize(
    ("kind", "changes"),
    [
        (OFF, [FaultChange("mocap", "off", ())]),
        (STUCK, [FaultChange("mocap", "frozen", ())]),
        (GARBAGE, [FaultChange("mocap", "noise", (1.0,))]),
        (WRONG, [FaultChange("mocap", "jump", (1.0, 0.0, 0.0))]),
        (OK, [FaultChange("mocap", kind, None) for kind in SENSOR_KINDS["mocap"]]),
    ],
)
def test_vio_is_motion_capture_where_there_is_one(kind: int, changes: list[FaultChange]) -> None:
    assert changes_of(request(VIO, kind), 4, motion_capture=True) == (Result.ACCEPTED, tuple(changes))
    for change in changes:
        check_change(change, 4, motion_capture=True)
    told: list[Any] = []
    commands = FailureCommands(4, told.append, lambda _: None, motion_capture=True)
    assert commands.take(from_ground(long(VIO, kind)), 1) is not None
    assert told == changes


@pytest.mark.parametrize("unit", [5, 6, 7, 8, 100, 102, 103, 104, 105, 106, -1, NAN, 0.5])
def test_units_that_are_not_simulated_are_unsupported(unit: float) -> None:
    for kind in (OK, OFF):
        assert changes_of(request(unit, kind), 4) == (Result.UNSUPPORTED, ())


@pytest.mark.parametrize(
    ("unit", "kind"),
    [(GPS, SLOW), (BARO, DELAYED), (GYRO, INTERMITTENT), (GYRO, 8), (GYRO, NAN), (MOTOR, WRONG), (MOTOR, GARBAGE)],
)
def test_types_that_are_not_simulated_are_unsupported(unit: float, kind: float) -> None:
    assert changes_of(request(unit, kind), 4) == (Result.UNSUPPORTED, ())


@pytest.mark.parametrize(
    ("unit", "kind", "instance"),
    [(MOTOR, OFF, 5), (MOTOR, OK, 5), (GPS, OFF, 2), (MOTOR, OFF, -1), (MOTOR, OFF, 1.5), (MOTOR, OFF, NAN)],
)
def test_an_instance_that_there_is_not_is_denied(unit: int, kind: int, instance: float) -> None:
    assert changes_of(request(unit, kind, instance), 4) == (Result.DENIED, ())


def test_a_rover_has_no_motors_to_lose() -> None:
    assert changes_of(request(MOTOR, OFF, 1), 0) == (Result.UNSUPPORTED, ())


def test_each_is_answered_once_by_the_component_that_was_asked() -> None:
    changes: list[FaultChange] = []
    lines: list[str] = []
    commands = FailureCommands(4, changes.append, lines.append)
    asked = [
        (long(MOTOR, OFF, 2, system=3, component=1), 0),
        (long(MOTOR, OFF, 9, system=3, component=100), 2),
        (long(100, OFF, system=0, component=0), 3),
        (long(MOTOR, OK, system=3, component=1), 0),
    ]
    decoder = Decoder()
    answers = []
    for message, _ in asked:
        frame = commands.take(from_ground(message), 3)
        assert frame is not None
        answers += decoder.feed(frame)
    assert [answer.result for answer in answers] == [result for _, result in asked]
    assert [(a.get_srcSystem(), a.get_srcComponent()) for a in answers] == [(3, 1), (3, 100), (3, 1), (3, 1)]
    assert {(a.command, a.target_system, a.target_component) for a in answers} == {(420, 255, 190)}
    assert changes[0] == FaultChange("rotor2", "effectiveness", (0.0,))
    assert len(changes) == 1 + 8
    assert lines == [
        "fault: rotor2 effectiveness=0, by the ground station 255/190",
        "fault: the ground station 255/190 asked for unit 101, type 1, instance 9: denied",
        "fault: the ground station 255/190 asked for unit 100, type 1, instance 0: unsupported",
        "fault over: rotor1, rotor2, rotor3, rotor4, by the ground station 255/190",
    ]


def test_a_repeated_command_is_answered_again_and_changes_nothing_more() -> None:
    changes: list[FaultChange] = []
    commands = FailureCommands(4, changes.append, lambda _: None)
    frames = [commands.take(from_ground(long(GPS, OFF)), 1) for _ in range(2)]
    assert None not in frames
    assert changes[0] == changes[1]


def test_the_answers_go_on_when_their_numbers_have_come_round() -> None:
    commands = FailureCommands(4, lambda _: None, lambda _: None)
    decoder = Decoder()
    message = from_ground(long(GPS, OFF))
    answers = [decoder.feed(commands.take(message, 1) or b"") for _ in range(258)]
    assert [answer[0].get_seq() for answer in answers] == [number % 256 for number in range(258)]
    assert decoder.stats.lost_frames == 0


def test_before_the_flight_controller_has_spoken_nobody_is_asked() -> None:
    assert FailureCommands(4, lambda _: None, lambda _: None).take(from_ground(long(GPS, OFF)), None) is None


def test_the_answer_is_for_who_asked() -> None:
    answer = ack(FailureRequest(MOTOR, OFF, 1, 1, 1, 42, 7), Result.UNSUPPORTED)
    assert (answer.command, answer.result, answer.target_system, answer.target_component) == (420, 3, 42, 7)
