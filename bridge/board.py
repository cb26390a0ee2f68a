"""Prepares a board for HITL and puts it back: plan, link and disk brought together.

The order is what makes it safe. Everything is read, the caller's safety check sees it, the backup and the journal are
on the disk, and only then is the first parameter set. Each step may be the last one: the next run reads the journal and
the board, and does what is left.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from bridge.board_journal import (
    Journal,
    Phase,
    journal_path,
    read_backup,
    read_journal,
    set_phase,
    write_backup,
    write_journal,
)
from bridge.board_link import BoardLink, Found
from bridge.board_plan import (
    decide_restoration,
    make_plan,
    simulated_outputs,
    still_to_set,
    wanted_names,
    without_counters,
)
from bridge.params_client import ParamsClient
from firmware_profiles.errors import LinkUnavailableError, NoInputError, RefusedError
from firmware_profiles.profile import VehicleProfile
from firmware_profiles.px4_params import Value, differences, shown

RESTART_S = 90.0
"""A board is given so long to restart; long enough to pull its plug."""
BOOTS = 2
"""So often is a board restarted before it is given up: some set a parameter themselves when they boot."""

Check = Callable[[Mapping[str, Value], str | None], None]
"""The safety check: is given the board's parameters and the prefix of its simulated outputs; raises to refuse."""


class Reporter(Protocol):
    """Who is told."""

    def say(self, text: str) -> None:
        """Something happened."""

    def progress(self, done: int, total: int) -> None:
        """So many of so many parameters have come."""


@dataclass(slots=True)
class Report:
    """What was done.

    Attributes:
        board: who it was.
        set: what was changed, and to which value.
        kept: what differs from the backup and was left alone: (backup's, board's).
        restarted: whether the board was restarted.
    """

    board: Found
    backup: str
    phase: str
    set: dict[str, Value] = field(default_factory=dict)
    kept: dict[str, tuple[Value, Value]] = field(default_factory=dict)
    restarted: bool = False

    def as_table(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "board": {"system": self.board.system, "uid": self.board.uid, "release": self.board.release},
            "backup": self.backup,
            "phase": self.phase,
            "set": self.set,
            "kept": {name: {"backup": old, "board": now} for name, (old, now) in self.kept.items()},
            "restarted": self.restarted,
        }


async def prepare(
    link: BoardLink, profile: VehicleProfile, backup: Path | None, check: Check, reporter: Reporter
) -> Report:
    """Make a board ready to fly a profile in HITL.

    Args:
        link: open.
        profile: the vehicle.
        backup: where to save what is on the board; None is a file of the board's name in the working directory.
        check: refuses what is not safe, before anything is changed.
        reporter: is told.

    Raises:
        RefusedError: the check, the firmware, an armed vehicle, or a backup that is another's.
        LinkUnavailableError: no board, or it does not answer.
    """
    board, client, values = await _look(link, wanted_names(profile), reporter)
    simulated = simulated_outputs(values, board.simulated)
    check(values, simulated)
    plan = make_plan(profile, values, simulated)
    path = backup or default_backup(board)
    journal = _journal_of(path, board, profile, plan)
    if journal is None:
        if values["SYS_HITL"] != 0:
            reporter.say(f"SYS_HITL is {values['SYS_HITL']} already: the backup is of a board in HITL")
        journal = _begin(path, board, profile, plan, values)
        reporter.say(f"{len(values)} parameters saved in {path}")
    elif journal.phase is Phase.PREPARING:
        reporter.say(f"going on with the preparation that {path} is of")
    report = Report(board, str(path), journal.phase)
    for _ in range(BOOTS):
        left = still_to_set(plan, values)
        if not left and journal.phase is Phase.PREPARED:
            report.phase = journal.phase
            return report
        journal = set_phase(path, journal, Phase.PREPARING)
        await _set(client, left, report)
        await _restart(link, report, reporter)
        values = await client.read(plan)
        if not still_to_set(plan, values):
            journal = set_phase(path, journal, Phase.PREPARED)
    left = still_to_set(plan, values)
    if left:
        raise RefusedError(f"after its restart the board does not have {', '.join(left)}; {path} is the backup")
    report.phase = journal.phase
    return report


async def restore(link: BoardLink, backup: Path, reporter: Reporter, *, force: bool = False) -> Report:
    """Put back what prepare and HITL have changed on a board.

    Args:
        link: open.
        backup: what prepare saved.
        reporter: is told.
        force: put back everything else that differs, too.

    Raises:
        NoInputError, DataError: backup or journal are missing or damaged.
        RefusedError: an armed vehicle, or another board.
        LinkUnavailableError: no board, or it does not answer.
    """
    journal = read_journal(backup)
    saved = read_backup(backup, journal)
    if journal is None:
        raise NoInputError(
            f"{journal_path(backup)}: missing; it was written beside the backup and says what prepare set"
        )
    board, client, values = await _look(link, saved, reporter)
    _check_board(backup, journal, board)
    report = Report(board, str(backup), journal.phase)
    decided = decide_restoration(saved, journal.plan, values, force=force)
    if decided.write or journal.phase is not Phase.RESTORED:
        journal = set_phase(backup, journal, Phase.RESTORING)
        for _ in range(BOOTS):
            await _set(client, decided.write, report)
            await _restart(link, report, reporter)
            values = await _all(client, saved, reporter)
            decided = decide_restoration(saved, journal.plan, values, force=force)
            if not decided.write:
                break
        else:
            raise RefusedError(f"after its restart the board does not keep {', '.join(decided.write)} of {backup}")
        journal = set_phase(backup, journal, Phase.RESTORED)
    report.kept = decided.kept
    report.phase = journal.phase
    return report


def default_backup(board: Found) -> Path:
    """The backup's place when none was given: one that goes on, or the first that is free."""
    name = f"lav2-hil-{board.uid or f'system{board.system}'}"
    number = 1
    while True:
        path = Path(f"{name}-{number}.params")
        journal = read_journal(path)
        if journal is None or journal.phase is not Phase.RESTORED:
            return path
        number += 1


async def _look(
    link: BoardLink, names: Mapping[str, Value] | list[str], reporter: Reporter
) -> tuple[Found, ParamsClient, dict[str, Value]]:
    board = await link.find()
    if board.armed:
        raise RefusedError("the vehicle is armed: land and disarm it first")
    client = ParamsClient(link, board)
    return board, client, await _all(client, names, reporter)


async def _all(client: ParamsClient, names: Mapping[str, Value] | list[str], reporter: Reporter) -> dict[str, Value]:
    """What the board lists, and those of some names that it has without listing them."""
    values = await client.download(reporter.progress)
    return values | await client.read([name for name in names if name not in values and "*" not in name])


def _journal_of(path: Path, board: Found, profile: VehicleProfile, plan: dict[str, Value]) -> Journal | None:
    journal = read_journal(path)
    if journal is None:
        return None
    read_backup(path, journal)  # what cannot be restored is not to be built upon
    _check_board(path, journal, board)
    if journal.phase in (Phase.RESTORING, Phase.RESTORED):
        doing = "a restore was interrupted" if journal.phase is Phase.RESTORING else "it has been restored"
        raise RefusedError(f"{path}: {doing}; run board restore --backup {path}, or name another --backup")
    if journal.profile != profile.name:
        raise RefusedError(
            f"{path}: the board is prepared for {journal.profile}; run board restore --backup {path} first"
        )
    if differences(journal.plan, plan):
        raise RefusedError(
            f"{path}: {profile.name} is not what it was when the board was prepared for it; run board restore "
            f"--backup {path} first"
        )
    return journal


def _check_board(path: Path, journal: Journal, board: Found) -> None:
    if journal.uid and board.uid and journal.uid != board.uid:
        raise RefusedError(f"{path} is of another board ({journal.uid}), this is {board.uid}")


def _begin(
    path: Path, board: Found, profile: VehicleProfile, plan: dict[str, Value], values: dict[str, Value]
) -> Journal:
    if path.exists():
        # Written by a run that ended before the board was touched, or somebody's own file.
        found = read_backup(path, None)
        changed = without_counters(differences(found, values))
        if changed:
            raise RefusedError(
                f"{path} exists, has no journal and is not what is on the board ({len(changed)} parameters, "
                f"{changed[0]} first); name another --backup"
            )
    remarks = (f"PX4 {board.release} {board.uid}".strip(), f"saved by lav2-hil before HITL as {profile.name}")
    digest = write_backup(path, values, board.system, remarks)
    journal = Journal(Phase.PREPARING, profile.name, board.uid, plan, digest)
    write_journal(path, journal)
    return journal


async def _set(client: ParamsClient, values: Mapping[str, Value], report: Report) -> None:
    for name, value in values.items():
        await client.set(name, value)
        report.set[name] = value


async def _restart(link: BoardLink, report: Report, reporter: Reporter) -> None:
    reporter.say("restarting the board")
    await link.restart(RESTART_S, lambda why: reporter.say(f"{why}: unplug it and plug it in again; waiting"))
    board = await link.find()
    if report.board.uid and board.uid != report.board.uid:
        raise LinkUnavailableError(f"another board came back: {board.uid} instead of {report.board.uid}")
    report.restarted = True


def differences_shown(found: Mapping[str, tuple[Value | None, Value | None]]) -> list[str]:
    """Differences as lines for people: name, one side, the other."""
    return [
        f"{name:<17} {'-' if a is None else shown(a):>14} {'-' if b is None else shown(b):>14}"
        for name, (a, b) in found.items()
    ]
