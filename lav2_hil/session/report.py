"""The result of a replay, for people and for programs."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from lav2_hil.session.check import ReplayResult
from lav2_hil.session.compare import Comparison, FieldDifference
from lav2_hil.session.fields import Value

MOST_LINES = 20
"""Of a list in a report for people; programs get all of it."""


def lines_of(result: ReplayResult) -> list[str]:
    """The result for people: the verdict, what was compared and how, the first difference, and the rest of them."""
    comparison = result.comparison
    lines = [f"{result.path}: {'as recorded' if comparison.equal else 'NOT as recorded'}", f"  {_how(result)}"]
    lines.append(
        f"  {comparison.inputs} inputs, {comparison.frames} frames, {comparison.truth_samples} truth samples, "
        f"{comparison.notices} notices over {result.simulated_s:.3f} s of simulated time, with {result.vehicle.source}"
    )
    lines += [f"  {text}" for text in (result.spoilt, result.vehicle.warning) if text is not None]
    changes = result.vehicle.changes
    if changes:
        lines.append(f"  the profile has changed in {len(changes)} {'value' if len(changes) == 1 else 'values'}:")
        lines += _limited([f"    {path}: recorded {_shown(old)}, now {_shown(new)}" for path, old, new in changes])
    lines += [f"  {line}" for line in _differences(comparison)]
    return lines


def _how(result: ReplayResult) -> str:
    if result.comparison.exact:
        return "compared bit for bit (cpu features and versions are those of the recording)"
    bits = "; all the same no bit differs" if result.comparison.identical and result.comparison.equal else ""
    return f"compared within tolerances, not bit for bit: {'; '.join(result.why_not_exact)}{bits}"


def _differences(comparison: Comparison) -> Iterator[str]:
    fields, course = list(comparison.differences.values()), comparison.course
    if fields:
        first = fields[0]
        yield f"first difference: {first.field} at {_seconds(first.first_us)}: {_values(first)}"
        if first.largest_error is not None:
            yield f"  its largest error: {first.largest_error:.6g} at {_seconds(first.largest_us)}{_allowed(first)}"
    if course is not None:
        what = "then the course" if fields else "first difference: the course"
        yield f"{what}, at {_seconds(course.sim_us)}: recorded {course.recorded}, now {course.now}"
        yield "  what comes after it cannot be compared"
    if len(fields) > 1:
        yield f"{len(fields)} fields differ:"
        yield f"  {'field':<36} {'times':>7} {'first at':>10} {'largest error':>14} {'at':>10}"
        yield from _limited([f"  {_row(difference)}" for difference in fields])


def _row(difference: FieldDifference) -> str:
    error = "" if difference.largest_error is None else f"{difference.largest_error:.6g}"
    at = "" if difference.largest_error is None else _seconds(difference.largest_us)
    return f"{difference.field:<36} {difference.times:>7} {_seconds(difference.first_us):>10} {error:>14} {at:>10}"


def _values(difference: FieldDifference) -> str:
    return f"recorded {_shown(difference.recorded)}, now {_shown(difference.now)}"


def _allowed(difference: FieldDifference) -> str:
    rule = difference.tolerance
    if not rule.absolute and not rule.relative:
        return ""
    relative = f" + {rule.relative:g} of the value" if rule.relative else ""
    return f" (allowed {rule.absolute:g}{relative})"


def _seconds(time_us: int) -> str:
    return f"{time_us * 1e-6:.3f} s"


def _shown(value: Any) -> str:
    return "nothing" if value is None else str(value)


def _limited(lines: list[str]) -> list[str]:
    more = len(lines) - MOST_LINES
    return lines if more <= 0 else [*lines[:MOST_LINES], f"{lines[0][: -len(lines[0].lstrip())]}and {more} more"]


def document_of(result: ReplayResult) -> dict[str, Any]:
    """The result for programs, to be shown as JSON; times are simulated ones."""
    comparison, course = result.comparison, result.comparison.course
    return {
        "session": str(result.path),
        "equal": comparison.equal,
        "comparison": "exact" if comparison.exact else "tolerance",
        "identical": comparison.equal and comparison.identical,
        "why_not_exact": list(result.why_not_exact),
        "damage": result.session.damage,
        "incomplete_from_us": result.session.incomplete_from_us,
        "simulated_s": round(result.simulated_s, 6),
        "inputs": comparison.inputs,
        "frames": comparison.frames,
        "truth_samples": comparison.truth_samples,
        "notices": comparison.notices,
        "profile": result.vehicle.source,
        "profile_warning": result.vehicle.warning,
        "profile_changes": [
            {"path": path, "recorded": recorded, "now": now} for path, recorded, now in result.vehicle.changes
        ],
        "differences": [_difference(difference) for difference in comparison.differences.values()],
        "course": None
        if course is None
        else {"time_us": course.sim_us, "recorded": course.recorded, "now": course.now},
    }


def _finite(value: Value | None) -> Value | None:
    """What JSON has no number for, as a word."""
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def _difference(difference: FieldDifference) -> dict[str, Value | None]:
    return {
        "field": difference.field,
        "times": difference.times,
        "first_us": difference.first_us,
        "recorded": _finite(difference.recorded),
        "now": _finite(difference.now),
        "largest_error": _finite(difference.largest_error),
        "largest_error_us": difference.largest_us,
        "tolerance": difference.tolerance.absolute,
        "relative_tolerance": difference.tolerance.relative,
    }
