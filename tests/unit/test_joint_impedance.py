"""Joint impedance: what its springs and dampers do to an arm, and what it refuses."""

import numpy as np
import pytest

from firmware_profiles.errors import UsageError
from twin.control.arrays import Arrays
from twin.control.task_space.joint_impedance import JointImpedanceController
from twin.control.task_space.joint_impedance_config import JointImpedanceConfig

N, JOINTS = 3, 4
RNG = np.random.default_rng(8)
POS, VEL, WEIGHT, TARGET = RNG.normal(size=(4, N, JOINTS))
FACTOR = RNG.normal(size=(N, JOINTS, JOINTS))
INERTIA = FACTOR @ FACTOR.swapaxes(1, 2) + np.eye(JOINTS)
FREE = np.tile((-np.inf, np.inf), (1, JOINTS, 1))


def controller(mode: str = "fixed", *, limits=FREE, n: int = N, **options) -> JointImpedanceController:
    options = {"stiffness": 100.0, **options}
    return JointImpedanceController(JointImpedanceConfig(mode, **options), limits, arrays=Arrays(n))


def effort(made: JointImpedanceController, command: np.ndarray, pos=POS, vel=VEL) -> np.ndarray:
    made.set_command(command)
    return made.compute(pos, vel, INERTIA, WEIGHT)


@pytest.mark.parametrize("ratio", [0.4, 1.0, 2.5])
def test_a_compensated_arm_is_as_many_oscillators(ratio: float) -> None:
    """With inertia and weight made up for, each joint is x'' = -k x - 2 sqrt(k) zeta x', whatever the arm's own."""
    made = controller(damping_ratio=ratio, inertial_compensation=True, gravity_compensation=True)
    made.set_command(np.zeros((N, JOINTS)))
    pos, vel, step = POS.copy(), np.zeros_like(POS), 1e-4
    for _ in range(5000):
        acceleration = np.linalg.solve(INERTIA, (made.compute(pos, vel, INERTIA, WEIGHT) - WEIGHT)[:, :, None])[:, :, 0]
        pos, vel = pos + step * vel + 0.5 * step**2 * acceleration, vel + step * acceleration
    matrix = np.array([[0.0, 1.0], [-100.0, -20.0 * ratio]])
    values, vectors = np.linalg.eig(matrix + 1e-9 * np.array([[0, 0], [1, 0]]))
    share = (vectors @ np.diag(np.exp(0.5 * values)) @ np.linalg.inv(vectors)).real[0, 0]
    np.testing.assert_allclose(pos, share * POS, atol=2e-3)
    assert (ratio >= 1) == (share > 0)  # less than critically damped, it swings through


def test_variable_gains_are_the_fixed_ones_given_each_time() -> None:
    fixed = effort(controller(stiffness=40.0, damping_ratio=1.0), TARGET)
    stiff, ratio = np.full((N, JOINTS), 40.0), np.full((N, JOINTS), 1.0)
    variable = controller("variable", damping_ratio=7.0)
    np.testing.assert_allclose(effort(variable, np.concatenate((TARGET, stiff, ratio), axis=1)), fixed)
    np.testing.assert_allclose(
        effort(controller("variable_kp", damping_ratio=7.0), np.concatenate((TARGET, stiff), axis=1)), fixed
    )
    other = effort(variable, np.concatenate((TARGET, stiff, 0.5 * ratio), axis=1))
    np.testing.assert_allclose(other - fixed, 0.5 * 2 * np.sqrt(40.0) * VEL)


def test_gains_of_a_command_stay_within_their_limits_and_the_command_is_left_alone() -> None:
    options = {"stiffness_limits": (10.0, 50.0), "damping_ratio_limits": (0.5, 2.0)}
    made = controller("variable", **options)
    wild = np.concatenate((TARGET, np.full((N, JOINTS), 1e9), np.full((N, JOINTS), -3.0)), axis=1)
    tame = np.concatenate((TARGET, np.full((N, JOINTS), 50.0), np.full((N, JOINTS), 0.5)), axis=1)
    before = wild.copy()
    np.testing.assert_array_equal(effort(made, wild), effort(made, tame))
    np.testing.assert_array_equal(wild, before)


def test_a_target_beyond_the_limits_is_the_limit() -> None:
    limits = np.stack((np.full((N, JOINTS), -0.3), np.linspace(0.2, 0.5, N * JOINTS).reshape(N, JOINTS)), axis=2)
    made = controller(limits=limits)
    np.testing.assert_array_equal(effort(made, np.full((N, JOINTS), 1e6)), effort(made, limits[:, :, 1]))
    np.testing.assert_array_equal(effort(made, np.full((N, JOINTS), -1e6)), effort(made, limits[:, :, 0]))
    relative = controller(limits=limits, command_type="p_rel")
    np.testing.assert_array_equal(effort(relative, np.full((N, JOINTS), 1e6)), effort(made, limits[:, :, 1]))


def test_a_relative_command_is_from_here_and_knows_no_offset() -> None:
    relative = effort(controller(command_type="p_rel", dof_pos_offset=0.7), TARGET)
    np.testing.assert_allclose(relative, effort(controller(), POS + TARGET))
    np.testing.assert_allclose(
        effort(controller(dof_pos_offset=[0.1, 0.2, 0.3, 0.4]), TARGET),
        effort(controller(), TARGET + np.array([0.1, 0.2, 0.3, 0.4])),
    )


def test_an_inertia_with_a_row_of_zeros() -> None:
    flat = INERTIA.copy()
    flat[0, 1] = flat[0, :, 1] = 0.0
    flat[1] = 0.0
    made = controller(inertial_compensation=True, gravity_compensation=True)
    made.set_command(TARGET)
    result = made.compute(POS, VEL, flat, WEIGHT)
    assert np.isfinite(result).all()
    assert result[0, 1] == WEIGHT[0, 1]
    np.testing.assert_array_equal(result[1], WEIGHT[1])


def test_a_command_is_a_copy_and_holds_beyond_a_reset() -> None:
    buffer, made = TARGET.copy(), controller()
    first = effort(made, buffer)
    buffer[:] = 9.0
    made.reset()
    np.testing.assert_array_equal(made.compute(POS, VEL), first)


def test_nothing_that_is_given_is_written_to() -> None:
    given = [array.copy() for array in (POS, VEL, INERTIA, WEIGHT)]
    made = controller(inertial_compensation=True, gravity_compensation=True)
    made.set_command(TARGET)
    first = made.compute(*given)
    np.testing.assert_array_equal(made.compute(*given), first)
    for after, before in zip(given, (POS, VEL, INERTIA, WEIGHT), strict=True):
        np.testing.assert_array_equal(after, before)


@pytest.mark.parametrize(
    ("make", "named"),
    [
        (lambda: JointImpedanceConfig("stiff", 1.0), "impedance_mode"),
        (lambda: JointImpedanceConfig("fixed", 1.0, command_type="v_abs"), "command_type"),
        (lambda: JointImpedanceConfig("fixed", -1.0), "stiffness"),
        (lambda: JointImpedanceConfig("fixed", 1.0, damping_ratio=np.nan), "damping_ratio"),
        (lambda: JointImpedanceConfig("fixed", 1.0, stiffness_limits=(2.0, 1.0)), "stiffness_limits"),
        (lambda: JointImpedanceConfig("fixed", 1.0, damping_ratio_limits=(-1.0, 1.0)), "damping_ratio_limits"),
        (lambda: JointImpedanceConfig("fixed", 1.0, damping_ratio_limits=(1.0,)), "damping_ratio_limits"),
        (lambda: JointImpedanceConfig("fixed", 1.0, dof_pos_offset=np.inf), "dof_pos_offset"),
        (lambda: controller(limits=FREE[0]), "dof_pos_limits"),
        (lambda: controller(limits=np.zeros((N + 1, JOINTS, 2))), "dof_pos_limits"),
        (lambda: controller(limits=-FREE), "lower, upper"),
        (lambda: controller(stiffness=[1.0, 2.0]), "stiffness"),
        (lambda: controller().set_command(np.zeros((N, JOINTS + 1))), "command"),
        (lambda: controller("variable").set_command(TARGET), "command"),
        (lambda: controller().compute(POS, VEL), "command"),
        (lambda: told(controller(inertial_compensation=True)).compute(POS, VEL, gravity=WEIGHT), "mass_matrix"),
        (lambda: told(controller(gravity_compensation=True)).compute(POS, VEL, INERTIA), "gravity"),
    ],
)
def test_refused(make, named: str) -> None:
    with pytest.raises(UsageError, match=f"^{named}:"):
        make()


def told(made: JointImpedanceController) -> JointImpedanceController:
    made.set_command(TARGET)
    return made


def test_numbers_of_a_command() -> None:
    assert [controller(mode).action_dim for mode in ("fixed", "variable_kp", "variable")] == [4, 8, 12]
