"""Who has a device open, as far as the system lets this user see."""

from __future__ import annotations

import os
from pathlib import Path


def holders(device: str) -> str:
    """The processes that have a device open, as `QGroundControl (pid 4711)`; empty when none can be seen."""
    target = os.path.realpath(device)
    found = [name for process in Path("/proc").glob("[0-9]*") if (name := _holder(process, target))]
    return ", ".join(found)


def _holder(process: Path, target: str) -> str:
    try:
        if any(os.path.realpath(fd) == target for fd in (process / "fd").iterdir()):
            return f"{(process / 'comm').read_text().strip()} (pid {process.name})"
    except OSError:
        pass  # ended meanwhile, or another user's
    return ""
