"""Frames and channels: what a set-point on some side does to which control."""

from __future__ import annotations

import math
from typing import Any

import pytest
from autopilot_rig import TICK_S, state_of
from hypothesis import given, settings
from hypothesis import strategies as st

from firmware_profiles.loader import load_profile
from lav2_hil.autopilot.vehicle_control import VehicleControl

PROFILE = load_profile("lav2")
ROTORS = {
    (math.copysign(1, rotor.position_flu_m[0]), math.copysign(1, rotor.position_flu_m[1])): output.channel
    for output in PROFILE.firmware.rotor_outputs
    for rotor in [PROFILE.vehicle.propeller.rotors[output.rotor]]
}
"""Channel by (front, left), each 1 or -1."""
LEFT, RIGHT = 4, 5


def control(profile: str = "lav2") -> VehicleControl:
    made = VehicleControl(load_profile(profile), TICK_S)
    made.reset()
    return made


def settled(
    position: tuple[float, float, float],
    wanted_yaw: float = 0.0,
    vel: tuple[float, float, float] = (0.0, 0.0, 0.0),
    **state: Any,
) -> list[float]:
    """Controls after a few ticks in one state, 7 m north and 3 m west of where the set-point is counted from."""
    made, (north, east, down) = control(), position
    for _ in range(5):
        controls = made.fly(state_of((7.0, -3.0, -5.0), vel, **state), (7.0 + north, -3.0 + east, down), wanted_yaw)
    return controls


def side(controls: list[float], front: int = 0, left: int = 0) -> float:
    """Sum over the rotors of a side."""
    return sum(controls[channel] for (x, y), channel in ROTORS.items() if front in (0, x) and left in (0, y))


def test_rotors_are_where_they_are_thought_to_be() -> None:
    assert len(ROTORS) == 4


@pytest.mark.parametrize("heading_deg", [0.0, 90.0, 180.0, -90.0])
@pytest.mark.parametrize(("north", "east"), [(1.0, 0.0), (-1.0, 0.0), (0.0, 1.0), (0.0, -1.0)])
def test_it_tilts_towards_the_set_point(north: float, east: float, heading_deg: float) -> None:
    """A set-point ahead lifts the rear, one to the right lifts the left, whatever the heading."""
    yaw = math.radians(heading_deg)
    ahead, right = north * math.cos(yaw) + east * math.sin(yaw), -north * math.sin(yaw) + east * math.cos(yaw)
    controls = settled((north, east, -5.0), yaw, yaw=yaw)
    pitch, roll = side(controls, front=-1) - side(controls, front=1), side(controls, left=1) - side(controls, left=-1)
    if abs(ahead) > 0.5:
        assert pitch * ahead > 0.02
        assert abs(roll) < 0.1 * abs(pitch)
    else:
        assert roll * right > 0.02
        assert abs(pitch) < 0.1 * abs(roll)


def test_drift_is_braked() -> None:
    north, east = settled((0.0, 0.0, -5.0), vel=(1.0, 0.0, 0.0)), settled((0.0, 0.0, -5.0), vel=(0.0, 1.0, 0.0))
    assert side(north, front=1) - side(north, front=-1) > 0.02
    assert abs(side(north, left=1) - side(north, left=-1)) < 0.01
    assert side(east, left=-1) - side(east, left=1) > 0.02
    assert abs(side(east, front=1) - side(east, front=-1)) < 0.01
    level = side(settled((0.0, 0.0, -5.0)))
    assert side(settled((0.0, 0.0, -5.0), vel=(0.0, 0.0, 0.5))) > level


def test_up_and_down() -> None:
    level = side(settled((0.0, 0.0, -5.0)))
    assert side(settled((0.0, 0.0, -6.0))) > level + 0.05
    assert side(settled((0.0, 0.0, -4.0))) < level - 0.05


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_yaw(sign: float) -> None:
    """To turn clockwise seen from above (yaw grows, NED), the rotors that turn the other way speed up."""
    controls = settled((0.0, 0.0, -5.0), sign * 0.3)
    rotors = PROFILE.vehicle.propeller.rotors
    by_spin = dict.fromkeys((1, -1), 0.0)
    for output in PROFILE.firmware.rotor_outputs:
        by_spin[rotors[output.rotor].spin_dir] += controls[output.channel]
    assert (by_spin[-1] - by_spin[1]) * sign > 0.01, "spin_dir 1 is clockwise from above"


@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_rates_are_damped(axis: int, sign: float) -> None:
    """FRD: rolling right is answered by the right side, pitching up by the rear."""
    rates = [0.0, 0.0, 0.0]
    rates[axis] = sign * 0.5
    controls = settled((0.0, 0.0, -5.0), rates=tuple(rates))
    if axis == 0:
        assert (side(controls, left=-1) - side(controls, left=1)) * sign > 0.02
    elif axis == 1:
        assert (side(controls, front=-1) - side(controls, front=1)) * sign > 0.02
    else:
        spins = [PROFILE.vehicle.propeller.rotors[o.rotor].spin_dir for o in PROFILE.firmware.rotor_outputs]
        turn = sum(s * controls[o.channel] for s, o in zip(spins, PROFILE.firmware.rotor_outputs, strict=True))
        assert turn * sign > 0.005, "rotors that turn along with the vehicle brake it"


@settings(max_examples=60, deadline=None)
@given(
    st.tuples(*[st.floats(-1e4, 1e4)] * 3),
    st.tuples(*[st.floats(-1e4, 1e4)] * 3),
    st.tuples(*[st.floats(-30, 30)] * 3),
    st.floats(-10, 10),
    st.floats(-4, 4),
)
def test_controls_are_in_range(pos, wanted, rates, yaw, roll) -> None:
    made = control()
    made.drive(yaw, roll)
    state = state_of(pos, wanted, rates=rates, yaw=yaw, roll=roll)
    for _ in range(7):
        flown, stood = made.fly(state, wanted, roll), made.stand(state)
    assert len(flown) == len(stood) == 16
    assert all(0.0 <= value <= 1.0 for value in flown)
    assert all(-1.0 <= value <= 1.0 for value in stood)
    assert stood[:4] == [0.0] * 4
    assert not any(flown[4:])


def test_disarmed_is_all_zero_whatever_was_asked() -> None:
    made = control()
    made.set_wheels(1.0, -1.0)
    made.drive(1.0, 0.0)
    assert made.disarmed() == [0.0] * 16


# Wheels


def driven(speed: float, wanted_yaw: float = 0.0, vel: tuple[float, float, float] = (0, 0, 0), **state) -> list[float]:
    made = control()
    made.drive(speed, wanted_yaw)
    for _ in range(5):
        controls = made.stand(state_of((0.0, 0.0, 0.0), vel, **state))
    return controls


def test_driving_ahead_and_back() -> None:
    ahead, back = driven(0.5), driven(-0.5)
    assert ahead[LEFT] == pytest.approx(ahead[RIGHT])
    assert ahead[LEFT] > 0.01
    assert back[LEFT] == pytest.approx(back[RIGHT])
    assert back[LEFT] < -0.01


@pytest.mark.parametrize("heading_deg", [0.0, 90.0, 180.0, -135.0])
@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_turning_on_the_spot(heading_deg: float, sign: float) -> None:
    """Clockwise from above: the left wheels go ahead, the right ones back."""
    heading = math.radians(heading_deg)
    controls = driven(0.0, heading + sign * 0.5, yaw=heading)
    assert controls[LEFT] * sign > 0.01
    assert controls[RIGHT] * sign < -0.01


@pytest.mark.parametrize("speed", [0.2, 0.8])
def test_the_heading_is_held_while_it_drives(speed: float) -> None:
    """Closed loop: the side that lags behind drives harder, and a turn under way is braked."""
    straight, off = driven(speed), driven(speed, yaw=0.2)
    assert off[LEFT] < straight[LEFT] < off[RIGHT]
    assert driven(speed, 0.2, rates=(0.0, 0.0, 3.0))[LEFT] < driven(speed, 0.2)[LEFT]


def test_a_wheel_turns_at_the_speed_that_was_asked_for() -> None:
    full = PROFILE.firmware.wheel_outputs[0].full_speed_rad_s
    drive = PROFILE.vehicle.ground_drive
    assert driven(0.5)[LEFT] * full * drive.wheel_radius_m == pytest.approx(0.5)


def test_wheels_open_loop_by_side_and_sign() -> None:
    made = control()
    assert made.set_wheels(0.3, -0.6)
    assert made.stand(state_of())[LEFT : RIGHT + 1] == [0.3, -0.6]
    assert made.set_wheels(math.nan, 7.0)
    assert made.stand(state_of())[LEFT : RIGHT + 1] == [0.3, 1.0]
    assert made.fly(state_of(), (0.0, 0.0, -1.0), 0.0)[LEFT : RIGHT + 1] == [0.3, 1.0]
    made.reset()
    assert made.stand(state_of())[LEFT : RIGHT + 1] == [0.3, 1.0], "remembered, as PX4 does"
    made.drive(0.5, 0.0)
    assert made.stand(state_of())[LEFT : RIGHT + 1] != [0.3, 1.0]
    made.stop_wheels()
    assert made.stand(state_of()) == [0.0] * 16


def test_a_vehicle_without_wheels() -> None:
    made = control("px4_iris")
    assert not made.set_wheels(1.0, 1.0)
    made.drive(1.0, 0.0)
    assert made.stand(state_of()) == [0.0] * 16
