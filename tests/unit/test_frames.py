"""Frames and attitudes: against scipy, the published vectors, and plain examples."""

import math
from pathlib import Path

import array_api_compat.torch as torch_api
import array_api_strict
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial.transform import Rotation

from twin.frames import (
    FRD_OF_FLU,
    Q_NED_ENU,
    euler_xyz_of_rotation,
    euler_zyx_of_q_ned_frd,
    euler_zyx_of_quat,
    euler_zyx_of_rotation,
    ned_of_enu,
    q_enu_flu_of_heading,
    q_enu_flu_of_ned_frd,
    q_ned_frd_of_enu_flu,
    quat_multiply,
    quat_of_euler_xyz,
    quat_of_euler_zyx,
    rotation_of_quat,
    rotation_of_xyzw,
    vec3,
    wxyz_of_xyzw,
    xyzw_of_rotation,
    xyzw_of_wxyz,
)

GOLDENS = Path(__file__).parents[1] / "data" / "goldens"
NED_OF_ENU = np.array([[0.0, 1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, -1.0]])
FLU_OF_FRD = np.diag([1.0, -1.0, -1.0])


def scipy_of(q: np.ndarray) -> Rotation:
    return Rotation.from_quat(q, scalar_first=True)


def same_up_to_sign(a: np.ndarray, b: np.ndarray, atol: float = 1e-14) -> None:
    sign = np.sign(np.sum(a * b, axis=-1, keepdims=True))
    np.testing.assert_allclose(a * sign, b, atol=atol)


@pytest.fixture(scope="module")
def attitudes() -> np.ndarray:
    """Random attitudes, all 24 right-angled ones, and some close to them."""
    right = Rotation.create_group("O")
    near = right * Rotation.from_rotvec([1e-9, -2e-9, 1e-10])
    together = Rotation.concatenate([Rotation.random(300, rng=np.random.default_rng(4)), right, near])
    q = together.as_quat(scalar_first=True)
    return np.concatenate((q, -q))


def test_rotation_of_quat(attitudes) -> None:
    ours = rotation_of_quat(attitudes)
    np.testing.assert_allclose(ours, scipy_of(attitudes).as_matrix(), atol=1e-14)
    np.testing.assert_allclose(ours @ ours.transpose(0, 2, 1), np.tile(np.eye(3), (len(ours), 1, 1)), atol=1e-14)
    np.testing.assert_allclose(np.linalg.det(ours), 1.0, atol=1e-14)
    np.testing.assert_array_equal(rotation_of_quat(np.array([[1.0, 0.0, 0.0, 0.0]])), np.eye(3)[None])


def test_quat_multiply(attitudes) -> None:
    rng = np.random.default_rng(5)
    a, b = attitudes, attitudes[rng.permutation(len(attitudes))]
    same_up_to_sign(quat_multiply(a, b), (scipy_of(a) * scipy_of(b)).as_quat(scalar_first=True))
    np.testing.assert_allclose(
        rotation_of_quat(quat_multiply(a, b)), rotation_of_quat(a) @ rotation_of_quat(b), atol=1e-14
    )
    i, j, k = np.eye(4)[1:]
    for left, right, product in ((i, j, k), (j, k, i), (k, i, j), (j, i, -k), (i, i, -np.eye(4)[0])):
        np.testing.assert_array_equal(quat_multiply(left, right), product)


def test_quat_multiply_takes_any_leading_axes(attitudes) -> None:
    a, b = attitudes[:12].reshape(3, 4, 4), attitudes[12]
    product = quat_multiply(a, b)
    assert product.shape == (3, 4, 4)
    np.testing.assert_array_equal(product[2, 1], quat_multiply(a[2, 1], b))


def test_world_and_body_axes() -> None:
    east, north, up = np.eye(3)
    np.testing.assert_array_equal(ned_of_enu(east), [0, 1, 0])
    np.testing.assert_array_equal(ned_of_enu(north), [1, 0, 0])
    np.testing.assert_array_equal(ned_of_enu(up), [0, 0, -1])
    np.testing.assert_array_equal(FRD_OF_FLU, [1, -1, -1])
    v = np.random.default_rng(6).normal(size=(2, 5, 3))
    np.testing.assert_array_equal(ned_of_enu(v), v @ NED_OF_ENU.T)
    np.testing.assert_array_equal(ned_of_enu(ned_of_enu(v)), v)
    np.testing.assert_allclose(rotation_of_quat(Q_NED_ENU[None])[0], NED_OF_ENU, atol=1e-15)


def test_attitude_to_px4s_frames(attitudes) -> None:
    q = q_ned_frd_of_enu_flu(attitudes)
    assert (q[:, 0] >= 0).all()
    expected = NED_OF_ENU @ scipy_of(attitudes).as_matrix() @ FLU_OF_FRD
    np.testing.assert_allclose(rotation_of_quat(q), expected, atol=1e-14)
    np.testing.assert_array_equal(q_ned_frd_of_enu_flu(attitudes[3]), q[3])
    # Its own inverse, as both changes of axes are.
    same_up_to_sign(q_ned_frd_of_enu_flu(q), attitudes)


def test_attitude_back_from_px4s_frames(attitudes) -> None:
    there = q_ned_frd_of_enu_flu(attitudes)
    back = np.array([q_enu_flu_of_ned_frd(tuple(q)) for q in there.tolist()])
    same_up_to_sign(back, attitudes)


def test_a_vector_arrives_the_same_by_both_ways(attitudes) -> None:
    v_flu = np.random.default_rng(7).normal(size=(len(attitudes), 3))
    enu = np.einsum("nij,nj->ni", rotation_of_quat(attitudes), v_flu)
    ned = np.einsum("nij,nj->ni", rotation_of_quat(q_ned_frd_of_enu_flu(attitudes)), v_flu * FRD_OF_FLU)
    np.testing.assert_allclose(ned, ned_of_enu(enu), atol=1e-13)


@pytest.mark.parametrize(
    ("heading_deg", "nose_enu", "enu_yaw_deg"),
    [
        (0.0, (0, 1, 0), 90.0),  # yaw 0 in NED is north, which is an ENU yaw of 90 degrees
        (90.0, (1, 0, 0), 0.0),
        (180.0, (0, -1, 0), -90.0),
        (270.0, (-1, 0, 0), -180.0),
        (-90.0, (-1, 0, 0), 180.0),
        (45.0, (math.sqrt(0.5), math.sqrt(0.5), 0), 45.0),
    ],
)
def test_heading_is_where_the_nose_points(heading_deg: float, nose_enu, enu_yaw_deg: float) -> None:
    q = q_enu_flu_of_heading(heading_deg)
    rotation = rotation_of_quat(q[None])[0]
    np.testing.assert_allclose(rotation @ [1, 0, 0], nose_enu, atol=1e-15)
    np.testing.assert_allclose(rotation @ [0, 0, 1], [0, 0, 1], atol=1e-15)
    same_up_to_sign(q, Rotation.from_euler("Z", enu_yaw_deg, degrees=True).as_quat(scalar_first=True))


@given(st.floats(-360.0, 360.0))
@settings(deadline=None)
def test_heading_round_trip(heading_deg: float) -> None:
    q = q_ned_frd_of_enu_flu(q_enu_flu_of_heading(heading_deg))
    roll, pitch, yaw = euler_zyx_of_quat(q)
    assert (roll, pitch) == pytest.approx((0.0, 0.0), abs=1e-12)
    assert math.remainder(yaw - math.radians(heading_deg), math.tau) == pytest.approx(0.0, abs=1e-12)


def test_level_hover_heading_north_is_px4s_identity() -> None:
    np.testing.assert_allclose(q_ned_frd_of_enu_flu(q_enu_flu_of_heading(0.0)), [1, 0, 0, 0], atol=1e-15)


def test_roll_right_and_nose_up_are_positive_in_px4s_angles() -> None:
    north = scipy_of(q_enu_flu_of_heading(0.0))
    right_down = Rotation.from_rotvec([0.1, 0, 0])  # about forward, FLU: left side up
    nose_up = Rotation.from_rotvec([0, -0.2, 0])  # about left, FLU: positive puts the nose down
    for turn, expected in ((right_down, (0.1, 0, 0)), (nose_up, (0, 0.2, 0))):
        q = q_ned_frd_of_enu_flu((north * turn).as_quat(scalar_first=True))
        np.testing.assert_allclose(euler_zyx_of_quat(q), expected, atol=1e-15)


def test_euler_zyx(attitudes) -> None:
    angles = euler_zyx_of_quat(attitudes)
    # At +-90 degrees of pitch roll and yaw are not unique, and arcsin is as exact as the root of the precision.
    clear = np.abs(np.abs(angles[:, 1]) - math.pi / 2) > 1e-3
    assert clear.sum() > 500
    yaw_pitch_roll = scipy_of(attitudes[clear]).as_euler("ZYX")
    np.testing.assert_allclose(np.exp(1j * angles[clear]), np.exp(1j * yaw_pitch_roll[:, ::-1]), atol=1e-11)
    assert np.isfinite(angles).all()
    np.testing.assert_allclose(np.abs(angles[~clear, 1]), math.pi / 2, atol=1e-7)


def test_euler_zyx_stays_finite_where_rounding_leaves_the_arcsine() -> None:
    q = np.array([math.sqrt(0.5) * (1 + 4e-16), 0.0, math.sqrt(0.5) * (1 + 4e-16), 0.0])
    assert np.isfinite(euler_zyx_of_quat(q)).all()
    assert euler_zyx_of_quat(q)[1] == pytest.approx(math.pi / 2)


@pytest.mark.parametrize("case", ["random", "single_axis", "gimbal"])
def test_published_attitudes(case: str) -> None:
    with np.load(GOLDENS / "lav2_attitude.npz") as arrays:
        golden = {key.removeprefix(f"{case}__"): arrays[key] for key in arrays if key.startswith(f"{case}__")}
    q = golden["quat_wxyz"]
    rotation = rotation_of_quat(q)
    np.testing.assert_allclose(rotation.reshape(-1, 9), golden["att_rotmat"], rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(
        np.einsum("nij,nj->ni", rotation, golden["vec_b"]), golden["vec_w"], rtol=1e-9, atol=1e-12
    )
    same_up_to_sign(q_ned_frd_of_enu_flu(q), golden["quat_ned_frd"], atol=1e-12)
    ours = euler_zyx_of_quat(q)
    if case == "gimbal":  # its rows are at +-90 degrees in the other convention; compare matrices, not angles
        rebuilt = Rotation.from_euler("ZYX", ours[:, ::-1]).as_matrix()
        np.testing.assert_allclose(rebuilt.reshape(-1, 9), golden["att_rotmat"], atol=1e-7)
    else:
        np.testing.assert_allclose(np.exp(1j * ours), np.exp(1j * golden["euler_zyx"]), rtol=1e-9, atol=1e-12)


def test_vec3() -> None:
    values = vec3(np.array([1, 2, 3], dtype=np.float32))
    assert values == (1.0, 2.0, 3.0)
    assert all(type(value) is float for value in values)


@pytest.mark.parametrize("xp", [np, torch_api, array_api_strict], ids=["numpy", "torch", "strict"])
def test_the_controllers_attitudes_are_scipys(xp, attitudes) -> None:
    """(x, y, z, w), XYZ and ZYX intrinsic, and matrices, there and back, at right angles too."""
    turns = scipy_of(attitudes)
    quat, matrix = turns.as_quat(), turns.as_matrix()
    given = xp.asarray(matrix)
    rotation = rotation_of_xyzw(xp.asarray(quat), xp=xp)
    np.testing.assert_allclose(np.asarray(rotation), matrix, atol=1e-14)
    back = np.asarray(xyzw_of_rotation(given, xp=xp))
    assert (back[:, 3] >= 0).all()
    np.testing.assert_allclose(np.linalg.norm(back, axis=1), 1.0)
    same_up_to_sign(back, quat)
    for order, angles_of, quat_of in (
        ("XYZ", euler_xyz_of_rotation, quat_of_euler_xyz),
        ("ZYX", euler_zyx_of_rotation, quat_of_euler_zyx),
    ):
        angles = angles_of(given, xp=xp)
        plain = np.asarray(angles)
        assert (np.abs(plain[:, 1]) <= math.pi / 2 + 1e-12).all()
        turned = Rotation.from_euler(order, plain if order == "XYZ" else plain[:, ::-1])
        np.testing.assert_allclose(turned.as_matrix(), matrix, atol=1e-14)
        same_up_to_sign(np.asarray(quat_of(angles, xp=xp)), quat)
    first = wxyz_of_xyzw(xp.asarray(quat), xp=xp)
    np.testing.assert_array_equal(np.asarray(first), turns.as_quat(scalar_first=True))
    np.testing.assert_array_equal(np.asarray(xyzw_of_wxyz(first, xp=xp)), quat)


def test_one_attitude_in_plain_numbers_is_that_of_arrays(attitudes) -> None:
    for q in attitudes[:200]:
        w, x, y, z = q.tolist()
        np.testing.assert_allclose(euler_zyx_of_q_ned_frd((w, x, y, z)), euler_zyx_of_quat(q), atol=1e-15)
