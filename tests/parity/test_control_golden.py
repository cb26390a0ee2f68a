"""Parity with the published vectors of mixer, differential drive, normalised thrust and attitudes."""

import math

import numpy as np
import pytest
from control_goldens import BACKENDS, Case, close, golden, plain
from scipy.spatial.transform import Rotation

from firmware_profiles.loader import load_profile
from twin import frames
from twin.control.arrays import Arrays
from twin.control.differential import DifferentialDriveController
from twin.control.mixer import Mixer
from twin.control.thrust_curve import NormalisedThrust, apply_thrust_curve, invert_thrust_curve

FILE, ATTITUDE = golden("lav2_mixer_and_drive"), golden("lav2_attitude")
MODES = ("pinv", "saturation")
RAD_S_PER_RPM = math.pi / 30


def each(file, *arrays: str):
    """Every case that holds these arrays, whatever it is called."""
    cases = file.having(*arrays)
    assert cases, arrays
    return pytest.mark.parametrize("case", cases.values(), ids=list(cases))


MIXERS = each(FILE, "wrench", "rotor_xy", "rpm_pinv")


@pytest.fixture(params=list(BACKENDS))
def backend(request) -> tuple:
    return BACKENDS[request.param]


def report(case: Case, name: str, backend, error: float) -> None:
    print(f"{case.name}.{name} {backend[0].__name__} {backend[1]}: {error:.2g} of the tolerance")


def check(file, case: Case, name: str, ours, backend) -> None:
    dtype = backend[1]
    assert str(ours.dtype).endswith(dtype)
    report(case, name, backend, close(ours, case[name], file.tolerance(dtype)))


def mixer_of(case: Case, mode: str, arrays: Arrays) -> Mixer:
    return Mixer(
        rotor_xy_m=case["rotor_xy"],
        spin_dir=case["spin_dir"],
        thrust_coefficient_n_s2=case.config["c_T"],
        torque_coefficient_nm_s2=case.config["c_M"],
        max_speed_rad_s=case.config["max_rpm"] * RAD_S_PER_RPM,
        allocation_mode=mode,
        arrays=arrays,
    )


@pytest.mark.parametrize("file", [FILE, ATTITUDE], ids=["mixer", "attitude"])
def test_the_files_are_what_their_sidecars_describe(file) -> None:
    assert file.described
    assert file.tolerance("float64") == {"rtol": 1e-9, "atol": 1e-12}
    assert file.tolerance("float32") == {"rtol": 1e-5, "atol": 1e-6}


@MIXERS
@pytest.mark.parametrize("mode", MODES)
def test_mixer(case: Case, mode: str, backend) -> None:
    xp, dtype = backend
    wrench, expected = case["wrench"], case[f"rpm_{mode}"]
    arrays = Arrays(len(wrench), xp, dtype)
    mixer = mixer_of(case, mode, arrays)
    rpm = mixer.allocate_rpm(arrays.array(wrench))
    tolerance = FILE.tolerance(dtype)
    if dtype == "float64":
        # A rotor that is brought to just 0: there the square root makes 1e-4 RPM of a rounding error, on either side.
        turning = np.maximum(plain(rpm), expected) > 1e-3
        report(case, mode, backend, close(np.where(turning, plain(rpm), 0), np.where(turning, expected, 0), tolerance))
    # Squared speeds are differences of terms that may be far larger than they: what single precision leaves of them.
    size = (np.abs(wrench) @ np.abs(case["A_inv"]).T / RAD_S_PER_RPM**2).max(axis=1, keepdims=True)
    error = np.abs(plain(rpm) ** 2 - expected**2) / (tolerance["rtol"] * (size + expected**2) + 1e-12)
    assert error.max() <= 1
    report(case, f"{mode} squared", backend, float(error.max()))
    realised = case[f"wrench_{mode}"]
    ours = mixer.wrench_of(rpm * RAD_S_PER_RPM)
    scale = np.abs(realised).max(axis=0) + np.abs(wrench).max(axis=0)
    assert (np.abs(plain(ours) - realised) <= 30 * tolerance["rtol"] * scale).all()


@MIXERS
@pytest.mark.parametrize("mode", MODES)
def test_mixer_row_by_row(case: Case, mode: str) -> None:
    """Each row alone, so that no row's neighbours decide how it is treated."""
    mixer = mixer_of(case, mode, Arrays(1))
    ours = np.concatenate([mixer.allocate_rpm(case["wrench"][row : row + 1]) for row in range(len(case["wrench"]))])
    expected = case[f"rpm_{mode}"]
    turning = np.maximum(ours, expected) > 1e-3
    close(np.where(turning, ours, 0), np.where(turning, expected, 0), FILE.tolerance("float64"))


@MIXERS
def test_modes_agree_where_the_sidecar_says_so(case: Case) -> None:
    rows = case.sidecar["rows_where_modes_must_agree"]
    wrench = case["wrench"]
    pinv, saturation = (mixer_of(case, mode, Arrays(len(wrench))).allocate(wrench) for mode in MODES)
    np.testing.assert_allclose(saturation[rows], pinv[rows], **FILE.tolerance("float64"))
    differ = np.abs(case["rpm_saturation"] - case["rpm_pinv"]).max(axis=1) > 1.0
    assert rows
    assert differ.any(), "the others must differ"
    assert (np.abs(saturation - pinv).max(axis=1)[differ] > 1.0 * RAD_S_PER_RPM * 0.99).all()


@each(FILE, "v", "yaw_rate", "B", "limit", "radius", "omega")
def test_differential_drive(case: Case, backend) -> None:
    xp, dtype = backend
    columns = {name: case[name][:, None] for name in ("v", "yaw_rate", "B", "limit", "radius")}
    arrays = Arrays(len(columns["v"]), xp, dtype)
    controller = DifferentialDriveController(
        dt_s=0.02,
        width_m=columns["B"],
        wheel_radius_m=columns["radius"],
        max_speed_m_s=1e6,
        max_yaw_rate_rad_s=1e6,
        side_limit_m_s=columns["limit"],
        control_mask="cmd_ctbr",
        arrays=arrays,
    )
    nothing = np.zeros_like(columns["v"])
    target = {
        "vel_b": arrays.array(np.hstack((columns["v"], nothing, nothing))),
        "ang_vel": arrays.array(np.hstack((nothing, nothing, columns["yaw_rate"]))),
    }
    omega = controller.update(target, {})
    assert str(omega.dtype).endswith(dtype)
    sides = np.stack((case["v_left"], case["v_right"]), axis=1)
    if dtype == "float64":
        check(FILE, case, "omega", omega, backend)
        close(plain(omega) * columns["radius"], sides, FILE.tolerance(dtype))
    else:  # v - B w / 2 may cancel
        size = np.abs(columns["v"]) + np.abs(columns["B"] * columns["yaw_rate"]) + columns["limit"]
        assert (np.abs(plain(omega) * columns["radius"] - sides) <= 1e-6 * size).all()


@each(FILE, "f", "thrust_norm", "throttle", "mass", "T_max")
def test_normalised_thrust(case: Case, backend) -> None:
    xp, dtype = backend
    arrays = Arrays(len(case["f"]), xp, dtype)
    thrust, factor = (arrays.array(case[name][:, None]) for name in ("thrust_norm", "f"))
    throttle = invert_thrust_curve(thrust, factor, xp=arrays.xp)
    check(FILE, case, "throttle", throttle[:, 0], backend)
    check(FILE, case, "thrust_norm", apply_thrust_curve(throttle, factor, xp=arrays.xp)[:, 0], backend)
    curve = NormalisedThrust(case["T_max"][:, None], case["f"][:, None], arrays)
    weight = arrays.array(case["mass"][:, None] * case.config["g"])
    check(FILE, case, "hover_throttle", curve.signal(weight)[:, 0], backend)
    check(FILE, case, "thrust_newton", curve.newtons(throttle)[:, 0], backend)
    no_curve = NormalisedThrust(case["T_max"][:, None], arrays=arrays)
    check(FILE, case, "thrust_newton", no_curve.newtons(thrust)[:, 0], backend)


@each(FILE, "mass", "c_T", "hover_rpm")
def test_hover_speed_is_what_the_mixer_gives_for_the_weight(case: Case) -> None:
    arrays = Arrays(len(case["mass"]))
    mixer = Mixer.of(
        load_profile("px4_iris").vehicle,
        thrust_coefficient_n_s2=case["c_T"][:, None],
        max_speed_rad_s=1e5,
        arrays=arrays,
    )
    wrench = np.pad(case["mass"][:, None] * case.config["g"], ((0, 0), (0, 3)))
    speeds = mixer.allocate_rpm(wrench)
    close(speeds, np.broadcast_to(case["hover_rpm"][:, None], speeds.shape), FILE.tolerance("float64"))


def quat_close(ours, expected: np.ndarray, tolerance: dict[str, float]) -> float:
    """Up to sign."""
    sign = np.sign(np.sum(plain(ours) * expected, axis=1, keepdims=True))
    return close(plain(ours) * sign, expected, tolerance)


@each(ATTITUDE, "att_euler", "att_quat", "att_rotmat")
def test_attitudes(case: Case, backend) -> None:
    xp, dtype = backend
    arrays, tolerance = Arrays(len(case["att_euler"]), xp, dtype), ATTITUDE.tolerance(dtype)
    xp = arrays.xp
    quat = frames.quat_of_euler_xyz(arrays.array(case["att_euler"]), xp=xp)
    assert str(quat.dtype).endswith(dtype)
    report(case, "att_quat", backend, quat_close(quat, case["att_quat"], tolerance))
    quat_close(frames.wxyz_of_xyzw(quat, xp=xp), case["quat_wxyz"], tolerance)
    quat_close(frames.xyzw_of_wxyz(arrays.array(case["quat_wxyz"]), xp=xp), case["att_quat"], tolerance)
    rotation = frames.rotation_of_xyzw(quat, xp=xp)
    report(case, "att_rotmat", backend, close(xp.reshape(rotation, (-1, 9)), case["att_rotmat"], tolerance))
    quat_close(frames.xyzw_of_rotation(rotation, xp=xp), case["att_quat"], tolerance)
    vec_w = xp.matmul(rotation, arrays.array(case["vec_b"])[:, :, None])[:, :, 0]
    report(case, "vec_w", backend, close(vec_w, case["vec_w"], tolerance))
    misread = frames.rotation_of_xyzw(frames.quat_of_euler_zyx(arrays.array(case["att_euler"]), xp=xp), xp=xp)
    close(xp.reshape(misread, (-1, 9)), case["rotmat_from_zyx_misuse"], tolerance)
    given = arrays.array(case["att_rotmat"].reshape(-1, 3, 3))
    for angles, back in (
        (frames.euler_xyz_of_rotation(given, xp=xp), frames.quat_of_euler_xyz),
        (frames.euler_zyx_of_rotation(given, xp=xp), frames.quat_of_euler_zyx),
    ):
        again = frames.rotation_of_xyzw(back(angles, xp=xp), xp=xp)
        close(
            xp.reshape(again, (-1, 9)), case["att_rotmat"], {"rtol": 0, "atol": 3e-15 if dtype == "float64" else 2e-6}
        )


@each(ATTITUDE, "att_euler", "euler_zyx")
def test_angles(case: Case) -> None:
    """Angles themselves, where they are three: not near a pitch of 90 degrees of either convention."""
    rotation = case["att_rotmat"].reshape(-1, 3, 3)
    for ours, expected in (
        (frames.euler_xyz_of_rotation(rotation, xp=np), case["att_euler"]),
        (frames.euler_zyx_of_rotation(rotation, xp=np), case["euler_zyx"]),
    ):
        good = np.abs(np.cos(expected[:, 1])) > 1e-3
        turn = np.remainder(ours - expected + np.pi, 2 * np.pi) - np.pi
        # The same attitude has two sets of angles; ours has its pitch within 90 degrees.
        within = good & (np.abs(np.remainder(expected[:, 1] + np.pi, 2 * np.pi) - np.pi) <= np.pi / 2)
        np.testing.assert_allclose(turn[within], 0, atol=1e-9)


@each(ATTITUDE, "quat_wxyz", "quat_ned_frd")
def test_attitude_in_px4s_frames(case: Case) -> None:
    ours = frames.q_ned_frd_of_enu_flu(case["quat_wxyz"])
    quat_close(ours, case["quat_ned_frd"], ATTITUDE.tolerance("float64"))
    zyx = frames.euler_zyx_of_quat(case["quat_wxyz"])
    again = Rotation.from_euler("ZYX", zyx[:, ::-1]).as_matrix().reshape(-1, 9)
    np.testing.assert_allclose(again, case["att_rotmat"], atol=3e-8)  # the arc sine near 90 degrees
