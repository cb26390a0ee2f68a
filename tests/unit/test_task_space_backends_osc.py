"""Operational-space control and its action term on all array libraries: one code path, and N is N times one."""

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
from twin.control.task_space.action_config import BodyOffset, OperationalSpaceActionConfig
from twin.control.task_space.action_term import OperationalSpaceAction
from twin.control.task_space.arm_state import ArmState
from twin.control.task_space.force import ProportionalForceController
from twin.control.task_space.hybrid import HybridForceMotionController
from twin.control.task_space.impedance import TaskSpaceImpedanceController
from twin.control.task_space.operational_space import OperationalSpaceController
from twin.control.task_space.osc_config import OperationalSpaceConfig

jax.config.update("jax_enable_x64", True)

N, JOINTS = 5, 7
RNG = np.random.default_rng(21)
FACTOR = RNG.normal(size=(N, JOINTS, JOINTS))


def poses() -> np.ndarray:
    return np.concatenate((RNG.normal(size=(N, 3)), Rotation.random(N, rng=RNG).as_quat()), axis=1)


DATA = {
    "jacobian_b": RNG.normal(size=(N, 6, JOINTS)),
    "current_ee_pose_b": poses(),
    "current_ee_vel_b": RNG.normal(size=(N, 6)),
    "current_ee_force_b": RNG.normal(size=(N, 3)),
    "mass_matrix": FACTOR @ FACTOR.swapaxes(1, 2) + np.eye(JOINTS),
    "gravity": RNG.normal(size=(N, JOINTS)),
    "current_joint_pos": RNG.normal(size=(N, JOINTS)),
    "current_joint_vel": RNG.normal(size=(N, JOINTS)),
    "nullspace_joint_pos_target": RNG.normal(size=(N, JOINTS)),
    "frame": poses(),
    "pose_abs": poses() * ([1.0] * 3 + [3.0] * 4),
    "pose_rel": 0.3 * RNG.normal(size=(N, 6)),
    "wrench_abs": RNG.normal(size=(N, 6)),
    "stiffness": RNG.uniform(-50.0, 1200.0, size=(N, 6)),
    "ratio": RNG.uniform(-0.5, 2.0, size=(N, 6)),
}
DATA["pose_abs"][2, 3:] = 0.0
DATA["jacobian_b"][1, 2] = 0.0
DATA["jacobian_b"][4, 1] *= 0.005  # next to a singularity
STATE = list(DATA)[:9]
FORCE_Z = {"motion_control_axes_task": (1, 1, 0, 1, 1, 1), "contact_wrench_control_axes_task": (0, 0, 1, 0, 0, 0)}
FULL = {"inertial_dynamics_decoupling": True}
PARTIAL = {**FULL, "partial_inertial_dynamics_decoupling": True}
POSTURE = {"nullspace_control": "position", "gravity_compensation": True}
Data = dict[str, Any]
Run = Callable[[Arrays, Data], Any]


def driven(make: Callable[[Arrays], OperationalSpaceController]) -> Run:
    def run(arrays: Arrays, d: Data) -> Any:
        made = make(arrays)
        parts = [d[kind] for kind in made.config.target_types]
        parts += [d["stiffness"], d["ratio"]][
            : {"fixed": 0, "variable_kp": 1, "variable": 2}[made.config.impedance_mode]
        ]
        made.set_command(arrays.xp.concat(parts, axis=1), d["current_ee_pose_b"], d["frame"])
        return made.compute(**{name: d[name] for name in STATE})

    return run


def osc(*target_types: Any, **options: Any) -> Run:
    config = OperationalSpaceConfig(target_types, **options)
    return driven(lambda arrays: OperationalSpaceController(config, JOINTS, arrays=arrays))


def some_reset(arrays: Arrays, d: Data) -> Any:
    made = OperationalSpaceController(
        OperationalSpaceConfig(("pose_abs",), gravity_compensation=True), JOINTS, arrays=arrays
    )
    made.set_command(d["pose_abs"])
    made.reset([0])
    return made.compute(**{name: d[name] for name in STATE})


def action(arrays: Arrays, d: Data) -> Any:
    state = ArmState(
        joint_names=tuple(f"joint{i}" for i in range(JOINTS)),
        joint_pos=d["current_joint_pos"],
        joint_vel=d["current_joint_vel"],
        joint_lower=arrays.xp.asarray(np.full(JOINTS, -1.0), dtype=arrays.dtype, device=arrays.device),
        joint_upper=arrays.xp.asarray(np.full(JOINTS, 2.0), dtype=arrays.dtype, device=arrays.device),
        default_joint_pos=arrays.xp.asarray(np.zeros(JOINTS), dtype=arrays.dtype, device=arrays.device),
        mass_matrix=d["mass_matrix"],
        gravity=d["gravity"],
        ee_pos=d["current_ee_pose_b"][:, 0:3],
        ee_quat_xyzw=d["current_ee_pose_b"][:, 3:7],
        ee_vel=d["current_ee_vel_b"],
        jacobian=d["jacobian_b"],
        ee_force=d["current_ee_force_b"],
        body_pose=lambda name: (d["frame"][:, 0:3], d["frame"][:, 3:7]),
    )
    config = OperationalSpaceActionConfig(
        joint_names=["joint[0-4]", "joint6"],
        controller=OperationalSpaceConfig(("pose_rel",), gravity_compensation=True, **FULL),
        body_offset=BodyOffset((0.1, -0.2, 0.3), (0.5, 0.5, 0.5, 0.5)),
        task_frame_body="wall",
        position_scale=0.5,
    )
    term = OperationalSpaceAction(config, state, arrays=arrays)
    term.process(d["pose_rel"], state)
    return term.apply(state)


CASES: dict[str, Run] = {
    "pose_abs": osc("pose_abs"),
    "pose_rel full posture": osc("pose_rel", **FULL, **POSTURE),
    "pose_abs partial posture": osc("pose_abs", **PARTIAL, **POSTURE),
    "wrench open": osc("wrench_abs", contact_wrench_control_axes_task=(1,) * 6, motion_control_axes_task=(0,) * 6),
    "hybrid closed variable": osc(
        "wrench_abs", "pose_abs", impedance_mode="variable", contact_wrench_stiffness_task=0.3, **FORCE_Z, **FULL
    ),
    "impedance": driven(lambda arrays: TaskSpaceImpedanceController(JOINTS, arrays=arrays)),
    "force": driven(lambda arrays: ProportionalForceController(JOINTS, gain=0.4, arrays=arrays)),
    "hybrid": driven(lambda arrays: HybridForceMotionController(JOINTS, impedance_mode="variable_kp", arrays=arrays)),
    "some worlds reset": some_reset,
    "action": action,
}
EVERY = pytest.mark.parametrize("case", CASES.values(), ids=list(CASES))


def result(case: Run, xp: Any, dtype: str = "float64", chosen: slice = slice(None), device: Any = None) -> np.ndarray:
    arrays = Arrays(len(range(N)[chosen]), xp, dtype, device)
    outcome = case(arrays, {name: arrays.array(values[chosen]) for name, values in DATA.items()})
    return on_host(outcome, dtype)


@EVERY
@OTHER_LIBRARIES
def test_one_code_path(case: Run, xp) -> None:
    expected = result(case, np)
    assert np.isfinite(expected).all()
    np.testing.assert_allclose(result(case, xp), expected, rtol=1e-8, atol=1e-8)


@EVERY
def test_single_precision(case: Run) -> None:
    expected = result(case, np)
    size = np.abs(expected).max(axis=1, keepdims=True)
    np.testing.assert_allclose(result(case, torch, "float32") / size, expected / size, atol=1e-4)


@pytest.mark.parametrize("case", [name for name in CASES if name != "some worlds reset"])
def test_a_batch_is_so_many_batches_of_one(case: str) -> None:
    together = result(CASES[case], np)
    for row in range(N):
        alone = result(CASES[case], np, chosen=slice(row, row + 1))
        np.testing.assert_allclose(alone[0], together[row], rtol=1e-9, atol=1e-9)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
@EVERY
def test_on_a_gpu(case: Run) -> None:
    np.testing.assert_allclose(result(case, torch, device="cuda"), result(case, np), rtol=1e-8, atol=1e-8)


def test_efforts_have_a_slope_and_compile() -> None:
    """Gradients of Torch through the whole law, against differences; the same law under JAX's jit."""
    d = {name: values[3:4] for name, values in DATA.items()}
    command = np.concatenate((d["pose_abs"], d["wrench_abs"]), axis=1)
    config = OperationalSpaceConfig(("pose_abs", "wrench_abs"), **FORCE_Z, **FULL, **POSTURE)

    def efforts(arrays: Arrays, jacobian: Any) -> Any:
        made = OperationalSpaceController(config, JOINTS, arrays=arrays)
        made.set_command(arrays.array(command))
        state = {name: arrays.array(d[name]) for name in STATE}
        return made.compute(**{**state, "jacobian_b": jacobian})

    jacobian = torch.tensor(d["jacobian_b"], requires_grad=True)
    efforts(Arrays(1, torch), jacobian).sum().backward()
    nudge = 1e-6 * np.random.default_rng(1).normal(size=(1, 6, JOINTS))
    change = efforts(Arrays(1), d["jacobian_b"] + nudge).sum() - efforts(Arrays(1), d["jacobian_b"] - nudge).sum()
    np.testing.assert_allclose(float((jacobian.grad.numpy() * nudge).sum() * 2), change, rtol=1e-4)
    compiled = jax.jit(lambda given: efforts(Arrays(1, jnp), given))(jnp.asarray(d["jacobian_b"]))
    np.testing.assert_allclose(compiled, efforts(Arrays(1), d["jacobian_b"]), rtol=1e-8)
