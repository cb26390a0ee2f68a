"""What `OperationalSpaceController` is told once: targets, axes, how stiff, and what is made up for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from firmware_profiles.errors import UsageError
from twin.control.arrays import checked
from twin.control.task_space.joint_impedance_config import IMPEDANCE_MODES, ImpedanceMode

TargetType = Literal["pose_abs", "pose_rel", "wrench_abs"]
TARGET_DIMS: dict[TargetType, int] = {"pose_abs": 7, "pose_rel": 6, "wrench_abs": 6}
"""Numbers that each type of target has in a command."""
NullspaceControl = Literal["none", "position"]
NULLSPACE_CONTROLS: tuple[NullspaceControl, ...] = ("none", "position")


@dataclass(frozen=True, slots=True)
class OperationalSpaceConfig:
    """Targets, axes, gains; names and defaults are Isaac Lab's. What ends in `_task` is along the task frame's axes.

    Axes are six: x, y, z, and about x, y, z. One number where six are wanted is for all of them.

    An axis of motion may be one of force, too: then the wrench is added to what the motion asks for, as a feed-forward
    that springs and dampers answer. An axis that is neither is free. Those that share axes between motion and force
    without overlap use `HybridForceMotionController`.

    Attributes:
        target_types: of `pose_abs`, `pose_rel` and `wrench_abs`, in the order in which a command has them; one pose at
            most.
        motion_control_axes_task: 1 where the pose is controlled, else 0; of no effect without a pose among the targets.
        contact_wrench_control_axes_task: 1 where the wrench is, else 0.
        inertial_dynamics_decoupling: the end-effector gets the acceleration that springs and dampers ask for, by the
            arm's inertia; else springs and dampers give forces.
        partial_inertial_dynamics_decoupling: with that, linear and angular motion each by themselves, leaving out
            what they do to each other.
        inertia_conditioning_thresholds: least and largest share of the largest eigenvalue of J M^-1 J^T; a direction
            in which the arm moves less easily than that is damped in full, up to not at all.
        gravity_compensation: the arm's weight is carried.
        impedance_mode: `fixed` has the gains below; in `variable_kp` a command brings six stiffnesses; in `variable`
            six damping ratios, too.
        motion_stiffness_task: k_p. With decoupling [1/s^2], else [N/m, N m/rad].
        motion_damping_ratio_task: zeta in k_d = 2 sqrt(k_p) zeta.
        motion_stiffness_limits_task: least and largest k_p that a command may bring.
        motion_damping_ratio_limits_task: the same of zeta.
        contact_wrench_stiffness_task: share of the missing wrench that is added to the wanted one; None is open loop.
        nullspace_control: `position` draws the joints to a posture as far as the end-effector does not notice.
        nullspace_stiffness: of that [1/s^2].
        nullspace_damping_ratio: of that.

    Raises:
        UsageError: a value outside of its range, or two that contradict each other.
    """

    target_types: Sequence[TargetType]
    motion_control_axes_task: Sequence[float] = (1, 1, 1, 1, 1, 1)
    contact_wrench_control_axes_task: Sequence[float] = (0, 0, 0, 0, 0, 0)
    inertial_dynamics_decoupling: bool = False
    partial_inertial_dynamics_decoupling: bool = False
    inertia_conditioning_thresholds: tuple[float, float] = (1e-5, 1e-4)
    gravity_compensation: bool = False
    impedance_mode: ImpedanceMode = "fixed"
    motion_stiffness_task: npt.ArrayLike = 100.0
    motion_damping_ratio_task: npt.ArrayLike = 1.0
    motion_stiffness_limits_task: tuple[float, float] = (0.0, 1000.0)
    motion_damping_ratio_limits_task: tuple[float, float] = (0.0, 100.0)
    contact_wrench_stiffness_task: npt.ArrayLike | None = None
    nullspace_control: NullspaceControl = "none"
    nullspace_stiffness: float = 10.0
    nullspace_damping_ratio: float = 1.0

    def __post_init__(self) -> None:
        self._check_targets()
        self._check_axes()
        if self.impedance_mode not in IMPEDANCE_MODES:
            raise UsageError(f"impedance_mode: {self.impedance_mode!r}; allowed: {', '.join(IMPEDANCE_MODES)}")
        if self.nullspace_control not in NULLSPACE_CONTROLS:
            raise UsageError(f"nullspace_control: {self.nullspace_control!r}; allowed: {', '.join(NULLSPACE_CONTROLS)}")
        for name in ("motion_stiffness_task", "motion_damping_ratio_task", "contact_wrench_stiffness_task"):
            value = getattr(self, name)
            if value is not None:
                checked(name, value, least=0.0)
                if np.shape(value) not in ((), (6,)):
                    raise UsageError(f"{name}: expected one number or six, got {value!r}")
        for name in ("motion_stiffness_limits_task", "motion_damping_ratio_limits_task"):
            limits = getattr(self, name)
            checked(name, limits, least=0.0)
            if np.shape(limits) != (2,) or limits[0] > limits[1]:
                raise UsageError(f"{name}: expected the least and the largest, got {limits!r}")
        checked("nullspace_stiffness", self.nullspace_stiffness, least=0.0)
        checked("nullspace_damping_ratio", self.nullspace_damping_ratio, least=0.0)
        self._check_inertia()

    def _check_targets(self) -> None:
        types = self.target_types
        if isinstance(types, str) or not types or not set(types) <= set(TARGET_DIMS):
            raise UsageError(f"target_types: expected some of {', '.join(TARGET_DIMS)}, got {types!r}")
        if len(set(types)) < len(types) or {"pose_abs", "pose_rel"} <= set(types):
            raise UsageError(f"target_types: expected at most one pose and one wrench, got {types!r}")

    def _check_axes(self) -> None:
        for name in ("motion_control_axes_task", "contact_wrench_control_axes_task"):
            axes = getattr(self, name)
            if np.shape(axes) != (6,) or not np.isin(axes, (0, 1)).all():
                raise UsageError(f"{name}: expected six times 0 or 1, got {axes!r}")
        if self.controls_motion and not np.any(self.motion_control_axes_task):
            raise UsageError("motion_control_axes_task: expected at least one axis for the pose among target_types")
        if self.controls_wrench != bool(np.any(self.contact_wrench_control_axes_task)):
            raise UsageError(
                "contact_wrench_control_axes_task: expected axes if, and only if, wrench_abs is among target_types, "
                f"got {self.contact_wrench_control_axes_task!r} and {self.target_types!r}"
            )
        if self.contact_wrench_stiffness_task is not None and not self.controls_wrench:
            raise UsageError("contact_wrench_stiffness_task: expected only with wrench_abs among target_types")

    def _check_inertia(self) -> None:
        low_high = self.inertia_conditioning_thresholds
        if np.shape(low_high) != (2,) or not 0.0 < low_high[0] < low_high[1] <= 1.0:
            raise UsageError(f"inertia_conditioning_thresholds: expected 0 < low < high <= 1, got {low_high!r}")
        if self.partial_inertial_dynamics_decoupling and not self.inertial_dynamics_decoupling:
            raise UsageError("partial_inertial_dynamics_decoupling: expected only with inertial_dynamics_decoupling")
        if self.nullspace_control != "none" and self.fully_decoupled and not self.controls_motion:
            raise UsageError(
                "nullspace_control: with full decoupling expected only with a pose among target_types; "
                "without decoupling a wrench will do"
            )

    @property
    def controls_motion(self) -> bool:
        """Whether there is a pose among the targets."""
        return bool({"pose_abs", "pose_rel"} & set(self.target_types))

    @property
    def controls_wrench(self) -> bool:
        """Whether there is a wrench among the targets."""
        return "wrench_abs" in self.target_types

    @property
    def fully_decoupled(self) -> bool:
        """Whether the arm's inertia is made up for with all that its axes do to each other."""
        return self.inertial_dynamics_decoupling and not self.partial_inertial_dynamics_decoupling

    @property
    def action_dim(self) -> int:
        """Numbers of a command: the targets', then 6 stiffnesses, then 6 damping ratios, as the mode has them."""
        gains = {"fixed": 0, "variable_kp": 6, "variable": 12}[self.impedance_mode]
        return sum(TARGET_DIMS[kind] for kind in self.target_types) + gains
