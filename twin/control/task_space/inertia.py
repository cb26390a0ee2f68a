"""How heavy an arm is at its end-effector, with an answer in every posture.

Source: O. Khatib, "A unified approach for motion and force control of robot manipulators: the operational space
formulation", 1987; the conditioning from the behaviour of Isaac Lab 3.0.0 (BSD-3).
"""

from __future__ import annotations

from typing import Any

from twin.control.so3 import transposed
from twin.control.task_space.linear_algebra import symmetric_solve
from twin.control.task_space.selection import block_diagonal


def operational_space_inertia(
    jacobian: Any, mass_matrix: Any, *, thresholds: tuple[float, float], partial: bool = False, xp: Any
) -> Any:
    """(N, 6, 6) Lambda = (J M^-1 J^T)^-1 [kg, kg m, kg m^2].

    To be computed in double precision: next to a singularity the eigenvalues of J M^-1 J^T span more than single holds.

    Args:
        jacobian: J (N, 6, n), of any rank.
        mass_matrix: M (N, n, n); a joint whose row and column are zero counts as one that does not move.
        thresholds: low and high, see `conditioned_inverse`.
        partial: linear and angular blocks are inverted each by itself, and the others are 0.
        xp: array namespace.
    """
    mobility = xp.matmul(jacobian, symmetric_solve(mass_matrix, transposed(jacobian, xp=xp), xp=xp))
    if not partial:
        return conditioned_inverse(mobility, thresholds, xp=xp)
    linear, angular = mobility[:, 0:3, 0:3], mobility[:, 3:6, 3:6]
    return block_diagonal(
        conditioned_inverse(linear, thresholds, xp=xp), conditioned_inverse(angular, thresholds, xp=xp), xp=xp
    )


def conditioned_inverse(matrix: Any, thresholds: tuple[float, float], *, xp: Any) -> Any:
    """(N, m, m) inverses of positive semidefinite (N, m, m), no larger than 1 / (low largest eigenvalue).

    An eigenvalue l is inverted as 1 / (l + d). Of the largest one's share l / l_max, d is low l_max up to `low`, goes
    to 0 smoothly, and is 0 from `high` on. The inverse of nothing is 0, and NaN stays with its own world.
    """
    low, high = thresholds
    sound = xp.all(xp.isfinite(matrix), axis=(1, 2), keepdims=True)
    matrix = xp.where(sound, matrix, xp.zeros_like(matrix))
    values, vectors = xp.linalg.eigh(0.5 * (matrix + transposed(matrix, xp=xp)))
    nothing, one = xp.zeros_like(values), xp.ones_like(values)
    largest = xp.max(values, axis=1, keepdims=True) + nothing
    some = largest > 0
    size = xp.where(some, largest, one)
    share = xp.maximum(values / size, nothing)
    rise = xp.minimum(xp.maximum((share - low) / (high - low), nothing), one)
    damping = low * (one - rise * rise * (3.0 - 2.0 * rise))
    inverted = xp.where(some, 1.0 / ((share + damping) * size), nothing)
    inverse = xp.matmul(vectors * inverted[:, None, :], transposed(vectors, xp=xp))
    return xp.where(sound, inverse, xp.nan * xp.ones_like(inverse))
