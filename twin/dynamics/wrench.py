"""Forces at points of the body, and what they are together."""

from __future__ import annotations

from typing import Any


def cross(a: Any, b: Any, *, xp: Any) -> Any:
    """(..., 3) cross product; not every array library has one that broadcasts."""
    ax, ay, az = a[..., 0], a[..., 1], a[..., 2]
    bx, by, bz = b[..., 0], b[..., 1], b[..., 2]
    return xp.stack((ay * bz - az * by, az * bx - ax * bz, ax * by - ay * bx), axis=-1)


def wrench_of_forces(force_body: Any, point_body: Any, *, xp: Any) -> tuple[Any, Any]:
    """Sum of forces and sum of their moments about the body's origin.

    Args:
        force_body: (N, R, 3) [N], body frame.
        point_body: (R, 3) or (N, R, 3) where they act [m], body frame.
        xp: array namespace.

    Returns:
        (N, 3) force [N] and (N, 3) moment [N m], body frame.
    """
    moment = cross(point_body, force_body, xp=xp)
    return xp.sum(force_body, axis=1), xp.sum(moment, axis=1)
