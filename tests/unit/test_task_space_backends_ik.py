"""Joint laws, joint impedance and differential IK on all array libraries: one code path, and N is N times one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from array_libraries import OTHER_LIBRARIES, on_host
from scipy.spatial.transform import Rotation

from twin.control.arrays import Arrays
from twin.control.task_space.differential_ik import DifferentialIKController
from twin.control.task_space.ik_config import IK_METHODS, DifferentialIKConfig, ik_method
from twin.control.task_space.joint_impedance import JointImpedanceController
from twin.control.task_space.joint_impedance_config import IMPEDANCE_MODES, JointImpedanceConfig
from twin.control.task_space.joint_space import (
    JointEffortController,
    JointPositionController,
    JointVelocityController,
)
from twin.control.task_space.linear_algebra import symmetric_solve
from twin.control.task_space.poses import compose, relative_to

jax.config.update("jax_enable_x64", True)

N, JOINTS = 5, 7
RNG = np.random.default_rng(12)
FACTOR = RNG.normal(size=(N, JOINTS, JOINTS))
DATA = {
    "q": RNG.uniform(-1.0, 1.0, size=(N, JOINTS)),
    "qd": RNG.normal(size=(N, JOINTS)),
    "target": RNG.normal(size=(N, JOINTS)),
    "gains": RNG.uniform(-50.0, 400.0, size=(N, JOINTS)),
    "gravity": RNG.normal(size=(N, JOINTS)),
    "mass": FACTOR @ FACTOR.swapaxes(1, 2) + np.eye(JOINTS),
    "jacobian": RNG.normal(size=(N, 6, JOINTS)),
    "ee_pos": RNG.normal(size=(N, 3)),
    "ee_quat": Rotation.random(N, rng=RNG).as_quat(),
    "goal": RNG.normal(size=(N, 3)),
    "goal_quat": 3.0 * Rotation.random(N, rng=RNG).as_quat(),
}
DATA["jacobian"][1, 2] = 0.0
DATA["goal_quat"][2] = 0.0
LIMITS = np.stack((np.full((N, JOINTS), -0.9), np.linspace(0.5, 1.2, N * JOINTS).reshape(N, JOINTS)), axis=2)
Data = dict[str, Any]
Run = Callable[[Arrays, Data, slice], Any]


def law(make: Callable[..., Any], **options: Any) -> Run:
    def run(arrays: Arrays, d: Data, chosen: slice) -> Any:
        return make(JOINTS, effort_limit=3.0, arrays=arrays, **options).compute(d["target"], d["q"], d["qd"])

    return run


def impedance(mode: str, **options: Any) -> Run:
    def run(arrays: Arrays, d: Data, chosen: slice) -> Any:
        config = JointImpedanceConfig(mode, 40.0, inertial_compensation=True, gravity_compensation=True, **options)
        controller = JointImpedanceController(config, LIMITS[chosen], arrays=arrays)
        parts = [d["target"], d["gains"], d["gains"]][: controller.action_dim // JOINTS]
        controller.set_command(arrays.xp.concat(parts, axis=1))
        return controller.compute(d["q"], d["qd"], d["mass"], d["gravity"])

    return run


def ik(command_type: str, method: str, **options: Any) -> Run:
    def run(arrays: Arrays, d: Data, chosen: slice) -> Any:
        config = DifferentialIKConfig(command_type, ik_method(method), joint_limit_avoidance_gain=0.3, **options)
        lower, upper = LIMITS[chosen, :, 0], LIMITS[chosen, :, 1]
        controller = DifferentialIKController(config, joint_lower=lower, joint_upper=upper, arrays=arrays)
        parts = [d["goal"], d["goal_quat"] if controller.action_dim == 7 else d["goal"]]
        command = arrays.xp.concat(parts if controller.action_dim > 3 else parts[:1], axis=1)
        controller.set_command(command, d["ee_pos"], d["ee_quat"])
        return controller.compute(d["ee_pos"], d["ee_quat"], d["jacobian"], d["q"])

    return run


def frames(arrays: Arrays, d: Data, chosen: slice) -> Any:
    xp = arrays.xp
    inner = relative_to(d["goal"], d["ee_quat"], d["ee_pos"], d["ee_quat"], xp=xp)
    return xp.concat(compose(d["goal"], d["ee_quat"], *inner, xp=xp), axis=1)


def accelerations(arrays: Arrays, d: Data, chosen: slice) -> Any:
    return symmetric_solve(d["mass"], d["gravity"][:, :, None], xp=arrays.xp)[:, :, 0]


CASES: dict[str, Run] = {
    "effort": law(JointEffortController),
    "velocity": law(JointVelocityController, damping=2.0),
    "position": law(JointPositionController, stiffness=9.0, damping=2.0),
    **{f"impedance {mode}": impedance(mode) for mode in IMPEDANCE_MODES},
    "impedance relative": impedance("fixed", command_type="p_rel", damping_ratio=0.7),
    **{f"ik {kind} {method}": ik(kind, method) for kind in ("position", "pose") for method in IK_METHODS},
    "ik relative position": ik("position", "dls", use_relative_mode=True),
    "ik relative pose": ik("pose", "dls", use_relative_mode=True),
    "ik weighted": ik("pose", "adaptive_dls", orientation_weight=(1.0, 0.5, 0.0)),
    "frames": frames,
    "accelerations": accelerations,
}
EVERY = pytest.mark.parametrize("case", CASES.values(), ids=list(CASES))


def result(case: Run, xp: Any, dtype: str = "float64", chosen: slice = slice(None), device: Any = None) -> np.ndarray:
    arrays = Arrays(len(range(N)[chosen]), xp, dtype, device)
    given = {name: arrays.array(values[chosen]) for name, values in DATA.items()}
    outcome = case(arrays, given, chosen)
    return on_host(outcome, dtype)


@EVERY
@OTHER_LIBRARIES
def test_one_code_path(case: Run, xp) -> None:
    expected = result(case, np)
    assert np.isfinite(expected).all()
    np.testing.assert_allclose(result(case, xp), expected, rtol=1e-9, atol=1e-9)


@EVERY
def test_single_precision(case: Run) -> None:
    expected = result(case, np)
    size = np.abs(expected).max()
    np.testing.assert_allclose(result(case, torch, "float32"), expected, atol=1e-4 * size)


@EVERY
def test_a_batch_is_so_many_batches_of_one(case: Run) -> None:
    together = result(case, np)
    for row in range(N):
        alone = result(case, np, chosen=slice(row, row + 1))
        np.testing.assert_allclose(alone[0], together[row], rtol=1e-10, atol=1e-12)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
@EVERY
def test_on_a_gpu(case: Run) -> None:
    np.testing.assert_allclose(result(case, torch, device="cuda"), result(case, np), rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("method", list(IK_METHODS))
def test_a_step_has_a_slope_and_compiles(method: str) -> None:
    """Gradients of Torch through the step, against differences; the same step under JAX's jit."""
    config = DifferentialIKConfig("pose", ik_method(method))
    d = {name: values[3:4] for name, values in DATA.items()}
    command = np.concatenate((d["goal"], d["goal_quat"]), axis=1)

    def step(arrays: Arrays, jacobian: Any) -> Any:
        controller = DifferentialIKController(config, arrays=arrays)
        controller.set_command(arrays.array(command))
        others = (arrays.array(d[name]) for name in ("ee_pos", "ee_quat"))
        return controller.compute(*others, jacobian, arrays.array(d["q"]))

    jacobian = torch.tensor(d["jacobian"], requires_grad=True)
    step(Arrays(1, torch), jacobian).sum().backward()
    nudge = 1e-6 * np.random.default_rng(1).normal(size=jacobian.shape)
    change = step(Arrays(1), d["jacobian"] + nudge).sum() - step(Arrays(1), d["jacobian"] - nudge).sum()
    np.testing.assert_allclose(float((jacobian.grad.numpy() * nudge).sum() * 2), change, rtol=1e-4)
    compiled = jax.jit(lambda given: step(Arrays(1, jnp), given))(jnp.asarray(d["jacobian"]))
    np.testing.assert_allclose(compiled, step(Arrays(1), d["jacobian"]), rtol=1e-8)
