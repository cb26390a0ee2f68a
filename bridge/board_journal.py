"""What is known on disk of a board that was prepared: the backup, and beside it what was planned and how far it got.

Both are on the disk (fsync) before the board is touched, and each change of the journal replaces it as a whole, so that
whoever runs next, after a crash or a pulled plug at any point, can go on.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Any

from firmware_profiles.errors import DataError, NoInputError, OutputError
from firmware_profiles.px4_params import ParamFile, Value, format_params, parse_params

_VERSION = 1


class Phase(StrEnum):
    """How far a board has got."""

    PREPARING = "preparing"
    PREPARED = "prepared"
    RESTORING = "restoring"
    RESTORED = "restored"


@dataclass(frozen=True, slots=True)
class Journal:
    """What goes with a backup.

    Attributes:
        phase: how far it has got.
        profile: the vehicle that the board was prepared for.
        uid: the board's hardware id; empty when it has none.
        plan: what prepare sets.
        backup_sha256: of the backup's bytes.
    """

    phase: Phase
    profile: str
    uid: str
    plan: dict[str, Value]
    backup_sha256: str


def journal_path(backup: Path) -> Path:
    """Where the journal of a backup is."""
    return backup.with_name(f"{backup.name}.journal.json")


def write_backup(path: Path, values: Mapping[str, Value], system: int, remarks: tuple[str, ...]) -> str:
    """Write a backup; gives its checksum.

    Raises:
        OutputError: it cannot be written.
    """
    data = format_params(ParamFile(dict(values), system), remarks).encode()
    _write(path, data)
    return hashlib.sha256(data).hexdigest()


def read_backup(path: Path, journal: Journal | None) -> dict[str, Value]:
    """A backup's parameters.

    Raises:
        NoInputError: there is none.
        DataError: it is damaged, or not the one that its journal goes with.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise NoInputError(f"{path}: {error.strerror or error}") from None
    try:
        values = parse_params(data).values
    except DataError as error:
        raise DataError(f"{path}: {error}") from None
    if journal is not None and hashlib.sha256(data).hexdigest() != journal.backup_sha256:
        raise DataError(f"{path}: changed since prepare wrote it; restore takes the backup as it was")
    return values


def write_journal(backup: Path, journal: Journal) -> None:
    """Put a backup's journal on the disk.

    Raises:
        OutputError: it cannot be written.
    """
    table = {
        "version": _VERSION,
        "phase": journal.phase.value,
        "profile": journal.profile,
        "uid": journal.uid,
        "plan": journal.plan,
        "backup_sha256": journal.backup_sha256,
    }
    _write(journal_path(backup), json.dumps(table, indent=1).encode())


def read_journal(backup: Path) -> Journal | None:
    """A backup's journal, or None when there is none.

    Raises:
        DataError: it is damaged.
    """
    path = journal_path(backup)
    try:
        table = json.loads(path.read_bytes())
        return _journal(table)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise NoInputError(f"{path}: {error.strerror or error}") from None
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise DataError(f"{path}: damaged ({type(error).__name__}: {error})") from None


def set_phase(backup: Path, journal: Journal, phase: Phase) -> Journal:
    """Note that a board has got further."""
    journal = replace(journal, phase=phase)
    write_journal(backup, journal)
    return journal


def _journal(table: dict[str, Any]) -> Journal:
    if table["version"] != _VERSION:
        raise ValueError(f"version {table['version']}, expected {_VERSION}")
    plan = table["plan"]
    if not all(type(value) in (int, float) for value in plan.values()):
        raise ValueError("a planned value is no number")
    texts = {name: str(table[name]) for name in ("profile", "uid", "backup_sha256")}
    return Journal(phase=Phase(table["phase"]), plan=dict(plan), **texts)


def _write(path: Path, data: bytes) -> None:
    """Replace a file by one that is on the disk as a whole."""
    unfinished = path.with_name(f".{path.name}.unfinished")
    try:
        with unfinished.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        unfinished.replace(path)
        folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
    except OSError as error:
        raise OutputError(f"{path}: {error.strerror or error}") from None
