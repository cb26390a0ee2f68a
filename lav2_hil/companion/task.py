"""What the companion computer's tasks see, and what they order."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np
import numpy.typing as npt

from firmware_profiles.signals import Quat, Vec3
from twin.frames import FRD_OF_FLU, rotation_of_quat

if TYPE_CHECKING:
    from twin.control.task_space.arm_state import ArmState

FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class BasePose:
    """Where the vehicle is, as motion capture sees it.

    Attributes:
        pos_ned: of the body's origin, relative to home [m].
        q_ned_frd: its attitude (w first).
    """

    pos_ned: Vec3
    q_ned_frd: Quat

    @property
    def rotation(self) -> FloatArray:
        """(3, 3) takes body FLU vectors to NED."""
        rotation: FloatArray = rotation_of_quat(np.array((self.q_ned_frd,)))[0] * FRD_OF_FLU
        return rotation


@dataclass(frozen=True, slots=True)
class Situation:
    """What a task knows at a tick.

    Attributes:
        time_us: simulated time.
        arm: its state, of one world.
        base: the vehicle's pose, the newest; None before there is one.
        in_command: the autopilot follows our set-points, as its HEARTBEAT says.
    """

    time_us: int
    arm: ArmState
    base: BasePose | None
    in_command: bool


@dataclass(frozen=True, slots=True)
class SetPoint:
    """Where the vehicle is to be: relative to home [m], and its heading [rad from north]."""

    pos_ned: Vec3
    yaw_ned: float


@dataclass(frozen=True, slots=True)
class Orders:
    """What a task wants until the next tick.

    Attributes:
        torque_nm: (1, J) of the arm's joints [N m].
        set_point: for the vehicle; None where the task leaves it alone.
        hand_back: the autopilot is to take over again.
    """

    torque_nm: FloatArray
    set_point: SetPoint | None = None
    hand_back: bool = False


class Task(Protocol):
    """One thing that a companion computer does, from its start to its end; called at every tick.

    Attributes:
        failure: why it could not be done; None while it can.
    """

    failure: str | None

    def step(self, now: Situation) -> Orders:
        """Look, and decide."""
