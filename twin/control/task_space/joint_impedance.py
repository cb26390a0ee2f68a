"""Joint targets as springs and dampers, with the arm's inertia and weight if wanted.

Source: Isaac Lab 3.0.0 (BSD-3), from its behaviour. Unlike upstream, what the caller gives is never written to: there
the limits are put on the caller's own command, and the gravity is added to a buffer that may be the caller's.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from firmware_profiles.errors import UsageError
from twin.control.arrays import Arrays
from twin.control.task_space.joint_impedance_config import JointImpedanceConfig
from twin.control.task_space.joint_space import checked_limits, given
from twin.control.task_space.linear_algebra import matvec


class JointImpedanceController:
    """tau = [M] (k_p (q_des - q) - k_d qd) [+ g], k_d = 2 sqrt(k_p) zeta.

    q_des is within the position limits, and k_p and zeta of a command within theirs, so that the effort is bounded by
    the state and the limits. An inertia may be singular: it is only multiplied with.

    Args:
        config: see `JointImpedanceConfig`.
        dof_pos_limits: (N, n, 2), or (1, n, 2) for all: lower and upper [rad or m]; infinite ones are none.
        arrays: where the arrays live; by default NumPy, float64, one world.

    Raises:
        UsageError: a shape that does not fit, or limits that leave nothing.
    """

    def __init__(
        self, config: JointImpedanceConfig, dof_pos_limits: npt.ArrayLike, *, arrays: Arrays | None = None
    ) -> None:
        arrays = Arrays() if arrays is None else arrays
        limits = np.asarray(dof_pos_limits, dtype=np.float64)
        if limits.ndim != 3 or limits.shape[0] not in (1, arrays.n) or limits.shape[1] < 1 or limits.shape[2] != 2:
            raise UsageError(f"dof_pos_limits: expected {(arrays.n, 'joints', 2)}, got {limits.shape}")
        checked_limits(limits[:, :, 0], limits[:, :, 1])
        self.config = config
        self.num_dof: int = limits.shape[1]
        joints = self.num_dof
        self._arrays = arrays
        self._lower = arrays.spread("dof_pos_limits", limits[:, :, 0], joints)
        self._upper = arrays.spread("dof_pos_limits", limits[:, :, 1], joints)
        self._offset = arrays.spread("dof_pos_offset", _or_0(config.dof_pos_offset), joints)
        self._kp_limits = [arrays.spread("stiffness_limits", limit, joints) for limit in config.stiffness_limits]
        self._ratio_limits = [
            arrays.spread("damping_ratio_limits", limit, joints) for limit in config.damping_ratio_limits
        ]
        self._target: Any = None
        self._kp = arrays.spread("stiffness", config.stiffness, joints)
        self._kd = self._damping(self._kp, arrays.spread("damping_ratio", config.damping_ratio, joints))

    @property
    def action_dim(self) -> int:
        """Numbers of a command: n, 2 n or 3 n."""
        return {"fixed": 1, "variable_kp": 2, "variable": 3}[self.config.impedance_mode] * self.num_dof

    def reset(self, worlds: Any = None) -> None:
        """Nothing is carried from step to step; a command holds until the next."""

    def set_command(self, command: Any) -> None:
        """What to do until the next command.

        Args:
            command: (N, action_dim): joint targets [rad or m], then stiffnesses, then damping ratios, as the mode has
                them. It is copied.

        Raises:
            UsageError: another shape.
        """
        if tuple(command.shape) != (self._arrays.n, self.action_dim):
            raise UsageError(f"command: expected {(self._arrays.n, self.action_dim)}, got {tuple(command.shape)}")
        xp, n, config = self._arrays.xp, self.num_dof, self.config
        self._target = xp.asarray(command[:, 0:n], copy=True)
        if config.impedance_mode == "fixed":
            return
        self._kp = self._within(command[:, n : 2 * n], *self._kp_limits)
        ratio = xp.ones_like(self._kp)
        if config.impedance_mode == "variable":
            ratio = self._within(command[:, 2 * n : 3 * n], *self._ratio_limits)
        self._kd = self._damping(self._kp, ratio)

    def compute(self, dof_pos: Any, dof_vel: Any, mass_matrix: Any = None, gravity: Any = None) -> Any:
        """(N, n) efforts [N m or N].

        Args:
            dof_pos: (N, n) [rad or m].
            dof_vel: (N, n) [rad/s or m/s].
            mass_matrix: (N, n, n), read if the inertia is compensated.
            gravity: (N, n) [N m or N], read if the weight is.

        Raises:
            UsageError: no command yet, or what is to be compensated is not given.
        """
        config = self.config
        if self._target is None:
            raise UsageError("command: none was set; call set_command first")
        desired = self._target + (self._offset if config.command_type == "p_abs" else dof_pos)
        desired = self._within(desired, self._lower, self._upper)
        effort = self._kp * (desired - dof_pos) - self._kd * dof_vel
        if config.inertial_compensation:
            effort = matvec(given("mass_matrix", mass_matrix), effort, xp=self._arrays.xp)
        if config.gravity_compensation:
            effort = effort + given("gravity", gravity)
        return effort

    def _damping(self, stiffness: Any, ratio: Any) -> Any:
        return 2.0 * self._arrays.xp.sqrt(stiffness) * ratio

    def _within(self, value: Any, least: Any, most: Any) -> Any:
        xp = self._arrays.xp
        return xp.minimum(xp.maximum(value, least), most)


def _or_0(value: npt.ArrayLike | None) -> npt.ArrayLike:
    return 0.0 if value is None else value
