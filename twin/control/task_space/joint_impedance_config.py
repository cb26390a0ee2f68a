"""What `JointImpedanceController` is told once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from firmware_profiles.errors import UsageError
from twin.control.arrays import checked

JointCommandType = Literal["p_abs", "p_rel"]
JOINT_COMMAND_TYPES: tuple[JointCommandType, ...] = ("p_abs", "p_rel")
ImpedanceMode = Literal["fixed", "variable_kp", "variable"]
IMPEDANCE_MODES: tuple[ImpedanceMode, ...] = ("fixed", "variable_kp", "variable")


@dataclass(frozen=True, slots=True)
class JointImpedanceConfig:
    """Gains, and what is compensated; arrays broadcast to (N, n). Defaults are Isaac Lab's.

    With `inertial_compensation` stiffness and damping shape an acceleration [1/s^2, 1/s], without it an effort
    [N m/rad, N m s/rad; or N/m, N s/m].

    Attributes:
        impedance_mode: `fixed` has the gains below; in `variable_kp` a command brings stiffnesses, damped critically;
            in `variable` damping ratios, too.
        stiffness: k_p, of `fixed`.
        damping_ratio: zeta in k_d = 2 sqrt(k_p) zeta, of `fixed`.
        command_type: `p_abs` are joint positions, `p_rel` what is added to the present ones.
        inertial_compensation: the effort is what gives the arm the acceleration.
        gravity_compensation: the arm's weight is carried.
        stiffness_limits: least and largest k_p that a command may bring.
        damping_ratio_limits: the same of zeta.
        dof_pos_offset: added to a command of `p_abs` [rad or m]; None is none.

    Raises:
        UsageError: a value outside of its range.
    """

    impedance_mode: ImpedanceMode
    stiffness: npt.ArrayLike
    command_type: JointCommandType = "p_abs"
    damping_ratio: npt.ArrayLike = 1.0
    inertial_compensation: bool = False
    gravity_compensation: bool = False
    stiffness_limits: tuple[float, float] = (0.0, 300.0)
    damping_ratio_limits: tuple[float, float] = (0.0, 100.0)
    dof_pos_offset: npt.ArrayLike | None = None

    def __post_init__(self) -> None:
        if self.impedance_mode not in IMPEDANCE_MODES:
            raise UsageError(f"impedance_mode: {self.impedance_mode!r}; allowed: {', '.join(IMPEDANCE_MODES)}")
        if self.command_type not in JOINT_COMMAND_TYPES:
            raise UsageError(f"command_type: {self.command_type!r}; allowed: {', '.join(JOINT_COMMAND_TYPES)}")
        for name in ("stiffness", "damping_ratio", "stiffness_limits", "damping_ratio_limits"):
            checked(name, getattr(self, name), least=0.0)
        for name in ("stiffness_limits", "damping_ratio_limits"):
            limits = getattr(self, name)
            if np.shape(limits) != (2,) or limits[0] > limits[1]:
                raise UsageError(f"{name}: expected the least and the largest, got {limits!r}")
        if self.dof_pos_offset is not None:
            checked("dof_pos_offset", self.dof_pos_offset)
