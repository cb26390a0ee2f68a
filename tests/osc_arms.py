"""Arms at random with goals and task frames, and what operational-space control makes of them."""

from __future__ import annotations

from typing import Any

import numpy as np
from analytic_arm import SEVEN, Arm
from scipy.spatial.transform import Rotation

from twin.control.arrays import Arrays
from twin.control.task_space.operational_space import OperationalSpaceController
from twin.control.task_space.osc_config import OperationalSpaceConfig

N = 16
STIFFNESS = np.array([120.0, 130.0, 140.0, 15.0, 16.0, 17.0])
RATIO = np.array([1.0, 1.1, 0.9, 1.0, 1.2, 0.8])
IN_TASK = {"motion_stiffness_task": STIFFNESS, "motion_damping_ratio_task": RATIO}
DECOUPLED = {"inertial_dynamics_decoupling": True}
EXACT = {**DECOUPLED, "inertia_conditioning_thresholds": (1e-13, 1e-12)}
"""Decoupled, and no posture of these tests so singular that it is damped."""
HYBRID = {
    "target_types": ("pose_abs", "wrench_abs"),
    "motion_control_axes_task": (1, 1, 0, 1, 1, 1),
    "contact_wrench_control_axes_task": (0, 0, 1, 0, 0, 0),
}
POSTURE = {"nullspace_control": "position"}


class Arms:
    """N arms in postures, motion and inertia at random, each with a goal and a task frame."""

    def __init__(self, arm: Arm = SEVEN, seed: int = 3) -> None:
        rng = np.random.default_rng(seed)
        n = len(arm.axes)
        self.q, self.qd = rng.uniform(-1.2, 1.2, (N, n)), rng.normal(size=(N, n))
        self.pos, self.quat, self.jacobian = arm.forward(self.q)
        factor = rng.normal(size=(N, n, n))
        self.mass = factor @ factor.swapaxes(1, 2) + 3.0 * np.eye(n)
        self.gravity = 10.0 * rng.normal(size=(N, n))
        self.force = 10.0 * rng.normal(size=(N, 3))
        self.posture = rng.normal(size=(N, n))
        self.velocity = times(self.jacobian, self.qd)
        self.pose = np.concatenate((self.pos, self.quat), axis=1)
        self.goal_pos = self.pos + 0.1 * rng.normal(size=(N, 3))
        self.goal_turn = Rotation.random(N, rng=rng)
        self.frame_pos, self.frame_turn = rng.normal(size=(N, 3)), Rotation.random(N, rng=rng)
        self.frame = np.concatenate((self.frame_pos, self.frame_turn.as_quat()), axis=1)
        self.wrench = 10.0 * rng.normal(size=(N, 6))

    @property
    def goal(self) -> np.ndarray:
        """(N, 7) in the base."""
        return np.concatenate((self.goal_pos, self.goal_turn.as_quat()), axis=1)

    @property
    def goal_in_task(self) -> np.ndarray:
        back = self.frame_turn.inv()
        turn = (back * self.goal_turn).as_quat()
        return np.concatenate((back.apply(self.goal_pos - self.frame_pos), turn), axis=1)

    @property
    def error(self) -> np.ndarray:
        turn = (self.goal_turn * Rotation.from_quat(self.quat).inv()).as_rotvec()
        return np.concatenate((self.goal_pos - self.pos, turn), axis=1)

    def in_base(self, diagonal: Any) -> np.ndarray:
        """(N, 6, 6) of a diagonal along the task frame's axes."""
        turn = self.frame_turn.as_matrix()
        both = np.zeros((N, 6, 6))
        both[:, :3, :3] = both[:, 3:, 3:] = turn
        return both @ np.diag(diagonal) @ both.swapaxes(1, 2)

    def acceleration(self, efforts: np.ndarray) -> np.ndarray:
        """(N, 6) of the end-effector, but for what velocities make of it."""
        return times(self.jacobian, np.linalg.solve(self.mass, efforts[:, :, None])[:, :, 0])

    def controller(self, target_types: Any = ("pose_abs",), **options: Any) -> OperationalSpaceController:
        config = OperationalSpaceConfig(target_types, **options)
        return OperationalSpaceController(config, self.q.shape[1], arrays=Arrays(N))

    def compute(self, made: OperationalSpaceController, **changed: Any) -> np.ndarray:
        state = {
            "jacobian_b": self.jacobian,
            "current_ee_pose_b": self.pose,
            "current_ee_vel_b": self.velocity,
            "current_ee_force_b": self.force,
            "mass_matrix": self.mass,
            "gravity": self.gravity,
            "current_joint_pos": self.q,
            "current_joint_vel": self.qd,
            "nullspace_joint_pos_target": self.posture,
        }
        return made.compute(**{**state, **changed})

    def efforts(self, command: np.ndarray, frame: Any = None, state: dict[str, Any] | None = None, **options: Any):
        made = self.controller(**options)
        made.set_command(command, self.pose, frame)
        return self.compute(made, **(state or {}))


def times(matrix: np.ndarray, vector: np.ndarray) -> np.ndarray:
    return (matrix @ vector[:, :, None])[:, :, 0]


def joined(*parts: np.ndarray) -> np.ndarray:
    return np.concatenate([np.broadcast_to(part, (N, np.shape(part)[-1])) for part in parts], axis=1)
