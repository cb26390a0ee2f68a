"""How an arm pressed on a wall, in truth: what a contact inspection is judged by."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from firmware_profiles.signals import HilControls, SensorSample
from lav2_hil.companion.params import CompanionParams
from lav2_hil.companion.wall_face import WallFace
from twin.twin import Twin

FloatArray = npt.NDArray[np.float64]


class ContactLog:
    """Follows the force on a wall at every tick.

    Args:
        twin: whose world 0 is followed.
        params: what was wanted.
        face: that the force is to be perpendicular to; None where there is no wall in truth.
    """

    def __init__(self, twin: Twin, params: CompanionParams, face: WallFace | None) -> None:
        self._twin = twin
        self._params = params
        heading = 0.0 if face is None else face.heading
        self._into_enu = np.array((math.sin(heading), math.cos(heading), 0.0))
        self._forces: list[float] = []

    def stepped(self, controls: HilControls | None, sample: SensorSample) -> None:
        """Note the force after a step."""
        self._forces.append(float(self._twin.tip_force_enu[0] @ self._into_enu))

    def summary(self) -> dict[str, Any]:
        """See `figures_of`."""
        return figures_of(np.array(self._forces), self._params, 1e-6 * self._twin.tick_us)

    def problems(self) -> list[str]:
        """What was not as it was wanted."""
        params, held_s = self._params, self.summary()["held_s"]
        if held_s >= params.hold_s:
            return []
        return [
            f"pressed {params.force_n:g} +/- {params.tolerance_n:g} N on the wall for {held_s:.1f} s at a stretch, "
            f"wanted {params.hold_s:g} s"
        ]


def figures_of(forces: FloatArray, params: CompanionParams, tick_s: float) -> dict[str, Any]:
    """A contact in figures: newtons perpendicular to the wall, and seconds.

    `held_s` is the longest time without a break within the tolerance, and mean and deviation are of that time.

    Args:
        forces: (T,) at every tick, into the wall [N].
        params: what was wanted.
        tick_s: between two of them.
    """
    inside = np.abs(forces - params.force_n) <= params.tolerance_n
    first, last = _longest(inside)
    held = forces[first:last]
    return {
        "touching_s": round(tick_s * int(np.count_nonzero(forces > 0.0)), 3),
        "within_s": round(tick_s * int(np.count_nonzero(inside)), 3),
        "held_s": round(tick_s * (last - first), 3),
        "mean_n": round(float(held.mean()), 3) if len(held) else None,
        "deviation_n": round(float(held.std()), 3) if len(held) else None,
        "max_n": round(float(forces.max(initial=0.0)), 3),
    }


def _longest(inside: npt.NDArray[np.bool_]) -> tuple[int, int]:
    """First and one behind the last of the longest run of true values."""
    edges = np.flatnonzero(np.diff(np.concatenate(([0], inside.astype(np.int8), [0]))))
    starts, ends = edges[::2], edges[1::2]
    if not len(starts):
        return 0, 0
    best = int(np.argmax(ends - starts))
    return int(starts[best]), int(ends[best])
