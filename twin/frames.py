"""Every change of frame and of attitude representation, here and nowhere else.

World: ENU (MuJoCo) and NED (PX4). Body: FLU and FRD. A quaternion `q_world_body` takes body vectors to world, rotation
matrices likewise: v_world = R v_body. All functions take and give arrays with leading axes.

Quaternions are w-first; those of the controllers' dictionaries (seed "dynamics") are (x, y, z, w), and the functions
that handle them say `xyzw` in their name or documentation and work in any array namespace `xp`, as the controllers do.
Euler angles are XYZ intrinsic in those dictionaries, R = Rx Ry Rz, and ZYX intrinsic in PX4, R = Rz Ry Rx: from one to
the other through the matrix.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]

FRD_OF_FLU = np.array([1.0, -1.0, -1.0])
"""Factors that take a vector from FLU to FRD, and back."""

_SQRT_HALF = math.sqrt(0.5)
Q_NED_ENU = np.array([0.0, _SQRT_HALF, _SQRT_HALF, 0.0])
"""Takes ENU vectors to NED, and NED vectors to ENU: half a turn about north-east."""


def ned_of_enu(v: FloatArray) -> FloatArray:
    """(..., 3) vector from ENU to NED or from NED to ENU: the exchange is its own inverse."""
    return np.stack((v[..., 1], v[..., 0], -v[..., 2]), axis=-1)


def _rotation_of_products() -> FloatArray:
    """(16, 9) that takes the products q_i q_j to the row-major rotation matrix."""
    m = np.zeros((4, 4, 3, 3))
    w, x, y, z = range(4)
    for i in range(3):
        m[w, w, i, i] = m[x, x, i, i] = m[y, y, i, i] = m[z, z, i, i] = -1.0
        m[w, w, i, i] = m[i + 1, i + 1, i, i] = 1.0
    for a, b, c in ((x, y, z), (y, z, x), (z, x, y)):
        m[a, b, a - 1, b - 1] = m[a, b, b - 1, a - 1] = 2.0
        m[w, c, b - 1, a - 1] = 2.0
        m[w, c, a - 1, b - 1] = -2.0
    return m.reshape(16, 9)


_ROTATION_OF_PRODUCTS = _rotation_of_products()


def rotation_of_quat(q: FloatArray) -> FloatArray:
    """(N, 4) unit quaternions to (N, 3, 3) rotation matrices; two array operations, for the hot path."""
    n = q.shape[0]
    products = q[:, :, None] * q[:, None, :]
    return (products.reshape(n, 16) @ _ROTATION_OF_PRODUCTS).reshape(n, 3, 3)


def quat_multiply(a: FloatArray, b: FloatArray) -> FloatArray:
    """(..., 4) Hamilton product a b: first b, then a."""
    aw, ax, ay, az = np.moveaxis(a, -1, 0)
    bw, bx, by, bz = np.moveaxis(b, -1, 0)
    return np.stack(
        (
            aw * bw - ax * bx - ay * by - az * bz,
            aw * bx + ax * bw + ay * bz - az * by,
            aw * by - ax * bz + ay * bw + az * bx,
            aw * bz + ax * by - ay * bx + az * bw,
        ),
        axis=-1,
    )


_Q_FLU_FRD = np.array([0.0, 1.0, 0.0, 0.0])


def q_ned_frd_of_enu_flu(q_enu_flu: FloatArray) -> FloatArray:
    """(..., 4) attitude from MuJoCo's frames to PX4's, with w >= 0."""
    q = quat_multiply(quat_multiply(Q_NED_ENU, q_enu_flu), _Q_FLU_FRD)
    return np.where(q[..., :1] < 0, -q, q)


def q_enu_flu_of_ned_frd(q: tuple[float, float, float, float]) -> tuple[float, float, float, float]:
    """One attitude from PX4's frames to MuJoCo's, in plain numbers: the inverse of `q_ned_frd_of_enu_flu`."""
    w, x, y, z = q
    return _SQRT_HALF * (w + z), _SQRT_HALF * (x + y), _SQRT_HALF * (x - y), _SQRT_HALF * (w - z)


def q_enu_flu_of_heading(heading_deg: float) -> FloatArray:
    """(4,) level attitude whose nose points along a compass heading (0 north, 90 east)."""
    half_yaw = 0.5 * math.radians(90.0 - heading_deg)
    return np.array([math.cos(half_yaw), 0.0, 0.0, math.sin(half_yaw)])


def euler_zyx_of_quat(q: FloatArray) -> FloatArray:
    """(..., 4) to (..., 3) roll, pitch, yaw [rad], ZYX intrinsic as PX4 has them (of q_ned_frd)."""
    w, x, y, z = np.moveaxis(q, -1, 0)
    roll = np.arctan2(2 * (w * x + y * z), 1 - 2 * (x * x + y * y))
    pitch = np.arcsin(np.minimum(1.0, np.maximum(-1.0, 2 * (w * y - z * x))))
    yaw = np.arctan2(2 * (w * z + x * y), 1 - 2 * (y * y + z * z))
    return np.stack((roll, pitch, yaw), axis=-1)


def euler_zyx_of_q_ned_frd(q: tuple[float, float, float, float]) -> tuple[float, float, float]:
    """One attitude, in plain numbers, to roll, pitch, yaw [rad], ZYX intrinsic: `euler_zyx_of_quat` without arrays."""
    w, x, y, z = q
    roll = math.atan2(2 * (w * x + y * z), 1 - 2 * (x * x + y * y))
    pitch = math.asin(min(1.0, max(-1.0, 2 * (w * y - z * x))))
    yaw = math.atan2(2 * (w * z + x * y), 1 - 2 * (y * y + z * z))
    return roll, pitch, yaw


def vec3(row: Any) -> tuple[float, float, float]:
    """A (3,) array as a tuple of floats."""
    x, y, z = row.tolist()
    return x, y, z


# The controllers' attitudes, in any array namespace.


def xyzw_of_wxyz(q: Any, *, xp: Any) -> Any:
    """(N, 4) w-first quaternions to (x, y, z, w)."""
    return xp.concat((q[:, 1:4], q[:, 0:1]), axis=1)


def wxyz_of_xyzw(q: Any, *, xp: Any) -> Any:
    """(N, 4) quaternions (x, y, z, w) to w-first ones."""
    return xp.concat((q[:, 3:4], q[:, 0:3]), axis=1)


def quat_of_euler_xyz(euler: Any, *, xp: Any) -> Any:
    """(N, 3) roll, pitch, yaw [rad], XYZ intrinsic (R = Rx Ry Rz), to (N, 4) quaternions (x, y, z, w)."""
    half = euler * 0.5
    cos, sin = xp.cos(half), xp.sin(half)
    cx, cy, cz = cos[:, 0:1], cos[:, 1:2], cos[:, 2:3]
    sx, sy, sz = sin[:, 0:1], sin[:, 1:2], sin[:, 2:3]
    cc, ss, sc, cs = cx * cy, sx * sy, sx * cy, cx * sy
    return xp.concat((sc * cz + cs * sz, cs * cz - sc * sz, cc * sz + ss * cz, cc * cz - ss * sz), axis=1)


def quat_of_euler_zyx(euler: Any, *, xp: Any) -> Any:
    """(N, 3) roll, pitch, yaw [rad], ZYX intrinsic (R = Rz Ry Rx), to (N, 4) quaternions (x, y, z, w)."""
    # The inverse of Rz Ry Rx is Rx(-roll) Ry(-pitch) Rz(-yaw), and a quaternion's inverse turns its vector round.
    inverse = quat_of_euler_xyz(-euler, xp=xp)
    return xp.concat((-inverse[:, 0:3], inverse[:, 3:4]), axis=1)


def heading_of_euler_xyz(euler: Any, *, xp: Any) -> Any:
    """(N, 3) XYZ-intrinsic angles to the heading of the nose (N, 1): from east, counter-clockwise [rad].

    It is the third angle only when the vehicle is level, or inclined about one axis alone.
    """
    cos, sin = xp.cos(euler), xp.sin(euler)
    cx, cy, cz = cos[:, 0:1], cos[:, 1:2], cos[:, 2:3]
    sx, sy, sz = sin[:, 0:1], sin[:, 1:2], sin[:, 2:3]
    return xp.atan2(cx * sz + sx * sy * cz, cy * cz)


def rotation_of_xyzw(q: Any, *, xp: Any) -> Any:
    """(N, 4) unit quaternions (x, y, z, w) to (N, 3, 3) rotation matrices."""
    x, y, z, w = (q[:, i : i + 1] for i in range(4))
    rows = (
        (1.0 - 2.0 * (y * y + z * z), 2.0 * (x * y - w * z), 2.0 * (x * z + w * y)),
        (2.0 * (x * y + w * z), 1.0 - 2.0 * (x * x + z * z), 2.0 * (y * z - w * x)),
        (2.0 * (x * z - w * y), 2.0 * (y * z + w * x), 1.0 - 2.0 * (x * x + y * y)),
    )
    return xp.reshape(xp.concat([entry for row in rows for entry in row], axis=1), (-1, 3, 3))


def xyzw_of_rotation(rotation: Any, *, xp: Any) -> Any:
    """(N, 3, 3) rotation matrices to (N, 4) unit quaternions (x, y, z, w) with w >= 0.

    Four ways to divide, each good where its divisor, twice one of the four components, is the largest.
    """
    r = [[rotation[:, i, j][:, None] for j in range(3)] for i in range(3)]
    x, y, z = r[2][1] - r[1][2], r[0][2] - r[2][0], r[1][0] - r[0][1]
    xy, xz, yz = r[0][1] + r[1][0], r[0][2] + r[2][0], r[1][2] + r[2][1]
    ww = 1.0 + r[0][0] + r[1][1] + r[2][2]  # four times the squares
    xx = 1.0 + r[0][0] - r[1][1] - r[2][2]
    yy = 1.0 - r[0][0] + r[1][1] - r[2][2]
    zz = 1.0 - r[0][0] - r[1][1] + r[2][2]
    best, most = xp.concat((x, y, z, ww), axis=1), ww
    for square, row in ((xx, (xx, xy, xz, x)), (yy, (xy, yy, yz, y)), (zz, (xz, yz, zz, z))):
        best = xp.where(square > most, xp.concat(row, axis=1), best)
        most = xp.maximum(most, square)
    best = best / (2.0 * xp.sqrt(most))
    return xp.where(best[:, 3:4] < 0, -best, best)


def euler_xyz_of_rotation(rotation: Any, *, xp: Any) -> Any:
    """(N, 3, 3) rotation matrices to (N, 3) roll, pitch, yaw [rad], XYZ intrinsic.

    Yaw is taken after roll has been undone: at a pitch of 90 degrees, where roll and yaw are not two angles but one,
    the three together still give the matrix.
    """
    roll = xp.atan2(-rotation[:, 1, 2], rotation[:, 2, 2])
    pitch = xp.atan2(rotation[:, 0, 2], xp.hypot(rotation[:, 1, 2], rotation[:, 2, 2]))
    cos, sin = xp.cos(roll), xp.sin(roll)
    yaw = xp.atan2(
        cos * rotation[:, 1, 0] + sin * rotation[:, 2, 0],
        cos * rotation[:, 1, 1] + sin * rotation[:, 2, 1],
    )
    return xp.stack((roll, pitch, yaw), axis=1)


def euler_zyx_of_rotation(rotation: Any, *, xp: Any) -> Any:
    """(N, 3, 3) rotation matrices to (N, 3) roll, pitch, yaw [rad], ZYX intrinsic, PX4's; likewise at 90 degrees."""
    # The transpose of Rz Ry Rx is Rx(-roll) Ry(-pitch) Rz(-yaw).
    return -euler_xyz_of_rotation(xp.permute_dims(rotation, (0, 2, 1)), xp=xp)
