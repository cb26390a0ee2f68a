"""Where a run is recorded: the session file is made before the run begins, and never one that is there already."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

from bridge.session_io import Notice
from firmware_profiles.errors import OutputError
from lav2_hil.session.header import Header
from lav2_hil.session.recorder import SessionRecorder
from twin.twin import Twin


def start_recording(path: Path | None, header: Header, twin: Twin, failed: Callable[[Notice], None]) -> SessionRecorder:
    """Make the session file and start its recorder.

    Args:
        path: of the file; None makes a name in the working directory.
        header: of the session.
        twin: whose truth is recorded.
        failed: told if the recording ends before the run.

    Raises:
        OutputError: the file cannot be made, or exists.
    """
    if path is not None:
        return SessionRecorder(path, _create(path), header, twin, failed)
    for name in _names(header.name, header.started_utc):
        try:
            fd = _create(name)
        except _ExistsError:
            continue  # another run that began in the same second
        return SessionRecorder(name, fd, header, twin, failed)
    raise AssertionError("there is always another name")


class _ExistsError(OutputError):
    """A file is there already."""


def _create(path: Path) -> int:
    try:
        return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
    except FileExistsError:
        what = "is a directory" if path.is_dir() else "exists, and a session never replaces a file"
        raise _ExistsError(f"--session {path}: it {what}; name another file") from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise OutputError(f"--session {path}: {reason}; name another file, or --no-session") from None


def _names(vehicle: str, started_utc: datetime) -> Iterator[Path]:
    stem = f"lav2-hil-{started_utc.astimezone(UTC):%Y%m%dT%H%M%SZ}-{re.sub(r'[^A-Za-z0-9_-]', '_', vehicle)}"
    yield Path(f"{stem}.mcap")
    number = 2
    while True:
        yield Path(f"{stem}-{number}.mcap")
        number += 1
