"""Every change of frame and of attitude representation, here and nowhere else.

World: ENU (MuJoCo) and NED (PX4). Body: FLU and FRD. Quaternions are w-first, `q_world_body` takes body vectors to
world. Rotation matrices likewise: v_world = R v_body. All functions take and give arrays with leading axes.
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


def vec3(row: Any) -> tuple[float, float, float]:
    """A (3,) array as a tuple of floats."""
    x, y, z = row.tolist()
    return x, y, z
