"""The geometric controller, the L1 estimate, the adaptive controller, and Isaac Lab's Lee controllers."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial.transform import Rotation

from firmware_profiles.errors import UsageError
from firmware_profiles.loader import load_profile
from twin.control.adaptive import AdaptiveController
from twin.control.arrays import Arrays
from twin.control.flight import FlightController
from twin.control.flight_params import FlightLimits
from twin.control.geometric import GeometricController, GeometricGains
from twin.control.l1 import L1Estimate, L1Gains
from twin.control.lee import LeeController, LeeGains
from twin.control.mixer import Mixer
from twin.control.so3 import rotation_error, rotation_towards
from twin.control.stack import FlightStack

IRIS = load_profile("px4_iris").vehicle
MASS, INERTIA = IRIS.total_mass_kg, np.asarray(IRIS.body.inertia_kg_m2)
G = IRIS.environment.gravity_m_s2
WEIGHT = MASS * G
angle = st.floats(-3.1, 3.1)
small = st.floats(-1.0, 1.0)


def state(n: int = 1, *, quat=(0.0, 0.0, 0.0, 1.0), **values) -> dict[str, np.ndarray]:
    rows = {"pos": (0.0,) * 3, "vel": (0.0,) * 3, "att_quat": quat, "ang_vel": (0.0,) * 3} | values
    return {name: np.tile(np.asarray(row, dtype=np.float64), (n, 1)) for name, row in rows.items()}


def target(**values) -> dict[str, np.ndarray]:
    rows = {"att_euler": (0.0,) * 3} | values
    return {name: np.atleast_2d(np.asarray(row, dtype=np.float64)) for name, row in rows.items()}


def geometric(**options) -> GeometricController:
    return GeometricController.of(IRIS, **options)


def test_hover_is_the_weight_and_nothing_else() -> None:
    np.testing.assert_allclose(geometric().update(target(pos=(0, 0, 0)), state()), [[WEIGHT, 0, 0, 0]], atol=1e-12)


@given(small, small, small, angle, angle, st.floats(-0.5, 0.5), st.floats(-0.5, 0.5), st.floats(-0.5, 0.5))
def test_the_law_is_lees(x, y, z, roll, yaw, p, q, r) -> None:
    """Within all limits, by the formulas of the paper, with gains over mass and inertia."""
    gains = GeometricGains(position=(1.0, 1.2, 2.0), velocity=(2.0, 2.1, 3.0))
    limits = FlightLimits(tilt_rad=math.radians(80.0))
    rotation = Rotation.from_euler("XYZ", (roll, 0.3, yaw))
    vel, rates = np.array([0.1, -0.2, 0.3]), np.array([p, q, r])
    wrench = geometric(gains=gains, limits=limits).update(
        target(pos=(x, y, z), att_euler=(0, 0, 0.4)), state(vel=vel, quat=rotation.as_quat(), ang_vel=rates)
    )[0]
    force = MASS * (np.array([1.0, 1.2, 2.0]) * (x, y, z) - np.array([2.0, 2.1, 3.0]) * vel + (0, 0, G))
    matrix = rotation.as_matrix()
    np.testing.assert_allclose(wrench[0], np.clip(force @ matrix[:, 2], 0.0, 28.2656), rtol=1e-12, atol=1e-12)
    b3 = force / np.linalg.norm(force)
    wanted = Rotation.from_euler("XYZ", (math.atan2(-b3[1], b3[2]), math.asin(b3[0]), 0.4)).as_matrix()
    np.testing.assert_allclose(wanted[:, 2], b3, atol=1e-12)
    difference = wanted.T @ matrix - matrix.T @ wanted
    e_r = 0.5 * np.array([difference[2, 1], difference[0, 2], difference[1, 0]])
    moment = INERTIA * (-np.array([180.0, 180.0, 22.0]) * e_r - np.array([28.0, 28.0, 8.0]) * rates)
    np.testing.assert_allclose(wrench[1:], moment + np.cross(rates, INERTIA * rates), rtol=1e-9, atol=1e-12)


@given(st.floats(-math.pi, math.pi), angle)
def test_a_turn_of_the_world_turns_nothing_in_the_body(turn: float, roll: float) -> None:
    """Position, velocity, attitude and target turned alike about the vertical: the wrench stays."""
    about = Rotation.from_euler("z", turn)
    rotation = Rotation.from_euler("XYZ", (roll, 0.4, 0.2))
    pos, vel = np.array([1.0, 0.5, -0.3]), np.array([0.2, -0.1, 0.4])
    rates = {"ang_vel": (0.3, -0.2, 0.1)}
    mask = {"pos": True, "ang_vel": True}
    plain = geometric(control_mask=mask).update(
        target(pos=pos, ang_vel=(0, 0, 0.2)), state(vel=vel, quat=rotation.as_quat(), **rates)
    )
    turned = geometric(control_mask=mask).update(
        target(pos=about.apply(pos), ang_vel=(0, 0, 0.2)),
        state(vel=about.apply(vel), quat=(about * rotation).as_quat(), **rates),
    )
    np.testing.assert_allclose(turned[0, 0], plain[0, 0], rtol=1e-9, atol=1e-9)


def test_it_leans_towards_its_target_and_climbs_to_it() -> None:
    wrench = geometric().update(target(pos=(1, 0, 1)), state())[0]
    assert wrench[0] > WEIGHT
    assert wrench[2] > 0.01  # nose down: towards the east
    assert geometric().update(target(pos=(0, 1, 0)), state())[0, 1] < -0.01  # to the left


@pytest.mark.parametrize(
    "make",
    [
        geometric,
        lambda **o: AdaptiveController.of(IRIS, dt_s=0.004, **o),
        lambda **o: FlightController.of(IRIS, 0.004, **o),
    ],
    ids=["geometric", "adaptive", "pid"],
)
def test_exact_free_fall_is_finite(make) -> None:
    """The acceleration that leaves no force to give: the thrust axis keeps pointing somewhere."""
    limits = FlightLimits(down_acc_m_s2=20.0, thrust_share=(1e-300, 1.0))
    controller = make(control_mask="cmd_acc", limits=limits)
    for attitude in ((0, 0, 0), (math.pi, 0, 0), (1.0, 0.5, 2.0)):
        quat = Rotation.from_euler("XYZ", attitude).as_quat()
        assert np.isfinite(controller.update(target(acc=(0, 0, -G)), state(quat=quat))).all()


@pytest.mark.parametrize("mode", ["acceleration", "position", "velocity"])
def test_lee_in_exact_free_fall_keeps_its_thrust_axis(mode: str) -> None:
    """Upstream returns NaN here."""
    gains = LeeGains(position=1.0, velocity=1.0)
    lee = LeeController(mode, mass_kg=1.5, inertia_kg_m2=np.diag(INERTIA), gravity_m_s2=9.81, gains=gains)
    command = np.array([[0.0, 0.0, -9.81, 0.0]])
    quat = Rotation.from_euler("XYZ", (0.3, -0.2, 0.0)).as_quat()
    wrench = lee.update(command, state(quat=quat))
    assert np.isfinite(wrench).all()
    assert abs(wrench[0, 2]) < 1e-9
    assert np.abs(wrench[0, 3:]).max() < 0.02, "the axis is where it should be; only the heading may be off"


def test_a_force_along_the_heading_is_finite() -> None:
    force, heading = np.array([[3.0, 0.0, 0.0], [0.0, 0.0, 0.0]]), np.zeros((2, 1))
    ours = rotation_towards(force, heading, np.tile((0.0, 0.0, 1.0), (2, 1)), xp=np)
    np.testing.assert_allclose(ours @ ours.transpose(0, 2, 1), np.tile(np.eye(3), (2, 1, 1)), atol=1e-12)
    np.testing.assert_allclose(np.linalg.det(ours), 1.0)
    np.testing.assert_allclose(ours[0, :, 2], (1, 0, 0))
    np.testing.assert_allclose(ours[1], np.eye(3), atol=1e-12)


@given(st.floats(-1e-3, 1e-3), st.floats(-1e-3, 1e-3), st.floats(-1e-3, 1e-3))
def test_rotation_error_is_the_small_turn_that_is_left(x, y, z) -> None:
    """R is R_d turned by a little: the error is that little."""
    turned = Rotation.from_rotvec((x, y, z)).as_matrix()
    np.testing.assert_allclose(rotation_error(turned.T[None], xp=np)[0], (x, y, z), atol=1e-8)


def test_inner_entries_agree_with_the_cascade_on_thrust_and_pass_moments() -> None:
    for mode, needed in (("cmd_ctbr", {"ang_vel": (0, 0, 0)}), ("cmd_ctatt", {"att_quat": (0, 0, 0, 1)})):
        for asked, given_ in ((7.0, 7.0), (-3.0, 0.0), (1e3, 4 * 5.84e-6 * 1100.0**2)):
            wrench = geometric(control_mask=mode).update(target(thrust=[asked], **needed), state())
            assert math.isclose(wrench[0, 0], given_)
    for controller in (geometric(control_mask="cmd_ctbm"), FlightController.of(IRIS, 0.004, control_mask="cmd_ctbm")):
        wrench = controller.update(target(thrust=[9.0], moment=(0.1, -0.2, 0.3)), {})
        np.testing.assert_allclose(wrench, [[9.0, 0.1, -0.2, 0.3]])


def simulate(estimate: L1Estimate, accel: np.ndarray, known: np.ndarray, seconds: float, dt: float) -> np.ndarray:
    """The estimate, told of a body that is accelerated by `accel`, of which the nominal vehicle explains `known`."""
    velocity = np.zeros((1, 6))
    for _ in range(round(seconds / dt)):
        estimate.update(velocity, known)
        velocity = velocity + dt * accel
    return np.asarray(estimate.missing)


@given(st.lists(st.floats(-4.0, 4.0), min_size=6, max_size=6), st.lists(small, min_size=6, max_size=6))
@settings(max_examples=20, deadline=None)
def test_l1_finds_what_is_missing(missing: list[float], known: list[float]) -> None:
    lost, explained = np.array([missing]), np.array([known])
    found = simulate(L1Estimate(L1Gains(), 0.004, Arrays()), explained + lost, explained, 5.0, 0.004)
    np.testing.assert_allclose(found, lost, atol=0.12)


def test_l1_is_exact_in_the_end_and_as_slow_as_its_filter() -> None:
    gains = L1Gains(pole_rad_s=1e-6, force_cutoff_rad_s=2.0, moment_cutoff_rad_s=8.0)
    lost = np.array([[1.0, -2.0, 0.5, 3.0, 0.0, -1.0]])
    for seconds in (0.25, 0.5, 10.0):
        found = simulate(L1Estimate(gains, 0.001, Arrays()), lost, np.zeros((1, 6)), seconds, 0.001)
        share = 1 - np.exp(-seconds * np.array([2.0, 2.0, 2.0, 8.0, 8.0, 8.0]))
        np.testing.assert_allclose(found, lost * share, atol=0.01)


def test_l1_believes_no_more_than_its_limit_and_forgets_on_reset() -> None:
    estimate = L1Estimate(L1Gains(force_limit_m_s2=1.0), 0.004, Arrays(2))
    velocity = np.zeros((2, 6))
    for _ in range(2000):
        estimate.update(velocity, np.zeros((2, 6)))
        velocity = velocity + 0.004 * 5.0
    np.testing.assert_allclose(estimate.missing[:, :3], 1.0)
    estimate.reset(0)
    np.testing.assert_allclose(estimate.missing[0], 0.0)
    np.testing.assert_allclose(estimate.missing[1, :3], 1.0)
    after = estimate.update(np.full((2, 6), 7.0), np.zeros((2, 6)))
    np.testing.assert_allclose(after[0], 0.0)


def test_adaptive_carries_a_weight_that_it_does_not_know() -> None:
    """A point mass on the vertical, 30 % heavier: the geometric law hangs low, the adaptive one does not."""
    heights = {}
    for name, controller in (("geometric", geometric()), ("adaptive", AdaptiveController.of(IRIS, dt_s=0.004))):
        z, speed = 0.0, 0.0
        for _ in range(3000):
            thrust = controller.update(target(pos=(0, 0, 0)), state(pos=(0, 0, z), vel=(0, 0, speed)))[0, 0]
            speed += 0.004 * (thrust / (1.3 * MASS) - G)
            z += 0.004 * speed
        heights[name] = z
    assert heights["geometric"] == pytest.approx(-0.3 * G / 45.0, rel=0.02)
    assert abs(heights["adaptive"]) < 2e-3  # the piecewise-constant law finds 99 % of it


def test_adaptive_meets_a_moment_that_it_does_not_know() -> None:
    """Something turns the vehicle with 2 rad/s^2: the geometric law lets it turn, the adaptive one does not."""
    turning = {}
    options = {"control_mask": "cmd_ctbr"}
    goal = {"thrust": np.array([[WEIGHT]]), "ang_vel": np.zeros((1, 3))}
    for name, controller in (
        ("geometric", geometric(**options)),
        ("adaptive", AdaptiveController.of(IRIS, dt_s=0.004, **options)),
    ):
        rate = 0.0
        for _ in range(750):
            moment = controller.update(goal, state(ang_vel=(rate, 0, 0)))[0, 1]
            rate += 0.004 * (moment / INERTIA[0] + 2.0)
        turning[name] = rate
    assert turning["geometric"] == pytest.approx(2.0 / 28.0, rel=0.01)
    assert abs(turning["adaptive"]) < 0.1 * turning["geometric"]


def test_adaptive_is_geometric_where_nothing_is_missing() -> None:
    """In a hover that is what it should be, the estimate is nothing."""
    adaptive = AdaptiveController.of(IRIS, dt_s=0.004)
    for _ in range(50):
        wrench = adaptive.update(target(pos=(0, 0, 0)), state())
    np.testing.assert_allclose(wrench, [[WEIGHT, 0, 0, 0]], atol=1e-9)
    np.testing.assert_allclose(adaptive.disturbance, 0, atol=1e-9)


def test_adaptive_hears_what_the_rotors_gave() -> None:
    """Rotors that can give less: told so, the estimate does not take the difference for a weight."""
    weak = {"max_speed_rad_s": 700.0}
    found = {}
    for told in (True, False):
        adaptive = AdaptiveController.of(IRIS, dt_s=0.004)
        mixer = Mixer.of(IRIS, **weak)
        stack = FlightStack(adaptive, mixer)
        if not told:
            stack._tell = None
        speed = 0.0
        for _ in range(1000):
            speeds = stack.update(target(pos=(0, 0, 3)), state(vel=(0, 0, speed)))
            speed += 0.004 * (mixer.wrench_of(speeds)[0, 0] / MASS - G)
        found[told] = abs(adaptive.disturbance[0, 2])
    assert found[True] < 0.05
    assert found[False] > 1.0


def test_a_broken_world_keeps_it_to_itself_and_is_cured_by_a_reset() -> None:
    adaptive = AdaptiveController.of(IRIS, dt_s=0.004, arrays=Arrays(2))
    goal = {"pos": np.zeros((2, 3)), "att_euler": np.zeros((2, 3))}
    good = state(2)
    bad = good | {"vel": np.array([[math.nan] * 3, [0.0] * 3])}
    adaptive.update(goal, bad)
    wrench = adaptive.update(goal, good)
    assert np.isfinite(wrench[1]).all()
    assert not np.isfinite(wrench[0]).all()
    adaptive.reset([0])
    np.testing.assert_allclose(adaptive.update(goal, good)[0], [WEIGHT, 0, 0, 0], atol=1e-6)


@pytest.mark.parametrize(
    ("make", "named"),
    [
        (lambda: geometric(mass_kg=0.0), "mass_kg"),
        (lambda: GeometricGains(position=-1.0), "position"),
        (lambda: GeometricGains(velocity=0.0), "velocity"),
        (lambda: L1Gains(pole_rad_s=0.0), "pole_rad_s"),
        (lambda: L1Gains(force_limit_m_s2=-1.0), "force_limit_m_s2"),
        (lambda: AdaptiveController.of(IRIS, dt_s=0.0), "dt_s"),
        (lambda: LeeController("hover", mass_kg=1.0, inertia_kg_m2=np.eye(3)), "position, velocity"),
        (lambda: LeeController("position", mass_kg=1.0, inertia_kg_m2=np.ones(3)), "inertia_kg_m2"),
        (lambda: LeeGains(rotation=-1.0), "rotation"),
        (lambda: geometric(control_mask="cmd_jump"), "cmd_ctbm"),
    ],
)
def test_what_cannot_be_is_named(make, named: str) -> None:
    with pytest.raises(UsageError, match=named):
        make()


def test_what_is_missing_is_named() -> None:
    for controller in (geometric(), AdaptiveController.of(IRIS, dt_s=0.004)):
        with pytest.raises(UsageError, match="cmd_pos: target or state lacks 'pos'"):
            controller.update(target(), state())
