"""An L1 estimate of the forces and moments that a controller does not know.

A predictor runs beside the vehicle: x^' = u + s + A (x^ - x) for velocity and body rates x, driven by the accelerations
u that the nominal vehicle would have. Its error says what is missing, s = -Phi^-1 e^(A T) (x^ - x) with
Phi = A^-1 (e^(A T) - 1), constant over a step: the piecewise-constant law. A low-pass then decides how much of s is
worth acting on; it is what keeps fast adaptation from ending in the motors.

This s takes the whole error away within a step, e^(A T) (x^ - x) + Phi s = 0: the predictor begins each step at what is
measured, and of a constant disturbance s is the share p T / (e^(p T) - 1), with p = -A.
Source: Z. Wu et al., "L1 adaptive augmentation for geometric tracking control of quadrotors", ICRA 2022.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy.typing as npt

from twin.control.arrays import Arrays, checked


@dataclass(frozen=True, slots=True)
class L1Gains:
    """Settings of the estimate; each a number or what broadcasts to (N, 1).

    Attributes:
        pole_rad_s: p, -A of the predictor: how much of a disturbance is believed, 99 % at the default and 250 Hz.
        force_cutoff_rad_s: of the low-pass on accelerations; below the bandwidth of the attitude loop, which has to
            turn the thrust axis before a sideward force is met.
        moment_cutoff_rad_s: of the low-pass on angular accelerations; below that of the rotors.
        force_limit_m_s2: most that is believed, for each axis.
        moment_limit_rad_s2: likewise.

    Raises:
        UsageError: a value outside of its range.
    """

    pole_rad_s: npt.ArrayLike = 5.0
    force_cutoff_rad_s: npt.ArrayLike = 2.0
    moment_cutoff_rad_s: npt.ArrayLike = 8.0
    force_limit_m_s2: npt.ArrayLike = 6.0
    moment_limit_rad_s2: npt.ArrayLike = 30.0

    def __post_init__(self) -> None:
        for name in ("pole_rad_s", "force_cutoff_rad_s", "moment_cutoff_rad_s"):
            checked(name, getattr(self, name), above=0.0)
        for name in ("force_limit_m_s2", "moment_limit_rad_s2"):
            checked(name, getattr(self, name), least=0.0)


class L1Estimate:
    """The predictor and its filters for N worlds.

    Args:
        gains: see `L1Gains`.
        dt_s: time between two updates [s].
        arrays: where the arrays live.

    Attributes:
        missing: (N, 6) the filtered estimate: acceleration, world [m/s^2]; angular acceleration, body [rad/s^2].
    """

    def __init__(self, gains: L1Gains, dt_s: float, arrays: Arrays) -> None:
        checked("dt_s", dt_s, above=0.0)
        self._xp, self._arrays, self._dt = arrays.xp, arrays, dt_s
        xp, spread = arrays.xp, arrays.spread

        def six(force: npt.ArrayLike, moment: npt.ArrayLike) -> Any:
            return xp.concat((spread("gains", force, 1),) * 3 + (spread("gains", moment, 1),) * 3, axis=1)

        pole = six(gains.pole_rad_s, gains.pole_rad_s)
        self._decay = xp.exp(-pole * dt_s)
        self._phi = (1.0 - self._decay) / pole
        self._share = 1.0 - xp.exp(-dt_s * six(gains.force_cutoff_rad_s, gains.moment_cutoff_rad_s))
        self._most = six(gains.force_limit_m_s2, gains.moment_limit_rad_s2)
        self._zero = arrays.zeros(6)
        self.missing = self._measured = self._zero
        self._unprimed = arrays.mask(None)

    def reset(self, worlds: Any = None) -> None:
        """Forget the estimate of some worlds, or of all; the next update starts from what it measures."""
        mask = self._arrays.mask(worlds)
        self.missing = self._xp.where(mask, self._zero, self.missing)
        self._unprimed = self._unprimed | mask

    def update(self, measured: Any, driven: Any) -> Any:
        """One step.

        Args:
            measured: (N, 6) velocity, world [m/s], and rates, body [rad/s], now.
            driven: (N, 6) accelerations by the wrench of the step that just ended, of the nominal vehicle, likewise.

        Returns:
            `missing`, after this step.
        """
        xp = self._xp
        predicted = self._measured + self._dt * driven
        error = xp.where(self._unprimed, self._zero, predicted - measured)
        self._unprimed = xp.zeros_like(self._unprimed)
        sigma = -self._decay * error / self._phi
        filtered = self.missing + self._share * (sigma - self.missing)
        self.missing = xp.minimum(xp.maximum(filtered, -self._most), self._most)
        self._measured = measured
        return self.missing
