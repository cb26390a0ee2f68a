"""What the doctor found, for people and for machines."""

from __future__ import annotations

from typing import Any

from lav2_hil.doctor.findings import Finding
from lav2_hil.doctor.observation import Observation


def as_table(seen: Observation, findings: list[Finding]) -> dict[str, Any]:
    """For JSON."""
    return {
        "endpoint": seen.address,
        "release": _release(seen),
        "simulated": seen.simulated,
        "in_hil": seen.in_hil,
        "armed": seen.armed,
        "can_arm": seen.can_arm,
        "uptime_s": seen.uptime_s,
        "listened_s": round(seen.seconds, 1),
        "parameters": seen.parameters,
        "healthy": not findings,
        "findings": [finding.as_table() for finding in findings],
    }


def lines_of(seen: Observation, findings: list[Finding]) -> list[str]:
    """For people."""
    kind = "SITL" if seen.simulated else "a board" if seen.is_board else "no PX4 hardware"
    mode = ", in HITL" if seen.in_hil else ""
    lines = [f"PX4 {_release(seen) or 'of unknown release'} at {seen.address}: {kind}{mode}"]
    if seen.armed:
        lines.append("it is armed: only listened, its checks are not run while armed")
    if not findings:
        ready = "nothing is wrong" if seen.can_arm is not False or seen.armed else "nothing found"
        return [*lines, f"{ready}: listened for {seen.seconds:.0f} s; it was not tried to arm"]
    for number, finding in enumerate(findings, 1):
        lines += ["", f"{number}. {'' if finding.blocks else '(warning) '}{finding.what}"]
        lines += [f"     {line}" for line in finding.evidence]
        lines.append(f"   -> {finding.fix}")
    return lines


def _release(seen: Observation) -> str:
    return ".".join(map(str, seen.release))
