"""Parity with Isaac Lab's differential inverse kinematics, from vectors that upstream's own code made."""

import numpy as np
import pytest
from control_goldens import BACKENDS, Case, close, golden, plain

from twin.control.arrays import Arrays
from twin.control.task_space.differential_ik import DifferentialIKController
from twin.control.task_space.ik_config import DifferentialIKConfig, ik_method
from twin.control.task_space.linear_algebra import singular_values

FILE = golden("isaac_differential_ik")
CASES = pytest.mark.parametrize("case", FILE.cases.values(), ids=list(FILE.cases))
RENAMED = ("ik_method", "ik_params", "dof")
SINGLE_TINY = np.finfo(np.float32).smallest_normal


@pytest.fixture(params=list(BACKENDS))
def backend(request) -> tuple:
    return BACKENDS[request.param]


def config_of(case: Case) -> DifferentialIKConfig:
    method = ik_method(case.config["ik_method"], **case.config["ik_params"])
    values = {name: value for name, value in case.config.items() if name not in RENAMED}
    return DifferentialIKConfig(method=method, **values)


def attitude_was_told(case: Case) -> bool:
    """Whether upstream's command came with the present attitude: shown by what became of a quaternion of nothing."""
    if case["command"].shape[1] < 7:
        return True
    nothing = (case["command"][:, 3:7] == 0).all(axis=1)
    return np.allclose(case["ee_quat_des"][nothing], case["ee_quat"][nothing], atol=1e-6)


def controller_of(case: Case, arrays: Arrays, chosen: slice = slice(None)) -> DifferentialIKController:
    limits = {name: case[name] for name in ("joint_lower", "joint_upper") if name in case}
    controller = DifferentialIKController(config_of(case), **limits, arrays=arrays)
    pos, quat = (arrays.array(case[name][chosen]) for name in ("ee_pos", "ee_quat"))
    controller.set_command(arrays.array(case["command"][chosen]), pos, quat if attitude_was_told(case) else None)
    return controller


def step(case: Case, controller: DifferentialIKController, arrays: Arrays, chosen: slice = slice(None)):
    names = ("ee_pos", "ee_quat", "jacobian", "joint_pos")
    return controller.compute(**{name: arrays.array(case[name][chosen]) for name in names})


def without_subnormals(case: Case) -> np.ndarray:
    """(N,) truth: single precision sees the quaternion that double precision sees."""
    if case["command"].shape[1] < 7:
        return np.ones(len(case["command"]), dtype=bool)
    largest = np.abs(case["command"][:, 3:7]).max(axis=1)
    return (largest == 0) | (largest >= SINGLE_TINY)


def tolerances(case: Case, dtype: str) -> list[dict[str, float]]:
    """For each arm what the sidecar recommends, and in single precision what an epsilon in the inputs makes of it.

    The sidecar's figure is one draw of upstream's rounding: near a singularity, or where the adapted damping sets in,
    the next draw may be ten times as large.
    """
    if dtype == "float64":
        return [FILE.tolerance("float64")] * len(case["command"])
    noise = np.abs(case["joint_pos_des_f32"] - case["joint_pos_des_f64"])[without_subnormals(case)].max()
    return [{"rtol": 1e-5, "atol": max(10 * noise, 1e-6) + 4 * moved} for moved in what_an_epsilon_moves(case)]


def what_an_epsilon_moves(case: Case) -> np.ndarray:
    """(N,) the largest change of a joint position [rad] when all inputs move by single precision's epsilon."""
    rng, epsilon = np.random.default_rng(1), float(np.finfo(np.float32).eps)
    arrays, largest = Arrays(len(case["command"])), np.zeros(len(case["command"]))
    for _ in range(8):
        moved = {
            name: case[name] * (1 + epsilon * rng.normal(size=case[name].shape))
            for name in ("command", "ee_pos", "ee_quat", "jacobian")
        }
        near = Case(case.name, case.sidecar, {**case.arrays, **moved})
        change = step(near, controller_of(near, arrays), arrays) - case["joint_pos_des_f64"]
        largest = np.maximum(largest, np.abs(change).max(axis=1))
    return largest


def test_the_file_is_what_its_sidecar_describes() -> None:
    assert FILE.described
    assert FILE.tolerance("float64") == {"rtol": 1e-9, "atol": 1e-10}


@CASES
def test_joint_positions(case: Case, backend) -> None:
    xp, dtype = backend
    arrays = Arrays(len(case["command"]), xp, dtype)
    ours = step(case, controller_of(case, arrays), arrays)
    assert str(ours.dtype).endswith(dtype)
    seen = without_subnormals(case) | (dtype == "float64")
    allowed = tolerances(case, dtype)
    errors = [close(ours[row], case["joint_pos_des_f64"][row], allowed[row]) for row in np.flatnonzero(seen)]
    print(f"{case.name} {xp.__name__} {dtype}: {len(ours)} worlds, {max(errors):.2g} of the tolerance")


@CASES
def test_single_precision_gives_up_on_a_quaternion_where_upstream_does(case: Case) -> None:
    xp, dtype = BACKENDS["torch32"]
    arrays = Arrays(len(case["command"]), xp, dtype)
    ours = step(case, controller_of(case, arrays), arrays)
    for row, allowed in enumerate(tolerances(case, dtype)):
        close(ours[row], case["joint_pos_des_f32"][row], allowed)


@CASES
def test_the_target(case: Case, backend) -> None:
    xp, dtype = backend
    arrays = Arrays(len(case["command"]), xp, dtype)
    controller = controller_of(case, arrays)
    assert controller.action_dim == case["command"].shape[1]
    rows = without_subnormals(case) if dtype == "float32" else slice(None)
    allowed = FILE.tolerance("float64") if dtype == "float64" else {"rtol": 1e-5, "atol": 1e-6}
    close(plain(controller.ee_pos_des)[rows], case["ee_pos_des"][rows], allowed)
    quat, expected = plain(controller.ee_quat_des), case["ee_quat_des"]
    signs = np.sign(np.sum(quat * expected, axis=1, keepdims=True))
    close((signs * quat)[rows], expected[rows], allowed)


@CASES
def test_joint_positions_of_one_arm(case: Case) -> None:
    for row in range(len(case["command"])):
        chosen, arrays = slice(row, row + 1), Arrays(1)
        ours = step(case, controller_of(case, arrays, chosen), arrays, chosen)
        close(ours, case["joint_pos_des_f64"][chosen], FILE.tolerance("float64"))


@CASES
def test_singular_values(case: Case) -> None:
    rows = case["sigma"].shape[1] if case.config["command_type"] == "position" else 6
    weights = config_of(case).axis_weights[:rows]
    ours = singular_values(weights[:, None] * case["jacobian"][:, :rows], xp=np)
    close(ours, case["sigma"], {"rtol": 1e-9, "atol": 1e-10})
