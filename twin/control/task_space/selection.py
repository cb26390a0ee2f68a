"""Six numbers along the axes of a task frame - gains, or 0 and 1 - as matrices in the frame of the arm's base."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


def in_base(diagonals: Sequence[Any], rotation: Any, *, xp: Any) -> list[Any]:
    """(N, 6, 6) blocks R D R^T, linear and angular, of each of K (N, 6) diagonals D; all at once, as they are small.

    Args:
        diagonals: along and about the task frame's axes.
        rotation: (N, 3, 3) task frame to base, R.
        xp: array namespace.
    """
    n, k = rotation.shape[0], len(diagonals)
    axes = xp.permute_dims(rotation, (0, 2, 1))
    # Sum of d a a^T over the three axes a: one product for all blocks.
    across = xp.reshape(axes[:, :, :, None] * axes[:, :, None, :], (n, 3, 9))
    numbers = xp.reshape(xp.stack(list(diagonals), axis=1), (n, 2 * k, 3))
    blocks = xp.reshape(xp.matmul(numbers, across), (n, k, 2, 3, 3))
    matrices = block_diagonal(blocks[:, :, 0, :, :], blocks[:, :, 1, :, :], xp=xp)
    return [matrices[:, i, :, :] for i in range(k)]


def block_diagonal(linear: Any, angular: Any, *, xp: Any) -> Any:
    """(..., 6, 6) of two (..., 3, 3)."""
    nothing = xp.zeros_like(linear)
    return xp.concat((xp.concat((linear, nothing), axis=-1), xp.concat((nothing, angular), axis=-1)), axis=-2)
