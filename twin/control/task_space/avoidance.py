"""Distances as constraints on joint velocities: the velocity damper, for the own body and for obstacles alike."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from firmware_profiles.errors import UsageError
from twin.control.arrays import checked

FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Distances:
    """K measured distances in N worlds; `twin.arms.distances` measures them in MuJoCo.

    Attributes:
        distance_m: (N, K), negative inside each other; inf where it is too far to matter.
        gradient: (N, K, n) d distance / d joint position [m/rad]; not looked at where the distance is inf.
        rate_m_s: (N, K) how fast the distance changes with the joints at rest (the obstacle moves, or the base does);
            None is not at all.

    Raises:
        UsageError: the shapes do not belong together.
    """

    distance_m: FloatArray
    gradient: FloatArray
    rate_m_s: FloatArray | None = None

    def __post_init__(self) -> None:
        shape = np.shape(self.distance_m)
        if len(shape) != 2 or np.ndim(self.gradient) != 3 or np.shape(self.gradient)[:2] != shape:
            raise UsageError(f"gradient: expected (N, K, n) for distances {shape}, got {np.shape(self.gradient)}")
        if self.rate_m_s is not None and np.shape(self.rate_m_s) != shape:
            raise UsageError(f"rate_m_s: expected {shape} as the distances have it, got {np.shape(self.rate_m_s)}")


@dataclass(frozen=True, slots=True)
class VelocityDamper:
    """How fast a distance d may shrink: d' >= -approach (d - safety) / (influence - safety), where d < influence.

    Coming closer gets slower to nothing at the safety distance; below it the distance has to grow, at most by the
    approach speed. Source: Faverjon and Tournassoud 1987; Kanehiro, Lamiraux, Kanoun, Yoshida, Laumond 2008.

    Attributes:
        safety_m: the distance that is kept; broadcasts to (N, K), so that one's own body may come closer than a wall.
        influence_m: where the constraint begins; likewise.
        approach_m_s: the speed of approach that is allowed at the influence distance. The deceleration that this asks
            for is approach^2 / (influence - safety) at most: choose it below what the joints can do.

    Raises:
        UsageError: a value outside of its range, or the influence begins no further out than the safety distance.
    """

    safety_m: npt.ArrayLike = 0.02
    influence_m: npt.ArrayLike = 0.1
    approach_m_s: float = 0.3

    def __post_init__(self) -> None:
        checked("safety_m", self.safety_m, least=0.0)
        checked("influence_m", self.influence_m, above=0.0)
        checked("approach_m_s", self.approach_m_s, above=0.0)
        if not np.all(np.less(self.safety_m, self.influence_m)):
            raise UsageError(f"influence_m: expected above safety_m ({self.safety_m!r}), got {self.influence_m!r}")

    def check_step(self, dt_s: float) -> None:
        """Refuse steps that are too long for the damper.

        Raises:
            UsageError: at the approach speed one step goes through the whole zone.
        """
        zone = float(np.min(np.subtract(self.influence_m, self.safety_m)))
        if self.approach_m_s * dt_s > zone:
            raise UsageError(
                f"approach_m_s: expected at most {zone / dt_s:g} (influence less safety, per step), "
                f"got {self.approach_m_s:g}"
            )

    def least_rate(self, distances: Distances) -> tuple[FloatArray, npt.NDArray[np.bool_]]:
        """(N, K) what gradient times joint velocities must be at least [m/s], and where there is a constraint at all.

        Raises:
            UsageError: safety or influence distances of another number of pairs.
        """
        distance = np.asarray(distances.distance_m)
        try:
            safety = np.broadcast_to(np.asarray(self.safety_m, dtype=np.float64), distance.shape)
            influence = np.broadcast_to(np.asarray(self.influence_m, dtype=np.float64), distance.shape)
        except ValueError:
            raise UsageError(f"safety_m, influence_m: expected shapes that fit {distance.shape}") from None
        near = distance < influence
        share = (safety - np.where(near, distance, influence)) / (influence - safety)
        least = self.approach_m_s * np.minimum(share, 1.0)
        return least if distances.rate_m_s is None else least - distances.rate_m_s, near
