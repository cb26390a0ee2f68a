"""`lav2-hil replay` as a user meets it."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from replay_rig import beginning, written_beginning

from lav2_hil.cli import main
from lav2_hil.session.reader import read_session
from lav2_hil.session.records import Kind, Record
from lav2_hil.session.replay import replay
from lav2_hil.session.rewrite import write_session


@pytest.fixture
def flight(tmp_path: Path) -> Path:
    return written_beginning(tmp_path, 2.5)


@pytest.fixture
def heavier(tmp_path: Path) -> str:
    path = tmp_path / "heavier.toml"
    path.write_text('extends = "lav2"\n[vehicle.body]\nmass_kg = 2.3\n')
    return str(path)


class Ran:
    def __init__(self, capsys: pytest.CaptureFixture[str], *arguments: str) -> None:
        with pytest.raises(SystemExit) as ended:
            main(["replay", *arguments])
        assert isinstance(ended.value.code, int)
        self.code = int(ended.value.code)
        self.out, self.err = capsys.readouterr()

    @property
    def document(self) -> dict[str, Any]:
        document: dict[str, Any] = json.loads(self.out)
        return document


def test_a_session_as_recorded(flight: Path, capsys) -> None:
    ran = Ran(capsys, str(flight))
    assert (ran.code, ran.err) == (0, "")
    lines = ran.out.splitlines()
    assert lines[0] == f"{flight}: as recorded"
    assert lines[1].strip().startswith("compared ")
    assert len(lines) == 3
    document = Ran(capsys, str(flight), "--json").document
    assert document["equal"]
    assert document["frames"] > 600
    assert document["comparison"] in ("exact", "tolerance")


def test_another_vehicle_fails_and_says_where(flight: Path, heavier: str, capsys) -> None:
    ran = Ran(capsys, str(flight), "--profile", heavier)
    assert ran.code == 1
    assert "vehicle.body.mass_kg: recorded 2.2, now 2.3" in ran.out
    assert "first difference: " in ran.out
    document = Ran(capsys, str(flight), "--profile", heavier, "--json").document
    assert document["differences"][0]["times"] > 1
    assert document["profile_changes"][0] == {"path": "vehicle.body.mass_kg", "recorded": 2.2, "now": 2.3}


def test_the_recorded_vehicle_on_request(flight: Path, heavier: str, capsys) -> None:
    session = read_session(flight)
    header = msgspec.structs.replace(session.header, profile_source=heavier)
    write_session(flight, header, session.truth_every, session.records)
    assert Ran(capsys, str(flight)).code == 1
    assert Ran(capsys, str(flight), "--recorded-profile").code == 0
    Path(heavier).unlink()
    ran = Ran(capsys, str(flight))
    assert ran.code == 0
    assert "replayed with the recorded profile" in ran.err


def test_ignore_and_tolerance(flight: Path, heavier: str, capsys) -> None:
    ignored = ("--ignore", "truth", "--ignore", "HIL_SENSOR", "--ignore", "HIL_GPS")
    assert Ran(capsys, str(flight), "--profile", heavier, *ignored).code == 0
    assert Ran(capsys, str(flight), "--profile", heavier, *ignored[:4], "--tolerance", "HIL_GPS=1e9").code == 0
    assert Ran(capsys, str(flight), "--profile", heavier, *ignored[2:], "--tolerance", "truth=1e-9").code == 1


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--ignore", "HIL_GPS.course"), "HIL_GPS.cog"),
        (("--tolerance", "truth.pos_enu_m"), "expected FIELD=VALUE"),
        (("--tolerance", "truth.pos_enu_m=wide"), "expected FIELD=VALUE"),
        (("--tolerance", "truth.pos_enu_m=-1"), "expected 0 or more"),
        (("--tolerance", "truth.pos_enu_m=nan"), "expected 0 or more"),
        (("--pace", "0"), "expected a factor above 0"),
        (("--pace", "nan"), "expected a factor above 0"),
        (("--pace", "inf"), "expected a factor above 0"),
        (("--profile", "lav2", "--recorded-profile"), "expected one of them"),
    ],
)
def test_wrong_usage_is_one_line(flight: Path, capsys, arguments: tuple[str, ...], said: str) -> None:
    ran = Ran(capsys, str(flight), *arguments)
    assert (ran.code, ran.out) == (2, "")
    assert len(ran.err.splitlines()) == 1
    assert said in ran.err


def test_no_file_no_session_and_no_profile(tmp_path: Path, flight: Path, capsys) -> None:
    junk = tmp_path / "junk.mcap"
    junk.write_bytes(b"junk" * 100)
    for code, arguments in (
        (66, (str(tmp_path / "none.mcap"),)),
        (66, (str(tmp_path),)),
        (65, (str(junk),)),
        (78, (str(flight), "--profile", "nope")),
    ):
        ran = Ran(capsys, *arguments)
        assert (ran.code, ran.out) == (code, "")
        assert len(ran.err.splitlines()) == 1
        assert ran.err.startswith("error: ")


def test_a_cut_file_is_replayed_up_to_the_damage(flight: Path, capsys) -> None:
    flight.write_bytes(flight.read_bytes()[:-200])
    ran = Ran(capsys, str(flight), "--json")
    assert ran.code == 0
    assert len(ran.err.splitlines()) == 1
    assert "damaged" in ran.err
    assert "and no further" in ran.err
    document = ran.document
    assert document["equal"]
    assert 0.5 < document["simulated_s"] < 2.5
    assert document["damage"]


def test_an_incomplete_session_is_replayed_up_to_its_mark_and_not_behind_it(flight: Path, capsys) -> None:
    session = read_session(flight)
    records = session.records
    at = [i for i, record in enumerate(records) if record.kind is Kind.RECEIVED][200]
    lost = Record(Kind.LOST, records[at - 1].time_us, b"")
    write_session(flight, session.header, session.truth_every, [*records[:at], lost, *records[at + 40 :]])
    ran = Ran(capsys, str(flight), "--json")
    assert ran.code == 0
    assert "incomplete" in ran.err
    document = ran.document
    assert document["equal"]
    assert document["incomplete_from_us"] == lost.time_us
    before = sum(record.kind is Kind.SAMPLED for record in records[:at])
    assert before - 2 <= document["simulated_s"] * 250 < before


def test_pace_keeps_the_recorded_times_between_inputs() -> None:
    session = beginning(1.0)
    times = [
        record.time_us for record in session.records if record.kind < Kind.SENT and record.kind is not Kind.SAMPLED
    ]
    now = [100.0]
    slept: list[float] = []

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        now[0] += seconds

    replay(session, pace=2.0, sleep=sleep, clock=lambda: now[0])
    assert len(slept) == len(times)
    gaps = [(b - a) * 1e-6 / 2.0 for a, b in itertools.pairwise(times)]
    assert slept[0] == 0.0
    assert slept[1:] == pytest.approx(gaps, abs=1e-6)


def test_without_pace_nobody_waits() -> None:
    def sleep(seconds: float) -> None:
        raise AssertionError

    replay(beginning(0.5), sleep=sleep)
