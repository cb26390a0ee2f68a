"""Parity with the published rotor vectors (lav2_rotor): every case, on every array library."""

import math
import os

import msgspec
import numpy as np
import pytest
from dynamics_goldens import LIBRARIES, arrays_of, check, each, golden, host, libraries

from firmware_profiles.loader import load_profile
from twin.dynamics.rotor import RotorDynamics
from twin.world_params import WorldParams

FILE = golden("lav2_rotor")
RAD_S_PER_RPM = math.pi / 30
RESPONSES = {"zoh": "exact", "euler": "euler"}
CASES = each(FILE, "rpm_cmd", "rpm0", "rpm", "output")


def dynamics(config: dict, worlds: int, library: str) -> RotorDynamics:
    """Through the profile's own types; rates in the golden are in RPM/s."""
    assert config["rate_unit"] == "RPM/s"
    iris = load_profile("px4_iris").vehicle
    propeller = msgspec.structs.replace(
        iris.propeller,
        thrust_coefficient_n_s2=config["c_T"],
        torque_coefficient_nm_s2=config["c_M"],
        motor_inertia_kg_m2=config["J_m"],
        max_speed_rad_s=config["max_rpm"] * RAD_S_PER_RPM,
        rise_time_constant_s=config["tau_up"],
        fall_time_constant_s=config["tau_down"],
        max_rise_rad_s2=config["rate_up"] * RAD_S_PER_RPM,
        max_fall_rad_s2=config["rate_down"] * RAD_S_PER_RPM,
    )
    params = WorldParams.of(msgspec.structs.replace(iris, propeller=propeller), worlds)
    return RotorDynamics(
        params,
        config["spin_dir"],
        config["dt"],
        response=RESPONSES[config["filter"]],
        arrays=arrays_of(library, worlds),
    )


def test_golden_is_the_file_that_its_sidecar_describes() -> None:
    assert FILE.described


@libraries()
@CASES
def test_rotors(case, library: str) -> None:
    """RPM commands to thrusts, then torques: the seed's interface."""
    commands, expected = case["rpm_cmd"], case["output"]
    steps, worlds, rotors = commands.shape
    model = dynamics(case.config, worlds, library)
    array = arrays_of(library, worlds).array
    model.reset(speed_rpm=case["rpm0"])
    speed, output = np.full((steps, worlds, rotors), np.inf), np.full((steps, worlds, 2 * rotors), np.inf)
    for step in range(steps):
        output[step] = host(model.update(array(commands[step])))
        speed[step] = host(model.speed_rpm)
    compare(case, library, speed, output, expected)


@CASES
def test_the_live_loop(case) -> None:
    """rad/s, into memory that is given: what `Twin` calls."""
    commands = case["rpm_cmd"]
    steps, worlds, rotors = commands.shape
    model = dynamics(case.config, worlds, "numpy")
    model.speed_rad_s = case["rpm0"] * RAD_S_PER_RPM
    speed, output = np.full((steps, worlds, rotors), np.inf), np.full((steps, worlds, 2 * rotors), np.inf)
    for step in range(steps):
        model.step(model.limit(commands[step] * RAD_S_PER_RPM), output[step])
        speed[step] = model.speed_rad_s / RAD_S_PER_RPM
    compare(case, "numpy", speed, output, case["output"])


def compare(case, library: str, speed: np.ndarray, output: np.ndarray, expected: np.ndarray) -> None:
    """The sidecar's tolerances: 1e-10, or 2e-5 and, for a torque with inertia, 1e-4 of the peak in single precision."""
    rotors, config = speed.shape[2], case.config
    single = LIBRARIES[library][1] == "float32"
    rtol = FILE.tolerance("float32" if single else "float64")["rtol"]
    name = f"{case.name} {library}"
    check(f"{name} rpm", speed, case["rpm"], rtol=rtol, atol=1e-9)
    check(f"{name} thrust", output[..., :rotors], expected[..., :rotors], rtol=rtol, atol=1e-15)
    # Torque is the difference of two terms, the larger of which may be a hundred times the sum.
    torque, reference = output[..., rotors:], expected[..., rotors:]
    if single:
        check(f"{name} torque", torque, reference, rtol=0.0, atol=1e-4 * abs(reference).max())
    else:
        largest = abs(case["torque_no_inertia"]) + config["J_m"] * abs(case["accel"])
        assert (abs(torque - reference) <= rtol * largest + 1e-15).all()
    without = np.asarray(config["spin_dir"]) * config["c_M"] * (speed * RAD_S_PER_RPM) ** 2
    np.testing.assert_allclose(without, case["torque_no_inertia"], rtol=2 * rtol, atol=1e-15)


@pytest.mark.skipif("LAV2_GOLDENS" in os.environ, reason="another set need not reach its limits")
@pytest.mark.parametrize("limit", ["rate_up", "rate_down"])
def test_the_golden_reaches_the_limits_of_change(limit: str) -> None:
    """Where a case has a limit that commands can reach, its steps do."""
    sign = 1.0 if limit == "rate_up" else -1.0
    reached = [
        np.isclose((sign * case["accel"]).max() / RAD_S_PER_RPM, case.config[limit])
        for case in FILE.cases.values()
        if case.config[limit] < 1e6
    ]
    assert reached
    assert any(reached)
