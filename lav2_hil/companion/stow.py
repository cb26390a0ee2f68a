"""Nothing to do: the arm stays put away."""

from __future__ import annotations

import numpy as np

from firmware_profiles.arm import ArmParams
from lav2_hil.companion.arm_control import ArmControl
from lav2_hil.companion.task import Orders, Situation


class Stow:
    """The task of a companion computer that has none.

    Args:
        arm: the arm.

    Attributes:
        failure: None.
    """

    def __init__(self, arm: ArmParams) -> None:
        self.failure: str | None = None
        self._control = ArmControl(arm)
        self._posture = np.array(arm.stowed_rad)

    def step(self, now: Situation) -> Orders:
        """Hold the arm, and leave the vehicle alone."""
        return Orders(self._control.hold(now.arm, self._posture))
