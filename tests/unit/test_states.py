"""State dictionaries, and the errors that a controller is told."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.spatial.transform import Rotation

from firmware_profiles.errors import UsageError
from firmware_profiles.loader import load_profile
from twin.control.state_noise import AttitudeNoise, StateNoise
from twin.control.states import flight_state, ground_state

IRIS = load_profile("px4_iris").vehicle


@given(st.floats(-3.1, 3.1), st.floats(-1.5, 1.5), st.floats(-3.1, 3.1))
def test_state_dictionaries(roll: float, pitch: float, yaw: float) -> None:
    rotation = Rotation.from_euler("XYZ", (roll, pitch, yaw))
    pos, vel, rates = (np.array([row]) for row in ((1.0, 2, 3), (4.0, 5, 6), (7.0, 8, 9)))
    quat = rotation.as_quat()[None]
    flight = flight_state(pos, vel, quat, rates, xp=np)
    assert list(flight) == ["pos", "vel", "att_euler", "att_quat", "att_rotmat", "ang_vel"]
    np.testing.assert_allclose(flight["att_rotmat"], rotation.as_matrix().reshape(1, 9), atol=1e-12)
    np.testing.assert_allclose(flight["att_euler"], [[roll, pitch, yaw]], atol=1e-9)
    ground = ground_state(pos, vel, quat, rates, xp=np)
    assert list(ground) == ["pos", "att_euler", "vel_b", "ang_vel"]
    np.testing.assert_allclose(ground["vel_b"], rotation.inv().apply(vel), atol=1e-12)


def noise(n: int = 200, **options) -> StateNoise:
    return StateNoise(IRIS.sensors, tick_us=4000, seed=3, worlds=range(n), **options)


STILL = np.tile((1.0, 2.0, 3.0, 1.0, 0.0, 0.0, 0.0, 4.0, 5.0, 6.0, 0.1, 0.2, 0.3), (200, 1))


def test_state_noise_has_the_sensors_standard_deviations() -> None:
    gnss, imu = IRIS.sensors.gnss, IRIS.sensors.imu
    source = noise()
    told = np.array([source.told(STILL) for _ in range(50)]) - STILL
    white = np.diff(told, axis=0) / math.sqrt(2)  # drift cancels
    for columns, sigma in (
        (slice(0, 2), gnss.horizontal_noise_m),
        (slice(2, 3), gnss.vertical_noise_m),
        (slice(7, 10), gnss.velocity_noise_m_s),
        (slice(10, 13), imu.gyro_noise_density_rad_s_sqrt_hz / math.sqrt(0.004)),
        (slice(4, 7), 0.5 * AttitudeNoise().white_rad),
    ):
        assert white[..., columns].std() == pytest.approx(sigma, rel=0.05)
    np.testing.assert_allclose(np.linalg.norm(told[..., 3:7] + STILL[:, 3:7], axis=-1), 1.0)


def test_state_noise_drifts() -> None:
    quiet = noise(attitude=AttitudeNoise(white_rad=0.0))
    first = quiet.told(STILL)
    for _ in range(5000):  # twenty seconds
        last = quiet.told(STILL)
    share = math.sqrt(1 - math.exp(-2 * 20 / 20))
    assert (2 * last[:, 6]).std() == pytest.approx(0.02 * share, rel=0.15)
    assert (2 * last[:, 4:6]).std() == pytest.approx(0.005 * share, rel=0.15)
    np.testing.assert_array_equal(first[:, 4:7], 0)
    quiet.reset()
    np.testing.assert_array_equal(quiet.told(STILL), first)


def test_a_world_has_the_same_noise_whatever_their_number() -> None:
    few, many = noise(3), noise(200)
    for _ in range(5):
        np.testing.assert_array_equal(few.told(STILL[:3]), many.told(STILL)[:3])


def test_attitude_noise_that_cannot_be() -> None:
    with pytest.raises(UsageError, match="white_rad"):
        AttitudeNoise(white_rad=-1.0)
    with pytest.raises(UsageError, match="drift_time_constant_s"):
        AttitudeNoise(drift_time_constant_s=0.0)
