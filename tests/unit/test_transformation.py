"""A vehicle that transforms, on the autopilot: it flies only as a multirotor, drives only as a rover, and says so."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from autopilot_rig import HOME, TICK_S, Bench

from firmware_profiles.loader import load_profile
from lav2_hil.autopilot.mission import MissionRunner, load_mission
from lav2_hil.autopilot.modes import Landed, Mode, Result
from lav2_hil.autopilot.transformation import SETTLE_S, Transformation
from lav2_hil.autopilot.vehicle import Vehicle

ATMO = load_profile("atmo")
ROTORS, LEFT, RIGHT, TILT = slice(0, 4), 4, 5, 6
QUARTER_TURN_S = ATMO.firmware.tilt_output.range_rad[1] / ATMO.vehicle.tilt.max_rate_rad_s  # type: ignore[union-attr]


def armed(profile: str = "atmo") -> Bench:
    bench = Bench(profile)
    assert bench.commander.arm() is Result.ACCEPTED
    bench.told()
    return bench


def transformed() -> Bench:
    bench = armed()
    assert bench.commander.transform("drive") is Result.ACCEPTED
    bench.run(QUARTER_TURN_S + SETTLE_S + 0.1)
    return bench


# The transformation by itself


def test_it_takes_the_time_of_the_motor_and_then_settles() -> None:
    assert ATMO.vehicle.tilt is not None
    assert ATMO.firmware.tilt_output is not None
    it = Transformation(ATMO.vehicle.tilt, ATMO.firmware.tilt_output, TICK_S)
    assert (it.configuration, it.control, it.channel) == ("flight", 0.0, TILT)
    it.begin("drive")
    seen = []
    while it.configuration is None:
        it.step()
        seen.append(it.control)
    assert it.configuration == "drive"
    assert len(seen) * TICK_S == pytest.approx(QUARTER_TURN_S + 0.5, abs=0.02)  # half a second to come to rest
    assert seen[-1] == 1.0
    rate = np.diff(seen).max() / TICK_S * ATMO.firmware.tilt_output.range_rad[1]
    assert rate == pytest.approx(ATMO.vehicle.tilt.max_rate_rad_s)
    it.begin("drive")  # it is there
    assert it.configuration == "drive"


def test_it_may_turn_back_half_way() -> None:
    bench = armed()
    bench.commander.transform("drive")
    bench.run(1.0)
    half = bench.controls[TILT]
    assert 0.2 < half < 0.6
    assert bench.commander.flight_fault == "not in flight configuration"
    assert bench.commander.drive_fault == "not in drive configuration"
    bench.commander.transform("flight")
    bench.run(1.0 + SETTLE_S + 0.1)
    assert bench.controls[TILT] == 0.0
    assert bench.commander.flight_fault is None


# What the commander allows


def test_stretched_out_it_flies_and_does_not_drive() -> None:
    bench = armed()
    commander = bench.commander
    assert commander.flight_fault is None
    assert commander.drive_fault == "not in drive configuration"
    assert commander.set_actuators(0.5, 0.5) is Result.DENIED
    bench.run(0.1)
    assert not any(bench.controls)
    assert commander.take_off(3.0) is Result.ACCEPTED
    bench.run(1.0)
    assert max(bench.controls[ROTORS]) > 0.3
    assert bench.controls[TILT] == 0.0


def test_transformed_it_drives_and_does_not_take_off() -> None:
    bench = transformed()
    commander = bench.commander
    assert bench.controls[TILT] == 1.0
    assert commander.drive_fault is None
    for ask in (
        lambda: commander.take_off(3.0),
        lambda: commander.take_off_to_altitude(HOME[2] + 5.0),
        lambda: commander.set_mode(Mode.TAKEOFF),
    ):
        assert ask() is Result.DENIED
        assert bench.told() == ["Takeoff denied: not in flight configuration"]
    bench.run(0.5)
    assert commander.landed is Landed.ON_GROUND
    assert bench.controls[ROTORS] == [0.0] * 4
    assert commander.set_actuators(0.5, -0.25) is Result.ACCEPTED
    bench.run(0.1)
    assert (bench.controls[LEFT], bench.controls[RIGHT], bench.controls[TILT]) == (0.5, -0.25, 1.0)


def test_an_offboard_set_point_does_not_lift_it_while_it_is_a_rover() -> None:
    for bench, lifts in ((transformed(), False), (armed(), True)):
        commander = bench.commander
        for _ in range(20):
            commander.offboard_position((0.0, 0.0, -5.0), None)
            commander.set_mode(Mode.OFFBOARD)
            bench.run(0.1)
        assert commander.flying is lifts
        assert (max(bench.controls[ROTORS]) > 0.1) is lifts


def test_it_transforms_only_when_armed_on_the_ground() -> None:
    bench = Bench("atmo")
    assert bench.commander.transform("drive") is Result.TEMPORARILY_REJECTED
    assert bench.told()[-1] == "Transformation denied: not armed on the ground"
    bench.fly()
    assert bench.commander.transform("drive") is Result.TEMPORARILY_REJECTED
    bench.run(1.0)
    assert bench.controls[TILT] == 0.0
    assert bench.commander.flight_fault is None


def test_a_take_off_that_waits_for_arming_is_not_crossed_by_a_transformation() -> None:
    bench = Bench("atmo")
    assert bench.commander.take_off(3.0) is Result.ACCEPTED
    assert bench.commander.arm() is Result.ACCEPTED
    assert bench.commander.transform("drive") is Result.TEMPORARILY_REJECTED


def test_disarmed_half_way_it_goes_on_from_there_when_it_is_armed_again() -> None:
    bench = armed()
    bench.commander.transform("drive")
    bench.run(1.0)
    before = bench.controls[TILT]
    assert bench.commander.disarm() is Result.ACCEPTED
    bench.run(5.0)
    assert not any(bench.controls)
    assert bench.commander.arm() is Result.ACCEPTED
    bench.run(TICK_S)
    assert bench.controls[TILT] == pytest.approx(before, abs=0.01)
    bench.run(QUARTER_TURN_S + SETTLE_S)
    assert bench.commander.drive_fault is None


def test_wheels_stop_when_it_transforms() -> None:
    bench = transformed()
    bench.commander.set_actuators(0.5, 0.5)
    bench.commander.transform("flight")
    bench.run(0.1)
    assert (bench.controls[LEFT], bench.controls[RIGHT]) == (0.0, 0.0)
    bench.run(5.0)
    assert not any(bench.controls)


# Vehicles that cannot


@pytest.mark.parametrize(
    ("profile", "flight", "drive"),
    [
        ("lav2", None, None),
        ("px4_iris", None, "the vehicle has no wheels"),
        ("px4_rover_differential", "the vehicle has no rotors", None),
    ],
)
def test_a_vehicle_without_arms(profile: str, flight: str | None, drive: str | None) -> None:
    bench = armed(profile)
    commander = bench.commander
    assert (commander.flight_fault, commander.drive_fault) == (flight, drive)
    assert (commander.has_rotors, commander.has_wheels, commander.has_arms) == (flight is None, drive is None, False)
    assert commander.transform("drive") is Result.UNSUPPORTED
    assert commander.take_off(3.0) is (Result.ACCEPTED if flight is None else Result.DENIED)
    bench.run(1.0)
    assert commander.flying is (flight is None)


def follow(bench: Bench, mission: Any, most_s: float = 300.0) -> tuple[list[str], str | None]:
    """What a mission says it does on a bench, and why it failed."""
    said: list[str] = []
    vehicle = Vehicle(bench.commander, lambda line: said.append(line["progress"]) if "progress" in line else None)
    runner = MissionRunner(mission, vehicle)
    while not runner.done:
        bench.run(5 * TICK_S)
        runner.tick()
        assert bench.commander.time_us < most_s * 1e6, "the mission never ends"
    return said, runner.failure


def test_the_demo_of_a_vehicle_that_only_flies() -> None:
    said, failure = follow(Bench("px4_iris"), load_mission("demo"))
    assert failure is None
    assert said[-1] == "land"
    assert sum(line.startswith("fly to") for line in said) == 4


def test_the_demo_of_a_vehicle_that_only_drives() -> None:
    said, failure = follow(Bench("px4_rover_differential"), load_mission("demo"))
    assert said == ["waiting to arm", "drive 2 m"]  # nothing moves on this bench
    assert failure == "2.0 m short of the goal after a minute of driving"


async def drives_before_it_transforms(vehicle: Vehicle) -> None:
    await vehicle.arm()
    await vehicle.drive(1.0)


async def flies_as_a_rover(vehicle: Vehicle) -> None:
    await vehicle.arm()
    await vehicle.transform("drive")
    await vehicle.take_off(2.0)


async def transforms_in_the_air(vehicle: Vehicle) -> None:
    await vehicle.arm()
    await vehicle.take_off(2.0)
    await vehicle.transform("drive")


@pytest.mark.parametrize(
    ("mission", "reason"),
    [
        (drives_before_it_transforms, "cannot drive: not in drive configuration"),
        (flies_as_a_rover, "take-off refused: not in flight configuration"),
        (transforms_in_the_air, "cannot transform to drive: not armed on the ground"),
    ],
)
def test_what_its_configuration_forbids_is_named(mission: Any, reason: str) -> None:
    assert follow(Bench("atmo"), mission)[1] == reason
