"""Task-space impedance, proportional force, and the two together, on arms that push against something."""

from typing import Any

import numpy as np
import pytest
from osc_arms import DECOUPLED, HYBRID, POSTURE, RATIO, STIFFNESS, Arms, N, joined, times
from scipy.spatial.transform import Rotation

from firmware_profiles.errors import UsageError
from twin.control.arrays import Arrays
from twin.control.task_space.force import ProportionalForceController
from twin.control.task_space.hybrid import HybridForceMotionController
from twin.control.task_space.impedance import TaskSpaceImpedanceController

GANTRY = np.concatenate((np.eye(6), np.zeros((6, 1))), axis=1)[None]
"""A Jacobian: six joints are the six axes, 1 kg or 1 kg m^2 each; the seventh is free."""
HERE = np.array([[0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0]])
TILTED = np.concatenate((np.zeros((1, 3)), Rotation.from_rotvec([[0.3, -0.7, 0.2]]).as_quat()), axis=1)
"""A frame at the base's origin."""


@pytest.fixture(scope="module")
def arms() -> Arms:
    return Arms()


@pytest.mark.parametrize("mode", ["fixed", "variable_kp", "variable"])
def test_impedance_is_springs_and_dampers_through_the_transpose(arms: Arms, mode: Any) -> None:
    gains = {"fixed": [], "variable_kp": [STIFFNESS], "variable": [STIFFNESS, RATIO]}[mode]
    fixed = {"stiffness": STIFFNESS} if mode == "fixed" else {}
    ratio = {} if mode == "variable" else {"damping_ratio": RATIO}
    made = TaskSpaceImpedanceController(7, impedance_mode=mode, arrays=Arrays(N), **fixed, **ratio)
    assert made.action_dim == 7 + 6 * len(gains)
    made.set_command(joined(arms.goal, *gains))
    force = STIFFNESS * arms.error - 2.0 * np.sqrt(STIFFNESS) * RATIO * arms.velocity
    expected = times(arms.jacobian.swapaxes(1, 2), force)
    np.testing.assert_allclose(made.compute(arms.jacobian, arms.pose, arms.velocity), expected, rtol=1e-9)


def test_impedance_gives_way_by_force_over_stiffness() -> None:
    """Pushed at by a constant force along an axis of a tilted frame, a mass comes to rest where the spring says."""
    made = TaskSpaceImpedanceController(
        7, stiffness=(40.0, 80.0, 120.0, 1.0, 1.0, 1.0), damping_ratio=0.7, axes=(1, 1, 1, 0, 0, 0)
    )
    made.set_command(HERE, None, TILTED)
    turn = Rotation.from_quat(TILTED[:, 3:])
    push = turn.apply([[4.0, -8.0, 12.0]])
    pos, vel = np.zeros((1, 3)), np.zeros((1, 3))
    for _ in range(4000):
        pose, twist = np.concatenate((pos, HERE[:, 3:]), axis=1), np.concatenate((vel, np.zeros((1, 3))), axis=1)
        vel = vel + 0.002 * (made.compute(GANTRY, pose, twist)[:, :3] + push)
        pos = pos + 0.002 * vel
    np.testing.assert_allclose(turn.inv().apply(pos), [[0.1, -0.1, 0.1]], atol=1e-6)


def test_relative_impedance_begins_where_the_end_effector_is(arms: Arms) -> None:
    made = TaskSpaceImpedanceController(7, target_type="pose_rel", arrays=Arrays(N))
    assert made.action_dim == 6
    made.set_command(np.zeros((N, 6)), arms.pose, arms.frame)
    efforts = made.compute(arms.jacobian, arms.pose, arms.velocity)
    np.testing.assert_allclose(efforts, times(arms.jacobian.swapaxes(1, 2), -20.0 * arms.velocity), atol=1e-5)


@pytest.mark.parametrize("share", [0.6, 1.3])
@pytest.mark.parametrize("gain", [0.0, 0.5, 0.7])
def test_force_feedback_takes_its_share_of_the_error_away(share: float, gain: float) -> None:
    """An arm that exerts a share s of what it is asked for: the error is 1 - s in open loop, over 1 + s K closed."""
    made = ProportionalForceController(7, gain=gain, axes=(1, 1, 1, 0, 0, 0))
    wanted = np.array([[3.0, -2.0, 10.0]])
    made.set_command(np.concatenate((wanted, np.zeros((1, 3))), axis=1))
    measured = np.zeros((1, 3))
    for _ in range(300):
        measured = share * made.compute(GANTRY, current_ee_force_b=measured)[:, :3]
    np.testing.assert_allclose(wanted - measured, wanted * (1.0 - share) / (1.0 + share * gain), rtol=1e-9)


def test_force_along_some_axes_of_a_tilted_frame_only(arms: Arms) -> None:
    made = ProportionalForceController(
        7, gain=(9.0, 9.0, 0.5, 9.0, 9.0, 9.0), axes=(0, 0, 1, 0, 0, 0), gravity_compensation=True, arrays=Arrays(N)
    )
    made.set_command(arms.wrench, None, arms.frame)
    efforts = made.compute(arms.jacobian, current_ee_force_b=arms.force, gravity=arms.gravity)
    normal = arms.frame_turn.apply(np.tile([0.0, 0.0, 1.0], (N, 1)))
    size = 1.5 * arms.wrench[:, 2] - 0.5 * np.sum(normal * arms.force, axis=1)
    force = times(arms.jacobian[:, :3].swapaxes(1, 2), size[:, None] * normal)
    np.testing.assert_allclose(efforts - arms.gravity, force, atol=1e-9)


def test_hybrid_is_operational_space_control_with_axes_that_complement_each_other(arms: Arms) -> None:
    made = HybridForceMotionController(
        7, stiffness=STIFFNESS, damping_ratio=RATIO, nullspace_control="position", arrays=Arrays(N)
    )
    made.set_command(joined(arms.goal_in_task, arms.wrench), None, arms.frame)
    options = {"contact_wrench_stiffness_task": 0.1, "motion_stiffness_task": STIFFNESS, **DECOUPLED, **POSTURE}
    expected = arms.efforts(
        joined(arms.goal_in_task, arms.wrench), arms.frame, motion_damping_ratio_task=RATIO, **HYBRID, **options
    )
    np.testing.assert_array_equal(arms.compute(made), expected)


def test_hybrid_presses_on_a_wall_and_moves_along_it() -> None:
    """A stiff, tilted wall: force and place on the wall are what is asked for."""
    made = HybridForceMotionController(7, force_gain=0.5, stiffness=100.0)
    turn = Rotation.from_quat(TILTED[:, 3:])
    goal = np.array([[0.2, -0.1, 5.0, 0.0, 0.0, 0.0, 1.0]])  # its z is behind the wall, and of no matter
    made.set_command(np.concatenate((goal, [[9.0, 9.0, 10.0, 9.0, 9.0, 9.0]]), axis=1), None, TILTED)
    normal = turn.apply([[0.0, 0.0, 1.0]])
    pos, vel, pressed = np.zeros((1, 3)), np.zeros((1, 3)), 0.0
    for _ in range(5000):
        depth, into = float((pos * normal).sum()), float((vel * normal).sum())
        pressed = max(0.0, 2000.0 * depth + 60.0 * into)
        pose = np.concatenate((pos, TILTED[:, 3:]), axis=1)
        twist = np.concatenate((vel, np.zeros((1, 3))), axis=1)
        efforts = made.compute(GANTRY, pose, twist, pressed * normal, np.eye(7)[None])
        vel = vel + 5e-4 * (efforts[:, :3] - pressed * normal)
        pos = pos + 5e-4 * vel
    assert pressed == pytest.approx(10.0, abs=1e-6)
    np.testing.assert_allclose(turn.inv().apply(pos), [[0.2, -0.1, 10.0 / 2000.0]], atol=1e-6)


@pytest.mark.parametrize(
    ("make", "named"),
    [
        (lambda: TaskSpaceImpedanceController(7, stiffness=-1.0), "motion_stiffness_task"),
        (lambda: TaskSpaceImpedanceController(7, target_type="wrench_abs"), "contact_wrench_control_axes_task"),
        (lambda: TaskSpaceImpedanceController(7, axes=(0,) * 6), "motion_control_axes_task"),
        (lambda: ProportionalForceController(7, gain=-0.1), "contact_wrench_stiffness_task"),
        (lambda: ProportionalForceController(7, gain=0.1, axes=(0,) * 6), "contact_wrench_control_axes_task"),
        (lambda: HybridForceMotionController(7, force_axes=(1,) * 6), "motion_control_axes_task"),
        (lambda: HybridForceMotionController(7, force_axes=(0,) * 6), "contact_wrench_control_axes_task"),
        (lambda: HybridForceMotionController(7, force_axes=(0, 1)), "force_axes"),
        (lambda: HybridForceMotionController(7, force_axes=(0, 0, 2, 0, 0, 0)), "motion_control_axes_task"),
        (lambda: HybridForceMotionController(6, nullspace_control="position"), "nullspace_control"),
    ],
)
def test_refused(make: Any, named: str) -> None:
    with pytest.raises(UsageError, match=f"^{named}:"):
        make()
