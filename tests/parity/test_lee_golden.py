"""Parity with Isaac Lab's Lee controllers, from vectors that upstream's own code made."""

import numpy as np
import pytest
from control_goldens import BACKENDS, Case, close, golden

from twin.control.arrays import Arrays
from twin.control.lee import LEE_MODES, LeeController, LeeGains, aggregate_inertia

FILE = golden("isaac_lee_controllers")
CASES = pytest.mark.parametrize("case", FILE.cases.values(), ids=list(FILE.cases))
DOUBLE = {"rtol": 1e-9, "atol": 1e-10}  # the sidecar's words, which are not all numbers


@pytest.fixture(params=list(BACKENDS))
def backend(request) -> tuple:
    return BACKENDS[request.param]


def tolerance(case: Case, dtype: str) -> dict[str, float]:
    if dtype == "float64" and case.sidecar["f64_dtype"] == "float64":
        return DOUBLE
    return {"rtol": 1e-5, "atol": max(10 * case.sidecar["f32_vs_f64"]["max_abs"], 1e-6)}


def inertia_of(case: Case) -> tuple[np.ndarray, np.ndarray]:
    names = ("body_mass", "body_inertia", "body_link_pos_w", "body_link_quat_w", "body_com_pos_b", "body_com_quat_b")
    return aggregate_inertia(*(case[name] for name in names), case["root_quat_init_w"])


def test_the_file_is_what_its_sidecar_describes() -> None:
    assert FILE.described
    assert "rtol 1e-9, atol 1e-10" in FILE.sidecar["recommended_tolerance"]["float64_implementation"]
    assert {case.split("_")[0] for case in FILE.cases} <= set(LEE_MODES)


@CASES
def test_mass_and_inertia(case: Case) -> None:
    mass, inertia = inertia_of(case)
    close(mass, case["mass"], DOUBLE)
    close(inertia, case["inertia"], DOUBLE)


@CASES
def test_wrench(case: Case, backend) -> None:
    xp, dtype = backend
    arrays = Arrays(len(case["command"]), xp, dtype)
    c = case.config
    mass, inertia = inertia_of(case)
    controller = LeeController(
        case.name.split("_")[0],
        mass_kg=mass[:, None],
        inertia_kg_m2=inertia,
        gravity_m_s2=-c["gravity"][2],
        gains=LeeGains(c["K_pos_range"], c["K_vel_range"], c["K_rot_range"], c["K_angvel_range"], c["max_yaw_rate"]),
        arrays=arrays,
    )
    names = {"pos": "root_pos_w", "vel": "root_lin_vel_w", "att_quat": "root_quat_w", "ang_vel": "root_ang_vel_b"}
    state = {name: arrays.array(case[array]) for name, array in names.items()}
    wrench = controller.update(arrays.array(case["command"]), state)
    assert str(wrench.dtype).endswith(dtype)
    error = close(wrench, case["wrench_f64"], tolerance(case, dtype))
    print(f"{case.name} {xp.__name__} {dtype}: {len(wrench)} worlds, {error:.2g} of the tolerance")
