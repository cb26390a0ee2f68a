"""Samples to messages: units, limits, and which fields are announced."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
from pymavlink.dialects.v20 import common

from bridge.codec import Decoder, Encoder
from bridge.hil_messages import SensorEncoder, heartbeat, hil_gps, hil_state_quaternion, odometry
from bridge.link_capacity import ODOMETRY_BYTES
from firmware_profiles.signals import BaroSample, GpsFix, GroundTruth, MotionCapturePose, SensorSample, Vec3
from lav2_hil.autopilot.autopilot import _pose

IMU = SensorSample(1_004_000, (0.1, -0.2, -9.81), (0.01, -0.02, 0.03), None, None, None)
FIX = GpsFix(1_780_000_000_000_000, 47.397742, -8.545594, 488.123, (1.0, -2.0, 0.5), 0.9, 1.25, 12, 3)
TRUTH = GroundTruth(
    (1.0, 0.0, 0.0, 0.0), (0.1, 0.2, 0.3), (0.0, 0.0, 0.0), (3.0, 4.0, 0.0), (0.0, 0.0, -9.80665), -33.5, 151.2, 20.5
)


def wire(message: Any) -> Any:
    """As PX4 reads it."""
    (decoded,) = Decoder().feed(Encoder(1, 200).encode(message))
    return decoded


def test_the_imu_alone_announces_accelerometer_and_gyro() -> None:
    message = wire(SensorEncoder().hil_sensor(IMU))
    assert message.time_usec == 1_004_000
    assert message.fields_updated == 0x03F
    assert (message.xacc, message.yacc, message.zacc) == pytest.approx((0.1, -0.2, -9.81))
    assert (message.xgyro, message.ygyro, message.zgyro) == pytest.approx((0.01, -0.02, 0.03))
    assert message.id == 0


def test_report_19_a_group_is_announced_whole_and_only_when_new() -> None:
    encoder = SensorEncoder()
    mag = replace(IMU, mag_frd_gauss=(0.2, 0.01, 0.43))
    baro = replace(IMU, baro=BaroSample(955.9, 488.0, 21.5))
    both = replace(mag, baro=baro.baro)
    fields = [wire(encoder.hil_sensor(sample)).fields_updated for sample in (mag, baro, both, IMU)]
    assert fields == [0x03F | 0x1C0, 0x03F | 0x1A00, 0x1BFF, 0x03F]
    last = wire(encoder.hil_sensor(IMU))
    assert (last.xmag, last.ymag, last.zmag) == pytest.approx((0.2, 0.01, 0.43)), "old values are no jump to zero"
    assert (last.abs_pressure, last.pressure_alt, last.temperature) == pytest.approx((955.9, 488.0, 21.5))


def test_the_barometer_is_in_hectopascal_and_differential_pressure_is_not_announced() -> None:
    message = wire(SensorEncoder().hil_sensor(replace(IMU, baro=BaroSample(955.9, 488.0, 21.5))))
    assert message.abs_pressure == pytest.approx(955.9, abs=1e-4)
    assert message.diff_pressure == 0
    assert not message.fields_updated & 0x400


def test_a_full_sensor_frame_has_74_bytes() -> None:
    sample = replace(IMU, mag_frd_gauss=(0.2, 0.01, 0.43), baro=BaroSample(955.9, 488.0, 21.5))
    assert len(Encoder(1, 200).encode(SensorEncoder().hil_sensor(sample))) == 74


def test_gps_units() -> None:
    message = wire(hil_gps(FIX))
    assert message.time_usec == 1_780_000_000_000_000
    assert (message.lat, message.lon, message.alt) == (473_977_420, -85_455_940, 488_123)
    assert (message.eph, message.epv) == (90, 125), "centimetres of accuracy"
    assert (message.vn, message.ve, message.vd, message.vel) == (100, -200, 50, 224)
    assert message.cog == round(100 * (360 - math.degrees(math.atan2(2, 1))))
    assert (message.fix_type, message.satellites_visible, message.id) == (3, 12, 0)


def course(vel: Vec3) -> int:
    return int(wire(hil_gps(replace(FIX, vel_ned=vel))).cog)


def heading(degrees: float, speed: float = 10.0) -> Vec3:
    return (speed * math.cos(math.radians(degrees)), speed * math.sin(math.radians(degrees)), 0.0)


def test_course_stays_below_36000() -> None:
    assert course(heading(359.996)) == 0, "36000 is no course"
    assert course(heading(359.994)) == 35_999
    assert course(heading(-0.001)) == 0
    assert [course(heading(angle)) for angle in (0.0, 90.0, 180.0, 270.0)] == [0, 9000, 18_000, 27_000]
    assert all(0 <= course(heading(step / 7)) < 36_000 for step in range(0, 2520, 11))


def test_course_at_rest_is_unknown() -> None:
    assert course((0.0, 0.0, -3.0)) == 65_535
    assert course(heading(45, 0.05)) == 65_535


def test_gps_values_that_do_not_fit_are_held_at_the_limit() -> None:
    message = wire(hil_gps(replace(FIX, vel_ned=(400.0, -400.0, 1e6), eph_m=1e4, epv_m=1e4)))
    assert (message.vn, message.ve, message.vd) == (32_767, -32_767, 32_767)
    assert (message.vel, message.eph, message.epv) == (56_569, 65_535, 65_535)
    assert wire(hil_gps(replace(FIX, vel_ned=(1e5, 0.0, 0.0)))).vel == 65_535


def test_the_ends_of_the_globe_fit() -> None:
    message = wire(hil_gps(replace(FIX, lat_deg=-90.0, lon_deg=180.0, alt_amsl_m=-430.0)))
    assert (message.lat, message.lon, message.alt) == (-900_000_000, 1_800_000_000, -430_000)


def test_report_21_ground_truth_has_milli_g_and_attitude_ned_from_frd() -> None:
    message = wire(hil_state_quaternion(2_000_000, TRUTH))
    assert message.time_usec == 2_000_000
    assert (message.xacc, message.yacc, message.zacc) == (0, 0, -1000)
    assert list(message.attitude_quaternion) == [1.0, 0.0, 0.0, 0.0]
    assert (message.rollspeed, message.pitchspeed, message.yawspeed) == pytest.approx((0.1, 0.2, 0.3))
    assert (message.lat, message.lon, message.alt) == (-335_000_000, 1_512_000_000, 20_500)
    assert (message.vx, message.vy, message.vz) == (300, 400, 0)
    assert (message.ind_airspeed, message.true_airspeed) == (500, 500)


def test_ground_truth_that_does_not_fit_is_held_at_the_limit() -> None:
    message = wire(hil_state_quaternion(1, replace(TRUTH, vel_ned=(-1e4, 1e4, 0.0), accel_frd=(1e4, -1e4, 0.0))))
    assert (message.vx, message.vy, message.true_airspeed) == (-32_767, 32_767, 65_535)
    assert (message.xacc, message.yacc) == (32_767, -32_767)


def test_the_heartbeat_is_one_that_a_board_recognises() -> None:
    frame = Encoder(1, 200).encode(heartbeat())
    assert frame[1] == 9, "PX4's USB start looks for this length"
    assert wire(heartbeat()).mavlink_version == 3


POSE = MotionCapturePose(4_004_000, (1.5, -2.25, -3.125), (0.5, -0.5, 0.5, 0.5), 1e-4, 2.5e-5, 7, 93)


def test_odometry_is_a_pose_in_ned_and_nothing_else() -> None:
    frame = Encoder(1, 200).encode(odometry(POSE, 88_000_000))
    assert len(frame) == ODOMETRY_BYTES
    (message,) = Decoder().feed(frame)
    assert message.time_usec == 88_000_000
    assert (message.frame_id, message.child_frame_id) == (common.MAV_FRAME_LOCAL_NED, common.MAV_FRAME_BODY_FRD)
    assert (message.x, message.y, message.z) == POSE.pos_ned
    assert tuple(message.q) == POSE.q_ned_frd
    unknown = [message.vx, message.vy, message.vz, message.rollspeed, message.pitchspeed, message.yawspeed]
    assert all(map(math.isnan, [*unknown, *message.velocity_covariance]))
    assert (message.reset_counter, message.quality) == (7, 93)
    # What PX4 hands to its EKF2; MAV_ESTIMATOR_TYPE_MOCAP it does not.
    assert message.estimator_type == common.MAV_ESTIMATOR_TYPE_VISION


def test_the_variances_of_odometry_are_on_the_diagonal() -> None:
    covariance = iter(wire(odometry(POSE, 0)).pose_covariance)
    rows = [[0.0] * first + [next(covariance) for _ in range(6 - first)] for first in range(6)]
    assert next(covariance, None) is None
    expected = [[0.0] * 6 for _ in range(6)]
    for index in range(6):
        expected[index][index] = 1e-4 if index < 3 else 2.5e-5
    assert [value for row in rows for value in row] == pytest.approx([value for row in expected for value in row])


def test_the_autopilot_reads_the_pose_that_was_sent() -> None:
    read = _pose(wire(odometry(POSE, POSE.measured_us)))
    assert read is not None
    assert read == replace(
        POSE, pos_variance_m2=read.pos_variance_m2, attitude_variance_rad2=read.attitude_variance_rad2
    )
    assert (read.pos_variance_m2, read.attitude_variance_rad2) == pytest.approx((1e-4, 2.5e-5))
    message = odometry(POSE, 0)
    message.frame_id = common.MAV_FRAME_LOCAL_FRD
    assert _pose(wire(message)) is None
