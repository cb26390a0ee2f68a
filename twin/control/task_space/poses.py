"""Poses in the form that the task-space controllers speak: a position (N, 3) [m] and a quaternion (N, 4), (x, y, z, w).

A pose "of b in a" takes vectors of b to a. Quaternions are unit unless a function says that it takes others. All
functions work in any array namespace `xp`.

Source: Isaac Lab 3.0.0 (BSD-3), utils.math, from its behaviour: shortest-path errors, increments that multiply from the
left, and the bounds below which an angle counts as none.
"""

from __future__ import annotations

from typing import Any

from twin.control.so3 import cross, dot

_SMALL_ANGLE = 1e-6
"""[rad] below it an axis cannot be had from a quotient."""


def quat_multiply_xyzw(a: Any, b: Any, *, xp: Any) -> Any:
    """(N, 4) Hamilton products a b: first b, then a."""
    u, v = a[:, 0:3], b[:, 0:3]
    aw, bw = a[:, 3:4], b[:, 3:4]
    return xp.concat((aw * v + bw * u + cross(u, v, xp=xp), aw * bw - dot(u, v, xp=xp)), axis=1)


def quat_conjugate_xyzw(q: Any, *, xp: Any) -> Any:
    """(N, 4) conjugates: the inverses of unit quaternions."""
    return xp.concat((-q[:, 0:3], q[:, 3:4]), axis=1)


def quat_apply_xyzw(q: Any, v: Any, *, xp: Any) -> Any:
    """(N, 3) vectors turned by quaternions."""
    u = q[:, 0:3]
    twice = 2.0 * cross(u, v, xp=xp)
    return v + q[:, 3:4] * twice + cross(u, twice, xp=xp)


def normalised_or(q: Any, fallback: Any, *, xp: Any) -> Any:
    """(N, 4) quaternions brought to length 1, however short or long; (N, 4) `fallback` where that is no quaternion.

    None is what holds NaN or infinity, and what has no component as large as the smallest normal number of the type
    (1.2e-38 in single precision, where Isaac Lab gives up too); so it does not matter whether a processor keeps numbers
    below that.
    """
    largest = xp.max(xp.abs(q), axis=1, keepdims=True)
    usable = xp.isfinite(largest) & (largest >= float(xp.finfo(q.dtype).smallest_normal))
    # By the largest component first: the square of a small one would be nothing, of a large one infinite.
    scaled = xp.where(usable, q, xp.ones_like(q)) / xp.where(usable, largest, xp.ones_like(largest))
    return xp.where(usable, scaled / xp.sqrt(dot(scaled, scaled, xp=xp)), fallback)


def axis_angle_of_quat(q: Any, *, xp: Any) -> Any:
    """(N, 4) quaternions of any length to (N, 3) rotation vectors [rad], the short way round: at most half a turn.

    A quaternion of nothing is no rotation.
    """
    q = xp.where(q[:, 3:4] < 0, -q, q)
    u, w = q[:, 0:3], q[:, 3:4]
    sine = xp.sqrt(dot(u, u, xp=xp))
    angle = 2.0 * xp.atan2(sine, w)
    small, one = angle <= _SMALL_ANGLE, xp.ones_like(w)
    # A small angle is twice its half's sine: the next term of the series is 1e-13 of it.
    along = xp.where(small, 2.0 * one, angle) / xp.where(small, xp.where(w > 0, w, one), sine)
    return along * u


def quat_of_axis_angle(v: Any, *, xp: Any) -> Any:
    """(N, 3) rotation vectors [rad] to (N, 4) unit quaternions; no rotation up to 1e-6 rad."""
    angle = xp.sqrt(dot(v, v, xp=xp))
    small = angle <= _SMALL_ANGLE
    axis = v / xp.where(small, xp.ones_like(angle), angle)
    sine = xp.where(small, xp.zeros_like(angle), xp.sin(0.5 * angle))
    return xp.concat((axis * sine, xp.where(small, xp.ones_like(angle), xp.cos(0.5 * angle))), axis=1)


def pose_error(pos: Any, quat: Any, pos_des: Any, quat_des: Any, *, xp: Any) -> tuple[Any, Any]:
    """What is missing to the desired pose: (N, 3) [m] and a rotation vector (N, 3) [rad], both in the poses' frame.

    The rotation turns `quat` into `quat_des` the short way round: q_des q^-1.
    """
    return pos_des - pos, axis_angle_of_quat(
        quat_multiply_xyzw(quat_des, quat_conjugate_xyzw(quat, xp=xp), xp=xp), xp=xp
    )


def moved_by(pos: Any, quat: Any, delta: Any, *, xp: Any) -> tuple[Any, Any]:
    """Poses moved by (N, 6) a displacement [m] and a rotation vector [rad], both about the axes of the poses' frame."""
    return pos + delta[:, 0:3], quat_multiply_xyzw(quat_of_axis_angle(delta[:, 3:6], xp=xp), quat, xp=xp)


def compose(pos_ab: Any, quat_ab: Any, pos_bc: Any, quat_bc: Any, *, xp: Any) -> tuple[Any, Any]:
    """The pose of c in a, from that of b in a and that of c in b."""
    return pos_ab + quat_apply_xyzw(quat_ab, pos_bc, xp=xp), quat_multiply_xyzw(quat_ab, quat_bc, xp=xp)


def relative_to(pos_a: Any, quat_a: Any, pos_b: Any, quat_b: Any, *, xp: Any) -> tuple[Any, Any]:
    """The pose of b in a, from both in a third frame: `compose` of `a` and the result is `b` again."""
    inverse = quat_conjugate_xyzw(quat_a, xp=xp)
    return quat_apply_xyzw(inverse, pos_b - pos_a, xp=xp), quat_multiply_xyzw(inverse, quat_b, xp=xp)
