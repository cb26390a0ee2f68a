"""A PID loop for many worlds and channels at once.

u = Kp e + I - Kd dm/dt. The derivative is that of the measurement m, so a step of the target does not kick; hence the
minus (PX4's own PID library has a plus there and is used without D only). The integral is used before it is updated,
as in PX4's rate loop (src/lib/rate_control).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy.typing as npt

from twin.control.arrays import Arrays, checked


@dataclass(frozen=True, slots=True)
class PidGains:
    """Gains and limits of a loop; each a number or what broadcasts to (N, C).

    Attributes:
        kp, ki, kd: proportional, integral [1/s] and derivative [s] gains, in output units per error unit.
        integral_limit: bound of |I|, in output units.
        output_limit: bound of |u|, in output units; infinite for none.
        cutoff_hz: of the first-order low-pass on the derivative [Hz]; infinite for none.

    Raises:
        UsageError: a gain below 0, a limit or cut-off of 0 or less, not a number.
    """

    kp: npt.ArrayLike
    ki: npt.ArrayLike = 0.0
    kd: npt.ArrayLike = 0.0
    integral_limit: npt.ArrayLike = math.inf
    output_limit: float = math.inf
    cutoff_hz: float = math.inf

    def __post_init__(self) -> None:
        for name in ("kp", "ki", "kd"):
            checked(name, getattr(self, name), least=0.0)
        for name in ("integral_limit", "output_limit", "cutoff_hz"):
            checked(name, getattr(self, name), above=0.0, most=math.inf)


class Pid:
    """The loop with its memory.

    Args:
        gains: see `PidGains`.
        columns: number of channels C.
        dt_s: time between two updates [s].
        arrays: where its arrays live.

    Attributes:
        integral: (N, C) the integral's share of the output.
    """

    def __init__(self, gains: PidGains, columns: int, dt_s: float, arrays: Arrays) -> None:
        checked("dt_s", dt_s, above=0.0)
        self._xp, self._arrays = arrays.xp, arrays
        self._kp = arrays.spread("kp", gains.kp, columns)
        self._ki_dt = arrays.spread("ki", gains.ki, columns) * dt_s
        self._kd = arrays.spread("kd", gains.kd, columns)
        self._top = arrays.spread("integral_limit", gains.integral_limit, columns)
        self._bottom = -self._top
        self._limited = math.isfinite(gains.output_limit)
        self._most = arrays.spread("output_limit", gains.output_limit, columns)
        self._least = -self._most
        # Share of the difference that the low-pass takes over in a step, exactly; 1 without one.
        share = -math.expm1(-2.0 * math.pi * gains.cutoff_hz * dt_s)
        self._keep = arrays.spread("cutoff_hz", 1.0 - share, columns)
        self._take = arrays.spread("cutoff_hz", share / dt_s, columns)
        self._zero = arrays.zeros(columns)
        self.integral = self._zero
        self._slope = self._zero
        self._previous = self._zero
        self._unprimed = arrays.mask(None)
        self._all_primed = False

    def reset(self, worlds: Any = None) -> None:
        """Integral and derivative of some worlds, or of all, back to nothing."""
        mask = self._arrays.mask(worlds)
        where = self._xp.where
        self.integral = where(mask, self._zero, self.integral)
        self._slope = where(mask, self._zero, self._slope)
        self._unprimed = mask if self._all_primed else self._unprimed | mask
        self._all_primed = False

    def forget_integral(self, mask: Any) -> None:
        """The integral alone, where (N, 1) `mask` is true."""
        self.integral = self._xp.where(mask, self._zero, self.integral)

    def proportional_derivative(self, error: Any, measured: Any) -> Any:
        """Kp e - Kd dm/dt, the derivative from the last measurement to this: 0 at the first after a reset.

        Args:
            error: (N, C) target less measurement.
            measured: (N, C) the measurement m; must not wrap.
        """
        if not self._all_primed:
            self._previous = self._xp.where(self._unprimed, measured, self._previous)
            self._all_primed = True
        self._slope = self._keep * self._slope + self._take * (measured - self._previous)
        self._previous = measured
        return self._kp * error - self._kd * self._slope

    def integrate(self, error: Any) -> None:
        """Add an error to the integral, within its limits."""
        minimum, maximum = self._xp.minimum, self._xp.maximum
        self.integral = minimum(maximum(self.integral + self._ki_dt * error, self._bottom), self._top)

    def update(self, error: Any, measured: Any = None, *, rate: Any = None) -> Any:
        """One step: the limited output (N, C).

        Where the output is at its limit, an error that would push it further is not integrated.

        Args:
            error: (N, C).
            measured: (N, C) measurement; or instead
            rate: (N, C) its derivative, where there is a sensor for that (a heading wraps, its rate does not).
                With neither, there is no D.
        """
        if measured is not None:
            output = self.proportional_derivative(error, measured) + self.integral
        elif rate is not None:
            output = self._kp * error - self._kd * rate + self.integral
        else:
            output = self._kp * error + self.integral
        if not self._limited:
            self.integrate(error)
            return output
        xp = self._xp
        limited = xp.minimum(xp.maximum(output, self._least), self._most)
        self.integrate(xp.where((output - limited) * error > 0, self._zero, error))
        return limited
