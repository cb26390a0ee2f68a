"""Monitors that compare sensors: how big the innovations are, and whether two of them move the same way.

Thresholds are met by a wrong sensor within about a second and not by noise; the numbers are ours unless a source is
named. A monitor keeps its verdict until the evidence turns.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]

FILTER_S = 0.5
CLIP = 5.0**2
BAD = 3.0**2
GOOD = 2.0**2
PERSISTS_S = 1.0


class InnovationMonitor:
    """The low-passed square of a normalised innovation; wrong when it stays high for a second.

    PX4's EKF2 does the same with its innovation test ratios (estimator_status, preflight checks).

    Attributes:
        wrong: the verdict.
        mean_square: low-passed; 1 where model and sensor agree.
    """

    __slots__ = ("_bad_s", "mean_square", "wrong")

    def __init__(self) -> None:
        self.mean_square = 0.0
        self.wrong = False
        self._bad_s = 0.0

    def add(self, ratio: float, dt: float) -> None:
        """Take in an innovation over its standard deviation, `dt` seconds after the one before."""
        self.mean_square += min(1.0, dt / FILTER_S) * (min(CLIP, ratio * ratio) - self.mean_square)
        if self.mean_square > BAD:
            self._bad_s += dt
            self.wrong = self.wrong or self._bad_s >= PERSISTS_S
        else:
            self._bad_s = 0.0
            self.wrong = self.wrong and self.mean_square > GOOD


class SlopeMonitor:
    """The slope of what one sensor says on what another says, from pairs of changes; wrong when it is negative.

    A change in the noise says nothing and is left out. Old evidence is scaled down once there is plenty, so that a
    sensor that turns round later is noticed about as soon.

    Args:
        sigma: noise of a pair, in units of y.
        enough: evidence (sum of (x / sigma)^2) from which there is a verdict.

    Attributes:
        slope: so far; 1 where the sensors agree.
        wrong: the verdict.
    """

    __slots__ = ("_enough", "_sigma", "_xx", "_xy", "pairs", "slope", "wrong")

    def __init__(self, sigma: float, enough: float = 25.0) -> None:
        self._sigma, self._enough = sigma, enough
        self._xx = self._xy = 0.0
        self.slope = 1.0
        self.pairs = 0
        self.wrong = False

    def add(self, x: float, y: float) -> None:
        """Take in a pair of changes."""
        x /= self._sigma
        y /= self._sigma
        if x * x < 2.0:
            return
        # One pair must not decide alone, however large and however wild.
        y = max(-2.0 * abs(x), min(2.0 * abs(x), y))
        weight = min(1.0, 0.4 * self._enough / (x * x))
        self._xx += weight * x * x
        self._xy += weight * x * y
        self.pairs += 1
        surplus = self._xx / (8.0 * self._enough)
        if surplus > 1.0:
            self._xx /= surplus
            self._xy /= surplus
        self.slope = self._xy / self._xx
        self.wrong = self._xx >= self._enough and self.slope * math.sqrt(self._xx) < -4.0


class TurnMonitor:
    """The change of the magnetic field in the body against the rotation that the gyroscope reports, axis by axis.

    Three slopes s are fitted to (change of field) = -sum_i s_i (turn about axis i) x field. A gyroscope axis that is
    turned round gives one -1; a magnetometer axis that is turned round gives -1 for the two other axes.

    Attributes:
        slopes: (3,) so far, 0 where there is no evidence.
        gyroscope, magnetometer: the axis ("x", "y", "z") that is wrong.
        either: the axis about which the two disagree, where it cannot be said which is wrong.
    """

    __slots__ = ("_a", "_b", "_found", "_times", "either", "gyroscope", "magnetometer", "slopes")

    NOISE_GAUSS = 0.003
    MODEL_ERROR = 0.05
    """Of the change; it limits what one pair may say."""
    KEEP = 4000.0
    AGREE = 3
    """Pairs in a row after which a verdict counts."""

    def __init__(self) -> None:
        self._a = np.zeros((3, 3))
        self._b = np.zeros(3)
        self.slopes = np.zeros(3)
        self.gyroscope = self.magnetometer = self.either = ""
        self._found = ("", "", "")
        self._times = 0

    def add(self, turn: FloatArray, before: FloatArray, after: FloatArray) -> None:
        """Take in a rotation FRD [rad], and the field before and after it [gauss]; each (3,)."""
        if float(turn @ turn) < 0.01**2:
            return
        x, y, z = (0.5 * (before + after)).tolist()
        tx, ty, tz = turn.tolist()
        c = np.array([[0.0, -z * ty, y * tz], [z * tx, 0.0, -x * tz], [-y * tx, x * ty, 0.0]])
        change = after - before
        variance = self.NOISE_GAUSS**2 + self.MODEL_ERROR**2 * float(max(np.sum(c * c), change @ change))
        self._a += c.T @ c / variance
        self._b += c.T @ change / variance
        surplus = float(np.trace(self._a)) / self.KEEP
        if surplus > 1.0:
            self._a /= surplus
            self._b /= surplus
        spread = np.linalg.inv(self._a + np.eye(3))  # each slope is 0 +- 1 before any evidence
        self.slopes = spread @ self._b
        sure = np.abs(self.slopes) > np.maximum(0.3, 5.0 * np.sqrt(np.diag(spread)))
        self._judge([int(s) for s in np.where(sure, np.sign(self.slopes), 0.0)])

    def _judge(self, signs: list[int]) -> None:
        negative = [axis for axis in range(3) if signs[axis] < 0]
        gyroscope = magnetometer = either = ""
        if len(negative) == 2:
            magnetometer = "xyz"[3 - sum(negative)]
        elif len(negative) == 1 and sum(signs) == 1:  # the other two are healthy
            gyroscope = "xyz"[negative[0]]
        elif negative:
            either = "xyz"[negative[0]]
        found = (gyroscope, magnetometer, either)
        self._times = self._times + 1 if found == self._found else 1
        self._found = found
        if self._times >= self.AGREE:
            self.gyroscope, self.magnetometer, self.either = found


class HeadingMonitor:
    """The direction of the velocity changes that GNSS reports against those of the inertial sensors.

    Both are horizontal vectors; as complex numbers, their regression coefficient is the error of heading as a rotation.

    Attributes:
        error_rad: how far the inertial sensors' directions would have to be turned to the right.
        wrong: the verdict: more than 25 degrees, and beyond doubt.
    """

    __slots__ = ("_product", "_square", "error_rad", "wrong")

    SIGMA = 0.06
    """Of a change of GNSS velocity, and of the integrated acceleration [m/s]."""
    ENOUGH = 40.0
    WRONG_RAD = math.radians(25.0)

    def __init__(self) -> None:
        self._product = 0.0 + 0.0j
        self._square = 0.0
        self.error_rad = 0.0
        self.wrong = False

    def add(self, inertial: complex, gnss: complex) -> None:
        """Take in a pair of changes, north + i east [m/s]."""
        square = abs(inertial) ** 2 / self.SIGMA**2
        if square < 2.0:
            return
        if abs(gnss) > 2.0 * abs(inertial):  # one wild fix must not decide
            gnss *= 2.0 * abs(inertial) / abs(gnss)
        weight = min(1.0, 0.25 * self.ENOUGH / square)
        self._square += weight * square
        self._product += weight * inertial.conjugate() * gnss / self.SIGMA**2
        surplus = self._square / (8.0 * self.ENOUGH)
        if surplus > 1.0:
            self._square /= surplus
            self._product /= surplus
        self.error_rad = math.atan2(self._product.imag, self._product.real)
        coherence = abs(self._product) / math.sqrt(self._square)
        sure = coherence > 5.0 and abs(self.error_rad) > max(self.WRONG_RAD, 4.0 / coherence)
        self.wrong = self._square >= self.ENOUGH and sure
