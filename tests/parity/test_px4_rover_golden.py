"""Parity with the published vectors of PX4's thrust curve and differential rover."""

import numpy as np
import pytest
from control_goldens import BACKENDS, Case, close, golden, plain

from twin.control.arrays import Arrays
from twin.control.differential import DifferentialDriveController
from twin.control.px4_rover import (
    RoverRateLoop,
    RoverRateParams,
    deadzone,
    mix_throttle,
    slew,
    superexpo,
    wheel_kinematics,
    yaw_rate_feed_forward,
)
from twin.control.thrust_curve import apply_thrust_curve, invert_thrust_curve

FILE = golden("px4_rover_and_thrust_curve")


def each(*arrays: str):
    """Every case that holds these arrays, whatever it is called."""
    cases = FILE.having(*arrays)
    assert cases, arrays
    return pytest.mark.parametrize("case", cases.values(), ids=list(cases))


@pytest.fixture(params=list(BACKENDS))
def backend(request) -> tuple:
    return BACKENDS[request.param]


def columns(case: Case, backend, *names: str) -> tuple:
    xp, dtype = backend
    arrays = Arrays(len(case[names[0]]), xp, dtype)
    return arrays.xp, *(arrays.array(case[name]) for name in names)


def check(case: Case, backend, **pairs) -> None:
    dtype = backend[1]
    for name, ours in pairs.items():
        assert str(ours.dtype).endswith(dtype)
        error = close(ours, case[name], FILE.tolerance(dtype))
        print(f"{case.name}.{name} {backend[0].__name__} {dtype}: {len(ours)} rows, {error:.2g} of the tolerance")


def test_the_file_is_what_its_sidecar_describes() -> None:
    assert FILE.described


@each("f", "thrust", "signal")
def test_thrust_curve(case: Case, backend) -> None:
    xp, thrust, factor = columns(case, backend, "thrust", "f")
    signal = invert_thrust_curve(thrust, factor, xp=xp)
    check(case, backend, signal=signal, roundtrip=apply_thrust_curve(signal, factor, xp=xp))
    output = case["output_nonreversible"]
    np.testing.assert_array_equal(np.isnan(output), case["thrust"] < -1.2e-7)
    forward = ~np.isnan(output)
    close(2 * plain(signal)[forward] - 1, output[forward], {"rtol": 0, "atol": 3 * FILE.tolerance(backend[1])["rtol"]})


@each("throttle", "diff", "right", "left")
def test_mix_of_throttle_and_difference(case: Case, backend) -> None:
    xp, throttle, diff = columns(case, backend, "throttle", "diff")
    right, left = mix_throttle(throttle, diff, xp=xp)
    check(case, backend, right=right, left=left)
    one = xp.ones_like(right)
    cut = [xp.minimum(xp.maximum(side, -one), one) for side in (right, left)]
    check(case, backend, right_clipped=cut[0], left_clipped=cut[1])


@each("throttle", "diff", "right", "left")
def test_the_twins_drive_saturates_as_px4_does(case: Case) -> None:
    """Where the difference fits by itself; PX4's own rule goes astray elsewhere, see `mix_throttle`."""
    throttle, diff = case["throttle"][:, None], case["diff"][:, None]
    controller = DifferentialDriveController(
        dt_s=0.02, width_m=2.0, wheel_radius_m=1.0, max_speed_m_s=1.0, max_yaw_rate_rad_s=1e6, arrays=Arrays(len(diff))
    )
    left, right = controller.allocate(throttle, -diff).T  # FLU: counter-clockwise
    fits = (np.abs(diff[:, 0]) <= 1) & (np.abs(throttle[:, 0]) <= 1)
    assert fits.any()
    close(left[fits], case["left_clipped"][fits], FILE.tolerance("float64"))
    close(right[fits], case["right_clipped"][fits], FILE.tolerance("float64"))


@each("yaw_rate", "track", "corr", "max_thr_speed", "ff")
def test_feed_forward(case: Case, backend) -> None:
    xp, rate, track, correction, full = columns(case, backend, "yaw_rate", "track", "corr", "max_thr_speed")
    check(
        case,
        backend,
        ff=yaw_rate_feed_forward(rate, track=track, correction=correction, full_speed=full, xp=xp),
    )


@each("v", "yaw_rate", "base", "vmax", "wmax", "wheel_a")
def test_former_kinematics(case: Case, backend) -> None:
    xp, v, rate, base, most, turn = columns(case, backend, "v", "yaw_rate", "base", "vmax", "wmax")
    a, b = wheel_kinematics(v, rate, track=base, max_speed=most, max_yaw_rate=turn, xp=xp)
    check(case, backend, wheel_a=a, wheel_b=b)
    if "expected_gtest" in case:
        np.testing.assert_allclose(np.stack((plain(a), plain(b)), axis=1), case["expected_gtest"], atol=1e-6)


@each("setpoint", "measured", "adjusted", "output")
def test_rate_loop(case: Case, backend) -> None:
    xp, dtype = backend
    c, arrays = case.config, Arrays(1, xp, dtype)
    params = RoverRateParams(
        track_m=c["track"],
        full_speed_m_s=c["max_thr_speed"],
        correction=c["corr"],
        p=c["P"],
        i=c["I"],
        accel_rad_s2=c["max_yaw_accel"],
        decel_rad_s2=c["max_yaw_decel"],
        threshold_rad_s=c["rate_threshold"],
        integral_limit=c["integral_limit"],
        output_limit=c["output_limit"],
    )
    loop = RoverRateLoop(params, c["dt"], arrays)
    adjusted, output = [], []
    for wanted, measured in zip(case["setpoint"], case["measured"], strict=True):
        output.append(loop.update(arrays.array([[wanted]]), arrays.array([[measured]]))[0, 0])
        adjusted.append(loop.adjusted[0, 0])
    check(case, backend, adjusted=arrays.xp.stack(adjusted), output=arrays.xp.stack(output))


@pytest.mark.parametrize(
    "case",
    [case for case in FILE.having("setpoint", "measured", "output").values() if "adjusted" not in case],
    ids=lambda case: case.name,
)
def test_throttle_slew(case: Case, backend) -> None:
    xp, dtype = backend
    c, arrays = case.config, Arrays(1, xp, dtype)
    rise, fall = (c[name] / c["max_thr_speed"] * c["dt"] for name in ("accel", "decel"))
    output = arrays.array([[case["measured"][0]]])
    outputs = []
    for wanted, measured in zip(case["setpoint"], case["measured"], strict=True):
        output = slew(output, arrays.array([[wanted]]), arrays.array([[measured]]), rise, fall, xp=arrays.xp)
        outputs.append(output[0, 0])
    check(case, backend, output=arrays.xp.stack(outputs))


@each("x", "e", "g", "y")
def test_superexpo(case: Case, backend) -> None:
    _, x, expo, more = columns(case, backend, "x", "e", "g")
    check(case, backend, y=superexpo(x, expo, more))


@each("x", "dz", "y")
def test_deadzone(case: Case, backend) -> None:
    xp, x, width = columns(case, backend, "x", "dz")
    check(case, backend, y=deadzone(x, width, xp=xp))
