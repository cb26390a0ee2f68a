"""What geometric controllers share: attitudes as rotation matrices, their error, and where a thrust axis should point.

Source: T. Lee, M. Leok, N. H. McClamroch, "Geometric tracking control of a quadrotor UAV on SE(3)", CDC 2010.
"""

from __future__ import annotations

from typing import Any

_NO_DIRECTION = 1e-12
"""A vector shorter than this points nowhere."""


def column(rotation: Any, index: int) -> Any:
    """(N, 3) a body axis of (N, 3, 3) rotation matrices, seen from the world."""
    return rotation[:, :, index]


def dot(a: Any, b: Any, *, xp: Any) -> Any:
    """(N, 1) scalar products of (N, 3) vectors."""
    return xp.sum(a * b, axis=1, keepdims=True)


def cross(a: Any, b: Any, *, xp: Any) -> Any:
    """(N, 3) vector products."""
    ax, ay, az = a[:, 0:1], a[:, 1:2], a[:, 2:3]
    bx, by, bz = b[:, 0:1], b[:, 1:2], b[:, 2:3]
    return xp.concat((ay * bz - az * by, az * bx - ax * bz, ax * by - ay * bx), axis=1)


def times(matrix: Any, vector: Any, *, xp: Any) -> Any:
    """(N, 3) products of (N, 3, 3) matrices and (N, 3) vectors."""
    return xp.matmul(matrix, vector[:, :, None])[:, :, 0]


def transposed(matrix: Any, *, xp: Any) -> Any:
    """(N, 3, 3) transposes."""
    return xp.permute_dims(matrix, (0, 2, 1))


def direction(vector: Any, otherwise: Any, *, xp: Any) -> Any:
    """(N, 3) vectors brought to length 1; where there is none to speak of, `otherwise`."""
    length = xp.sqrt(dot(vector, vector, xp=xp))
    tiny = length < _NO_DIRECTION
    return xp.where(tiny, otherwise, vector / xp.where(tiny, xp.ones_like(length), length))


def rotation_towards(force: Any, heading: Any, up_now: Any, *, xp: Any) -> Any:
    """(N, 3, 3) attitudes whose z axis points along a force and whose x axis heads, as nearly, along a heading.

    Args:
        force: (N, 3) world. A force of nothing, free fall, leaves the z axis where it is.
        heading: (N, 1) [rad], from east counter-clockwise.
        up_now: (N, 3) present z axis of the body.
        xp: array namespace.
    """
    b3 = direction(force, up_now, xp=xp)
    cos, sin = xp.cos(heading), xp.sin(heading)
    nothing = xp.zeros_like(cos)
    ahead, left = xp.concat((cos, sin, nothing), axis=1), xp.concat((-sin, cos, nothing), axis=1)
    b2 = direction(cross(b3, ahead, xp=xp), left, xp=xp)  # the force lies along the heading: any x axis would do
    return xp.stack((cross(b2, b3, xp=xp), b2, b3), axis=2)


def rotation_error(relative: Any, *, xp: Any) -> Any:
    """(N, 3) e_R = vee(R_d^T R - R^T R_d) / 2 of the relative attitudes R^T R_d (N, 3, 3)."""
    parts = ((1, 2), (2, 0), (0, 1))
    return 0.5 * xp.concat([(relative[:, i, j] - relative[:, j, i])[:, None] for i, j in parts], axis=1)
