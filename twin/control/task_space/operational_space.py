"""Motion and force of an end-effector to joint efforts, by the arm's dynamics as they are at its end-effector.

Source: O. Khatib, "A unified approach for motion and force control of robot manipulators: the operational space
formulation", 1987; Isaac Lab 3.0.0 (BSD-3), from its behaviour. What differs from upstream's:

* What the caller gives is never written to (upstream puts the limits on the gains in the caller's own command).
* Axes and targets that contradict each other are refused, see `OperationalSpaceConfig`.
* Single worlds can be reset. A measured wrench may have its moment, which then is controlled, too.
* NaN of one world is of no concern to the others.
"""

from __future__ import annotations

import math
from typing import Any

from firmware_profiles.errors import UsageError
from twin.control.arrays import Arrays
from twin.control.so3 import transposed
from twin.control.task_space.inertia import operational_space_inertia
from twin.control.task_space.joint_space import given
from twin.control.task_space.linear_algebra import matvec
from twin.control.task_space.nullspace import consistent_efforts, projected_efforts
from twin.control.task_space.osc_command import CommandReader, TaskCommand
from twin.control.task_space.osc_config import OperationalSpaceConfig
from twin.control.task_space.poses import pose_error

_REDUNDANT = 7
"""Joints from which on an arm has postures that its end-effector does not notice."""


class OperationalSpaceController:
    """tau = J^T (S_m Lambda (K_p e - K_d v) + S_f (F + K_f (F - F_now))) + g + posture, for N arms of n joints.

    e is what is missing to the pose and v the velocity: the target stands still. Lambda is the operational-space
    inertia, or 1. S_m and S_f choose the axes of motion and force, F is the wrench that is wanted. All is in the frame
    of the arm's base, as the Jacobian is; a command is in the task frame.

    The efforts are finite in every posture. Where the arm cannot move along an axis, that axis gets nothing; near such
    a posture, see `inertia_conditioning_thresholds`.

    Args:
        config: see `OperationalSpaceConfig`.
        dof: n.
        arrays: where the arrays live; by default NumPy, float64, one world. With decoupling all is computed in double
            precision, whatever state and efforts have: next to a singularity single precision has not the digits. So
            what they are on must know it (JAX: with `jax_enable_x64`).

    Raises:
        UsageError: gains that do not fit, or a posture is to be kept by an arm that has no joints to spare.
    """

    def __init__(self, config: OperationalSpaceConfig, dof: int, *, arrays: Arrays | None = None) -> None:
        arrays = Arrays() if arrays is None else arrays
        if dof < 1:
            raise UsageError(f"dof: expected at least one joint, got {dof}")
        if config.nullspace_control != "none" and dof < _REDUNDANT:
            raise UsageError(f"nullspace_control: expected at least {_REDUNDANT} joints for a posture, got {dof}")
        self.config = config
        self.dof = dof
        self._arrays, self._xp = arrays, arrays.xp
        decoupled = config.inertial_dynamics_decoupling
        self._inner = Arrays(arrays.n, arrays.xp, "float64", arrays.device) if decoupled else arrays
        self._reader = CommandReader(config, self._inner)
        self._command: TaskCommand | None = None
        self._commanded = arrays.mask([])
        self._nothing = self._inner.zeros(dof)

    @property
    def action_dim(self) -> int:
        """Numbers of a command."""
        return self.config.action_dim

    @property
    def command(self) -> TaskCommand | None:
        """What the last command says in the frame of the base; None before any, and after a reset of all worlds."""
        return self._command

    def reset(self, worlds: Any = None) -> None:
        """Forget the command of some worlds, by indices or (N,) truth, or of all: then only the weight is carried."""
        self._commanded = self._commanded & ~self._arrays.mask(worlds)
        if worlds is None:
            self._command = None

    def set_command(self, command: Any, current_ee_pose_b: Any = None, current_task_frame_pose_b: Any = None) -> None:
        """What to do until the next command, in all worlds.

        Args:
            command: (N, action_dim): the targets in the order of `target_types`, then stiffnesses, then damping
                ratios, as the mode has them; in the task frame. `pose_abs` is a position [m] and a quaternion
                (x, y, z, w) of any length; one of length 0 means the present attitude, or if that is not given the
                task frame's. `pose_rel` is a displacement [m] and a rotation vector [rad], along and about the task
                frame's axes, from where the end-effector is now. `wrench_abs` is a force [N] and a moment [N m] about
                the task frame's origin. As upstream, that moment is taken to the base's origin and then exerted at the
                end-effector: who controls moments has a task frame with the base's origin.
            current_ee_pose_b: (N, 7) where the end-effector is now, position and quaternion; needed by `pose_rel`.
            current_task_frame_pose_b: (N, 7) pose of the task frame in the base; None is the base's own frame.

        Raises:
            UsageError: another shape, or no present pose where one is needed.
        """
        self._command = self._reader.read(command, current_ee_pose_b, current_task_frame_pose_b)
        self._commanded = self._arrays.mask(None)

    def compute(
        self,
        jacobian_b: Any,
        current_ee_pose_b: Any = None,
        current_ee_vel_b: Any = None,
        current_ee_force_b: Any = None,
        mass_matrix: Any = None,
        gravity: Any = None,
        current_joint_pos: Any = None,
        current_joint_vel: Any = None,
        nullspace_joint_pos_target: Any = None,
    ) -> Any:
        """(N, n) efforts [N m or N].

        Args:
            jacobian_b: (N, 6, n), rows 0 to 2 linear, 3 to 5 angular.
            current_ee_pose_b: (N, 7) position [m] and quaternion (x, y, z, w); for a pose.
            current_ee_vel_b: (N, 6) linear [m/s] and angular velocity [rad/s]; for a pose.
            current_ee_force_b: (N, 3) what the end-effector exerts [N], or (N, 6) with the moment [N m] as commands
                have it, for closed-loop force; a moment that is not measured is taken for the wanted one.
            mass_matrix: (N, n, n); for decoupling. With posture control alone it may be given.
            gravity: (N, n) efforts that carry the weight; to compensate it.
            current_joint_pos: (N, n); for posture control.
            current_joint_vel: (N, n); for posture control.
            nullspace_joint_pos_target: (N, n) the posture; None is all joints at 0.

        Raises:
            UsageError: something that is needed is not given, or has another shape.
        """
        config, n, dof = self.config, self._arrays.n, self.dof
        jacobian = self._checked("jacobian_b", jacobian_b, (n, 6, dof))
        efforts = self._nothing
        if config.gravity_compensation:
            efforts = efforts + self._checked("gravity", gravity, (n, dof))
        command = self._command
        if command is not None:
            if mass_matrix is not None or config.inertial_dynamics_decoupling:
                mass_matrix = self._checked("mass_matrix", mass_matrix, (n, dof, dof))
            task, inertia = self._nothing, None
            if config.controls_motion:
                pose = self._checked("current_ee_pose_b", current_ee_pose_b, (n, 7))
                velocity = self._checked("current_ee_vel_b", current_ee_vel_b, (n, 6))
                inertia = self._inertia(jacobian, mass_matrix)
                task = task + self._motion(command, jacobian, pose, velocity, inertia)
            if config.controls_wrench:
                task = task + self._force(command, jacobian, current_ee_force_b)
            if config.nullspace_control == "position":
                acceleration = self._posture(current_joint_pos, current_joint_vel, nullspace_joint_pos_target)
                task = task + self._null(acceleration, jacobian, mass_matrix, inertia)
            efforts = efforts + self._xp.where(self._commanded, task, self._nothing)
        return self._xp.astype(efforts, self._arrays.dtype)

    def _inertia(self, jacobian: Any, mass_matrix: Any) -> Any:
        config = self.config
        if not config.inertial_dynamics_decoupling:
            return None
        return operational_space_inertia(
            jacobian,
            mass_matrix,
            thresholds=config.inertia_conditioning_thresholds,
            partial=config.partial_inertial_dynamics_decoupling,
            xp=self._xp,
        )

    def _motion(self, command: TaskCommand, jacobian: Any, pose: Any, velocity: Any, inertia: Any) -> Any:
        xp = self._xp
        error = xp.concat(pose_error(pose[:, 0:3], pose[:, 3:7], command.pos, command.quat, xp=xp), axis=1)
        force = matvec(command.stiffness, error, xp=xp) - matvec(command.damping, velocity, xp=xp)
        if inertia is not None:
            force = matvec(inertia, force, xp=xp)
        return self._at_joints(matvec(command.motion, force, xp=xp), jacobian)

    def _force(self, command: TaskCommand, jacobian: Any, measured: Any) -> Any:
        xp, wrench = self._xp, command.wrench
        if command.force_feedback is not None:
            columns = 6 if tuple(given("current_ee_force_b", measured).shape)[-1] == 6 else 3
            measured = self._checked("current_ee_force_b", measured, (self._arrays.n, columns))
            if columns == 3:
                measured = xp.concat((measured, wrench[:, 3:6]), axis=1)
            wrench = wrench + matvec(command.force_feedback, wrench - measured, xp=xp)
        return self._at_joints(matvec(command.force, wrench, xp=xp), jacobian)

    def _posture(self, joint_pos: Any, joint_vel: Any, target: Any) -> Any:
        """(N, n) accelerations of the joints towards the posture."""
        config, shape = self.config, (self._arrays.n, self.dof)
        joint_pos = self._checked("current_joint_pos", joint_pos, shape)
        joint_vel = self._checked("current_joint_vel", joint_vel, shape)
        target = self._nothing if target is None else self._checked("nullspace_joint_pos_target", target, shape)
        damping = 2.0 * math.sqrt(config.nullspace_stiffness) * config.nullspace_damping_ratio
        return config.nullspace_stiffness * (target - joint_pos) - damping * joint_vel

    def _null(self, acceleration: Any, jacobian: Any, mass_matrix: Any, inertia: Any) -> Any:
        xp = self._xp
        if self.config.fully_decoupled:
            return consistent_efforts(acceleration, jacobian, mass_matrix, inertia, xp=xp)
        if mass_matrix is not None:
            acceleration = matvec(mass_matrix, acceleration, xp=xp)
        return projected_efforts(acceleration, jacobian, xp=xp)

    def _at_joints(self, wrench: Any, jacobian: Any) -> Any:
        return matvec(transposed(jacobian, xp=self._xp), wrench, xp=self._xp)

    def _checked(self, name: str, value: Any, shape: tuple[int, ...]) -> Any:
        """What was given, in the precision that is computed in."""
        if tuple(given(name, value).shape) != shape:
            raise UsageError(f"{name}: expected {shape}, got {tuple(value.shape)}")
        return self._xp.astype(value, self._inner.dtype, copy=False)
