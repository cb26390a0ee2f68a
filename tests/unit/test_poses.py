"""Pose algebra, against SciPy's rotations and against itself."""

import array_api_compat.torch as torch
import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from twin.control.task_space.poses import (
    axis_angle_of_quat,
    compose,
    moved_by,
    normalised_or,
    pose_error,
    quat_apply_xyzw,
    quat_conjugate_xyzw,
    quat_multiply_xyzw,
    quat_of_axis_angle,
    relative_to,
)

N = 200
RNG = np.random.default_rng(11)
A, B = (Rotation.random(N, rng=RNG) for _ in range(2))
P, V = RNG.normal(size=(2, N, 3))
IDENTITY = np.array([[0.0, 0.0, 0.0, 1.0]])


def the_same(quat: np.ndarray, rotation: Rotation) -> None:
    np.testing.assert_allclose((Rotation.from_quat(quat) * rotation.inv()).magnitude(), 0.0, atol=1e-12)
    np.testing.assert_allclose(np.linalg.norm(quat, axis=1), 1.0, atol=1e-12)


def test_products_and_inverses() -> None:
    a, b = A.as_quat(), B.as_quat()
    the_same(quat_multiply_xyzw(a, b, xp=np), A * B)
    the_same(quat_conjugate_xyzw(a, xp=np), A.inv())
    np.testing.assert_allclose(quat_apply_xyzw(a, V, xp=np), A.apply(V), atol=1e-12)


@pytest.mark.parametrize("scale", [1.0, -1.0, 3.0, -0.25, 1e-20])
def test_a_rotation_vector_takes_the_short_way_whatever_the_length(scale: float) -> None:
    vector = axis_angle_of_quat(scale * A.as_quat(), xp=np)
    np.testing.assert_allclose(vector, A.as_rotvec(), atol=1e-12)
    assert np.linalg.norm(vector, axis=1).max() <= np.pi


def test_half_a_turn_and_more() -> None:
    angles = np.array([np.pi - 1e-9, np.pi, np.pi + 1e-9, 2 * np.pi - 1e-3])[:, None] * np.array([[0.0, 0.6, 0.8]])
    vector = axis_angle_of_quat(quat_of_axis_angle(angles, xp=np), xp=np)
    the_same(quat_of_axis_angle(vector, xp=np), Rotation.from_rotvec(angles))
    np.testing.assert_allclose(np.linalg.norm(vector, axis=1), [np.pi - 1e-9, np.pi, np.pi - 1e-9, 1e-3], atol=1e-8)


@pytest.mark.parametrize("angle", [0.0, 1e-30, 1e-9, 0.999e-6, 1.001e-6, 1e-5, 1e-3])
def test_small_angles_are_continuous(angle: float) -> None:
    axis = np.array([[0.36, -0.48, 0.8]])
    exact = np.concatenate((axis * np.sin(angle / 2), [[np.cos(angle / 2)]]), axis=1)
    np.testing.assert_allclose(axis_angle_of_quat(exact, xp=np), angle * axis, rtol=1e-9, atol=0.0)
    quat = quat_of_axis_angle(angle * axis, xp=np)
    np.testing.assert_allclose(quat, IDENTITY if angle <= 1e-6 else exact, rtol=1e-12, atol=1e-18)


def test_no_rotation_comes_of_nothing() -> None:
    assert (axis_angle_of_quat(np.zeros((1, 4)), xp=np) == 0).all()


DEGENERATE = {  # what single precision makes of it, and double; None where the fallback is taken
    "nothing": ([0.0, 0.0, 0.0, 0.0], None, None),
    "subnormal in single precision": ([0.0, 0.0, 0.0, 1e-38], None, [0.0, 0.0, 0.0, 1.0]),
    "the smallest normal one": ([0.0, 0.0, 0.0, 1.2e-38], [0.0, 0.0, 0.0, 1.0], [0.0, 0.0, 0.0, 1.0]),
    "tiny": ([0.0, 0.0, 0.0, 1e-20], [0.0, 0.0, 0.0, 1.0], [0.0, 0.0, 0.0, 1.0]),
    "huge": ([3e30, 0.0, 0.0, -4e30], [0.6, 0.0, 0.0, -0.8], [0.6, 0.0, 0.0, -0.8]),
    "NaN": ([0.0, np.nan, 0.0, 1.0], None, None),
    "infinite": ([np.inf, 0.0, 0.0, 1.0], None, None),
    "negative": ([0.0, 0.0, 0.0, -3.0], [0.0, 0.0, 0.0, -1.0], [0.0, 0.0, 0.0, -1.0]),
}


@pytest.mark.parametrize(("given", "single", "double"), DEGENERATE.values(), ids=list(DEGENERATE))
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_what_is_no_quaternion_is_replaced(given, single, double, dtype: str) -> None:
    fallback = [0.5, 0.5, -0.5, 0.5]
    expected = single if dtype == "float32" else double
    arrays = [torch.asarray([row], dtype=getattr(torch, dtype)) for row in (given, fallback)]
    result = np.asarray(normalised_or(*arrays, xp=torch))
    np.testing.assert_allclose(result, [fallback if expected is None else expected], rtol=1e-6)


def test_the_error_is_what_moves_one_pose_into_the_other() -> None:
    a, b = A.as_quat(), B.as_quat()
    missing = np.concatenate(pose_error(P, a, V, b, xp=np), axis=1)
    pos, quat = moved_by(P, a, missing, xp=np)
    np.testing.assert_allclose(pos, V, atol=1e-12)
    the_same(quat, B)


def test_the_error_turns_about_the_axes_of_the_base() -> None:
    turn = Rotation.from_rotvec([[0.0, 0.0, 0.3]])
    _, missing = pose_error(P, A.as_quat(), P, (turn * A).as_quat(), xp=np)
    np.testing.assert_allclose(missing, np.tile([0.0, 0.0, 0.3], (N, 1)), atol=1e-12)


def test_the_sign_of_a_quaternion_does_not_matter() -> None:
    a, b = A.as_quat(), B.as_quat()
    for flipped in (pose_error(P, -a, V, b, xp=np), pose_error(P, a, V, -b, xp=np)):
        np.testing.assert_allclose(flipped[1], pose_error(P, a, V, b, xp=np)[1], atol=1e-12)


def test_frames_in_frames() -> None:
    a, b = A.as_quat(), B.as_quat()
    pos, quat = compose(P, a, V, b, xp=np)
    np.testing.assert_allclose(pos, P + A.apply(V), atol=1e-12)
    the_same(quat, A * B)
    back_pos, back_quat = relative_to(P, a, pos, quat, xp=np)
    np.testing.assert_allclose(back_pos, V, atol=1e-12)
    the_same(back_quat, B)
