"""The filter's error state: its layout, what moves it, and what is known of it after levelling at rest."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from lav2_hil.autopilot.rotations import rotation_rows
from twin.environment import STANDARD_GRAVITY_M_S2

if TYPE_CHECKING:
    from firmware_profiles.signals import Quat, Vec3

FloatArray = npt.NDArray[np.float64]

POS, VEL, ATT, GYRO_BIAS, ACCEL_BIAS = (slice(i, i + 3) for i in range(0, 15, 3))
GAIN = slice(15, 17)
SIZE = 17

# What moves the state between measurements, as densities: generous against the sensors of the shipped profiles (0.00126
# m/s^2/sqrt(Hz) and 0.000126 rad/s/sqrt(Hz)), because integration is not exact and real vehicles shake.
NOISE_PER_S = np.array(
    [0.0] * 3  # position
    + [0.02**2] * 3  # velocity [(m/s)^2/s]
    + [0.001**2] * 3  # attitude [rad^2/s]
    + [2e-5**2] * 3  # gyroscope bias
    + [5e-4**2] * 3  # accelerometer bias
    + [0.005**2] * 2  # sensitivities
)
_START_GYRO_BIAS = 1e-3
_START_ACCEL_BIAS = 0.05
_START_TILT = 0.003
_START_HEADING = 0.03
_START_GAIN = 0.5
_START_POS = 0.3
_START_VEL = 0.1
FLOOR = np.array([1e-6] * 3 + [1e-6] * 3 + [1e-9] * 3 + [1e-12] * 3 + [1e-9] * 3 + [1e-6] * 2)
_REST_ACCEL = 0.01


def start_covariance(q_ned_frd: Quat, force_frd: Vec3, field_ned: Vec3) -> tuple[FloatArray, FloatArray]:
    """What is known at rest, where accelerometer errors have become tilt, and tilt has become heading.

    Args:
        q_ned_frd: attitude by the accelerometer and the magnetometer.
        force_frd: mean of the accelerometer [m/s^2].
        field_ned: the magnetic field, horizontal part not zero.

    Returns:
        The covariance (17, 17), and the error (17,) that the length of the force tells.
    """
    sigma = np.repeat(
        [_START_POS, _START_VEL, _START_TILT, _START_GYRO_BIAS, _START_ACCEL_BIAS, _START_GAIN], (3, 3, 3, 3, 3, 2)
    )
    sigma[8] = _START_HEADING
    north, east, down = np.array(rotation_rows(q_ned_frd))
    force = np.array(force_frd)
    to_tilt = np.eye(SIZE)
    to_tilt[6, ACCEL_BIAS] = east / STANDARD_GRAVITY_M_S2
    to_tilt[7, ACCEL_BIAS] = -north / STANDARD_GRAVITY_M_S2
    to_tilt[6, GAIN] = -(east * force)[:2] / STANDARD_GRAVITY_M_S2
    to_tilt[7, GAIN] = (north * force)[:2] / STANDARD_GRAVITY_M_S2
    to_heading = np.eye(SIZE)
    to_heading[8, 6:8] = np.array(field_ned[:2]) * (field_ned[2] / (field_ned[0] ** 2 + field_ned[1] ** 2))
    root = to_heading @ to_tilt * sigma
    covariance = root @ root.T
    # The vehicle does not accelerate downwards either: one measurement.
    row = np.zeros(SIZE)
    row[ACCEL_BIAS] = -down
    row[GAIN] = (down * force)[:2]
    column = covariance @ row
    variance = float(row @ column) + _REST_ACCEL**2
    error = column * (-(float(down @ force) + STANDARD_GRAVITY_M_S2) / variance)
    return covariance - np.outer(column, column) / variance, error
