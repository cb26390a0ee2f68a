"""Parity with the published vectors of PX4's sequential desaturation."""

import numpy as np
import pytest
from control_goldens import BACKENDS, Case, close, golden, plain

from twin.control.arrays import Arrays
from twin.control.mixer import Mixer
from twin.control.sequential import SequentialAllocation, effectiveness_frd, normalised_mix

FILE = golden("px4_sequential_desaturation")


@pytest.fixture(params=list(BACKENDS))
def backend(request) -> tuple:
    return BACKENDS[request.param]


def test_the_file_is_what_its_sidecar_describes() -> None:
    assert FILE.described
    assert FILE.having("control", "mix", "actuator")


def allocated(case: Case, mix: np.ndarray, xp, dtype: str) -> np.ndarray:
    """All rows of a case, each in its own airmode."""
    rows = len(case["control"])
    airmode = np.broadcast_to(case.config["airmode"], rows)
    result = np.full((rows, len(mix)), np.inf)
    for mode in np.unique(airmode).tolist():
        chosen = airmode == mode
        arrays = Arrays(int(chosen.sum()), xp, dtype)
        ours = SequentialAllocation(mix, mode, arrays).allocate(arrays.array(case["control"][chosen]))
        assert str(ours.dtype).endswith(dtype)
        result[chosen] = plain(ours)
    return result


@pytest.mark.parametrize("case", FILE.cases.values(), ids=FILE.cases)
def test_actuators(case: Case, backend) -> None:
    xp, dtype = backend
    mix, _ = normalised_mix(case["effectiveness"], case.config["normalize_rpy"])
    ours, tolerance = allocated(case, mix, xp, dtype), FILE.tolerance(dtype)
    error = close(ours, case["actuator"], tolerance)
    close(np.clip(ours, 0.0, 1.0), case["actuator_clipped"], tolerance)
    if "expected_report" in case:
        np.testing.assert_allclose(
            np.clip(ours, 0, 1), case["expected_report"], atol=1e-6 if dtype == "float64" else 3e-6
        )
    print(f"{case.name} {xp.__name__} {dtype}: {len(ours)} rows, {error:.2g} of the tolerance")


@pytest.mark.parametrize("case", FILE.cases.values(), ids=FILE.cases)
def test_mix_and_scale(case: Case) -> None:
    if "rotor_positions" in case.config:
        ours = effectiveness_frd(case.config["rotor_positions"], case.config["km"])
        close(ours, case["effectiveness"], FILE.tolerance("float64"))
    mix, scale = normalised_mix(case["effectiveness"], case.config["normalize_rpy"])
    close(mix, case["mix"], FILE.tolerance("float64"))
    close(scale, case["scale"], FILE.tolerance("float64"))


@pytest.mark.parametrize(
    "case", [case for case in FILE.cases.values() if case.config["normalize_rpy"]], ids=lambda case: case.name
)
def test_the_mixer_does_the_same_in_newtons(case: Case) -> None:
    """A wrench in SI units, FLU, through `Mixer`: the rotors' squared speeds are PX4's actuators."""
    c_t, most = 8.1e-6, 1000.0
    position, km = np.asarray(case.config["rotor_positions"]), np.asarray(case.config["km"])
    if len(np.unique(np.abs(km))) != 1 or np.ndim(case.config["airmode"]):
        pytest.skip("the mixer has one airmode, and its rotors share one ratio of torque to thrust")
    arrays = Arrays(len(case["control"]))
    mixer = Mixer(
        rotor_xy_m=position[:, :2] * (1.0, -1.0),
        spin_dir=-np.sign(km),
        thrust_coefficient_n_s2=c_t,
        torque_coefficient_nm_s2=c_t * abs(km[0]),
        max_speed_rad_s=most,
        allocation_mode="px4",
        airmode=case.config["airmode"],
        arrays=arrays,
    )
    full = c_t * most**2
    control = case["control"] / case["scale"][[0, 1, 2, 5]] * full
    wrench = np.stack((-control[:, 3], control[:, 0], -control[:, 1], -control[:, 2]), axis=1)
    np.testing.assert_allclose((mixer.allocate(wrench) / most) ** 2, case["actuator_clipped"], atol=1e-9)
