"""An end-effector that presses: operational-space control without motion."""

from __future__ import annotations

from collections.abc import Sequence

import numpy.typing as npt

from twin.control.arrays import Arrays
from twin.control.task_space.operational_space import OperationalSpaceController
from twin.control.task_space.osc_config import OperationalSpaceConfig


class ProportionalForceController(OperationalSpaceController):
    """tau = J^T (F_d + K_f (F_d - F)) [+ g], closed over the measured force.

    Against something that does not give way, an arm that would exert s times what it is asked for exerts
    s (1 + K_f) / (1 + s K_f) times that: the error shrinks by 1 + s K_f. What is measured is a step old, so s K_f has
    to be less than 1. In the air nothing holds the arm; the axes along a surface are `HybridForceMotionController`'s.
    Called as its base class is, with `wrench_abs` commands; of the state it takes the Jacobian and the force, and the
    gravity if that is compensated.

    Args:
        dof: number of joints, n.
        gain: K_f, one number or six, along the task frame's axes. 0 is open loop.
        axes: 1 where a wrench is exerted, else 0.
        gravity_compensation: the arm's weight is carried.
        arrays: where the arrays live; by default NumPy, float64, one world.

    Raises:
        UsageError: a value outside of its range, named as in `OperationalSpaceConfig`.
    """

    def __init__(
        self,
        dof: int,
        *,
        gain: npt.ArrayLike,
        axes: Sequence[float] = (1, 1, 1, 1, 1, 1),
        gravity_compensation: bool = False,
        arrays: Arrays | None = None,
    ) -> None:
        config = OperationalSpaceConfig(
            ("wrench_abs",),
            contact_wrench_control_axes_task=axes,
            contact_wrench_stiffness_task=gain,
            gravity_compensation=gravity_compensation,
        )
        super().__init__(config, dof, arrays=arrays)
