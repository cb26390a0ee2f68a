"""Files that a command makes: whole or not at all, and never in place of another unless asked to."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

from firmware_profiles.errors import OutputError


@contextlib.contextmanager
def new_file(path: Path, *, force: bool) -> Iterator[Path]:
    """The path of an empty file to write, which takes its real name when the block ends well, and is gone if not.

    Raises:
        OutputError: the file exists and `force` does not say to replace it, or it cannot be written.
    """
    _refuse_existing(path, force=force)
    try:
        fd, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    except (OSError, ValueError) as error:
        raise _unwritable(path, error) from None
    os.fchmod(fd, 0o666 & ~_umask())
    os.close(fd)
    unfinished = Path(name)
    try:
        yield unfinished
        _refuse_existing(path, force=force)
        unfinished.replace(path)
    except OSError as error:
        raise _unwritable(path, error) from None
    finally:
        unfinished.unlink(missing_ok=True)


def _refuse_existing(path: Path, *, force: bool) -> None:
    if path.is_dir():
        raise OutputError(f"{path}: is a directory; name a file")
    if path.exists() and not force:
        raise OutputError(f"{path}: exists; name another file, or --force to replace it")


def _unwritable(path: Path, error: Exception) -> OutputError:
    return OutputError(f"{path}: cannot be written: {getattr(error, 'strerror', None) or error}")


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
