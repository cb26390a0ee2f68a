"""A policy's numbers to joint targets: what is scaled and added, which joints and which frame it is about."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace
from typing import Any

import numpy as np
import pytest
from analytic_arm import SEVEN
from osc_arms import STIFFNESS, Arms, N, joined, times
from scipy.spatial.transform import Rotation

from firmware_profiles.errors import UsageError
from twin.control.arrays import Arrays
from twin.control.task_space.action_config import (
    BodyOffset,
    DifferentialIKActionConfig,
    JointImpedanceActionConfig,
    OperationalSpaceActionConfig,
)
from twin.control.task_space.action_term import DifferentialIKAction, JointImpedanceAction, OperationalSpaceAction
from twin.control.task_space.arm_state import ArmState
from twin.control.task_space.arm_views import at_offset, joints_by_name, with_joints
from twin.control.task_space.differential_ik import DifferentialIKController
from twin.control.task_space.ik_config import DifferentialIKConfig, ik_method
from twin.control.task_space.joint_impedance import JointImpedanceController
from twin.control.task_space.joint_impedance_config import JointImpedanceConfig
from twin.control.task_space.osc_config import OperationalSpaceConfig

ARM = Arms()
NAMES = ("shoulder1", "shoulder2", "upper", "elbow", "wrist1", "wrist2", "wrist3")
LOWER, UPPER = np.linspace(-2.0, -1.4, 7), np.linspace(1.7, 2.9, 7)
DEFAULT = np.linspace(-0.3, 0.6, 7)
OFFSET = BodyOffset((0.1, -0.05, 0.2), (0.0, 2.0 * np.sin(0.35), 0.0, 2.0 * np.cos(0.35)))  # of length 2
POSE, FRAME = ("pose_abs",), "wall"


def frame_of(name: str) -> tuple[np.ndarray, np.ndarray]:
    assert name == FRAME
    return ARM.frame[:, :3], ARM.frame[:, 3:]


STATE = ArmState(
    joint_names=NAMES,
    joint_pos=ARM.q,
    joint_vel=ARM.qd,
    joint_lower=LOWER,
    joint_upper=UPPER,
    default_joint_pos=DEFAULT,
    mass_matrix=ARM.mass,
    gravity=ARM.gravity,
    ee_pos=ARM.pos,
    ee_quat_xyzw=ARM.quat,
    ee_vel=ARM.velocity,
    jacobian=ARM.jacobian,
    ee_force=ARM.force,
    body_pose=frame_of,
)


def osc_action(
    types: Any = POSE,
    *,
    state: ArmState = STATE,
    joints: Sequence[str] = (".*",),
    controller: Any = None,
    **options: Any,
) -> OperationalSpaceAction:
    config = OperationalSpaceActionConfig(
        joint_names=joints, controller=OperationalSpaceConfig(types, **(controller or {})), **options
    )
    return OperationalSpaceAction(config, state, arrays=Arrays(N))


def efforts(term: Any, action: np.ndarray, state: ArmState = STATE) -> np.ndarray:
    term.process(action, state)
    return term.apply(state)


def test_the_action_is_the_controllers_command() -> None:
    options = {"inertial_dynamics_decoupling": True, "gravity_compensation": True}
    expected = ARM.efforts(ARM.goal, **options)
    np.testing.assert_array_equal(efforts(osc_action(controller=options), ARM.goal), expected)


def test_each_part_has_a_scale_of_its_own_and_then_the_offset() -> None:
    wrench = {"contact_wrench_control_axes_task": (0, 0, 1, 0, 0, 0), "motion_control_axes_task": (1, 1, 0, 1, 1, 1)}
    term = osc_action(
        ("wrench_abs", "pose_rel"),
        controller={"impedance_mode": "variable", **wrench},
        position_scale=0.5,
        orientation_scale=(2.0, 3.0, 4.0),
        wrench_scale=(5.0, 6.0, 7.0, 8.0, 9.0, 10.0),
        stiffness_scale=11.0,
        damping_ratio_scale=12.0,
        offset=np.arange(24.0),
    )
    assert term.action_dim == 24
    action = np.random.default_rng(2).normal(size=(N, 24))
    efforts(term, action)
    scale = [5, 6, 7, 8, 9, 10, 0.5, 0.5, 0.5, 2, 3, 4, *[11] * 6, *[12] * 6]
    np.testing.assert_array_equal(term.processed_actions, action * scale + np.arange(24.0))
    np.testing.assert_array_equal(term.raw_actions, action)


def test_a_quaternion_is_not_scaled() -> None:
    term = osc_action(position_scale=(1.0, 2.0, 3.0), orientation_scale=0.0)
    efforts(term, ARM.goal)
    np.testing.assert_array_equal(term.processed_actions, ARM.goal * [1, 2, 3, 1, 1, 1, 1])


def test_joints_are_matched_as_a_whole_and_stay_in_the_arms_order() -> None:
    assert joints_by_name(["wrist[12]", "shoulder.*"], NAMES) == (0, 1, 4, 5)
    assert joints_by_name(["upper", "upper|elbow"], NAMES) == (2, 3)
    with pytest.raises(UsageError, match=r"^joint_names: 'wrist' matches none; the arm has shoulder1, shoulder2"):
        joints_by_name(["wrist"], NAMES)
    for wrong in ([], "wrist1", ["wrist["]):
        with pytest.raises(UsageError, match=r"^joint_names:"):
            joints_by_name(wrong, NAMES)


def test_some_of_the_joints_are_an_arm_of_their_own() -> None:
    """Those that are left out do not move: their rows and columns are in none of the controller's matrices."""
    chosen = [0, 1, 3, 4, 5, 6]
    options = {"inertial_dynamics_decoupling": True, "gravity_compensation": True}
    term = osc_action(joints=["shoulder.", "elbow", "wrist."], controller=options)
    assert term.joint_indices == tuple(chosen)
    assert term.joint_names == tuple(NAMES[i] for i in chosen)
    part = Arms()
    part.q, part.qd, part.gravity, part.posture = (
        array[:, chosen] for array in (ARM.q, ARM.qd, ARM.gravity, ARM.posture)
    )
    part.jacobian, part.mass = ARM.jacobian[:, :, chosen], ARM.mass[:, chosen][:, :, chosen]
    np.testing.assert_allclose(efforts(term, ARM.goal), part.efforts(ARM.goal, **options), rtol=1e-9)
    view = with_joints(STATE, chosen, xp=np)
    np.testing.assert_array_equal(view.joint_lower, LOWER[chosen])
    np.testing.assert_array_equal(view.joint_upper, UPPER[chosen])
    np.testing.assert_array_equal(view.default_joint_pos, DEFAULT[chosen])


def test_the_offset_is_a_frame_on_the_body() -> None:
    """Pose, velocity and Jacobian are those of a point that the arm carries: against the arm moved a little."""
    turn = np.array(OFFSET.quat_xyzw) / 2.0

    def carried(q: np.ndarray) -> tuple[np.ndarray, Rotation]:
        pos, quat, _ = SEVEN.forward(q)
        body = Rotation.from_quat(quat)
        return pos + body.apply(OFFSET.pos_m), body * Rotation.from_quat(turn)

    view = at_offset(STATE, np.tile(OFFSET.pos_m, (N, 1)), np.tile(turn, (N, 1)), xp=np)
    pos, attitude = carried(ARM.q)
    np.testing.assert_allclose(view.ee_pos, pos, atol=1e-12)
    np.testing.assert_allclose((Rotation.from_quat(view.ee_quat_xyzw) * attitude.inv()).magnitude(), 0.0, atol=1e-7)
    for joint in range(7):
        nudge = 1e-6 * np.eye(7)[joint]
        (p0, r0), (p1, r1) = carried(ARM.q - nudge), carried(ARM.q + nudge)
        column = np.concatenate(((p1 - p0) / 2e-6, (r1 * r0.inv()).as_rotvec() / 2e-6), axis=1)
        np.testing.assert_allclose(view.jacobian[:, :, joint], column, atol=1e-7)
    np.testing.assert_allclose(view.ee_vel, times(view.jacobian, ARM.qd), atol=1e-12)
    np.testing.assert_array_equal(view.ee_force, STATE.ee_force)


def test_the_controlled_frame_is_the_offset_one() -> None:
    """Asked to stay where the offset frame is, a spring pulls nowhere; the end-effector's own frame would be pulled."""
    still = replace(STATE, ee_vel=np.zeros((N, 6)), joint_vel=np.zeros((N, 7)))
    term = osc_action(body_offset=OFFSET)
    body = Rotation.from_quat(ARM.quat)
    there = joined(
        ARM.pos + body.apply(OFFSET.pos_m), (body * Rotation.from_quat(np.array(OFFSET.quat_xyzw))).as_quat()
    )
    np.testing.assert_allclose(efforts(term, there, still), 0.0, atol=1e-4)
    assert (np.abs(efforts(osc_action(), there, still)).max(axis=1) > 1.0).all()


def test_the_task_frame_is_a_bodys_when_the_action_is_taken() -> None:
    moved = replace(STATE, body_pose=lambda name: (ARM.frame[:, :3] + 9.0, ARM.frame[:, 3:]))
    term = osc_action(task_frame_body=FRAME, controller={"motion_stiffness_task": STIFFNESS})
    expected = ARM.efforts(ARM.goal_in_task, ARM.frame, motion_stiffness_task=STIFFNESS)
    term.process(ARM.goal_in_task, STATE)
    np.testing.assert_array_equal(term.apply(moved), expected)
    term.process(ARM.goal_in_task, moved)
    assert np.abs(term.apply(moved) - expected).max() > 1.0


@pytest.mark.parametrize(
    ("target", "posture"), [("zero", np.zeros(7)), ("default", DEFAULT), ("center", 0.5 * (LOWER + UPPER))]
)
def test_the_posture_in_the_null_space(target: Any, posture: np.ndarray) -> None:
    options = {"inertial_dynamics_decoupling": True, "nullspace_control": "position"}
    term = osc_action(controller=options, nullspace_joint_pos_target=target)
    told = {"nullspace_joint_pos_target": np.tile(posture, (N, 1))}
    np.testing.assert_array_equal(efforts(term, ARM.goal), ARM.efforts(ARM.goal, None, told, **options))


def test_the_middle_needs_two_ends() -> None:
    endless = replace(STATE, joint_upper=np.where(np.arange(7) == 2, np.inf, UPPER))
    options: dict[str, Any] = {"controller": {"nullspace_control": "position"}, "state": endless}
    with pytest.raises(UsageError, match=r"^nullspace_joint_pos_target: 'center' needs limits, .* none of upper$"):
        osc_action(nullspace_joint_pos_target="center", **options)
    osc_action(nullspace_joint_pos_target="default", **options)


def test_a_relative_action_begins_where_the_arm_is_when_it_is_taken() -> None:
    delta = 0.1 * np.random.default_rng(4).normal(size=(N, 6))
    term = osc_action(("pose_rel",))
    term.process(delta, STATE)
    first = term.apply(STATE)
    elsewhere = replace(STATE, ee_pos=ARM.pos + 0.1)
    assert np.abs(term.apply(elsewhere) - first).max() > 1.0  # the goal stays, the arm is further away
    np.testing.assert_array_equal(term.apply(STATE), first)
    assert np.abs(efforts(term, delta, elsewhere) - first).max() < 1e-9


def test_a_buffer_that_the_policy_writes_anew_changes_nothing() -> None:
    term, buffer = osc_action(), ARM.goal
    first = efforts(term, buffer)
    buffer[:] = 3.0
    np.testing.assert_array_equal(term.apply(STATE), first)
    np.testing.assert_array_equal(term.raw_actions, ARM.goal)


def test_after_a_reset_the_weight_is_carried() -> None:
    term = osc_action(controller={"gravity_compensation": True})
    np.testing.assert_array_equal(term.apply(STATE), ARM.gravity)
    efforts(term, ARM.goal)
    term.reset([2])
    after = term.apply(STATE)
    np.testing.assert_array_equal(after[2], ARM.gravity[2])
    assert (np.abs(after - ARM.gravity).max(axis=1) > 1.0).sum() == N - 1
    assert not term.raw_actions[2].any()
    assert term.raw_actions[1].any()
    term.reset()
    np.testing.assert_array_equal(term.apply(STATE), ARM.gravity)


def test_differential_ik_behind_an_action() -> None:
    chosen = [0, 1, 3, 4, 5, 6]
    config = DifferentialIKConfig("pose", ik_method("dls"), use_relative_mode=True, joint_limit_avoidance_gain=0.5)
    term = DifferentialIKAction(
        DifferentialIKActionConfig(
            joint_names=["shoulder.", "elbow", "wrist."],
            controller=config,
            body_offset=OFFSET,
            position_scale=0.1,
            orientation_scale=0.2,
            offset=0.01,
        ),
        STATE,
        arrays=Arrays(N),
    )
    assert term.action_dim == 6
    action = np.random.default_rng(7).normal(size=(N, 6))
    turn = np.tile(np.array(OFFSET.quat_xyzw) / 2.0, (N, 1))
    view = at_offset(with_joints(STATE, chosen, xp=np), np.tile(OFFSET.pos_m, (N, 1)), turn, xp=np)
    plain = DifferentialIKController(config, joint_lower=LOWER[chosen], joint_upper=UPPER[chosen], arrays=Arrays(N))
    plain.set_command(action * ([0.1] * 3 + [0.2] * 3) + 0.01, view.ee_pos, view.ee_quat_xyzw)
    expected = plain.compute(view.ee_pos, view.ee_quat_xyzw, view.jacobian, view.joint_pos)
    np.testing.assert_allclose(efforts(term, action), expected, rtol=1e-12)
    position = DifferentialIKActionConfig(
        joint_names=[".*"], controller=DifferentialIKConfig("position", config.method)
    )
    assert position.scale.shape == (3,)


def test_joint_impedance_behind_an_action() -> None:
    config = JointImpedanceConfig("variable", 1.0, inertial_compensation=True, gravity_compensation=True)
    term = JointImpedanceAction(
        JointImpedanceActionConfig(
            joint_names=["wrist.", "elbow"],
            controller=config,
            position_scale=(0.1, 0.2, 0.3, 0.4),
            stiffness_scale=50.0,
            damping_ratio_scale=2.0,
            offset=0.1,
        ),
        STATE,
        arrays=Arrays(N),
    )
    assert term.action_dim == 12
    action = np.random.default_rng(8).uniform(size=(N, 12))
    chosen = [3, 4, 5, 6]
    plain = JointImpedanceController(config, np.stack((LOWER, UPPER), axis=1)[None, chosen], arrays=Arrays(N))
    plain.set_command(action * [0.1, 0.2, 0.3, 0.4, *[50.0] * 4, *[2.0] * 4] + 0.1)
    mass = ARM.mass[:, chosen][:, :, chosen]
    expected = plain.compute(ARM.q[:, chosen], ARM.qd[:, chosen], mass, ARM.gravity[:, chosen])
    np.testing.assert_allclose(efforts(term, action), expected, rtol=1e-12)


def test_nothing_of_the_state_is_written_to() -> None:
    before = {field.name: np.copy(getattr(STATE, field.name)) for field in fields(STATE) if field.name != "body_pose"}
    term = osc_action(joints=["shoulder.", "wrist."], body_offset=OFFSET, controller={"gravity_compensation": True})
    efforts(term, ARM.goal)[:] = 0.0
    for name, value in before.items():
        np.testing.assert_array_equal(getattr(STATE, name), value, err_msg=name)


@pytest.mark.parametrize(
    ("make", "named"),
    [
        (lambda: osc_action(nullspace_joint_pos_target="middle"), "nullspace_joint_pos_target"),
        (lambda: osc_action(nullspace_joint_pos_target="zero"), "nullspace_joint_pos_target"),
        (lambda: osc_action(controller={"nullspace_control": "position"}), "nullspace_joint_pos_target"),
        (lambda: osc_action(position_scale=(1.0, 2.0)), "position_scale"),
        (lambda: osc_action(position_scale=np.nan), "position_scale"),
        (lambda: osc_action(("pose_rel",), orientation_scale=(1.0,) * 4), "orientation_scale"),
        (lambda: osc_action(offset=np.inf), "offset"),
        (lambda: osc_action(offset=(1.0, 2.0)), "offset"),
        (lambda: osc_action(joints=["hip"]), "joint_names"),
        (lambda: osc_action().process(ARM.goal[:, :6], STATE), "action"),
        (lambda: BodyOffset((0.0, 0.0)), "pos_m"),
        (lambda: BodyOffset(quat_xyzw=(0.0, 0.0, 0.0, 0.0)), "quat_xyzw"),
        (lambda: BodyOffset(quat_xyzw=(0.0, 0.0, 0.0, np.nan)), "quat_xyzw"),
        (
            lambda: osc_action(
                joints=["shoulder.", "wrist."],
                controller={"nullspace_control": "position"},
                nullspace_joint_pos_target="zero",
            ),
            "nullspace_control",
        ),
        (
            lambda: JointImpedanceAction(
                JointImpedanceActionConfig(
                    joint_names=[".*"], controller=JointImpedanceConfig("fixed", 1.0), position_scale=(1.0, 2.0)
                ),
                STATE,
            ),
            "position_scale",
        ),
    ],
)
def test_refused(make: Any, named: str) -> None:
    with pytest.raises(UsageError, match=f"^{named}:"):
        make()
