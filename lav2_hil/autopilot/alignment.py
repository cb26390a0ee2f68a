"""Finding the attitude at rest: one second of blocks that agree, and one second of GPS fixes that stand still."""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from firmware_profiles.errors import UsageError
from lav2_hil.autopilot.preflight import gps_faults, gravity_faults, gyro_faults
from lav2_hil.autopilot.rotations import attitude_at_rest
from twin.environment import LocalFrame, magnetic_field_ned_gauss

if TYPE_CHECKING:
    from firmware_profiles.signals import GpsFix, Quat, Vec3

FloatArray = npt.NDArray[np.float64]

BLOCK_US = 200_000
BLOCKS = 5
MIN_GPS_US = 1_000_000
ACCEL_AGREE, GYRO_AGREE, MAG_AGREE = 0.4, 0.03, 0.03
"""How far the means of two blocks may be apart on an axis: [m/s^2], [rad/s], [gauss]."""
ACCEL_SHAKE, GYRO_SHAKE = 1.5, 0.2
"""Largest standard deviation inside a block, three axes together: [m/s^2], [rad/s]."""
MAX_SPEED_M_S = 0.3


@dataclass(frozen=True, slots=True)
class Alignment:
    """What the filter starts from.

    Attributes:
        q_ned_frd: attitude.
        gyro_bias: FRD [rad/s].
        force_frd: mean of the accelerometer [m/s^2].
        pos_ned: relative to the frame's home [m].
        frame: the local frame of the first fix.
        field_ned: the Earth's magnetic field there on the fix's day [gauss].
        baro_alt_m: mean of the pressure altitude [m].
        gps_alt_m: mean of the fixes' altitude [m].
    """

    q_ned_frd: Quat
    gyro_bias: Vec3
    force_frd: Vec3
    pos_ned: Vec3
    frame: LocalFrame
    field_ned: Vec3
    baro_alt_m: float
    gps_alt_m: float


class Aligner:
    """Collects readings until they say where the vehicle stands; begins again whenever it moves.

    Args:
        why: what to say while nothing else is missing.

    Attributes:
        reasons: what is missing at present.
    """

    def __init__(self, why: str = "aligning") -> None:
        self.reasons = [why]
        self._why = why
        self.restart()

    def restart(self) -> None:
        """Forget everything but the reasons."""
        self._blocks: list[FloatArray] = []  # means of accelerometer, gyroscope, magnetometer, barometer: (10,)
        self._fixes: list[tuple[int, GpsFix]] = []
        self._begin_block(None)

    def _begin_block(self, time_us: int | None) -> None:
        self._start_us = time_us
        self._imu: list[tuple[float, ...]] = []
        self._mag: list[Vec3] = []
        self._baro: list[float] = []

    def imu(self, time_us: int, accel: Vec3, gyro: Vec3) -> Alignment | None:
        """Take in an IMU sample; gives the result once there is one."""
        if self._start_us is None:
            self._start_us = time_us
        self._imu.append(accel + gyro)
        if time_us - self._start_us < BLOCK_US:
            return None
        self._end_block()
        self._begin_block(time_us)
        return self._result(time_us)

    def mag(self, field: Vec3) -> None:
        """Take in a magnetometer sample, FRD [gauss]."""
        self._mag.append(field)

    def baro(self, alt_m: float) -> None:
        """Take in a pressure altitude [m]."""
        self._baro.append(alt_m)

    def gps(self, time_us: int, fix: GpsFix) -> None:
        """Take in a fix, good or bad."""
        if gps_faults(fix):
            self._fixes.clear()
            self.reasons = gps_faults(fix)
            return
        self._fixes.append((time_us, fix))
        del self._fixes[1:-20]  # the first stays: it is the origin

    def _end_block(self) -> None:
        if not self._mag or not self._baro:
            self._blocks.clear()
            self.reasons = ["no magnetometer data"] if not self._mag else ["no barometer data"]
            return
        imu = np.array(self._imu)
        shake = imu.std(axis=0)
        mean = np.concatenate((imu.mean(axis=0), np.mean(self._mag, axis=0), [np.mean(self._baro)]))
        still = math.hypot(*shake[:3]) < ACCEL_SHAKE and math.hypot(*shake[3:]) < GYRO_SHAKE
        self._blocks = [*self._blocks[-(BLOCKS - 1) :], mean]
        spread = np.ptp(np.array(self._blocks), axis=0)
        limits = np.repeat((ACCEL_AGREE, GYRO_AGREE, MAG_AGREE), 3)
        if not still or (spread[:9] > limits).any():
            self._moved()

    def _moved(self) -> None:
        self.restart()
        self._why = "aligning: hold the vehicle still"
        self.reasons = [self._why]

    def _result(self, time_us: int) -> Alignment | None:
        if not self._blocks:
            return None
        if len(self._blocks) < BLOCKS:
            self.reasons = [self._why]
            return None
        mean = np.mean(self._blocks, axis=0)
        x, y, z, gx, gy, gz, mx, my, mz, baro_alt = mean.tolist()
        self.reasons = gravity_faults((x, y, z)) + gyro_faults((gx, gy, gz))
        if self.reasons:
            return None
        if not self._fixes:
            self.reasons = ["no GPS fix"]
            return None
        if time_us - self._fixes[0][0] < MIN_GPS_US or len(self._fixes) < 2:
            self.reasons = ["aligning: waiting for GPS"]
            return None
        fixes = [fix for _, fix in self._fixes]
        if max(abs(v) for v in np.mean([fix.vel_ned for fix in fixes], axis=0).tolist()) > MAX_SPEED_M_S:
            self._moved()
            return None
        try:
            frame, field_ned = self._place(fixes[0])
        except UsageError:
            self.reasons = ["GPS place or date has no magnetic model"]
            return None
        if math.hypot(field_ned[0], field_ned[1]) < 1e-6 or math.hypot(mx, my, mz) < 1e-6:
            self.reasons = ["magnetometer reads nothing"]
            return None
        alts = np.array([fix.alt_amsl_m for fix in fixes])
        places = frame.to_ned(np.array([fix.lat_deg for fix in fixes]), np.array([fix.lon_deg for fix in fixes]), alts)
        north, east, down = places.mean(axis=0).tolist()
        return Alignment(
            q_ned_frd=attitude_at_rest((x, y, z), (mx, my, mz), math.atan2(field_ned[1], field_ned[0])),
            gyro_bias=(gx, gy, gz),
            force_frd=(x, y, z),
            pos_ned=(north, east, down),
            frame=frame,
            field_ned=field_ned,
            baro_alt_m=baro_alt,
            gps_alt_m=float(alts.mean()),
        )

    @staticmethod
    def _place(fix: GpsFix) -> tuple[LocalFrame, Vec3]:
        frame = LocalFrame(fix.lat_deg, fix.lon_deg, fix.alt_amsl_m)
        try:
            date = datetime.fromtimestamp(1e-6 * fix.utc_us, UTC)
        except (OverflowError, OSError, ValueError):
            raise UsageError("no such date") from None
        north, east, down = magnetic_field_ned_gauss(fix.lat_deg, fix.lon_deg, fix.alt_amsl_m, date).tolist()
        return frame, (north, east, down)
