"""An end-effector on springs and dampers: operational-space control without the arm's inertia."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy.typing as npt

from twin.control.arrays import Arrays
from twin.control.task_space.joint_impedance_config import ImpedanceMode
from twin.control.task_space.operational_space import OperationalSpaceController
from twin.control.task_space.osc_config import OperationalSpaceConfig


class TaskSpaceImpedanceController(OperationalSpaceController):
    """tau = J^T (K (x_d - x) - D v) [+ g], D = 2 sqrt(K) zeta: the forces of springs and dampers on a mass of 1.

    The arm's own inertia is what it is, so zeta is the damping ratio of an end-effector of 1 kg and 1 kg m^2. Called as
    its base class is; of the state it takes the Jacobian, pose and velocity, and the gravity if that is compensated.

    Args:
        dof: number of joints, n.
        target_type: `pose_abs` or `pose_rel`.
        impedance_mode: `fixed`; `variable_kp`, where a command brings six stiffnesses; `variable`, where it brings
            damping ratios, too.
        stiffness: K [N/m, N m/rad], of `fixed`; one number or six, along the task frame's axes.
        damping_ratio: zeta, of `fixed` and `variable_kp`.
        axes: 1 where there are springs and dampers, 0 where the end-effector is free.
        stiffness_limits: least and largest K that a command may bring.
        damping_ratio_limits: the same of zeta.
        gravity_compensation: the arm's weight is carried.
        arrays: where the arrays live; by default NumPy, float64, one world.

    Raises:
        UsageError: a value outside of its range, named as in `OperationalSpaceConfig`.
    """

    def __init__(
        self,
        dof: int,
        *,
        target_type: Literal["pose_abs", "pose_rel"] = "pose_abs",
        impedance_mode: ImpedanceMode = "fixed",
        stiffness: npt.ArrayLike = 100.0,
        damping_ratio: npt.ArrayLike = 1.0,
        axes: Sequence[float] = (1, 1, 1, 1, 1, 1),
        stiffness_limits: tuple[float, float] = (0.0, 1000.0),
        damping_ratio_limits: tuple[float, float] = (0.0, 100.0),
        gravity_compensation: bool = False,
        arrays: Arrays | None = None,
    ) -> None:
        config = OperationalSpaceConfig(
            (target_type,),
            motion_control_axes_task=axes,
            gravity_compensation=gravity_compensation,
            impedance_mode=impedance_mode,
            motion_stiffness_task=stiffness,
            motion_damping_ratio_task=damping_ratio,
            motion_stiffness_limits_task=stiffness_limits,
            motion_damping_ratio_limits_task=damping_ratio_limits,
        )
        super().__init__(config, dof, arrays=arrays)
