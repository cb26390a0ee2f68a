"""PX4's rover: mixing, sticks, and the memory of the yaw-rate loop."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from firmware_profiles.errors import UsageError
from twin.control.arrays import Arrays
from twin.control.px4_rover import RoverRateLoop, RoverRateParams, deadzone, mix_throttle, superexpo


@given(st.floats(-1.0, 1.0), st.floats(-1.0, 1.0))
def test_the_difference_is_kept_and_the_throttle_pays(throttle: float, difference: float) -> None:
    right, left = mix_throttle(np.array([throttle]), np.array([difference]))
    assert abs((left - right)[0] / 2 - difference) < 1e-12
    if throttle != 0.0:
        assert max(abs(right[0]), abs(left[0])) <= 1 + 1e-12
    assert abs(right[0] + left[0]) <= 2 * abs(throttle) + 1e-12


@given(st.floats(-1.0, 1.0), st.floats(0.0, 1.0), st.floats(0.0, 0.99), st.floats(0.0, 0.9))
def test_sticks_are_odd_and_reach_their_ends(x: float, expo: float, more: float, width: float) -> None:
    assert superexpo(1.0, expo, more) == pytest.approx(1.0)
    assert superexpo(-x, expo, more) == -superexpo(x, expo, more)
    assert deadzone(np.array(1.0), width) == pytest.approx(1.0)
    assert deadzone(np.array(width), width) == 0.0


def test_a_rover_world_can_be_reset_alone() -> None:
    params = RoverRateParams(track_m=0.5, full_speed_m_s=2.0, p=0.5, i=1.0, accel_rad_s2=2.0, decel_rad_s2=2.0)
    loop = RoverRateLoop(params, 0.02, Arrays(2))
    one, none = np.ones((2, 1)), np.zeros((2, 1))
    first = loop.update(one, none)
    for _ in range(10):
        later = loop.update(one, none)
    loop.reset([0])
    again = loop.update(one, none)
    assert again[0] == first[0]
    assert again[1] > later[1]
    np.testing.assert_array_equal(loop.update(none, none), 0)
    with pytest.raises(UsageError, match="track_m"):
        RoverRateParams(track_m=-1.0, full_speed_m_s=1.0)
