"""Parity with Isaac Lab's joint impedance controller, from vectors that upstream's own code made."""

import numpy as np
import pytest
from control_goldens import BACKENDS, Case, close, golden, plain

from twin.control.arrays import Arrays
from twin.control.task_space.joint_impedance import JointImpedanceController
from twin.control.task_space.joint_impedance_config import JointImpedanceConfig

FILE = golden("isaac_joint_impedance")
CASES = pytest.mark.parametrize("case", FILE.cases.values(), ids=list(FILE.cases))


@pytest.fixture(params=list(BACKENDS))
def backend(request) -> tuple:
    return BACKENDS[request.param]


def tolerance(case: Case, dtype: str) -> dict[str, float]:
    if dtype == "float64":
        return FILE.tolerance("float64")
    return {"rtol": 1e-5, "atol": max(10 * case.sidecar["f32_vs_f64"]["max_abs"], 1e-6)}  # the sidecar's words


def config_of(case: Case) -> JointImpedanceConfig:
    values = {name: value for name, value in case.config.items() if name != "dof"}
    return JointImpedanceConfig(**values)


def torque(case: Case, arrays: Arrays, chosen: slice):
    given = {name: arrays.array(case[name][chosen]) for name in ("dof_pos", "dof_vel", "mass_matrix", "gravity")}
    controller = JointImpedanceController(config_of(case), case["limits"][chosen], arrays=arrays)
    assert controller.num_dof == case.config["dof"]
    command = arrays.array(case["command"][chosen])
    before = {name: plain(array).copy() for name, array in (*given.items(), ("command", command))}
    controller.set_command(command)
    result = controller.compute(**given)
    for name, array in (*given.items(), ("command", command)):  # upstream clips the command where it lies
        np.testing.assert_array_equal(plain(array), before[name], err_msg=name)
    return result


def test_the_file_is_what_its_sidecar_describes() -> None:
    assert FILE.described
    assert FILE.tolerance("float64") == {"rtol": 1e-9, "atol": 1e-10}


@CASES
def test_torque(case: Case, backend) -> None:
    xp, dtype = backend
    n = len(case["command"])
    ours = torque(case, Arrays(n, xp, dtype), slice(None))
    assert str(ours.dtype).endswith(dtype)
    error = close(ours, case["torque_f64"], tolerance(case, dtype))
    print(f"{case.name} {xp.__name__} {dtype}: {n} worlds, {error:.2g} of the tolerance")


@CASES
def test_torque_of_one_arm(case: Case) -> None:
    for row in range(len(case["command"])):
        chosen = slice(row, row + 1)
        close(torque(case, Arrays(1), chosen), case["torque_f64"][chosen], tolerance(case, "float64"))
