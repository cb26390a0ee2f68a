"""A session put to the test: read, replayed, compared."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from firmware_profiles.errors import DataError, UsageError
from lav2_hil.session.compare import Comparison, compare
from lav2_hil.session.fields import check_name
from lav2_hil.session.header import Header
from lav2_hil.session.reader import Session, read_session
from lav2_hil.session.replay import Outcome, replay
from lav2_hil.session.surroundings import differences_from_here
from lav2_hil.session.vehicle import Vehicle, choose_vehicle


@dataclass(frozen=True, slots=True)
class ReplayResult:
    """A session and its replay.

    Attributes:
        path: of the session.
        session: as it was read.
        vehicle: that it was replayed with.
        why_not_exact: what may change the last bits on this computer; empty if the comparison is bit by bit.
        outcome: of the replay.
        comparison: of the outcome with the recorded one.
    """

    path: Path
    session: Session
    vehicle: Vehicle
    why_not_exact: tuple[str, ...]
    outcome: Outcome
    comparison: Comparison

    @property
    def header(self) -> Header:
        """The session's header."""
        return self.session.header

    @property
    def spoilt(self) -> str | None:
        """Why not all of the session could be replayed; None if it could."""
        session, until = self.session, f"replayed up to {self.simulated_s:.3f} s of simulated time, and no further"
        if session.damage is not None:
            return f"damaged: {session.damage}; {until}"
        if session.incomplete_from_us is None:
            return None
        seconds = (session.incomplete_from_us - self.header.started_us) * 1e-6
        return f"incomplete: {seconds:.3f} s after its start inputs are missing; {until}"

    @property
    def simulated_s(self) -> float:
        """Simulated time that was replayed, over all connections [s]."""
        return self.comparison.ticks * self.header.session.period_us * 1e-6


def check_session(
    path: Path,
    *,
    profile: str | None = None,
    recorded_profile: bool = False,
    ignore: Iterable[str] = (),
    tolerances: Mapping[str, float] | None = None,
    pace: float = 0.0,
) -> ReplayResult:
    """Replay a session, and compare the outcome with the recorded one.

    Args:
        path: of the session.
        profile: a shipped name or a path, instead of today's profile of the recorded name.
        recorded_profile: take the one in the file instead.
        ignore: names of fields; see `compare`.
        tolerances: by names of fields; see `compare`.
        pace: see `replay`.

    Raises:
        NoInputError: the file cannot be read.
        DataError: it is no session, or nothing of it can be replayed.
        ProfileError: no such profile.
        UsageError: no such field, or a tolerance that is none.
    """
    ignore, tolerances = tuple(ignore), dict(tolerances or {})
    for name in ignore:
        check_name(name, "--ignore")
    for name, value in tolerances.items():
        check_name(name, "--tolerance")
        if not value >= 0:
            raise UsageError(f"--tolerance {name}={value:g}: expected 0 or more, in the field's unit")
    session = read_session(path)
    vehicle = choose_vehicle(session.header, profile, recorded=recorded_profile)
    outcome = replay(session, vehicle.profile, pace=pace)
    if not outcome.recorded:
        raise DataError(f"{path}: nothing in it can be replayed: {session.damage or 'no input was recorded'}")
    reasons = differences_from_here(session.header)
    comparison = compare(outcome, exact=not reasons, ignore=ignore, tolerances=tolerances)
    return ReplayResult(path, session, vehicle, reasons, outcome, comparison)
