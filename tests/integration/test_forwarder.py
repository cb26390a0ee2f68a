"""Ground stations through the forwarder: what they get, what the board gets, and what they cannot do to the flight."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import time
from pathlib import Path
from typing import Any

import pytest
from ground_rig import Run, Station, Talker, recorded, running
from pymavlink.dialects.v20 import common

from bridge.addresses import addresses_of
from bridge.signing import NEW_STREAM_LATE, LinkSigning, SigningKey, wall_clock
from lav2_hil.forwarder import OPEN_RATE, PORTION, SHARE
from lav2_hil.session.check import check_session
from lav2_hil.session.export_tlog import export_tlog
from lav2_hil.session.reader import read_session
from lav2_hil.session.records import Kind

pytestmark = pytest.mark.timeout(90)
BEAT = common.MAVLink_heartbeat_message(6, 8, 0, 0, 0, 3)


def command(number: int = 400) -> common.MAVLink_command_long_message:
    return common.MAVLink_command_long_message(1, 1, number, 0, *[0.0] * 7)


async def test_report_29_both_ways_unchanged_and_no_hil() -> None:
    station, program = Station(), Station(245)
    async with running(station, program) as run:
        await run.until(lambda: min(station.count("ATTITUDE"), program.count("ATTITUDE")) > 5, "telemetry")
        heartbeat = station.say(BEAT)
        sent = [station.say(command(number)) for number in (400, 22, 21)]
        await run.until(lambda: len(run.link.ground_frames) >= 4, "commands at the board")
        await run.until(lambda: program.count("HEARTBEAT") > 0 and heartbeat in program.frames, "a broadcast")
        answer = run.fc.pack(common.MAVLink_command_ack_message(400, 0, 0, 0, 255, 190))
        run.link._say([answer])
        await run.until(lambda: station.count("COMMAND_ACK") > 0, "an answer")
        program.read()
        # Nobody but the flight controller may say that it is one.
        station.say(common.MAVLink_hil_sensor_message(1, *[0.0] * 13, 7))
        station.say(common.MAVLink_hil_actuator_controls_message(1, [1.0] * 16, 129, 0))
        station.say(command(23))
        await run.until(lambda: len(run.link.ground_frames) >= 5, "what came behind the HIL messages")
    assert run.link.ground_frames[:4] == [heartbeat, *sent]
    assert [message.command for message in run.fc.commands if message.get_type() == "COMMAND_LONG"] == [400, 22, 21, 23]
    for each in (station, program):
        heard = [frame for frame in each.frames if frame in set(run.fc.said)]
        assert heard == run.fc.said[run.fc.said.index(heard[0]) :][: len(heard)], "in order, none missing, none twice"
        assert not any(message.get_type().startswith("HIL_") for message in each.messages)
    assert answer in station.frames
    assert answer not in program.frames, "what is for the station is not for others"
    ground = run.summary["ground"]
    assert ground["hil"] == 2
    assert (ground["not_taken"], ground["dropped"], ground["lost"]) == (0, 0, False)
    assert ground["written"] == len(run.link.ground_frames) == 5


async def test_who_speaks_is_answered_where_it_spoke_from() -> None:
    station, late = Station(), Station(250)
    async with running(station) as run:
        await run.until(lambda: station.count("ATTITUDE") > 0, "telemetry")
        (address,) = station.senders
        late.say(BEAT, port=address[1])
        await run.until(lambda: late.count("ATTITUDE") > 2, "telemetry where it spoke from")
        before = station.count("ATTITUDE")
        await run.until(lambda: station.count("ATTITUDE") > before, "the expected station is spoken to as well")
        late.say(command(), port=address[1])
        await run.until(lambda: any(message.get_srcSystem() == 250 for message in run.fc.heard), "its command")
    late.socket.close()


async def test_report_54_timesync_of_the_board_is_answered_and_goes_no_further() -> None:
    station = Station()
    async with running(station) as run:
        await run.until(lambda: station.count("ATTITUDE") > 0, "telemetry")
        before_ns = time.monotonic_ns()
        run.link._say([run.fc.pack(common.MAVLink_timesync_message(0, 123_456_789))])
        await run.until(lambda: any(one.get_type() == "TIMESYNC" for one in run.fc.heard), "the answer")
        after_ns = time.monotonic_ns()
        theirs = run.fc.pack(common.MAVLink_timesync_message(5, 6))
        run.link._say([theirs])  # the board's answer to a ground station
        await run.until(lambda: station.count("TIMESYNC") > 0, "an answer for the ground")
    (answer,) = [one for one in run.fc.heard if one.get_type() == "TIMESYNC"]
    assert answer.ts1 == 123_456_789
    assert before_ns - 1000 <= answer.tc1 <= after_ns
    assert [frame for frame in station.frames if addresses_of(frame).message == 111] == [theirs]


async def test_a_session_with_a_ground_station_replays(tmp_path: Path) -> None:
    path = tmp_path / "run.mcap"
    station = Station()
    async with running(station, speed=0.0, **recorded(path)) as run:
        await run.until(lambda: station.count("ATTITUDE") > 0, "telemetry")
        for number in range(5):
            station.say(command(number))
        run.link._say([run.fc.pack(common.MAVLink_timesync_message(0, 1))])
        await run.until(lambda: len(run.link.ground_frames) >= 5, "commands")
    session = read_session(path)
    assert [record.data for record in session.records if record.kind is Kind.GROUND] == run.link.ground_frames
    result = check_session(path)
    assert result.spoilt is None
    assert result.comparison.identical
    assert result.comparison.equal
    figures = export_tlog(session, tmp_path / "run.tlog")
    assert figures["frames_to_px4"] == len(run.link.session_frames) + 5


async def test_a_name_that_nobody_knows_is_one_line() -> None:
    from bridge.endpoint import UdpOut
    from firmware_profiles.errors import LinkUnavailableError

    with pytest.raises(LinkUnavailableError, match=r"^--ground no\.such\.host\.invalid:14550: "):
        Run((), Talker(), ground=(UdpOut("no.such.host.invalid", 14550),))


# What ground stations cannot do to the flight


class Flight:
    """What must be the same whatever ground stations do."""

    def __init__(self, run: Run) -> None:
        self.truth = run.truth.hash.hexdigest()
        self.ticks = run.truth.ticks
        self.stamps = [message.time_usec for message in run.fc.hil]
        self.kinds = [addresses_of(frame).message for frame in run.link.session_frames]


async def fly(*stations: Station, disturb: Any = None) -> tuple[Flight, Run]:
    async with running(*stations, speed=0.0, duration_s=12.0) as run:
        if disturb is not None:
            await disturb(run)
    return Flight(run), run


@pytest.mark.slow
async def test_report_29_ground_stations_do_not_change_the_flight() -> None:
    """Absent, never reading, its forwarder stopped or killed: truth, stamps and order of frames are the same."""
    alone, _ = await fly()
    assert alone.ticks == 3000

    deaf = Station()
    deaf.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
    deaf.read = lambda: None  # type: ignore[method-assign]
    stalled, _ = await fly(deaf)

    async def stop(run: Run) -> None:
        await run.until(lambda: hasattr(run.service._ground, "_process"), "the process")
        os.kill(run.forwarder, signal.SIGSTOP)

    stopped, stopped_run = await fly(Station(), disturb=stop)

    async def kill(run: Run) -> None:
        await run.until(lambda: hasattr(run.service._ground, "_process"), "the process")
        os.kill(run.forwarder, signal.SIGKILL)

    killed, killed_run = await fly(Station(), disturb=kill)
    absent = Station()
    absent.socket.close()
    absent.read = lambda: None  # type: ignore[method-assign]
    nobody, _ = await fly(absent)
    for flight in (stalled, stopped, killed, nobody):
        assert vars(flight) == vars(alone)
    assert stopped_run.summary["ground"]["from_board"] == 240
    assert killed_run.summary["ground"]["lost"]


def _commands(run: Any) -> list[Any]:
    return [one for one in run.fc.commands if one.get_type() == "COMMAND_LONG"]


@pytest.mark.realtime
async def test_a_flood_from_the_ground_gets_its_share_and_no_more() -> None:
    """In real time: no sensor is late for it, and the other station's commands get through."""
    flooder, station = Station(245), Station()
    async with running(flooder, station) as run:
        await run.until(lambda: min(flooder.count("ATTITUDE"), station.count("ATTITUDE")) > 0, "telemetry")
        started, before = time.monotonic(), len(run.link.ground_frames)
        sensors = len(run.fc.hil)
        sent = 0
        while time.monotonic() < started + 2.0:
            for _ in range(50):
                flooder.say(common.MAVLink_ping_message(sent, sent, 1, 1))
                sent += 1
            if sent % 1000 == 0:
                station.say(command())
            await asyncio.sleep(0.002)
        wrote, lasted = run.link.ground_frames[before:], time.monotonic() - started
        expected = lasted / 0.004
        assert len(run.fc.hil) - sensors > 0.9 * expected, "sensors left as without the flood"
        await run.until(lambda: len(_commands(run)) == sent // 1000 > 3, "each command got through")
    assert sum(map(len, wrote)) <= SHARE * OPEN_RATE * lasted + PORTION
    assert run.summary["ground"]["dropped"] > 100
    assert run.summary["reply_timeouts"] == 0


# Signing


async def test_ground_stations_of_a_signed_link_sign_too(tmp_path: Path) -> None:
    """The board's good frames go to the ground as they are; unsigned ones from the ground go nowhere."""
    key = SigningKey(b"\x07" * 32)
    board, ground = LinkSigning(key, 1), LinkSigning(key, 2)
    path = tmp_path / "run.mcap"

    class SignedTalker(Talker):
        def pack(self, message: Any) -> bytes:
            return board.sign(super().pack(message))

    station = Station()
    async with running(station, fc=SignedTalker(), speed=0.0, signing_key=key, **recorded(path)) as run:
        await run.until(lambda: station.count("ATTITUDE") > 0, "telemetry")
        run.link._say([Talker().pack(common.MAVLink_attitude_message(77, 0, 0, 0, 0, 0, 0))])  # unsigned
        unsigned = station.say(command(1))
        (address,) = station.senders
        signed = ground.sign(station.encoder.encode(command(2)))
        station.socket.sendto(signed, address)
        station.socket.sendto(signed, address)
        await run.until(lambda: len(run.link.ground_frames) > 0, "the signed command")
        await run.until(lambda: run.service._ground.summary()["old"] > 0, "the repeated one is counted")  # type: ignore[union-attr]
    assert run.link.ground_frames == [signed]
    assert unsigned not in run.link.ground_frames
    assert not any(one.get_type() == "ATTITUDE" and one.time_boot_ms == 77 for one in station.messages)
    assert all(frame[2] & 1 for frame in run.link.session_frames), "everything leaves signed"
    assert run.summary["signing"] == {"unsigned": 1, "wrong": 0, "old": 0, "bad": 0}
    assert (run.summary["ground"]["unsigned"], run.summary["ground"]["old"]) == (1, 1)
    session = read_session(path)
    assert session.header.signed
    assert key.value not in path.read_bytes()
    assert not any(record.data[2] & 1 for record in session.records if record.kind is Kind.SENT)
    assert check_session(path).comparison.identical, "without the key"


class SigningStation(Station):
    """A ground station with pymavlink's own signing, which takes nothing unsigned and nothing old."""

    def __init__(self, key: SigningKey) -> None:
        super().__init__()
        self.taken: list[Any] = []
        self.mav = common.MAVLink(None, srcSystem=self.SYSTEM, srcComponent=190)
        self.mav.robust_parsing = True
        signing = self.mav.signing
        signing.secret_key, signing.sign_outgoing, signing.timestamp = key.value, True, wall_clock()

    def read(self) -> None:
        start = len(self.frames)
        super().read()
        heard = [message for frame in self.frames[start:] for message in self.mav.parse_buffer(frame) or ()]
        self.taken += [message for message in heard if message.get_type() != "BAD_DATA"]

    def takes(self, kind: str) -> int:
        self.read()
        return sum(message.get_type() == kind for message in self.taken)

    def say(self, message: Any, port: int | None = None) -> bytes:
        frame = bytes(message.pack(self.mav))
        (address,) = self.senders
        self.socket.sendto(frame, address)
        return frame


async def test_what_is_answered_for_a_board_is_signed_too() -> None:
    """Though the ground station's clock is ahead; and what the board itself signs is no older for it."""
    key = SigningKey(b"\x07" * 32)
    board = LinkSigning(key, 0)

    class SignedTalker(Talker):
        def pack(self, message: Any) -> bytes:
            return board.sign(super().pack(message))

    station = SigningStation(key)
    async with running(station, fc=SignedTalker(), signing_key=key) as run:
        await run.until(lambda: station.takes("ATTITUDE") > 0, "telemetry")
        station.mav.signing.timestamp += 2 * NEW_STREAM_LATE
        values = (101, 1, 2, 0, 0, 0, 0)  # motor 2 off
        station.say(common.MAVLink_command_long_message(1, 1, common.MAV_CMD_INJECT_FAILURE, 0, *values))
        await run.until(lambda: station.count("COMMAND_ACK") > 0, "an answer")
        assert station.takes("COMMAND_ACK") == 1
        taken = station.takes("ATTITUDE")
        await run.until(lambda: station.takes("ATTITUDE") > taken, "more of the board")
    assert len(station.taken) == len(station.messages), "none was refused"
    assert run.summary["vehicle_fault_changes"] == 1
    assert not run.link.ground_frames
