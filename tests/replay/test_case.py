"""Sessions as test cases: what passes, what fails and how it reads, and how today's outcome is accepted."""

from __future__ import annotations

import random
import stat
from pathlib import Path

import msgspec
import pytest
from replay_rig import DEMO, beginning, written_beginning

from firmware_profiles.errors import DataError, Lav2HilError, NoInputError, OutputError
from lav2_hil.session.case import NotAsRecordedError, ReplayCase, run_case
from lav2_hil.session.header import versions
from lav2_hil.session.reader import read_session
from lav2_hil.session.records import Kind, Record
from lav2_hil.session.rewrite import write_session

THRUST = "vehicle.propeller.thrust_coefficient_n_s2"
RECORDED_THRUST = 1.1529035793718415e-05


@pytest.fixture
def flight(tmp_path: Path) -> Path:
    """A file with the first seconds of the demo flight, in which the rotors spin up."""
    return written_beginning(tmp_path, 3.0)


@pytest.fixture
def heavier(tmp_path: Path) -> Path:
    """lav2 with one rotor constant changed by 0.1 %."""
    path = tmp_path / "changed.toml"
    path.write_text(f'extends = "lav2"\n[vehicle.propeller]\nthrust_coefficient_n_s2 = {RECORDED_THRUST * 1.001!r}\n')
    return path


def test_a_session_written_at_once_reads_as_it_was(flight: Path) -> None:
    session, again = beginning(3.0), read_session(flight)
    assert again.records == session.records
    assert again.header == session.header
    assert (again.damage, again.incomplete_from_us, again.end) == (None, None, {"ended_by": "test"})


def test_an_unchanged_flight_passes_by_its_path_and_as_a_case(flight: Path) -> None:
    before = flight.read_bytes()
    for case in (flight.name, Path(flight.name), ReplayCase(flight.name)):
        result = run_case(case, flight.parent)
        assert result.comparison.equal
        assert result.comparison.frames > 700
        assert result.comparison.truth_samples >= 150
    assert run_case(flight, Path("/nowhere")).comparison.equal  # an absolute path is that path
    assert flight.read_bytes() == before


def test_a_session_of_another_numpy_is_compared_within_tolerances(flight: Path) -> None:
    session = read_session(flight)
    there = {**session.header.versions, "numpy": "1.0"}
    header = msgspec.structs.replace(session.header, versions=there)
    write_session(flight, header, session.truth_every, session.records)
    result = run_case(flight, flight.parent)
    assert not result.comparison.exact
    assert result.why_not_exact[0].startswith("numpy was 1.0 and is ")
    run_case(flight, flight.parent, update=True)
    assert read_session(flight).header.versions == versions()


def test_a_changed_rotor_constant_fails_with_a_diff_that_can_be_read(flight: Path, heavier: Path) -> None:
    case = ReplayCase(flight.name, profile=heavier.name)
    with pytest.raises(NotAsRecordedError) as failure:
        run_case(case, flight.parent)
    lines = str(failure.value).splitlines()
    assert lines[0] == f"{flight}: NOT as recorded"
    changed = RECORDED_THRUST * 1.001
    assert f"    {THRUST}: recorded {RECORDED_THRUST!r}, now {changed!r}" in lines
    assert "  the profile has changed in 1 value:" in lines
    first = next(line for line in lines if line.startswith("  first difference: "))
    assert ": recorded " in first
    assert ", now " in first
    assert " at 2." in first  # armed, and the rotors begin to turn
    assert any(line.strip().startswith("HIL_SENSOR.zacc ") for line in lines)
    assert any(line.strip().startswith("truth.pos_enu_m[2] ") for line in lines)
    assert "--update-refs" in lines[-1]


def test_a_changed_vehicle_of_the_recorded_name_is_noticed(flight: Path, heavier: Path) -> None:
    """As it is by default: with today's profile of that path."""
    session = read_session(flight)
    header = msgspec.structs.replace(session.header, profile_source=str(heavier))
    write_session(flight, header, session.truth_every, session.records)
    with pytest.raises(NotAsRecordedError, match=THRUST):
        run_case(flight, flight.parent)
    heavier.unlink()
    with pytest.warns(UserWarning, match="with the recorded profile, as today's cannot be loaded: .*no such profile"):
        assert run_case(flight, flight.parent).comparison.equal


def test_ignored_fields_and_tolerances_of_a_case_count(flight: Path, heavier: Path) -> None:
    ignore = ("HIL_SENSOR", "HIL_GPS", "truth")
    assert not run_case(ReplayCase(flight, ignore=ignore, profile=str(heavier)), flight.parent).comparison.differences
    tolerances = {"HIL_SENSOR": 1.0, "HIL_GPS": 100.0, "truth": 1.0}
    assert run_case(ReplayCase(flight, tolerances=tolerances, profile=str(heavier)), flight.parent).comparison.equal
    with pytest.raises(NotAsRecordedError):
        run_case(ReplayCase(flight, tolerances={**tolerances, "truth": 1e-6}, profile=str(heavier)), flight.parent)


def test_today_s_outcome_is_accepted_on_request(flight: Path, heavier: Path) -> None:
    flight.chmod(0o640)
    case = ReplayCase(flight, profile=str(heavier))
    before = read_session(flight)
    assert not run_case(case, flight.parent, update=True).comparison.equal
    after = read_session(flight)
    assert run_case(case, flight.parent).comparison.equal
    assert not run_case(case, flight.parent).vehicle.changes
    assert stat.S_IMODE(flight.stat().st_mode) == 0o640
    assert [path.name for path in flight.parent.glob(".*")] == []
    inputs = [[r for r in session.records if r.kind < Kind.SENT] for session in (before, after)]
    assert inputs[0] == inputs[1]
    assert after.records != before.records
    assert after.end == before.end
    with pytest.raises(NotAsRecordedError):
        run_case(flight, flight.parent)  # the vehicle of the recorded name is the other one now


def test_what_shadows_said_is_no_outcome_and_goes_with_the_old_one(flight: Path, heavier: Path) -> None:
    session = read_session(flight)
    records = list(session.records)
    for place in (len(records) - 1, 500, 20):
        records.insert(place, Record(Kind.SHADOW, records[place - 1].time_us, b"{}"))
    write_session(flight, session.header, session.truth_every, records)
    assert run_case(flight, flight.parent).comparison.equal
    run_case(ReplayCase(flight, profile=str(heavier)), flight.parent, update=True)
    after = read_session(flight)
    assert not [record for record in after.records if record.kind is Kind.SHADOW]
    assert len(after.records) == len(session.records)
    assert after.records[-1] == session.records[-1]


def test_nothing_is_written_where_nothing_differs(flight: Path) -> None:
    before = flight.stat()
    run_case(flight, flight.parent, update=True)
    assert flight.stat() == before


def test_an_outcome_that_cannot_be_written_leaves_the_file(flight: Path, heavier: Path, monkeypatch) -> None:
    before = flight.read_bytes()

    def full(self: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("lav2_hil.session.rewrite.McapFile.finish", full)
    with pytest.raises(OutputError, match=r"flight.mcap: No space left on device"):
        run_case(ReplayCase(flight, profile=str(heavier)), flight.parent, update=True)
    assert flight.read_bytes() == before
    assert [path.name for path in flight.parent.glob(".*")] == []


def test_inputs_that_no_longer_fit_cannot_be_accepted(flight: Path) -> None:
    session = read_session(flight)
    records = list(session.records)
    del records[[i for i, record in enumerate(records) if record.kind is Kind.RECEIVED][300]]
    write_session(flight, session.header, session.truth_every, records)
    before = flight.read_bytes()
    with pytest.raises(NotAsRecordedError, match="the session asks for no step now"):
        run_case(flight, flight.parent)
    with pytest.raises(NotAsRecordedError, match="record the session anew"):
        run_case(flight, flight.parent, update=True)
    assert flight.read_bytes() == before


@pytest.mark.parametrize("update", [False, True])
def test_a_cut_session_fails_and_is_left_alone(flight: Path, update: bool) -> None:
    flight.write_bytes(flight.read_bytes()[:-1000])
    before = flight.read_bytes()
    with pytest.raises(NotAsRecordedError, match="a test needs a whole session"):
        run_case(flight, flight.parent, update=update)
    assert flight.read_bytes() == before


def test_no_file_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(NoInputError, match="No such file"):
        run_case("nope.mcap", tmp_path)


def test_a_session_without_inputs_cannot_be_replayed(flight: Path) -> None:
    session = read_session(flight)
    write_session(flight, session.header, session.truth_every, session.records[-1:])
    with pytest.raises(DataError, match="nothing in it can be replayed"):
        run_case(flight, flight.parent)


def test_one_flipped_bit_anywhere_fails(flight: Path) -> None:
    whole = flight.read_bytes()
    random_ = random.Random(7)
    at = [random_.randrange(len(whole)) for _ in range(10)]
    for place in (*at, 0, 8, 9, len(whole) - 1, len(whole) - 9, len(whole) - 30):
        broken = bytearray(whole)
        broken[place] ^= 1 << random_.randrange(8)
        flight.write_bytes(broken)
        with pytest.raises((NotAsRecordedError, Lav2HilError)):
            run_case(flight, flight.parent)


def test_one_flipped_bit_of_the_demo_flight_fails(tmp_path: Path) -> None:
    whole = DEMO.read_bytes()
    broken = bytearray(whole)
    broken[len(whole) // 3] ^= 4
    path = tmp_path / "demo.mcap"
    path.write_bytes(broken)
    with pytest.raises(NotAsRecordedError, match="damaged"):
        run_case(path, tmp_path)
