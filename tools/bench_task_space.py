"""What one call of each task-space controller costs, by number of arms and array library; n = 7 joints.

`python tools/bench_task_space.py` prints the table; `measure()` gives the figures in the form of `tools/bench.py`.
NumPy computes in float64, Torch in float32, both in one thread; rounds are interleaved. What ends in `_command` is the
controller's `set_command`, which runs as often as a policy does, and not as often as the arm is controlled.

With the environment variable LAV2_ISAACLAB the same inputs go through Isaac Lab's own controllers, call by call beside
ours on Torch: it names the folder that the package `isaaclab` is in, which is the wheel's `isaaclab/source/isaaclab`
(isaaclab 2.3.2.post1, unpacked anywhere; neither Isaac Sim nor an installation is needed). Figures
then have Isaac Lab's time as their floor, and once it is said how far the two differ in what they compute.
"""

from __future__ import annotations

import importlib
import os
import statistics
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from bench_calls import ROUNDS, Step, figure, interleaved, one_thread
from isaaclab_controllers import IsaacLab

from twin.control.arrays import Arrays
from twin.control.task_space.avoidance import Distances
from twin.control.task_space.differential_ik import DifferentialIKController
from twin.control.task_space.force import ProportionalForceController
from twin.control.task_space.hybrid import HybridForceMotionController
from twin.control.task_space.ik_config import IK_METHODS, DifferentialIKConfig, ik_method
from twin.control.task_space.impedance import TaskSpaceImpedanceController
from twin.control.task_space.joint_impedance import JointImpedanceController
from twin.control.task_space.joint_impedance_config import JointImpedanceConfig
from twin.control.task_space.joint_space import JointPositionController
from twin.control.task_space.limits import JointLimits
from twin.control.task_space.operational_space import OperationalSpaceController
from twin.control.task_space.osc_config import OperationalSpaceConfig
from twin.control.task_space.reactive import ReactiveController
from twin.control.task_space.reactive_config import ReactiveConfig
from twin.control.task_space.reactive_tasks import pose_task

WORLDS = (1, 128, 4096)
LIBRARIES = {"numpy": "float64", "torch": "float32"}
JOINTS = 7
PAIRS = 20
"""Measured distances of the reactive layer; about one in five is so close that it constrains."""
REACTIVE_MOST = 128
"""Arms up to which the reactive layer is measured: it solves a program for each, one after the other."""
POSTURE = OperationalSpaceConfig(
    ("pose_abs",), inertial_dynamics_decoupling=True, gravity_compensation=True, nullspace_control="position"
)
IN_STATE = (
    "jacobian_b",
    "current_ee_pose_b",
    "current_ee_vel_b",
    "current_ee_force_b",
    "mass_matrix",
    "gravity",
    "current_joint_pos",
    "current_joint_vel",
    "nullspace_joint_pos_target",
)


def arms(n: int) -> dict[str, np.ndarray]:
    """States and goals of N arms at random, none of them near a singularity: what all libraries are given."""
    rng = np.random.default_rng(0)

    def normal(*shape: int, size: float = 1.0) -> np.ndarray:
        return size * rng.standard_normal((n, *shape))

    def turn(size: int) -> np.ndarray:
        return np.linalg.qr(normal(size, size))[0]

    def poses() -> np.ndarray:
        quat = normal(4)
        return np.concatenate((normal(3), quat / np.linalg.norm(quat, axis=1, keepdims=True)), axis=1)

    def spectrum(size: int, least: float, most: float) -> np.ndarray:
        return rng.uniform(least, most, (n, 1, size))

    axes = turn(JOINTS)
    return {
        "jacobian_b": (turn(6) * spectrum(6, 0.3, 1.5)) @ turn(JOINTS)[:, :6, :],
        "current_ee_pose_b": poses(),
        "current_ee_vel_b": normal(6),
        "current_ee_force_b": normal(3),
        "mass_matrix": (axes * spectrum(JOINTS, 0.5, 3.0)) @ axes.swapaxes(1, 2),
        "gravity": normal(JOINTS, size=10.0),
        "current_joint_pos": normal(JOINTS, size=0.5),
        "current_joint_vel": normal(JOINTS),
        "nullspace_joint_pos_target": normal(JOINTS, size=0.5),
        "task_frame": poses(),
        "pose": poses(),
        "wrench": normal(6, size=10.0),
        "joint_target": normal(JOINTS, size=0.5),
        "distance_m": rng.uniform(0.01, 0.46, (n, PAIRS)),
        "distance_gradient": normal(PAIRS, JOINTS, size=0.3),
    }


def steps(library: str, n: int) -> Iterator[tuple[str, Step]]:
    """One call of each controller, to be repeated; of those with a command it is set."""
    arrays = Arrays(n, importlib.import_module(library), LIBRARIES[library])
    given = {name: arrays.array(values) for name, values in arms(n).items()}
    yield from _joint_space(arrays, given)
    yield from _differential_ik(arrays, given)
    yield from _operational_space(arrays, given)
    if library == "numpy" and n <= REACTIVE_MOST:
        yield "reactive", _reactive(given)


def _joint_space(arrays: Arrays, given: Mapping[str, Any]) -> Iterator[tuple[str, Step]]:
    target, q, qd = (given[name] for name in ("joint_target", "current_joint_pos", "current_joint_vel"))
    law = JointPositionController(JOINTS, stiffness=80.0, damping=4.0, effort_limit=50.0, arrays=arrays)
    yield "joint_position", lambda: law.compute(target, q, qd)
    limits, dynamics = np.tile([-2.0, 2.0], (1, JOINTS, 1)), (given["mass_matrix"], given["gravity"])
    for name, inertial in (("joint_springs", False), ("joint_impedance", True)):
        config = JointImpedanceConfig("fixed", 80.0, inertial_compensation=inertial, gravity_compensation=True)
        impedance = JointImpedanceController(config, limits, arrays=arrays)
        impedance.set_command(target)
        yield name, lambda impedance=impedance: impedance.compute(q, qd, *dynamics)


def _differential_ik(arrays: Arrays, given: Mapping[str, Any]) -> Iterator[tuple[str, Step]]:
    pose = given["current_ee_pose_b"]
    state = pose[:, 0:3], pose[:, 3:7], given["jacobian_b"], given["current_joint_pos"]
    for method in IK_METHODS:
        ik = DifferentialIKController(DifferentialIKConfig("pose", ik_method(method)), arrays=arrays)
        ik.set_command(given["pose"])
        yield f"ik_{method}", lambda ik=ik: ik.compute(*state)


def _operational_space(arrays: Arrays, given: Mapping[str, Any]) -> Iterator[tuple[str, Step]]:
    state = {name: given[name] for name in IN_STATE}
    both = arrays.xp.concat((given["pose"], given["wrench"]), axis=1)
    made: dict[str, tuple[OperationalSpaceController, Any]] = {
        "task_impedance": (TaskSpaceImpedanceController(JOINTS, arrays=arrays), given["pose"]),
        "osc": (OperationalSpaceController(POSTURE, JOINTS, arrays=arrays), given["pose"]),
        "hybrid": (HybridForceMotionController(JOINTS, gravity_compensation=True, arrays=arrays), both),
        "force": (ProportionalForceController(JOINTS, gain=0.4, arrays=arrays), given["wrench"]),
    }
    for name, (osc, numbers) in made.items():
        command = numbers, given["current_ee_pose_b"], given["task_frame"]
        osc.set_command(*command)
        yield name, lambda osc=osc: osc.compute(**state)
        if name in ("osc", "hybrid"):
            yield f"{name}_command", lambda osc=osc, command=command: osc.set_command(*command)


def _reactive(given: Mapping[str, Any]) -> Step:
    limits = JointLimits(lower=-2.5, upper=2.5, velocity=2.0, acceleration=20.0)
    now, goal, q = given["current_ee_pose_b"], given["pose"], given["current_joint_pos"]
    layer = ReactiveController(ReactiveConfig(limits), JOINTS, n=len(q))
    distances = Distances(given["distance_m"], given["distance_gradient"])
    last, posture = np.zeros_like(q), given["nullspace_joint_pos_target"]

    def step() -> object:
        task = pose_task(given["jacobian_b"], now[:, 0:3], now[:, 3:7], goal[:, 0:3], goal[:, 3:7])
        return layer.compute([task], q, last_velocities=last, distances=distances, posture=posture)

    return step


def upstream() -> IsaacLab | None:
    """Isaac Lab's controllers where LAV2_ISAACLAB has them."""
    folder = os.environ.get("LAV2_ISAACLAB")
    return IsaacLab.load(Path(folder)) if folder else None


def measure(
    rounds: int = ROUNDS, libraries: tuple[str, ...] = tuple(LIBRARIES), worlds: tuple[int, ...] = WORLDS
) -> dict[str, dict[str, Any]]:
    """All figures; see `bench_models.measure`. One that ends in `_torch_N_us` has Isaac Lab's as its floor."""
    with one_thread(libraries):
        theirs = upstream() if "torch" in libraries else None
        calls: dict[str, Step] = {}
        floors: dict[str, Step] = {}
        for library in libraries:
            for n in worlds:
                beside = dict(theirs.steps(arms(n))) if theirs and library == "torch" else {}
                for name, call in steps(library, n):
                    key = f"{name}_{library}_{n}_us"
                    calls[key] = call
                    if name in beside:
                        calls[f"isaaclab {key}"] = floors[key] = beside[name]
        if theirs is None:
            print("Isaac Lab's controllers are not compared: LAV2_ISAACLAB does not say where they are")
        else:
            print(agreement({key: (calls[key], floor) for key, floor in floors.items()}))
        runs = interleaved(calls, rounds)
    return {
        key: figure(runs[key], statistics.median(runs[f"isaaclab {key}"]) if key in floors else None)
        for key in calls
        if not key.startswith("isaaclab ")
    }


def agreement(pairs: Mapping[str, tuple[Step, Step]]) -> str:
    """How far ours and theirs are from each other, as a share of the largest number: the worst for each controller."""
    worst: dict[str, float] = {}
    for key, (ours, theirs) in pairs.items():
        a, b = ours(), theirs()
        if a is not None:
            name = key.rsplit("_", 3)[0]
            a, b = np.asarray(a, dtype=np.float64), np.asarray(b, dtype=np.float64)
            worst[name] = max(worst.get(name, 0.0), float(np.abs(a - b).max() / np.abs(b).max()))
    return "differs from Isaac Lab by: " + ", ".join(f"{name} {share:.0e}" for name, share in worst.items())


def main() -> None:
    """Measure and print: a row for each controller, a column for each library and number of arms, and the ratios."""
    figures = measure()
    columns = [f"{library}_{n}" for library in LIBRARIES for n in WORLDS]
    rows = list(dict.fromkeys(name.rsplit("_", 3)[0] for name in figures))
    compared = any(one["floor"] is not None for one in figures.values())
    heads = columns + [f"isaac_{n}" for n in WORLDS if compared] + [f"ratio_{n}" for n in WORLDS if compared]
    print(f"{'[us] a call':<16}" + "".join(f"{head:>12}" for head in heads))
    for row in rows:
        cells = [figures.get(f"{row}_{column}_us", {}).get("value") for column in columns]
        if compared:
            torch = [figures.get(f"{row}_torch_{n}_us", {}) for n in WORLDS]
            cells += [one.get("floor") for one in torch] + [one.get("ratio") for one in torch]
        print(f"{row:<16}" + "".join(f"{'' if cell is None else format(cell, '.4g'):>12}" for cell in cells))


if __name__ == "__main__":
    main()
