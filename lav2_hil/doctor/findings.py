"""A finding: one cause, how it shows, and what to do about it."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from lav2_hil.doctor.complaints import Cause


@dataclass(frozen=True, slots=True)
class Finding:
    """One cause.

    Attributes:
        cause: its name, for machines.
        what: the cause in plain words.
        fix: what to do.
        evidence: what was seen.
        blocks: it keeps the vehicle from arming, or from flying in HITL; else it is a warning.
    """

    cause: Cause
    what: str
    fix: str
    evidence: tuple[str, ...] = ()
    blocks: bool = True

    def as_table(self) -> dict[str, Any]:
        """For JSON."""
        table = asdict(self)
        return table | {"cause": self.cause.value, "severity": "error" if table.pop("blocks") else "warning"}
