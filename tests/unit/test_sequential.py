"""Sequential desaturation, and what all three ways of the mixer have in common."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from firmware_profiles.errors import UsageError
from firmware_profiles.loader import load_profile
from twin.control.arrays import Arrays
from twin.control.mixer import ALLOCATION_MODES, Mixer
from twin.control.sequential import SequentialAllocation, effectiveness_frd, normalised_mix

IRIS = load_profile("px4_iris").vehicle
POSITIONS = [[1.0, 1.0, 0.0], [-1.0, -1.0, 0.0], [1.0, -1.0, 0.0], [-1.0, 1.0, 0.0]]
RATIO = [0.05, 0.05, -0.05, -0.05]
MIX = normalised_mix(effectiveness_frd(POSITIONS, RATIO))[0]
MIXERS = {mode: Mixer.of(IRIS, allocation_mode=mode) for mode in ALLOCATION_MODES}
WEIGHT = IRIS.total_mass_kg * 9.80665
share = st.floats(-1.5, 1.5)


def test_px4s_own_numbers_of_a_quad_x() -> None:
    """ActuatorEffectivenessRotorsTest; and the columns that PX4 gets of it."""
    expected = [[-1, 1, 1, -1], [1, -1, 1, -1], RATIO, [0] * 4, [0] * 4, [-1] * 4]
    np.testing.assert_allclose(effectiveness_frd(POSITIONS, RATIO), expected, atol=1e-15)
    half = math.sqrt(0.5)
    np.testing.assert_allclose(MIX[:, 0], [-half, half, half, -half])
    np.testing.assert_allclose(MIX[:, 2], [1, 1, -1, -1])
    np.testing.assert_allclose(MIX[:, 5], -1)


@given(share, share, share, st.floats(-1.2, 0.1), st.sampled_from((0, 1, 2)))
def test_yaw_takes_nothing_from_roll_and_pitch(roll, pitch, yaw, thrust, airmode) -> None:
    """Yaw and thrust are all that is changed for yaw's sake, and their columns have no roll and no pitch."""
    control = np.array([[roll, pitch, yaw, thrust]])
    ours, alone = (SequentialAllocation(MIX, airmode).allocate(c) for c in (control, control * (1, 1, 0, 1)))
    back = np.linalg.pinv(MIX[:, [0, 1, 2, 5]]).T
    np.testing.assert_allclose((ours @ back)[0, :2], (alone @ back)[0, :2], atol=1e-12)


@given(share, share, share, st.floats(-1.0, 0.0))
def test_without_airmode_thrust_never_rises(roll: float, pitch: float, yaw: float, thrust: float) -> None:
    ours = np.clip(SequentialAllocation(MIX, 0).allocate(np.array([[roll, pitch, yaw, thrust]])), 0, 1)
    assert ours.mean() <= -thrust + 1e-9


def test_a_weak_actuator_has_no_say() -> None:
    """Rotors 2 and 3 are beyond their limits by pitch; roll moves them by a tenth only and is left alone."""
    mix = np.zeros((4, 6))
    mix[:, 0], mix[:, 1], mix[:, 5] = (0.5, -0.5, 0.1, -0.1), (0.0, 0.0, 1.0, -1.0), -1.0
    ours = SequentialAllocation(mix, 0).allocate(np.array([[0.0, 0.6, 0.0, -0.5]]))
    np.testing.assert_allclose(ours, [[0.5, 0.5, 1.0, 0.0]], atol=1e-12)


def test_airmode_raises_thrust_for_roll() -> None:
    control = np.array([[0.5, 0.0, 0.0, 0.0]])
    assert np.clip(SequentialAllocation(MIX, 0).allocate(control), 0, 1).max() == 0.0
    lifted = np.clip(SequentialAllocation(MIX, 1).allocate(control), 0, 1)
    np.testing.assert_allclose(lifted @ MIX[:, 0], MIX[:, 0] @ MIX[:, 0] * 0.5)


@pytest.mark.parametrize(
    ("make", "named"),
    [
        (lambda: SequentialAllocation(np.zeros((4, 5))), "mix"),
        (lambda: SequentialAllocation(MIX, 3), "0, 1, 2"),
        (lambda: Mixer.of(IRIS, allocation_mode="px4", airmode=7), "airmode"),
        (lambda: Mixer.of(IRIS, allocation_mode="lsq"), "pinv, saturation, px4"),
    ],
)
def test_allocations_that_cannot_be(make, named: str) -> None:
    with pytest.raises(UsageError, match=named):
        make()


@pytest.mark.parametrize("mode", ALLOCATION_MODES)
@given(st.floats(0.7, 1.3), st.floats(-0.3, 0.3), st.floats(-0.3, 0.3), st.floats(-0.05, 0.05))
@settings(max_examples=50)
def test_what_fits_comes_back(mode: str, lift: float, roll: float, pitch: float, yaw: float) -> None:
    """Allocation and its inverse; PX4's takes what is under a thousandth of its mix for nothing."""
    wrench = np.array([[lift * WEIGHT, roll, pitch, yaw]])
    mixer = MIXERS[mode]
    np.testing.assert_allclose(mixer.wrench_of(mixer.allocate(wrench)), wrench, atol=1e-9 if mode != "px4" else 2e-3)


@given(st.floats(0.1, 0.9), st.floats(-2.0, 2.0), st.floats(-2.0, 2.0), st.floats(-3.0, 3.0))
@settings(max_examples=100)
def test_roll_and_pitch_come_before_yaw(lift: float, roll: float, pitch: float, yaw: float) -> None:
    """Roll and pitch with a yaw demand are those without one, and yaw is never of the wrong sign."""
    wrench = np.array([[lift * 4 * 5.84e-6 * 1100.0**2, roll, pitch, yaw]])
    mixer = MIXERS["saturation"]
    ours, level = (mixer.wrench_of(mixer.allocate(w))[0] for w in (wrench, wrench * (1, 1, 1, 0)))
    np.testing.assert_allclose(ours[1:3], level[1:3], atol=1e-9)
    assert ours[3] * yaw >= -1e-6 * abs(yaw)
    assert abs(ours[3]) <= abs(yaw) + 1e-9


@given(st.floats(0.05, 0.95), st.floats(-3.0, 3.0), st.floats(-3.0, 3.0), st.floats(-3.0, 3.0))
def test_saturation_keeps_thrust_and_the_direction_of_the_moment(lift, roll, pitch, yaw) -> None:
    most = 4 * 5.84e-6 * 1100.0**2
    mixer = MIXERS["saturation"]
    ours = mixer.wrench_of(mixer.allocate(np.array([[lift * most, roll, pitch, yaw]])))[0]
    # The mean squared speed is kept; iris' rotors are not quite symmetric, and thrust is that mean.
    np.testing.assert_allclose(ours[0], lift * most, rtol=1e-9)
    np.testing.assert_allclose(ours[1] * pitch, ours[2] * roll, atol=1e-6)


@pytest.mark.parametrize("mode", ALLOCATION_MODES)
def test_parameters_of_each_world(mode: str) -> None:
    """Two vehicles in one mixer are the two by themselves."""
    c_t, most = np.array([[5e-6], [8e-6]]), np.array([[1100.0], [900.0]])
    wrench = np.array([[10.0, 0.5, -0.3, 0.05], [14.0, -0.8, 0.2, -0.1]])
    options = {"thrust_coefficient_n_s2": c_t, "max_speed_rad_s": most, "allocation_mode": mode}
    together = Mixer.of(IRIS, arrays=Arrays(2), **options).allocate(wrench)
    for world in range(2):
        own = options | {"thrust_coefficient_n_s2": c_t[world, 0], "max_speed_rad_s": most[world, 0]}
        np.testing.assert_allclose(Mixer.of(IRIS, **own).allocate(wrench[world : world + 1])[0], together[world])


def test_rotor_speeds_are_kept_within_their_limits() -> None:
    ours = MIXERS["pinv"].within(np.array([[-5.0, 500.0, 1100.0, 2000.0]]))
    np.testing.assert_array_equal(ours, [[0.0, 500.0, 1100.0, 1100.0]])
