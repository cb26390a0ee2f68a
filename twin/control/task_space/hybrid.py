"""Force along some axes, motion along all others: the use of operational-space control on a surface."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
import numpy.typing as npt

from firmware_profiles.errors import UsageError
from twin.control.arrays import Arrays
from twin.control.task_space.joint_impedance_config import ImpedanceMode
from twin.control.task_space.operational_space import OperationalSpaceController
from twin.control.task_space.osc_config import NullspaceControl, OperationalSpaceConfig


class HybridForceMotionController(OperationalSpaceController):
    """Each axis of the task frame is one of force or one of motion; both loops are closed.

    Motion is decoupled by the arm's inertia. A command is a pose, then a wrench (`pose_abs` or `pose_rel`,
    `wrench_abs`), then the gains that the mode has. Called as its base class is.

    Args:
        dof: number of joints, n.
        force_axes: 1 along the axes of force, 0 along those of motion; at least one of each.
        force_gain: K_f, one number or six; None is open loop.
        target_type: of the pose.
        impedance_mode: see `OperationalSpaceConfig`, as for the rest.
        stiffness: of motion [1/s^2].
        damping_ratio: of motion.
        partial_decoupling: linear and angular motion each by themselves.
        nullspace_control: `position` for an arm with joints to spare.
        nullspace_stiffness: [1/s^2].
        gravity_compensation: the arm's weight is carried.
        arrays: where the arrays live; by default NumPy, float64, one world.

    Raises:
        UsageError: a value outside of its range, named as in `OperationalSpaceConfig`.
    """

    def __init__(
        self,
        dof: int,
        *,
        force_axes: Sequence[float] = (0, 0, 1, 0, 0, 0),
        force_gain: npt.ArrayLike | None = 0.1,
        target_type: Literal["pose_abs", "pose_rel"] = "pose_abs",
        impedance_mode: ImpedanceMode = "fixed",
        stiffness: npt.ArrayLike = 100.0,
        damping_ratio: npt.ArrayLike = 1.0,
        partial_decoupling: bool = False,
        nullspace_control: NullspaceControl = "none",
        nullspace_stiffness: float = 10.0,
        gravity_compensation: bool = False,
        arrays: Arrays | None = None,
    ) -> None:
        if np.shape(force_axes) != (6,):
            raise UsageError(f"force_axes: expected six times 0 or 1, got {force_axes!r}")
        config = OperationalSpaceConfig(
            (target_type, "wrench_abs"),
            motion_control_axes_task=[1 - axis for axis in force_axes],
            contact_wrench_control_axes_task=force_axes,
            inertial_dynamics_decoupling=True,
            partial_inertial_dynamics_decoupling=partial_decoupling,
            gravity_compensation=gravity_compensation,
            impedance_mode=impedance_mode,
            motion_stiffness_task=stiffness,
            motion_damping_ratio_task=damping_ratio,
            contact_wrench_stiffness_task=force_gain,
            nullspace_control=nullspace_control,
            nullspace_stiffness=nullspace_stiffness,
        )
        super().__init__(config, dof, arrays=arrays)
