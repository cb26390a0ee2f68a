"""Goals of an end-effector as tasks of the reactive layer: towards a position or a pose, at a bounded speed."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from twin.control.arrays import checked
from twin.control.task_space.poses import normalised_or, pose_error
from twin.control.task_space.reactive_config import VelocityTask

FloatArray = npt.NDArray[np.float64]


def position_task(
    jacobian: FloatArray,
    pos: FloatArray,
    pos_des: FloatArray,
    *,
    gain: float = 2.0,
    max_linear_m_s: float = 0.5,
    weight: npt.ArrayLike = 1.0,
) -> VelocityTask:
    """Draw the end-effector to a position; how it is turned does not matter.

    Args:
        jacobian: (N, 6, n), of which the linear rows are taken, or (N, 3, n).
        pos: (N, 3) where it is [m], in the Jacobian's frame.
        pos_des: (N, 3) where it is to be.
        gain: share of the error that is wanted per second [1/s].
        max_linear_m_s: bound of the speed that is wanted; the direction stays.
        weight: broadcasts to (N, 3).

    Raises:
        UsageError: a gain or a bound that is not positive.
    """
    checked("gain", gain, above=0.0)
    checked("max_linear_m_s", max_linear_m_s, above=0.0)
    return VelocityTask(jacobian[:, :3], _bounded(gain * (pos_des - pos), max_linear_m_s), weight)


def pose_task(
    jacobian: FloatArray,
    pos: FloatArray,
    quat_xyzw: FloatArray,
    pos_des: FloatArray,
    quat_des_xyzw: FloatArray,
    *,
    gain: float = 2.0,
    max_linear_m_s: float = 0.5,
    max_angular_rad_s: float = 1.5,
    weight: npt.ArrayLike = 1.0,
) -> VelocityTask:
    """Draw the end-effector to a pose, the short way round.

    Args:
        jacobian: (N, 6, n), linear rows first.
        pos: (N, 3) where it is [m], in the Jacobian's frame.
        quat_xyzw: (N, 4) how it is turned, a unit quaternion.
        pos_des: (N, 3) where it is to be.
        quat_des_xyzw: (N, 4) of any length; zero is as it is turned now.
        gain: share of the error that is wanted per second [1/s].
        max_linear_m_s: bound of the speed that is wanted; the direction stays.
        max_angular_rad_s: likewise of the rate.
        weight: broadcasts to (N, 6): 1 rad/s counts as much as 1 m/s unless it says otherwise.

    Raises:
        UsageError: a gain or a bound that is not positive.
    """
    checked("gain", gain, above=0.0)
    checked("max_linear_m_s", max_linear_m_s, above=0.0)
    checked("max_angular_rad_s", max_angular_rad_s, above=0.0)
    wanted = normalised_or(quat_des_xyzw, quat_xyzw, xp=np)
    # A zero quaternion is no wish; NaN is a fault, and the layer is to see it.
    wanted = np.where(np.isfinite(quat_des_xyzw).all(axis=1, keepdims=True), wanted, np.nan)
    linear, angular = pose_error(pos, quat_xyzw, pos_des, wanted, xp=np)
    velocity = (_bounded(gain * linear, max_linear_m_s), _bounded(gain * angular, max_angular_rad_s))
    return VelocityTask(jacobian, np.concatenate(velocity, axis=1), weight)


def _bounded(velocity: FloatArray, most: float) -> FloatArray:
    """(N, 3) brought down to a length."""
    length = np.linalg.norm(velocity, axis=1, keepdims=True)
    return np.asarray(velocity * (most / np.maximum(length, most)))
