"""Laws of single joints: an effort, a velocity or a position that is asked for, to the effort that the joint is given.

All three are called alike, so that one may stand in for another. They know nothing of the arm: its weight and inertia
are `JointImpedanceController`'s. Source: the seed "controllers", "joint-space controllers".
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from firmware_profiles.errors import UsageError
from twin.control.arrays import Arrays, checked


class JointEffortController:
    """tau = tau_des, within the limit.

    Args:
        joints: n.
        effort_limit: [N m or N] bound of the size of each effort; broadcasts to (N, n); infinite is none.
        arrays: where the arrays live; by default NumPy, float64, one world.

    Raises:
        UsageError: a parameter that cannot be.
    """

    def __init__(self, joints: int, *, effort_limit: npt.ArrayLike = np.inf, arrays: Arrays | None = None) -> None:
        if joints < 1:
            raise UsageError(f"joints: expected at least one, got {joints}")
        checked("effort_limit", effort_limit, least=0.0, most=np.inf)
        self._joints = joints
        self._arrays = Arrays() if arrays is None else arrays
        self._most = self._spread("effort_limit", effort_limit)

    def compute(self, target: Any, joint_pos: Any = None, joint_vel: Any = None) -> Any:
        """(N, n) efforts [N m or N].

        Args:
            target: (N, n) what the law is named after.
            joint_pos: (N, n) now [rad or m]; read by the position law only.
            joint_vel: (N, n) now [rad/s or m/s]; not read by this one.
        """
        return self._limited(target, -self._most, self._most)

    def _spread(self, name: str, value: npt.ArrayLike) -> Any:
        return self._arrays.spread(name, value, self._joints)

    def _limited(self, value: Any, least: Any, most: Any) -> Any:
        xp = self._arrays.xp
        return xp.minimum(xp.maximum(value, least), most)


class JointVelocityController(JointEffortController):
    """tau = k_d (qd_des - qd), target and effort within their limits.

    Args:
        joints: n.
        damping: k_d [N m s/rad or N s/m]; broadcasts to (N, n).
        velocity_limit: [rad/s or m/s] bound of the size of each target; infinite is none.
        effort_limit: as in `JointEffortController`.
        arrays: where the arrays live.

    Raises:
        UsageError: a parameter that cannot be.
    """

    def __init__(
        self,
        joints: int,
        *,
        damping: npt.ArrayLike,
        velocity_limit: npt.ArrayLike = np.inf,
        effort_limit: npt.ArrayLike = np.inf,
        arrays: Arrays | None = None,
    ) -> None:
        super().__init__(joints, effort_limit=effort_limit, arrays=arrays)
        checked("damping", damping, least=0.0)
        checked("velocity_limit", velocity_limit, least=0.0, most=np.inf)
        self._damping = self._spread("damping", damping)
        self._fastest = self._spread("velocity_limit", velocity_limit)

    def compute(self, target: Any, joint_pos: Any = None, joint_vel: Any = None) -> Any:
        """(N, n) efforts; see `JointEffortController.compute`.

        Raises:
            UsageError: no `joint_vel`.
        """
        wanted = self._limited(target, -self._fastest, self._fastest)
        return super().compute(self._damping * (wanted - given("joint_vel", joint_vel)))


class JointPositionController(JointEffortController):
    """tau = k_p (q_des - q) - k_d qd, target and effort within their limits.

    Args:
        joints: n.
        stiffness: k_p [N m/rad or N/m]; broadcasts to (N, n).
        damping: k_d [N m s/rad or N s/m]; broadcasts to (N, n).
        lower: [rad or m] least target; broadcasts to (N, n); infinite is none.
        upper: largest target, not below `lower`.
        effort_limit: as in `JointEffortController`.
        arrays: where the arrays live.

    Raises:
        UsageError: a parameter that cannot be.
    """

    def __init__(
        self,
        joints: int,
        *,
        stiffness: npt.ArrayLike,
        damping: npt.ArrayLike,
        lower: npt.ArrayLike = -np.inf,
        upper: npt.ArrayLike = np.inf,
        effort_limit: npt.ArrayLike = np.inf,
        arrays: Arrays | None = None,
    ) -> None:
        super().__init__(joints, effort_limit=effort_limit, arrays=arrays)
        checked("stiffness", stiffness, least=0.0)
        checked("damping", damping, least=0.0)
        checked_limits(lower, upper)
        self._stiffness, self._damping = self._spread("stiffness", stiffness), self._spread("damping", damping)
        self._lower, self._upper = self._spread("lower", lower), self._spread("upper", upper)

    def compute(self, target: Any, joint_pos: Any = None, joint_vel: Any = None) -> Any:
        """(N, n) efforts; see `JointEffortController.compute`.

        Raises:
            UsageError: no `joint_pos` or no `joint_vel`.
        """
        missing = self._limited(target, self._lower, self._upper) - given("joint_pos", joint_pos)
        return super().compute(self._stiffness * missing - self._damping * given("joint_vel", joint_vel))


def checked_limits(lower: npt.ArrayLike, upper: npt.ArrayLike) -> None:
    """Refuse limits that leave no position; infinite ones are no limits.

    Raises:
        UsageError: NaN, or a lower limit above the upper one.
    """
    if not np.all(np.asarray(lower, dtype=np.float64) <= np.asarray(upper, dtype=np.float64)):
        raise UsageError(f"lower, upper: expected numbers, none of lower above upper's, got {lower!r}, {upper!r}")


def given(name: str, value: Any) -> Any:
    """What the caller had to give.

    Raises:
        UsageError: it is None.
    """
    if value is None:
        raise UsageError(f"{name}: this controller needs it")
    return value
