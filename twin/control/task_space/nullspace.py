"""Efforts that draw the joints to a posture and leave the end-effector alone.

Source: O. Khatib, 1987 (the dynamically consistent inverse); Isaac Lab 3.0.0 (BSD-3), from its behaviour.
"""

from __future__ import annotations

from typing import Any

from twin.control.so3 import transposed
from twin.control.task_space.linear_algebra import matvec, pseudo_inverse


def consistent_efforts(acceleration: Any, jacobian: Any, mass_matrix: Any, inertia: Any, *, xp: Any) -> Any:
    """(N, n) M a - J^T Lambda J a: joint accelerations without what they would give the end-effector.

    Exact where Lambda is the inverse of J M^-1 J^T; where that was conditioned, the end-effector moves a little.

    Args:
        acceleration: a (N, n) of the joints.
        jacobian: J (N, 6, n).
        mass_matrix: M (N, n, n).
        inertia: Lambda (N, 6, 6).
        xp: array namespace.
    """
    wrench = matvec(inertia, matvec(jacobian, acceleration, xp=xp), xp=xp)
    return matvec(mass_matrix, acceleration, xp=xp) - matvec(transposed(jacobian, xp=xp), wrench, xp=xp)


def projected_efforts(efforts: Any, jacobian: Any, *, xp: Any) -> Any:
    """(N, n) (I - J^T (J^+)^T) tau: efforts without those that a force at the end-effector would answer.

    That leaves the end-effector alone in an arm that stands still; in motion the arm's inertia couples the two.
    """
    wrench = matvec(transposed(pseudo_inverse(jacobian, xp=xp), xp=xp), efforts, xp=xp)
    return efforts - matvec(transposed(jacobian, xp=xp), wrench, xp=xp)
