"""The state machine: arming, modes, take-off, landing, offboard and failsafes; on a stub vehicle."""

from __future__ import annotations

import math

import pytest
from autopilot_rig import Bench, state_of

from lav2_hil.autopilot.modes import Landed, Mode, Result

FLYING, STANDING, STOPPED = 0.5, 0.1, 0.0


def flying(height_m: float = 5.0) -> Bench:
    bench = Bench()
    bench.fly(height_m)
    bench.told()
    return bench


def doing(bench: Bench) -> float:
    return bench.controls[0]


def streams(bench: Bench, position: tuple[float, float, float], seconds: float, yaw: float | None = None) -> None:
    """Set-points at 20 Hz."""
    for _ in range(round(seconds * 20)):
        bench.commander.offboard_position(position, yaw)
        bench.run(0.052)


# Arming


def test_it_starts_disarmed_on_the_ground() -> None:
    bench = Bench()
    assert (bench.commander.armed, bench.commander.mode, bench.commander.landed) == (
        False,
        Mode.HOLD,
        Landed.ON_GROUND,
    )
    assert doing(bench) == STOPPED


def test_arming_and_disarming_on_the_ground() -> None:
    bench = Bench()
    assert bench.commander.arm() is Result.ACCEPTED
    bench.run(0.1)
    assert doing(bench) == STANDING
    assert bench.commander.arm() is Result.ACCEPTED, "again is no error"
    assert bench.commander.disarm() is Result.ACCEPTED
    bench.run(0.1)
    assert doing(bench) == STOPPED
    assert bench.told() == ["Armed", "Disarmed"]
    assert bench.commander.disarm() is Result.ACCEPTED
    assert bench.told() == []


def test_refusals_name_their_reasons() -> None:
    bench = Bench()
    bench.estimator.refusals = ["a", "b", "c", "d"]
    assert bench.commander.arm() is Result.TEMPORARILY_REJECTED
    assert bench.told() == ["Arming denied: a", "Arming denied: b", "Arming denied: c"]
    bench.estimator.refusals = []
    assert bench.commander.arm() is Result.ACCEPTED


def test_force_overrides_faults_but_not_a_missing_estimate() -> None:
    bench = Bench()
    bench.estimator.refusals = bench.estimator.faults = ["barometer and GPS disagree"]
    assert bench.commander.arm(force=True) is Result.ACCEPTED
    bench.run(1.0)
    assert bench.commander.armed, "accepted is accepted"
    bench = Bench()
    bench.estimator.ready = False
    assert bench.commander.arm(force=True) is Result.TEMPORARILY_REJECTED
    assert bench.told() == ["Arming denied: no GPS"]


# Take-off and landing


def test_take_off() -> None:
    bench = Bench()
    bench.commander.arm()
    assert bench.commander.take_off(5.0) is Result.ACCEPTED
    bench.run(1.0)
    assert (bench.commander.mode, bench.commander.landed) == (Mode.TAKEOFF, Landed.TAKEOFF)
    assert doing(bench) == FLYING
    bench.run(6.0)
    assert (bench.commander.mode, bench.commander.landed) == (Mode.HOLD, Landed.IN_AIR)
    assert bench.estimator.state.pos_ned == pytest.approx((0.0, 0.0, -5.0))


def test_take_off_before_arming_waits_for_it_and_starts_where_the_vehicle_is_then() -> None:
    bench = Bench()
    assert bench.commander.take_off(3.0) is Result.ACCEPTED
    bench.run(1.0)
    assert doing(bench) == STOPPED
    bench.estimator.state = state_of((2.0, 1.0, 0.0), yaw=0.5)
    bench.commander.arm()
    bench.run(5.0)
    assert bench.estimator.state.pos_ned == pytest.approx((2.0, 1.0, -3.0))
    assert bench.control.yaw_ned == pytest.approx(0.5)


def test_take_off_without_an_estimate_is_refused() -> None:
    bench = Bench()
    bench.estimator.ready = False
    assert bench.commander.take_off(3.0) is Result.TEMPORARILY_REJECTED
    assert bench.commander.mode is Mode.HOLD


def test_landing_is_seen_and_disarms() -> None:
    bench = flying(4.0)
    assert bench.commander.land() is Result.ACCEPTED
    assert bench.commander.landed is Landed.LANDING
    bench.run(2.0)
    assert bench.estimator.state.vel_ned[2] == pytest.approx(1.0), "MPC_Z_V_AUTO_DN"
    bench.run(2.0)
    assert bench.estimator.state.vel_ned[2] == pytest.approx(0.5), "MPC_LAND_SPEED, near the ground"
    bench.run(4.0)
    assert bench.commander.landed is Landed.ON_GROUND
    assert bench.commander.armed
    assert doing(bench) == STANDING
    bench.run(2.1)
    assert not bench.commander.armed
    assert bench.told() == ["Landing detected", "Disarmed by landing"]


@pytest.mark.parametrize("wait", [-1.0, 0.0, 10.0])
def test_disarming_after_landing_is_a_parameter(wait: float) -> None:
    bench = flying(2.0)
    assert bench.commander.parameters.set("COM_DISARM_LAND", wait, 9)
    bench.commander.land()
    bench.run(10.0)
    assert bench.commander.landed is Landed.ON_GROUND
    assert bench.commander.armed == (wait != 0.0)


def test_it_does_not_land_in_the_air() -> None:
    bench = flying(20.0)
    bench.run(10.0)
    bench.commander.land()
    bench.run(10.0)
    assert bench.commander.landed is Landed.LANDING
    assert bench.commander.disarm() is Result.DENIED
    north, east, down = bench.estimator.state.pos_ned
    bench.estimator.state = state_of((north, east, down + 5.0))  # a gust presses it down, ahead of its way
    for _ in range(250):
        bench.commander.tick()
    assert bench.commander.landed is Landed.LANDING


@pytest.mark.parametrize("how", ["hold", "go_to", "take_off", "offboard"])
def test_a_landing_that_is_broken_off_is_flight_again(how: str) -> None:
    """And what then looks like standing on the ground is not taken for it."""
    bench = flying(10.0)
    commander = bench.commander
    bench.run(5.0)
    commander.land()
    bench.run(2.0)
    if how == "hold":
        commander.hold()
    elif how == "go_to":
        commander.go_to((0.0, 0.0, -3.0))
    elif how == "take_off":
        commander.take_off(12.0)
    else:
        streams(bench, (0.0, 0.0, -6.0), 0.1)
        assert commander.set_mode(Mode.OFFBOARD) is Result.ACCEPTED
    bench.run(0.02)
    assert commander.landed is Landed.IN_AIR
    for _ in range(500):  # held in mid-air, above where it should be
        commander.time_us += 4000
        bench.estimator.state = state_of((0.0, 0.0, -8.0))
        commander.tick()
    assert commander.landed is Landed.IN_AIR


def test_a_take_off_that_is_broken_off_is_flight() -> None:
    bench = Bench()
    bench.commander.arm()
    bench.commander.take_off(10.0)
    bench.run(3.0)
    bench.commander.go_to((3.0, 0.0, -4.0))
    bench.run(0.1)
    assert bench.commander.landed is Landed.IN_AIR


# Modes


def test_hold_stays_where_it_is() -> None:
    bench = flying()
    bench.commander.go_to((20.0, 0.0, -5.0))
    bench.run(3.0)
    assert bench.commander.hold() is Result.ACCEPTED
    here = bench.estimator.state.pos_ned
    bench.run(2.0)
    assert bench.estimator.state.pos_ned == pytest.approx(here)


def test_going_somewhere_turns_too() -> None:
    bench = flying()
    bench.commander.go_to((3.0, -4.0, -6.0), 1.0)
    bench.run(8.0)
    assert bench.estimator.state.pos_ned == pytest.approx((3.0, -4.0, -6.0))
    assert bench.control.yaw_ned == 1.0


def test_there_are_no_sticks_in_the_air() -> None:
    bench = flying()
    assert bench.commander.set_mode(Mode.MANUAL) is Result.TEMPORARILY_REJECTED
    assert bench.commander.mode is Mode.HOLD
    assert Bench().commander.set_mode(Mode.MANUAL) is Result.ACCEPTED


def test_offboard_needs_set_points_first() -> None:
    bench = flying()
    assert bench.commander.set_mode(Mode.OFFBOARD) is Result.TEMPORARILY_REJECTED
    assert bench.told() == ["Offboard denied: no set-points"]
    bench.commander.offboard_position((math.nan, 0.0, 0.0), None)
    assert bench.commander.set_mode(Mode.OFFBOARD) is Result.TEMPORARILY_REJECTED
    streams(bench, (4.0, 0.0, -5.0), 0.2)
    assert not bench.commander.reference.moving, "not before the mode"
    assert bench.commander.set_mode(Mode.OFFBOARD) is Result.ACCEPTED


def test_offboard_flies_to_streamed_set_points_at_cruise_speed() -> None:
    bench = flying()
    streams(bench, (4.0, 0.0, -5.0), 0.2)
    bench.commander.set_mode(Mode.OFFBOARD)
    streams(bench, (4.0, 0.0, -5.0), 5.0, yaw=0.3)
    assert bench.estimator.state.pos_ned == pytest.approx((4.0, 0.0, -5.0))
    assert bench.control.yaw_ned == 0.3
    bench.commander.offboard_position((math.inf, 0.0, -5.0), 2.0)
    bench.commander.offboard_position((4.0, 0.0, -5.0), math.nan)
    bench.run(0.1)
    assert bench.estimator.state.pos_ned == pytest.approx((4.0, 0.0, -5.0))
    assert bench.control.yaw_ned == 0.3


def test_offboard_lifts_from_the_ground_once_armed() -> None:
    bench = Bench()
    bench.estimator.state = state_of((1.0, 1.0, 0.0), yaw=0.7)
    streams(bench, (1.0, 1.0, -4.0), 0.2)
    assert bench.commander.set_mode(Mode.OFFBOARD) is Result.ACCEPTED
    streams(bench, (1.0, 1.0, -4.0), 1.0)
    assert doing(bench) == STOPPED
    bench.commander.arm()
    streams(bench, (1.0, 1.0, 0.0), 1.0)
    assert doing(bench) == STANDING
    streams(bench, (1.0, 1.0, -4.0), 5.0)
    assert bench.commander.landed is Landed.IN_AIR
    assert bench.estimator.state.pos_ned == pytest.approx((1.0, 1.0, -4.0))
    assert bench.control.yaw_ned == pytest.approx(0.7)


def test_offboard_without_set_points_becomes_hold() -> None:
    bench = flying()
    streams(bench, (40.0, 0.0, -5.0), 0.2)
    bench.commander.set_mode(Mode.OFFBOARD)
    streams(bench, (40.0, 0.0, -5.0), 2.0)
    bench.run(0.9)
    assert bench.commander.mode is Mode.OFFBOARD
    bench.run(0.2)
    assert bench.commander.mode is Mode.HOLD
    assert bench.told() == ["Failsafe: no offboard set-points, holding"]
    bench.commander.offboard_position((40.0, 0.0, -5.0), None)
    bench.run(1.0)
    assert not bench.commander.reference.moving


# Failsafes


def test_a_fault_in_the_air_lands() -> None:
    bench = flying()
    bench.estimator.faults = ["GPS silent for 2 s"]
    bench.run(0.1)
    assert bench.commander.mode is Mode.LAND
    assert bench.commander.failure == "GPS silent for 2 s"
    bench.run(20.0)
    assert not bench.commander.armed
    assert bench.told() == ["Failsafe: GPS silent for 2 s", "Landing detected", "Disarmed by landing"]
    bench.estimator.faults = []
    bench.commander.arm()
    assert bench.commander.failure is None


def test_a_forced_vehicle_lands_on_faults_too() -> None:
    bench = Bench()
    bench.commander.arm(force=True)
    bench.commander.take_off(5.0)
    bench.run(3.0)
    bench.estimator.faults = ["GPS silent for 2 s"]
    bench.run(0.1)
    assert bench.commander.mode is Mode.LAND


def test_a_fault_on_the_ground_disarms() -> None:
    bench = Bench()
    bench.commander.arm()
    bench.run(0.1)
    bench.estimator.faults = ["gyroscope frozen"]
    bench.run(0.004)
    assert not bench.commander.armed
    assert doing(bench) == STOPPED
    assert bench.told() == ["Armed", "Failsafe: gyroscope frozen", "Disarmed by failsafe"]


def test_a_lost_estimate_stops_the_motors() -> None:
    bench = flying()
    bench.estimator.ready = False
    bench.run(0.004)
    assert not bench.commander.armed
    assert doing(bench) == STOPPED
    assert bench.commander.failure == "the state estimate is lost"
    assert bench.told() == ["Disarmed: state estimate lost"]
    assert bench.commander.place() is None


@pytest.mark.parametrize(("roll_deg", "armed"), [(60.0, True), (70.0, False), (180.0, False)])
def test_tipping_over(roll_deg: float, armed: bool) -> None:
    bench = Bench()
    bench.commander.arm()
    bench.estimator.state = state_of(roll=math.radians(roll_deg))
    bench.run(0.004)
    assert bench.commander.armed is armed
    assert bench.commander.failure == (None if armed else "the vehicle tips over")


def test_places_follow_a_new_alignment() -> None:
    bench = Bench()
    assert bench.commander.place() == pytest.approx(bench.estimator.home)
    bench.estimator.home = (10.0, 20.0, 30.0)
    bench.run(0.004)
    assert bench.commander.place() == pytest.approx((10.0, 20.0, 30.0))
