"""Parity with Isaac Lab's operational-space controller, from vectors that upstream's own code made."""

import numpy as np
import pytest
from control_goldens import BACKENDS, Case, close, golden, plain

from twin.control.arrays import Arrays
from twin.control.task_space.operational_space import OperationalSpaceController
from twin.control.task_space.osc_config import OperationalSpaceConfig

FILE = golden("isaac_operational_space")
CASES = pytest.mark.parametrize("case", FILE.cases.values(), ids=list(FILE.cases))
DOUBLE = FILE.tolerance("float64")
STATE = {
    "jacobian_b": "jacobian_b",
    "current_ee_pose_b": "ee_pose_b",
    "current_ee_vel_b": "ee_vel_b",
    "current_ee_force_b": "ee_force_b",
    "mass_matrix": "mass_matrix",
    "gravity": "gravity",
    "current_joint_pos": "joint_pos",
    "current_joint_vel": "joint_vel",
}
"""Arguments and the arrays that they are; a case lacks what it does not need."""


@pytest.fixture(params=list(BACKENDS))
def backend(request) -> tuple:
    return BACKENDS[request.param]


class Run:
    """Some worlds of a case: the controller with its command, and the state; none of it may have been written to."""

    def __init__(self, case: Case, arrays: Arrays, chosen: slice = slice(None)) -> None:
        self.case, self.arrays, self.chosen = case, arrays, chosen
        self.controller = OperationalSpaceController(
            OperationalSpaceConfig(**case.config), case["jacobian_b"].shape[2], arrays=arrays
        )
        self.state = {name: self.array(array) for name, array in STATE.items() if array in case}
        command = self.array("command")
        frame = self.array("task_frame_pose_b") if "task_frame_pose_b" in case else None
        self.controller.set_command(command, self.state.get("current_ee_pose_b"), frame)
        np.testing.assert_array_equal(plain(command), plain(self.array("command")))

    def array(self, name: str):
        return self.arrays.array(self.case[name][self.chosen])

    def efforts(self, **posture):
        result = self.controller.compute(**self.state, **posture)
        for name, value in self.state.items():
            np.testing.assert_array_equal(plain(value), plain(self.array(STATE[name])), err_msg=name)
        return result


def tolerance(case: Case, dtype: str) -> dict[str, float]:
    """The sidecar's; where efforts of one case differ by orders of magnitude, small ones are as good as upstream's."""
    if dtype == "float64":
        return DOUBLE
    return {"rtol": 1e-3, "atol": max(1e-3, 10 * case.sidecar["f32_vs_f64"]["max_abs"])}


def expected(case: Case) -> dict[str, dict[str, str]]:
    """Arrays that a case expects, and the posture that is given for each.

    A case with two of them was computed twice: the first time without a posture.
    """
    given = {"nullspace_joint_pos_target": "nullspace_target"} if "nullspace_target" in case else {}
    if "efforts_posture_f64" in case:
        return {"efforts_f64": {}, "efforts_posture_f64": given}
    return {"efforts_f64": given}


def test_the_file_is_what_its_sidecar_describes() -> None:
    assert FILE.described
    assert (DOUBLE["rtol"], DOUBLE["atol"]) == (1e-8, 1e-7)
    assert "atol = rtol = 1e-3" in FILE.sidecar["recommended_tolerance"]["float32_implementation"]


@CASES
def test_efforts(case: Case, backend) -> None:
    xp, dtype = backend
    run = Run(case, Arrays(len(case["command"]), xp, dtype))
    for name, posture in expected(case).items():
        efforts = run.efforts(**{argument: run.array(array) for argument, array in posture.items()})
        assert str(efforts.dtype).endswith(dtype)
        error = close(efforts, case[name], tolerance(case, dtype))
        print(f"{case.name} {name} {xp.__name__} {dtype}: {len(efforts)} worlds, {error:.2g} of the tolerance")


@CASES
def test_efforts_of_one_arm(case: Case) -> None:
    for row in range(len(case["command"])):
        run = Run(case, Arrays(1), slice(row, row + 1))
        for name, posture in expected(case).items():
            efforts = run.efforts(**{argument: run.array(array) for argument, array in posture.items()})
            close(efforts, case[name][row : row + 1], DOUBLE)


@CASES
def test_what_a_command_says_in_the_base(case: Case) -> None:
    """Pose, wrench and gains on the way to the efforts, where the case has them."""
    command = Run(case, Arrays(len(case["command"]))).controller.command
    arrays = {"kp_b": command.stiffness, "kd_b": command.damping, "desired_wrench_b": command.wrench}
    for name in arrays:
        if name in case:
            close(arrays[name], case[name], DOUBLE)
    if "desired_pose_b" in case:
        pose = np.concatenate((command.pos, command.quat), axis=1)
        sign = np.sign(np.sum(pose[:, 3:] * case["desired_pose_b"][:, 3:], axis=1, keepdims=True))
        pose[:, 3:] *= sign
        close(pose, case["desired_pose_b"], DOUBLE)
    assert "kp_b" in case or np.isfinite(command.stiffness).all()
