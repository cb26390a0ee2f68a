"""The session with a board, decision by decision: what makes it step, skip, start, forget, or say something."""

from __future__ import annotations

import dataclasses

from hitl.test_free_running import HIL, PERIOD_US, Bench, beat, connected, controls, flying
from pymavlink.dialects.v20 import common

from bridge.codec import Encoder
from bridge.free_running import FreeRunningSession
from bridge.session_io import LinkDown, LinkUp, Received, Sampled, Send, StepTwin, TimerExpired
from firmware_profiles.signals import GpsFix, SensorSample

FIX = GpsFix(1_700_000_000_000_000, 47.4, 8.5, 488.0, (0.0, 0.0, 0.0), 0.8, 1.2, 12, 3)


def late(bench: Bench, by_us: int) -> None:
    """The next tick comes so late."""
    assert bench.session.wake_us is not None
    bench.now = bench.session.wake_us + by_us
    bench.feed(TimerExpired())


class GpsBench(Bench):
    """Every sample has a fix."""

    def sample(self, time_us: int) -> SensorSample:
        return dataclasses.replace(super().sample(time_us), gps=FIX)


def test_late_is_half_of_the_time_between_two_sensors_that_are_sent() -> None:
    bench = flying(every=2)
    while bench.session.time_us // PERIOD_US % 2 == 1:
        late(bench, 0)
    sent = len(bench.of("HIL_SENSOR"))
    late(bench, 0)
    late(bench, 0)
    assert len(bench.of("HIL_SENSOR")) == sent + 1
    while len(bench.of("HIL_SENSOR")) == sent + 1:  # the one that is sent comes three quarters of a period late
        late(bench, 3 * PERIOD_US // 4)
    assert bench.session.stats.skipped == 0


def test_a_fix_leaves_before_the_sensors_of_its_tick() -> None:
    bench = GpsBench(FreeRunningSession(period_us=PERIOD_US))
    bench.feed(LinkUp("the board"))
    bench.say(beat())
    bench.run(bench.now + 40_000)
    kinds = [message.get_type() for _, message in bench.sent if message.get_type() != "HEARTBEAT"]
    assert kinds == ["HIL_GPS", "HIL_SENSOR"] * 10


def test_a_board_may_be_silent_for_a_moment() -> None:
    bench = flying()
    sensors = len(bench.of("HIL_SENSOR"))
    bench.run(bench.now + 1_400_000, board=False)
    assert bench.resets == 0
    assert len(bench.of("HIL_SENSOR")) - sensors == 1_400_000 // PERIOD_US


def stalled(seconds: float) -> tuple[Bench, int]:
    """This computer stands still; gives by how much simulated time then went on, in 40 ms."""
    bench = flying()
    before = bench.session.time_us
    bench.now += round(1e6 * seconds)
    bench.say(controls(bench.now))  # it was not the board that stood still
    bench.run(bench.now + 40_000)
    assert bench.resets == 0
    return bench, bench.session.time_us - before


def test_a_long_stall_stops_simulated_time_and_a_shorter_one_does_not() -> None:
    bench, went_on_us = stalled(1.9)
    assert "stalled" not in bench.names()
    assert abs(went_on_us - 1_940_000) <= PERIOD_US
    bench, went_on_us = stalled(2.5)
    assert bench.names().count("stalled") == 1
    assert abs(went_on_us - 40_000) <= PERIOD_US


def test_controls_that_come_again_or_too_late_count_for_nothing() -> None:
    bench = flying()
    bench.say(controls(9_000_000, values=(0.5,)))
    replies = bench.session.stats.replies
    bench.say(controls(9_000_000, values=(0.7,)))
    bench.say(controls(8_995_000, values=(0.9,)))
    late(bench, 0)
    newest = bench.steps[-1].controls
    assert newest is not None
    assert (newest.channels[0], newest.age_us) == (0.5, PERIOD_US)
    assert bench.session.stats.replies == replies


def test_a_px4_in_lockstep_is_told_of_once() -> None:
    bench = flying()
    assert "lockstep" not in bench.names()
    for number in range(3):
        bench.say(controls(9_000_000 + number * 5_000, flags=1))
    assert bench.names().count("lockstep") == 1


def test_arming_disarming_and_each_termination_are_told() -> None:
    bench = flying()
    for start in (9_000_000, 19_000_000):
        bench.say(controls(start, mode=181))
        bench.run(bench.now + 400_000, board=False)
        bench.say(controls(start + 1_000_000))
        late(bench, 0)
    told = [name for name in bench.names() if name in ("armed", "disarmed", "flight_termination_suspected")]
    assert told == ["armed", "flight_termination_suspected", "disarmed"] * 2


def test_a_board_that_sends_controls_is_never_said_to_send_none() -> None:
    bench = flying()
    bench.run(bench.now + 8_000_000)
    assert "no_actuators" not in bench.names()


def test_that_no_controls_come_is_not_told_every_moment() -> None:
    bench = connected()
    for _ in range(120):
        bench.say(beat())
        bench.run(bench.now + 100_000, board=False)
    assert bench.names().count("no_actuators") == 1


def test_another_component_of_the_board_does_not_start_sensors() -> None:
    bench = connected()
    bench.say(beat(base_mode=0x35 & ~HIL))
    bench.say(beat(base_mode=HIL, autopilot=common.MAV_AUTOPILOT_INVALID))
    bench.run(bench.now + 40_000, board=False)
    assert not bench.of("HIL_SENSOR")


def test_another_board_may_be_plugged_in_after_the_first() -> None:
    bench = flying()
    bench.feed(LinkDown("unplugged"))
    bench.feed(LinkUp("the other board"))
    sensors = len(bench.of("HIL_SENSOR"))
    bench.feed(Received(Encoder(7, 1).encode(beat())))
    bench.run(bench.now + 40_000, board=False)
    assert bench.session.system == 7
    assert len(bench.of("HIL_SENSOR")) > sensors


def test_what_was_held_is_not_told_to_a_board_that_restarted() -> None:
    bench = flying()
    late(bench, PERIOD_US // 2 + 1)
    assert bench.session.stats.skipped == 1
    bench.say(controls(100))
    bench.say(controls(5_100))
    late(bench, 0)
    assert bench.of("HIL_SENSOR")[-1][1].xacc == bench.session.time_us // PERIOD_US


def test_a_restart_is_no_loss_of_frames() -> None:
    bench = flying()
    bench.run(bench.now + 800_000)  # so far that going back to 0 looks like a gap, and not like a frame out of order
    bench.say(controls(100))
    bench._encoder = Encoder(1, 1)
    bench.say(controls(5_100))
    assert bench.session.decoder.stats.lost_frames == 0


def test_a_timer_that_comes_early_does_nothing() -> None:
    bench = connected()
    beats = len(bench.sent)
    bench.feed(TimerExpired())
    assert len(bench.sent) == beats


def test_a_step_that_a_lost_board_asked_for_is_forgotten() -> None:
    """And while one is under way there is no second."""
    session = flying().session
    now = session.wake_us
    assert now is not None
    (step,) = session.handle(TimerExpired(), now)
    assert isinstance(step, StepTwin)
    assert session.handle(TimerExpired(), now + 2 * PERIOD_US) == []
    session.handle(LinkDown("unplugged"), now)
    session.handle(LinkUp("the board"), now)
    session.handle(Received(Encoder(1, 1).encode(beat())), now)
    before_us = session.time_us
    assert not session.handle(Sampled(Bench(session).sample(step.time_us)), now)
    assert session.time_us == before_us
    assert session.wake_us is not None
    outputs = session.handle(TimerExpired(), session.wake_us)
    assert [type(output) for output in outputs if not isinstance(output, Send)] == [StepTwin]
