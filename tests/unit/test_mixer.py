"""The mixer: signs, invariants of both allocation modes, parameters per world, other array libraries."""

import math

import array_api_strict
import numpy as np
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

from firmware_profiles.errors import UsageError
from firmware_profiles.loader import load_profile
from twin.control.arrays import Arrays
from twin.control.mixer import Mixer
from twin.control.thrust_curve import NormalisedThrust, apply_thrust_curve, invert_thrust_curve

IRIS = load_profile("px4_iris").vehicle
C_T, C_M = IRIS.propeller.thrust_coefficient_n_s2, IRIS.propeller.torque_coefficient_nm_s2
MAX_SPEED = IRIS.propeller.max_speed_rad_s
MAX_THRUST = 4 * C_T * MAX_SPEED**2
FLT_EPSILON = 1.1920929e-07
FRONT_RIGHT, REAR_LEFT, FRONT_LEFT, REAR_RIGHT = range(4)

PINV, SATURATION = Mixer.of(IRIS), Mixer.of(IRIS, allocation_mode="saturation")
thrusts = st.floats(-10.0, 1.5 * MAX_THRUST)
moments = st.floats(-8.0, 8.0) | st.floats(-0.3, 0.3) | st.just(0.0)


def one(*wrench: float) -> np.ndarray:
    return np.array([wrench], dtype=np.float64)


@pytest.mark.parametrize("mixer", [PINV, SATURATION])
@pytest.mark.parametrize(
    ("wrench", "faster"),
    [
        ((15.0, 0.3, 0.0, 0.0), {FRONT_LEFT, REAR_LEFT}),  # right side down: the left pushes
        ((15.0, 0.0, 0.3, 0.0), {REAR_LEFT, REAR_RIGHT}),  # nose down: the rear pushes
        ((15.0, 0.0, 0.0, 0.1), {FRONT_LEFT, REAR_RIGHT}),  # to the left: the clockwise ones push back
        ((15.0, -0.3, 0.0, 0.0), {FRONT_RIGHT, REAR_RIGHT}),
        ((15.0, 0.0, -0.3, 0.0), {FRONT_LEFT, FRONT_RIGHT}),
        ((15.0, 0.0, 0.0, -0.1), {FRONT_RIGHT, REAR_LEFT}),
    ],
)
def test_which_rotors_turn_faster(mixer: Mixer, wrench: tuple, faster: set) -> None:
    speeds = mixer.allocate(one(*wrench))[0]
    assert set(np.flatnonzero(speeds > IRIS.hover_speed_rad_s())) == faster


@pytest.mark.parametrize("mixer", [PINV, SATURATION])
def test_hover_and_rest_and_full(mixer: Mixer) -> None:
    weight = IRIS.body.mass_kg * IRIS.environment.gravity_m_s2
    np.testing.assert_allclose(mixer.allocate(one(weight, 0, 0, 0)), IRIS.hover_speed_rad_s())
    np.testing.assert_allclose(mixer.allocate(one(0, 0, 0, 0)), 0.0, atol=1e-6)
    np.testing.assert_allclose(mixer.allocate(one(MAX_THRUST, 0, 0, 0)), MAX_SPEED)
    np.testing.assert_allclose(mixer.allocate(one(9 * MAX_THRUST, 0, 0, 0)), MAX_SPEED)
    np.testing.assert_allclose(mixer.allocate(one(-5.0, 0, 0, 0)), 0.0, atol=1e-3)
    np.testing.assert_allclose(mixer.allocate_rpm(one(MAX_THRUST, 0, 0, 0)), MAX_SPEED * 30 / math.pi)


@settings(max_examples=300, deadline=None)
@given(st.tuples(thrusts, moments, moments, moments))
def test_saturation(wrench: tuple[float, float, float, float]) -> None:
    thrust, roll, pitch, yaw = wrench
    speeds = SATURATION.allocate(one(*wrench))
    assert np.isfinite(speeds).all()
    assert (speeds >= 0).all()
    assert (speeds <= MAX_SPEED * (1 + 1e-12)).all()
    got = SATURATION.wrench_of(speeds)[0]
    # Thrust is kept whenever the rotors can give it at all.
    assert math.isclose(got[0], min(max(thrust, 0.0), MAX_THRUST), abs_tol=1e-9)
    # Roll and pitch shrink together, and do not turn round.
    assert math.isclose(got[1] * pitch, got[2] * roll, abs_tol=1e-9 * (1 + abs(roll) + abs(pitch)))
    assert got[1] * roll >= -1e-9
    assert got[2] * pitch >= -1e-9
    assert abs(got[1]) <= abs(roll) + 1e-9
    # Yaw gives way first: where roll and pitch had to shrink, or fill all there is, what yaw gets is what is left over.
    level = SATURATION.wrench_of(SATURATION.allocate(one(thrust, roll, pitch, 0.0)))[0]
    np.testing.assert_allclose(got[:3], level[:3], atol=1e-9)
    assert got[3] * yaw >= -1e-9
    assert abs(got[3]) <= abs(yaw) + 1e-9
    if abs(got[3]) < abs(yaw) - 1e-9:
        assert speeds.min() < 1e-3 or speeds.max() > MAX_SPEED * (1 - 1e-9), "no yaw is given away"
    level_fits = np.allclose(level[:3], wrench[:3], rtol=0, atol=1e-12)
    if level_fits and math.isclose(got[3], yaw, abs_tol=1e-12):
        np.testing.assert_allclose(speeds**2, PINV.allocate(one(*wrench)) ** 2, atol=1e-3)


@settings(max_examples=100, deadline=None)
@given(st.tuples(thrusts, moments, moments, moments))
def test_pinv_is_exact_where_it_fits_and_clips_elsewhere(wrench: tuple[float, float, float, float]) -> None:
    speeds = PINV.allocate(one(*wrench))
    assert np.isfinite(speeds).all()
    assert ((speeds >= 0) & (speeds <= MAX_SPEED * (1 + 1e-12))).all()
    if speeds.min() > 1 and speeds.max() < MAX_SPEED - 1:
        np.testing.assert_allclose(PINV.wrench_of(speeds)[0], wrench, rtol=1e-9, atol=1e-9)


def test_yaw_is_lost_before_roll_where_pinv_loses_both() -> None:
    wrench = one(0.9 * MAX_THRUST, 0.4, 0.0, 1.5)
    saturation = SATURATION.wrench_of(SATURATION.allocate(wrench))[0]
    pinv = PINV.wrench_of(PINV.allocate(wrench))[0]
    np.testing.assert_allclose(saturation[:3], wrench[0, :3], atol=1e-9)
    assert 0.0 < saturation[3] < 1.5
    assert pinv[0] < wrench[0, 0] - 0.5


@pytest.mark.parametrize("mode", ["pinv", "saturation"])
def test_parameters_per_world(mode: str) -> None:
    c_t, c_m = np.array([[1.0], [1.2], [0.8]]) * C_T, np.array([[1.0], [0.7], [1.3]]) * C_M
    top = np.array([[1100.0], [900.0], [1000.0]])
    many = Mixer.of(
        IRIS,
        thrust_coefficient_n_s2=c_t,
        torque_coefficient_nm_s2=c_m,
        max_speed_rad_s=top,
        allocation_mode=mode,
        arrays=Arrays(3),
    )
    wrench = np.array([[15.0, 0.1, -0.2, 0.05], [20.0, 3.0, 1.0, 0.1], [9.0, 0.0, 0.4, -0.4]])
    together = many.allocate(wrench)
    for world in range(3):
        alone = Mixer.of(
            IRIS,
            thrust_coefficient_n_s2=c_t[world, 0],
            torque_coefficient_nm_s2=c_m[world, 0],
            max_speed_rad_s=top[world, 0],
            allocation_mode=mode,
        )
        np.testing.assert_allclose(together[world : world + 1], alone.allocate(wrench[world : world + 1]), rtol=1e-12)
    mild = wrench * 0.1 + one(12.0, 0, 0, 0)
    np.testing.assert_allclose(many.wrench_of(many.allocate(mild)), mild, rtol=1e-9, atol=1e-12)


def test_a_rotor_at_its_limit_does_not_bind_what_does_not_concern_it() -> None:
    """Neither a part of 0, of either sign, nor a rounding error takes the others' share away."""
    top = MAX_SPEED**2
    base = np.array([[0.0, top, 0.5 * top, 0.5 * top]])
    for nothing in (0.0, -0.0, 1e-17 * top, -1e-17 * top):
        part = np.array([[nothing, nothing, 0.25 * top, -top]])
        np.testing.assert_allclose(SATURATION._share(base, part), 0.5)
    assert SATURATION._share(base, np.array([[-top, 0.0, 0.0, 0.0]])) < 1e-14


def test_parameters_for_all_worlds_as_one_row() -> None:
    mixer = Mixer.of(IRIS, thrust_coefficient_n_s2=[[C_T]], arrays=Arrays(3))
    np.testing.assert_allclose(
        mixer.allocate(np.tile(one(15.0, 0.1, 0.2, 0.0), (3, 1))), [PINV.allocate(one(15, 0.1, 0.2, 0))[0]] * 3
    )


@pytest.mark.parametrize("mode", ["pinv", "saturation"])
def test_six_rotors_and_a_world_that_is_not_finite(mode: str) -> None:
    angles = np.radians([30, 90, 150, 210, 270, 330])
    mixer = Mixer(
        rotor_xy_m=np.stack((np.cos(angles), np.sin(angles)), axis=1),
        spin_dir=[1, -1, 1, -1, 1, -1],
        thrust_coefficient_n_s2=1e-5,
        torque_coefficient_nm_s2=1e-6,
        max_speed_rad_s=1000.0,
        allocation_mode=mode,
        arrays=Arrays(2),
    )
    assert mixer.rotors == 6
    wrench = np.array([[30.0, 1.0, -2.0, 0.3], [math.nan, 0.0, math.inf, 0.0]])
    speeds = mixer.allocate(wrench)
    np.testing.assert_allclose(mixer.wrench_of(speeds)[0], wrench[0])
    assert np.isnan(speeds[1]).any()


@pytest.mark.parametrize("mode", ["pinv", "saturation"])
@pytest.mark.parametrize(("xp", "dtype"), [(torch, "float64"), (torch, "float32"), (array_api_strict, "float64")])
def test_one_code_path(mode: str, xp, dtype: str) -> None:
    rng = np.random.default_rng(3)
    wrench = rng.normal(size=(50, 4)) * (10.0, 1.0, 1.0, 0.3) + (15.0, 0.0, 0.0, 0.0)
    arrays = Arrays(50, xp, dtype)
    ours = Mixer.of(IRIS, allocation_mode=mode, arrays=arrays).allocate(arrays.array(wrench))
    reference = Mixer.of(IRIS, allocation_mode=mode, arrays=Arrays(50)).allocate(wrench)
    scale = 1e-5 if dtype == "float32" else 1e-12
    np.testing.assert_allclose(np.asarray(ours) ** 2, reference**2, atol=scale * MAX_SPEED**2)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"allocation_mode": "lp"}, "allowed: pinv, saturation"),
        ({"spin_dir": [1, 1, 1, 0]}, "spin_dir: expected 1"),
        ({"spin_dir": [1, 1, 1, 1]}, "do not give all of thrust, roll, pitch and yaw"),
        ({"rotor_xy_m": [[1, 0], [0, 0], [-1, 0], [2, 0]]}, "do not give all"),
        ({"rotor_xy_m": [[1, 0, 0]] * 4}, r"expected \(R, 2\)"),
        ({"rotor_xy_m": [[1, 1], [1, -1], [-1, 1]], "spin_dir": [1, 1, -1]}, "do not give all"),
        ({"thrust_coefficient_n_s2": 0.0}, "thrust_coefficient_n_s2: expected numbers above 0"),
        ({"max_speed_rad_s": math.inf}, "max_speed_rad_s"),
        ({"thrust_coefficient_n_s2": [[1e-5], [1e-5]]}, "of 2 worlds, expected 1"),
    ],
)
def test_mixers_that_cannot_be(options: dict, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        Mixer.of(IRIS, **options)


@settings(max_examples=200, deadline=None)
@given(st.floats(-1.0, 1.0), st.floats(0.0, 1.0))
@example(6.103515625e-05, 1.0)
def test_thrust_curve_and_its_inverse(signal: float, factor: float) -> None:
    x, f = one(signal), one(factor)
    thrust = apply_thrust_curve(x, f)
    own = abs(thrust.item()) <= FLT_EPSILON  # its own signal, as in PX4: with f near 1 far from the one that gave it
    np.testing.assert_allclose(invert_thrust_curve(thrust, f), thrust if own else x, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(apply_thrust_curve(-x, f), -thrust)
    assert abs(thrust.item()) <= abs(signal) + 1e-15


def test_thrust_curve_by_known_values() -> None:
    thrust = np.array([[0.1, 0.25, 0.5, 0.75, 1.0]])
    np.testing.assert_allclose(
        invert_thrust_curve(thrust, one(0.3)), [[0.135042, 0.314699, 0.573384, 0.798304, 1.0]], atol=1e-6
    )
    np.testing.assert_allclose(invert_thrust_curve(one(0.25), one(1.0)), 0.5)
    for no_curve in (0.0, -0.5, 1.5, math.nan):
        np.testing.assert_array_equal(invert_thrust_curve(thrust, one(no_curve)), thrust)
        np.testing.assert_array_equal(apply_thrust_curve(thrust, one(no_curve)), thrust)
    assert np.isnan(invert_thrust_curve(one(math.nan), one(0.3))).all()


def test_normalised_thrust() -> None:
    curve = NormalisedThrust(MAX_THRUST, 0.3)
    weight = one(15.05)
    np.testing.assert_allclose(curve.newtons(curve.signal(weight)), weight)
    np.testing.assert_allclose(curve.newtons(one(1.0)), MAX_THRUST)
    strict = Arrays(2, array_api_strict)
    two = NormalisedThrust([[10.0], [20.0]], [[0.0], [1.0]], strict)
    np.testing.assert_allclose(np.asarray(two.newtons(strict.array([[0.5], [0.5]]))), [[5.0], [5.0]])
    for bad in ({"max_thrust_n": 0.0}, {"max_thrust_n": 1.0, "curve_factor": 1.1}):
        with pytest.raises(UsageError):
            NormalisedThrust(**bad)
