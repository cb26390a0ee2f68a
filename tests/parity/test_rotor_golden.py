"""Parity with the published rotor vectors (goldens/lav2_rotor.npz): all cases of the exact filter."""

import json
import math
from pathlib import Path

import msgspec
import numpy as np
import pytest

from firmware_profiles.loader import load_profile
from twin.dynamics.rotor import RotorDynamics
from twin.world_params import WorldParams

GOLDENS = Path(__file__).parents[1] / "data" / "goldens"
SIDECAR = json.loads((GOLDENS / "lav2_rotor.json").read_text(encoding="utf-8"))
RAD_S_PER_RPM = math.pi / 30
EXACT = [name for name, case in SIDECAR["cases"].items() if case["config"]["filter"] == "zoh"]


@pytest.fixture(scope="module")
def golden() -> dict[str, np.ndarray]:
    with np.load(GOLDENS / "lav2_rotor.npz") as arrays:
        return dict(arrays)


def dynamics(config: dict, worlds: int) -> RotorDynamics:
    """Through the profile's own types; rates in the golden are in RPM/s."""
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
    vehicle = msgspec.structs.replace(iris, propeller=propeller)
    return RotorDynamics(WorldParams.of(vehicle, worlds), config["spin_dir"], config["dt"])


def test_golden_is_the_file_that_its_sidecar_describes(golden) -> None:
    assert {key: [list(value.shape), str(value.dtype)] for key, value in golden.items()} == SIDECAR["arrays"]
    assert EXACT == ["lav2_zoh", "lav2_zoh_rate", "no_inertia"]


@pytest.mark.parametrize("case", EXACT)
def test_rotors(case: str, golden) -> None:
    config = SIDECAR["cases"][case]["config"]
    assert config["rate_unit"] == "RPM/s"
    commands, expected = golden[f"{case}__rpm_cmd"], golden[f"{case}__output"]
    steps, worlds, rotors = commands.shape
    model = dynamics(config, worlds)
    model.speed_rad_s = golden[f"{case}__rpm0"] * RAD_S_PER_RPM
    speed, output = np.full((steps, worlds, rotors), np.inf), np.full((steps, worlds, 2 * rotors), np.inf)
    for step in range(steps):
        model.step(model.limit(commands[step] * RAD_S_PER_RPM), output[step])
        speed[step] = model.speed_rad_s
    np.testing.assert_allclose(speed / RAD_S_PER_RPM, golden[f"{case}__rpm"], rtol=1e-10, atol=1e-9)
    np.testing.assert_allclose(output[..., :rotors], expected[..., :rotors], rtol=1e-10, atol=1e-15)
    # Torque is the difference of two terms, the larger of which may be a hundred times the sum.
    largest = np.abs(golden[f"{case}__torque_no_inertia"]) + config["J_m"] * np.abs(golden[f"{case}__accel"])
    assert (np.abs(output[..., rotors:] - expected[..., rotors:]) <= 1e-10 * largest + 1e-15).all()
    without = np.asarray(config["spin_dir"]) * config["c_M"] * speed**2
    np.testing.assert_allclose(without, golden[f"{case}__torque_no_inertia"], rtol=1e-10, atol=1e-15)


def test_the_golden_uses_what_it_is_meant_to_test(golden) -> None:
    """Commands above the largest speed and below 0, limits that are reached in both directions."""
    commands = np.concatenate([golden[f"{case}__rpm_cmd"].ravel() for case in EXACT])
    assert commands.max() > 10_026.77
    change = golden["lav2_zoh_rate__accel"] / RAD_S_PER_RPM
    assert np.isclose(change.max(), 40_000.0)
    assert np.isclose(change.min(), -25_000.0)
