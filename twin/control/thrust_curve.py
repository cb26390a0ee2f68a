"""Normalised thrust: PX4's curve between a motor's signal and its thrust, and newtons.

thrust = f x^2 + (1 - f) x, both in [0, 1], f = THR_MDL_FAC. Negative values (reversible motors) are mirrored.
Source: PX4 src/lib/mixer_module/motor_params.c and functions/FunctionMotors.hpp.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from twin.control.arrays import Arrays, checked

_FLT_EPSILON = 1.1920929e-07


def _valid(factor: Any, xp: Any) -> Any:
    """As PX4: a factor of 0, or one that makes no sense, means no curve."""
    return xp.where((factor > _FLT_EPSILON) & (factor <= 1.0), factor, xp.zeros_like(factor))


def apply_thrust_curve(signal: Any, factor: Any, *, xp: Any = np) -> Any:
    """The thrust that a motor gives at a signal; both normalised.

    Args:
        signal: array of any shape, in [-1, 1]; NaN stays NaN.
        factor: array that broadcasts to it: f; outside of (0, 1] there is no curve.
        xp: array namespace.
    """
    f = _valid(factor, xp)
    return f * signal * abs(signal) + (1.0 - f) * signal


def invert_thrust_curve(thrust: Any, factor: Any, *, xp: Any = np) -> Any:
    """The signal at which a motor gives a thrust, the inverse of `apply_thrust_curve`; same arguments.

    A thrust of less than 1e-7 is its own signal, as in PX4.
    """
    f = _valid(factor, xp)
    size, linear = abs(thrust), 1.0 - f
    # 2 T / (b + sqrt(b^2 + 4 a T)): the root without the difference of two near numbers, and without 1 / f.
    below = linear + xp.sqrt(linear * linear + 4.0 * f * size)
    small = size <= _FLT_EPSILON
    return xp.where(small, thrust, 2.0 * thrust / xp.where(small, xp.ones_like(below), below))


class NormalisedThrust:
    """Between a normalised thrust signal and newtons, for N worlds.

    PX4 has thrust = signal * weight / hover thrust; with the hover thrust in the same units that is signal times the
    largest thrust, and with a curve the curve comes first.

    Args:
        max_thrust_n: total thrust at signal 1 [N]; broadcasts to (N, 1).
        curve_factor: THR_MDL_FAC, in [0, 1]; likewise.
        arrays: where the arrays live; by default NumPy, float64, one world.

    Raises:
        UsageError: no thrust, or a factor outside of its range.
    """

    def __init__(
        self, max_thrust_n: npt.ArrayLike, curve_factor: npt.ArrayLike = 0.0, arrays: Arrays | None = None
    ) -> None:
        arrays = Arrays() if arrays is None else arrays
        checked("max_thrust_n", max_thrust_n, above=0.0)
        checked("curve_factor", curve_factor, least=0.0, most=1.0)
        self._xp = arrays.xp
        self._most = arrays.spread("max_thrust_n", max_thrust_n, 1)
        self._factor = arrays.spread("curve_factor", curve_factor, 1)

    def newtons(self, signal: Any) -> Any:
        """Total thrust (N, 1) [N] of signals; what PX4 calls applying the thrust curve, seen from the pilot."""
        return apply_thrust_curve(signal, self._factor, xp=self._xp) * self._most

    def signal(self, thrust_n: Any) -> Any:
        """Signal (N, 1) at which the total thrust is `thrust_n` [N]; of the weight: the hover throttle."""
        return invert_thrust_curve(thrust_n / self._most, self._factor, xp=self._xp)
