"""The attitude error of the PID cascade: tilt before yaw, from quaternions (x, y, z, w), in any array namespace."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt


def error_matrix_table() -> npt.NDArray[np.float64]:
    """(4, 16): takes a target q_t to the matrix M, flattened, of `q @ M` = conj(q) q_t.

    The error of attitude is linear in the attitude, and the target holds still for many ticks.
    """
    x, y, z, w = range(4)
    table = np.zeros((4, 4, 4))  # of target component, attitude component, error component
    for i in (x, y, z, w):
        table[i, i, w] = 1.0  # the real part is the dot product
    for i in (x, y, z):
        table[i, w, i] = 1.0
        table[w, i, i] = -1.0
    for a, b, c in ((x, y, z), (y, z, x), (z, x, y)):
        table[b, a, c] = -1.0  # minus the cross product of the vector parts
        table[a, b, c] = 1.0
    return table.reshape(4, 16)


def attitude_error(q_error: Any, yaw_weight: Any, yaw_rest: Any, one: Any, *, xp: Any) -> Any:
    """Body axes about which to turn, with tilt before yaw: 2 sin(half the angle) for each (N, 3).

    The error is split into a turn that brings the thrust axis where it should be, and a turn about that axis, of
    which only a share is corrected. For small errors: (roll, pitch, weight times yaw). At a tilt error of half a turn
    the axis is whatever the quaternion says; nothing is singular.
    Source: PX4 src/modules/mc_att_control/AttitudeControl (Brescianini, Hehn, D'Andrea 2013), rewritten without
    its intermediate quaternions.

    Args:
        q_error: (N, 4) conj(attitude) target, (x, y, z, w), of either sign.
        yaw_weight: (N, 1) share k of the yaw error that is corrected; 0 leaves yaw alone.
        yaw_rest: (N, 1) 1 - k.
        one: (N, 1) ones.
        xp: array namespace.
    """
    x, y, z, w = q_error[:, 0:1], q_error[:, 1:2], q_error[:, 2:3], q_error[:, 3:4]
    sign = xp.copysign(one, w)  # q and -q are one attitude: the shorter way round
    half_yaw = xp.atan2(z * sign, abs(w))
    rest = yaw_rest * half_yaw
    twice = sign + sign
    cos, sin = xp.cos(rest) * twice, xp.sin(rest) * twice
    yaw = xp.hypot(w, z) * xp.sin(yaw_weight * half_yaw)
    return xp.concat((x * cos - y * sin, y * cos + x * sin, yaw + yaw), axis=1)
