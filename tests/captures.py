"""Where recorded PX4 traffic is: a little of it beside the tests, all of it in a folder that need not be there."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

HERE = Path(__file__).parent / "data" / "captures"
ALL = Path(os.environ.get("LAV2_SHARED", Path(__file__).parents[2] / "shared")) / "captures"


def capture(name: str, way: str = "from_px4") -> Path:
    """A tlog by the name of its run; skips the test where it is absent."""
    file = f"{name}_{way}.tlog"
    for folder in (HERE, ALL):
        if (folder / file).exists():
            return folder / file
    pytest.skip(f"no capture {file}: set LAV2_SHARED")
