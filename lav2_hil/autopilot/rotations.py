"""Attitude in plain floats, for one vehicle at every sample; `twin.frames` has the same for arrays."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from firmware_profiles.signals import Quat, Vec3


def rotation_rows(q: Quat) -> tuple[Vec3, Vec3, Vec3]:
    """Rows of the rotation matrix of one unit quaternion."""
    w, x, y, z = q
    return (
        (1.0 - 2.0 * (y * y + z * z), 2.0 * (x * y - w * z), 2.0 * (x * z + w * y)),
        (2.0 * (x * y + w * z), 1.0 - 2.0 * (x * x + z * z), 2.0 * (y * z - w * x)),
        (2.0 * (x * z - w * y), 2.0 * (y * z + w * x), 1.0 - 2.0 * (x * x + y * y)),
    )


def rotate(rows: tuple[Vec3, Vec3, Vec3], v: Vec3) -> Vec3:
    """R v."""
    x, y, z = v
    a, b, c = rows
    return (
        a[0] * x + a[1] * y + a[2] * z,
        b[0] * x + b[1] * y + b[2] * z,
        c[0] * x + c[1] * y + c[2] * z,
    )


def attitude_at_rest(accel: Vec3, field: Vec3, declination: float) -> Quat:
    """Attitude from what the accelerometer and the magnetometer read at rest, FRD.

    Args:
        accel: specific force, of any length.
        field: magnetic field, of any length.
        declination: angle from true to magnetic north [rad].

    Returns:
        q_ned_frd: roll and pitch by the accelerometer, heading by what is horizontal of the field.
    """
    x, y, z = accel
    roll = math.atan2(-y, -z)
    pitch = math.atan2(x, math.hypot(y, z))
    level = rotate(rotation_rows(_euler(roll, pitch, 0.0)), field)
    return _euler(roll, pitch, declination - math.atan2(level[1], level[0]))


def _euler(roll: float, pitch: float, yaw: float) -> Quat:
    cr, sr = math.cos(0.5 * roll), math.sin(0.5 * roll)
    cp, sp = math.cos(0.5 * pitch), math.sin(0.5 * pitch)
    cy, sy = math.cos(0.5 * yaw), math.sin(0.5 * yaw)
    return (
        cr * cp * cy + sr * sp * sy,
        sr * cp * cy - cr * sp * sy,
        cr * sp * cy + sr * cp * sy,
        cr * cp * sy - sr * sp * cy,
    )
