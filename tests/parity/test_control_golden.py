"""Parity with the published vectors of mixer, differential drive, normalised thrust and PX4's thrust curve."""

import json
import math
import os
from pathlib import Path

import numpy as np
import pytest
import torch

from firmware_profiles.loader import load_profile
from twin.control.arrays import Arrays
from twin.control.differential import DifferentialDriveController
from twin.control.mixer import ALLOCATION_MODES, Mixer
from twin.control.thrust_curve import NormalisedThrust, apply_thrust_curve, invert_thrust_curve

GOLDENS = Path(os.environ.get("LAV2_GOLDENS") or Path(__file__).parents[1] / "data" / "goldens")
FILES = ("lav2_mixer_and_drive", "px4_rover_and_thrust_curve")
SIDECARS = {name: json.loads((GOLDENS / f"{name}.json").read_text(encoding="utf-8")) for name in FILES}
MIXERS = ("mixer_lav2_like", "mixer_iris")
RAD_S_PER_RPM = math.pi / 30
BACKENDS = {"numpy": (np, "float64"), "torch": (torch, "float64"), "torch32": (torch, "float32")}
RTOL = {"float64": 1e-9, "float32": 1e-5}
ATOL = {"float64": 1e-12, "float32": 1e-6}


@pytest.fixture(scope="module")
def golden() -> dict[str, np.ndarray]:
    merged = {}
    for name in FILES:
        with np.load(GOLDENS / f"{name}.npz") as arrays:
            merged |= dict(arrays)
    return merged


@pytest.fixture(params=list(BACKENDS))
def backend(request) -> tuple:
    return BACKENDS[request.param]


def plain(array) -> np.ndarray:
    return np.asarray(array, dtype=np.float64)


def close(actual, expected: np.ndarray, dtype: str) -> None:
    assert str(actual.dtype).endswith(dtype)
    np.testing.assert_allclose(plain(actual), expected, rtol=RTOL[dtype], atol=ATOL[dtype])


def column(golden, name: str, arrays: Arrays):
    return arrays.array(golden[name][:, None])


def mixer_of(case: str, golden, mode: str, arrays: Arrays) -> Mixer:
    config = SIDECARS["lav2_mixer_and_drive"]["cases"][case]["config"]
    return Mixer(
        rotor_xy_m=golden[f"{case}__rotor_xy"],
        spin_dir=golden[f"{case}__spin_dir"],
        thrust_coefficient_n_s2=config["c_T"],
        torque_coefficient_nm_s2=config["c_M"],
        max_speed_rad_s=config["max_rpm"] * RAD_S_PER_RPM,
        allocation_mode=mode,
        arrays=arrays,
    )


def test_goldens_are_the_files_that_their_sidecars_describe(golden) -> None:
    described = {key: value for name in FILES for key, value in SIDECARS[name]["arrays"].items()}
    assert {key: [list(value.shape), str(value.dtype)] for key, value in golden.items()} == described
    for name in FILES:
        tolerance = SIDECARS[name]["recommended_tolerance"]
        assert tolerance["float64_implementation"] == "rtol 1e-9, atol 1e-12"
        assert tolerance["float32_implementation"] == "rtol 1e-5, atol 1e-6"


@pytest.mark.parametrize("mode", ALLOCATION_MODES)
@pytest.mark.parametrize("case", MIXERS)
def test_mixer(case: str, mode: str, backend, golden) -> None:
    xp, dtype = backend
    wrench, expected = golden[f"{case}__wrench"], golden[f"{case}__rpm_{mode}"]
    arrays = Arrays(len(wrench), xp, dtype)
    mixer = mixer_of(case, golden, mode, arrays)
    rpm = mixer.allocate_rpm(arrays.array(wrench))
    if dtype == "float64":
        # A rotor that is brought to just 0: there the square root makes 1e-4 RPM of a rounding error, on either side.
        turning = np.maximum(plain(rpm), expected) > 1e-3
        close(np.where(turning, plain(rpm), 0.0), np.where(turning, expected, 0.0), dtype)
    # Single precision: squared speeds are differences of terms that may be far larger than they.
    inverse = golden[f"{case}__A_inv"]
    size = (np.abs(wrench) @ np.abs(inverse).T / RAD_S_PER_RPM**2).max(axis=1, keepdims=True)
    error = np.abs(plain(rpm) ** 2 - expected**2)
    assert (error <= (1e-5 if dtype == "float32" else 1e-9) * (size + expected**2)).all()
    realised = golden[f"{case}__wrench_{mode}"]
    ours = mixer.wrench_of(rpm * RAD_S_PER_RPM)
    scale = np.abs(realised).max(axis=0)
    assert (np.abs(plain(ours) - realised) <= 30 * RTOL[dtype] * (scale + np.abs(wrench).max(axis=0))).all()


@pytest.mark.parametrize("case", MIXERS)
def test_modes_agree_where_the_sidecar_says_so(case: str, golden) -> None:
    rows = SIDECARS["lav2_mixer_and_drive"]["cases"][case]["rows_where_modes_must_agree"]
    wrench = golden[f"{case}__wrench"]
    pinv, saturation = (mixer_of(case, golden, mode, Arrays(len(wrench))).allocate(wrench) for mode in ALLOCATION_MODES)
    np.testing.assert_allclose(saturation[rows], pinv[rows], rtol=1e-9, atol=1e-12)
    assert (np.abs(saturation - pinv).max(axis=1) > 1.0).sum() > 80, "the others must differ"


def drive(arrays: Arrays, **parameters) -> DifferentialDriveController:
    return DifferentialDriveController(dt_s=0.02, arrays=arrays, max_yaw_rate_rad_s=1e6, **parameters)


def test_differential_drive(backend, golden) -> None:
    xp, dtype = backend
    columns = {
        name: golden[f"differential_drive__{name}"][:, None] for name in ("v", "yaw_rate", "B", "limit", "radius")
    }
    arrays = Arrays(len(columns["v"]), xp, dtype)
    controller = drive(
        arrays,
        width_m=columns["B"],
        wheel_radius_m=columns["radius"],
        max_speed_m_s=1e6,
        side_limit_m_s=columns["limit"],
        control_mask="cmd_ctbr",
    )
    nothing = np.zeros_like(columns["v"])
    target = {
        "vel_b": arrays.array(np.hstack((columns["v"], nothing, nothing))),
        "ang_vel": arrays.array(np.hstack((nothing, nothing, columns["yaw_rate"]))),
    }
    omega = controller.update(target, {})
    sides = np.stack((golden["differential_drive__v_left"], golden["differential_drive__v_right"]), axis=1)
    if dtype == "float64":
        close(omega, golden["differential_drive__omega"], dtype)
        close(omega * arrays.array(columns["radius"]), sides, dtype)
    else:  # v - B w / 2 may cancel
        size = np.abs(columns["v"]) + np.abs(columns["B"] * columns["yaw_rate"]) + columns["limit"]
        assert (np.abs(plain(omega) * columns["radius"] - sides) <= 1e-6 * size).all()


def test_the_drive_saturates_as_px4s_rover_does(golden) -> None:
    """PX4: right and left of 1, yaw clockwise. Its rule goes astray only for a difference that does not fit itself."""
    throttle, diff = golden["rover_saturation__throttle"][:, None], golden["rover_saturation__diff"][:, None]
    controller = drive(Arrays(len(diff)), width_m=2.0, wheel_radius_m=1.0, max_speed_m_s=1.0)
    left, right = controller.allocate(throttle, -diff).T
    fits = np.abs(diff[:, 0]) <= 1
    assert fits.sum() > 100
    # FLU: PX4's (right, left) = (t - d, t + d) with d clockwise is our (right, left) with yaw -d.
    np.testing.assert_allclose(left[fits], golden["rover_saturation__left_clipped"][fits], rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(right[fits], golden["rover_saturation__right_clipped"][fits], rtol=1e-9, atol=1e-12)


def test_the_drive_agrees_with_px4s_published_unit_test(golden) -> None:
    """Four rows with limits of 1; in the others the old module scales otherwise."""
    for v, w, base, expected in ((1, 1, 1, (0, 1)), (-1, 1, 1, (-1, 0)), (0.5, 0.7, 2, (-0.4, 1)), (0, 10, 2, (-1, 1))):
        controller = drive(Arrays(), width_m=base, wheel_radius_m=1.0, max_speed_m_s=1.0)
        ours = controller.allocate(np.array([[float(v)]]), np.array([[float(w)]]))
        np.testing.assert_allclose(ours, [expected], atol=1e-12)
        published = golden["rdd_kinematics_gtest__expected_gtest"]
        assert (np.abs(published - np.array(expected)).max(axis=1) < 1e-6).any()


def test_normalised_thrust(backend, golden) -> None:
    xp, dtype = backend
    rows = {key.split("__")[1]: golden[key] for key in golden if key.startswith("normalised_thrust__")}
    arrays = Arrays(len(rows["f"]), xp, dtype)
    thrust, factor = (column(golden, f"normalised_thrust__{name}", arrays) for name in ("thrust_norm", "f"))
    throttle = invert_thrust_curve(thrust, factor, xp=arrays.xp)
    close(throttle[:, 0], rows["throttle"], dtype)
    close(apply_thrust_curve(throttle, factor, xp=arrays.xp)[:, 0], rows["thrust_norm"], dtype)
    weight = rows["mass"] * SIDECARS["lav2_mixer_and_drive"]["cases"]["normalised_thrust"]["config"]["g"]
    one = Arrays(1, xp, dtype)
    for row in range(len(weight)):
        curve = NormalisedThrust(float(rows["T_max"][row]), float(rows["f"][row]))
        close(curve.signal(one.array([[weight[row]]]), xp=one.xp)[0, 0], rows["hover_throttle"][row], dtype)
        no_curve = NormalisedThrust(float(rows["T_max"][row]))
        newtons = no_curve.newtons(one.array([[rows["thrust_norm"][row]]]), xp=one.xp)
        close(newtons[0, 0], rows["thrust_newton"][row], dtype)
        close(curve.newtons(throttle[row : row + 1], xp=one.xp)[0, 0], rows["thrust_newton"][row], dtype)


def test_hover_speed_is_what_the_mixer_gives_for_the_weight(golden) -> None:
    iris = load_profile("px4_iris").vehicle
    for mass, c_t, rpm in zip(
        *(golden[f"normalised_thrust__{name}"] for name in ("mass", "c_T", "hover_rpm")), strict=True
    ):
        mixer = Mixer.of(iris, thrust_coefficient_n_s2=c_t, max_speed_rad_s=1e5)
        speeds = mixer.allocate_rpm(np.array([[mass * 9.80665, 0.0, 0.0, 0.0]]))
        np.testing.assert_allclose(speeds, rpm, rtol=1e-9)


def test_px4_thrust_curve(backend, golden) -> None:
    xp, dtype = backend
    arrays = Arrays(len(golden["thr_mdl_fac__f"]), xp, dtype)
    factor, thrust = (column(golden, f"thr_mdl_fac__{name}", arrays) for name in ("f", "thrust"))
    signal = invert_thrust_curve(thrust, factor, xp=arrays.xp)
    close(signal[:, 0], golden["thr_mdl_fac__signal"], dtype)
    close(apply_thrust_curve(signal, factor, xp=arrays.xp)[:, 0], golden["thr_mdl_fac__roundtrip"], dtype)
    output = golden["thr_mdl_fac__output_nonreversible"]
    np.testing.assert_array_equal(np.isnan(output), golden["thr_mdl_fac__thrust"] < -1.2e-7)
    forward = ~np.isnan(output)
    np.testing.assert_allclose(2 * plain(signal)[forward, 0] - 1, output[forward], rtol=0, atol=10 * RTOL[dtype])
