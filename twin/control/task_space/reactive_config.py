"""What the reactive layer is set up with, and what goes in and comes out of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum

import numpy as np
import numpy.typing as npt

from firmware_profiles.errors import UsageError
from twin.control.arrays import checked
from twin.control.task_space.avoidance import VelocityDamper
from twin.control.task_space.limits import JointLimits

FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class ReactiveConfig:
    """Settings of a `ReactiveController`.

    Attributes:
        limits: of the joints.
        avoidance: the distances that are kept; the same for all pairs, or one for each.
        period_us: of one step [us].
        damping: weight of the joint velocities beside the task (the square of lambda in damped least squares). It
            bounds the joints near a singularity, and makes the program's answer unique.
        posture_weight: weight of the posture beside the task. It shows in the null space, and a little in the task:
            about posture_weight / weight of its own error.
        posture_gain: how fast the posture is approached [1/s].

    Raises:
        UsageError: a value outside of its range, or a step that is too long for the avoidance.
    """

    limits: JointLimits
    avoidance: VelocityDamper = field(default_factory=VelocityDamper)
    period_us: int = 10_000
    damping: float = 1e-4
    posture_weight: float = 1e-3
    posture_gain: float = 1.0

    def __post_init__(self) -> None:
        if self.period_us < 1:
            raise UsageError(f"period_us: expected at least 1, got {self.period_us}")
        checked("damping", self.damping, above=0.0)
        checked("posture_weight", self.posture_weight, least=0.0)
        checked("posture_gain", self.posture_gain, least=0.0)
        self.avoidance.check_step(self.dt_s)

    @property
    def dt_s(self) -> float:
        """Length of a step [s]."""
        return self.period_us * 1e-6


@dataclass(frozen=True, slots=True)
class VelocityTask:
    """A task as the velocity that is wanted of it; `pose_task` makes one of a pose.

    Attributes:
        jacobian: (N, m, n) from joint velocities to the task's.
        velocity: (N, m) wanted, in the Jacobian's frame.
        weight: of the squared errors; broadcasts to (N, m). 0 drops an axis.

    Raises:
        UsageError: the shapes do not belong together, or a negative weight.
    """

    jacobian: FloatArray
    velocity: FloatArray
    weight: npt.ArrayLike = 1.0

    def __post_init__(self) -> None:
        checked("weight", self.weight, least=0.0)
        shape = np.shape(self.velocity)
        if len(shape) != 2 or np.ndim(self.jacobian) != 3 or np.shape(self.jacobian)[:2] != shape:
            raise UsageError(f"jacobian: expected (N, m, n) for velocities {shape}, got {np.shape(self.jacobian)}")
        try:
            np.broadcast_to(np.asarray(self.weight), shape)
        except ValueError:
            raise UsageError(f"weight: expected a shape that fits {shape}, got {np.shape(self.weight)}") from None


class ReactiveStatus(IntEnum):
    """What became of a world's step."""

    OK = 0
    """The best velocities within all constraints."""
    LEAST_VIOLATION = 1
    """The constraints contradict each other; position and velocity limits hold, see `ReactiveResult`."""
    BAD_INPUT = 2
    """Something of this world is not a number, or absurdly large: zero velocity."""
    NO_SOLUTION = 3
    """The solver found nothing: zero velocity."""


@dataclass(frozen=True, slots=True)
class ReactiveResult:
    """One step of N worlds.

    Attributes:
        velocities: (N, n) of the joints [rad/s], always finite.
        status: (N,) `ReactiveStatus` as integers.
        violation_m_s: (N,) by how much the worst distance constraint is not met [m/s]; 0 where all are.
    """

    velocities: FloatArray
    status: npt.NDArray[np.int8]
    violation_m_s: FloatArray
