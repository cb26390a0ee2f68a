"""What goes to an external MPC and what comes back: the state of the joints, and a plan over a horizon of times."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from firmware_profiles.errors import UsageError

FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class JointState:
    """What was measured of the joints of N worlds.

    Attributes:
        time_us: when [us].
        positions: (N, n) [rad].
        velocities: (N, n) [rad/s].
    """

    time_us: int
    positions: FloatArray
    velocities: FloatArray


@dataclass(frozen=True, slots=True)
class JointPlan:
    """A plan over T times; a world whose plan holds something that is not a number has none.

    The arrays are copied, for a solver may write its next plan into the same memory.

    Attributes:
        state_us: `JointState.time_us` of the state that it was computed from [us].
        times_us: (T,) rising, T >= 2, on the clock of the states [us]. They may begin later than the state, as with an
            MPC that foresees its own delay.
        positions: (N, T, n) [rad].
        velocities: (N, T, n) [rad/s].
        efforts: (N, T, n) [N m] held from each time to the next, as a multiple-shooting MPC means its inputs, so that
            the last is not used; None is none.

    Raises:
        UsageError: shapes or times that are no plan.
    """

    state_us: int
    times_us: npt.NDArray[np.int64]
    positions: FloatArray
    velocities: FloatArray
    efforts: FloatArray | None = None

    def __post_init__(self) -> None:
        for name in ("times_us", "positions", "velocities", "efforts"):
            if getattr(self, name) is not None:
                kept = np.array(getattr(self, name))
                kept.flags.writeable = False
                object.__setattr__(self, name, kept)
        times, shape = self.times_us, np.shape(self.positions)
        if times.dtype.kind not in "iu" or times.ndim != 1 or times.size < 2 or not np.all(times[1:] > times[:-1]):
            raise UsageError(f"times_us: expected at least two whole, rising numbers, got {self.times_us!r}")
        if len(shape) != 3 or shape[1] != times.size:
            raise UsageError(f"positions: expected (N, {times.size}, n), got {shape}")
        for name, value in (("velocities", self.velocities), ("efforts", self.efforts)):
            if value is not None and np.shape(value) != shape:
                raise UsageError(f"{name}: expected {shape} as the positions have it, got {np.shape(value)}")

    @property
    def solved(self) -> npt.NDArray[np.bool_]:
        """(N,) worlds in which the whole plan is finite."""
        parts = (self.positions, self.velocities, *(() if self.efforts is None else (self.efforts,)))
        return np.asarray(np.all([np.isfinite(part).all(axis=(1, 2)) for part in parts], axis=0))

    def at(self, time_us: int) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Positions, velocities and efforts, (N, n) each, at a time within the horizon.

        Positions are cubic between the times (Hermite, from positions and velocities), velocities linear: exact where
        the acceleration is constant from each time to the next.
        """
        i = min(int(np.searchsorted(self.times_us, time_us, side="right")) - 1, self.times_us.size - 2)
        span_us = int(self.times_us[i + 1] - self.times_us[i])
        s, span = (time_us - int(self.times_us[i])) / span_us, span_us * 1e-6
        q0, q1 = self.positions[:, i], self.positions[:, i + 1]
        v0, v1 = self.velocities[:, i], self.velocities[:, i + 1]
        bend = s * s * (3.0 - 2.0 * s)
        positions = q0 + bend * (q1 - q0) + span * s * (1.0 - s) * ((1.0 - s) * v0 - s * v1)
        velocities = v0 + s * (v1 - v0)
        if self.efforts is None:
            return positions, velocities, np.zeros_like(q0)
        return positions, velocities, self.efforts[:, i]
