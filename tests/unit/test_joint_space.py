"""The laws of single joints: what they say, where they stop, and that they take energy out."""

import numpy as np
import pytest

from firmware_profiles.errors import UsageError
from twin.control.arrays import Arrays
from twin.control.task_space.joint_space import (
    JointEffortController,
    JointPositionController,
    JointVelocityController,
)

N, JOINTS = 4, 3
RNG = np.random.default_rng(2)
TARGET, POS, VEL = RNG.normal(size=(3, N, JOINTS))
GAINS = {"stiffness": np.array([10.0, 20.0, 30.0]), "damping": np.arange(1.0, 1.0 + N)[:, None]}


def test_the_effort_asked_for_is_given_within_its_limit() -> None:
    law = JointEffortController(JOINTS, effort_limit=[0.1, 1e9, 0.5], arrays=Arrays(N))
    np.testing.assert_array_equal(law.compute(TARGET), np.clip(TARGET, [-0.1, -1e9, -0.5], [0.1, 1e9, 0.5]))


def test_velocity() -> None:
    law = JointVelocityController(JOINTS, damping=GAINS["damping"], velocity_limit=0.7, arrays=Arrays(N))
    expected = GAINS["damping"] * (np.clip(TARGET, -0.7, 0.7) - VEL)
    np.testing.assert_allclose(law.compute(TARGET, joint_vel=VEL), expected)


def test_position() -> None:
    law = JointPositionController(JOINTS, **GAINS, lower=[-0.5, -np.inf, -1.0], upper=0.8, arrays=Arrays(N))
    wanted = np.clip(TARGET, [-0.5, -np.inf, -1.0], 0.8)
    expected = GAINS["stiffness"] * (wanted - POS) - GAINS["damping"] * VEL
    np.testing.assert_allclose(law.compute(TARGET, POS, VEL), expected)


LAWS = {
    "effort": lambda arrays, **limit: JointEffortController(JOINTS, arrays=arrays, **limit),
    "velocity": lambda arrays, **limit: JointVelocityController(JOINTS, damping=2.0, arrays=arrays, **limit),
    "position": lambda arrays, **limit: JointPositionController(
        JOINTS, stiffness=9.0, damping=2.0, arrays=arrays, **limit
    ),
}
EVERY = pytest.mark.parametrize("law", LAWS.values(), ids=list(LAWS))


@EVERY
def test_the_limit_is_never_passed_however_large_the_error(law) -> None:
    limited = law(Arrays(N), effort_limit=0.3)
    for scale in (1.0, 1e6, -1e300):
        effort = limited.compute(scale * TARGET, POS, VEL)
        assert np.abs(effort).max() == 0.3
    assert np.abs(law(Arrays(N)).compute(1e6 * TARGET, POS, VEL)).max() > 0.3


@EVERY
def test_a_batch_is_so_many_batches_of_one(law) -> None:
    together = law(Arrays(N)).compute(TARGET, POS, VEL)
    for row in range(N):
        one = slice(row, row + 1)
        np.testing.assert_array_equal(law(Arrays(1)).compute(TARGET[one], POS[one], VEL[one])[0], together[row])


@EVERY
def test_nothing_that_is_given_is_written_to(law) -> None:
    given = [array.copy() for array in (TARGET, POS, VEL)]
    law(Arrays(N), effort_limit=0.1).compute(*given)
    for after, before in zip(given, (TARGET, POS, VEL), strict=True):
        np.testing.assert_array_equal(after, before)


def test_velocity_and_position_take_energy_out() -> None:
    zero, step = np.zeros((N, JOINTS)), 1e-3
    position = LAWS["position"](Arrays(N))
    velocity = LAWS["velocity"](Arrays(N))
    assert (velocity.compute(zero, joint_vel=VEL) * VEL < 0).all()
    pos, vel, energies = POS.copy(), VEL.copy(), []
    for _ in range(4000):  # unit masses
        vel = vel + step * position.compute(zero, pos, vel)
        pos = pos + step * vel
        energies.append(float((0.5 * vel**2 + 4.5 * pos**2).sum()))
    assert energies[-1] < 1e-3 * energies[0]
    assert np.diff(energies[::500]).max() < 0


@pytest.mark.parametrize(
    ("make", "named"),
    [
        (lambda: JointEffortController(0), "joints"),
        (lambda: JointEffortController(3, effort_limit=-1.0), "effort_limit"),
        (lambda: JointEffortController(3, effort_limit=[1.0, 2.0]), "effort_limit"),
        (lambda: JointVelocityController(3, damping=-1.0), "damping"),
        (lambda: JointVelocityController(3, damping=1.0, velocity_limit=np.nan), "velocity_limit"),
        (lambda: JointPositionController(3, stiffness=np.nan, damping=1.0), "stiffness"),
        (lambda: JointPositionController(3, stiffness=1.0, damping=-1.0), "damping"),
        (lambda: JointPositionController(3, stiffness=1.0, damping=1.0, lower=1.0, upper=0.0), "lower, upper"),
        (lambda: JointPositionController(3, stiffness=1.0, damping=1.0, upper=np.nan), "lower, upper"),
        (lambda: LAWS["velocity"](Arrays(N)).compute(TARGET), "joint_vel"),
        (lambda: LAWS["position"](Arrays(N)).compute(TARGET, joint_vel=VEL), "joint_pos"),
        (lambda: LAWS["position"](Arrays(N)).compute(TARGET, POS), "joint_vel"),
    ],
)
def test_refused(make, named: str) -> None:
    with pytest.raises(UsageError, match=f"^{named}:"):
        make()
