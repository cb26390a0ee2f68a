"""Operational-space control where it is difficult: singular arms, quaternions that are none, resets, and refusals."""

from typing import Any

import numpy as np
import pytest
from osc_arms import DECOUPLED, EXACT, HYBRID, POSTURE, Arms, N, joined, times

from firmware_profiles.errors import UsageError
from twin.control.task_space.operational_space import OperationalSpaceController
from twin.control.task_space.osc_config import OperationalSpaceConfig


@pytest.fixture(scope="module")
def arms() -> Arms:
    return Arms()


def test_a_quaternion_has_no_length(arms: Arms) -> None:
    once = arms.efforts(arms.goal)
    for factor in (3.0, -0.25, 1e-20, 1e30):
        np.testing.assert_allclose(arms.efforts(arms.goal * ([1.0] * 3 + [factor] * 4)), once, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("nothing", [0.0, np.nan, np.inf, 1e-320])
def test_a_quaternion_that_is_none_keeps_the_attitude(arms: Arms, nothing: float) -> None:
    made, kept = arms.controller(), joined(arms.goal_pos, arms.quat)
    here = arms.frame_turn.inv()
    pos = here.apply(arms.goal_pos - arms.frame_pos)
    made.set_command(joined(pos, np.full(4, nothing)), arms.pose, arms.frame)
    np.testing.assert_allclose(arms.compute(made), arms.efforts(kept), atol=1e-9)
    made.set_command(joined(pos, np.full(4, nothing)), None, arms.frame)  # nobody knows it: the task frame's
    np.testing.assert_allclose(
        arms.compute(made), arms.efforts(joined(arms.goal_pos, arms.frame_turn.as_quat())), atol=1e-9
    )


def test_present_poses_need_not_be_unit(arms: Arms) -> None:
    stretch = np.array([1.0] * 3 + [5.0] * 4)
    made = arms.controller(("pose_rel",))
    made.set_command(arms.wrench * 0.01, arms.pose, arms.frame)
    expected = arms.compute(made)
    made.set_command(arms.wrench * 0.01, stretch * arms.pose, stretch * arms.frame)
    np.testing.assert_allclose(arms.compute(made, current_ee_pose_b=stretch * arms.pose), expected, atol=1e-8)


def cartesian(scales: Any, mass: Any = None, error: Any = (0.1, 0.0, 0.0), **options: Any) -> np.ndarray:
    """(1, 7) efforts of an arm whose first six joints are the axes of its end-effector, each with a lever."""
    jacobian = np.concatenate((np.diag(np.asarray(scales, dtype=np.float64)), np.zeros((6, 1))), axis=1)[None]
    made = OperationalSpaceController(OperationalSpaceConfig(("pose_abs",), **DECOUPLED, **options), 7)
    here = np.array([[0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0]])
    made.set_command(here + np.concatenate((error, np.zeros(4))))
    return made.compute(jacobian, here, np.zeros((1, 6)), mass_matrix=np.eye(7)[None] if mass is None else mass[None])


@pytest.mark.parametrize("partial", [False, True])
@pytest.mark.parametrize("zeroed", [[1], [1, 2], [1, 3, 5], [3, 4, 5]])
def test_an_axis_along_which_the_arm_cannot_move_gets_nothing(partial: bool, zeroed: list[int]) -> None:
    scales = np.ones(6)
    scales[zeroed] = 0.0
    efforts = cartesian(scales, error=(0.1, 0.1 * scales[1], 0.0), partial_inertial_dynamics_decoupling=partial)
    np.testing.assert_allclose(efforts, [[10.0, 10.0 * scales[1], 0, 0, 0, 0, 0]], atol=1e-12)
    asked_too = cartesian(scales, error=(0.1, 0.7, 0.0), partial_inertial_dynamics_decoupling=partial)
    np.testing.assert_allclose(asked_too[0, zeroed], 0.0)
    np.testing.assert_allclose(asked_too[0, 0], 10.0)
    assert not cartesian(np.zeros(6)).any()


def test_next_to_a_singularity_efforts_are_bounded_and_change_smoothly() -> None:
    """Along an axis with a lever s the effort is that of s / (s^2 + d), where d goes from low to 0 as s^2 rises."""
    low, high = 1e-4, 1e-3
    shares = np.concatenate((np.geomspace(1e-8, 1.0, 200), [low, high]))
    ours = []
    for share in shares:
        lever = np.sqrt(share)
        scales = [1.0, lever, 1.0, 1.0, 1.0, 1.0]
        ours.append(cartesian(scales, error=(0.0, 0.1, 0.0), inertia_conditioning_thresholds=(low, high))[0, 1])
    t = np.clip((shares - low) / (high - low), 0.0, 1.0)
    damping = low * (1.0 - t * t * (3.0 - 2.0 * t))
    np.testing.assert_allclose(ours, 10.0 * np.sqrt(shares) / (shares + damping), rtol=1e-9)
    assert max(ours) < 10.0 / np.sqrt(low)
    assert (np.abs(np.diff(np.log(ours[:200]))) < 0.2).all()  # no jump at a threshold


def test_thresholds_are_shares_of_the_largest_eigenvalue() -> None:
    """An arm that is heavier by a factor exerts as much more, in all its directions."""
    scales, error = [1.0, 0.005, 1.0, 1.0, 1.0, 1.0], (0.1, 0.1, 0.0)
    light, heavy = cartesian(scales, error=error), cartesian(scales, 1e4 * np.eye(7), error)
    np.testing.assert_allclose(heavy, 1e4 * light, rtol=1e-9)


@pytest.mark.parametrize("options", [{}, DECOUPLED, {**DECOUPLED, "partial_inertial_dynamics_decoupling": True}])
def test_an_inertia_with_a_row_of_zeros(arms: Arms, options: dict[str, Any]) -> None:
    flat = arms.mass.copy()
    flat[0, 2] = flat[0, :, 2] = 0.0
    flat[1] = 0.0
    efforts = arms.efforts(arms.goal, None, {"mass_matrix": flat}, **POSTURE, **options)
    assert np.isfinite(efforts).all()
    assert np.abs(efforts[:2]).max() < 1e4
    if options:
        assert not efforts[1].any()
    np.testing.assert_allclose(efforts[2:], arms.efforts(arms.goal, **POSTURE, **options)[2:], rtol=1e-12)


def test_a_joint_without_inertia_of_its_own_counts_as_one_that_does_not_move() -> None:
    """The other six still move the end-effector as they are told."""
    arms = Arms()
    mass = arms.mass.copy()
    mass[:, 2] = mass[:, :, 2] = 0.0
    others = [0, 1, 3, 4, 5, 6]
    efforts = arms.efforts(arms.goal, None, {"mass_matrix": mass}, **EXACT)
    inner = np.linalg.solve(mass[:, others][:, :, others], efforts[:, others, None])[:, :, 0]
    wanted = 100.0 * arms.error - 20.0 * arms.velocity
    np.testing.assert_allclose(times(arms.jacobian[:, :, others], inner), wanted, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("name", "attribute"),
    [
        ("mass_matrix", "mass"),
        ("jacobian_b", "jacobian"),
        ("current_ee_pose_b", "pose"),
        ("current_ee_force_b", "force"),
    ],
)
def test_what_is_no_number_in_one_world_stays_there(arms: Arms, name: str, attribute: str) -> None:
    options = {**HYBRID, **DECOUPLED, **POSTURE, "contact_wrench_stiffness_task": 0.3}
    broken = getattr(arms, attribute).copy()
    broken[3, 0] = np.nan
    command = joined(arms.goal, arms.wrench)
    efforts = arms.efforts(command, None, {name: broken}, **options)
    assert np.isnan(efforts[3]).any()
    others = np.arange(N) != 3
    np.testing.assert_allclose(efforts[others], arms.efforts(command, **options)[others], rtol=1e-12)


def test_before_a_command_and_after_a_reset_the_weight_is_carried_and_nothing_else(arms: Arms) -> None:
    options = {**HYBRID, **DECOUPLED, **POSTURE, "gravity_compensation": True}
    made = arms.controller(**options)
    np.testing.assert_array_equal(made.compute(arms.jacobian, gravity=arms.gravity), arms.gravity)
    command = joined(arms.goal, arms.wrench)
    made.set_command(command)
    whole = arms.compute(made)
    made.reset([1, 4])
    some = arms.compute(made)
    np.testing.assert_array_equal(some[[1, 4]], arms.gravity[[1, 4]])
    rest = np.setdiff1d(np.arange(N), [1, 4])
    np.testing.assert_array_equal(some[rest], whole[rest])
    assert (np.abs(whole - arms.gravity).max(axis=1) > 1.0).all()
    made.reset()
    assert made.command is None
    np.testing.assert_array_equal(arms.compute(made), arms.gravity)
    made.set_command(command)
    np.testing.assert_array_equal(arms.compute(made), whole)


def test_a_command_is_a_copy_and_nothing_that_is_given_is_written_to(arms: Arms) -> None:
    made = arms.controller(gravity_compensation=True)
    buffer = arms.goal
    made.set_command(buffer, arms.pose, arms.frame)
    first = arms.compute(made)
    buffer[:] = 9.0
    first_again = arms.compute(made)
    np.testing.assert_array_equal(first_again, first)
    idle = arms.controller(gravity_compensation=True)
    arms.compute(idle)[:] = 0.0
    assert arms.gravity.any()


def refuse(**options: Any) -> Any:
    return lambda arms: OperationalSpaceConfig(**{"target_types": ("pose_abs",), **options})


def lacking(name: str, **options: Any) -> Any:
    def run(arms: Arms) -> None:
        made = arms.controller(**{**HYBRID, **options})
        made.set_command(joined(arms.goal, arms.wrench))
        arms.compute(made, **{name: None})

    return run


@pytest.mark.parametrize(
    ("run", "named"),
    [
        (refuse(target_types=()), "target_types"),
        (refuse(target_types="pose_abs"), "target_types"),
        (refuse(target_types=("pose",)), "target_types"),
        (refuse(target_types=("pose_abs", "pose_rel")), "target_types"),
        (refuse(target_types=("pose_abs", "pose_abs")), "target_types"),
        (refuse(motion_control_axes_task=(1, 1, 1)), "motion_control_axes_task"),
        (refuse(motion_control_axes_task=(1, 1, 2, 0, 0, 0)), "motion_control_axes_task"),
        (refuse(motion_control_axes_task=(0,) * 6), "motion_control_axes_task"),
        (refuse(contact_wrench_control_axes_task=(1, 0, 0, 0, 0, 0)), "contact_wrench_control_axes_task"),
        (refuse(target_types=("pose_abs", "wrench_abs")), "contact_wrench_control_axes_task"),
        (refuse(contact_wrench_stiffness_task=0.1), "contact_wrench_stiffness_task"),
        (refuse(**{**HYBRID, "contact_wrench_stiffness_task": (0.1, 0.2)}), "contact_wrench_stiffness_task"),
        (refuse(impedance_mode="stiff"), "impedance_mode"),
        (refuse(nullspace_control="velocity"), "nullspace_control"),
        (refuse(motion_stiffness_task=-1.0), "motion_stiffness_task"),
        (refuse(motion_stiffness_task=(1.0, 2.0)), "motion_stiffness_task"),
        (refuse(motion_damping_ratio_task=np.nan), "motion_damping_ratio_task"),
        (refuse(motion_stiffness_limits_task=(2.0, 1.0)), "motion_stiffness_limits_task"),
        (refuse(motion_damping_ratio_limits_task=(1.0, 2.0, 3.0)), "motion_damping_ratio_limits_task"),
        (refuse(nullspace_stiffness=-1.0), "nullspace_stiffness"),
        (refuse(nullspace_damping_ratio=-1.0), "nullspace_damping_ratio"),
        *[
            (refuse(inertia_conditioning_thresholds=pair), "inertia_conditioning_thresholds")
            for pair in ((0.0, 0.1), (0.1, 0.1), (0.2, 0.1), (0.1, 1.1), (np.nan, 0.1), (0.1,))
        ],
        (refuse(partial_inertial_dynamics_decoupling=True), "partial_inertial_dynamics_decoupling"),
        (
            refuse(target_types=("wrench_abs",), contact_wrench_control_axes_task=(1,) * 6, **DECOUPLED, **POSTURE),
            "nullspace_control",
        ),
        (
            lambda arms: OperationalSpaceController(OperationalSpaceConfig(("pose_abs",), **POSTURE), 6),
            "nullspace_control",
        ),
        (lambda arms: OperationalSpaceController(OperationalSpaceConfig(("pose_abs",)), 0), "dof"),
        (lambda arms: arms.controller().set_command(arms.goal[:, :6]), "command"),
        (lambda arms: arms.controller().set_command(arms.goal[:-1]), "command"),
        (lambda arms: arms.controller(impedance_mode="variable").set_command(arms.goal), "command"),
        (lambda arms: arms.controller(("pose_rel",)).set_command(arms.wrench), "current_ee_pose_b"),
        (lambda arms: arms.controller().set_command(arms.goal, arms.pos), "current_ee_pose_b"),
        (lambda arms: arms.controller().set_command(arms.goal, None, arms.frame[:1]), "current_task_frame_pose_b"),
        (lacking("current_ee_pose_b"), "current_ee_pose_b"),
        (lacking("current_ee_vel_b"), "current_ee_vel_b"),
        (lacking("mass_matrix", **DECOUPLED), "mass_matrix"),
        (lacking("gravity", gravity_compensation=True), "gravity"),
        (lacking("current_ee_force_b", contact_wrench_stiffness_task=0.1), "current_ee_force_b"),
        (lacking("current_joint_pos", **POSTURE), "current_joint_pos"),
        (lacking("current_joint_vel", **POSTURE), "current_joint_vel"),
        (lambda arms: arms.compute(arms.controller(), jacobian_b=arms.jacobian[:, :3]), "jacobian_b"),
        (
            lambda arms: arms.efforts(arms.goal, None, {"nullspace_joint_pos_target": arms.posture[:, :6]}, **POSTURE),
            "nullspace_joint_pos_target",
        ),
        (lambda arms: arms.efforts(arms.goal, None, {"current_ee_vel_b": arms.force}), "current_ee_vel_b"),
        (
            lambda arms: arms.efforts(
                joined(arms.goal, arms.wrench),
                None,
                {"current_ee_force_b": arms.force[:, :2]},
                contact_wrench_stiffness_task=0.1,
                **HYBRID,
            ),
            "current_ee_force_b",
        ),
    ],
)
def test_refused(arms: Arms, run: Any, named: str) -> None:
    with pytest.raises(UsageError, match=f"^{named}:"):
        run(arms)
