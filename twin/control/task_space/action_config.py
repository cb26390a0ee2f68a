"""What becomes of a policy's numbers before a controller has them as its command, and which joints it moves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
import numpy.typing as npt

from firmware_profiles.errors import UsageError
from twin.control.arrays import checked
from twin.control.task_space.ik_config import DifferentialIKConfig
from twin.control.task_space.joint_impedance_config import JointImpedanceConfig
from twin.control.task_space.osc_config import OperationalSpaceConfig

FloatArray = npt.NDArray[np.float64]
PostureTarget = Literal["none", "zero", "default", "center"]
POSTURE_TARGETS: tuple[PostureTarget, ...] = ("none", "zero", "default", "center")


@dataclass(frozen=True, slots=True)
class BodyOffset:
    """The frame that is controlled, in that of the end-effector.

    Attributes:
        pos_m: its origin.
        quat_xyzw: frame to end-effector, of any length but 0.

    Raises:
        UsageError: a value that is no pose.
    """

    pos_m: tuple[float, float, float] = (0.0, 0.0, 0.0)
    quat_xyzw: tuple[float, float, float, float] = (0.0, 0.0, 0.0, 1.0)

    def __post_init__(self) -> None:
        for name, size in (("pos_m", 3), ("quat_xyzw", 4)):
            checked(name, getattr(self, name))
            if np.shape(getattr(self, name)) != (size,):
                raise UsageError(f"{name}: expected {size} numbers, got {getattr(self, name)!r}")
        if not np.any(self.quat_xyzw):
            raise UsageError(f"quat_xyzw: expected a quaternion other than 0, got {self.quat_xyzw!r}")


@dataclass(frozen=True, slots=True, kw_only=True)
class OperationalSpaceActionConfig:
    """For `OperationalSpaceAction`. A command is scale * action + offset; a scale is one number or one for each axis.

    Attributes:
        joint_names: regular expressions that match whole names; the joints are in the arm's order.
        controller: what the command is and what is done with it.
        body_offset: the frame whose motion and force are controlled; None is the end-effector's own.
        task_frame_body: name of the body whose frame is the task frame; None is the root's.
        position_scale: of positions and displacements.
        orientation_scale: of the rotation vector of `pose_rel`. A quaternion is normalised, so it has none.
        wrench_scale: of wrenches.
        stiffness_scale: of stiffnesses.
        damping_ratio_scale: of damping ratios.
        offset: added to the scaled action, one number or `action_dim`.
        nullspace_joint_pos_target: the posture that the joints are drawn to: all at 0, the arm's default, or the middle
            of each joint's range; `none` if, and only if, the controller keeps none.

    Raises:
        UsageError: a value outside of its range.
    """

    joint_names: Sequence[str]
    controller: OperationalSpaceConfig
    body_offset: BodyOffset | None = None
    task_frame_body: str | None = None
    position_scale: npt.ArrayLike = 1.0
    orientation_scale: npt.ArrayLike = 1.0
    wrench_scale: npt.ArrayLike = 1.0
    stiffness_scale: npt.ArrayLike = 1.0
    damping_ratio_scale: npt.ArrayLike = 1.0
    offset: npt.ArrayLike = 0.0
    nullspace_joint_pos_target: PostureTarget = "none"
    scale: FloatArray = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        target = self.nullspace_joint_pos_target
        if target not in POSTURE_TARGETS:
            raise UsageError(f"nullspace_joint_pos_target: {target!r}; allowed: {', '.join(POSTURE_TARGETS)}")
        if (target == "none") != (self.controller.nullspace_control == "none"):
            raise UsageError(
                "nullspace_joint_pos_target: expected a posture if, and only if, the controller's nullspace_control "
                f"is 'position', got {target!r} and {self.controller.nullspace_control!r}"
            )
        parts: list[FloatArray] = []
        for kind in self.controller.target_types:
            if kind == "wrench_abs":
                parts.append(_scale("wrench_scale", self.wrench_scale, 6))
            else:
                parts.extend(_pose_scale(self.position_scale, self.orientation_scale, relative=kind == "pose_rel"))
        if self.controller.impedance_mode != "fixed":
            parts.append(_scale("stiffness_scale", self.stiffness_scale, 6))
        if self.controller.impedance_mode == "variable":
            parts.append(_scale("damping_ratio_scale", self.damping_ratio_scale, 6))
        object.__setattr__(self, "scale", np.concatenate(parts))
        checked("offset", self.offset)


@dataclass(frozen=True, slots=True, kw_only=True)
class DifferentialIKActionConfig:
    """For `DifferentialIKAction`; see `OperationalSpaceActionConfig`.

    Attributes:
        joint_names: regular expressions that match whole names.
        controller: what the command is and what is done with it.
        body_offset: the frame that is moved; None is the end-effector's own.
        position_scale: of positions and displacements.
        orientation_scale: of the rotation vector of a relative pose.
        offset: added to the scaled action.

    Raises:
        UsageError: a value outside of its range.
    """

    joint_names: Sequence[str]
    controller: DifferentialIKConfig
    body_offset: BodyOffset | None = None
    position_scale: npt.ArrayLike = 1.0
    orientation_scale: npt.ArrayLike = 1.0
    offset: npt.ArrayLike = 0.0
    scale: FloatArray = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        parts = _pose_scale(self.position_scale, self.orientation_scale, relative=self.controller.use_relative_mode)
        object.__setattr__(self, "scale", np.concatenate(parts)[: self.controller.action_dim])
        checked("offset", self.offset)


@dataclass(frozen=True, slots=True, kw_only=True)
class JointImpedanceActionConfig:
    """For `JointImpedanceAction`; see `OperationalSpaceActionConfig`. Scales are one number or one for each joint.

    Attributes:
        joint_names: regular expressions that match whole names.
        controller: what the command is and what is done with it.
        position_scale: of joint targets.
        stiffness_scale: of stiffnesses.
        damping_ratio_scale: of damping ratios.
        offset: added to the scaled action.

    Raises:
        UsageError: a value outside of its range.
    """

    joint_names: Sequence[str]
    controller: JointImpedanceConfig
    position_scale: npt.ArrayLike = 1.0
    stiffness_scale: npt.ArrayLike = 1.0
    damping_ratio_scale: npt.ArrayLike = 1.0
    offset: npt.ArrayLike = 0.0

    def __post_init__(self) -> None:
        for name in ("position_scale", "stiffness_scale", "damping_ratio_scale", "offset"):
            checked(name, getattr(self, name))

    def scale_of(self, joints: int) -> FloatArray:
        """(action_dim,) factors for so many joints.

        Raises:
            UsageError: a scale that is neither one number nor one for each joint.
        """
        parts = [_scale("position_scale", self.position_scale, joints)]
        if self.controller.impedance_mode != "fixed":
            parts.append(_scale("stiffness_scale", self.stiffness_scale, joints))
        if self.controller.impedance_mode == "variable":
            parts.append(_scale("damping_ratio_scale", self.damping_ratio_scale, joints))
        return np.concatenate(parts)


def _pose_scale(position: npt.ArrayLike, orientation: npt.ArrayLike, *, relative: bool) -> list[FloatArray]:
    turn = _scale("orientation_scale", orientation, 3)
    return [_scale("position_scale", position, 3), turn if relative else np.ones(4)]


def _scale(name: str, value: npt.ArrayLike, size: int) -> FloatArray:
    checked(name, value)
    if np.shape(value) not in ((), (size,)):
        raise UsageError(f"{name}: expected one number or {size}, got {value!r}")
    return np.broadcast_to(np.asarray(value, dtype=np.float64), (size,))
