"""What keeps the vehicle on the ground: one line each, of at most 50 characters (a STATUSTEXT), as plain functions."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from twin.environment import STANDARD_GRAVITY_M_S2

if TYPE_CHECKING:
    from firmware_profiles.signals import GpsFix, Vec3

MAX_TILT_DEG = 30.0
MAX_GRAVITY_ERROR_M_S2 = 0.8
MAX_GYRO_AT_REST_RAD_S = 0.05
MAX_ACCEL_BIAS_M_S2 = 0.4
MIN_SATELLITES, MAX_EPH_M, MAX_EPV_M = 6, 3.0, 5.0
"""PX4's own limits: EKF2_REQ_NSATS, EKF2_REQ_EPH, EKF2_REQ_EPV."""
MAX_FIELD_RATIO = 1.25
MAX_INCLINATION_ERROR_DEG = 10.0
MAX_BARO_GPS_M = 50.0
"""The simulated atmosphere follows the law of the barometer, at QNH 1013.25 hPa: the two agree within metres. A real
day differs by up to 300 m."""
MIN_HORIZONTAL_GAUSS = 0.03
"""Near the magnetic poles a compass has nothing to point along."""


def length(v: Vec3) -> float:
    """Euclidean length."""
    return math.sqrt(v[0] * v[0] + v[1] * v[1] + v[2] * v[2])


def gravity_faults(accel: Vec3) -> list[str]:
    """Of the mean specific force at rest, FRD [m/s^2]."""
    force = length(accel)
    if abs(force - STANDARD_GRAVITY_M_S2) > MAX_GRAVITY_ERROR_M_S2:
        return [f"accelerometer reads {force:.1f} m/s2 at rest, not 9.8"]
    tilt = math.degrees(math.acos(max(-1.0, min(1.0, -accel[2] / force))))
    if tilt > 90.0:
        return ["accelerometer says upside down"]
    if tilt > MAX_TILT_DEG:
        return [f"accelerometer says tilted by {tilt:.0f} degrees"]
    return []


def gyro_faults(rates: Vec3) -> list[str]:
    """Of the mean angular velocity at rest, or of the bias, FRD [rad/s]."""
    return [
        f"gyroscope {axis} reads {math.degrees(rate):.1f} deg/s at rest"
        for axis, rate in zip("xyz", rates, strict=True)
        if abs(rate) > MAX_GYRO_AT_REST_RAD_S
    ]


def accel_bias_faults(bias: Vec3) -> list[str]:
    """Of the estimated bias, FRD [m/s^2]."""
    return [
        f"accelerometer {axis} is off by {value:.2f} m/s2"
        for axis, value in zip("xyz", bias, strict=True)
        if abs(value) > MAX_ACCEL_BIAS_M_S2
    ]


def gps_faults(fix: GpsFix | None) -> list[str]:
    """Of the newest fix."""
    if fix is None:
        return ["no GPS"]
    if fix.fix_type < 3:
        return ["no GPS fix"]
    faults = []
    if fix.satellites < MIN_SATELLITES:
        faults.append(f"GPS sees {fix.satellites} satellites, {MIN_SATELLITES} needed")
    if fix.eph_m > MAX_EPH_M:
        faults.append(f"GPS accuracy {fix.eph_m:.1f} m, {MAX_EPH_M:.0f} m needed")
    if fix.epv_m > MAX_EPV_M:
        faults.append(f"GPS height accuracy {fix.epv_m:.1f} m, {MAX_EPV_M:.0f} m needed")
    return faults


def field_faults(measured: Vec3, expected: Vec3) -> list[str]:
    """Of the magnetic field, both in NED, the measured one turned there by the estimated attitude [gauss]."""
    strength, model = length(measured), length(expected)
    if not model / MAX_FIELD_RATIO < strength < model * MAX_FIELD_RATIO:
        return ["magnetic strength disagrees with the world model"]
    if abs(inclination_deg(measured) - inclination_deg(expected)) > MAX_INCLINATION_ERROR_DEG:
        return ["magnetic inclination disagrees with world model"]
    if math.hypot(expected[0], expected[1]) < MIN_HORIZONTAL_GAUSS:
        return ["no heading: the magnetic field is vertical here"]
    return []


def inclination_deg(field_ned: Vec3) -> float:
    """How steeply the field points into the ground [degrees]."""
    return math.degrees(math.atan2(field_ned[2], math.hypot(field_ned[0], field_ned[1])))


def height_faults(baro_alt_m: float, gps_alt_m: float) -> list[str]:
    """Of the two heights above mean sea level [m]."""
    apart = baro_alt_m - gps_alt_m
    return [f"barometer is {apart:.0f} m off the GPS altitude"] if abs(apart) > MAX_BARO_GPS_M else []
