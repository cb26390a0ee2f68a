"""Recorded PX4 traffic into the bridge: what real PX4s did is what the session must cope with.

Most recordings are played in virtual time; three of them through the service itself with the real twin.
"""

from __future__ import annotations

import functools
from typing import Any

import pytest
from captures import ALL, capture
from session_driver import FIRST_US, PERIOD_US, START_US, Driver, make_driver

from bridge.capture import CapturePlayer
from bridge.codec import Decoder
from bridge.endpoint import Memory
from bridge.extra_messages import EXTRA_MESSAGES
from bridge.hil import HilSession
from bridge.session_io import Pause, Resume
from bridge.session_state import PacedReason, Phase
from bridge.tlog import read_tlog
from bridge.transport.capture import CaptureTransport
from firmware_profiles.loader import load_profile
from firmware_profiles.signals import HilControls
from lav2_hil.exitcodes import ExitCode
from lav2_hil.service import Service
from lav2_hil.settings import Settings

pytestmark = pytest.mark.slow

SHIFT_US = FIRST_US - PERIOD_US
"""The recorded simulator's first stamp was 4000, ours is 1,000,000."""


class Recording:
    """A recorded PX4 as the driver's peer."""

    def __init__(self, name: str, *, greets_when_heard: bool = False) -> None:
        self.player = CapturePlayer(read_tlog(capture(name)))
        assert self.player.connect()
        self._greets_when_heard = greets_when_heard

    def greeting(self) -> list[bytes]:
        return [] if self._greets_when_heard else self.player.greeting()

    def hear(self, message: Any) -> list[bytes]:
        if self._greets_when_heard:  # PX4 on UDP learns from the first datagram who is there, and discards it
            self._greets_when_heard = False
            return self.player.greeting()
        return self.player.sensor(message.time_usec) if message.get_type() == "HIL_SENSOR" else []


def play(name: str, *, greets_when_heard: bool = False, **options: Any) -> Driver:
    recording = Recording(name, greets_when_heard=greets_when_heard)
    driver = make_driver(recording, **options)
    driver.connect()
    while not recording.player.ended:
        driver.run(0.1)
        assert driver.now < START_US + 100_000_000
    return driver


@functools.cache
def played(name: str) -> Driver:
    """A recording played to its end."""
    return play(name)


def controls_of(driver: Driver) -> list[tuple[int, HilControls]]:
    """Each controls that the twin was given, once, by the recorded simulator's time."""
    seen: dict[int, HilControls] = {}
    for step in driver.steps:
        if step.controls is not None:
            seen.setdefault(step.controls.time_us - SHIFT_US, step.controls)
    return list(seen.items())


def armed_spans(driver: Driver) -> list[int]:
    """The times at which bit 128 changed."""
    edges, before = [], False
    for time_us, controls in controls_of(driver):
        if controls.armed != before:
            edges.append(time_us)
            before = controls.armed
    return edges


def first_answer(driver: Driver) -> int:
    return controls_of(driver)[0][0]


# Lockstep: name, first answer, answers, edges of armed

LOCKSTEP = [
    ("sitl_iris_handshake", 68_000, 101, []),
    ("sitl_iris_udp_first_datagram", 60_000, 101, []),
    ("sitl_iris_flight", 60_000, 10785, [7_112_000, 41_396_000]),
    ("sitl_iris_stall3s", 64_000, 10781, [7_100_000, 41_324_000]),
    ("sitl_iris_udp", 68_000, 4155, [4_696_000, 15_196_000]),
    ("sitl_iris_set_actuator", 56_000, 9431, [7_088_000, 36_968_000]),
    ("sitl_iris_motor_failure", 56_000, 5615, [8_612_000]),
    ("sitl_iris_motor_failure_alloc", 60_000, 5556, [4_892_000]),
    ("sitl_iris_termination", 52_000, 3822, [5_080_000]),
    ("sitl_v112_iris_flight", 92_000, 8777, [7_120_000, 33_352_000]),
    ("sitl_v112_iris_termination", 84_000, 5488, [7_124_000]),
    ("sitl_v112_r1_rover", 92_000, 5563, [9_328_000, 21_340_000]),
]


@pytest.mark.parametrize(("name", "first", "answers", "edges"), LOCKSTEP, ids=[row[0] for row in LOCKSTEP])
def test_one_answer_to_each_sensor_from_the_first_on(name: str, first: int, answers: int, edges: list[int]) -> None:
    driver = played(name)
    stats = driver.session.stats
    assert first_answer(driver) == first
    assert stats.replies == answers
    assert stats.timeouts <= 1, "the end of the recording, at most"
    assert armed_spans(driver) == edges
    assert stats.connections == 1
    decoded = driver.session.decoder.stats
    assert (decoded.frames, decoded.bad_frames, decoded.lost_frames) == (answers + 2, 0, 0), "one HEARTBEAT in all"
    times = [time_us for time_us, _ in controls_of(driver)]
    assert times == list(range(first, first + answers * PERIOD_US, PERIOD_US))[: len(times)]
    if answers > 200:
        learnt = next(n for n, sensor in enumerate(driver.sensors) if sensor.phase is Phase.LOCKSTEP)
        assert learnt == first // PERIOD_US - 1 + 100
        assert driver.session.tracker.echoes


def test_the_handshake_asks_for_the_ground_truth() -> None:
    records = read_tlog(capture("sitl_iris_handshake"))
    decoder = Decoder()
    request, beat, *rest = (message for record in records for message in decoder.feed(record.frame))
    assert (request.get_type(), request.get_seq(), len(records[0].frame)) == ("COMMAND_LONG", 0, 30 + 12)
    assert (request.command, request.param1, request.param2) == (511, 115.0, 5000.0)
    assert (beat.get_type(), beat.get_seq(), beat.type, beat.autopilot) == ("HEARTBEAT", 1, 0, 12)
    assert all((message.flags, message.mode, set(message.controls)) == (1, 1, {0.0}) for message in rest)
    driver = played("sitl_iris_handshake")
    assert any(message.get_type() == "HIL_STATE_QUATERNION" for _, message in driver.sent)


def test_a_recorded_frame_keeps_its_bytes_but_for_the_stamp() -> None:
    records = read_tlog(capture("sitl_iris_handshake"))
    player = CapturePlayer(records)
    assert not player.ended or player.connect()
    frames = player.greeting()
    for number in range(150):
        frames += player.sensor(PERIOD_US * (1 + number))
    assert frames == [record.frame for record in records]
    assert player.ended
    assert not player.connect()


def test_over_udp_the_first_datagram_is_discarded() -> None:
    driver = play(
        "sitl_iris_udp_first_datagram",
        greets_when_heard=True,
        datagrams=True,
        speaks_first=True,
        reply_timeout_us=50_000,
    )
    assert driver.sent[0][1].get_type() == "HEARTBEAT", "nothing of worth goes first"
    assert driver.sensors[0].time_us == FIRST_US
    assert first_answer(driver) == 60_000
    assert driver.session.stats.replies == 101


@pytest.mark.parametrize("name", ["sitl_iris_flight", "sitl_v112_iris_flight"])
def test_a_flight_has_its_controls(name: str) -> None:
    driver = played(name)
    motors = [controls.channels[:4] for _, controls in controls_of(driver) if controls.armed]
    assert all(0.0 <= value <= 1.0 for channels in motors for value in channels)
    assert any(all(0.495 < value < 0.505 for value in channels) for channels in motors), "hover"
    assert all(set(controls.channels) == {0.0} for _, controls in controls_of(driver) if not controls.armed)
    first = next(controls for _, controls in controls_of(driver) if controls.armed)
    assert first.channels[4:] == ((0.0,) if name == "sitl_iris_flight" else (-1.0,)) * 12
    assert not any(step.controls.stale for step in driver.steps if step.controls)
    assert "flight_termination_suspected" not in driver.names()


def test_3_s_without_a_sensor_are_no_loss() -> None:
    """The recorded simulator stopped for 3 s in hover; here the operator does."""
    recording = Recording("sitl_iris_stall3s")
    driver = make_driver(recording)
    driver.connect()
    driver.run(18.996)
    driver.feed(Pause())
    driver.run(3.0)
    driver.feed(Resume())
    driver.run(10)
    assert max(driver.gaps_us()) == pytest.approx(3_000_000, abs=2 * PERIOD_US)
    assert driver.in_lockstep()
    assert driver.session.stats.timeouts == 0
    assert driver.session.tracker.armed
    assert driver.resets == []


def test_set_actuator_values_pass_through() -> None:
    driver = played("sitl_iris_set_actuator")
    by_time = dict(controls_of(driver))
    assert by_time[7_084_000].channels[4:6] == (0.0, 0.0)
    assert by_time[7_088_000].channels[4:6] == pytest.approx((0.5, -0.5)), "in the very first armed message"
    wheels = {tuple(round(value, 3) for value in c.channels[4:6]) for c in by_time.values() if c.armed}
    assert {(0.5, -0.5), (-0.3, 0.8), (1.0, -1.0), (0.4, 0.4), (0.0, 0.25)} <= wheels


def test_a_failed_motor_is_0_and_px4_stays_armed() -> None:
    driver = played("sitl_iris_motor_failure_alloc")
    last = [controls for _, controls in controls_of(driver)][-1000:]
    assert all(controls.channels[0] == 0.0 and controls.armed for controls in last)
    assert driver.session.stats.timeouts <= 1


def test_flight_termination_of_1_17_is_silence() -> None:
    """Replies at hover values, then none: motors must stop within 0.2 s of simulated time, and nothing hangs."""
    driver = play("sitl_iris_termination")
    assert driver.session.tracker.armed
    last = driver.session.tracker.controls_at(driver.session.time_us)
    assert last is not None
    assert last.channels[:4] == pytest.approx((0.4975,) * 4, abs=1e-3)
    driver.run(5)
    assert driver.session.stats.timeouts == 1
    assert driver.names().count("flight_termination_suspected") == 1
    assert driver.paced(PacedReason.SILENT)
    silent = [step.controls for step in driver.steps if step.controls and step.controls.time_us == last.time_us]
    fresh = [controls for controls in silent if not controls.stale]
    assert len(fresh) == 200_000 // PERIOD_US
    assert len(silent) > 1000
    assert silent[-1].termination_suspected
    assert not driver.resets


def test_flight_termination_of_1_12_goes_on_talking() -> None:
    driver = played("sitl_v112_iris_termination")
    last = [controls for _, controls in controls_of(driver)][-900:]
    assert all(controls.armed and controls.channels == (0.0,) * 4 + (-1.0,) * 12 for controls in last)
    assert "flight_termination_suspected" not in driver.names() or driver.session.stats.timeouts == 1


def test_a_1_17_rover_speaks_only_while_armed() -> None:
    driver = play("sitl_rover_differential")
    driver.run(3)
    stats = driver.session.stats
    assert (stats.replies, stats.timeouts) == (1550, 1), "the one time-out is the silence after disarming"
    assert first_answer(driver) == 5_740_000
    assert armed_spans(driver) == [5_740_000, 21_228_000]
    assert "silent_disarmed" in driver.names()
    assert "reply_timeout" not in driver.names()
    assert "flight_termination_suspected" not in driver.names()
    before_arming = [sensor for sensor in driver.sensors if sensor.time_us < 5_700_000]
    assert {sensor.phase for sensor in before_arming} == {Phase.PACED}
    wheels = {tuple(round(value, 2) for value in controls.channels[:2]) for _, controls in controls_of(driver)}
    assert {(0.6, 0.6), (-0.4, 0.4), (0.9, 0.3), (-0.6, -0.6), (1.0, 1.0), (0.0, 0.0)} <= wheels
    assert str(driver.session._pattern) == "2 answers per 5 sensors"


def test_a_1_12_rover_answers_while_disarmed() -> None:
    driver = played("sitl_v112_r1_rover")
    by_time = dict(controls_of(driver))
    assert by_time[9_328_000].channels == (-1.0,) * 16, "full reverse at arming, for 56 ms"
    assert by_time[9_328_000 + 13 * PERIOD_US].channels == (-1.0,) * 16
    assert by_time[9_328_000 + 14 * PERIOD_US].channels[0] == 0.0
    assert not by_time[9_324_000].armed
    assert by_time[21_340_000].channels == (0.0,) * 16


def test_a_restart_over_tcp_is_a_new_connection() -> None:
    recording = Recording("sitl_iris_px4_restart")
    driver = make_driver(recording)
    driver.connect()
    while not recording.player.ended:
        driver.run(0.1)
    count = len(driver.sensors)
    driver.disconnect("it closed the connection")
    assert recording.player.connect()
    driver.connect()
    while not recording.player.ended:
        driver.run(0.1)
    assert not recording.player.connect()
    assert driver.session.stats.replies == 2973
    assert driver.session.stats.connections == 2
    assert driver.sensors[count].time_us == FIRST_US
    assert driver.resets == ["it closed the connection"]
    assert driver.session.decoder.stats.lost_frames == 0, "the sequence began again"
    assert driver.session.stats.timeouts == 0
    assert "px4_restarted" not in driver.names()


# Boards: another clock, no lockstep


HITL = [
    ("hitl_pty_quad_x", 7317, {53, 181}, 1),
    ("hitl_v112_pty_quad_x", 6308, {113, 53, 181}, 1),
    ("hitl_pty_px4_restart", 2499, {53}, 2),
]


@pytest.mark.parametrize(("name", "answers", "modes", "starts"), HITL, ids=[row[0] for row in HITL])
def test_hitl_is_never_waited_for(name: str, answers: int, modes: set[int], starts: int) -> None:
    records = read_tlog(capture(name))
    decoder = Decoder()
    messages = [message for record in records for message in decoder.feed(record.frame)]
    assert {m.mode for m in messages if m.get_type() == "HIL_ACTUATOR_CONTROLS"} == modes
    assert decoder.stats.bad_frames == 0
    driver = played(name)
    session = driver.session
    assert session.describe() == "paced: flight controller without lockstep"
    assert session.tracker.echoes is False
    assert session.stats.timeouts == 0
    assert session.stats.replies == answers - (starts - 1), "the message that tells of a restart starts anew"
    assert driver.names().count("no_lockstep") == starts
    assert (min(driver.gaps_us()), max(driver.gaps_us())) == (PERIOD_US, pytest.approx(PERIOD_US, abs=50))
    armed = [step.controls.armed for step in driver.steps if step.controls]
    assert any(armed) == (181 in modes), "bit 128, not 129"
    assert not armed[-1]


def test_hitl_controls_of_1_12_come_as_they_are() -> None:
    """Out of range while disarmed and at first while armed: the gate is there for that."""
    driver = played("hitl_v112_pty_quad_x")
    seen = [step.controls for step in driver.steps if step.controls]
    assert seen[0].channels == pytest.approx((-0.1,) * 4 + (-1.2,) * 4 + (0.0,) * 8)
    first_armed = next(controls for controls in seen if controls.armed)
    assert first_armed.channels[:4] == pytest.approx((-0.1,) * 4)


def test_a_restart_on_a_port_that_stays_open_is_told_by_the_clock() -> None:
    driver = played("hitl_pty_px4_restart")
    assert driver.names().count("time_backward") == 1
    assert driver.resets == ["its clock ran backward"]
    (back,) = (now for now, notice in driver.notices if notice.name == "time_backward")
    stale = [step for step in driver.steps if step.controls and step.controls.stale]
    assert len(stale) == pytest.approx((2.62 - 0.2) * 250, abs=15), "controls are not trusted meanwhile"
    assert driver.since(back)[0].time_us > driver.sensors[0].time_us, "our time goes on"


@pytest.mark.parametrize("name", ["sitl_iris_gcs_udp", "sitl_iris_motor_failure_gcs"])
def test_a_ground_station_link_decodes(name: str) -> None:
    decoder = Decoder(datagrams=True)
    kinds = [m.get_type() for record in read_tlog(capture(name)) for m in decoder.feed(record.frame)]
    assert {row.name for row in EXTRA_MESSAGES} <= set(kinds)
    assert not any(kind.startswith("UNKNOWN") for kind in kinds)
    assert decoder.stats.lost_frames == 0


@pytest.mark.parametrize("name", ["sitl_iris_handshake", "sitl_iris_udp", "sitl_rover_differential", "hitl_pty_quad_x"])
def test_a_recording_gives_the_same_again(name: str) -> None:
    driver = played(name)
    driver.check_replay(HilSession(period_us=PERIOD_US))
    again = play(name)
    assert [(event, outputs) for event, _, outputs, _ in again.log[:2000]] == [
        (event, outputs) for event, _, outputs, _ in driver.log[:2000]
    ]


# Through the service, with the real twin


class Steps:
    """Listens to the loop."""

    def __init__(self) -> None:
        self.controls: list[HilControls | None] = []
        self.times: list[int] = []
        self.notices: list[str] = []

    def stepped(self, controls: HilControls | None, sample: Any) -> None:
        self.controls.append(controls)
        self.times.append(sample.time_us)

    def noticed(self, notice: Any) -> None:
        self.notices.append(notice.name)


async def serve(name: str, seconds: float) -> tuple[dict[str, Any], Steps]:
    steps = Steps()
    settings = Settings(
        profile=load_profile("px4_iris"), endpoint=Memory("unused"), speed=0.0, seed=1, duration_s=seconds
    )
    service = Service(settings, CaptureTransport(capture(name)), (steps,))
    code, summary = await service.run()
    assert code is ExitCode.OK
    assert summary["simulated_s"] == pytest.approx(seconds, abs=0.05)
    assert steps.times == [FIRST_US + number * PERIOD_US for number in range(len(steps.times))]
    assert (summary["bad_frames"], summary["lost_frames"], summary["frames_not_sent"]) == (0, 0, 0)
    return summary, steps


@pytest.mark.parametrize("name", ["sitl_iris_flight", "sitl_v112_iris_flight"])
async def test_the_service_flies_a_recorded_flight(name: str) -> None:
    summary, steps = await serve(name, 10.0)
    assert summary["link"] == "lockstep: 1 answer per 1 sensor"
    assert summary["times_armed"] == 1
    assert summary["reply_timeouts"] == 0
    last = steps.controls[-1]
    assert last is not None
    assert last.armed
    assert min(last.channels[:4]) > 0, "the recorded motors turn"


@pytest.mark.slow
async def test_the_service_waits_for_no_rover() -> None:
    """Disarmed it is paced in real time, armed it is in lockstep as fast as it goes."""
    summary, steps = await serve("sitl_rover_differential", 10.0)
    assert summary["link"] == "lockstep: 2 answers per 5 sensors"
    assert summary["times_armed"] == 1
    assert summary["reply_timeouts"] == 0
    assert steps.controls[1400] is None
    assert summary["wall_s"] > 5.7


async def test_the_service_survives_the_end_of_a_recording() -> None:
    """A restart: the second connection starts its own time, the twin with it."""
    pytest.importorskip("mujoco")
    if not ALL.exists():
        pytest.skip("no captures: set LAV2_SHARED")
    steps = Steps()
    settings = Settings(profile=load_profile("px4_iris"), endpoint=Memory("unused"), speed=0.0, duration_s=8.0)
    service = Service(settings, CaptureTransport(capture("sitl_iris_px4_restart")), (steps,))
    code, summary = await service.run()
    assert code is ExitCode.OK
    assert summary["connections"] == 2
    assert steps.times.count(FIRST_US) == 2
    assert "peer_lost" in steps.notices
