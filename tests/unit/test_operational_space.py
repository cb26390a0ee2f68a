"""Operational-space control on arms at random: what it makes of their dynamics."""

from typing import Any

import numpy as np
import pytest
from analytic_arm import SEVEN, SIX, Arm
from osc_arms import DECOUPLED, EXACT, HYBRID, IN_TASK, POSTURE, RATIO, STIFFNESS, Arms, N, joined, times
from scipy.spatial.transform import Rotation

from twin.control.task_space.osc_config import OperationalSpaceConfig


@pytest.fixture(scope="module")
def arms() -> Arms:
    return Arms()


@pytest.mark.parametrize("arm", [SEVEN, SIX], ids=["seven", "six"])
def test_a_decoupled_arm_does_what_springs_and_dampers_ask_for(arm: Arm) -> None:
    """J M^-1 (tau - g) = K_p e - K_d v, the gains along the task frame's axes, whatever inertia and weight are."""
    arms = Arms(arm)
    efforts = arms.efforts(arms.goal_in_task, arms.frame, gravity_compensation=True, **EXACT, **IN_TASK)
    wanted = times(arms.in_base(STIFFNESS), arms.error)
    wanted -= times(arms.in_base(2.0 * np.sqrt(STIFFNESS) * RATIO), arms.velocity)
    np.testing.assert_allclose(arms.acceleration(efforts - arms.gravity), wanted, rtol=1e-6, atol=1e-6)


def test_partial_decoupling_is_exact_for_each_half_of_the_motion_alone(arms: Arms) -> None:
    partial = {**DECOUPLED, "partial_inertial_dynamics_decoupling": True}
    for half in ((1, 1, 1, 0, 0, 0), (0, 0, 0, 1, 1, 1)):
        rows = np.flatnonzero(half)
        efforts = arms.efforts(arms.goal, motion_control_axes_task=half, **partial, **IN_TASK)
        wanted = STIFFNESS * arms.error - 2.0 * np.sqrt(STIFFNESS) * RATIO * arms.velocity
        np.testing.assert_allclose(arms.acceleration(efforts)[:, rows], wanted[:, rows], rtol=1e-8)


def test_without_decoupling_springs_and_dampers_give_forces(arms: Arms) -> None:
    """Virtual work: tau qd = F v."""
    efforts = arms.efforts(arms.goal_in_task, arms.frame, **IN_TASK)
    force = times(arms.in_base(STIFFNESS), arms.error)
    force -= times(arms.in_base(2.0 * np.sqrt(STIFFNESS) * RATIO), arms.velocity)
    np.testing.assert_allclose(np.sum(efforts * arms.qd, axis=1), np.sum(force * arms.velocity, axis=1))


@pytest.mark.parametrize("axes", [(1, 1, 1, 1, 1, 1), (1, 0, 1, 0, 0, 1)])
def test_damping_takes_energy_away(arms: Arms, axes: tuple[int, ...]) -> None:
    """At the goal only the dampers act; along some axes of a frame that is turned, no axis drives another."""
    here = arms.frame_turn.inv()
    at_goal = joined(here.apply(arms.pos - arms.frame_pos), (here * Rotation.from_quat(arms.quat)).as_quat())
    coupled = arms.efforts(at_goal, arms.frame, motion_control_axes_task=axes, **IN_TASK)
    decoupled = arms.efforts(at_goal, arms.frame, **DECOUPLED)  # the same damping along all axes
    for efforts in (coupled, decoupled):
        assert (np.sum(efforts * arms.qd, axis=1) < -1e-3).all()


def test_an_axis_without_motion_is_free(arms: Arms) -> None:
    axes = np.array([1, 0, 1, 1, 1, 0])
    efforts = arms.efforts(arms.goal_in_task, arms.frame, motion_control_axes_task=axes.tolist(), **IN_TASK)
    force = np.stack([np.linalg.lstsq(j.T, tau, rcond=None)[0] for j, tau in zip(arms.jacobian, efforts, strict=True)])
    in_task = joined(arms.frame_turn.inv().apply(force[:, :3]), arms.frame_turn.inv().apply(force[:, 3:]))
    np.testing.assert_allclose(in_task[:, axes == 0], 0.0, atol=1e-9)
    assert (np.abs(in_task[:, axes == 1]).max(axis=0) > 1.0).all()


def test_the_posture_gives_the_end_effector_no_acceleration(arms: Arms) -> None:
    options = {"nullspace_stiffness": 7.0, "nullspace_damping_ratio": 0.6}
    extra = arms.efforts(arms.goal, **EXACT, **POSTURE, **options) - arms.efforts(arms.goal, **EXACT)
    np.testing.assert_allclose(arms.acceleration(extra), 0.0, atol=1e-7)
    asked = 7.0 * (arms.posture - arms.q) - 2.0 * np.sqrt(7.0) * 0.6 * arms.qd
    # Of what is asked for, it is the part that no force at the end-effector can give: nearest by kinetic energy.
    got = np.linalg.solve(arms.mass, extra[:, :, None])[:, :, 0]
    rest = times(arms.mass, asked - got)
    ones = [np.linalg.lstsq(j.T, r, rcond=None)[0] for j, r in zip(arms.jacobian, rest, strict=True)]
    np.testing.assert_allclose(times(arms.jacobian.swapaxes(1, 2), np.array(ones)), rest, atol=1e-7)
    assert (np.linalg.norm(extra, axis=1) > 0.1).all()


@pytest.mark.parametrize("weighted", [True, False])
def test_without_full_decoupling_the_posture_is_orthogonal_to_forces(arms: Arms, weighted: bool) -> None:
    mass = arms.mass if weighted else None
    extra = arms.efforts(arms.goal, state={"mass_matrix": mass}, **POSTURE) - arms.efforts(arms.goal)
    np.testing.assert_allclose(times(arms.jacobian, extra), 0.0, atol=1e-9)
    asked = 10.0 * (arms.posture - arms.q) - 2.0 * np.sqrt(10.0) * arms.qd
    asked = times(mass, asked) if weighted else asked
    rest = np.stack(
        [r - j.T @ np.linalg.lstsq(j.T, r, rcond=None)[0] for j, r in zip(arms.jacobian, asked, strict=True)]
    )
    np.testing.assert_allclose(extra, rest, atol=1e-8)


def test_a_posture_that_is_not_said_is_all_joints_at_0(arms: Arms) -> None:
    said = arms.efforts(arms.goal, state={"nullspace_joint_pos_target": np.zeros_like(arms.q)}, **POSTURE)
    unsaid = arms.efforts(arms.goal, state={"nullspace_joint_pos_target": None}, **POSTURE)
    np.testing.assert_array_equal(said, unsaid)


def test_a_target_is_the_same_in_every_task_frame(arms: Arms) -> None:
    made = arms.controller()
    made.set_command(arms.goal_in_task, None, arms.frame)
    np.testing.assert_allclose(made.command.pos, arms.goal_pos, atol=1e-12)
    off = (Rotation.from_quat(made.command.quat) * arms.goal_turn.inv()).magnitude()
    np.testing.assert_allclose(off, 0.0, atol=1e-6)
    uniform = {"motion_stiffness_task": 80.0}
    np.testing.assert_allclose(
        arms.efforts(arms.goal_in_task, arms.frame, **uniform), arms.efforts(arms.goal, **uniform), atol=1e-9
    )


def test_a_relative_pose_is_from_where_the_end_effector_is_along_the_task_frame(arms: Arms) -> None:
    delta = np.random.default_rng(5).normal(size=(N, 6))
    made = arms.controller(("pose_rel",))
    made.set_command(delta, arms.pose, arms.frame)
    np.testing.assert_allclose(made.command.pos, arms.pos + arms.frame_turn.apply(delta[:, :3]), atol=1e-12)
    turn = Rotation.from_rotvec(arms.frame_turn.apply(delta[:, 3:])) * Rotation.from_quat(arms.quat)
    off = (Rotation.from_quat(made.command.quat) * turn.inv()).magnitude()
    np.testing.assert_allclose(off, 0.0, atol=1e-7)


def test_a_wrench_does_the_work_that_it_says(arms: Arms) -> None:
    """tau qd is what force and moment do; they are along the task frame, the moment is moved to the base's origin."""
    axes = {"contact_wrench_control_axes_task": (1, 1, 1, 1, 1, 1), "motion_control_axes_task": (0, 0, 0, 0, 0, 0)}
    efforts = arms.efforts(arms.wrench, arms.frame, target_types=("wrench_abs",), **axes)
    force = arms.frame_turn.apply(arms.wrench[:, :3])
    moment = arms.frame_turn.apply(arms.wrench[:, 3:]) + np.cross(arms.frame_pos, force)
    np.testing.assert_allclose(
        np.sum(efforts * arms.qd, axis=1), np.sum(joined(force, moment) * arms.velocity, axis=1), rtol=1e-9
    )


def test_force_that_is_missing_is_made_up_for_in_proportion(arms: Arms) -> None:
    command = joined(arms.goal_in_task, arms.wrench)
    opened = arms.efforts(command, arms.frame, **HYBRID)
    closed = arms.efforts(command, arms.frame, contact_wrench_stiffness_task=0.5, **HYBRID)
    along = arms.frame_turn.apply(np.tile([0.0, 0.0, 1.0], (N, 1)))
    missing = arms.wrench[:, 2] - np.sum(along * arms.force, axis=1)
    expected = times(arms.jacobian[:, :3].swapaxes(1, 2), 0.5 * missing[:, None] * along)
    np.testing.assert_allclose(closed - opened, expected, atol=1e-9)
    held = arms.frame_turn.apply(arms.wrench[:, :3])
    satisfied = arms.efforts(
        command, arms.frame, {"current_ee_force_b": held}, contact_wrench_stiffness_task=0.5, **HYBRID
    )
    np.testing.assert_allclose(satisfied, opened, atol=1e-9)


def test_a_moment_that_is_measured_is_controlled_and_else_taken_for_the_wanted_one(arms: Arms) -> None:
    axes = {"contact_wrench_control_axes_task": (0, 0, 0, 1, 1, 1), "target_types": ("wrench_abs",)}
    given = {"contact_wrench_stiffness_task": 0.5, **axes}
    opened = arms.efforts(arms.wrench, **axes)
    np.testing.assert_allclose(arms.efforts(arms.wrench, **given), opened)
    measured = {"current_ee_force_b": joined(arms.force, 0.2 * arms.wrench[:, 3:])}
    np.testing.assert_allclose(arms.efforts(arms.wrench, None, measured, **given), (1.0 + 0.5 * 0.8) * opened)


def test_force_on_an_axis_of_motion_is_added(arms: Arms) -> None:
    both = {"target_types": ("pose_abs", "wrench_abs"), "contact_wrench_control_axes_task": (1, 1, 1, 0, 0, 0)}
    push = {"target_types": ("wrench_abs",), "contact_wrench_control_axes_task": (1, 1, 1, 0, 0, 0)}
    expected = arms.efforts(arms.goal) + arms.efforts(arms.wrench, **push)
    np.testing.assert_allclose(arms.efforts(joined(arms.goal, arms.wrench), **both), expected)


def test_targets_in_another_order(arms: Arms) -> None:
    gains = {"impedance_mode": "variable", **DECOUPLED}
    first = arms.efforts(joined(arms.goal, arms.wrench, STIFFNESS, RATIO), arms.frame, **{**HYBRID, **gains})
    turned = {**HYBRID, **gains, "target_types": ("wrench_abs", "pose_abs")}
    np.testing.assert_array_equal(
        arms.efforts(joined(arms.wrench, arms.goal, STIFFNESS, RATIO), arms.frame, **turned), first
    )


def test_gains_of_a_command_stay_within_their_limits_and_the_command_is_left_alone(arms: Arms) -> None:
    limits = {"motion_stiffness_limits_task": (60.0, 120.0), "motion_damping_ratio_limits_task": (0.4, 1.2)}
    options = {"impedance_mode": "variable", **limits}
    wild = joined(arms.goal, [1e9, -1.0, 80.0, 60.0, 59.0, 121.0], [9.0, 0.0, -1.0, 0.5, 1.2, 1e9])
    tame = joined(arms.goal, [120.0, 60.0, 80.0, 60.0, 60.0, 120.0], [1.2, 0.4, 0.4, 0.5, 1.2, 1.2])
    before = wild.copy()
    np.testing.assert_array_equal(arms.efforts(wild, **options), arms.efforts(tame, **options))
    np.testing.assert_array_equal(wild, before)


def test_variable_gains_are_the_fixed_ones_given_each_time(arms: Arms) -> None:
    fixed = arms.efforts(arms.goal, **IN_TASK)
    variable = arms.efforts(joined(arms.goal, STIFFNESS, RATIO), impedance_mode="variable")
    np.testing.assert_array_equal(variable, fixed)
    kp = arms.efforts(joined(arms.goal, STIFFNESS), impedance_mode="variable_kp", motion_damping_ratio_task=RATIO)
    np.testing.assert_array_equal(kp, fixed)


def test_what_is_not_needed_need_not_be_given(arms: Arms) -> None:
    made = arms.controller()
    made.set_command(arms.goal)
    np.testing.assert_array_equal(made.compute(arms.jacobian, arms.pose, arms.velocity), arms.efforts(arms.goal))
    push = arms.controller(("wrench_abs",), contact_wrench_control_axes_task=(1, 1, 1, 0, 0, 0))
    push.set_command(arms.wrench)
    expected = times(arms.jacobian[:, :3].swapaxes(1, 2), arms.wrench[:, :3])
    np.testing.assert_allclose(push.compute(arms.jacobian), expected)


def test_numbers_of_a_command() -> None:
    def dims(*types: Any, mode: Any = "fixed") -> int:
        axes = (1, 0, 0, 0, 0, 0) if "wrench_abs" in types else (0,) * 6
        return OperationalSpaceConfig(types, contact_wrench_control_axes_task=axes, impedance_mode=mode).action_dim

    assert [dims("pose_abs"), dims("pose_rel"), dims("wrench_abs")] == [7, 6, 6]
    assert [dims("wrench_abs", "pose_rel", mode=mode) for mode in ("fixed", "variable_kp", "variable")] == [12, 18, 24]
