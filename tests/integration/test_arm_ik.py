"""Differential IK moves arms in MuJoCo, through drives that hold positions, on bases that are turned at random."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from arm_rig import SEED_GOALS, ArmRig, Array, pose_errors, reachable_goals

from twin.arms.model import PositionDrive, arm_names
from twin.control.arrays import Arrays
from twin.control.task_space.differential_ik import DifferentialIKController
from twin.control.task_space.ik_config import DifferentialIKConfig, ik_method
from twin.frames import quat_multiply, wxyz_of_xyzw, xyzw_of_wxyz

STEPS = 250  # of 10 ms
TOLERANCE = 1e-3  # m, and rad


def rig_of(arm: str, n: int, seed: int = 0, **options: Any) -> ArmRig:
    rig = ArmRig(arm, n, seed=seed, drive=PositionDrive(), **{"gravity": False, **options})
    rig.put(rig.reader.default_joint_pos, spread=0.05)
    return rig


def controller_of(
    rig: ArmRig, command_type: Any = "pose", method: str = "dls", **options: Any
) -> DifferentialIKController:
    config = DifferentialIKConfig(command_type, ik_method(method), **options)
    return DifferentialIKController(
        config, joint_lower=rig.reader.joint_lower, joint_upper=rig.reader.joint_upper, arrays=Arrays(rig.n)
    )


def follow(rig: ArmRig, controller: DifferentialIKController, steps: int = STEPS) -> Any:
    """The state after some steps towards the command that the controller has."""
    state = rig.reader.read()
    for _ in range(steps):
        state = rig.step(controller.compute(state.ee_pos, state.ee_quat_xyzw, state.jacobian, state.joint_pos))
    return state


def assert_there(state: Any, goals: Array) -> None:
    distance, angle = pose_errors(state, goals)
    assert distance.max() < TOLERANCE
    assert angle.max() < TOLERANCE


@pytest.mark.parametrize("goal", SEED_GOALS, ids=["forward", "aside", "down"])
@pytest.mark.parametrize("arm", arm_names())
def test_the_seeds_goals_are_reached(arm: str, goal: tuple[float, ...]) -> None:
    rig = rig_of(arm, 8)
    controller = controller_of(rig)
    goals = np.tile(goal, (rig.n, 1))
    before, _ = pose_errors(rig.reader.read(), goals)
    assert before.min() > 0.05
    controller.set_command(goals)
    assert_there(follow(rig, controller), goals)


@pytest.mark.parametrize("arm", arm_names())
def test_goals_drawn_at_random_are_reached(arm: str) -> None:
    """64 worlds, each with a goal of its own that some posture has: 0.7 rad from the default in every joint."""
    rig = rig_of(arm, 64, seed=3)
    controller = controller_of(rig)
    goals = reachable_goals(arm, rig.n, seed=4)
    distance, angle = pose_errors(rig.reader.read(), goals)
    assert distance.max() > 0.3
    assert angle.max() > 1.0
    controller.set_command(goals)
    assert_there(follow(rig, controller), goals)


@pytest.mark.parametrize("method", ["pinv", "svd", "adaptive_dls"])
@pytest.mark.parametrize("arm", arm_names())
def test_the_other_methods_reach_them_too(arm: str, method: str) -> None:
    rig = rig_of(arm, 8, seed=1)
    controller = controller_of(rig, method=method)
    for goal in SEED_GOALS:
        rig.put(rig.reader.default_joint_pos, spread=0.05)
        goals = np.tile(goal, (rig.n, 1))
        controller.set_command(goals)
        assert_there(follow(rig, controller), goals)


def test_the_transpose_gets_there_slowly() -> None:
    """It goes down a slope instead of solving: not within 250 steps, but nearer with every 250."""
    rig = rig_of("arm7", 8)
    controller = controller_of(rig, method="trans")
    goals = np.tile(SEED_GOALS[2], (rig.n, 1))
    controller.set_command(goals)
    errors = [np.sum(pose_errors(rig.reader.read(), goals), axis=0)]
    errors += [np.sum(pose_errors(follow(rig, controller), goals), axis=0) for _ in range(4)]
    for before, after in pairwise(errors):
        assert (after < 0.7 * before).all()


def test_a_position_alone_is_reached() -> None:
    rig = rig_of("arm7", 8)
    controller = controller_of(rig, "position")
    state = rig.reader.read()
    target = np.tile([0.45, -0.3, 0.55], (rig.n, 1))
    controller.set_command(target, state.ee_pos, state.ee_quat_xyzw)
    state = follow(rig, controller)
    assert np.linalg.norm(state.ee_pos - target, axis=1).max() < TOLERANCE


def test_a_relative_pose_is_reached() -> None:
    """From where each world was 0.1 m forward and aside, and -0.8 rad about the base's x axis."""
    rig = rig_of("arm7", 8)
    controller = controller_of(rig, use_relative_mode=True)
    start = rig.reader.read()
    command = np.tile([0.1, -0.1, 0.05, -0.8, 0.0, 0.0], (rig.n, 1))
    controller.set_command(command, start.ee_pos, start.ee_quat_xyzw)
    turn = np.tile([np.cos(-0.4), np.sin(-0.4), 0.0, 0.0], (rig.n, 1))
    turned = xyzw_of_wxyz(quat_multiply(turn, wxyz_of_xyzw(start.ee_quat_xyzw, xp=np)), xp=np)
    goals = np.concatenate((start.ee_pos + command[:, :3], turned), axis=1)
    assert_there(follow(rig, controller), goals)


def test_with_gravity_the_drives_need_what_carries_the_arm() -> None:
    """Given that, the goal is reached as without gravity; without it the drives sag, and the arm stays off the goal."""
    rig = rig_of("arm7", 4, gravity=True)
    controller = controller_of(rig)
    carried = rig.batch.bind("qfrc_applied")
    goals = np.tile(SEED_GOALS[1], (rig.n, 1))
    controller.set_command(goals)
    state = rig.reader.read()
    for _ in range(STEPS):
        carried[:] = state.gravity
        state = rig.step(controller.compute(state.ee_pos, state.ee_quat_xyzw, state.jacobian, state.joint_pos))
    assert_there(state, goals)
    carried[:] = 0.0
    distance, _ = pose_errors(follow(rig, controller), goals)
    assert distance.min() > 10.0 * TOLERANCE


def test_joints_keep_off_their_limits_on_the_way() -> None:
    """With the avoidance joint 4, put near its limit, comes away from it while the tool stays where it is to be."""
    rig = rig_of("arm7", 4)
    start = rig.put([0.0, 0.9, 0.0, 2.9, 0.0, 0.5, 0.0])
    rig.ctrl[:] = start.joint_pos
    controller = controller_of(rig, "position", joint_limit_avoidance_gain=0.2, joint_limit_avoidance_margin=0.4)
    controller.set_command(start.ee_pos.copy(), start.ee_pos, start.ee_quat_xyzw)
    state = follow(rig, controller, 500)
    assert np.linalg.norm(state.ee_pos - start.ee_pos, axis=1).max() < 2e-3
    room = rig.reader.joint_upper[3] - state.joint_pos[:, 3]
    assert (room > rig.reader.joint_upper[3] - start.joint_pos[:, 3] + 0.01).all()
