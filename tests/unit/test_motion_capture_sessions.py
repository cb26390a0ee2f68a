"""ODOMETRY in both sessions: before the HIL_SENSOR of its tick, with the time of the measurement."""

from __future__ import annotations

import dataclasses
import random
from typing import Any

from hitl.test_free_running import PERIOD_US as TICK_US
from hitl.test_free_running import Bench, beat
from session_driver import PERIOD_US, Driver, ScriptedFc, at_rest

from bridge.free_running import FreeRunningSession
from bridge.hil import HilSession
from bridge.session_io import LinkUp, StepTwin
from firmware_profiles.signals import MotionCapturePose, SensorSample

LATE_US = 12_000


def with_pose(sample: SensorSample) -> SensorSample:
    """A pose with every fifth tick."""
    if sample.time_us // 4000 % 5:
        return sample
    pose = MotionCapturePose(sample.time_us - LATE_US, (1.0, 2.0, -3.0), (1.0, 0.0, 0.0, 0.0), 1e-4, 2.5e-5)
    return dataclasses.replace(sample, motion_capture=pose)


def told(messages: list[Any]) -> list[tuple[Any, Any]]:
    """Each ODOMETRY with the HIL_SENSOR behind it."""
    kinds = [message.get_type() for message in messages]
    places = [place for place, kind in enumerate(kinds) if kind == "ODOMETRY"]
    behind = [next(m for m in messages[place:] if m.get_type() == "HIL_SENSOR") for place in places]
    return [(messages[place], sensor) for place, sensor in zip(places, behind, strict=True)]


def test_in_lockstep_it_is_of_simulated_time() -> None:
    def sampled(step: StepTwin, noise: random.Random) -> SensorSample:
        return with_pose(at_rest(step, noise))

    driver = Driver(HilSession(period_us=PERIOD_US, speed=0.0), ScriptedFc(), sampler=sampled)
    driver.connect()
    driver.run(1.0)
    pairs = told([message for _, message in driver.sent])
    assert len(pairs) > 20
    for pose, sensor in pairs:
        assert sensor.time_usec % (5 * PERIOD_US) == 0, "the sensor of the same tick"
        assert pose.time_usec == sensor.time_usec - LATE_US
        assert (pose.get_srcSystem(), pose.get_srcComponent()) == (sensor.get_srcSystem(), sensor.get_srcComponent())


class SeenBench(Bench):
    def sample(self, time_us: int) -> SensorSample:
        return with_pose(super().sample(time_us))


def test_with_a_board_it_is_of_the_clock_that_timesync_tells() -> None:
    for every in (1, 2):
        bench = SeenBench(FreeRunningSession(period_us=TICK_US, every=every))
        bench.feed(LinkUp("the board"))
        bench.say(beat())
        bench.run(bench.now + 1_000_000)
        pairs = told([message for _, message in bench.sent])
        assert len(pairs) > 40
        when = [now for now, message in bench.sent if message.get_type() == "ODOMETRY"]
        waited = {now - LATE_US - pose.time_usec for now, (pose, _) in zip(when, pairs, strict=True)}
        assert waited == ({0} if every == 1 else {0, TICK_US})
