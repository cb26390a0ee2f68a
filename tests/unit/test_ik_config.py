"""What differential inverse kinematics takes, and what it refuses."""

import numpy as np
import pytest

from firmware_profiles.errors import UsageError
from twin.control.arrays import Arrays
from twin.control.task_space.differential_ik import DifferentialIKController
from twin.control.task_space.ik_config import DifferentialIKConfig, ik_method

N = 6
DLS = ik_method("dls")
UPRIGHT = np.tile([0.0, 0.0, 0.0, 1.0], (N, 1))


def solver(command_type, method=DLS, *, limits: dict | None = None, **options) -> DifferentialIKController:
    config = DifferentialIKConfig(command_type, method, **options)
    return DifferentialIKController(config, **(limits or {}), arrays=Arrays(N))


POSE, POSITION = np.ones((N, 7)), np.ones((N, 3))


@pytest.mark.parametrize(
    ("make", "named"),
    [
        (lambda: ik_method("newton"), "ik_method"),
        (lambda: ik_method("dls", k_val=1.0), "ik_method"),
        (lambda: ik_method("dls", lambda_val=-0.1), "lambda_val"),
        (lambda: ik_method("pinv", k_val=np.nan), "k_val"),
        (lambda: ik_method("svd", min_singular_value=-1.0), "min_singular_value"),
        (lambda: ik_method("adaptive_dls", sigma_thresh=0.0), "sigma_thresh"),
        (lambda: ik_method("adaptive_dls", lambda_min=0.3), "lambda_max"),
        (lambda: solver("twist"), "command_type"),
        (lambda: solver("pose", "dls"), "method"),
        (lambda: solver("pose", orientation_weight=(1.0, 1.0)), "orientation_weight"),
        (lambda: solver("pose", orientation_weight=-1.0), "orientation_weight"),
        (lambda: solver("pose", joint_limit_avoidance_gain=-1.0), "joint_limit_avoidance_gain"),
        (lambda: solver("pose", joint_limit_avoidance_margin=0.0), "joint_limit_avoidance_margin"),
        (lambda: solver("pose", joint_limit_avoidance_gain=1.0), "joint_lower"),
        (
            lambda: solver("pose", joint_limit_avoidance_gain=1.0, limits={"joint_lower": [0.0]}),
            "joint_upper",
        ),
        (lambda: avoiding([0.0, 0.0], [1.0, np.inf]), "joint_lower, joint_upper"),
        (lambda: avoiding([0.0, 2.0], [1.0, 1.0]), "lower, upper"),
        (lambda: avoiding(0.0, 1.0), "joint_lower, joint_upper"),
        (lambda: solver("pose").set_command(POSITION), "command"),
        (lambda: solver("pose").set_command(POSE[1:]), "command"),
        (lambda: solver("position").set_command(POSITION), "ee_quat"),
        (lambda: relative("position").set_command(POSITION, ee_quat=UPRIGHT), "ee_pos"),
        (lambda: relative("pose").set_command(POSE[:, :6], ee_quat=UPRIGHT), "ee_pos"),
        (lambda: relative("pose").set_command(POSE[:, :6], ee_pos=POSITION), "ee_quat"),
        (lambda: solver("pose").compute(POSITION, UPRIGHT, np.ones((N, 6, 7)), POSE), "command"),
        (lambda: solver("pose").ee_pos_des, "command"),
    ],
)
def test_refused(make, named: str) -> None:
    with pytest.raises(UsageError, match=f"^{named}:"):
        make()


def avoiding(lower, upper) -> DifferentialIKController:
    limits = {"joint_lower": lower, "joint_upper": upper}
    return solver("pose", joint_limit_avoidance_gain=1.0, limits=limits)


def relative(command_type: str) -> DifferentialIKController:
    return solver(command_type, use_relative_mode=True)


def test_numbers_of_a_command() -> None:
    assert [solver(kind).action_dim for kind in ("position", "pose")] == [3, 7]
    assert [relative(kind).action_dim for kind in ("position", "pose")] == [3, 6]
