"""What the autopilot is doing, and how PX4 names it in HEARTBEAT.custom_mode."""

from __future__ import annotations

from enum import Enum, IntEnum


class Mode(Enum):
    """The autopilot's modes; the value is PX4's (main mode, sub mode)."""

    MANUAL = (1, 0)
    HOLD = (4, 3)
    TAKEOFF = (4, 2)
    LAND = (4, 6)
    OFFBOARD = (6, 0)

    @property
    def custom_mode(self) -> int:
        """HEARTBEAT.custom_mode: sub mode and main mode in the two upper bytes."""
        main, sub = self.value
        return sub << 24 | main << 16

    @classmethod
    def of(cls, main: float, sub: float) -> Mode | None:
        """The mode that PX4 numbers so, if the autopilot has it; POSCTL and ALTCTL are taken as hold."""
        if main in (2, 3):
            return cls.HOLD
        return next((mode for mode in cls if mode.value == (main, sub)), None)


class Result(IntEnum):
    """MAV_RESULT: what became of a command."""

    ACCEPTED = 0
    TEMPORARILY_REJECTED = 1
    DENIED = 2
    UNSUPPORTED = 3


class Landed(Enum):
    """MAV_LANDED_STATE."""

    ON_GROUND = 1
    IN_AIR = 2
    TAKEOFF = 3
    LANDING = 4
