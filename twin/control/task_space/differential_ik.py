"""A position or pose of the end-effector to joint positions, one step at a time, by the Jacobian.

Source: S. R. Buss, "Introduction to inverse kinematics ...", 2004; Isaac Lab 3.0.0 (BSD-3), from its behaviour. What
differs: a target is a copy, so that a caller may go on using its buffer; to ask for a step before any command was set,
or to avoid limits that were not given, is an error and not a step to nowhere; a present attitude need not be unit.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from firmware_profiles.errors import UsageError
from twin.control.arrays import Arrays
from twin.control.so3 import transposed
from twin.control.task_space.ik_config import (
    AdaptiveDamping,
    DampedLeastSquares,
    DifferentialIKConfig,
    PseudoInverse,
    Transpose,
    TruncatedSvd,
)
from twin.control.task_space.joint_space import checked_limits, given
from twin.control.task_space.linear_algebra import (
    damped_solve,
    matvec,
    pseudo_inverse,
    singular_values,
    truncated_inverse,
)
from twin.control.task_space.poses import moved_by, normalised_or, pose_error


class DifferentialIKController:
    """q_des = q + dq, where dq takes away the error of the end-effector as the configured method sees fit.

    Poses, Jacobian and command are in one frame, the base's. A step is finite for every Jacobian; which methods bound
    it near a singularity, and how, is said in `ik_config`.

    Args:
        config: see `DifferentialIKConfig`.
        joint_lower: [rad or m] lower limits, (n,) or (N, n), for the avoidance; minus infinity is none.
        joint_upper: upper limits; a joint has both or none.
        arrays: where the arrays live; by default NumPy, float64, one world.

    Raises:
        UsageError: limits are to be avoided and are not given, or leave nothing.
    """

    def __init__(
        self,
        config: DifferentialIKConfig,
        *,
        joint_lower: npt.ArrayLike | None = None,
        joint_upper: npt.ArrayLike | None = None,
        arrays: Arrays | None = None,
    ) -> None:
        arrays = Arrays() if arrays is None else arrays
        self.config = config
        self._arrays, self._xp = arrays, arrays.xp
        self._rows = 3 if config.command_type == "position" else 6
        self._weights = arrays.spread("orientation_weight", config.axis_weights, 6)
        self._upright = arrays.spread("ee_quat", (0.0, 0.0, 0.0, 1.0), 4)
        self._avoids_limits = config.joint_limit_avoidance_gain > 0
        if self._avoids_limits:
            self._keep_limits(given("joint_lower", joint_lower), given("joint_upper", joint_upper))
        self._target: tuple[Any, Any] | None = None

    def _keep_limits(self, joint_lower: npt.ArrayLike, joint_upper: npt.ArrayLike) -> None:
        checked_limits(joint_lower, joint_upper)
        lower, upper = np.broadcast_arrays(
            np.asarray(joint_lower, dtype=np.float64), np.asarray(joint_upper, dtype=np.float64)
        )
        free = np.isinf(lower) & np.isinf(upper)
        if lower.ndim not in (1, 2) or not (np.isfinite(lower) & np.isfinite(upper) | free).all():
            raise UsageError(
                "joint_lower, joint_upper: expected (joints,) or (N, joints), both of a joint finite or infinite, "
                f"got {joint_lower!r}, {joint_upper!r}"
            )
        joints = lower.shape[-1]
        middle = np.where(free, 0.0, 0.5 * (np.where(free, 0.0, lower) + np.where(free, 0.0, upper)))
        self._lower = self._arrays.spread("joint_lower", lower, joints)
        self._upper = self._arrays.spread("joint_upper", upper, joints)
        self._middle = self._arrays.spread("joint_lower", middle, joints)

    @property
    def action_dim(self) -> int:
        """Numbers of a command."""
        return self.config.action_dim

    @property
    def ee_pos_des(self) -> Any:
        """(N, 3) where the end-effector is to be [m]."""
        return self._set_target()[0]

    @property
    def ee_quat_des(self) -> Any:
        """(N, 4) the attitude that it is to have; of a `position` command the one that it had."""
        return self._set_target()[1]

    def reset(self, worlds: Any = None) -> None:
        """Nothing is carried from step to step; a command holds until the next."""

    def set_command(self, command: Any, ee_pos: Any = None, ee_quat: Any = None) -> None:
        """Where to go, until the next command.

        Args:
            command: (N, action_dim): position [m]; and of a pose the quaternion (x, y, z, w), or if relative a rotation
                vector [rad]. A relative command moves along and turns about the base's axes. A quaternion need not be
                unit; where it is none, the present attitude is kept if it is given, else that of the base is meant.
            ee_pos: (N, 3) where the end-effector is now [m]; relative commands need it.
            ee_quat: (N, 4) its attitude; all but absolute poses need it.

        Raises:
            UsageError: another shape, or a present pose that is needed and not given.
        """
        xp, config = self._xp, self.config
        if tuple(command.shape) != (self._arrays.n, self.action_dim):
            raise UsageError(f"command: expected {(self._arrays.n, self.action_dim)}, got {tuple(command.shape)}")
        if config.command_type == "position" or config.use_relative_mode:
            given("ee_quat", ee_quat)
        now = self._upright if ee_quat is None else normalised_or(ee_quat, self._upright, xp=xp)
        asked = command[:, 0:3]
        if config.use_relative_mode and config.command_type == "pose":
            self._target = moved_by(given("ee_pos", ee_pos), now, command, xp=xp)
        elif config.use_relative_mode:
            self._target = given("ee_pos", ee_pos) + asked, now
        else:
            quat = now if config.command_type == "position" else normalised_or(command[:, 3:7], now, xp=xp)
            self._target = xp.asarray(asked, copy=True), quat

    def compute(self, ee_pos: Any, ee_quat: Any, jacobian: Any, joint_pos: Any) -> Any:
        """(N, n) joint positions to go to [rad or m].

        Args:
            ee_pos: (N, 3) where the end-effector is now [m].
            ee_quat: (N, 4) its attitude, of any length; one of length 0 has no rotation error. Not read by `position`.
            jacobian: (N, 6, n), rows 0 to 2 linear, 3 to 5 angular.
            joint_pos: (N, n) now.

        Raises:
            UsageError: no command yet.
        """
        xp = self._xp
        pos_des, quat_des = self._set_target()
        if self._rows == 3:
            task, error = jacobian[:, 0:3, :], pos_des - ee_pos
        else:
            error = xp.concat(pose_error(ee_pos, ee_quat, pos_des, quat_des, xp=xp), axis=1)
            task, error = self._weights[:, :, None] * jacobian, self._weights * error
        step = self._step(task, error)
        if self._avoids_limits:
            step = step + self._away_from_limits(jacobian[:, 0:3, :], joint_pos)
        return joint_pos + step

    def _set_target(self) -> tuple[Any, Any]:
        if self._target is None:
            raise UsageError("command: none was set; call set_command first")
        return self._target

    def _step(self, jacobian: Any, error: Any) -> Any:
        xp = self._xp
        match self.config.method:
            case PseudoInverse(k_val=k):
                return k * matvec(pseudo_inverse(jacobian, xp=xp), error, xp=xp)
            case TruncatedSvd(k_val=k, min_singular_value=smallest):
                return k * matvec(truncated_inverse(jacobian, above=smallest, xp=xp), error, xp=xp)
            case Transpose(k_val=k):
                return k * matvec(transposed(jacobian, xp=xp), error, xp=xp)
            case DampedLeastSquares(lambda_val=damping):
                return damped_solve(jacobian, error, damping**2, xp=xp)
            case AdaptiveDamping() as method:
                return damped_solve(jacobian, error, self._adapted(method, jacobian), xp=xp)

    def _adapted(self, method: AdaptiveDamping, jacobian: Any) -> Any:
        """(N, 1) lambda^2."""
        xp = self._xp
        share = singular_values(jacobian, xp=xp)[:, -1:] / method.sigma_thresh
        share = xp.minimum(share, xp.ones_like(share))
        least = method.lambda_min**2
        return least + (1.0 - share * share) * (method.lambda_max**2 - least)

    def _away_from_limits(self, positions: Any, joint_pos: Any) -> Any:
        """(N, n) what takes joints off their limits and leaves the end-effector's position, its first order, alone."""
        xp, config = self._xp, self.config
        room = xp.minimum(joint_pos - self._lower, self._upper - joint_pos) / config.joint_limit_avoidance_margin
        nothing, whole = xp.zeros_like(room), xp.ones_like(room)
        pressed = whole - xp.minimum(xp.maximum(room, nothing), whole)
        back = config.joint_limit_avoidance_gain * pressed * (self._middle - joint_pos)
        moved = matvec(positions, back, xp=xp)
        return back - matvec(pseudo_inverse(positions, xp=xp), moved, xp=xp)
