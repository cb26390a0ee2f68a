"""The lockstep session: PX4 comes and goes, what is sent beside HIL_SENSOR, and what the operator may do."""

from __future__ import annotations

import itertools
import logging
import random

import pytest
from pymavlink.dialects.v20 import common
from session_driver import FIRST_US, PERIOD_US, Driver, ScriptedFc, at_rest, lockstep, make_driver

from bridge.hil import HilSession
from bridge.session_io import (
    ForgetPeer,
    LinkDown,
    LinkUp,
    Pause,
    Refused,
    Resume,
    Sampled,
    Send,
    SetSpeed,
    StepTwin,
)
from bridge.session_state import Phase

MS = 1000
UDP = {"datagrams": True, "reply_timeout_us": 50 * MS}
UDPOUT = UDP | {"speaks_first": True}


def of_type(driver: Driver, name: str) -> list[tuple[int, object]]:
    return [(now, message) for now, message in driver.sent if message.get_type() == name]


def notice(driver: Driver, name: str) -> str:
    (text,) = (notice.text for _, notice in driver.notices if notice.name == name)
    return text


# PX4 comes and goes


def test_on_a_stream_each_connection_starts_its_own_time() -> None:
    driver = lockstep()
    driver.disconnect("it closed the connection")
    assert driver.session.describe() == "waiting for PX4"
    assert driver.resets == ["it closed the connection"]
    lost = next(n for _, n in driver.notices if n.name == "peer_lost")
    assert lost.level == logging.WARNING
    assert "is gone (it closed the connection)" in lost.text
    assert "restart it" in lost.text
    count = len(driver.sensors)
    driver.run(5)
    assert len(driver.sensors) == count, "nothing is sent to nobody"
    assert driver.session.wake_us is None
    driver.peer = ScriptedFc(system=5)
    driver.connect()
    driver.run(1)
    assert driver.sensors[count].time_us == FIRST_US
    assert driver.in_lockstep()
    assert driver.session.system == 5
    assert driver.session.stats.connections == 2
    assert driver.session.decoder.stats.lost_frames == 0


def test_nothing_of_the_old_connection_is_left() -> None:
    fc = ScriptedFc()
    fc.armed = True
    driver = lockstep(fc)
    driver.disconnect()
    driver.peer = ScriptedFc(boot=10**6)
    driver.connect()
    driver.run(0.5)
    assert driver.steps[-1].controls is None, "no controls of the one before"
    assert driver.session.describe() == "paced: learning the reply pattern"


def test_on_datagrams_time_goes_on_forward() -> None:
    driver = lockstep(ScriptedFc(deaf_first=True), **UDP)
    last = driver.sensors[-1].time_us
    driver.disconnect("forgotten")
    driver.peer = ScriptedFc(deaf_first=True)
    driver.connect()
    driver.run(1)
    assert driver.sensors[-1].time_us > last
    assert driver.in_lockstep()


def test_udpout_calls_once_a_second_until_px4_has_spoken() -> None:
    driver = make_driver(ScriptedFc(deaf_first=True), latency_us=100, **UDPOUT)
    driver.refusing = True
    driver.connect()
    driver.run(4.5)
    assert driver.session.describe() == "calling PX4"
    assert [message.get_type() for _, message in driver.sent] == ["HEARTBEAT"] * 5
    assert {b - a for a, b in itertools.pairwise(now for now, _ in driver.sent)} == {1_000_000}
    assert "peer_lost" not in driver.names(), "a refusal while calling is no error"
    driver.refusing = False
    driver.run(2)
    assert driver.in_lockstep()
    assert driver.sensors[0].time_us == FIRST_US


def test_a_lost_handshake_is_recovered_from() -> None:
    """PX4 shakes hands once in its life: when both frames are lost, calling for ever would be for ever."""

    class Unheard(ScriptedFc):
        def handshake(self) -> list[bytes]:
            return []

    driver = make_driver(Unheard(deaf_first=True), latency_us=100, **UDPOUT)
    driver.connect()
    driver.run(9.5)
    assert driver.session.describe() == "calling PX4"
    assert driver.sensors == []
    driver.run(2)
    assert driver.names().count("no_answer") == 1
    assert driver.in_lockstep()


def test_a_refused_datagram_is_no_error() -> None:
    driver = lockstep(ScriptedFc(deaf_first=True), **UDPOUT)
    driver.feed(Refused())
    driver.run(1.5)
    driver.feed(Refused())
    driver.run(0.1)
    assert driver.in_lockstep()
    assert "peer_lost" not in driver.names()


def test_a_second_of_refusals_is_a_px4_that_is_gone() -> None:
    driver = lockstep(ScriptedFc(deaf_first=True), **UDPOUT)
    gone = driver.now
    driver.exchange(ScriptedFc(deaf_first=True))
    driver.refusing = True
    driver.run(0.9)
    assert "peer_lost" not in driver.names()
    driver.run(0.6)
    assert "its port refuses datagrams" in notice(driver, "peer_lost")
    assert driver.session.describe() == "calling PX4"
    assert driver.resets == ["its port refuses datagrams"]
    last = driver.sensors[-1].time_us
    driver.run(3)
    assert driver.sensors[-1].time_us == last
    driver.refusing = False
    driver.run(3)
    assert driver.in_lockstep()
    assert driver.since(gone + 4_000_000)[0].time_us == last + PERIOD_US, "forward, without a jump"


def test_a_quick_restart_on_datagrams_is_told_by_its_handshake() -> None:
    fc = ScriptedFc(deaf_first=True)
    fc.armed = True
    driver = lockstep(fc, **UDP)
    last = driver.sensors[-1].time_us
    driver.exchange(ScriptedFc(deaf_first=True))
    driver.run(1)
    assert notice(driver, "px4_restarted") == "PX4 restarted: it shook hands again"
    assert driver.resets == ["it shook hands again"]
    assert driver.in_lockstep()
    assert driver.sensors[-1].time_us > last
    steps = [step for step in driver.steps if step.time_us > last]
    assert any(step.controls is None for step in steps), "controls of the old one are dropped"


def test_asking_again_for_a_message_is_no_restart() -> None:
    fc = ScriptedFc(deaf_first=True)
    driver = lockstep(fc, **UDP)
    fc._mav.seq = 3
    for frame in fc.handshake():
        driver.deliver(frame)
    driver.run(0.1)
    assert "px4_restarted" not in driver.names()


def test_udpin_makes_room_when_its_peer_is_silent() -> None:
    fc = ScriptedFc()
    driver = lockstep(fc, **UDP)
    fc.silent = True
    driver.run(4.9)
    assert not any(isinstance(output, ForgetPeer) for _, _, outputs, _ in driver.log for output in outputs)
    driver.run(0.4)
    assert sum(isinstance(output, ForgetPeer) for _, _, outputs, _ in driver.log for output in outputs) == 1
    assert driver.session.phase is Phase.WAITING


def test_udpin_makes_room_when_its_peer_refuses() -> None:
    """It may come back at another port, so calling the old one would wait for ever."""
    driver = lockstep(ScriptedFc(), **UDP)
    driver.refusing = True
    driver.run(1.5)
    assert driver.session.phase is Phase.WAITING
    assert driver.resets == ["forgotten"]
    driver.refusing = False
    driver.peer = ScriptedFc(system=2)
    driver.connect()
    driver.run(1)
    assert driver.in_lockstep()


def test_a_sample_that_comes_after_the_loss_is_not_sent() -> None:
    session = HilSession(period_us=PERIOD_US)
    (step,) = (output for output in session.handle(LinkUp("peer"), 5) if isinstance(output, StepTwin))
    session.handle(LinkDown("gone"), 6)
    assert session.handle(Sampled(at_rest(step, random.Random(1))), 7) == []
    assert session.stats.sensors == 0


# What is sent


def test_report_19_groups_are_announced_only_with_a_new_sample() -> None:
    driver = lockstep()
    for sensor in driver.sensors:
        slow = sensor.time_us // PERIOD_US % 5 == 0
        assert sensor.fields == (0x03F | 0x1C0 | 0x1A00 if slow else 0x03F)
    assert all(message.id == 0 for _, message in of_type(driver, "HIL_SENSOR"))


def test_hil_gps_at_its_own_rate_and_before_the_sensor_of_its_moment() -> None:
    driver = lockstep(seconds=2)
    assert len(of_type(driver, "HIL_GPS")) == 20
    kinds = [message.get_type() for _, message in driver.sent]
    assert all(
        kinds[n + 1] in ("HIL_SENSOR", "HEARTBEAT", "HIL_STATE_QUATERNION")
        for n, kind in enumerate(kinds)
        if kind == "HIL_GPS"
    )
    for sends in ([o for o in outputs if isinstance(o, Send)] for _, _, outputs, _ in driver.log):
        if len(sends) > 1:
            assert int.from_bytes(sends[-1].frame[7:10], "little") == 107, "HIL_SENSOR moves PX4's clock: last"


def test_report_21_ground_truth_only_on_request() -> None:
    silent = ScriptedFc(deaf_first=False)
    silent.handshake = lambda: []  # type: ignore[method-assign]
    driver = lockstep(silent, seconds=2)
    assert of_type(driver, "HIL_STATE_QUATERNION") == []
    assert not any(step.truth for step in driver.steps)
    asked = lockstep(ScriptedFc(), seconds=2)
    stamps = [message.time_usec for _, message in of_type(asked, "HIL_STATE_QUATERNION")]
    assert len(stamps) == pytest.approx(2 * 200, abs=2), "every 5 ms as asked, on a grid of 4 ms"
    assert {b - a for a, b in itertools.pairwise(stamps)} == {4000, 8000}
    assert set(stamps) <= {sensor.time_us for sensor in asked.sensors}


@pytest.mark.parametrize(
    ("interval", "per_second"), [(-1.0, 0), (0.0, 0), (float("nan"), 0), (100_000.0, 10), (1.0, 250)]
)
def test_the_interval_that_was_asked_for(interval: float, per_second: int) -> None:
    fc = ScriptedFc()
    request = common.MAVLink_command_long_message(0, 0, 511, 0, 115.0, interval, 0, 0, 0, 0, 0)
    fc.handshake = lambda: [fc.pack(request)]  # type: ignore[method-assign]
    driver = lockstep(fc, seconds=2)
    assert len(of_type(driver, "HIL_STATE_QUATERNION")) == pytest.approx(2 * per_second, abs=1)


def test_other_messages_and_other_commands_ask_for_nothing() -> None:
    fc = ScriptedFc()
    other = common.MAVLink_command_long_message(0, 0, 511, 0, 116.0, 5000.0, 0, 0, 0, 0, 0)
    gimbal = common.MAVLink_command_long_message(0, 0, 1000, 0, 115.0, 5000.0, 0, 0, 0, 0, 0)
    fc.handshake = lambda: [fc.pack(other), fc.pack(gimbal)]  # type: ignore[method-assign]
    assert of_type(lockstep(fc), "HIL_STATE_QUATERNION") == []


@pytest.mark.parametrize("speed", [0.5, 1.0, 10.0])
def test_heartbeats_follow_simulated_time(speed: float) -> None:
    driver = lockstep(ScriptedFc(), speed=speed, seconds=1.5)
    simulated = (driver.sensors[-1].time_us - FIRST_US) / 1e6
    assert len(of_type(driver, "HEARTBEAT")) == 1 + int(simulated)


def test_sequence_numbers_of_what_is_sent_have_no_gap() -> None:
    driver = lockstep(seconds=2)
    sequences = [message.get_seq() for _, message in driver.sent]
    assert all((b - a) % 256 == 1 for a, b in itertools.pairwise(sequences))


# The operator


def test_pause_stops_time_and_is_no_time_out() -> None:
    driver = lockstep(speed=1.0)
    driver.feed(Pause())
    driver.run(0.01)
    count = len(driver.sensors)
    driver.run(60)
    assert len(driver.sensors) == count
    assert driver.session.describe() == "paused"
    start = driver.now
    driver.feed(Resume())
    driver.run(1)
    assert len(driver.since(start)) == pytest.approx(250, abs=2), "no burst"
    assert driver.in_lockstep()
    assert driver.session.stats.timeouts == 0


def test_pause_and_resume_while_paced() -> None:
    driver = make_driver(ScriptedFc(boot=10**6))
    driver.connect()
    driver.run(0.5)
    driver.feed(Pause())
    driver.run(5)
    start = driver.now
    driver.feed(Resume())
    driver.feed(Resume())
    driver.run(1)
    assert len(driver.since(start)) == pytest.approx(250, abs=2)
    assert min(driver.gaps_us()) >= PERIOD_US


def test_a_peer_that_connects_during_a_pause_waits() -> None:
    driver = make_driver(ScriptedFc())
    driver.feed(Pause())
    driver.connect()
    driver.run(2)
    assert driver.sensors == []
    driver.feed(Resume())
    driver.run(1)
    assert driver.in_lockstep()


def test_pause_holds_the_call_too() -> None:
    driver = make_driver(ScriptedFc(deaf_first=True), **UDPOUT)
    driver.refusing = True
    driver.connect()
    driver.feed(Pause())
    driver.run(10)
    assert len(driver.sent) == 1
    driver.feed(Resume())
    driver.run(1.5)
    assert len(driver.sent) == 3


def test_answers_that_stay_away_during_a_pause_time_out_after_it() -> None:
    fc = ScriptedFc()
    driver = lockstep(fc, latency_us=1000)
    fc.silent = True
    driver.run(0.1)
    driver.feed(Pause())
    driver.feed(SetSpeed(2.0))
    driver.run(10)
    assert driver.session.stats.timeouts == 0
    driver.feed(Resume())
    driver.run(0.45)
    assert driver.session.stats.timeouts == 0
    driver.run(0.1)
    assert driver.session.stats.timeouts == 1


def test_speed_while_paced_stays_at_most_real_time_and_makes_no_burst() -> None:
    driver = make_driver(ScriptedFc(boot=10**6))
    driver.connect()
    for speed in (5.0, 0.0, 0.5, 1.0):
        driver.feed(SetSpeed(speed))
        driver.run(0.2001)
    assert min(driver.gaps_us()) >= PERIOD_US


def test_speed_before_anybody_is_there() -> None:
    driver = make_driver(ScriptedFc())
    driver.feed(SetSpeed(0.5))
    driver.connect()
    driver.run(0.5)
    assert set(driver.gaps_us()) == {8000}
