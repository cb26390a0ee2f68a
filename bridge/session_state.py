"""Where a HIL session stands, and what it has counted."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Phase(Enum):
    """Where the session stands."""

    WAITING = "waiting"
    CALLING = "calling"
    PACED = "paced"
    LOCKSTEP = "lockstep"
    FREE = "free-running"


class PacedReason(Enum):
    """Why ticks follow the wall clock instead of the answers."""

    LEARNING = "learning the reply pattern"
    SILENT = "no reply"
    NO_LOCKSTEP = "flight controller without lockstep"


@dataclass(slots=True)
class SessionStats:
    """Counters since the start, over all connections.

    `skipped` counts the ticks of a free-running session that came too late to be sent.
    `slips` counts the sensors whose answer was expected and came with a later one; they are in `not_expected` too.
    At all times sensors - replies - timeouts - not_expected <= 1.
    """

    sensors: int = 0
    replies: int = 0
    timeouts: int = 0
    not_expected: int = 0
    slips: int = 0
    connections: int = 0
    skipped: int = 0
