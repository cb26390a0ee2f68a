"""Way-points for a vehicle that arrives when it arrives: the next one when this one is within reach."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from firmware_profiles.errors import UsageError
from twin.control.arrays import Arrays, checked


class WayPointSequence:
    """The present way-point of N worlds, each at its own pace.

    Args:
        points: (K, 3) for all worlds or (K, N, 3) [m]; only x and y decide what is reached.
        reach_m: a point that is not farther off than this is reached; not above the controller's acceptance radius,
            or the vehicle stops before it counts.
        final_heading_rad: at the last point; broadcasts to (N, 1).
        arrays: where the arrays live; by default NumPy, float64, one world.

    Attributes:
        index: (N, 1) number of the present point.

    Raises:
        UsageError: points of another shape.
    """

    def __init__(
        self,
        points: npt.ArrayLike,
        reach_m: float,
        final_heading_rad: npt.ArrayLike = 0.0,
        arrays: Arrays | None = None,
    ) -> None:
        arrays = Arrays() if arrays is None else arrays
        checked("reach_m", reach_m, above=0.0)
        plain = np.asarray(points, dtype=np.float64)
        if plain.ndim == 2:
            plain = plain[:, None, :]
        if plain.ndim != 3 or not len(plain) or plain.shape[1] not in (1, arrays.n) or plain.shape[2] != 3:
            raise UsageError(f"points: expected (K, 3) or (K, N, 3) with N = {arrays.n}, got {np.shape(points)}")
        checked("points", plain)
        self._arrays, self._xp, self._reach = arrays, arrays.xp, reach_m
        self._points = [arrays.array(np.broadcast_to(point, (arrays.n, 3))) for point in plain]
        zero = arrays.zeros(1)
        heading = arrays.spread("final_heading_rad", final_heading_rad, 1)
        self._att_euler = arrays.xp.concat((zero, zero, heading), axis=1)
        self._zero = self.index = zero

    def reset(self, worlds: Any = None) -> None:
        """Some worlds, or all, back to the first point."""
        self.index = self._xp.where(self._arrays.mask(worlds), self._zero, self.index)

    @property
    def at_last(self) -> Any:
        """(N, 1) truth: the present point is the last one."""
        return self.index == float(len(self._points) - 1)

    def target(self, pos: Any) -> dict[str, Any]:
        """`pos` (N, 3) and `att_euler` (N, 3), the final heading, for vehicles at `pos` (N, 3)."""
        xp, wanted = self._xp, self._present()
        away = wanted - pos
        reached = xp.hypot(away[:, 0:1], away[:, 1:2]) <= self._reach
        self.index = xp.where(reached & ~self.at_last, self.index + 1.0, self.index)
        return {"pos": self._present(), "att_euler": self._att_euler}

    def _present(self) -> Any:
        chosen = self._points[0]
        for number, point in enumerate(self._points[1:], start=1):
            chosen = self._xp.where(self.index == float(number), point, chosen)
        return chosen
