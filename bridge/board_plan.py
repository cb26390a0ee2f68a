"""What to change on a board, and what to change back: decisions over tables of parameters, without a link."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from firmware_profiles.errors import RefusedError
from firmware_profiles.hitl import (
    CHANGES_BY_ITSELF,
    HITL_SIDE_EFFECTS,
    SIMULATED_ON_BOARD,
    SIMULATED_ON_POSIX,
    function_names,
    hitl_parameters,
    matches,
)
from firmware_profiles.profile import VehicleProfile
from firmware_profiles.px4_params import Value, as_typed, differences, same

OUTPUT_FUNCTIONS = (
    *function_names(SIMULATED_ON_BOARD, 16),
    *function_names("PWM_MAIN", 8),
    *function_names("PWM_AUX", 8),
)
"""What the outputs of a board are told to do, simulated and real."""

LAST = ("SYS_AUTOSTART", "SYS_HITL")
"""What makes the next boot a HITL boot is set last: a board that loses power halfway still is what it was."""


def wanted_names(profile: VehicleProfile) -> list[str]:
    """What must be known of a board beside what it lists: PX4 lists only what is in use."""
    return [*hitl_parameters(profile, SIMULATED_ON_BOARD), *OUTPUT_FUNCTIONS, *HITL_SIDE_EFFECTS]


def simulated_outputs(board: Mapping[str, Value], is_posix: bool) -> str | None:
    """Prefix of the outputs that HITL drives; None on a PX4 without control allocation.

    Raises:
        RefusedError: there are none in this firmware.
    """
    if f"{SIMULATED_ON_BOARD}_FUNC1" in board:
        return SIMULATED_ON_BOARD
    if "CA_AIRFRAME" not in board:
        return None
    if is_posix and f"{SIMULATED_ON_POSIX}_FUNC1" in board:
        return SIMULATED_ON_POSIX
    raise RefusedError(
        "this firmware has no outputs for HITL (HIL_ACT_FUNC1 is missing): PX4 leaves pwm_out_sim out on many boards; "
        "build it with CONFIG_MODULES_SIMULATION_PWM_OUT_SIM=y"
    )


def make_plan(profile: VehicleProfile, board: Mapping[str, Value], simulated: str | None) -> dict[str, Value]:
    """What the board must have to fly a profile in HITL, in the board's types and in the order of setting.

    Raises:
        RefusedError: the firmware lacks some of them.
        ProfileError: the profile does not go with this PX4.
    """
    wanted = hitl_parameters(profile, simulated)
    missing = [name for name in wanted if name not in board]
    if missing:
        raise RefusedError(f"this firmware lacks {', '.join(missing)}: {profile.name} cannot fly in HITL on it")
    plan: dict[str, Value] = {}
    for name in sorted(wanted, key=lambda name: (name in LAST, name)):
        value = as_typed(wanted[name], board[name])
        if value is None:
            raise RefusedError(f"{name} is an integer on this board, and {profile.name} wants {wanted[name]}")
        plan[name] = value
    return plan


def still_to_set(plan: Mapping[str, Value], board: Mapping[str, Value]) -> dict[str, Value]:
    """What of a plan the board does not have yet, in the plan's order."""
    return {name: value for name, value in plan.items() if name not in board or not same(board[name], value)}


@dataclass(frozen=True, slots=True)
class Restoration:
    """What a restore does with each difference between backup and board.

    Attributes:
        write: goes back to the backup's value, in this order.
        kept: neither the backup's value nor prepare's: (backup's, board's).
    """

    write: dict[str, Value]
    kept: dict[str, tuple[Value, Value]]


def decide_restoration(
    backup: Mapping[str, Value], plan: Mapping[str, Value], board: Mapping[str, Value], *, force: bool = False
) -> Restoration:
    """Sort the differences between backup and board.

    What prepare set, and what HITL changes beside that, goes back; what PX4 changes by itself is no difference; the
    rest is somebody's own change and stays, unless forced. What only one side has is no matter of a restore.
    """
    write: dict[str, Value] = {}
    kept: dict[str, tuple[Value, Value]] = {}
    for name, (old, now) in differences(backup, board).items():
        if old is None or now is None or matches(name, CHANGES_BY_ITSELF):
            continue
        ours = (name in plan and same(now, plan[name])) or _is_side_effect(name, now)
        if ours or force:
            write[name] = old
        else:
            kept[name] = (old, now)
    return Restoration(dict(sorted(write.items(), key=lambda item: (item[0] not in LAST, item[0]))), kept)


def _is_side_effect(name: str, now: Value) -> bool:
    if name.startswith("CAL_"):
        return True
    return matches(name, HITL_SIDE_EFFECTS) and now == 0


def without_counters(names: Collection[str]) -> list[str]:
    """The names of parameters that do not change by themselves."""
    return [name for name in names if not matches(name, CHANGES_BY_ITSELF)]
