"""The report of a replay, on results that are made up."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from session_files import header

from lav2_hil.session.check import ReplayResult
from lav2_hil.session.compare import Comparison, CourseDifference, FieldDifference
from lav2_hil.session.reader import Session
from lav2_hil.session.replay import Outcome
from lav2_hil.session.report import MOST_LINES, document_of, lines_of
from lav2_hil.session.tolerances import EXACT, Tolerance
from lav2_hil.session.vehicle import ProfileChange, Vehicle


def result(
    comparison: Comparison, *, why: tuple[str, ...] = (), changes: tuple[ProfileChange, ...] = ()
) -> ReplayResult:
    head = header()
    comparison.ticks = 500
    session = Session(head, 5, end={})
    vehicle = Vehicle(head.profile, "profile lav2", None, changes)
    return ReplayResult(Path("f.mcap"), session, vehicle, why, Outcome([], [], [], None), comparison)


def difference(name: str, tolerance: Tolerance = EXACT, error: float | None = 0.5) -> FieldDifference:
    return FieldDifference(name, tolerance, 1_250_000, 1.0, 1.5, 3, error, 2_000_000)


def test_it_says_which_comparison_it_was_and_why() -> None:
    assert "compared bit for bit" in lines_of(result(Comparison(exact=True)))[1]
    line = lines_of(result(Comparison(exact=False, identical=False), why=("numpy was 1 and is 2 here", "x")))[1]
    assert line.strip() == "compared within tolerances, not bit for bit: numpy was 1 and is 2 here; x"
    line = lines_of(result(Comparison(exact=False), why=("x",)))[1]
    assert line.endswith("all the same no bit differs")


def test_one_difference_is_told_in_two_lines() -> None:
    comparison = Comparison(
        exact=False, differences={"HIL_SENSOR.xacc": difference("HIL_SENSOR.xacc", Tolerance(0.15))}
    )
    lines = lines_of(result(comparison))
    assert lines[0] == "f.mcap: NOT as recorded"
    assert lines[3] == "  first difference: HIL_SENSOR.xacc at 1.250 s: recorded 1.0, now 1.5"
    assert lines[4] == "    its largest error: 0.5 at 2.000 s (allowed 0.15)"
    assert len(lines) == 5


def test_many_differences_are_a_table_that_ends() -> None:
    names = [f"truth.f{number}" for number in range(30)]
    comparison = Comparison(exact=True, differences={name: difference(name) for name in names})
    lines = lines_of(result(comparison))
    assert "  30 fields differ:" in lines
    rows = [line.split() for line in lines if line.strip().startswith("truth.")]
    assert rows[0] == ["truth.f0", "3", "1.250", "s", "0.5", "2.000", "s"]
    assert len(rows) == MOST_LINES
    assert lines[-1] == "    and 10 more"
    assert len(document_of(result(comparison))["differences"]) == 30


def test_another_course_is_told_with_what_was_to_come_and_what_came() -> None:
    course = CourseDifference(3_000_000, "a frame HIL_GPS", "the end")
    lines = lines_of(result(Comparison(exact=True, course=course)))
    assert "  first difference: the course, at 3.000 s: recorded a frame HIL_GPS, now the end" in lines
    document = document_of(result(Comparison(exact=True, course=course)))
    assert document["course"] == {"time_us": 3_000_000, "recorded": "a frame HIL_GPS", "now": "the end"}
    assert not document["equal"]


def test_changes_of_the_profile_stand_above_the_differences() -> None:
    changes = (ProfileChange("vehicle.body.mass_kg", 2.2, 2.3), ProfileChange("vehicle.new", None, 1))
    comparison = Comparison(exact=True, differences={"truth.digest": difference("truth.digest", error=None)})
    lines = lines_of(result(comparison, changes=changes))
    assert lines[3:6] == [
        "  the profile has changed in 2 values:",
        "    vehicle.body.mass_kg: recorded 2.2, now 2.3",
        "    vehicle.new: recorded nothing, now 1",
    ]
    assert lines[6].startswith("  first difference: truth.digest")


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_the_document_is_json_whatever_the_values_are(value: float) -> None:
    made = difference("HIL_SENSOR.xacc", error=value)
    made.now = value
    text = json.dumps(document_of(result(Comparison(exact=True, differences={made.field: made}))), allow_nan=False)
    assert json.loads(text)["differences"][0]["now"] == str(value)
