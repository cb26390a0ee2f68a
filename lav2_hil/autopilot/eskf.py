"""The error-state Kalman filter: strapdown integration in plain floats, covariance as one small matrix.

States of the error, in this order: position NED [m], velocity NED [m/s], attitude (small rotation in NED) [rad],
gyroscope bias FRD [rad/s], accelerometer bias FRD [m/s^2], and the sensitivity of the accelerometer's x and y axes (1
for a healthy one). The last two make the filter the judge of their signs: it weighs "this axis is turned round" against
"the attitude is wrong", which a comparison of velocity changes alone cannot.

The attitude error is the one of the world frame, R_true = (1 + [error]x) R: Sola, "Quaternion kinematics for the
error-state Kalman filter", arXiv:1711.02508, section 7 (global angular errors).
"""

from __future__ import annotations

import math
from collections import deque
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from lav2_hil.autopilot.error_state import (
    ACCEL_BIAS,
    ATT,
    FLOOR,
    GAIN,
    GYRO_BIAS,
    NOISE_PER_S,
    SIZE,
    VEL,
    start_covariance,
)
from lav2_hil.autopilot.rotations import rotation_rows
from twin.environment import STANDARD_GRAVITY_M_S2

if TYPE_CHECKING:
    from collections.abc import Sequence

    from firmware_profiles.signals import Quat, Vec3

FloatArray = npt.NDArray[np.float64]

GATE = 5.0
"""An innovation of more than this many standard deviations counts as this many: it may pull, but not tear."""


class Eskf:
    """State and covariance; times and frames are the caller's business.

    Args:
        pos_ned, vel_ned: where it starts [m], [m/s].
        q_ned_frd: attitude at the start, levelled by the accelerometer.
        gyro_bias: as measured at rest [rad/s].
        force_frd: mean of the accelerometer at rest [m/s^2].
        field_ned: the magnetic field by which it found its heading, horizontal part not zero.
        delay_samples: age of a GNSS fix on arrival, in IMU samples.
        memory_samples: how far back other measurements may ask, in IMU samples.

    Attributes:
        pos, vel, q, gyro_bias, accel_bias: the state, as tuples of floats.
        accel_gain: sensitivity of the accelerometer's x and y axis.
        rates: angular velocity without bias, FRD [rad/s], of the last sample.
        accel_ned: kinematic acceleration [m/s^2] over the last sample.
        turned: running sum of rates * dt, FRD [rad].
        pushed: running sum of accel_ned * dt [m/s]: velocity by the inertial sensors alone.
        covariance: (17, 17), symmetric and positive definite.
    """

    __slots__ = (
        "_delay",
        "_dx",
        "_f_dt",
        "_since",
        "_span",
        "_transition",
        "_x_dt",
        "_y_dt",
        "accel_bias",
        "accel_gain",
        "accel_ned",
        "covariance",
        "gyro_bias",
        "past",
        "pos",
        "pushed",
        "q",
        "rates",
        "turned",
        "vel",
    )

    def __init__(
        self,
        pos_ned: Vec3,
        vel_ned: Vec3,
        q_ned_frd: Quat,
        *,
        gyro_bias: Vec3,
        force_frd: Vec3,
        field_ned: Vec3,
        delay_samples: int,
        memory_samples: int = 0,
    ) -> None:
        self.pos, self.vel, self.q = pos_ned, vel_ned, q_ned_frd
        self.gyro_bias, self.accel_bias, self.accel_gain = gyro_bias, (0.0, 0.0, 0.0), (1.0, 1.0)
        self.rates = self.accel_ned = self.turned = self.pushed = (0.0, 0.0, 0.0)
        self._delay = delay_samples
        self.past: deque[tuple[Vec3, Vec3, Vec3, Vec3]] = deque(
            [(pos_ned, vel_ned, self.pushed, self.turned)], max(delay_samples, memory_samples) + 1
        )
        self._transition = np.eye(SIZE)
        self._span = 0.0
        self._f_dt = (0.0, 0.0, 0.0)
        self._x_dt = self._y_dt = 0.0
        self.covariance, self._dx = start_covariance(q_ned_frd, force_frd, field_ned)
        self._inject()

    def predict(self, dt: float, accel: Vec3, gyro: Vec3) -> None:
        """Integrate one IMU sample: means over the `dt` [s] that ends now, as the attitude in the middle saw them.

        Plain floats, written out: this runs at every sample, and small arrays would cost five times as much.
        """
        bx, by, bz = self.gyro_bias
        wx, wy, wz = gyro[0] - bx, gyro[1] - by, gyro[2] - bz
        self.rates = (wx, wy, wz)
        half = 0.5 * dt
        hx, hy, hz = half * wx, half * wy, half * wz
        raw_x, raw_y, az = accel
        bx, by, bz = self.accel_bias
        gain_x, gain_y = self.accel_gain
        ax, ay, az = gain_x * raw_x - bx, gain_y * raw_y - by, az - bz
        # From the attitude in the middle back to the one at the start.
        ax, ay, az = ax + hy * az - hz * ay, ay + hz * ax - hx * az, az + hx * ay - hy * ax
        w, x, y, z = self.q
        xx, yy, zz, xy, xz, yz, wx2, wy2, wz2 = x * x, y * y, z * z, x * y, x * z, y * z, w * x, w * y, w * z
        fn = (1.0 - 2.0 * (yy + zz)) * ax + 2.0 * ((xy - wz2) * ay + (xz + wy2) * az)
        fe = (1.0 - 2.0 * (xx + zz)) * ay + 2.0 * ((xy + wz2) * ax + (yz - wx2) * az)
        fd = (1.0 - 2.0 * (xx + yy)) * az + 2.0 * ((xz - wy2) * ax + (yz + wx2) * ay)
        down = fd + STANDARD_GRAVITY_M_S2
        self.accel_ned = (fn, fe, down)
        un, ue, ud = fn * dt, fe * dt, down * dt
        vn, ve, vd = self.vel
        pn, pe, pd = self.pos
        self.pos = (pn + dt * vn + half * un, pe + dt * ve + half * ue, pd + dt * vd + half * ud)
        self.vel = (vn + un, ve + ue, vd + ud)
        square = hx * hx + hy * hy + hz * hz
        if square < 1e-3:
            c, s = 1.0 - 0.5 * square, 1.0 - square / 6.0
        else:
            angle = math.sqrt(square)
            c, s = math.cos(angle), math.sin(angle) / angle
        sx, sy, sz = s * hx, s * hy, s * hz
        w, x, y, z = (
            c * w - sx * x - sy * y - sz * z,
            c * x + sx * w + sz * y - sy * z,
            c * y + sy * w + sx * z - sz * x,
            c * z + sz * w + sy * x - sx * y,
        )
        norm = 1.5 - 0.5 * (w * w + x * x + y * y + z * z)
        self.q = (norm * w, norm * x, norm * y, norm * z)
        n, e, d = self.pushed
        self.pushed = (n + un, e + ue, d + ud)
        x, y, z = self.turned
        self.turned = (x + 2.0 * hx, y + 2.0 * hy, z + 2.0 * hz)
        self.past.append((self.pos, self.vel, self.pushed, self.turned))
        n, e, d = self._f_dt
        self._f_dt = (n + fn * dt, e + fe * dt, d + fd * dt)
        self._x_dt += raw_x * dt
        self._y_dt += raw_y * dt
        self._span += dt

    def predict_covariance(self) -> None:
        """Bring the covariance up to the state: P = F P F' + Q over all samples since the last call."""
        dt = self._span
        if dt == 0.0:
            return
        n, e, d = self._f_dt
        r = rotation_rows(self.q)
        x_dt, y_dt = self._x_dt, self._y_dt
        self._span = self._x_dt = self._y_dt = 0.0
        self._f_dt = (0.0, 0.0, 0.0)
        f = self._transition
        f[0, 3] = f[1, 4] = f[2, 5] = dt
        minus = [[-dt * value for value in row] for row in r]
        cross = ((0.0, d, -e), (-d, 0.0, n), (e, -n, 0.0))
        f[VEL, ATT] = cross
        f[ATT, GYRO_BIAS] = f[VEL, ACCEL_BIAS] = minus
        f[VEL, GAIN] = [(row[0] * x_dt, row[1] * y_dt) for row in r]
        p = f @ self.covariance @ f.T
        p += p.T.copy()
        p *= 0.5
        diagonal = p.reshape(-1)[:: SIZE + 1]
        diagonal += NOISE_PER_S * dt
        np.maximum(diagonal, FLOOR, out=diagonal)
        self.covariance = p

    def correct_gnss(self, pos: Sequence[float], vel: Vec3, pos_sigma: Vec3, vel_sigma: Vec3) -> list[float]:
        """Take in a fix: position NED [m] and velocity [m/s], as they were `delay_samples` ago.

        Returns:
            The six innovations over their standard deviations, position first.
        """
        past_pos, past_vel, _, _ = self.before(self._delay)
        errors = [(i, pos[i] - past_pos[i], pos_sigma[i]) for i in range(3)]
        errors += [(3 + i, vel[i] - past_vel[i], vel_sigma[i]) for i in range(3)]
        return self.observe(errors)

    def correct_height(self, height_m: float, sigma: float) -> float:
        """Take in a height above the origin [m]; gives the innovation over its standard deviation."""
        return self.observe([(2, -height_m - self.pos[2], sigma)])[0]

    def correct_heading(self, field_ned: Vec3, expected_ned: Vec3, sigma: float) -> float:
        """Take in a heading: the measured magnetic field, turned to NED by this attitude, must point where it should.

        The sensitivity is that of the expected field: one that changed with the noise of each measurement would seem
        to tell the tilt.

        Args:
            field_ned: measured [gauss]; its horizontal part must not be zero.
            expected_ned: by the world model [gauss]; likewise.
            sigma: of the heading [rad].

        Returns:
            The innovation over its standard deviation.
        """
        self.predict_covariance()
        north, east, down = expected_ned
        turn = math.atan2(east, north) - math.atan2(field_ned[1], field_ned[0])
        slope = -down / (north * north + east * east)
        p = self.covariance
        tx, ty = north * slope, east * slope
        column = p[:, 8] + tx * p[:, 6] + ty * p[:, 7]
        own = float(column[8] + tx * column[6] + ty * column[7])
        ratio = self._observe(column, own, math.remainder(turn, math.tau), sigma)
        self._inject()
        return ratio

    def gain_sigma(self, axis: int) -> float:
        """Standard deviation of the sensitivity of accelerometer axis 0 (x) or 1 (y)."""
        return math.sqrt(self.covariance[15 + axis, 15 + axis])

    def before(self, samples: int) -> tuple[Vec3, Vec3, Vec3, Vec3]:
        """`pos`, `vel`, `pushed` and `turned` as they were so many IMU samples ago, or as far back as is known."""
        return self.past[-min(len(self.past), samples + 1)]

    def observe(self, errors: Sequence[tuple[int, float, float]]) -> list[float]:
        """Take in errors that were measured together: index in the error state, innovation, standard deviation.

        Returns:
            The innovations over their standard deviations.
        """
        self.predict_covariance()
        ratios = [self._observe_state(*error) for error in errors]
        self._inject()
        return ratios

    def ratio(self, index: int, innovation: float, sigma: float) -> float:
        """An innovation over its standard deviation, without taking it in."""
        self.predict_covariance()
        return innovation / math.sqrt(float(self.covariance[index, index]) + sigma * sigma)

    def doubt(self, index: int, variance: float) -> None:
        """A component of the state may be off by more than was thought, by itself."""
        self.predict_covariance()
        self.covariance[index, index] += variance

    def _observe_state(self, index: int, innovation: float, sigma: float) -> float:
        column = self.covariance[:, index]
        return self._observe(column, float(column[index]), innovation - float(self._dx[index]), sigma)

    def _observe(self, column: FloatArray, own: float, innovation: float, sigma: float) -> float:
        """One scalar measurement: column is P h', own is h P h'."""
        variance = own + sigma * sigma
        deviation = math.sqrt(variance)
        ratio = innovation / deviation
        self._dx += column * (max(-GATE, min(GATE, ratio)) / deviation)
        self.covariance = self.covariance - np.outer(column, column) / variance
        return ratio

    def _inject(self) -> None:
        """Move the error into the state."""
        pn, pe, pd, vn, ve, vd, rx, ry, rz, gx, gy, gz, ax, ay, az, kx, ky = self._dx.tolist()
        self._dx[:] = 0.0
        n, e, d = self.pos
        self.pos = (n + pn, e + pe, d + pd)
        n, e, d = self.vel
        self.vel = (n + vn, e + ve, d + vd)
        x, y, z = self.gyro_bias
        self.gyro_bias = (x + gx, y + gy, z + gz)
        x, y, z = self.accel_bias
        self.accel_bias = (x + ax, y + ay, z + az)
        x, y = self.accel_gain
        self.accel_gain = (x + kx, y + ky)
        hx, hy, hz = 0.5 * rx, 0.5 * ry, 0.5 * rz
        w, x, y, z = self.q
        w, x, y, z = (
            w - hx * x - hy * y - hz * z,
            x + hx * w + hy * z - hz * y,
            y + hy * w + hz * x - hx * z,
            z + hz * w + hx * y - hy * x,
        )
        norm = 1.0 / math.sqrt(w * w + x * x + y * y + z * z)
        self.q = (norm * w, norm * x, norm * y, norm * z)
        # The past moves along, so that a later fix is not compared with what was believed before this one.
        self.past = deque(
            (
                ((p[0] + pn, p[1] + pe, p[2] + pd), (v[0] + vn, v[1] + ve, v[2] + vd), pushed, turned)
                for p, v, pushed, turned in self.past
            ),
            self.past.maxlen,
        )
