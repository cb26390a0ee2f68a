"""A recorded flight as a test: what it is to be compared by, and what to do when it differs.

This module imports nothing that takes time: test modules import it when they are collected.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lav2_hil.session.check import ReplayResult


@dataclass(frozen=True, slots=True)
class ReplayCase:
    """One session that must come out as it was recorded.

    Attributes:
        session: its file; a relative path is seen from the test's file.
        ignore: fields that do not matter: `HIL_GPS.cog`, or all of a group with `truth.vel_enu_m_s` or `HIL_GPS`.
        tolerances: what fields may be off, in their units, by the same names, instead of what holds for them.
        profile: another vehicle than today's of the recorded name: a shipped name, or a path that ends in `.toml`
            and is seen from the test's file.
    """

    session: str | Path
    ignore: tuple[str, ...] = ()
    tolerances: Mapping[str, float] = field(default_factory=dict)
    profile: str | None = None


class NotAsRecordedError(AssertionError):
    """A session did not come out as it was recorded; the message says where and by how much."""


def run_case(case: ReplayCase | str | Path, directory: Path, *, update: bool = False) -> ReplayResult:
    """Replay a case.

    Args:
        case: it, or the path of its session.
        directory: from which relative paths are seen.
        update: accept today's outcome: where anything differs, write it into the session's file. What shadows said
            of the old one is left out then.

    Returns:
        What came out, before any update.

    Warns:
        UserWarning: today's profile of the recorded name cannot be loaded, so that a change of it would not be seen.

    Raises:
        NotAsRecordedError: it differs, or the session is damaged or incomplete, or cannot be brought up to date.
        Lav2HilError: it cannot be replayed at all.
    """
    __tracebackhide__ = True
    from lav2_hil.session.check import check_session
    from lav2_hil.session.report import lines_of

    if not isinstance(case, ReplayCase):
        case = ReplayCase(case)
    profile = case.profile
    if profile is not None and profile.endswith(".toml"):
        profile = str(directory / profile)
    result = check_session(directory / case.session, profile=profile, ignore=case.ignore, tolerances=case.tolerances)
    if result.spoilt is not None:
        raise NotAsRecordedError("\n".join([*lines_of(result), "a test needs a whole session: record it anew"]))
    if result.vehicle.warning is not None:
        warnings.warn(f"{result.path}: {result.vehicle.warning}", stacklevel=2)
    if update:
        _accept(result)
    elif not result.comparison.equal:
        hint = "if this is as it should be: pytest --update-refs accepts it"
        raise NotAsRecordedError("\n".join([*lines_of(result), hint]))
    return result


def _accept(result: ReplayResult) -> None:
    __tracebackhide__ = True
    import msgspec

    from lav2_hil.session.header import cpu_features, versions
    from lav2_hil.session.records import Kind
    from lav2_hil.session.report import lines_of
    from lav2_hil.session.rewrite import write_session

    outcome, session = result.outcome, result.session
    if outcome.stopped is not None:
        hint = "its inputs no longer fit: record the session anew, --update-refs cannot help here"
        raise NotAsRecordedError("\n".join([*lines_of(result), hint]))
    header = msgspec.structs.replace(
        session.header, profile=result.vehicle.profile, versions=versions(), cpu_features=cpu_features()
    )
    if header == session.header and outcome.records == outcome.recorded:
        return
    last_words = [record for record in session.records if record.kind is Kind.END]
    write_session(result.path, header, session.truth_every, [*outcome.records, *last_words])
