"""Recorded links: which way a frame went, where a connection begins, and when each frame is due again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pymavlink.dialects.v20 import common

from bridge.capture import CapturePlayer
from bridge.codec import Decoder, Encoder
from bridge.recorded_link import merged, with_directions
from bridge.tlog import TlogRecord, pack_record, read_damaged_tlog, read_tlog
from firmware_profiles.errors import DataError, NoInputError

PX4, SIMULATOR, GROUND_STATION = (1, 1), (1, 200), (255, 190)
PERIOD_US = 4000


class Link:
    """Writes a recording, in the order of the calls."""

    def __init__(self) -> None:
        self.records: list[TlogRecord] = []
        self.now_us = 1_700_000_000_000_000
        self._encoders: dict[tuple[int, int], Encoder] = {}

    def say(self, sender: tuple[int, int], message: Any) -> bytes:
        encoder = self._encoders.setdefault(sender, Encoder(*sender))
        frame = encoder.encode(message)
        self.now_us += 100
        self.records.append(TlogRecord(self.now_us, frame, sender == SIMULATOR))
        return frame

    def handshake(self) -> bytes:
        return self.say(PX4, common.MAVLink_command_long_message(0, 0, 511, 0, 115, 5000, 0, 0, 0, 0, 0))

    def sensor(self, stamp_us: int) -> bytes:
        return self.say(SIMULATOR, common.MAVLink_hil_sensor_message(stamp_us, *[0.0] * 13, 63))

    def answer(self, stamp_us: int, flags: int = 1) -> bytes:
        return self.say(PX4, common.MAVLink_hil_actuator_controls_message(stamp_us, [0.5] * 16, 129, flags))

    def beat(self, sender: tuple[int, int]) -> bytes:
        return self.say(sender, common.MAVLink_heartbeat_message(2, 12, 0, 0, 0, 3))


def without_directions(records: list[TlogRecord]) -> list[TlogRecord]:
    return [record._replace(to_px4=False) for record in records]


def stamps(frames: list[bytes]) -> list[int]:
    decoder = Decoder(datagrams=True)
    return [message.time_usec for frame in frames for message in decoder.feed(frame)]


# Directions


def test_directions_are_told_by_who_sends_what() -> None:
    link = Link()
    link.beat(SIMULATOR)
    link.handshake()
    link.sensor(4000)
    link.beat(GROUND_STATION)
    link.answer(4000)
    link.beat((1, 154))
    found, left_out = with_directions(without_directions(link.records))
    assert left_out == 1
    assert [record.to_px4 for record in found] == [True, False, True, False, False]
    assert [record.frame for record in found] == [r.frame for n, r in enumerate(link.records) if n != 3]


def test_without_controls_whoever_is_no_simulator_is_the_flight_controller() -> None:
    link = Link()
    link.sensor(4000)
    link.handshake()
    found, left_out = with_directions(without_directions(link.records))
    assert [record.to_px4 for record in found] == [True, False]
    assert left_out == 0


def test_a_damaged_frame_is_left_out_and_one_of_an_unknown_kind_is_not() -> None:
    link = Link()
    link.answer(4000)
    good = link.records[0]
    spoiled = bytearray(good.frame)
    spoiled[20] ^= 1
    unknown = bytearray(good.frame)
    unknown[7:10] = (60_000).to_bytes(3, "little")
    records = [good, good._replace(frame=bytes(spoiled)), good._replace(frame=bytes(unknown))]
    found, left_out = with_directions(records)
    assert [record.frame for record in found] == [good.frame, bytes(unknown)]
    assert left_out == 1


def test_two_recordings_are_merged_by_time() -> None:
    received = [TlogRecord(2, b"b"), TlogRecord(4, b"d")]
    sent = [TlogRecord(1, b"a"), TlogRecord(3, b"c"), TlogRecord(5, b"e")]
    together = merged(received, sent)
    assert b"".join(record.frame for record in together) == b"abcde"
    assert [record.to_px4 for record in together] == [True, False, True, False, True]


# Connections and times


def test_an_answer_is_due_at_its_sensor_wherever_the_stamps_began() -> None:
    """Our own recordings begin at 1 s; without the simulator's side, the first is believed to be one period."""
    link = Link()
    greeting = link.handshake()
    for number in range(5):
        link.sensor(1_000_000 + number * PERIOD_US)
        if number >= 2:
            link.answer(1_000_000 + number * PERIOD_US)
    player = CapturePlayer(link.records)
    assert player.connect()
    assert player.greeting() == [greeting]
    heard = [stamps(player.sensor(7_000_000 + number * PERIOD_US)) for number in range(5)]
    assert heard == [[], [], [7_008_000], [7_012_000], [7_016_000]]
    assert player.ended
    assert (player.silent_until_us, player.stamp_step_us) == (16_000, PERIOD_US)
    blind = CapturePlayer([record for record in link.records if not record.to_px4])
    assert blind.connect()
    blind.greeting()
    assert not any(blind.sensor(7_000_000 + number * PERIOD_US) for number in range(5))
    assert blind.silent_until_us == 0


def test_a_late_answer_is_late_again() -> None:
    link = Link()
    for stamp in (4000, 8000, 12_000):
        link.sensor(stamp)
    link.answer(8000)
    player = CapturePlayer(link.records)
    assert player.connect()
    assert not player.sensor(1_000_000)
    assert not player.sensor(1_004_000)
    assert stamps(player.sensor(1_008_000)) == [1_004_000]


def test_a_clock_of_its_own_keeps_its_stamps() -> None:
    link = Link()
    link.sensor(4000)
    link.answer(123_456_789)
    player = CapturePlayer(link.records)
    assert player.connect()
    assert stamps(player.sensor(1_000_000)) == [123_456_789]
    assert player.stamp_step_us == 0


def test_the_first_datagram_may_be_any_sensor() -> None:
    link = Link()
    link.sensor(2_000_000)
    greeting = link.handshake()
    for stamp in (4000, 8000):
        link.sensor(stamp)
        link.answer(stamp)
    player = CapturePlayer(link.records)
    assert player.connect()
    assert player.sensor(1_000_000) == [greeting, *link_answers(link, 1_000_000, 0)]
    assert stamps(player.sensor(1_004_000)) == [1_004_000]
    assert player.ended


def link_answers(link: Link, stamp_us: int, number: int) -> list[bytes]:
    """The recorded answer of that number, with another stamp."""
    answers = [r for r in link.records if not r.to_px4][1:]
    (message,) = Decoder(datagrams=True).feed(answers[number].frame)
    message.time_usec = stamp_us
    return [Encoder(*PX4, message.get_seq()).encode(message)]


def connections(records: list[TlogRecord]) -> list[list[int]]:
    """The stamps of the answers of each connection, with our own sensors from 1 s on."""
    player, found = CapturePlayer(records), []
    while player.connect():
        frames = player.greeting()
        stamp = 1_000_000
        while not player.ended:
            frames += player.sensor(stamp)
            stamp += PERIOD_US
        found.append(stamps_of_answers(frames))
    return found


def stamps_of_answers(frames: list[bytes]) -> list[int]:
    decoder = Decoder(datagrams=True)
    messages = [message for frame in frames for message in decoder.feed(frame)]
    return [m.time_usec for m in messages if m.get_type() == "HIL_ACTUATOR_CONTROLS"]


@pytest.mark.parametrize("speaks_before_the_handshake", [True, False])
@pytest.mark.parametrize("answers", [0, 3])
def test_a_restart_is_a_connection_even_if_the_simulator_spoke_first(
    speaks_before_the_handshake: bool, answers: int
) -> None:
    """Our own bridge sends its first sensors before PX4 has said anything; the stamps are at their beginning again."""
    link = Link()
    link.handshake()
    for number in range(5):
        link.sensor(1_000_000 + number * PERIOD_US)
        if number < answers:
            link.answer(1_000_000 + number * PERIOD_US)
    if speaks_before_the_handshake:
        link.sensor(1_000_000)
    link.handshake()
    for number in range(speaks_before_the_handshake, 4):
        link.sensor(1_000_000 + number * PERIOD_US)
    link.answer(1_000_000 + 3 * PERIOD_US)
    expected = [1_000_000 + number * PERIOD_US for number in range(answers)]
    assert connections(link.records) == [expected, [1_012_000]]


def test_stamps_that_begin_anew_after_answers_are_another_connection_without_a_handshake() -> None:
    link = Link()
    for _ in range(2):
        for stamp in (4000, 8000):
            link.sensor(stamp)
            link.answer(stamp)
    assert connections(link.records) == [[1_000_000, 1_004_000]] * 2


def test_without_any_controls_frames_are_due_by_wall_time() -> None:
    link = Link()
    first = link.beat(PX4)
    link.now_us += 10_000
    second = link.beat(PX4)
    player = CapturePlayer(link.records)
    assert player.connect()
    assert player.greeting() == []
    assert player.sensor(1_000_000) == [first]
    assert player.sensor(1_008_000) == []
    assert player.sensor(1_012_000) == [second]


# Files


def test_what_is_written_is_read_again(tmp_path: Path) -> None:
    link = Link()
    link.handshake()
    link.sensor(4000)
    path = tmp_path / "x.tlog"
    path.write_bytes(b"".join(pack_record(record.time_us, record.frame) for record in link.records))
    assert read_tlog(path) == without_directions(link.records)


@pytest.mark.parametrize(
    ("cut", "says"), [(-1, "ends inside the frame at byte"), (4, "ends inside the record at byte"), (9, "ends inside")]
)
def test_a_cut_file_gives_what_is_left(tmp_path: Path, cut: int, says: str) -> None:
    link = Link()
    link.handshake()
    link.handshake()
    one = len(link.records[0].frame) + 8
    data = b"".join(pack_record(record.time_us, record.frame) for record in link.records)
    path = tmp_path / "x.tlog"
    path.write_bytes(data[:cut] if cut < 0 else data[: one + cut])
    records, damage = read_damaged_tlog(path)
    assert records == without_directions(link.records[:1])
    assert damage is not None
    assert says in damage
    with pytest.raises(DataError, match=says):
        read_tlog(path)


def test_what_is_no_tlog_is_said(tmp_path: Path) -> None:
    path = tmp_path / "x.tlog"
    path.write_bytes(b"this is no tlog at all")
    assert read_damaged_tlog(path) == ([], f"{path}: no MAVLink frame at byte 8: not a tlog, or damaged")
    with pytest.raises(NoInputError, match=r"none\.tlog: cannot be read: No such file"):
        read_tlog(tmp_path / "none.tlog")
