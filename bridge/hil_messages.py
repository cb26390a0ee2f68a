"""Sensor samples as MAVLink messages: unit scaling and the field groups, nothing else."""

from __future__ import annotations

import math

from pymavlink.dialects.v20 import common

from bridge.codec import Message
from firmware_profiles.signals import GpsFix, GroundTruth, MotionCapturePose, SensorSample

ACCEL, GYRO, MAG, BARO = 0x007, 0x038, 0x1C0, 0x1A00
"""fields_updated by group; PX4 takes a group only when all its bits are set."""

_G = 9.80665
_NAN = float("nan")
_UNKNOWN = (_NAN,) * 21
_DIAGONAL = (0, 6, 11, 15, 18, 20)
"""Where the variances are among the 21 numbers of a 6 x 6 covariance, its upper right triangle row by row."""


class SensorEncoder:
    """HIL_SENSOR from samples; a group without a new reading repeats its last values, with its bits clear."""

    def __init__(self) -> None:
        self._accel = (0.0, 0.0, 0.0)
        self._gyro = (0.0, 0.0, 0.0)
        self._mag = (0.0, 0.0, 0.0)
        self._baro = (0.0, 0.0, 0.0)

    def hil_sensor(self, sample: SensorSample) -> Message:
        """The HIL_SENSOR of one tick (id 0, FRD, m/s^2, rad/s, gauss, hPa, degrees C)."""
        fields = 0
        if sample.accel_frd is not None:
            fields |= ACCEL
            self._accel = sample.accel_frd
        if sample.gyro_frd is not None:
            fields |= GYRO
            self._gyro = sample.gyro_frd
        if sample.mag_frd_gauss is not None:
            fields |= MAG
            self._mag = sample.mag_frd_gauss
        if sample.baro is not None:
            fields |= BARO
            self._baro = (sample.baro.pressure_hpa, sample.baro.pressure_alt_m, sample.baro.temperature_c)
        pressure, altitude, temperature = self._baro
        return common.MAVLink_hil_sensor_message(
            sample.time_us,
            *self._accel,
            *self._gyro,
            *self._mag,
            pressure,
            0.0,
            altitude,
            temperature,
            fields,
        )


def hil_gps(fix: GpsFix) -> Message:
    """HIL_GPS: time_usec is UTC of the measurement; eph and epv are centimetres of accuracy, as PX4 reads them."""
    north, east, down = (_limit(round(100 * v), 32767) for v in fix.vel_ned)
    speed = math.hypot(fix.vel_ned[0], fix.vel_ned[1])
    # 359.996 degrees rounds to 36000, which is not a course; 65535 is "unknown".
    course = round(100 * math.degrees(math.atan2(fix.vel_ned[1], fix.vel_ned[0]))) % 36000 if speed > 0.1 else 65535
    return common.MAVLink_hil_gps_message(
        fix.utc_us,
        fix.fix_type,
        round(fix.lat_deg * 1e7),
        round(fix.lon_deg * 1e7),
        round(fix.alt_amsl_m * 1e3),
        min(65535, round(100 * fix.eph_m)),
        min(65535, round(100 * fix.epv_m)),
        min(65535, round(100 * speed)),
        north,
        east,
        down,
        course,
        fix.satellites,
    )


def odometry(pose: MotionCapturePose, time_us: int) -> Message:
    """ODOMETRY of a motion capture system: a pose in LOCAL_NED, and NaN for velocity and rates, which it does not see.

    The estimator is called VISION: PX4 hands a pose of MOCAP to a topic that its EKF2 does not read (SimulatorMavlink,
    MavlinkReceiver; the same in 1.12). PX4 in SITL takes the time of arrival for that of the measurement, a tick before
    the HIL_SENSOR that follows; on a board it takes `time_us` where TIMESYNC has made the clocks one.

    Args:
        pose: the pose.
        time_us: when it was measured, by the clock that the flight controller can know.
    """
    covariance = [0.0] * 21
    for place, index in enumerate(_DIAGONAL):
        covariance[index] = pose.pos_variance_m2 if place < 3 else pose.attitude_variance_rad2
    return common.MAVLink_odometry_message(
        time_us,
        common.MAV_FRAME_LOCAL_NED,
        common.MAV_FRAME_BODY_FRD,
        *pose.pos_ned,
        list(pose.q_ned_frd),
        *((_NAN,) * 6),
        covariance,
        list(_UNKNOWN),
        pose.reset_counter,
        common.MAV_ESTIMATOR_TYPE_VISION,
        pose.quality,
    )


def hil_state_quaternion(time_us: int, truth: GroundTruth) -> Message:
    """HIL_STATE_QUATERNION: ground truth for PX4's log (SITL only; on a board it would overwrite the estimator)."""
    north, east, down = (_limit(round(100 * v), 32767) for v in truth.vel_ned)
    airspeed = min(65535, round(100 * math.hypot(*truth.vel_ned)))
    milli_g = [_limit(round(1000 * a / _G), 32767) for a in truth.accel_frd]
    return common.MAVLink_hil_state_quaternion_message(
        time_us,
        list(truth.q_ned_frd),
        *truth.rates_frd,
        round(truth.lat_deg * 1e7),
        round(truth.lon_deg * 1e7),
        round(truth.alt_amsl_m * 1e3),
        north,
        east,
        down,
        airspeed,
        airspeed,
        *milli_g,
    )


def heartbeat() -> Message:
    """The simulator's HEARTBEAT. mavlink_version 3: as 0 it would be trimmed off, and PX4's USB start looks for it."""
    return common.MAVLink_heartbeat_message(
        common.MAV_TYPE_GENERIC, common.MAV_AUTOPILOT_INVALID, 0, 0, common.MAV_STATE_ACTIVE, 3
    )


def _limit(value: int, bound: int) -> int:
    return max(-bound, min(bound, value))
