"""N arms in one batch: on bases turned at random, put near a posture, stepped under a control; how far off they are."""

from __future__ import annotations

from typing import Any

import mujoco
import numpy as np
import numpy.typing as npt
from mujoco.batch import Batch

from twin.arms.model import Wall, load_arm, turn_about_vertical
from twin.arms.state import ArmReader
from twin.control.task_space.arm_state import ArmState
from twin.frames import rotation_of_xyzw

Array = npt.NDArray[np.float64]

PERIOD_S = 0.01
SUBSTEPS = 5

SEED_GOALS = (
    (0.5, 0.5, 0.7, 0.0, 0.707, 0.0, 0.707),
    (0.5, -0.4, 0.6, 0.707, 0.0, 0.0, 0.707),
    (0.5, 0.0, 0.5, 1.0, 0.0, 0.0, 0.0),
)
"""Positions [m] and attitudes (xyzw) of the end effector in the frame of the base."""


class ArmRig:
    """N worlds, each with a yaw of its own; control every 10 ms, physics every 2 ms."""

    def __init__(self, arm: str, n: int, *, seed: int = 0, **options: Any) -> None:
        self.n = n
        self.rng = np.random.default_rng(seed)
        self.model = load_arm(arm, timestep_s=PERIOD_S / SUBSTEPS, **options)
        self.batch = Batch(self.model, n, 1, True)
        turn_about_vertical(self.batch, self.model, self.rng.uniform(-np.pi, np.pi, n))
        self.reader = ArmReader(self.model, self.batch)
        self.joints = len(self.reader.joint_names)
        self.ctrl: Array = self.batch.bind("ctrl")
        self.gravity_on = bool(self.model.opt.gravity.any())
        self.put(self.reader.default_joint_pos)

    def put(self, joint_pos: npt.ArrayLike, spread: float = 0.0) -> ArmState:
        """At rest in a posture, each world up to `spread` [rad] beside it."""
        off = spread * self.rng.uniform(-1.0, 1.0, (self.n, self.joints))
        posture = np.clip(joint_pos + off, self.reader.joint_lower, self.reader.joint_upper)
        self.batch.reset(stage=mujoco.mjtStage.mjSTAGE_NONE)
        self.batch.bind("qpos")[:] = posture
        self.batch.forward()
        return self.reader.read()

    def step(self, control: Array) -> ArmState:
        self.ctrl[:] = control
        self.batch.step(nstep=SUBSTEPS, stage=mujoco.mjtStage.mjSTAGE_VEL)
        return self.reader.read()


def reachable_goals(arm: str, n: int, seed: int, spread: float = 0.7) -> Array:
    """(N, 7) poses that the arm has in postures up to `spread` [rad] beside its default."""
    rig = ArmRig(arm, n, seed=seed)
    state = rig.put(
        np.clip(rig.reader.default_joint_pos, rig.reader.joint_lower + 0.2, rig.reader.joint_upper - 0.2), spread
    )
    return np.concatenate((state.ee_pos, state.ee_quat_xyzw), axis=1)


def unit(quat: npt.ArrayLike) -> Array:
    quat = np.asarray(quat, dtype=np.float64)
    return quat / np.linalg.norm(quat, axis=-1, keepdims=True)


def pose_errors(state: ArmState, goals: Array) -> tuple[Array, Array]:
    """(N,) distance [m] and (N,) angle [rad] to the goals (N, 7); computed from matrices, not as the controllers do."""
    rotation = rotation_of_xyzw(state.ee_quat_xyzw, xp=np)
    wanted = rotation_of_xyzw(unit(goals[:, 3:]), xp=np)
    chord = np.linalg.norm(rotation - wanted, axis=(1, 2)) / np.sqrt(8.0)  # the sine of half the angle
    return np.linalg.norm(state.ee_pos - goals[:, :3], axis=1), 2.0 * np.arcsin(np.minimum(chord, 1.0))


def wall_poses(wall: Wall, across: Array) -> Array:
    """(N, 7) poses on a wall's face, z of the tool into it. `across`: (N, 2) places on the face, along its x and y."""
    frame = rotation_of_xyzw(wall.quat_xyzw[None], xp=np)[0]
    face = np.concatenate((across, np.full((len(across), 1), 0.5 * wall.size_m[2])), axis=1)
    x, y, z, w = wall.quat_xyzw
    tool = [w, z, -y, -x]  # the wall's attitude, then half a turn about its x axis
    return np.concatenate((np.asarray(wall.position_m) + face @ frame.T, np.tile(tool, (len(across), 1))), axis=1)


def into_wall(wall: Wall, vectors: Array) -> Array:
    """(N,) components of (N, 3) vectors, in the base's frame, along the direction into the wall."""
    return -vectors @ rotation_of_xyzw(wall.quat_xyzw[None], xp=np)[0, :, 2]
