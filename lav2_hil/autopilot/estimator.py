"""Where the vehicle is, by what the wire says: alignment at rest, then the filter, watched all the time.

Within a tick `imu` comes first, then whatever else arrived with it. The estimator reads no clock and draws no random
numbers: the same calls give the same numbers.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from lav2_hil.autopilot.alignment import Aligner, Alignment
from lav2_hil.autopilot.eskf import Eskf
from lav2_hil.autopilot.health import Health
from lav2_hil.autopilot.motion_capture import MotionCaptureFusion
from lav2_hil.autopilot.preflight import (
    MIN_HORIZONTAL_GAUSS,
    accel_bias_faults,
    gps_faults,
    gravity_faults,
    gyro_faults,
    height_faults,
)
from lav2_hil.autopilot.rotations import rotate, rotation_rows
from lav2_hil.autopilot.sensor_watch import SensorWatch
from twin.environment import pressure_altitude_m

if TYPE_CHECKING:
    from firmware_profiles.signals import GpsFix, MotionCapturePose, Quat, Vec3

MAX_GAP_S = 0.1
"""A longer silence of the IMU, and nobody knows how the vehicle turned meanwhile: align again."""
COVARIANCE_S = 0.02
AIDING_S = 0.1
"""Barometer and heading are taken in at most this often."""
SMOOTH_S = 0.5
GPS_DELAY_S = 0.012
"""Age of a fix on arrival; profiles say 10 ms, which is three ticks of 4 ms."""
GPS_VEL_SIGMA, GPS_MIN_POS_SIGMA = 0.05, 0.1
BARO_SIGMA_M = 0.5
MAG_SIGMA_GAUSS = 0.005
MIN_HEADING_SIGMA_RAD = 0.03


@dataclass(frozen=True, slots=True)
class EstimatedState:
    """What the estimator believes at the newest IMU sample; tuples of floats.

    Attributes:
        pos_ned: relative to `Estimator.home` [m].
        vel_ned: [m/s].
        q_ned_frd: takes FRD body vectors to NED (w first).
        rates_frd: angular velocity without the gyroscope's bias [rad/s].
        accel_ned: kinematic acceleration, gravity removed, over the last IMU sample [m/s^2].
        height_m: above the origin [m].
    """

    pos_ned: Vec3
    vel_ned: Vec3
    q_ned_frd: Quat
    rates_frd: Vec3
    accel_ned: Vec3
    height_m: float


class Estimator:
    """Estimates the state of one vehicle from its sensors.

    Args:
        imu_period_s: time between two IMU samples [s].
        motion_capture_delay_s: age of a motion capture system's pose on arrival [s]; None where there is none.

    Attributes:
        ready: aligned, with a position; from then on `state` and `home` are there.
        faults: consistency faults at present, one line each; brought up to date ten times a second.
        home: latitude and longitude [degrees] and height above mean sea level [m] of the origin, or None.
        motion_capture: what is believed of the poses; None where there are none.
    """

    def __init__(self, imu_period_s: float, motion_capture_delay_s: float | None = None) -> None:
        self._period_s = imu_period_s
        self._delay_samples = max(0, round(GPS_DELAY_S / imu_period_s))
        self._pose_samples: int | None = None
        if motion_capture_delay_s is not None:
            self._pose_samples = math.ceil(motion_capture_delay_s / imu_period_s - 1e-6)
        self.reset()

    def reset(self) -> None:
        """Forget everything and align anew."""
        self.ready = False
        self.home: tuple[float, float, float] | None = None
        self.faults: list[str] = []
        self._time_us: int | None = None
        self._filter: Eskf | None = None
        self._start: Alignment | None = None
        self._aligner = Aligner()
        self._watch_accel = SensorWatch("accelerometer", 1000.0)
        self._watch_gyro = SensorWatch("gyroscope", 100.0)
        self._watch_mag = SensorWatch("magnetometer", 10.0)
        self._watch_baro = SensorWatch("barometer", 2000.0)
        self._watch_gps = SensorWatch("GPS", 1e5)
        self._fix: GpsFix | None = None
        self.motion_capture = None if self._pose_samples is None else MotionCaptureFusion(self._pose_samples)
        self._begin()

    def _begin(self) -> None:
        """What begins anew with each alignment."""
        self._health = Health((0.0, 0.0, 0.0) if self._start is None else self._start.field_ned)
        self._since_covariance = self._since_faults = 0.0
        self._baro_sum, self._baro_count, self._baro_us = 0.0, 0, 0
        self._heading_us = self._fix_us = 0
        self._baro_height: float | None = None
        self._turned: Vec3 = (0.0, 0.0, 0.0)
        self._accel = self._rates = (0.0, 0.0, 0.0)

    @property
    def state(self) -> EstimatedState:
        """The newest state.

        Raises:
            RuntimeError: not `ready`.
        """
        f = self._filter
        if f is None:
            raise RuntimeError("the estimator is not ready: there is no state yet")
        return EstimatedState(f.pos, f.vel, f.q, f.rates, f.accel_ned, -f.pos[2])

    def imu(self, time_us: int, accel_frd: Vec3, gyro_frd: Vec3) -> None:
        """Take in accelerometer [m/s^2] and gyroscope [rad/s], means over the period that ends at `time_us`."""
        last = self._time_us
        if last is not None:
            if time_us == last:
                return
            if time_us < last:
                self.reset()
                last = None
        usable = self._watch_accel.accepts(accel_frd, time_us)
        if not (self._watch_gyro.accepts(gyro_frd, time_us) and usable):
            self._skip(time_us)
            return
        self._time_us = time_us
        dt = self._period_s if last is None else 1e-6 * (time_us - last)
        if dt > MAX_GAP_S:
            self._lose(f"IMU was silent for {dt:.1f} s")
            return
        f = self._filter
        if f is None:
            start = self._aligner.imu(time_us, accel_frd, gyro_frd)
            if start is not None:
                self._start_filter(start)
            return
        f.predict(dt, accel_frd, gyro_frd)
        self._since_covariance += dt
        if self._since_covariance >= COVARIANCE_S - 1e-9:
            self._slow(f, accel_frd)

    def baro(self, pressure_hpa: float) -> None:
        """Take in a static pressure [hPa]."""
        now = self._time_us
        if now is None or not self._watch_baro.accepts((pressure_hpa,), now):
            return
        f, start = self._filter, self._start
        if f is None or start is None:
            self._aligner.baro(float(pressure_altitude_m(pressure_hpa)))
            return
        self._baro_sum += pressure_hpa
        self._baro_count += 1
        dt = 1e-6 * (now - self._baro_us)
        if dt < AIDING_S:
            return
        altitude = float(pressure_altitude_m(self._baro_sum / self._baro_count))
        height = altitude - start.baro_alt_m + (start.gps_alt_m - start.frame.home.alt_amsl_m)
        self._baro_sum, self._baro_count, self._baro_us = 0.0, 0, now
        if self.motion_capture is None:
            ratio = f.correct_height(height, BARO_SIGMA_M)
        else:
            ratio = self.motion_capture.height(f, height, BARO_SIGMA_M, dt)
        self._health.height(ratio, dt)
        self._baro_height = height

    def mag(self, field_frd_gauss: Vec3) -> None:
        """Take in a magnetic field [gauss]."""
        now = self._time_us
        if now is None or not self._watch_mag.accepts(field_frd_gauss, now):
            return
        f, start = self._filter, self._start
        if f is None or start is None:
            self._aligner.mag(field_frd_gauss)
            return
        self._health.signs.field(1e-6 * now, field_frd_gauss, f.turned)
        dt = 1e-6 * (now - self._heading_us)
        if dt < AIDING_S:
            return
        self._heading_us = now
        field = rotate(rotation_rows(f.q), field_frd_gauss)
        self._health.field(field, dt)
        level = math.hypot(field[0], field[1])
        if level > MIN_HORIZONTAL_GAUSS:
            sigma = max(MIN_HEADING_SIGMA_RAD, MAG_SIGMA_GAUSS / level)
            capture, heading = self.motion_capture, (field, start.field_ned, sigma)
            ratio = f.correct_heading(*heading) if capture is None else capture.heading(f, *heading)
            self._health.heading(ratio, dt)

    def gps(self, fix: GpsFix) -> None:
        """Take in a fix, good or bad."""
        now = self._time_us
        reading = (fix.lat_deg, fix.lon_deg, fix.alt_amsl_m, *fix.vel_ned, fix.eph_m, fix.epv_m)
        if now is None or not self._watch_gps.accepts(reading, now):
            return
        f, start = self._filter, self._start
        self._fix = fix
        if f is None or start is None:
            self._aligner.gps(now, fix)
            return
        if gps_faults(fix):
            return
        place = start.frame.to_ned(*(np.array([value]) for value in reading[:3]))
        pos = place[0].tolist()
        self._health.signs.fix(1e-6 * fix.utc_us, pos, fix.vel_ned, f.before(self._delay_samples)[2])
        if self._baro_height is not None:
            self._health.signs.heights(1e-6 * now, self._baro_height, -pos[2])
        across, along = max(GPS_MIN_POS_SIGMA, fix.eph_m), max(GPS_MIN_POS_SIGMA, fix.epv_m)
        sigmas = (across, across, along), (GPS_VEL_SIGMA, GPS_VEL_SIGMA, GPS_VEL_SIGMA)
        dt, capture = 1e-6 * (now - self._fix_us), self.motion_capture
        if capture is None:
            ratios = f.correct_gnss(pos, fix.vel_ned, *sigmas)
        else:
            ratios = capture.gnss(f, pos, fix.vel_ned, sigmas, self._delay_samples, dt)
        self._health.gnss(ratios, dt)
        self._fix_us = now

    def pose(self, pose: MotionCapturePose) -> None:
        """Take in a motion capture system's pose, once aligned and where there is such a system."""
        now, f, start, capture = self._time_us, self._filter, self._start, self.motion_capture
        if now is None or f is None or start is None or capture is None:
            return
        if capture.take(f, now, pose):
            lat, lon, alt = start.frame.to_geodetic(np.array([capture.offset_ned]))
            self.home = float(lat[0]), float(lon[0]), float(alt[0])

    def arming_faults(self) -> list[str]:
        """Why the vehicle must not be armed now; empty when it may."""
        now = self._time_us
        if now is None:
            return ["no sensors yet"]
        watched = self._watched(now)
        f, start = self._filter, self._start
        if f is None or start is None:
            return watched + [reason for reason in self._aligner.reasons if reason not in watched]
        faults = watched + gps_faults(self._fix)
        faults += gravity_faults(self._accel) or accel_bias_faults(f.accel_bias)
        faults += gyro_faults(f.gyro_bias) or gyro_faults(self._rates)
        faults += self._health.field_faults()
        faults += height_faults(start.baro_alt_m, start.gps_alt_m)
        if self.motion_capture is not None and not self.motion_capture.leads:
            faults.append(self.motion_capture.why)
        return faults + [fault for fault in self.faults if fault not in faults]

    def _start_filter(self, start: Alignment) -> None:
        self._start = start
        self._begin()
        home = start.frame.home
        self.home = (home.lat_deg, home.lon_deg, home.alt_amsl_m)
        self._filter = Eskf(
            start.pos_ned,
            (0.0, 0.0, 0.0),
            start.q_ned_frd,
            gyro_bias=start.gyro_bias,
            force_frd=start.force_frd,
            field_ned=start.field_ned,
            delay_samples=self._delay_samples,
            memory_samples=self._pose_samples or 0,
        )
        self._accel = start.force_frd
        self._baro_us = self._heading_us = self._fix_us = self._time_us or 0
        self.ready = True

    def _lose(self, reason: str) -> None:
        """The attitude is lost: align anew, and say why until that is done."""
        time_us = self._time_us
        self.reset()
        self._time_us = time_us
        self._aligner = Aligner(reason)

    def _skip(self, time_us: int) -> None:
        """An IMU sample cannot be used: its time counts into the next good one, or becomes a gap."""
        f, last = self._filter, self._time_us
        if f is None or last is None:
            self._time_us = time_us
            self._aligner.restart()
        elif time_us - last > 1e6 * MAX_GAP_S:
            self._lose(self._watched(time_us)[0])
            self._time_us = time_us
        else:
            self.faults = self._present_faults(f)

    def _slow(self, f: Eskf, accel: Vec3) -> None:
        """Fifty times a second: covariance, low-passes, and every tenth of a second the faults."""
        dt = self._since_covariance
        self._since_covariance = 0.0
        f.predict_covariance()
        if self.motion_capture is not None and self._time_us is not None:
            self.motion_capture.tick(self._time_us)
        share = dt / SMOOTH_S
        x, y, z = self._accel
        self._accel = (x + share * (accel[0] - x), y + share * (accel[1] - y), z + share * (accel[2] - z))
        x, y, z = self._rates
        tx, ty, tz = f.turned
        ux, uy, uz = self._turned
        self._turned = f.turned
        self._rates = (
            x + (tx - ux) / SMOOTH_S - share * x,
            y + (ty - uy) / SMOOTH_S - share * y,
            z + (tz - uz) / SMOOTH_S - share * z,
        )
        self._since_faults += dt
        if self._since_faults >= AIDING_S - 1e-9:
            self._since_faults = 0.0
            self.faults = self._present_faults(f)

    def _watched(self, now: int) -> list[str]:
        watches = (self._watch_accel, self._watch_gyro, self._watch_mag, self._watch_baro, self._watch_gps)
        return [fault for watch in watches for fault in watch.faults(now)]

    def _present_faults(self, f: Eskf) -> list[str]:
        return self._watched(self._time_us or 0) + self._health.faults(f)
