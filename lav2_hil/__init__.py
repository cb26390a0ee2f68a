"""The service: a flight controller on one side, the twin on the other. `lav2_hil.loop` is the file to read first."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path


def _refuse_strangers() -> None:
    """`bridge` and `twin` are names that any package may have: say so when another one is found first."""
    here = Path(__file__).resolve().parent.parent
    for name in ("bridge", "twin", "firmware_profiles"):
        spec = find_spec(name)
        found = Path(spec.origin).resolve().parent if spec is not None and spec.origin else None
        if found != here / name:
            raise ImportError(
                f"the package {name!r} found at {found} is not lav2-hil's, which is in {here}: another distribution "
                "has the same name; install lav2-hil in an environment of its own"
            )


_refuse_strangers()
