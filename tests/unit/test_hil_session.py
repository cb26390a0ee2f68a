"""The lockstep session: when a HIL_SENSOR may leave, rule by rule, in virtual time."""

from __future__ import annotations

import itertools
import random

import pytest
from pymavlink.dialects.v20 import common
from session_driver import FIRST_US, PERIOD_US, Driver, ScriptedFc, lockstep, make_driver

from bridge.codec import Encoder
from bridge.hil import HilSession
from bridge.session_io import LinkUp, Pause, Received, Resume, SetSpeed
from bridge.session_state import PacedReason, Phase

MS = 1000


def answers(driver: Driver) -> int:
    return driver.session.stats.replies


def times(driver: Driver) -> list[int]:
    return [sensor.time_us for sensor in driver.sensors]


# Before lockstep


def test_time_begins_at_one_second_and_goes_on_evenly() -> None:
    """Report 7: no zero stamp, and every step is one period."""
    driver = lockstep(seconds=2)
    assert times(driver) == [FIRST_US + n * PERIOD_US for n in range(len(driver.sensors))]
    assert all(type(stamp) is int for stamp in times(driver))


def test_a_silent_start_is_paced_in_real_time_and_says_so() -> None:
    driver = make_driver(ScriptedFc(boot=10**6), speed=5.0)
    assert driver.session.describe() == "waiting for PX4"
    driver.connect()
    driver.run(2)
    assert driver.session.describe() == "paced: learning the reply pattern"
    assert set(driver.gaps_us()) == {PERIOD_US}
    assert driver.session.stats.timeouts == 0, "the silence after boot is no time-out"
    assert "reply_timeout" not in driver.names()


@pytest.mark.parametrize(("speed", "gap_us"), [(1.0, 4000), (0.0, 4000), (20.0, 4000), (0.5, 8000)])
def test_paced_is_at_the_speed_but_at_most_at_real_time(speed: float, gap_us: int) -> None:
    driver = make_driver(ScriptedFc(boot=10**6), speed=speed)
    driver.connect()
    driver.run(1)
    assert set(driver.gaps_us()) == {gap_us}


@pytest.mark.parametrize("boot", [0, 10, 50])
def test_lockstep_once_100_sensors_were_answered(boot: int) -> None:
    driver = make_driver(ScriptedFc(boot=boot), speed=0.0)
    driver.connect()
    driver.run(1)
    first = next(n for n, sensor in enumerate(driver.sensors) if sensor.phase is Phase.LOCKSTEP)
    assert first == boot + 100
    assert driver.session.describe() == "lockstep: 1 answer per 1 sensor"
    assert driver.names() == ["peer_connected", "system_found", "pattern_learnt"]


@pytest.mark.parametrize(
    ("pattern", "words"),
    [
        ("01", "lockstep: 1 answer per 2 sensors"),
        ("0001", "lockstep: 1 answer per 4 sensors"),
        ("01001", "lockstep: 2 answers per 5 sensors"),
    ],
)
def test_other_patterns_run_without_a_time_out(pattern: str, words: str) -> None:
    driver = lockstep(ScriptedFc(pattern=pattern), speed=0.0, seconds=0.8)
    assert driver.session.describe() == words
    assert driver.session.stats.timeouts == 0
    assert len(driver.sensors) > 2 * 0.8 * 250, "faster than real time"


def test_a_1_17_rover_is_paced_until_it_arms_and_after_it_disarms() -> None:
    rover = ScriptedFc(quiet_disarmed=True, armed_pattern="01001")
    driver = make_driver(rover, speed=2.0)
    driver.connect()
    driver.run(3)
    assert driver.paced(PacedReason.LEARNING)
    assert answers(driver) == 0
    rover.armed = True
    driver.run(2)
    assert driver.session.describe() == "lockstep: 2 answers per 5 sensors"
    rover.armed = False
    driver.run(2)
    assert driver.session.describe() == "paced: no reply"
    assert "silent_disarmed" in driver.names()
    assert "reply_timeout" not in driver.names(), "silence after disarming is normal"
    assert "flight_termination_suspected" not in driver.names()
    assert driver.session.stats.timeouts == 1
    rover.armed = True
    driver.run(2)
    assert driver.in_lockstep(), "armed again"
    assert driver.session.stats.timeouts <= 4


# Lockstep


@pytest.mark.parametrize("latency_us", [100, 5_000, 60_000])
def test_report_2_one_sensor_waits_for_one_answer(latency_us: int) -> None:
    """#HIL_SENSOR - #HIL_ACTUATOR_CONTROLS <= 1 (the driver checks it at each step); the pace is that of the link."""
    driver = lockstep(latency_us=latency_us, speed=0.0, seconds=0.8)
    before = driver.now
    driver.run(0.5)
    assert min(driver.gaps_us(before)) >= 2 * latency_us
    assert driver.session.stats.timeouts == 0


def test_report_2_one_answer_in_50_lost_on_datagrams_stalls_nothing() -> None:
    fc = ScriptedFc()
    driver = lockstep(fc, datagrams=True, reply_timeout_us=50 * MS, speed=1.0)
    rng = random.Random(2)
    hear = fc.hear
    fc.hear = lambda message: [frame for frame in hear(message) if rng.randrange(50)]  # type: ignore[method-assign]
    start = driver.now
    driver.run(20)
    assert max(driver.gaps_us(start)) <= 100 * MS
    assert len(set(times(driver))) == len(driver.sensors), "no stamp twice"
    timeouts = driver.session.stats.timeouts
    assert timeouts > 30
    assert timeouts < len(driver.since(start)) / 40
    assert driver.names().count("reply_timeout") <= 3, "a warning every 10 s"


def test_report_2_every_50th_answer_lost_from_the_start() -> None:
    """No pattern of at most 8, so it stays paced: without a time-out, and in real time."""
    driver = make_driver(ScriptedFc(pattern="1" * 49 + "0"), datagrams=True, reply_timeout_us=50 * MS)
    driver.connect()
    driver.run(10)
    assert driver.paced(PacedReason.LEARNING)
    assert set(driver.gaps_us()) == {PERIOD_US}


def test_a_late_answer_updates_the_controls_and_releases_nothing() -> None:
    fc = ScriptedFc()
    driver = lockstep(fc, reply_timeout_us=0, speed=0.0)
    fc.silent = True
    driver.run(1)
    waiting_since = driver.sensors[-1].time_us
    fc.armed = True
    count = len(driver.sensors)
    driver.session.tracker._stamp_us = waiting_since - 3 * PERIOD_US  # as if the two before had not been answered
    driver.deliver(fc.answer(waiting_since - PERIOD_US))
    driver.run(1)
    assert len(driver.sensors) == count
    assert driver.session.tracker.armed
    driver.deliver(fc.answer(waiting_since))
    driver.run(0.01)
    assert len(driver.sensors) == count + 1


def test_duplicates_release_nothing() -> None:
    fc = ScriptedFc()
    driver = lockstep(fc, reply_timeout_us=0, speed=0.0)
    fc.silent = True
    driver.run(1)
    count = len(driver.sensors)
    for _ in range(5):
        driver.deliver(fc.answer(driver.sensors[-2].time_us))
    driver.run(1)
    assert len(driver.sensors) == count
    assert driver.session.tracker.duplicates == 5


def test_reply_timeout_0_waits_for_ever() -> None:
    fc = ScriptedFc()
    driver = lockstep(fc, reply_timeout_us=0)
    fc.silent = True
    driver.run(3600)
    assert driver.session.wake_us is None
    assert driver.session.stats.timeouts == 0
    assert driver.in_lockstep()


def test_report_9_factor_10_misses_no_tick() -> None:
    driver = lockstep(speed=10.0, seconds=0.6)
    start = driver.now
    driver.run(1)
    assert len(driver.since(start)) == pytest.approx(10 * 250, abs=2)
    assert driver.session.stats.timeouts == 0


def test_speed_in_lockstep_is_that_of_the_wall_clock() -> None:
    driver = lockstep(speed=1.0)
    assert set(driver.gaps_us(driver.now - 500 * MS)) == {PERIOD_US}
    driver.feed(SetSpeed(0.25))
    start = driver.now
    driver.run(2)
    assert len(driver.since(start)) == pytest.approx(125, abs=2)
    driver.feed(SetSpeed(4.0))
    start = driver.now
    driver.run(2)
    assert len(driver.since(start)) == pytest.approx(2000, abs=2)


def test_at_most_100_ms_are_caught_up_with_in_lockstep() -> None:
    driver = lockstep(speed=1.0)
    for stopped in (150, 3_000):  # ms in which the process did not run
        driver.now += stopped * MS
        start = driver.now
        driver.run(1)
        assert len(driver.since(start)) <= 250 + 26
    driver.now += 90 * MS
    start = driver.now
    driver.run(1)
    assert len(driver.since(start)) == pytest.approx(250 + 22, abs=2), "a short one is made up for"


def test_report_7_only_the_time_given_to_it_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the host's clocks show, step by step: the stamps and the outputs are the same."""

    def steps_back() -> float:
        return next(clock)

    clock = (1e9 - 10.0 * n for n in itertools.count())
    for name in ("time", "monotonic", "perf_counter"):
        monkeypatch.setattr(f"time.{name}", steps_back)
    driver = lockstep(seconds=0.7)
    monkeypatch.undo()
    assert times(driver) == [FIRST_US + n * PERIOD_US for n in range(len(driver.sensors))]
    driver.check_replay(HilSession(period_us=PERIOD_US))


# Without lockstep, other clocks, other systems


def test_report_8_without_lockstep_it_is_paced_in_real_time_and_says_so() -> None:
    driver = make_driver(ScriptedFc(flags=0, own_clock_us=3_000_000), speed=10.0)
    driver.connect()
    driver.run(3)
    assert driver.session.describe() == "paced: flight controller without lockstep"
    assert driver.names().count("no_lockstep") == 1
    assert "built without lockstep: pacing in real time" in next(
        notice.text for _, notice in driver.notices if notice.name == "no_lockstep"
    )
    driver.peer.silent = True  # type: ignore[attr-defined]
    driver.run(2)
    gaps = driver.gaps_us()
    assert min(gaps) == PERIOD_US
    assert max(gaps) < PERIOD_US + 100, "never waits"
    assert driver.session.stats.timeouts == 0


def test_the_lockstep_flag_alone_finds_lockstep_with_a_clock_of_its_own() -> None:
    driver = lockstep(ScriptedFc(own_clock_us=3_000_000), speed=0.0)
    assert "own_clock" in driver.names()
    assert driver.session.tracker.echoes is False
    assert driver.session.stats.timeouts == 0


def test_a_clock_that_runs_backward_is_a_restart_by_name() -> None:
    fc = ScriptedFc(flags=0, own_clock_us=30_000_000)
    driver = make_driver(fc)
    driver.connect()
    driver.run(2)
    fc.own_clock_us = 1_000_000
    stamps = len(driver.sensors)
    driver.run(2)
    assert driver.names().count("time_backward") == 1
    assert driver.names().count("px4_restarted") == 1
    assert driver.resets == ["its clock ran backward"]
    assert len(driver.sensors) > stamps + 400
    assert driver.session.describe() == "paced: flight controller without lockstep"


def test_report_28_system_id_and_version_1_are_adopted_and_a_second_system_is_ignored() -> None:
    driver = lockstep(ScriptedFc(system=7, v1=True))
    assert driver.session.system == 7
    assert driver.sent[-1][1].get_srcSystem() == 7
    assert driver.sent[-1][1].get_srcComponent() == 200
    assert driver.sent[-1][1].get_msgbuf()[0] == 0xFD
    other = ScriptedFc(system=9)
    other.armed = True
    for _ in range(3):
        driver.feed(Received(other.answer(driver.sensors[-1].time_us)))
    driver.run(0.1)
    assert not driver.session.tracker.armed
    assert driver.names().count("other_system") == 1
    assert driver.in_lockstep()


# Pacing without bursts


@pytest.mark.parametrize("late_us", [1000, 4000, 90_000, 2_000_000])
def test_paced_never_bursts(late_us: int) -> None:
    """However late a timer fires, the ticks that were missed are let go; none is sent at once."""
    driver = make_driver(ScriptedFc(boot=10**6))
    driver.connect()
    for _ in range(20):
        driver.run(0.1)
        driver.now += late_us
        start = driver.now
        driver.run(0.1)
        assert len(driver.since(start)) <= 0.1e6 // PERIOD_US + 1
    assert min(driver.gaps_us()) > 0


def test_paced_with_late_timers_keeps_real_time_on_average() -> None:
    driver = make_driver(ScriptedFc(boot=10**6), timer_late_us=1500)
    driver.connect()
    driver.run(10)
    assert len(driver.sensors) == pytest.approx(2500, abs=3)
    assert min(driver.gaps_us()) >= PERIOD_US - 1500 - 100


# Replaying the events


@pytest.mark.parametrize("datagrams", [False, True])
def test_the_same_events_give_the_same_outputs(datagrams: bool) -> None:
    options = {"datagrams": datagrams, "reply_timeout_us": 50 * MS, "speed": 3.0}
    fc = ScriptedFc()
    driver = lockstep(fc, **options)
    driver.feed(Pause())
    driver.run(0.2)
    driver.feed(Resume())
    fc.silent = True
    driver.run(0.5)
    fc.silent = False
    driver.feed(SetSpeed(0.0))
    driver.run(0.2)
    driver.disconnect()
    driver.run(0.1)
    driver.peer = ScriptedFc(system=3, pattern="01")
    driver.connect()
    driver.run(1)
    driver.check_replay(HilSession(period_us=PERIOD_US, **options))  # type: ignore[arg-type]


def test_garbage_on_the_link_does_nothing() -> None:
    driver = lockstep()
    count = len(driver.sensors)
    before = driver.session.stats
    driver.feed(Received(bytes(range(256)) * 4))
    driver.feed(Received(b"\xfd" * 300))
    unknown = b"\xfd" + bytes((3, 0, 0, 0, 1, 1)) + (65_000).to_bytes(3, "little") + b"abc\x00\x00"
    driver.feed(Received(bytes(300) + unknown))
    driver.feed(Received(Encoder(1, 1).encode(common.MAVLink_ping_message(1, 2, 0, 0))))
    assert len(driver.sensors) <= count + 1
    assert driver.session.stats is before
    driver.run(0.1)
    assert driver.in_lockstep()


def test_a_timer_that_fires_too_early_does_nothing() -> None:
    from bridge.session_io import TimerExpired

    session = HilSession(period_us=PERIOD_US)
    session.handle(LinkUp("peer"), 0)
    assert session.wake_us is None or session.wake_us > 0
    wake = session.wake_us
    assert session.handle(TimerExpired(), 1) == []
    assert session.wake_us == wake


def test_gaps_between_stamps_are_one_period_across_a_time_out() -> None:
    fc = ScriptedFc()
    driver = lockstep(fc)
    fc.silent = True
    driver.run(2)
    fc.silent = False
    driver.run(1)
    assert {after - before for before, after in itertools.pairwise(times(driver))} == {PERIOD_US}
