"""A command of operational-space control, taken apart and brought from the task frame to the arm's base."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from firmware_profiles.errors import UsageError
from twin.control.arrays import Arrays
from twin.control.so3 import cross, times
from twin.control.task_space.joint_space import given
from twin.control.task_space.osc_config import TARGET_DIMS, OperationalSpaceConfig
from twin.control.task_space.poses import compose, moved_by, normalised_or, relative_to
from twin.control.task_space.selection import in_base
from twin.frames import rotation_of_xyzw


@dataclass(frozen=True, slots=True)
class TaskCommand:
    """What N arms are to do, in their bases' frames.

    Attributes:
        pos: (N, 3) where the end-effector is to be [m]; None without a pose among the targets.
        quat: (N, 4) its attitude, (x, y, z, w), unit; None likewise.
        wrench: (N, 6) force [N] and moment [N m] that it is to exert; None without one among the targets.
        stiffness: (N, 6, 6); only axes of motion are stiff.
        damping: (N, 6, 6).
        motion: (N, 6, 6) lets through what is along an axis of motion.
        force: (N, 6, 6) lets through what is along an axis of force.
        force_feedback: (N, 6, 6) of the missing wrench; None in open loop.
    """

    pos: Any
    quat: Any
    wrench: Any
    stiffness: Any
    damping: Any
    motion: Any
    force: Any
    force_feedback: Any


class CommandReader:
    """Makes a `TaskCommand` of numbers, of which it keeps no reference and changes none.

    Args:
        config: what the numbers are.
        arrays: where they live.

    Raises:
        UsageError: gains of a shape that does not fit.
    """

    def __init__(self, config: OperationalSpaceConfig, arrays: Arrays) -> None:
        self._config, self._arrays, self._xp = config, arrays, arrays.xp
        spread = arrays.spread
        self._origin, self._upright = arrays.zeros(3), spread("quat", (0.0, 0.0, 0.0, 1.0), 4)
        self._no_turn = arrays.zeros(4)
        self._motion = spread("motion_control_axes_task", config.motion_control_axes_task, 6)
        self._force = spread("contact_wrench_control_axes_task", config.contact_wrench_control_axes_task, 6)
        self._stiffness = spread("motion_stiffness_task", config.motion_stiffness_task, 6)
        self._ratio = spread("motion_damping_ratio_task", config.motion_damping_ratio_task, 6)
        self._stiffness_limits = [spread("limit", limit, 6) for limit in config.motion_stiffness_limits_task]
        self._ratio_limits = [spread("limit", limit, 6) for limit in config.motion_damping_ratio_limits_task]
        feedback = config.contact_wrench_stiffness_task
        self._feedback = None if feedback is None else spread("contact_wrench_stiffness_task", feedback, 6)

    def read(self, command: Any, ee_pose: Any, task_frame_pose: Any) -> TaskCommand:
        """See `OperationalSpaceController.set_command`.

        Raises:
            UsageError: another shape, or no present pose where one is needed.
        """
        xp, config = self._xp, self._config
        wanted = (self._arrays.n, config.action_dim)
        if tuple(command.shape) != wanted:
            raise UsageError(f"command: expected {wanted}, got {tuple(command.shape)}")
        command = xp.astype(command, self._arrays.dtype, copy=False)
        origin, axes = self._pose("current_task_frame_pose_b", task_frame_pose, self._origin, self._upright)
        rotation = rotation_of_xyzw(axes, xp=xp)
        pos = quat = wrench = None
        start = 0
        for kind in config.target_types:
            part = command[:, start : start + TARGET_DIMS[kind]]
            start += TARGET_DIMS[kind]
            if kind == "wrench_abs":
                force = times(rotation, part[:, 0:3], xp=xp)
                moment = times(rotation, part[:, 3:6], xp=xp) + cross(origin, force, xp=xp)
                wrench = xp.concat((force, moment), axis=1)
                continue
            if kind == "pose_rel":
                given("current_ee_pose_b", ee_pose)
            now = self._pose("current_ee_pose_b", ee_pose, origin, axes)
            if kind == "pose_rel":
                target = moved_by(*relative_to(origin, axes, *now, xp=xp), part, xp=xp)
            else:
                target = part[:, 0:3], normalised_or(part[:, 3:7], self._no_turn, xp=xp)
            pos, quat = compose(origin, axes, *target, xp=xp)
            if kind == "pose_abs":  # what was no quaternion is 0 in every frame
                quat = xp.where(xp.any(target[1] != 0, axis=1, keepdims=True), quat, now[1])
        stiffness, ratio = self._gains(command[:, start:])
        stiffness = self._motion * stiffness
        diagonals = [stiffness, 2.0 * xp.sqrt(stiffness) * ratio, self._motion, self._force]
        if self._feedback is not None:
            diagonals.append(self._feedback)
        matrices = in_base(diagonals, rotation, xp=xp)
        return TaskCommand(
            pos=pos,
            quat=quat,
            wrench=wrench,
            stiffness=matrices[0],
            damping=matrices[1],
            motion=matrices[2],
            force=matrices[3],
            force_feedback=None if self._feedback is None else matrices[4],
        )

    def _gains(self, numbers: Any) -> tuple[Any, Any]:
        """(N, 6) stiffnesses and damping ratios."""
        mode = self._config.impedance_mode
        if mode == "fixed":
            return self._stiffness, self._ratio
        stiffness = self._within(numbers[:, 0:6], *self._stiffness_limits)
        if mode == "variable_kp":
            return stiffness, self._ratio
        return stiffness, self._within(numbers[:, 6:12], *self._ratio_limits)

    def _within(self, value: Any, least: Any, most: Any) -> Any:
        return self._xp.minimum(self._xp.maximum(value, least), most)

    def _pose(self, name: str, pose: Any, pos: Any, quat: Any) -> tuple[Any, Any]:
        """Position and unit quaternion of a pose; if there is none, those given."""
        if pose is None:
            return pos, quat
        if tuple(pose.shape) != (self._arrays.n, 7):
            raise UsageError(f"{name}: expected {(self._arrays.n, 7)}, got {tuple(pose.shape)}")
        pose = self._xp.astype(pose, self._arrays.dtype, copy=False)
        return pose[:, 0:3], normalised_or(pose[:, 3:7], self._upright, xp=self._xp)
