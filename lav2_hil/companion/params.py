"""What a companion computer is told to do, as a session's header holds it."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

TaskName = Literal["stow", "wall_inspection"]


class CompanionParams(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The task of the arm's companion computer.

    Attributes:
        task: `stow` keeps the arm put away; `wall_inspection` presses it on a wall.
        force_n: to press with [N].
        hold_s: for how long, without a break [s].
        tolerance_n: how far the force may be off meanwhile [N].
    """

    task: TaskName = "stow"
    force_n: Annotated[float, msgspec.Meta(ge=1.0, le=10.0)] = 3.0
    hold_s: Annotated[float, msgspec.Meta(ge=0.0, le=60.0)] = 10.0
    tolerance_n: Annotated[float, msgspec.Meta(gt=0.0)] = 1.0
