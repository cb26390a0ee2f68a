"""Missions: the runner, what a vehicle can do, and that what takes too long says what it was."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from typing import Any

import pytest
from autopilot_rig import Bench, state_of

from firmware_profiles.errors import UsageError
from lav2_hil.autopilot.mission import MissionFailedError, MissionRunner, NextTick, load_mission, mission_names
from lav2_hil.autopilot.modes import Landed
from lav2_hil.autopilot.vehicle import Vehicle


class Flight:
    """A mission on a stub vehicle, ticked as the autopilot does.

    Args:
        mission: what to fly.
        each: called before each tick of the mission.
    """

    def __init__(self, mission: Any, each: Callable[[Bench], None] = lambda _: None) -> None:
        self.bench = Bench()
        self.reports: list[dict[str, Any]] = []
        self.vehicle = Vehicle(self.bench.commander, self.reports.append)
        self.runner = MissionRunner(mission, self.vehicle)
        self._each = each

    def fly(self, most_s: float = 200.0) -> str | None:
        while not self.runner.done:
            self.bench.run(0.02)
            self._each(self.bench)
            self.runner.tick()
            assert self.bench.commander.time_us < most_s * 1e6, "the mission never ends"
        return self.runner.failure


# The runner


def test_a_mission_is_resumed_once_a_tick() -> None:
    seen = []

    async def mission(vehicle: Any) -> None:
        for count in range(3):
            seen.append(count)
            await NextTick()

    runner = MissionRunner(mission, None)  # type: ignore[arg-type]
    for count in range(3):
        runner.tick()
        assert seen == list(range(count + 1))
        assert not runner.done
    runner.tick()
    assert runner.done
    assert runner.failure is None
    runner.tick()
    assert seen == [0, 1, 2]


def test_a_mission_that_fails_says_why() -> None:
    async def mission(vehicle: Any) -> None:
        raise MissionFailedError("the wind is too strong")

    runner = MissionRunner(mission, None)  # type: ignore[arg-type]
    runner.tick()
    assert (runner.done, runner.failure) == (True, "the wind is too strong")


@pytest.mark.parametrize("awaits", ["a bug", "a clock"])
def test_a_mission_that_breaks_down_fails_and_does_no_more(awaits: str, caplog: pytest.LogCaptureFixture) -> None:
    async def mission(vehicle: Any) -> None:
        if awaits == "a clock":
            await asyncio.sleep(1.0)
        _ = {}["where"]

    runner = MissionRunner(mission, None)  # type: ignore[arg-type]
    runner.tick()
    assert runner.done
    assert runner.failure == ("KeyError: 'where'" if awaits == "a bug" else "RuntimeError: no running event loop")
    assert "mission broke down" in caplog.text


def test_closing_a_mission_lets_it_clean_up() -> None:
    cleaned = []

    async def mission(vehicle: Any) -> None:
        try:
            await NextTick()
        finally:
            cleaned.append(True)

    runner = MissionRunner(mission, None)  # type: ignore[arg-type]
    runner.tick()
    runner.close()
    assert cleaned


def test_missions_by_name() -> None:
    assert "demo" in mission_names()
    assert callable(load_mission("demo"))
    for name in ("no_such", "", "__init__", "demo.mission", "../demo"):
        with pytest.raises(UsageError, match=r"there are: .*demo"):
            load_mission(name)


# What a vehicle can do


def test_a_flight_from_arming_to_disarming() -> None:
    async def mission(vehicle: Vehicle) -> None:
        await vehicle.arm()
        await vehicle.take_off(3.0)
        await vehicle.go_to(2.0, -1.0, 4.0)
        await vehicle.hold(5.0)
        await vehicle.land()
        await vehicle.disarm()

    flight = Flight(mission)
    assert flight.fly() is None
    assert not flight.bench.commander.armed
    assert flight.bench.estimator.state.pos_ned == pytest.approx((2.0, -1.0, 0.0))
    told = [line["progress"] for line in flight.reports if "progress" in line]
    assert told == ["waiting to arm", "take-off to 3 m", "fly to 2 m north, -1 m east", "land"]
    (stood,) = [line for line in flight.reports if "still_from_us" in line]
    assert stood["at_ned"] == pytest.approx((2.0, -1.0, -4.0))
    assert (stood["still_until_us"] - stood["still_from_us"]) * 1e-6 == pytest.approx(2.0, abs=0.1)
    assert flight.vehicle.worst_error_m < 1e-6


def test_the_error_is_followed_while_the_set_point_stands() -> None:
    async def mission(vehicle: Vehicle) -> None:
        await vehicle.arm()
        await vehicle.take_off(3.0)
        await vehicle.hold(6.0)
        await vehicle.land()

    def pushed(bench: Bench) -> None:
        if bench.commander.reference.still_s > 4.0:
            bench.estimator.state = state_of((0.0, 0.7, -3.0))

    flight = Flight(mission, pushed)
    assert flight.fly() is None
    assert flight.vehicle.worst_error_m == pytest.approx(0.7)


def test_arming_waits_for_the_checks() -> None:
    async def mission(vehicle: Vehicle) -> None:
        await vehicle.arm()

    def checks(bench: Bench) -> None:
        bench.estimator.refusals = ["no GPS"] if bench.commander.time_us < 5e6 else []

    flight = Flight(mission, checks)
    assert flight.fly() is None
    assert flight.bench.commander.armed
    assert flight.bench.commander.time_us == pytest.approx(5e6, abs=1e5)


def fails(mission: Any, each: Callable[[Bench], None] = lambda _: None) -> str:
    failure = Flight(mission, each).fly()
    assert failure is not None
    return failure


def unarmable(bench: Bench) -> None:
    bench.estimator.refusals = ["no GPS", "gyroscope x reads 9.0 deg/s at rest"]


def stuck(bench: Bench) -> None:
    """The vehicle stays on the ground, and its set-point stays too."""
    bench.commander.reference.jump((0.0, 0.0, 0.0))
    bench.commander.reference.go((0.0, 0.0, -9.0), 1e-9)
    bench.estimator.state = state_of()


async def climbs(vehicle: Vehicle) -> None:
    await vehicle.arm()
    await vehicle.take_off(4.0)


async def drives(vehicle: Vehicle) -> None:
    await vehicle.arm()
    await vehicle.drive(2.0)


async def turns(vehicle: Vehicle) -> None:
    await vehicle.arm()
    await vehicle.turn(90.0)


async def flies_away(vehicle: Vehicle) -> None:
    await climbs(vehicle)
    vehicle._commander.reference.go = lambda *_: None  # type: ignore[method-assign]
    vehicle._commander.reference._goal = (9.0, 9.0, -9.0)
    vehicle._commander.reference._speed_limit = 1e-9
    await vehicle.go_to(5.0, 0.0, 4.0)


async def never_lands(vehicle: Vehicle) -> None:
    await climbs(vehicle)
    vehicle._commander._watch_landing = lambda: None  # type: ignore[method-assign]
    await vehicle.land()


async def flies_on_the_ground(vehicle: Vehicle) -> None:
    await vehicle.arm()
    await vehicle.go_to(5.0, 0.0, 4.0)


async def disarms_in_the_air(vehicle: Vehicle) -> None:
    await climbs(vehicle)
    await vehicle.disarm()


@pytest.mark.parametrize(
    ("mission", "each", "reason"),
    [
        (climbs, unarmable, "no GPS; gyroscope x reads 9.0 deg/s at rest"),
        (climbs, stuck, "take-off to 4 m: not done within 18 s"),
        (drives, lambda _: None, "2.0 m short of the goal after a minute of driving"),
        (turns, lambda _: None, "heading still 90 degrees off after 30 s of turning"),
        (flies_away, lambda _: None, "fly to 5 m north, 0 m east: not done within 65 s"),
        (never_lands, lambda _: None, "land: not done within 76 s"),
        (flies_on_the_ground, lambda _: None, "cannot fly to 5 m north, 0 m east: the vehicle is not in the air"),
        (disarms_in_the_air, lambda _: None, "disarming refused"),
    ],
)
def test_what_cannot_be_done_is_named(mission: Any, each: Callable[[Bench], None], reason: str) -> None:
    assert fails(mission, each) == reason


def test_a_failsafe_ends_the_mission_with_its_reason() -> None:
    def faulty(bench: Bench) -> None:
        if bench.commander.landed is Landed.IN_AIR:
            bench.estimator.faults = ["magnetometer frozen"]

    async def mission(vehicle: Vehicle) -> None:
        await climbs(vehicle)
        await vehicle.hold(10.0)

    assert fails(mission, faulty) == "magnetometer frozen"


@pytest.mark.parametrize("what", [drives, turns])
def test_a_lost_estimate_ends_the_mission_with_its_reason(what: Any) -> None:
    def lost(bench: Bench) -> None:
        if bench.commander.time_us > 2e6 and bench.estimator.ready:
            bench.estimator.ready = False
            bench.run(0.004)

    assert fails(what, lost) == "the state estimate is lost"


def test_driving_and_turning() -> None:
    async def mission(vehicle: Vehicle) -> None:
        await vehicle.arm()
        await vehicle.drive(2.0, 0.5)
        assert await vehicle.turn(-90.0) == pytest.approx(270.0)

    asked: list[float] = []

    def rolls(bench: Bench) -> None:
        """The wheels do as they are told."""
        if bench.control.driven is not None:
            speed, yaw = bench.control.driven
            asked.append(speed)
            here, heading = bench.estimator.state.pos_ned, bench.commander.euler_zyx()[2]
            heading += 0.1 * math.remainder(yaw - heading, math.tau)
            bench.estimator.state = state_of((here[0] + 0.02 * speed, here[1], 0.0), yaw=heading)

    flight = Flight(mission, rolls)
    assert flight.fly() is None
    assert flight.bench.estimator.state.pos_ned[0] == pytest.approx(2.0, abs=0.06)
    assert max(asked) == 0.5
    assert flight.bench.control.driven is None
    (turned,) = [line for line in flight.reports if "turned_us" in line]
    assert turned["wanted_deg"] == pytest.approx(270.0)
    assert turned["estimated_deg"] == pytest.approx(270.0, abs=2.0)
