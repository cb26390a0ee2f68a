"""A policy's numbers to an arm's joint targets: scaled, and given to a controller of the task space or of the joints.

A policy acts now and then (`process`), a controller more often (`apply`). Source: Isaac Lab 3.0.0 (BSD-3), the action
terms, from their behaviour; its simulator is an `ArmState` here, from wherever it comes.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from firmware_profiles.errors import UsageError
from twin.control.arrays import Arrays
from twin.control.task_space.action_config import (
    BodyOffset,
    DifferentialIKActionConfig,
    JointImpedanceActionConfig,
    OperationalSpaceActionConfig,
    PostureTarget,
)
from twin.control.task_space.arm_state import ArmState
from twin.control.task_space.arm_views import at_offset, joints_by_name, with_joints
from twin.control.task_space.differential_ik import DifferentialIKController
from twin.control.task_space.joint_impedance import JointImpedanceController
from twin.control.task_space.operational_space import OperationalSpaceController
from twin.control.task_space.poses import normalised_or


class ArmAction(ABC):
    """What the action terms share.

    Attributes:
        joint_indices: places of the joints that are moved among the arm's.
        joint_names: their names.
        controller: that has the commands.
        raw_actions: (N, action_dim) the last actions, zero where there was none.
        processed_actions: (N, action_dim) the last command.
    """

    controller: OperationalSpaceController | DifferentialIKController | JointImpedanceController

    def __init__(
        self, patterns: Sequence[str], offset: BodyOffset | None, state: ArmState, arrays: Arrays | None
    ) -> None:
        self._arrays = Arrays() if arrays is None else arrays
        self._xp = self._arrays.xp
        self.joint_indices = joints_by_name(patterns, state.joint_names)
        self.joint_names = tuple(state.joint_names[place] for place in self.joint_indices)
        self._offset: tuple[Any, Any] | None = None
        if offset is not None:
            quat = self._arrays.spread("quat_xyzw", offset.quat_xyzw, 4)
            self._offset = self._arrays.spread("pos_m", offset.pos_m, 3), normalised_or(quat, quat, xp=self._xp)

    @property
    def action_dim(self) -> int:
        """Numbers of an action."""
        return self.controller.action_dim

    def process(self, action: Any, state: ArmState) -> None:
        """Take an action for the command from now on.

        Args:
            action: (N, action_dim).
            state: now, of the whole arm; relative commands begin here, and the task frame is where it is now.

        Raises:
            UsageError: another shape.
        """
        wanted = (self._arrays.n, self.action_dim)
        if tuple(action.shape) != wanted:
            raise UsageError(f"action: expected {wanted}, got {tuple(action.shape)}")
        self.raw_actions = self._xp.asarray(action, copy=True)
        self.processed_actions = self._scale * self.raw_actions + self._added
        self._command(self.processed_actions, self._view(state))

    @abstractmethod
    def apply(self, state: ArmState) -> Any:
        """(N, joints) joint targets by the last command and the state now, as the controller has them."""

    def reset(self, worlds: Any = None) -> None:
        """Forget what some worlds (indices or (N,) truth), or all, were told; see the controller's own."""
        self.raw_actions = self._xp.where(
            self._arrays.mask(worlds), self._xp.zeros_like(self.raw_actions), self.raw_actions
        )
        self.controller.reset(worlds)

    def _prepare(self, scale: npt.ArrayLike, offset: npt.ArrayLike) -> None:
        self._scale = self._arrays.spread("scale", scale, self.action_dim)
        self._added = self._arrays.spread("offset", offset, self.action_dim)
        self.raw_actions = self.processed_actions = self._arrays.zeros(self.action_dim)

    def _view(self, state: ArmState) -> ArmState:
        state = with_joints(state, self.joint_indices, xp=self._xp)
        return state if self._offset is None else at_offset(state, *self._offset, xp=self._xp)

    @abstractmethod
    def _command(self, command: Any, state: ArmState) -> None: ...


class OperationalSpaceAction(ArmAction):
    """Actions of an `OperationalSpaceController`; `apply` gives efforts [N m or N].

    Args:
        config: see `OperationalSpaceActionConfig`.
        state: of the whole arm, for its names, limits and default posture.
        arrays: where the arrays live, the state's too; by default NumPy, float64, one world.

    Raises:
        UsageError: a joint that does not exist, a posture in the middle of a range without end, or what the
            controller refuses.
    """

    def __init__(self, config: OperationalSpaceActionConfig, state: ArmState, *, arrays: Arrays | None = None) -> None:
        super().__init__(config.joint_names, config.body_offset, state, arrays)
        self.config = config
        self.controller = self._osc = OperationalSpaceController(
            config.controller, len(self.joint_names), arrays=self._arrays
        )
        self._prepare(config.scale, config.offset)
        self._posture = self._posture_of(config.nullspace_joint_pos_target, state)

    def apply(self, state: ArmState) -> Any:
        """(N, joints) efforts; without any command those that carry the weight, if that is compensated."""
        state = self._view(state)
        return self._osc.compute(
            jacobian_b=state.jacobian,
            current_ee_pose_b=self._pose(state.ee_pos, state.ee_quat_xyzw),
            current_ee_vel_b=state.ee_vel,
            current_ee_force_b=state.ee_force,
            mass_matrix=state.mass_matrix,
            gravity=state.gravity,
            current_joint_pos=state.joint_pos,
            current_joint_vel=state.joint_vel,
            nullspace_joint_pos_target=self._posture,
        )

    def _command(self, command: Any, state: ArmState) -> None:
        body = self.config.task_frame_body
        frame = None if body is None else self._pose(*state.body_pose(body))
        self._osc.set_command(command, self._pose(state.ee_pos, state.ee_quat_xyzw), frame)

    def _pose(self, pos: Any, quat: Any) -> Any:
        return self._xp.concat((pos, quat), axis=1)

    def _posture_of(self, target: PostureTarget, state: ArmState) -> Any:
        """(N, joints) that the joints are drawn to; None is 0, and of no effect without posture control."""
        if target in ("none", "zero"):
            return None
        if target == "default":
            posture = _plain(state.default_joint_pos)[list(self.joint_indices)]
        else:
            lower, upper = (_plain(limit)[list(self.joint_indices)] for limit in (state.joint_lower, state.joint_upper))
            if not np.isfinite((lower, upper)).all():
                endless = ~np.isfinite((lower, upper)).all(axis=0)
                names = ", ".join(np.array(self.joint_names)[endless].tolist())
                raise UsageError(f"nullspace_joint_pos_target: 'center' needs limits, and there are none of {names}")
            posture = 0.5 * (lower + upper)
        return self._arrays.spread("nullspace_joint_pos_target", posture, len(self.joint_names))


class DifferentialIKAction(ArmAction):
    """Actions of a `DifferentialIKController`; `apply` gives joint positions [rad or m].

    Args:
        config: see `DifferentialIKActionConfig`.
        state: of the whole arm, for its names and limits.
        arrays: where the arrays live, the state's too; by default NumPy, float64, one world.

    Raises:
        UsageError: a joint that does not exist, or what the controller refuses.
    """

    def __init__(self, config: DifferentialIKActionConfig, state: ArmState, *, arrays: Arrays | None = None) -> None:
        super().__init__(config.joint_names, config.body_offset, state, arrays)
        self.config = config
        lower, upper = (_plain(limit)[list(self.joint_indices)] for limit in (state.joint_lower, state.joint_upper))
        self.controller = self._ik = DifferentialIKController(
            config.controller, joint_lower=lower, joint_upper=upper, arrays=self._arrays
        )
        self._prepare(config.scale, config.offset)

    def apply(self, state: ArmState) -> Any:
        """(N, joints) joint positions.

        Raises:
            UsageError: no command yet.
        """
        state = self._view(state)
        return self._ik.compute(state.ee_pos, state.ee_quat_xyzw, state.jacobian, state.joint_pos)

    def _command(self, command: Any, state: ArmState) -> None:
        self._ik.set_command(command, state.ee_pos, state.ee_quat_xyzw)


class JointImpedanceAction(ArmAction):
    """Actions of a `JointImpedanceController`; `apply` gives efforts [N m or N].

    Args:
        config: see `JointImpedanceActionConfig`.
        state: of the whole arm, for its names and limits.
        arrays: where the arrays live, the state's too; by default NumPy, float64, one world.

    Raises:
        UsageError: a joint that does not exist, or what the controller refuses.
    """

    def __init__(self, config: JointImpedanceActionConfig, state: ArmState, *, arrays: Arrays | None = None) -> None:
        super().__init__(config.joint_names, None, state, arrays)
        self.config = config
        lower, upper = (_plain(limit)[list(self.joint_indices)] for limit in (state.joint_lower, state.joint_upper))
        limits = np.stack((lower, upper), axis=1)[None]
        self.controller = self._impedance = JointImpedanceController(config.controller, limits, arrays=self._arrays)
        self._prepare(config.scale_of(len(self.joint_names)), config.offset)

    def apply(self, state: ArmState) -> Any:
        """(N, joints) efforts.

        Raises:
            UsageError: no command yet.
        """
        state = self._view(state)
        return self._impedance.compute(state.joint_pos, state.joint_vel, state.mass_matrix, state.gravity)

    def _command(self, command: Any, state: ArmState) -> None:
        self._impedance.set_command(command)


def _plain(array: Any) -> npt.NDArray[np.float64]:
    return np.asarray(array.tolist() if hasattr(array, "tolist") else array, dtype=np.float64)
