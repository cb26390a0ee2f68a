"""Differential inverse kinematics: arms that get there, and what is promised near singularities and limits."""

import numpy as np
import pytest
from analytic_arm import PLANAR, SEVEN, SIX, Arm
from scipy.spatial.transform import Rotation

from twin.control.arrays import Arrays
from twin.control.task_space.differential_ik import DifferentialIKController
from twin.control.task_space.ik_config import DifferentialIKConfig, IKMethod, ik_method
from twin.control.task_space.poses import pose_error

N = 6
ARMS = {"seven joints": SEVEN, "six joints": SIX}
METHODS = {
    "pinv": ik_method("pinv", k_val=0.5),
    "svd": ik_method("svd", k_val=0.5, min_singular_value=1e-3),
    "trans": ik_method("trans", k_val=0.4),
    "dls": ik_method("dls", lambda_val=0.05),
    "adaptive_dls": ik_method("adaptive_dls"),
}
ALL = pytest.mark.parametrize("method", METHODS.values(), ids=list(METHODS))
BENT = np.array([0.3, 0.6, -0.2, 1.2, 0.4, 0.8, 0.1])
UPRIGHT = np.tile([0.0, 0.0, 0.0, 1.0], (N, 1))


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(4)


def solver(command_type: str, method: IKMethod, *, n: int = N, limits: dict | None = None, **options):
    config = DifferentialIKConfig(command_type, method, **options)
    return DifferentialIKController(config, **(limits or {}), arrays=Arrays(n))


def one_step(made: DifferentialIKController, error: np.ndarray, jacobian: np.ndarray, q=None) -> np.ndarray:
    """(N, n) the step towards a pose or position that is off by `error`, from an upright end-effector at 0."""
    n = len(error)
    command = error[:, : made.action_dim]
    if made.action_dim == 7:
        command = np.concatenate((error[:, 0:3], Rotation.from_rotvec(error[:, 3:6]).as_quat()), axis=1)
    zero, q = np.zeros((n, 3)), np.zeros((n, jacobian.shape[2])) if q is None else q
    made.set_command(command, zero, UPRIGHT[:n])
    return made.compute(zero, UPRIGHT[:n], jacobian, q) - q


def reach(arm: Arm, made: DifferentialIKController, q: np.ndarray, steps: int) -> tuple[np.ndarray, np.ndarray]:
    """(N, 6) what is still missing after so many steps, and the joint positions."""
    for _ in range(steps):
        pos, quat, jacobian = arm.forward(q)
        q = made.compute(pos, quat, jacobian, q)
    pos, quat, _ = arm.forward(q)
    return np.concatenate(pose_error(pos, quat, made.ee_pos_des, made.ee_quat_des, xp=np), axis=1), q


@pytest.mark.parametrize("arm", [PLANAR, SEVEN, SIX])
def test_the_arms_of_these_tests_have_the_jacobians_that_they_say(rng, arm: Arm) -> None:
    q, move = rng.uniform(-1.5, 1.5, size=(2, N, len(arm.axes)))
    (pos, quat, jacobian), (near_pos, near_quat, _) = arm.forward(q), arm.forward(q + 1e-7 * move)
    moved = np.concatenate(pose_error(pos, quat, near_pos, near_quat, xp=np), axis=1) / 1e-7
    np.testing.assert_allclose(moved, (jacobian @ move[:, :, None])[:, :, 0], atol=1e-5)


@ALL
@pytest.mark.parametrize("arm", ARMS.values(), ids=list(ARMS))
def test_a_pose_is_reached(rng, arm: Arm, method: IKMethod) -> None:
    start = rng.uniform(-1.2, 1.2, size=(N, len(arm.axes)))
    goal, quat, _ = arm.forward(start + rng.uniform(-0.4, 0.4, size=start.shape))
    made = solver("pose", method)
    made.set_command(np.concatenate((goal, -2.0 * quat), axis=1))
    downhill = method is METHODS["trans"]  # which creeps, at the end
    missing, _ = reach(arm, made, start, 1500 if downhill else 400)
    assert np.abs(missing).max() < (2e-2 if downhill else 1e-3)


@ALL
@pytest.mark.parametrize("arm", [PLANAR, SEVEN], ids=["planar", "seven joints"])
def test_a_position_is_reached(rng, arm: Arm, method: IKMethod) -> None:
    """Also by an arm that cannot leave a plane, whose Jacobian is never of full rank."""
    start = rng.uniform(-1.2, 1.2, size=(N, len(arm.axes)))
    goal, _, _ = arm.forward(start + rng.uniform(-0.5, 0.5, size=start.shape))
    made = solver("position", method)
    made.set_command(goal, ee_quat=UPRIGHT)
    missing, _ = reach(arm, made, start, 1000 if method is METHODS["trans"] else 200)
    assert np.abs(missing[:, 0:3]).max() < 1e-3


def test_a_relative_pose_is_reached_from_where_it_was_given(rng) -> None:
    start = BENT + rng.uniform(-0.2, 0.2, size=(N, 7))
    pos, quat, _ = SEVEN.forward(start)
    delta = np.concatenate((rng.uniform(-0.05, 0.05, size=(N, 3)), rng.uniform(-0.3, 0.3, size=(N, 3))), axis=1)
    made = solver("pose", METHODS["dls"], use_relative_mode=True)
    made.set_command(delta, pos, 5.0 * quat)
    np.testing.assert_allclose(made.ee_pos_des, pos + delta[:, 0:3])
    wanted = Rotation.from_rotvec(delta[:, 3:6]) * Rotation.from_quat(quat)
    missing, q = reach(SEVEN, made, start, 200)
    assert np.abs(missing).max() < 1e-3
    assert (wanted.inv() * Rotation.from_quat(SEVEN.forward(q)[1])).magnitude().max() < 2e-3


@ALL
def test_the_choice_of_the_base_does_not_matter(rng, method: IKMethod) -> None:
    q = rng.uniform(-1.0, 1.0, size=(N, 7))
    pos, quat, jacobian = SEVEN.forward(q)
    goal = np.concatenate((pos + rng.normal(size=(N, 3)), Rotation.random(N, rng=rng).as_quat()), axis=1)
    made = solver("pose", method)
    made.set_command(goal)
    expected = made.compute(pos, quat, jacobian, q)
    base = Rotation.random(N, rng=rng)
    blocks = np.zeros((N, 6, 6))
    blocks[:, 0:3, 0:3] = blocks[:, 3:6, 3:6] = base.as_matrix()
    made.set_command(
        np.concatenate((base.apply(goal[:, 0:3]), (base * Rotation.from_quat(goal[:, 3:7])).as_quat()), axis=1)
    )
    turned = made.compute(base.apply(pos), (base * Rotation.from_quat(quat)).as_quat(), blocks @ jacobian, q)
    np.testing.assert_allclose(turned, expected, rtol=1e-7, atol=1e-9)


@ALL
@pytest.mark.parametrize("scale", [3.0, -0.25, 1e-20])
def test_the_length_of_a_quaternion_does_not_matter(rng, method: IKMethod, scale: float) -> None:
    q = rng.uniform(-1.0, 1.0, size=(N, 7))
    pos, quat, jacobian = SEVEN.forward(q)
    goal = np.concatenate((pos, Rotation.random(N, rng=rng).as_quat()), axis=1)
    made = solver("pose", method)
    made.set_command(goal)
    expected = made.compute(pos, quat, jacobian, q)
    made.set_command(np.concatenate((pos, scale * goal[:, 3:7]), axis=1))
    np.testing.assert_allclose(made.compute(pos, scale * quat, jacobian, q), expected, rtol=1e-7, atol=1e-9)


def test_a_quaternion_of_nothing_keeps_the_attitude_or_means_that_of_the_base(rng) -> None:
    quat = Rotation.random(N, rng=rng).as_quat()
    command = np.concatenate((rng.normal(size=(N, 3)), np.zeros((N, 4))), axis=1)
    made = solver("pose", METHODS["dls"])
    made.set_command(command, ee_quat=quat)
    np.testing.assert_allclose(made.ee_quat_des, quat, atol=1e-12)
    made.set_command(command)
    np.testing.assert_array_equal(made.ee_quat_des, UPRIGHT)
    measured = made.compute(np.zeros((N, 3)), np.zeros((N, 4)), rng.normal(size=(N, 6, 7)), np.zeros((N, 7)))
    assert np.isfinite(measured).all()


def nearly_singular(rng: np.random.Generator, smallest: float, rows: int = 6) -> np.ndarray:
    """(N, 6, 7) whose first `rows` rows have that smallest singular value."""
    jacobian = rng.normal(size=(N, 6, 7))
    u, s, vh = np.linalg.svd(jacobian[:, 0:rows], full_matrices=False)
    s[:, -1] = smallest
    jacobian[:, 0:rows] = (u * s[:, None, :]) @ vh
    return jacobian


@ALL
@pytest.mark.parametrize("command_type", ["position", "pose"])
@pytest.mark.parametrize("kind", ["nothing", "rank one", "a row of zeros", "1e-12", "1e-4"])
def test_singular_jacobians_give_finite_steps(rng, method: IKMethod, command_type: str, kind: str) -> None:
    jacobian = nearly_singular(rng, 1e-4 if kind == "1e-4" else 1e-12, 3 if command_type == "position" else 6)
    if kind == "nothing":
        jacobian[:] = 0.0
    if kind == "rank one":
        jacobian = jacobian[:, :, 0:1] * jacobian[:, 0:1, :]
    if kind == "a row of zeros":
        jacobian[:, 2] = 0.0
    error = rng.normal(size=(N, 6))
    step = one_step(solver(command_type, method), error, jacobian)
    assert np.isfinite(step).all()
    length = np.linalg.norm(error[:, 0 : 3 if command_type == "position" else 6], axis=1)
    bounds = {"dls": 1 / (2 * 0.05), "adaptive_dls": 1 / (2 * 0.05), "svd": 0.5 / 1e-3}
    name = next(name for name, known in METHODS.items() if known is method)
    if name in bounds:
        assert (np.linalg.norm(step, axis=1) <= bounds[name] * length * (1 + 1e-9)).all()


@pytest.mark.parametrize(
    ("smallest", "squared"), [(0.0, 0.04), (0.005, 0.03765625), (0.01, 0.030625), (0.02, 0.0025), (0.3, 0.0025)]
)
def test_the_damping_follows_the_smallest_singular_value(smallest: float, squared: float) -> None:
    jacobian = np.zeros((1, 6, 7))
    jacobian[0, :, 0:6] = np.diag([1.0, 1.0, 1.0, 1.0, 1.0, smallest])
    error = np.full((1, 6), 1e-3)
    expected = 1e-3 * np.array([1 / (1 + squared)] * 5 + [smallest / (smallest**2 + squared), 0.0])
    step = one_step(solver("pose", ik_method("adaptive_dls"), n=1), error, jacobian)
    np.testing.assert_allclose(step[0], expected, rtol=1e-6, atol=1e-12)


def test_near_a_singularity_the_adapted_step_is_shorter_than_with_the_least_damping(rng) -> None:
    error = rng.normal(size=(N, 6))
    for smallest in (0.0, 1e-3, 0.01, 0.019):
        jacobian = nearly_singular(rng, smallest)
        adapted = one_step(solver("pose", ik_method("adaptive_dls")), error, jacobian)
        fixed = one_step(solver("pose", ik_method("dls", lambda_val=0.05)), error, jacobian)
        assert (np.linalg.norm(adapted, axis=1) < np.linalg.norm(fixed, axis=1)).all()
    jacobian = nearly_singular(rng, 0.05)
    np.testing.assert_allclose(
        one_step(solver("pose", ik_method("adaptive_dls")), error, jacobian),
        one_step(solver("pose", ik_method("dls", lambda_val=0.05)), error, jacobian),
    )


@pytest.mark.parametrize("method", ["pinv", "svd", "dls", "trans"])
def test_an_axis_without_weight_is_no_part_of_the_task(rng, method: str) -> None:
    jacobian, error = rng.normal(size=(N, 6, 7)), 0.1 * rng.normal(size=(N, 6))
    made = solver("pose", ik_method(method), orientation_weight=(1.0, 0.4, 0.0))
    flat = jacobian.copy()
    flat[:, 5] = 0.0
    step = one_step(made, error, jacobian)
    np.testing.assert_allclose(step, one_step(made, error, flat), atol=1e-12)
    assert np.abs(step - one_step(solver("pose", ik_method(method)), error, jacobian)).max() > 1e-3
    alone = solver("pose", ik_method(method), orientation_weight=0.0)
    np.testing.assert_allclose(
        one_step(alone, error, jacobian), one_step(solver("position", ik_method(method)), error, jacobian), atol=1e-12
    )


LIMITS = {"joint_lower": np.full(7, -1.5), "joint_upper": np.array([1.5, 1.0, 1.5, 1.2, 1.5, 1.5, 2.0])}


@ALL
@pytest.mark.parametrize("command_type", ["position", "pose"])
def test_limits_are_avoided_without_moving_the_end_effector(rng, method: IKMethod, command_type: str) -> None:
    q = rng.uniform(-1.0, 0.9, size=(N, 7))
    q[0], q[1], q[2, 0:3] = LIMITS["joint_upper"] - 0.05, LIMITS["joint_lower"] + 0.01, 2.5
    q[3] = 0.0
    jacobian, error = SEVEN.forward(q)[2], 0.1 * rng.normal(size=(N, 6))
    plain = one_step(solver(command_type, method), error, jacobian, q)
    avoiding = solver(command_type, method, limits=LIMITS, joint_limit_avoidance_gain=0.5)
    aside = one_step(avoiding, error, jacobian, q) - plain
    np.testing.assert_allclose(np.einsum("nij,nj->ni", jacobian[:, 0:3], aside), 0.0, atol=1e-5)
    middle = 0.5 * (LIMITS["joint_lower"] + LIMITS["joint_upper"])
    pressed = (np.minimum(q - LIMITS["joint_lower"], LIMITS["joint_upper"] - q) < 0.3).any(axis=1)
    assert pressed[0:3].all()
    towards = np.einsum("nj,nj->n", np.where(q > middle, -1.0, 1.0) * aside, np.ones_like(q))
    assert (towards[0:3] > 0.05).all()
    np.testing.assert_allclose(aside[~pressed], 0.0, atol=1e-9)
    assert not pressed[3]


def test_a_position_is_reached_and_the_limits_are_left(rng) -> None:
    start = np.tile([1.45, 0.9, -0.3, 1.15, 0.2, 0.6, 0.1], (N, 1)) + rng.uniform(-0.05, 0.0, size=(N, 7))
    goal = SEVEN.forward(start + rng.uniform(-0.05, 0.05, size=start.shape))[0]
    rooms = {}
    for gain in (0.0, 0.2):
        made = solver("position", METHODS["dls"], limits=LIMITS, joint_limit_avoidance_gain=gain)
        made.set_command(goal, ee_quat=UPRIGHT)
        missing, q = reach(SEVEN, made, start, 400)
        assert np.abs(missing[:, 0:3]).max() < 1e-3
        rooms[gain] = np.minimum(q - LIMITS["joint_lower"], LIMITS["joint_upper"] - q).min(axis=1)
    assert (rooms[0.2] > rooms[0.0] + 0.05).all()


def test_a_joint_without_limits_has_nothing_to_avoid(rng) -> None:
    q, jacobian = np.full((N, 7), 40.0), rng.normal(size=(N, 6, 7))
    limits = {"joint_lower": np.full(7, -np.inf), "joint_upper": np.full(7, np.inf)}
    made = solver("position", METHODS["dls"], limits=limits, joint_limit_avoidance_gain=1.0)
    error = rng.normal(size=(N, 6))
    np.testing.assert_allclose(
        one_step(made, error, jacobian, q), one_step(solver("position", METHODS["dls"]), error, jacobian, q)
    )


def test_a_target_is_a_copy_and_holds_beyond_a_reset(rng) -> None:
    for command_type, width in (("position", 3), ("pose", 7)):
        made, buffer = solver(command_type, METHODS["dls"]), rng.normal(size=(N, width))
        made.set_command(buffer, ee_quat=UPRIGHT)
        wanted = made.ee_pos_des.copy()
        buffer[:] = 9.0
        made.reset()
        np.testing.assert_array_equal(made.ee_pos_des, wanted)


def test_a_position_leaves_the_attitude_as_it_is(rng) -> None:
    quat = Rotation.random(N, rng=rng).as_quat()
    made = solver("position", METHODS["dls"], use_relative_mode=True)
    made.set_command(np.ones((N, 3)), ee_pos=np.full((N, 3), 2.0), ee_quat=quat)
    np.testing.assert_array_equal(made.ee_pos_des, np.full((N, 3), 3.0))
    np.testing.assert_allclose(made.ee_quat_des, quat, atol=1e-12)
