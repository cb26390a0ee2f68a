"""A flight whose vehicle had faults comes out of a replay again, bit for bit: they are among its inputs."""

from __future__ import annotations

import asyncio
import dataclasses
from pathlib import Path

import pytest
from pymavlink.dialects.v20 import common
from replay_rig import Live, record_live

from bridge.codec import Decoder, Encoder
from bridge.endpoint import Memory
from bridge.transport.memory import MemoryTransport
from firmware_profiles.loader import load_profile
from lav2_hil.exitcodes import ExitCode
from lav2_hil.faults import read_faults
from lav2_hil.service import Service
from lav2_hil.session.check import check_session
from lav2_hil.session.compare import compare
from lav2_hil.session.messages import message_of, record_of_message
from lav2_hil.session.reader import Session, read_session
from lav2_hil.session.records import Kind, Record, fault_data, fault_of, notice_of
from lav2_hil.session.replay import replay
from lav2_hil.settings import Settings
from twin.faults import FaultChange

CHANGES = [
    FaultChange("rotor2", "effectiveness", (0.7,)),
    FaultChange("rotor1", "stuck", ()),
    FaultChange("accel", "bias", (0.1, 0.0, 1 / 3)),
    FaultChange("gyro", "noise", (0.02,)),
    FaultChange("gyro", "silent", ()),
    FaultChange("mag", "stuck", ()),
    FaultChange("baro", "silent", ()),
    FaultChange("gps", "jump", (10.0, -3.0, 0.0)),
    FaultChange("gps", "nofix", ()),
]


def over(change: FaultChange) -> FaultChange:
    return dataclasses.replace(change, value=None)


async def disturbed(live: Live) -> None:
    """One fault after another, two of them at once, over two connections, until all are over."""
    live.link.connect()
    live.link.fc.armed = True
    await live.until(60)
    for change in CHANGES:
        live.loop.change_fault(change)
        await live.until(30 if change.target == "gps" else 7)
    live.link.lose()
    await asyncio.sleep(0.01)
    live.link.connect()
    await live.until(60)
    for change in CHANGES[:2]:
        live.loop.change_fault(over(change))
    await live.until(61)
    for change in CHANGES[2:]:
        live.loop.change_fault(over(change))
        await live.until(5)


@pytest.mark.parametrize("pattern", ["1", "0001"])
async def test_a_flight_with_faults_replays(pattern: str) -> None:
    session = await record_live(disturbed, pattern=pattern)
    kinds = [record.kind for record in session.records]
    assert [fault_of(r.data) for r in session.records if r.kind is Kind.FAULT] == [*CHANGES, *map(over, CHANGES)]
    assert {kinds[place + 1] for place, kind in enumerate(kinds) if kind is Kind.FAULT} == {Kind.FAULT, Kind.SAMPLED}
    outcome = replay(session)
    assert outcome.stopped is None
    assert outcome.records == session.records[:-1]
    assert compare(outcome, exact=True).identical


async def test_without_its_faults_it_is_another_flight() -> None:
    session = await record_live(disturbed)
    for missing in range(len(CHANGES)):
        faults = [record for record in session.records if record.kind is Kind.FAULT]
        records = [record for record in session.records if record is not faults[missing]]
        comparison = compare(replay(dataclasses.replace(session, records=records)), exact=True)
        assert not comparison.equal, CHANGES[missing]


async def test_a_session_that_is_cut_anywhere_near_a_fault_replays_up_to_there() -> None:
    session = await record_live(disturbed, pattern="0001")
    place = next(i for i, record in enumerate(session.records) if record.kind is Kind.FAULT)
    for end in range(place - 8, place + 9):
        records = session.records[:end]
        outcome = replay(Session(session.header, session.truth_every, records, "cut", records[-1].time_us))
        assert compare(outcome, exact=True).equal, end


async def test_a_fault_of_a_rotor_that_is_not_there_ends_the_replay_in_words() -> None:
    session = await record_live(disturbed)
    outcome = replay(session, load_profile("px4_rover_differential"))
    assert outcome.stopped is not None
    assert "a fault of 'rotor2': the vehicle has no rotors, accel, gyro" in outcome.stopped


def test_a_change_is_a_message_and_back() -> None:
    for change in (*CHANGES, *map(over, CHANGES)):
        record = Record(Kind.FAULT, 17, fault_data(change))
        channel, data = message_of(record, 17_000)
        assert record_of_message(channel.topic, data, 17) == record
        assert fault_of(record.data) == change


@pytest.mark.parametrize("text", ["", "{}", '{\\"target\\":\\"gps\\",\\"kind\\":3,\\"value\\":null}', "no"])
def test_a_message_that_is_no_change_is_refused(text: str) -> None:
    channel, data = message_of(Record(Kind.FAULT, 1, fault_data(CHANGES[0])), 1000)
    assert b'"event":"fault"' in data
    with pytest.raises(ValueError, match=r"."):  # MsgspecError is one
        record_of_message(channel.topic, b'{"event":"fault","text":"' + text.encode() + b'"}', 1)


# A run with a recorder


class ArmedFc:
    """Answers every HIL_SENSOR with motors that lift the vehicle; keeps which sensors were in it."""

    def __init__(self) -> None:
        self.transport = MemoryTransport("broken")
        self.fields: list[int] = []
        self.fixes: list[tuple[int, int]] = []
        self._decoder = Decoder()
        self._encoder = Encoder(1, 1)

    def link_up(self, peer: str) -> None:
        pass

    def link_data(self, data: bytes) -> None:
        for message in self._decoder.feed(data):
            if message.get_type() == "HIL_GPS":
                self.fixes.append((len(self.fields), message.fix_type))
            elif message.get_type() == "HIL_SENSOR":
                self.fields.append(message.fields_updated)
                controls = [0.65] * 4 + [0.0] * 12
                answer = common.MAVLink_hil_actuator_controls_message(message.time_usec, controls, 129, 1)
                self.transport.write(self._encoder.encode(answer))

    def link_down(self, reason: str) -> None:
        pass

    def link_refused(self) -> None:
        pass

    def link_ignored(self, peer: str) -> None:
        pass


FAULTS = ["rotor2 effectiveness=0.9 at=1s for=500ms", "mag silent at=500ms for=1s", "gps nofix", "gyro noise=0.02rad/s"]


async def fly(path: Path, *faults: str, ask: bool = False) -> tuple[ArmedFc, dict[str, object], bytes | None]:
    """Two seconds; with `ask` a ground station has a motor fail on the way."""
    settings = Settings(
        profile=load_profile("px4_iris"),
        profile_source="px4_iris",
        endpoint=Memory("broken"),
        speed=0.0,
        seed=3,
        duration_s=2.0,
        answers_every_sensor=True,
        faults=read_faults(faults),
        record=True,
        session_file=path,
    )
    fc = ArmedFc()
    await fc.transport.open(fc)
    service = Service(settings)
    answer = None
    try:
        running = asyncio.create_task(service.run())
        if ask:
            while service.session.stats.sensors < 100:
                await asyncio.sleep(0)
            values = (common.FAILURE_UNIT_SYSTEM_MOTOR, common.FAILURE_TYPE_OFF, 3, 0, 0, 0, 0)
            message = common.MAVLink_command_long_message(1, 1, common.MAV_CMD_INJECT_FAILURE, 0, *values)
            (message,) = Decoder().feed(Encoder(255, 190).encode(message))
            answer = service.failure_commands.take(message, service.session.system)
        code, summary = await running
    finally:
        await fc.transport.close()
    assert code is ExitCode.OK
    return fc, summary, answer


async def test_faults_of_a_run_come_at_their_tick_and_are_recorded_and_replay(tmp_path: Path) -> None:
    path = tmp_path / "run.mcap"
    fc, summary, _ = await fly(path, *FAULTS)
    session = read_session(path)
    assert session.header.faults == (
        "rotor2 effectiveness=0.9 at=1s for=0.5s",
        "mag silent at=0.5s for=1s",
        "gps nofix",
        "gyro noise=0.02rad/s",
    )
    told = [notice_of(r.data).text for r in session.records if r.kind is Kind.NOTICE]
    assert [text for text in told if text.startswith("fault")] == [
        "fault: gps nofix",
        "fault: gyro noise=0.02rad/s",
        "fault: mag silent at=0.5s for=1s",
        "fault: rotor2 effectiveness=0.9 at=1s for=0.5s",
        "fault over: mag silent at=0.5s for=1s",
        "fault over: rotor2 effectiveness=0.9 at=1s for=0.5s",
    ]
    assert summary["vehicle_fault_changes"] == 6
    assert "faults" not in summary, "nothing is wrong with the link"
    # The first tick behind 0.5 s, which is tick 125, is the first without a magnetometer.
    without = [tick for tick, fields in enumerate(fc.fields, 1) if tick % 5 == 0 and not fields & 0x1C0]
    assert set(range(130, 376, 5)) == set(without)
    assert fc.fixes
    assert {fix_type for _, fix_type in fc.fixes} == {0}
    steps = [i for i, record in enumerate(session.records) if record.kind is Kind.SAMPLED]
    lost = next(i for i, r in enumerate(session.records) if r.kind is Kind.FAULT and b"rotor2" in r.data)
    assert sum(step < lost for step in steps) == 250
    result = check_session(path)
    assert result.outcome.stopped is None
    assert result.comparison.identical


async def test_a_failure_that_a_ground_station_asked_for_replays(tmp_path: Path) -> None:
    path = tmp_path / "run.mcap"
    _, summary, answer = await fly(path, ask=True)
    assert answer is not None
    (message,) = Decoder().feed(answer)
    assert (message.get_type(), message.result, message.get_srcSystem()) == ("COMMAND_ACK", 0, 1)
    assert summary["vehicle_fault_changes"] == 1
    session = read_session(path)
    assert session.header.faults == ()
    assert sum(record.kind is Kind.FAULT for record in session.records) == 1
    result = check_session(path)
    assert result.comparison.identical


async def test_faults_of_the_same_seed_are_the_same_to_the_bit(tmp_path: Path) -> None:
    truths = []
    for name in ("a.mcap", "b.mcap"):
        await fly(tmp_path / name, *FAULTS)
        session = read_session(tmp_path / name)
        truths.append(
            [(record.kind, record.data) for record in session.records if record.kind in (Kind.TRUTH, Kind.SENT)]
        )
    assert truths[0] == truths[1]
    assert len(truths[0]) > 500
