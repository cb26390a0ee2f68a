"""The session with a board, in virtual time: what leaves when."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise

import pytest
from pymavlink.dialects.v20 import common

from bridge.codec import Decoder, Encoder, Message
from bridge.free_running import NOT_PX4, FreeRunningSession
from bridge.session_io import (
    Event,
    LinkDown,
    LinkUp,
    Notice,
    Output,
    Pause,
    Received,
    ResetTwin,
    Sampled,
    Send,
    SetSpeed,
    StepTwin,
    TimerExpired,
)
from firmware_profiles.signals import BaroSample, SensorSample

PERIOD_US = 4_000
HIL = 32


class Bench:
    """Feeds a session in virtual time and answers its steps; keeps what leaves, with its time."""

    def __init__(self, session: FreeRunningSession) -> None:
        self.session = session
        self.now = 1_000_000
        self.sent: list[tuple[int, Message]] = []
        self.notices: list[Notice] = []
        self.steps: list[StepTwin] = []
        self.resets = 0
        self.fed: list[tuple[Event, int]] = []
        self.outputs: list[Output] = []
        self._encoder = Encoder(1, 1)
        self._decoder = Decoder()
        self.step_us = 0

    def feed(self, event: Event) -> None:
        self.fed.append((event, self.now))
        outputs = self.session.handle(event, self.now)
        self.outputs += outputs
        steps = []
        for output in outputs:
            if isinstance(output, Send):
                self.sent += [(self.now, message) for message in self._decoder.feed(output.frame)]
            elif isinstance(output, Notice):
                self.notices.append(output)
            elif isinstance(output, ResetTwin):
                self.resets += 1
            elif isinstance(output, StepTwin):
                self.steps.append(output)
                steps.append(output)
        for step in steps:
            self.now += self.step_us
            self.feed(Sampled(self.sample(step.time_us)))

    def sample(self, time_us: int) -> SensorSample:
        number = time_us // PERIOD_US
        baro = BaroSample(950.0 + number, 500.0, 20.0) if number % 5 == 0 else None
        return SensorSample(time_us, (float(number), 0.0, -9.8), (0.0, 0.0, 0.0), None, baro, None)

    def say(self, *messages: Message) -> None:
        self.feed(Received(b"".join(map(self._encoder.encode, messages))))

    def run(self, until_us: int, board: bool = True) -> None:
        """Let time pass; the board, if it is there, sends controls every 5 ms."""
        said = self.now
        while True:
            wake = self.session.wake_us
            assert wake is not None
            if board and said + 5_000 <= min(wake, until_us):
                said += 5_000
                self.now = max(self.now, said)
                self.say(controls(self.now))
            elif wake <= until_us:
                self.now = max(self.now, wake)
                self.feed(TimerExpired())
            else:
                self.now = until_us
                return

    def of(self, kind: str) -> list[tuple[int, Message]]:
        return [(now, message) for now, message in self.sent if message.get_type() == kind]

    def names(self) -> list[str]:
        return [notice.name for notice in self.notices]


def controls(time_us: int, mode: int = 53, values: Iterable[float] = (), flags: int = 0) -> Message:
    channels = (*values, *[0.0] * 16)[:16]
    return common.MAVLink_hil_actuator_controls_message(time_us, list(channels), mode, flags)


def beat(base_mode: int = 0x35, autopilot: int = common.MAV_AUTOPILOT_PX4) -> Message:
    return common.MAVLink_heartbeat_message(2, autopilot, base_mode, 0, 3, 3)


def connected(**options: int) -> Bench:
    bench = Bench(FreeRunningSession(period_us=PERIOD_US, **options))  # type: ignore[arg-type]
    bench.feed(LinkUp("the board"))
    return bench


def flying(**options: int) -> Bench:
    bench = connected(**options)
    bench.say(beat())
    bench.run(bench.now + 100_000)
    return bench


def gaps(sent: list[tuple[int, Message]]) -> list[int]:
    times = [now for now, _ in sent]
    return [b - a for a, b in pairwise(times)]


def test_report_14_heartbeats_alone_until_the_board_answers() -> None:
    bench = connected()
    bench.run(bench.now + 4_000_000, board=False)
    assert {message.get_type() for _, message in bench.sent} == {"HEARTBEAT"}
    assert max(gaps(bench.sent)) <= 100_000
    # The form that PX4's start on USB recognises: nothing trimmed.
    assert {message.get_msgbuf()[1] for _, message in bench.sent} == {9}


def test_a_heartbeat_in_hil_starts_sensors_and_then_beats_once_a_second() -> None:
    bench = connected()
    bench.say(beat())
    start = bench.now
    bench.run(start + 3_000_000)
    sensors = bench.of("HIL_SENSOR")
    assert len(sensors) == 3_000_000 // PERIOD_US
    assert set(gaps(sensors)) == {PERIOD_US}
    beats = [now for now, _ in bench.of("HEARTBEAT") if now > start]
    assert len(beats) == 4
    assert all(990_000 < b - a < 1_010_000 for a, b in pairwise(beats))
    assert not any(message.id for _, message in sensors)


def test_controls_alone_start_sensors_too() -> None:
    bench = connected()
    bench.say(controls(5_000_000))
    bench.run(bench.now + 40_000)
    assert bench.of("HIL_SENSOR")


def test_report_20_a_board_that_is_not_in_hil_gets_no_sensors() -> None:
    bench = connected()
    bench.say(beat(base_mode=0x35 & ~HIL))
    bench.run(bench.now + 1_000_000, board=False)
    assert not bench.of("HIL_SENSOR")
    assert bench.names().count("not_in_hil") == 1


def test_a_stall_skips_ticks_and_makes_no_burst() -> None:
    bench = flying()
    bench.step_us = 150
    before, simulated, wall = bench.session.stats.sensors, bench.session.time_us, bench.now
    bench.now += 200_000
    bench.run(bench.now + 200_000)
    sensors = bench.of("HIL_SENSOR")
    assert min(gaps(sensors)) >= PERIOD_US // 2
    assert bench.session.stats.skipped >= 48
    # Simulated time is wall time again, for the twin took every step.
    assert abs((bench.session.time_us - simulated) - (bench.now - wall)) <= PERIOD_US
    assert bench.session.stats.sensors - before + bench.session.stats.skipped == (
        (bench.session.time_us - simulated) // PERIOD_US
    )


def test_a_tick_half_a_period_late_is_sent_and_a_later_one_is_not() -> None:
    bench = flying()
    assert bench.session.wake_us is not None
    bench.now = bench.session.wake_us + PERIOD_US // 2
    sent = len(bench.of("HIL_SENSOR"))
    bench.feed(TimerExpired())
    assert len(bench.of("HIL_SENSOR")) == sent + 1
    bench.now = bench.session.wake_us + PERIOD_US // 2 + 1
    bench.feed(TimerExpired())
    assert (len(bench.of("HIL_SENSOR")), bench.session.stats.skipped) == (sent + 1, 1)


def test_what_was_skipped_is_told_with_the_next() -> None:
    bench = flying()
    assert bench.session.wake_us is not None
    while bench.session.time_us // PERIOD_US % 5 != 4:
        bench.run(bench.session.wake_us)
    bench.now = bench.session.wake_us + PERIOD_US // 2 + 1
    bench.feed(TimerExpired())  # skipped, and it had the barometer's reading
    number = bench.session.time_us // PERIOD_US
    assert number % 5 == 0
    bench.run(bench.session.wake_us)
    message = bench.of("HIL_SENSOR")[-1][1]
    assert message.fields_updated & 0x1A00 == 0x1A00
    assert message.abs_pressure == pytest.approx(950.0 + number)
    assert message.xacc == pytest.approx(number + 0.5), "the mean over both ticks"


def test_report_17_every_second_tick_on_a_slow_line() -> None:
    bench = flying(every=2)
    assert set(gaps(bench.of("HIL_SENSOR"))) == {2 * PERIOD_US}
    assert bench.session.stats.skipped == 0
    assert len(bench.steps) == pytest.approx(2 * len(bench.of("HIL_SENSOR")), abs=1)


def test_controls_count_from_when_they_come_and_go_stale() -> None:
    bench = flying()
    bench.say(controls(9_000_000, mode=181, values=(0.5,) * 4))
    bench.run(bench.now + 190_000, board=False)
    newest = bench.steps[-1].controls
    assert newest is not None
    assert (newest.armed, newest.stale, newest.channels[0]) == (True, False, 0.5)
    bench.run(bench.now + 30_000, board=False)
    newest = bench.steps[-1].controls
    assert newest is not None
    assert newest.stale
    assert bench.names().count("flight_termination_suspected") == 1


def test_report_26_a_clock_that_runs_backward_is_a_restart() -> None:
    bench = flying()
    assert bench.resets == 0
    before = bench.now
    bench.say(controls(100))  # the boot's first
    assert (bench.resets, bench.names().count("px4_restarted")) == (1, 1)
    assert bench.of("HEARTBEAT")[-1][0] == before, "it is called at once"
    bench.say(controls(5_100))
    bench.run(bench.now + 40_000, board=False)
    assert bench.of("HIL_SENSOR")[-1][0] > before


def test_silence_is_a_restart_too_and_only_heartbeats_follow() -> None:
    bench = flying()
    bench.run(bench.now + 1_600_000, board=False)
    assert (bench.resets, bench.names().count("px4_restarted")) == (1, 1)
    sensors = len(bench.of("HIL_SENSOR"))
    bench.run(bench.now + 1_000_000, board=False)
    assert len(bench.of("HIL_SENSOR")) == sensors
    bench.say(beat())
    bench.run(bench.now + 40_000, board=False)
    assert len(bench.of("HIL_SENSOR")) > sensors


def test_a_lost_link_resets_the_twin_and_comes_back_with_heartbeats() -> None:
    bench = flying()
    bench.feed(LinkDown("unplugged"))
    assert (bench.resets, bench.session.wake_us) == (1, None)
    sensors = len(bench.of("HIL_SENSOR"))
    bench.feed(LinkUp("the board"))
    bench.run(bench.now + 200_000, board=False)
    assert len(bench.of("HIL_SENSOR")) == sensors
    bench.say(beat())
    bench.run(bench.now + 40_000, board=False)
    assert len(bench.of("HIL_SENSOR")) > sensors


def test_report_21_the_truth_is_never_sent() -> None:
    bench = flying()
    bench.say(common.MAVLink_command_long_message(0, 0, 511, 0, 115, 5_000, 0, 0, 0, 0, 0))
    bench.run(bench.now + 100_000)
    assert not bench.of("HIL_STATE_QUATERNION")
    assert not any(step.truth for step in bench.steps)
    assert bench.names().count("truth_refused") == 1


def test_report_13_no_controls_is_told_with_its_causes() -> None:
    bench = connected()
    bench.say(beat())
    for _ in range(60):
        bench.say(beat())
        bench.run(bench.now + 100_000, board=False)
    (notice,) = [notice for notice in bench.notices if notice.name == "no_actuators"]
    assert all(cause in notice.text for cause in ("SYS_HITL", "HIL_ACT_FUNC", "pwm_out_sim"))


def test_an_operator_cannot_steer_a_boards_time() -> None:
    bench = flying()
    bench.feed(Pause())
    bench.feed(SetSpeed(2.0))
    assert bench.names().count("not_steered") == 2
    sensors = len(bench.of("HIL_SENSOR"))
    bench.run(bench.now + 40_000)
    assert len(bench.of("HIL_SENSOR")) == sensors + 10


def test_ardupilot_is_told_at_once() -> None:
    bench = connected()
    bench.say(beat(autopilot=common.MAV_AUTOPILOT_ARDUPILOTMEGA))
    (notice,) = [notice for notice in bench.notices if notice.name == NOT_PX4]
    assert "ArduPilot" in notice.text


@pytest.mark.parametrize(
    ("data", "word"),
    [(b"$GPGGA,123519,4807.038,N,01131.000,E,1,08,0.9,545.4,M,46.9,M,,*47\r\n", "NMEA"), (b"\x81\x13\x77" * 9, "baud")],
    ids=["nmea", "noise"],
)
def test_what_is_no_autopilot_is_told_after_some_seconds(data: bytes, word: str) -> None:
    bench = connected()
    for _ in range(60):
        bench.feed(Received(data))
        bench.run(bench.now + 100_000, board=False)
    (notice,) = [notice for notice in bench.notices if notice.name == NOT_PX4]
    assert word in notice.text


def test_silence_alone_ends_nothing() -> None:
    bench = connected()
    bench.run(bench.now + 12_000_000, board=False)
    assert NOT_PX4 not in bench.names()
    assert bench.names().count("no_answer") == 1


def test_the_same_events_give_the_same_outputs() -> None:
    bench = flying()
    bench.now += 200_000
    bench.run(bench.now + 200_000)
    bench.say(controls(100))
    bench.run(bench.now + 100_000)
    again = FreeRunningSession(period_us=PERIOD_US)
    assert [output for event, now in bench.fed for output in again.handle(event, now)] == bench.outputs
