"""Six numbers along the axes of a task frame - gains, or 0 and 1 - as matrices in the frame of the arm's base."""

from __future__ import annotations

from typing import Any

from twin.control.so3 import transposed


def in_base(diagonal: Any, rotation: Any, *, xp: Any) -> Any:
    """(N, 6, 6) blocks R D R^T, linear and angular, of (N, 6) diagonals D.

    Args:
        diagonal: along and about the task frame's axes.
        rotation: (N, 3, 3) task frame to base, R.
        xp: array namespace.
    """
    back = transposed(rotation, xp=xp)
    linear = xp.matmul(rotation * diagonal[:, None, 0:3], back)
    angular = xp.matmul(rotation * diagonal[:, None, 3:6], back)
    return block_diagonal(linear, angular, xp=xp)


def block_diagonal(linear: Any, angular: Any, *, xp: Any) -> Any:
    """(N, 6, 6) of two (N, 3, 3)."""
    nothing = xp.zeros_like(linear)
    return xp.concat((xp.concat((linear, nothing), axis=2), xp.concat((nothing, angular), axis=2)), axis=1)
