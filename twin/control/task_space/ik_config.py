"""What `DifferentialIKController` is told once: the command, and how a Jacobian is inverted."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, Literal

import numpy as np

from firmware_profiles.errors import UsageError
from twin.control.arrays import checked

IKCommandType = Literal["position", "pose"]
IK_COMMAND_TYPES: tuple[IKCommandType, ...] = ("position", "pose")


@dataclass(frozen=True, slots=True)
class PseudoInverse:
    """`pinv`: dq = k J^+ e. Exact where it can be, and without bound near a singularity.

    Attributes:
        k_val: k, the share of the error that one step takes away.

    Raises:
        UsageError: a value outside of its range.
    """

    k_val: float = 1.0

    def __post_init__(self) -> None:
        checked("k_val", self.k_val, least=0.0)


@dataclass(frozen=True, slots=True)
class TruncatedSvd:
    """`svd`: dq = k J^+ e, without the directions that the arm can hardly move in; |dq| <= k |e| / min_singular_value.

    Attributes:
        k_val: k.
        min_singular_value: a direction that counts has a singular value greater than this [m/rad, rad/rad].

    Raises:
        UsageError: a value outside of its range.
    """

    k_val: float = 1.0
    min_singular_value: float = 1e-5

    def __post_init__(self) -> None:
        checked("k_val", self.k_val, least=0.0)
        checked("min_singular_value", self.min_singular_value, least=0.0)


@dataclass(frozen=True, slots=True)
class Transpose:
    """`trans`: dq = k J^T e. A step down the slope of the squared error, for small k; nothing to invert.

    Attributes:
        k_val: k.

    Raises:
        UsageError: a value outside of its range.
    """

    k_val: float = 1.0

    def __post_init__(self) -> None:
        checked("k_val", self.k_val, least=0.0)


@dataclass(frozen=True, slots=True)
class DampedLeastSquares:
    """`dls`: dq = J^T (J J^T + lambda^2 I)^-1 e; |dq| <= |e| / (2 lambda).

    Attributes:
        lambda_val: lambda.

    Raises:
        UsageError: a value outside of its range.
    """

    lambda_val: float = 0.01

    def __post_init__(self) -> None:
        checked("lambda_val", self.lambda_val, least=0.0)


@dataclass(frozen=True, slots=True)
class AdaptiveDamping:
    """`adaptive_dls`: as `dls`, with a damping that grows where the arm is nearly singular.

    lambda^2 = lambda_min^2 + (1 - min(s / sigma_thresh, 1)^2) (lambda_max^2 - lambda_min^2), where s is the smallest
    singular value of the Jacobian as it is weighted. An arm with fewer joints than the task has rows is judged by its
    last one, not by 0; an axis whose weight is 0, however, makes s 0.

    Attributes:
        lambda_min: lambda away from singularities.
        lambda_max: lambda in one.
        sigma_thresh: from this singular value on lambda is the least.

    Raises:
        UsageError: a value outside of its range.
    """

    lambda_min: float = 0.05
    lambda_max: float = 0.2
    sigma_thresh: float = 0.02

    def __post_init__(self) -> None:
        checked("lambda_min", self.lambda_min, least=0.0)
        checked("lambda_max", self.lambda_max, least=self.lambda_min)
        checked("sigma_thresh", self.sigma_thresh, above=0.0)


IKMethod = PseudoInverse | TruncatedSvd | Transpose | DampedLeastSquares | AdaptiveDamping
IK_METHODS: dict[str, type[IKMethod]] = {
    "pinv": PseudoInverse,
    "svd": TruncatedSvd,
    "trans": Transpose,
    "dls": DampedLeastSquares,
    "adaptive_dls": AdaptiveDamping,
}
"""By Isaac Lab's names."""


def ik_method(name: str, **params: float) -> IKMethod:
    """A method by its name, with its defaults where nothing else is said.

    Raises:
        UsageError: no such method, no such parameter of it, or a value outside of its range.
    """
    if name not in IK_METHODS:
        raise UsageError(f"ik_method: {name!r}; allowed: {', '.join(IK_METHODS)}")
    known = [field.name for field in fields(IK_METHODS[name])]
    for param in params:
        if param not in known:
            raise UsageError(f"ik_method: {name} has no {param!r}; allowed: {', '.join(known)}")
    return IK_METHODS[name](**params)


@dataclass(frozen=True, slots=True)
class DifferentialIKConfig:
    """What a command is, and what becomes of it; the defaults are Isaac Lab's.

    Attributes:
        command_type: `position`, or `pose`.
        method: one of this module's classes, or `ik_method("dls", ...)`.
        use_relative_mode: a command is added to the pose that the end-effector has when it is set.
        orientation_weight: of the rotation against the translation, one number or one for each axis of the base; 0
            takes an axis out of the task. None is 1. Not used by `position`.
        joint_limit_avoidance_gain: share of the way back to the middle of its range that a joint at its limit goes in a
            step, as far as the end-effector's position allows; 0 is off.
        joint_limit_avoidance_margin: [rad or m] from a limit, where that sets in.

    Raises:
        UsageError: a value outside of its range.
    """

    command_type: IKCommandType
    method: IKMethod
    use_relative_mode: bool = False
    orientation_weight: float | tuple[float, float, float] | None = None
    joint_limit_avoidance_gain: float = 0.0
    joint_limit_avoidance_margin: float = 0.3

    def __post_init__(self) -> None:
        if self.command_type not in IK_COMMAND_TYPES:
            raise UsageError(f"command_type: {self.command_type!r}; allowed: {', '.join(IK_COMMAND_TYPES)}")
        if not isinstance(self.method, IKMethod):
            names = ", ".join(kind.__name__ for kind in IK_METHODS.values())
            raise UsageError(f"method: {self.method!r}; allowed: {names}")
        if self.orientation_weight is not None:
            checked("orientation_weight", self.orientation_weight, least=0.0)
            if np.shape(self.orientation_weight) not in ((), (3,)):
                raise UsageError(f"orientation_weight: expected one number or three, got {self.orientation_weight!r}")
        checked("joint_limit_avoidance_gain", self.joint_limit_avoidance_gain, least=0.0)
        checked("joint_limit_avoidance_margin", self.joint_limit_avoidance_margin, above=0.0)

    @property
    def action_dim(self) -> int:
        """Numbers of a command: 3 for a position; for a pose 6 (with a rotation vector) if relative, else 7."""
        if self.command_type == "position":
            return 3
        return 6 if self.use_relative_mode else 7

    @property
    def axis_weights(self) -> Any:
        """(6,) weights of the task's rows."""
        orientation = 1.0 if self.orientation_weight is None else self.orientation_weight
        return np.concatenate((np.ones(3), np.broadcast_to(orientation, 3)))
