"""Who gets which frame: the MAVLink guide's rules as a table, and what must hold for any traffic."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pymavlink.dialects.v20 import common

from bridge.addresses import HIL_MESSAGES, TARGETS, Addresses, addresses_of
from bridge.codec import Encoder
from bridge.extra_messages import EXTRA_MESSAGES
from bridge.ground_queue import CHANNEL_LIMIT, GroundQueue
from bridge.router import BOARD, REPEAT_US, REPEATS, Router

QGC, SDK = 1, 2
AUTOPILOT, CAMERA, STATION, PROGRAM = (1, 1), (1, 100), (255, 190), (245, 190)
NOBODY = common.MAV_AUTOPILOT_INVALID


def beat(autopilot: int = NOBODY) -> common.MAVLink_heartbeat_message:
    return common.MAVLink_heartbeat_message(0, autopilot, 0, 0, 0, 3)


def ping(system: int, component: int) -> common.MAVLink_ping_message:
    return common.MAVLink_ping_message(7, 1, system, component)


class Net:
    """A router whose channels have all been heard, and encoders of who speaks there."""

    def __init__(self) -> None:
        self.router = Router()
        self.router.add(QGC)
        self.router.add(SDK)
        self.encoders = {who: Encoder(*who) for who in (AUTOPILOT, CAMERA, STATION, PROGRAM)}
        self.now_us = 0
        self.say(BOARD, AUTOPILOT, beat(common.MAV_AUTOPILOT_PX4))
        self.say(QGC, STATION, beat())
        self.say(SDK, PROGRAM, beat())

    def frame(self, who: tuple[int, int], message: object) -> bytes:
        return self.encoders.setdefault(who, Encoder(*who)).encode(message)

    def say(self, channel: int, who: tuple[int, int], message: object) -> list[int]:
        self.now_us += 1000
        return self.router.route(channel, self.frame(who, message), self.now_us)


@pytest.mark.parametrize(
    ("channel", "who", "message", "goes_to"),
    [
        (BOARD, AUTOPILOT, beat(), [QGC, SDK]),
        (QGC, STATION, beat(), [BOARD, SDK]),
        (QGC, STATION, ping(0, 0), [BOARD, SDK]),
        (BOARD, AUTOPILOT, ping(*STATION), [QGC]),
        (BOARD, AUTOPILOT, ping(*PROGRAM), [SDK]),
        (BOARD, AUTOPILOT, ping(255, 0), [QGC]),
        (BOARD, AUTOPILOT, ping(77, 0), []),
        (QGC, STATION, ping(1, 1), [BOARD]),
        (QGC, STATION, ping(1, 0), [BOARD]),
        (QGC, STATION, ping(*CAMERA), [BOARD]),  # not heard yet, but its system is there
        (QGC, STATION, ping(9, 1), []),
        (QGC, STATION, ping(*PROGRAM), [SDK]),
        (SDK, PROGRAM, ping(*PROGRAM), []),  # where the target is, it is already
        (BOARD, (9, 1), beat(), [QGC, SDK]),  # a second vehicle on the board's link
    ],
)
def test_the_rules(channel: int, who: tuple[int, int], message: object, goes_to: list[int]) -> None:
    net = Net()
    assert net.say(channel, who, message) == goes_to
    assert net.router.stats.nowhere == (not goes_to)


def test_a_component_has_a_place_of_its_own() -> None:
    """A camera of the vehicle's system that hangs on the computer: what is for it does not go to the board."""
    net = Net()
    net.say(SDK, CAMERA, beat())
    assert net.say(QGC, STATION, ping(*CAMERA)) == [SDK]
    assert net.say(QGC, STATION, ping(*AUTOPILOT)) == [BOARD]
    assert net.say(QGC, STATION, ping(1, 0)) == [BOARD, SDK]
    net.say(BOARD, (1, 191), beat())
    assert net.say(BOARD, AUTOPILOT, ping(1, 191)) == [], "where it is, it has heard it already"


@pytest.mark.parametrize("channel", [BOARD, QGC])
def test_report_29_hil_messages_stay_between_simulator_and_board(channel: int) -> None:
    assert {common.mavlink_map[number].msgname for number in HIL_MESSAGES} >= {
        "HIL_SENSOR",
        "HIL_GPS",
        "HIL_ACTUATOR_CONTROLS",
        "HIL_STATE_QUATERNION",
        "HIL_OPTICAL_FLOW",
        "HIL_RC_INPUTS_RAW",
    }
    net = Net()
    who = AUTOPILOT if channel == BOARD else STATION
    for message in (
        common.MAVLink_hil_actuator_controls_message(1, [0.0] * 16, 129, 0),
        common.MAVLink_hil_sensor_message(1, *[0.0] * 13, 7),
        common.MAVLink_hil_gps_message(1, 3, *[0] * 11),
    ):
        assert net.say(channel, who, message) == []
    assert net.router.stats.hil == 3


def test_the_same_frame_twice_is_passed_on_once() -> None:
    net = Net()
    frame = net.frame(STATION, beat())
    assert net.router.route(QGC, frame, 10_000) == [BOARD, SDK]
    assert net.router.route(QGC, frame, 10_001) == []
    assert net.router.route(SDK, frame, 20_000) == []
    assert net.router.stats.repeated == 2
    assert net.router.route(QGC, frame, 10_000 + REPEAT_US + 1) == [BOARD, SDK], "256 frames later it may be meant"


def test_what_the_board_said_does_not_come_back_to_it() -> None:
    """A ground station that forwards between its own links gives the board's frames back, soon or late."""
    net = Net()
    frame = net.frame(AUTOPILOT, beat(common.MAV_AUTOPILOT_PX4))
    net.router.route(BOARD, frame, 10_000)
    assert net.router.route(QGC, frame, 11_000) == []
    assert net.router.route(QGC, frame, 11_000 + 2 * REPEAT_US) == []
    assert (net.router.stats.repeated, net.router.stats.echoed) == (1, 1)
    assert net.say(SDK, PROGRAM, ping(*AUTOPILOT)) == [BOARD], "nor is the vehicle believed to be on that channel"


def test_a_station_that_the_board_hears_by_radio_too_is_heard_here() -> None:
    net = Net()
    net.say(BOARD, STATION, beat())
    assert net.say(QGC, STATION, ping(*AUTOPILOT)) == [BOARD]
    assert net.router.stats.echoed == 0


def test_nobody_talks_to_a_board_before_it_has_spoken() -> None:
    router = Router()
    router.add(QGC)
    frames = [Encoder(*STATION).encode(beat()), Encoder(*STATION, 1).encode(beat())]
    assert router.route(QGC, frames[0], 1) == []
    router.route(BOARD, Encoder(*AUTOPILOT).encode(beat()), 2)
    assert router.route(QGC, frames[1], 3) == [BOARD]


def test_memory_is_bounded() -> None:
    net = Net()
    for number in range(3 * REPEATS):
        net.router.route(QGC, net.frame((1 + number % 250, 2), beat()) + number.to_bytes(4, "little"), number)
    assert len(net.router._recent) <= REPEATS + 1
    assert len(net.router._recent) == len(net.router._order)


MESSAGES = st.sampled_from(
    [
        beat(),
        beat(common.MAV_AUTOPILOT_PX4),
        ping(0, 0),
        *(ping(system, component) for system in (1, 2, 245, 255) for component in (0, 1, 190)),
        common.MAVLink_hil_sensor_message(1, *[0.0] * 13, 7),
        common.MAVLink_manual_control_message(1, 0, 0, 0, 0, 0),
    ]
)
SPEECH = st.tuples(st.integers(0, 3), st.sampled_from([AUTOPILOT, CAMERA, STATION, PROGRAM, (2, 1)]), MESSAGES)


@settings(max_examples=200, deadline=None)
@given(st.lists(st.tuples(SPEECH, st.booleans(), st.integers(0, 3)), max_size=40))
def test_whatever_is_said(said: list[tuple[tuple[int, tuple[int, int], object], bool, int]]) -> None:
    """Nothing goes back to where it came from, or to one channel twice; no HIL message passes; repeats neither."""
    net = Net()
    net.router.add(3)
    for (channel, who, message), again, elsewhere in said:
        frame = net.frame(who, message)
        got: list[int] = []
        for at in [channel, elsewhere] if again else [channel]:
            net.now_us += 10
            goes_to = net.router.route(at, frame, net.now_us)
            assert at not in goes_to
            got += goes_to
        assert len(got) == len(set(got))
        assert channel not in got
        assert addresses_of(frame).message not in HIL_MESSAGES or not got


# Addresses


def test_targets_are_read_where_pymavlink_writes_them() -> None:
    """Of every message that has them, in both versions of MAVLink."""
    checked = 0
    for number, cls in common.mavlink_map.items():
        if number not in TARGETS or any(row.id == number for row in EXTRA_MESSAGES):
            continue
        message = cls.__new__(cls)
        common.MAVLink_message.__init__(message, number, cls.msgname)
        for name, code, length in zip(
            cls.ordered_fieldnames, bytes(cls.native_format[1:]).decode(), cls.array_lengths, strict=True
        ):
            value: object = b"x" if code == "c" else 1
            setattr(message, name, {"target_system": 17, "target_component": 34}.get(name, [value] * length or value))
        values = [getattr(message, name) for name in cls.fieldnames]
        flat = [b"x" if code == "c" else value for code, value in zip(_codes(cls), values, strict=True)]
        made = cls(*flat)
        for version_1 in (False, True):
            if version_1 and number > 255:
                continue
            frame = made.pack(common.MAVLink(None, srcSystem=3, srcComponent=4), force_mavlink1=version_1)
            component = 34 if "target_component" in cls.fieldnames else 0
            assert addresses_of(frame) == Addresses(number, 3, 4, 17, component), cls.msgname
        checked += 1
    assert checked > 50


def _codes(cls: type) -> list[str]:
    codes = dict(zip(cls.ordered_fieldnames, bytes(cls.native_format[1:]).decode(), strict=True))  # type: ignore[attr-defined]
    return [codes[name] for name in cls.fieldnames]  # type: ignore[attr-defined]


def test_a_target_of_zero_is_cut_off_the_payload() -> None:
    frame = Encoder(255, 190).encode(common.MAVLink_command_ack_message(400, 0, 0, 0, 0, 0))
    assert frame[1] < struct.calcsize("<HBBiBB")
    assert addresses_of(frame) == Addresses(77, 255, 190, 0, 0)


def test_unknown_messages_are_for_everybody() -> None:
    net = Net()
    frame = bytes((0xFD, 2, 0, 0, 0, 255, 190, 0xFE, 0xFF, 0x01, 1, 1, 0, 0))
    assert net.router.route(QGC, frame, 1) == [BOARD, SDK]


# What waits for the board


def test_a_flood_costs_others_no_frame() -> None:
    queue, station, program = GroundQueue(), Encoder(*STATION), Encoder(*PROGRAM)
    flood = [program.encode(ping(1, 1)) for _ in range(500)]
    commands = [station.encode(common.MAVLink_command_long_message(1, 1, 400, 0, *[0] * 7)) for _ in range(5)]
    for frame in flood:
        queue.put(SDK, frame)
    for frame in commands:
        queue.put(QGC, frame)
    assert len(queue) == CHANNEL_LIMIT + 5
    assert queue.dropped == 500 - CHANNEL_LIMIT
    order = []
    while (frame := queue.first()) is not None:
        order.append(frame)
        queue.pop()
    assert len(queue) == 0
    assert [frame for frame in order if frame in commands] == commands
    assert all(frame in order[: 2 * 5] for frame in commands), "turn by turn"
    assert [frame for frame in order if frame not in commands] == flood[:CHANNEL_LIMIT], "in order, the first ones"


def test_of_set_points_the_newest_waits() -> None:
    queue, station = GroundQueue(), Encoder(*STATION)
    sticks = [station.encode(common.MAVLink_manual_control_message(1, x, 0, 0, 0, 0)) for x in range(100)]
    command = station.encode(common.MAVLink_command_long_message(1, 1, 400, 0, *[0] * 7))
    queue.put(QGC, sticks[0])
    queue.put(QGC, command)
    for frame in sticks[1:]:
        queue.put(QGC, frame)
    assert queue.first() == sticks[-1], "in the place of the first"
    queue.pop()
    assert queue.first() == command
    assert (queue.dropped, queue.superseded) == (0, 99)
