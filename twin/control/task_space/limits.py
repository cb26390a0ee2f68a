"""What a joint may do in the next step: limits of position, velocity and acceleration as bounds of its velocity."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from firmware_profiles.errors import UsageError
from twin.control.arrays import checked

FloatArray = npt.NDArray[np.float64]

_ROUNDING_RAD_S = 1e-9


@dataclass(frozen=True, slots=True)
class JointLimits:
    """Limits of n joints, each what broadcasts to (N, n); rad, or m for a joint that slides.

    Attributes:
        lower: positions; may be -inf.
        upper: positions; may be inf.
        velocity: the largest speed [rad/s]; may be inf.
        acceleration: the largest change of the commanded velocity [rad/s^2]; None is no limit.
        gain: share of the way that is left to a position limit which one step may use up, within (0, 1]. Less than 1
            comes to the limit softly.

    Raises:
        UsageError: a value outside of its range, or no room between the position limits.
    """

    lower: npt.ArrayLike
    upper: npt.ArrayLike
    velocity: npt.ArrayLike = np.inf
    acceleration: npt.ArrayLike | None = None
    gain: float = 0.5

    def __post_init__(self) -> None:
        checked("lower", -np.asarray(self.lower, dtype=np.float64), most=np.inf)
        checked("upper", self.upper, most=np.inf)
        checked("velocity", self.velocity, above=0.0, most=np.inf)
        if self.acceleration is not None:
            checked("acceleration", self.acceleration, above=0.0)
        checked("gain", self.gain, above=0.0, most=1.0)
        try:
            room = np.all(np.less(self.lower, self.upper))
        except ValueError:
            raise UsageError(
                f"lower, upper: shapes {np.shape(self.lower)} and {np.shape(self.upper)} do not fit each other"
            ) from None
        if not room:
            raise UsageError(f"upper: expected above lower everywhere, got {self.upper!r} with lower {self.lower!r}")


class VelocityBounds:
    """The limits of N worlds as bounds of the velocity of one step, after which q + dt qd is where the joint is.

    Position: qd stays within gain (limit - q) / dt, so that no step passes a limit. With a limit of acceleration, a
    joint is also never faster than it can brake: from v, losing a dt each step, it travels v dt + (v - a dt) dt + ...,
    which must fit in the room that is left (the viable set of Del Prete 2018, for steps of constant velocity). Inside
    this set position and acceleration never contradict; the gain gives way to the acceleration.

    Outside of it (the joint is faster than it can brake) the position limit wins and the world is reported. A joint
    that is already beyond its limit comes back as the gain says, within the limits of velocity and acceleration.

    Args:
        limits: see `JointLimits`.
        n: number of worlds.
        joints: number of joints.
        dt_s: length of a step.

    Raises:
        UsageError: limits of another number of joints.
    """

    def __init__(self, limits: JointLimits, n: int, joints: int, dt_s: float) -> None:
        def spread(name: str, value: npt.ArrayLike) -> FloatArray:
            try:
                return np.broadcast_to(np.asarray(value, dtype=np.float64), (n, joints)).copy()
            except ValueError:
                raise UsageError(f"{name}: expected a shape that fits {(n, joints)}, got {np.shape(value)}") from None

        self._dt, self._gain = dt_s, limits.gain
        self.lower, self.upper = spread("lower", limits.lower), spread("upper", limits.upper)
        self._velocity = spread("velocity", limits.velocity)
        self._acceleration = None if limits.acceleration is None else spread("acceleration", limits.acceleration)

    @property
    def needs_last(self) -> bool:
        """Whether the velocities of the step before are needed."""
        return self._acceleration is not None

    def bounds(
        self, positions: FloatArray, last: FloatArray | None
    ) -> tuple[FloatArray, FloatArray, npt.NDArray[np.bool_]]:
        """Lower and upper bounds of the velocities, (N, n) each, never crossing; (N,) whether acceleration gave way.

        Args:
            positions: (N, n) of the joints.
            last: (N, n) velocities of the step before; not looked at where the acceleration has no limit.
        """
        down, up = positions - self.lower, self.upper - positions
        if self._acceleration is None or last is None:
            share = self._gain / self._dt
            lower, upper = self._within(-share * down), self._within(share * up)
            return lower, upper, np.zeros(len(positions), dtype=bool)
        slack = self._acceleration * self._dt
        upper = self._within(self._towards(up, last - slack))
        lower = self._within(-self._towards(down, -last - slack))
        slowest, fastest = last - slack, last + slack
        beyond = np.maximum(slowest - upper, lower - fastest) > _ROUNDING_RAD_S
        # np.clip in this order keeps the position's bounds where the two do not meet
        return (
            np.clip(np.maximum(lower, slowest), lower, upper),
            np.clip(np.minimum(upper, fastest), lower, upper),
            np.asarray(beyond.any(axis=1)),
        )

    def _within(self, velocity: FloatArray) -> FloatArray:
        return np.clip(velocity, -self._velocity, self._velocity)

    def _towards(self, room: FloatArray, braked: FloatArray) -> FloatArray:
        """(N, n) the largest velocity towards a limit; `braked` is the last velocity less what one step can take."""
        soft = np.maximum(self._gain / self._dt * room, braked)
        return np.where(room < 0.0, soft, np.minimum(soft, self._braking(room)))

    def _braking(self, room: FloatArray) -> FloatArray:
        """(N, n) the largest velocity from which the joint still stops within the room.

        Braking from v = m a dt takes a dt^2 m (m + 1) / 2; between two whole m the way is linear in v.
        """
        assert self._acceleration is not None
        known = np.where(np.isinf(room) | (room < 0.0), 0.0, room)
        unit = self._acceleration * self._dt**2
        whole = np.floor((np.sqrt(1.0 + 8.0 * known / unit) - 1.0) / 2.0)
        rest = known - unit * whole * (whole + 1.0) / 2.0
        fastest = self._acceleration * self._dt * whole + rest / ((whole + 1.0) * self._dt)
        return np.where(np.isinf(room), np.inf, fastest)
