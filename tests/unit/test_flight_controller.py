"""The flight controller: entries and masks, signs of each loop, limits, attitude error, worlds, array libraries."""

import math

import array_api_strict
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial.transform import Rotation

from firmware_profiles.errors import UsageError
from firmware_profiles.loader import load_profile
from twin.control.arrays import Arrays
from twin.control.attitude import attitude_error, error_matrix_table
from twin.control.flight import FlightController
from twin.control.flight_params import FlightGains, FlightLimits
from twin.control.mixer import Mixer
from twin.control.pid import PidGains
from twin.control.thrust_curve import NormalisedThrust
from twin.frames import euler_zyx_of_quat, heading_of_euler_xyz, quat_of_euler_xyz

IRIS = load_profile("px4_iris").vehicle
MASS, INERTIA = IRIS.body.mass_kg, np.asarray(IRIS.body.inertia_kg_m2)
WEIGHT = MASS * 9.80665
MAX_THRUST = 4 * 5.84e-6 * 1100.0**2
DT = 0.004
P_ONLY = FlightGains(rates=PidGains((28.0, 28.0, 8.0)), velocity=PidGains((1.8, 1.8, 4.0)))
FRONT_RIGHT, REAR_LEFT, FRONT_LEFT, REAR_RIGHT = range(4)


def state(n: int = 1, *, euler=(0.0, 0.0, 0.0), **values) -> dict[str, np.ndarray]:
    quat = Rotation.from_euler("XYZ", euler).as_quat()
    rows = {"pos": (0.0,) * 3, "vel": (0.0,) * 3, "att_quat": quat, "ang_vel": (0.0,) * 3} | values
    return {name: np.tile(np.asarray(row, dtype=np.float64), (n, 1)) for name, row in rows.items()}


def target(**values) -> dict[str, np.ndarray]:
    rows = {"att_euler": (0.0,) * 3} | values
    return {name: np.atleast_2d(np.asarray(row, dtype=np.float64)) for name, row in rows.items()}


def controller(**options) -> FlightController:
    return FlightController.of(IRIS, DT, **{"gains": P_ONLY, **options})


def rotors_sped_up(wrench: np.ndarray) -> set[int]:
    speeds = Mixer.of(IRIS).allocate(wrench)[0]
    return set(np.flatnonzero(speeds > speeds.mean()).tolist())


def test_hover_is_the_weight_and_nothing_else() -> None:
    wrench = controller().update(target(pos=(0, 0, 0)), state())
    np.testing.assert_allclose(wrench, [[WEIGHT, 0, 0, 0]], atol=1e-12)


@pytest.mark.parametrize(
    ("attitude", "axis", "sign", "rotors"),
    [
        ((0.2, 0, 0), 1, -1, {FRONT_RIGHT, REAR_RIGHT}),  # leans right: the right pushes
        ((0, 0.2, 0), 2, -1, {FRONT_LEFT, FRONT_RIGHT}),  # nose is down: the front pushes
        ((0, 0, 0.2), 3, -1, {FRONT_RIGHT, REAR_LEFT}),  # looks left: the counter-clockwise ones push back
    ],
)
def test_an_attitude_error_is_turned_back(attitude, axis: int, sign: int, rotors: set) -> None:
    wrench = controller().update(target(pos=(0, 0, 0)), state(euler=attitude))
    assert wrench[0, axis] * sign > 0
    others = [other for other in (1, 2, 3) if other != axis]
    np.testing.assert_allclose(wrench[0, others], 0, atol=1e-12)
    assert rotors_sped_up(wrench) == rotors


@pytest.mark.parametrize(
    ("pos", "rotors"),
    [
        ((1, 0, 0), {REAR_LEFT, REAR_RIGHT}),
        ((-1, 0, 0), {FRONT_LEFT, FRONT_RIGHT}),
        ((0, 1, 0), {FRONT_RIGHT, REAR_RIGHT}),
        ((0, -1, 0), {FRONT_LEFT, REAR_LEFT}),
    ],
)
def test_it_leans_towards_its_target(pos, rotors: set) -> None:
    assert rotors_sped_up(controller().update(target(pos=pos), state())) == rotors


def test_it_leans_towards_its_target_wherever_the_nose_points() -> None:
    """Nose to the north, target in the east, on the right hand: the left pushes."""
    north = {"att_euler": np.array([[0.0, 0.0, math.pi / 2]])}
    wrench = controller().update(target(pos=(1, 0, 0)) | north, state(euler=(0, 0, math.pi / 2)))
    assert rotors_sped_up(wrench) == {FRONT_LEFT, REAR_LEFT}


def test_first_tick_by_hand() -> None:
    """Position 0.5 m short, at 0.1 m/s: P times P times P all the way down."""
    wrench = controller().update(target(pos=(0.5, 0, 0.2)), state(vel=(0.1, 0, 0)))
    acc = np.array([1.8 * (0.95 * 0.5 - 0.1), 0.0, 4.0 * 0.2])
    force = acc + np.array([0, 0, 9.80665])
    pitch = math.atan2(force[0], force[2])
    np.testing.assert_allclose(wrench[0, 0], MASS * np.linalg.norm(force))
    np.testing.assert_allclose(wrench[0, 2], INERTIA[1] * 28.0 * 6.5 * 2 * math.sin(pitch / 2))
    np.testing.assert_allclose(wrench[0, [1, 3]], 0, atol=1e-12)


def test_rate_loop_is_an_angular_acceleration_times_inertia() -> None:
    rates, thrust = (0.3, -0.2, 0.1), 12.0
    flight = controller(control_mask="cmd_ctbr")
    wrench = flight.update(target(ang_vel=rates, thrust=[thrust]), {"ang_vel": np.array([[0.1, 0.1, 0.1]])})
    np.testing.assert_allclose(wrench, [[thrust, *INERTIA * (28, 28, 8) * (0.2, -0.3, 0.0)]], atol=1e-15)
    heavy = controller(control_mask="cmd_ctbr", inertia_kg_m2=2 * INERTIA)
    twice = heavy.update(target(ang_vel=rates, thrust=[thrust]), {"ang_vel": np.array([[0.1, 0.1, 0.1]])})
    np.testing.assert_allclose(twice[:, 1:], 2 * wrench[:, 1:])


def test_default_gains_are_px4s_on_its_iris() -> None:
    """The derivation that `flight_params` tells, with the numbers of the profile."""
    per_unit = 2 * 5.84e-6 * IRIS.hover_speed_rad_s() * 1000.0
    arm = np.mean([abs(rotor.position_flu_m[1]) for rotor in IRIS.propeller.rotors])
    roll = 4 * 0.7071 * per_unit * arm / INERTIA[0]
    yaw = 4 * per_unit * 0.06 / INERTIA[2]
    rates = FlightGains().rates
    np.testing.assert_allclose(rates.kp, (0.15 * roll, 0.15 * roll, 0.2 * yaw), rtol=0.04)
    np.testing.assert_allclose(rates.ki, (0.2 * roll, 0.2 * roll, 0.1 * yaw), rtol=0.04)
    np.testing.assert_allclose(rates.kd, (0.003 * roll, 0.003 * roll, 0.0), rtol=0.04)
    np.testing.assert_allclose(rates.integral_limit, (0.3 * roll, 0.3 * roll, 0.3 * yaw), rtol=0.04)


def test_rate_integral_and_derivative() -> None:
    flight = FlightController.of(IRIS, DT, control_mask="cmd_ctbr")
    aim = target(ang_vel=(0.1, 0, 0), thrust=[10.0])
    still, moving = {"ang_vel": np.zeros((1, 3))}, {"ang_vel": np.array([[0.01, 0.0, 0.0]])}
    first, second = flight.update(aim, still), flight.update(aim, still)
    np.testing.assert_allclose(first[0, 1], INERTIA[0] * 2.8)
    np.testing.assert_allclose(second[0, 1], INERTIA[0] * (2.8 + 38 * 0.1 * DT))
    share = 1 - math.exp(-2 * math.pi * 30 * DT)
    expected = 28 * 0.09 + 2 * 38 * 0.1 * DT - 0.57 * share * 0.01 / DT
    np.testing.assert_allclose(flight.update(aim, moving)[0, 1], INERTIA[0] * expected)


def test_rates_are_limited() -> None:
    flight = controller(control_mask="cmd_ctbr", limits=FlightLimits(rates_rad_s=(1.0, 2.0, 3.0)))
    wrench = flight.update(target(ang_vel=(9, -9, 9), thrust=[10.0]), {"ang_vel": np.zeros((1, 3))})
    np.testing.assert_allclose(wrench[0, 1:], INERTIA * (28 * 1.0, 28 * -2.0, 8 * 3.0))


@settings(max_examples=150, deadline=None)
@given(st.lists(st.floats(-50, 50), min_size=6, max_size=6))
def test_outer_limits_hold_for_any_target(values: list[float]) -> None:
    limits = FlightLimits(tilt_rad=math.radians(30))
    flight = controller(limits=limits)
    wrench = flight.update(target(pos=values[:3]), state(vel=np.array(values[3:]) / 3))
    assert 0.12 * MAX_THRUST - 1e-9 <= wrench[0, 0] <= MAX_THRUST + 1e-9
    tilt_rate = 6.5 * 2 * math.sin(math.radians(30) / 2)
    assert np.linalg.norm(wrench[0, 1:3] / INERTIA[:2]) <= 28 * tilt_rate + 1e-9


def test_velocity_and_acceleration_limits() -> None:
    thrust = {}
    for climb in (3.0, 100.0):
        wrench = controller().update(target(pos=(0, 0, climb)), state())
        thrust[climb] = wrench[0, 0]
    assert math.isclose(thrust[3.0], thrust[100.0])
    assert math.isclose(thrust[100.0], MASS * (9.80665 + 4.0))
    down = controller().update(target(pos=(0, 0, -100)), state())[0, 0]
    assert math.isclose(down, MASS * (9.80665 - 3.0))
    # At the limits of speed nothing more is asked for, in any direction.
    for vel, aim in (((0, 0, 3), (0, 0, 99)), ((0, 0, -1.5), (0, 0, -99)), ((12 * 0.6, 12 * 0.8, 0), (600, 800, 0))):
        wrench = controller().update(target(pos=aim), state(vel=vel))
        np.testing.assert_allclose(wrench, [[WEIGHT, 0, 0, 0]], atol=1e-9)
    limited = controller(control_mask="cmd_acc").update(target(acc=(30, 40, 0)), state())
    np.testing.assert_allclose(limited[0, 0], MASS * math.hypot(5.0, 9.80665))


def test_vertical_comes_before_horizontal_when_thrust_is_short() -> None:
    weak = controller(
        control_mask="cmd_acc",
        max_thrust_n=1.1 * WEIGHT,
        limits=FlightLimits(horizontal_acc_m_s2=9.0, up_acc_m_s2=20.0, tilt_rad=1.2),
    )
    both = weak.update(target(acc=(9, 0, 20)), state())
    assert math.isclose(both[0, 0], 1.1 * WEIGHT)
    up = math.sqrt(1 - 0.3**2)  # the horizontal keeps its share of 0.3
    tilt = math.asin(0.3)
    np.testing.assert_allclose(both[0, 2], INERTIA[1] * 28 * min(6.5 * 2 * math.sin(tilt / 2), math.radians(220)))
    assert up * 1.1 > 1.0
    only_up = weak.update(target(acc=(0, 0, 20)), state())
    np.testing.assert_allclose(only_up, [[1.1 * WEIGHT, 0, 0, 0]], atol=1e-9)


def test_integral_does_not_wind_up_at_the_thrust_limit() -> None:
    gains = FlightGains(velocity=PidGains(4.0, 2.0, integral_limit=1000.0), rates=PidGains(0.0))
    flight = controller(gains=gains, control_mask="cmd_vel", limits=FlightLimits(up_acc_m_s2=50.0, climb_m_s=50.0))
    for _ in range(1500):
        flight.update(target(vel=(0, 0, 20)), state())
    top = MAX_THRUST / MASS - 9.80665
    assert flight._velocity.integral[0, 2] < top
    assert abs(flight._velocity.integral[0, 0]) < 1e-9


def test_what_the_acceleration_limit_cuts_off_is_not_integrated() -> None:
    flight = FlightController.of(IRIS, DT, control_mask="cmd_vel")
    flight.update(target(vel=(0, 0, 3.0)), state())
    np.testing.assert_allclose(flight._velocity.integral, [[0, 0, 2.0 * DT * 4.0 / 4.0]], atol=1e-15)


def test_feed_forward() -> None:
    along = controller(control_mask={"pos": True, "vel": True, "acc": True, "att_euler": True})
    assert along.mode == "cmd_pos"
    wrench = along.update(target(pos=(0, 0, 0), vel=(0, 0, 1), acc=(0, 0, 2)), state(vel=(0, 0, 1)))
    np.testing.assert_allclose(wrench[0, 0], MASS * (9.80665 + 2))
    wrench = along.update(target(pos=(0, 0, 0), vel=(0, 0, 0.5), acc=(0, 0, 0)), state())
    np.testing.assert_allclose(wrench[0, 0], MASS * (9.80665 + 4 * 0.5))


def test_outer_loops_run_every_kth_call() -> None:
    flight = controller(outer_every=5)
    thrusts = [flight.update(target(pos=(0, 0, 0.05 * call)), state())[0, 0] for call in range(11)]
    assert len(set(thrusts[:5])) == len(set(thrusts[5:10])) == 1
    assert len({thrusts[0], thrusts[5], thrusts[10]}) == 3
    flight.reset()
    assert flight.update(target(pos=(0, 0, 0.35)), state())[0, 0] != thrusts[10]
    with pytest.raises(UsageError, match="outer_every"):
        controller(outer_every=0)


def test_outer_integral_knows_its_own_time_step() -> None:
    gains = FlightGains(velocity=PidGains(1.0, 1.0, integral_limit=100.0), rates=PidGains(0.0))
    slow, fast = (controller(gains=gains, outer_every=every, control_mask="cmd_vel") for every in (5, 1))
    for _ in range(251):
        thrusts = [flight.update(target(vel=(0, 0, 0.5)), state())[0, 0] for flight in (slow, fast)]
    np.testing.assert_allclose(thrusts, MASS * (9.80665 + 0.5 + 0.5), rtol=1e-12)


def test_thrust_passes_through() -> None:
    for mode, needed in (("cmd_ctbr", {"ang_vel": (0, 0, 0)}), ("cmd_ctatt", {"att_quat": (0, 0, 0, 1)})):
        flight = controller(control_mask=mode)
        for asked, given_ in ((7.0, 7.0), (-3.0, 0.0), (1e3, MAX_THRUST)):
            assert math.isclose(flight.update(target(thrust=[asked], **needed), state())[0, 0], given_)
        curve = NormalisedThrust(MAX_THRUST, 0.3)
        flight = controller(control_mask=mode, normalised_thrust=curve)
        wrench = flight.update(target(thrust=[0.5], **needed), state())
        assert math.isclose(wrench[0, 0], MAX_THRUST * (0.3 * 0.25 + 0.7 * 0.5))


def test_att_euler_is_xyz_intrinsic() -> None:
    """Read as PX4's ZYX, the same three numbers are another attitude, and another yaw."""
    angles = np.array([[0.5, 0.6, -0.2]])
    xyz, zyx = Rotation.from_euler("XYZ", angles), Rotation.from_euler("ZYX", angles[:, ::-1])
    flight = controller(control_mask={"att_euler": True, "thrust": True})
    aim = {"att_euler": angles, "thrust": np.array([[10.0]])}
    np.testing.assert_allclose(flight.update(aim, state() | {"att_quat": xyz.as_quat()})[0, 1:], 0, atol=1e-12)
    assert np.abs(flight.update(aim, state() | {"att_quat": zyx.as_quat()})[0, 1:]).max() > 0.5
    w_first = xyz.as_quat(scalar_first=True)
    assert abs(euler_zyx_of_quat(w_first)[0, 2] + 0.2) > 0.1
    np.testing.assert_allclose(heading_of_euler_xyz(angles, xp=np)[0], euler_zyx_of_quat(w_first)[0, 2])


def test_yaw_target_is_the_third_angle_of_the_table() -> None:
    """While it leans to north and west at once, the state's own third angle is what settles at the target."""
    flight = controller(control_mask="cmd_acc")
    leaning = Rotation.from_euler("XYZ", [math.atan2(-3.0, 9.80665), math.atan2(3.0, math.hypot(3, 9.80665)), 0.7])
    aim = target(acc=(3, 3, 0)) | {"att_euler": np.array([[0.0, 0.0, 0.7]])}
    np.testing.assert_allclose(
        flight.update(aim, state() | {"att_quat": leaning.as_quat()[None]})[0, 1:], 0, atol=1e-12
    )


@settings(max_examples=200, deadline=None)
@given(st.lists(st.floats(-math.pi, math.pi), min_size=3, max_size=3))
def test_quaternion_of_angles(angles: list[float]) -> None:
    ours = quat_of_euler_xyz(np.array([angles]), xp=np)[0]
    scipy = Rotation.from_euler("XYZ", angles).as_quat()
    np.testing.assert_allclose(ours * np.sign(ours @ scipy), scipy, atol=1e-12)


def px4_rates(q: Rotation, qd: Rotation, gain: np.ndarray, weight: float) -> np.ndarray:
    """PX4's AttitudeControl::update, step by step as it is written there."""
    e_z, e_z_d = q.apply([0, 0, 1]), qd.apply([0, 0, 1])
    between = np.append(np.cross(e_z, e_z_d), 1 + e_z @ e_z_d)
    reduced = Rotation.from_quat(between) * q
    mix = (reduced.inv() * qd).as_quat(canonical=True)
    angle_w, angle_z = math.acos(np.clip(mix[3], -1, 1)), math.asin(np.clip(mix[2], -1, 1))
    turned = reduced * Rotation.from_quat([0, 0, math.sin(weight * angle_z), math.cos(weight * angle_w)])
    error = (q.inv() * turned).as_quat(canonical=True)
    return 2 * error[:3] * gain / (1, 1, weight)


def our_rates(q: Rotation, qd: Rotation, gain: np.ndarray, weight: float, sign: int = 1) -> np.ndarray:
    matrix = (sign * qd.as_quat() @ error_matrix_table()).reshape(4, 4)
    error = (q.as_quat() @ matrix)[None]
    np.testing.assert_allclose(np.abs(error[0] @ (q.inv() * qd).as_quat()), 1.0)
    one = np.ones((1, 1))
    return (attitude_error(error, weight * one, (1 - weight) * one, one, xp=np) * gain / (1, 1, weight))[0]


@pytest.mark.parametrize("weight", [0.4, 1.0, 0.05])
def test_attitude_error_is_px4s(weight: float) -> None:
    rng = np.random.default_rng(8)
    gain = np.array([6.5, 6.0, 2.8])
    for q, qd in zip(Rotation.random(200, rng=rng), Rotation.random(200, rng=rng), strict=True):
        expected = px4_rates(q, qd, gain, weight)
        np.testing.assert_allclose(our_rates(q, qd, gain, weight), expected, atol=1e-6)
        np.testing.assert_allclose(our_rates(q, qd, gain, weight, -1), expected, atol=1e-6)


def test_small_yaw_errors_see_the_whole_gain() -> None:
    rates = our_rates(Rotation.identity(), Rotation.from_euler("Z", 0.01), np.array([6.5, 6.5, 2.8]), 0.4)
    np.testing.assert_allclose(rates, [0, 0, 2.8 * 0.01], rtol=1e-4)


def test_yaw_gain_and_weight_of_the_controller() -> None:
    small = controller().update(target(pos=(0, 0, 0)) | {"att_euler": np.array([[0.0, 0.0, 0.01]])}, state())
    np.testing.assert_allclose(small[0, 3], INERTIA[2] * 8 * 2.8 * 0.01, rtol=1e-4)
    large = controller().update(target(pos=(0, 0, 0)) | {"att_euler": np.array([[0.0, 0.0, 2.0]])}, state())
    np.testing.assert_allclose(large[0, 3], INERTIA[2] * 8 * min(2.8 / 0.4 * 2 * math.sin(0.4), math.radians(200)))


def test_upside_down_and_half_a_turn_are_finite() -> None:
    gain = np.array([6.5, 6.5, 2.8])
    for euler in ((math.pi, 0, 0), (0, math.pi, 0), (math.pi / 2, math.pi / 2, 0), (0, 0, math.pi)):
        rates = our_rates(Rotation.identity(), Rotation.from_euler("XYZ", euler), gain, 0.4)
        assert np.isfinite(rates).all()
        assert np.linalg.norm(rates) > 2


def test_yaw_rate_target_turns_about_the_vertical_and_leaves_heading_alone() -> None:
    flight = controller(control_mask={"vel": True, "ang_vel": True})
    aim = target(vel=(0, 0, 0), ang_vel=(0, 0, 0.5))
    for heading in (0.0, 2.0, -3.0):
        wrench = flight.update(aim, state(euler=(0, 0, heading)))
        np.testing.assert_allclose(wrench[0, 1:], [0, 0, INERTIA[2] * 8 * 0.5], atol=1e-12)
    rolled = flight.update(aim, state(euler=(0.3, 0, 0)))[0, 1:] / INERTIA / (28, 28, 8)
    np.testing.assert_allclose(
        rolled, [-6.5 * 2 * math.sin(0.15), 0.5 * math.sin(0.3), 0.5 * math.cos(0.3)], atol=1e-12
    )
    pitched = flight.update(aim, state(euler=(0, 0.3, 0)))[0, 1:] / INERTIA / (28, 28, 8)
    np.testing.assert_allclose(pitched, [-0.5 * math.sin(0.3), -13 * math.sin(0.15), 0.5 * math.cos(0.3)], atol=1e-12)
    flight.select("cmd_vel")
    assert flight.update(aim, state(euler=(0, 0, 2.0)))[0, 3] < -0.1, "now yaw is a target again"


def test_worlds_are_independent_and_a_broken_one_can_be_reset() -> None:
    n = 4
    flight = FlightController.of(IRIS, DT, outer_every=2, arrays=Arrays(n))
    reference = FlightController.of(IRIS, DT, outer_every=2, arrays=Arrays(n))
    rng = np.random.default_rng(2)
    for call in range(9):
        now = state(n)
        now["vel"], now["ang_vel"] = rng.normal(size=(2, n, 3))
        broken = {name: value.copy() for name, value in now.items()}
        if call in (2, 3):
            for value in broken.values():
                value[1] = math.nan
        ours, theirs = flight.update(target(pos=(1, 2, 3)), broken), reference.update(target(pos=(1, 2, 3)), now)
        np.testing.assert_array_equal(np.delete(ours, 1, axis=0), np.delete(theirs, 1, axis=0))
    assert np.isnan(ours[1]).any()
    flight.reset([1])
    assert np.isfinite(flight.update(target(pos=(1, 2, 3)), state(n))).all()


def test_parameters_per_world() -> None:
    masses = np.array([[1.0], [2.0], [3.0]])
    gains = FlightGains(position=np.array([[1.0, 1, 1], [2, 2, 2], [0.5, 0.5, 0.5]]), yaw_weight=masses / 3)
    many = controller(arrays=Arrays(3), mass_kg=masses, gains=gains, max_thrust_n=masses * 20)
    now = state(3, vel=(0.1, 0.2, -0.1), euler=(0.1, -0.2, 0.5))
    together = many.update(target(pos=(0.3, -0.5, 0.2)), now)
    for world in range(3):
        mass = float(masses[world, 0])
        own = FlightGains(position=float((1.0, 2.0, 0.5)[world]), yaw_weight=mass / 3)
        alone = controller(mass_kg=mass, gains=own, max_thrust_n=mass * 20)
        np.testing.assert_allclose(
            together[world],
            alone.update(target(pos=(0.3, -0.5, 0.2)), state(vel=(0.1, 0.2, -0.1), euler=(0.1, -0.2, 0.5)))[0],
        )


@pytest.mark.parametrize("mask", ["cmd_pos", "cmd_acc", "cmd_ctatt", "cmd_ctbr", {"vel": True, "ang_vel": True}])
@pytest.mark.parametrize(("xp", "dtype"), [(torch, "float64"), (torch, "float32"), (array_api_strict, "float64")])
def test_one_code_path(mask, xp, dtype: str) -> None:
    check_code_path(mask, Arrays(5, xp, dtype))


def test_one_world_in_torch() -> None:
    check_code_path("cmd_pos", Arrays(1, torch))


def check_code_path(mask, arrays: Arrays) -> None:
    n, rng = arrays.n, np.random.default_rng(4)
    ours, reference = (
        FlightController.of(IRIS, DT, outer_every=3, control_mask=mask, arrays=a) for a in (arrays, Arrays(n))
    )
    for _ in range(8):
        now, aim = (
            {name: rng.normal(size=(n, 3)) for name in ("pos", "vel", "acc", "ang_vel", "att_euler")} for _ in range(2)
        )
        now["att_quat"], aim["att_quat"] = Rotation.random(n, rng=rng).as_quat(), Rotation.random(n, rng=rng).as_quat()
        aim["thrust"] = rng.normal(15, 5, size=(n, 1))
        there = [{name: arrays.array(value) for name, value in group.items()} for group in (aim, now)]
        wrench = ours.update(*there)
        assert wrench.dtype == arrays.dtype
        tolerance = 1e-3 if str(wrench.dtype).endswith("float32") else 1e-10
        np.testing.assert_allclose(np.asarray(wrench), reference.update(aim, now), rtol=tolerance, atol=tolerance)
    ours.reset([0])


def test_masks() -> None:
    flight = controller()
    assert flight.mode == "cmd_pos"
    assert [name for name, given_ in flight.control_mask.items() if given_] == ["pos", "att_euler"]
    flight.select({"thrust": True, "att_quat": True, "pos": False})
    assert flight.mode == "cmd_ctatt"
    for wrong in (
        "cmd_motor_speeds",
        "",
        {},
        {"pos": True},
        {"pos": True, "att_euler": True, "ang_vel": True},
        {"pos": True, "att_euler": True, "thrust": True},
        {"x": True},
    ):
        with pytest.raises(
            UsageError, match=r"allowed: cmd_pos \(pos, att_euler\|ang_vel, \[acc\], \[vel\]\); cmd_vel"
        ):
            flight.select(wrong)
    assert flight.mode == "cmd_ctatt", "a refused mask changes nothing"


def test_what_is_missing_is_named() -> None:
    with pytest.raises(UsageError, match="cmd_pos: target or state lacks 'pos'; the target holds pos, att_euler"):
        controller().update({"att_euler": np.zeros((1, 3))}, state())
    with pytest.raises(UsageError, match="lacks 'ang_vel'"):
        controller().update(target(pos=(0, 0, 0)), {})


@pytest.mark.parametrize(
    ("make", "named"),
    [
        (lambda: controller(mass_kg=0.0), "mass_kg"),
        (lambda: controller(inertia_kg_m2=(0.1, -0.1, 0.1)), "inertia_kg_m2"),
        (lambda: controller(inertia_kg_m2=(0.1, 0.1)), "inertia_kg_m2"),
        (lambda: controller(max_thrust_n=math.nan), "max_thrust_n"),
        (lambda: FlightGains(position=-1.0), "position"),
        (lambda: FlightGains(yaw_weight=0.0), "yaw_weight"),
        (lambda: FlightGains(attitude=(1.0, math.inf, 1.0)), "attitude"),
        (lambda: FlightLimits(tilt_rad=math.pi / 2), "tilt_rad"),
        (lambda: FlightLimits(thrust_share=(0.5, 0.4)), "thrust_share"),
        (lambda: FlightLimits(thrust_share=(0.1, 1.1)), "thrust_share"),
        (lambda: FlightLimits(climb_m_s=0.0), "climb_m_s"),
        (lambda: Arrays(0), "n: expected"),
        (lambda: Arrays(1, np, "float16"), "dtype"),
    ],
)
def test_parameters_that_cannot_be_are_named(make, named: str) -> None:
    with pytest.raises(UsageError, match=f"^{named}"):
        make()
