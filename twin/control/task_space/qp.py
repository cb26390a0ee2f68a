"""One small quadratic program with an exact answer, and the least violation where its constraints contradict.

The solver is DAQP (Arnstroem, Bemporad, Axehill 2022: a dual active-set method): one wheel of C without dependencies,
exact for ten variables and some dozens of rows in about 15 us, and sure when it says that there is no solution, which
the first-order solvers (OSQP, ProxQP) only say to a tolerance.
"""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np
import numpy.typing as npt

from firmware_profiles.errors import UsageError

FloatArray = npt.NDArray[np.float64]

_OPTIMAL = 1  # DAQP's exit flag
_ROOM = 1e-7  # what the least violation is widened by, so that rounding does not close it again
_TINY = 1e-8  # weight of x beside the violation: it makes the first of the two programs strictly convex


class QpSolver:
    """Minimise 1/2 x'Hx + g'x subject to lower <= x <= upper and rows x >= least.

    Every call stands alone: no answer depends on the call before. The bounds may be infinite; everything else must be
    finite, and H symmetric and positive definite.

    Raises:
        UsageError: the solver is not installed.
    """

    def __init__(self) -> None:
        try:
            self._daqp: Any = importlib.import_module("daqp").solve
        except ImportError:
            raise UsageError("the reactive layer needs daqp: pip install lav2-hil[reactive]") from None

    def solve(
        self,
        hessian: FloatArray,
        gradient: FloatArray,
        lower: FloatArray,
        upper: FloatArray,
        rows: FloatArray,
        least: FloatArray,
    ) -> FloatArray | None:
        """The minimiser (n,), or None if there is none or it was not found.

        Args:
            hessian: (n, n) H.
            gradient: (n,) g.
            lower: (n,) of x.
            upper: (n,) of x.
            rows: (K, n); K may be 0.
            least: (K,) what `rows` x must be at least.
        """
        n, k = gradient.size, least.size
        most = np.full(n + k, np.inf)
        most[:n] = upper
        kinds = np.zeros(n + k, dtype=np.int32)  # all of them inequalities
        x, _, flag, _ = self._daqp(hessian, gradient, rows, most, np.concatenate((lower, least)), kinds)
        return x if flag == _OPTIMAL and np.isfinite(x).all() else None

    def solve_least_violation(
        self,
        hessian: FloatArray,
        gradient: FloatArray,
        lower: FloatArray,
        upper: FloatArray,
        rows: FloatArray,
        least: FloatArray,
    ) -> FloatArray | None:
        """As `solve`, where the rows contradict each other or the bounds: two programs, one above the other.

        The first finds the least sum of squares by which the rows have to give way, the second the best x with that.
        The bounds do not give way. None if the bounds contradict each other.
        """
        n, k = gradient.size, least.size
        weight = np.diag(np.concatenate((np.full(n, _TINY), np.ones(k))))
        yielding = self.solve(
            weight,
            np.zeros(n + k),
            np.concatenate((lower, np.zeros(k))),
            np.concatenate((upper, np.full(k, np.inf))),
            np.concatenate((rows, np.eye(k)), axis=1),
            least,
        )
        if yielding is None:
            return None
        return self.solve(hessian, gradient, lower, upper, rows, least - yielding[n:] - _ROOM)
