"""Sessions out to other programs and recordings in: what real PX4s sent goes through our state machine, and replays."""

from __future__ import annotations

import csv
import functools
import json
import math
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from captures import ALL, capture
from pymavlink import mavutil
from pymavlink.dialects.v20 import common

from bridge.addresses import addresses_of
from bridge.codec import Decoder, Encoder
from bridge.session_io import Notice
from bridge.tlog import TlogRecord, pack_record, read_tlog
from firmware_profiles.errors import DataError
from lav2_hil.session.check import check_session
from lav2_hil.session.compare import Comparison
from lav2_hil.session.export_csv import COLUMNS, export_csv
from lav2_hil.session.export_tlog import export_tlog
from lav2_hil.session.importing import import_recording, import_settings, read_recording
from lav2_hil.session.reader import Session, read_session
from lav2_hil.session.records import Kind, Record, notice_data, notice_of
from lav2_hil.session.truth import TRUTH_EVERY, TruthSample, decode_truth, encode_truth
from twin.frames import ned_of_enu

FIRST_US, PERIOD_US = 1_000_000, 4000


def imported(folder: Path, name: str, to: str | None = None, profile: str = "px4_iris") -> tuple[dict[str, Any], Path]:
    """A capture as a session."""
    path = folder / "session.mcap"
    path.touch()
    settings = import_settings(profile)
    records = read_recording(capture(name), None if to is None else capture(to, "to_px4"))
    return import_recording(records, settings, name, path), path


def replayed(path: Path) -> Comparison:
    """A replay that gave the same, bit for bit and to the end."""
    result = check_session(path)
    assert (result.outcome.stopped, result.spoilt) == (None, None)
    assert result.comparison.exact
    assert result.comparison.identical
    assert result.comparison.equal
    return result.comparison


def lav2_hil(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "lav2_hil", *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=100,
        stdin=subprocess.DEVNULL,
        check=False,
    )


def received(session: Session) -> list[bytes]:
    return [record.data for record in session.records if record.kind is Kind.RECEIVED]


def notices(session: Session) -> list[str]:
    return [notice_of(record.data).name for record in session.records if record.kind is Kind.NOTICE]


# Every capture: name, and what its import gives

CAPTURES = [
    ("sitl_iris_handshake", {"connections": 1, "replies": 101}),
    ("sitl_iris_udp_first_datagram", {"connections": 1, "replies": 101}),
    ("sitl_iris_flight", {"replies": 10785, "times_armed": 1, "link": "lockstep: 1 answer per 1 sensor"}),
    ("sitl_iris_stall3s", {"replies": 10781, "times_armed": 1}),
    ("sitl_iris_udp", {"replies": 4155, "times_armed": 1}),
    ("sitl_iris_set_actuator", {"replies": 9431, "times_armed": 1}),
    ("sitl_iris_motor_failure", {"replies": 5615, "times_armed": 1}),
    ("sitl_iris_motor_failure_alloc", {"replies": 5556, "times_armed": 1}),
    ("sitl_iris_termination", {"replies": 3822, "times_armed": 1}),
    ("sitl_iris_px4_restart", {"replies": 2973, "connections": 2}),
    ("sitl_rover_differential", {"replies": 1550, "times_armed": 1}),
    ("sitl_v112_iris_flight", {"replies": 8777, "times_armed": 1}),
    ("sitl_v112_iris_termination", {"replies": 5488, "times_armed": 1}),
    ("sitl_v112_r1_rover", {"replies": 5563, "times_armed": 1}),
    ("hitl_pty_quad_x", {"replies": 7317, "times_armed": 1, "link": "HITL at 250 Hz, 0 ticks skipped"}),
    ("hitl_v112_pty_quad_x", {"replies": 6308, "times_armed": 1}),
    ("hitl_pty_px4_restart", {"replies": 2499, "connections": 1}),
    ("sitl_iris_gcs_udp", {"replies": 0, "link": "paced: learning the reply pattern"}),
    ("sitl_iris_motor_failure_gcs", {"replies": 0}),
]
QUICK = frozenset({"sitl_iris_handshake", "sitl_iris_udp_first_datagram"})


def test_no_capture_is_forgotten() -> None:
    if not ALL.exists():
        pytest.skip("no captures: set LAV2_SHARED")
    names = {path.name.removesuffix("_from_px4.tlog") for path in ALL.glob("*_from_px4.tlog")}
    assert names == {name for name, _ in CAPTURES}


@pytest.mark.parametrize(
    ("name", "expected"),
    [pytest.param(*row, id=row[0], marks=[] if row[0] in QUICK else [pytest.mark.slow]) for row in CAPTURES],
)
def test_a_capture_is_imported_and_replays(name: str, expected: dict[str, Any], tmp_path: Path) -> None:
    summary, path = imported(tmp_path, name)
    recorded = read_tlog(capture(name))
    assert {key: summary[key] for key in expected} == expected
    assert (summary["frames"], summary["bad_frames"], summary["reply_timeouts"]) == (len(recorded), 0, 0)
    session = read_session(path)
    assert (session.damage, session.incomplete_from_us) == (None, None)
    assert session.header.command == "import"
    assert session.header.session.hitl is name.startswith("hitl"), "boards are told from those in lockstep"
    assert session.header.started_utc.timestamp() == pytest.approx(recorded[0].time_us * 1e-6, abs=1e-5)
    assert [len(frame) for frame in received(session)] == [len(record.frame) for record in recorded]
    assert replayed(path).truth_samples == math.ceil(summary["simulated_s"] * 250 / TRUTH_EVERY - 1e-9)


@pytest.mark.slow
def test_the_simulators_side_tells_of_a_silence(tmp_path: Path) -> None:
    """PX4 1.17 says nothing any more after flight termination: only the simulator's recording goes on."""
    (tmp_path / "alone").mkdir()
    alone, _ = imported(tmp_path / "alone", "sitl_iris_termination")
    both, path = imported(tmp_path, "sitl_iris_termination", to="sitl_iris_termination")
    assert both["simulated_s"] == pytest.approx(alone["simulated_s"] + 5.0, abs=0.1)
    assert both["notices"]["flight_termination_suspected"] == 1
    assert "flight_termination_suspected" not in alone["notices"]
    replayed(path)


@pytest.mark.slow
def test_a_board_is_played_by_the_wall_clock(tmp_path: Path) -> None:
    """Each frame at its recorded time, ticks on a grid beside it; a restart is found as in a live flight."""
    name = "hitl_pty_px4_restart"
    _, path = imported(tmp_path, name)
    session, recorded = read_session(path), read_tlog(capture(name))
    assert session.header.session.hitl
    arrived = [record.time_us for record in session.records if record.kind is Kind.RECEIVED]
    assert [time_us - arrived[0] for time_us in arrived] == [each.time_us - recorded[0].time_us for each in recorded]
    assert notices(session) == ["peer_connected", "system_found", "px4_restarted"]
    sent = [(r.time_us, addresses_of(r.data).message) for r in session.records if r.kind is Kind.SENT]
    assert common.MAVLINK_MSG_ID_HIL_STATE_QUATERNION not in {message for _, message in sent}
    ticks = [time_us for time_us, message in sent if message == common.MAVLINK_MSG_ID_HIL_SENSOR]
    steps = Counter(after - before for before, after in pairwise(ticks))
    assert steps.most_common(1)[0] == (PERIOD_US, len(ticks) - 2), "but for the time without a board"
    assert replayed(path).truth_samples
    (tmp_path / "both").mkdir()
    imported(tmp_path / "both", name, to=name)
    again = read_session(tmp_path / "both" / "session.mcap")
    assert received(again) == received(session), "what the simulator sent is not the board's"


def truth_of(session: Session) -> list[bytes]:
    return [record.data for record in session.records if record.kind is Kind.TRUTH]


@pytest.mark.slow
def test_a_board_comes_out_of_an_export_again(tmp_path: Path) -> None:
    _, path = imported(tmp_path, "hitl_pty_px4_restart")
    out, again = tmp_path / "out.tlog", tmp_path / "again.mcap"
    first = read_session(path)
    export_tlog(first, out)
    again.touch()
    import_recording(read_recording(out, None), import_settings("px4_iris"), "out.tlog", again)
    second = read_session(again)
    assert second.header.session.hitl
    assert received(second) == received(first)
    assert truth_of(second) == truth_of(first)


def test_a_clock_that_was_set_is_no_silence_of_a_board(tmp_path: Path) -> None:
    beat = frame(Encoder(1, 1), "heartbeat", 2, common.MAV_AUTOPILOT_PX4, 32, 0, 3, 3)
    own_clock = frame(Encoder(1, 1), "hil_actuator_controls", 5000, [0.0] * 16, 53, 0)
    path = tmp_path / "x.mcap"
    path.touch()
    for gap_us, damage in ((599_000_000, None), (601_000_000, "x: a gap of 601 s in its times")):
        records = [TlogRecord(9_000_000, beat), TlogRecord(9_001_000, own_clock)]
        records.append(TlogRecord(9_001_000 + gap_us, beat))
        if damage is None:
            summary = import_recording(records, import_settings("px4_iris"), "x", path)
            assert summary["notices"]["px4_restarted"] == 1
        else:
            with pytest.raises(DataError, match=damage):
                import_recording(records, import_settings("px4_iris"), "x", path)


def test_the_simulators_side_tells_of_a_boards_silence(tmp_path: Path) -> None:
    beat = frame(Encoder(1, 1), "heartbeat", 2, common.MAV_AUTOPILOT_PX4, 32, 0, 3, 3)
    own_clock = frame(Encoder(1, 1), "hil_actuator_controls", 5000, [0.0] * 16, 53, 0)
    board = [TlogRecord(9_000_000, beat), TlogRecord(9_001_000, own_clock)]
    simulator = [TlogRecord(9_000_000 + 4000 * tick, sensor(4000 * tick), to_px4=True) for tick in range(1, 750)]
    path = tmp_path / "x.mcap"
    path.touch()
    settings = import_settings("px4_iris")
    assert "px4_restarted" not in import_recording(board, settings, "x", path)["notices"]
    assert import_recording(board + simulator, settings, "x", path)["notices"]["px4_restarted"] == 1


def test_a_restart_is_a_link_that_goes_and_comes(tmp_path: Path) -> None:
    """The second PX4 said its first word so long after the first one's as it was recorded."""
    first = read_tlog(capture("sitl_iris_handshake"))
    later = [record._replace(time_us=record.time_us + 9_000_000) for record in first]
    both = tmp_path / "twice.tlog"
    both.write_bytes(b"".join(pack_record(record.time_us, record.frame) for record in first + later))
    path = tmp_path / "session.mcap"
    path.touch()
    settings = import_settings("px4_iris")
    summary = import_recording(read_recording(both, None), settings, "twice", path)
    assert (summary["connections"], summary["replies"]) == (2, 202)
    links = [r for r in read_session(path).records if r.kind in (Kind.LINK_UP, Kind.LINK_DOWN)]
    assert [record.kind for record in links] == [Kind.LINK_UP, Kind.LINK_DOWN, Kind.LINK_UP]
    assert links[2].time_us - links[0].time_us == 9_000_000
    replayed(path)


# Out again


@functools.cache
def handshake(folder: Path) -> Session:
    return read_session(imported(folder, "sitl_iris_handshake")[1])


@pytest.fixture
def session(tmp_path_factory: pytest.TempPathFactory) -> Session:
    return handshake(tmp_path_factory.getbasetemp())


def test_a_tlog_is_read_by_mavutil_with_both_directions_in_order(session: Session, tmp_path: Path) -> None:
    path = tmp_path / "out.tlog"
    figures = export_tlog(session, path)
    log = mavutil.mavlink_connection(str(path))
    messages = []
    while (message := log.recv_match()) is not None:
        messages.append(message)
    log.close()
    assert len(messages) == figures["frames_from_px4"] + figures["frames_to_px4"]
    senders = {message.get_srcComponent() for message in messages}
    assert senders == {1, 200}
    times = [message._timestamp for message in messages]
    assert times == sorted(times)
    assert times[0] == pytest.approx(session.header.started_utc.timestamp(), abs=0.01)
    assert times[-1] - times[0] == pytest.approx(0.464, abs=0.001)
    answered: list[int] = []
    for message in messages:
        if message.get_type() == "HIL_SENSOR":
            answered.append(message.time_usec)
        elif message.get_type() == "HIL_ACTUATOR_CONTROLS":
            assert message.time_usec == answered[-1], "an answer stands behind its sensor"
    assert answered == [FIRST_US + number * PERIOD_US for number in range(117)]


def test_export_and_import_give_the_received_frames_again(session: Session, tmp_path: Path) -> None:
    out, again = tmp_path / "out.tlog", tmp_path / "again.mcap"
    export_tlog(session, out)
    again.touch()
    settings = import_settings("px4_iris")
    import_recording(read_recording(out, None), settings, "out.tlog", again)
    second = read_session(again)
    assert received(second) == received(session)
    truth = [[r.data for r in s.records if r.kind is Kind.TRUTH] for s in (session, second)]
    assert truth[0] == truth[1], "the same controls at the same ticks of the same twin"
    replayed(again)


def rows_of(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def test_a_table_has_a_row_for_each_tick(session: Session, tmp_path: Path) -> None:
    path = tmp_path / "out.csv"
    figures = export_csv(session, path)
    rows = rows_of(path)
    assert tuple(rows[0]) == COLUMNS
    assert figures == {"rows": 117, "rows_with_truth": 24}
    assert [row["time_s"] for row in rows] == [f"{1 + 0.004 * number:.6f}" for number in range(117)]
    assert [row["armed"] for row in rows] == [""] * 17 + ["0"] * 100, "the 17th sensor's answer is the next step's"
    assert {row["control_15"] for row in rows[17:]} == {"0.0"}
    assert {row["controls_age_s"] for row in rows[17:]} == {"0.004000"}
    assert all(-9.9 < float(row["accel_down_m_s2"]) < -9.7 for row in rows)
    assert float(rows[-1]["abs_pressure_hpa"]) == pytest.approx(955.95, abs=0.1)
    with_truth = [number for number, row in enumerate(rows, 1) if row["true_down_m"]]
    assert with_truth == [*range(5, 117, 5), 117], "where a sample of it was recorded"
    assert all(len(row["true_q_ned_frd_w"]) > 0 for row in rows if row["true_down_m"])


@pytest.mark.slow
def test_a_table_of_a_flight_has_its_controls_and_its_truth(tmp_path: Path) -> None:
    _, path = imported(tmp_path, "sitl_iris_udp")
    session = read_session(path)
    export_csv(session, tmp_path / "out.csv")
    rows = rows_of(tmp_path / "out.csv")
    armed = [float(row["time_s"]) for row in rows if row["armed"] == "1"]
    assert armed[0] == pytest.approx(1 + 4.696 - 0.004 + 0.004, abs=1e-6)
    assert len(armed) == round((15.196 - 4.696) * 250)
    assert {row["controls_age_s"] for row in rows if row["armed"]} == {"0.004000"}
    samples = [decode_truth(record.data) for record in session.records if record.kind is Kind.TRUTH]
    shown = [(round(1e6 * float(row["time_s"])), row) for row in rows if row["true_down_m"]]
    assert [time_us for time_us, _ in shown] == [sample.time_us for sample in samples]
    for (_, row), sample in zip(shown, samples, strict=True):
        state = np.array(sample.state)
        assert [float(row[f"true_{axis}_m"]) for axis in ("north", "east", "down")] == ned_of_enu(state[:3]).tolist()
        assert float(row["true_vel_down_m_s"]) == -state[9]
        assert float(row["true_rate_right_rad_s"]) == -state[11]


def frame(encoder: Encoder, kind: str, *values: Any) -> bytes:
    return encoder.encode(getattr(common, f"MAVLink_{kind}_message")(*values))


def sensor(stamp_us: int) -> bytes:
    return frame(Encoder(1, 200), "hil_sensor", stamp_us, *[0.0] * 13, 63)


def controls(encoder: Encoder, stamp_us: int, value: float) -> bytes:
    return frame(encoder, "hil_actuator_controls", stamp_us, [value] * 16, 129, 1)


def told(name: str) -> bytes:
    return notice_data(Notice(30, name, "text"))


def test_a_table_knows_what_the_session_forgot(session: Session, tmp_path: Path) -> None:
    """A new peer's controls are not the old one's, and the truth of a tick whose sensor never left is no row's."""
    first, other = Encoder(1, 1), Encoder(2, 1)
    truth = encode_truth(TruthSample(FIRST_US + PERIOD_US, (0.0,) * 3 + (1.0,) + (0.0,) * 9, 5, ""))
    records = [
        (Kind.LINK_UP, b"one"),
        (Kind.SENT, sensor(FIRST_US)),
        (Kind.RECEIVED, controls(first, FIRST_US, 0.25) + controls(other, FIRST_US, 0.75)),
        (Kind.SENT, sensor(FIRST_US + PERIOD_US)),
        (Kind.RECEIVED, controls(first, FIRST_US + PERIOD_US, 0.5)[:20]),
        (Kind.LINK_DOWN, b"gone"),
        (Kind.NOTICE, told("peer_lost")),
        (Kind.LINK_UP, b"two"),
        (Kind.SENT, sensor(FIRST_US)),
        (Kind.TRUTH, truth),
        (Kind.RECEIVED, controls(other, FIRST_US, 0.75)),
        (Kind.NOTICE, told("reply_again")),
        (Kind.SENT, sensor(FIRST_US + PERIOD_US)),
        (Kind.TRUTH, truth),
        (Kind.NOTICE, told("px4_restarted")),
        (Kind.SENT, sensor(FIRST_US + 2 * PERIOD_US)),
    ]
    made = replace(session, records=[Record(kind, 1_000_000, data) for kind, data in records])
    export_csv(made, tmp_path / "out.csv")
    rows = rows_of(tmp_path / "out.csv")
    assert [row["control_0"] for row in rows] == ["", "0.25", "", "0.75", ""]
    assert [row["connection"] for row in rows] == ["1", "1", "2", "2", "2"]
    assert [bool(row["true_down_m"]) for row in rows] == [False, False, False, True, False]
    figures = export_tlog(made, tmp_path / "out.tlog")
    assert figures["bad_frames"] == 0
    frames = [record.frame for record in read_tlog(tmp_path / "out.tlog")]
    whole = [data for kind, data in records if kind in (Kind.SENT, Kind.RECEIVED) and len(data) != 20]
    assert b"".join(frames) == b"".join(whole), "the half frame of the lost peer is not the next one's beginning"


# As a user meets it


def test_commands_import_replay_and_export(tmp_path: Path) -> None:
    session, out = tmp_path / "s.mcap", tmp_path / "s.tlog"
    result = lav2_hil("import", capture("sitl_iris_handshake"), "-o", session, "--json")
    assert result.returncode == 0, result.stderr
    assert json.loads(result.stdout)["frames"] == 103
    assert lav2_hil("replay", session).returncode == 0
    result = lav2_hil("export", session, "-o", out, "--json")
    assert (result.returncode, result.stderr) == (0, "")
    assert json.loads(result.stdout)["frames_from_px4"] == 103
    assert sorted(path.name for path in tmp_path.iterdir()) == ["s.mcap", "s.tlog"]
    before = out.read_bytes()
    refused = lav2_hil("export", session, "-o", out)
    assert (refused.returncode, refused.stdout) == (74, "")
    assert "exists; name another file, or --force" in refused.stderr
    assert out.read_bytes() == before
    assert lav2_hil("export", session, "-o", out, "--force").returncode == 0
    assert out.read_bytes() == before
    plain = tmp_path / "plain"
    plain.touch()
    assert {path.stat().st_mode for path in tmp_path.iterdir()} == {plain.stat().st_mode}


def test_a_damaged_session_is_exported_as_far_as_it_goes(session: Session, tmp_path: Path) -> None:
    whole = tmp_path / "whole.mcap"
    assert lav2_hil("import", capture("sitl_iris_handshake"), "-o", whole).returncode == 0
    cut = tmp_path / "cut.mcap"
    cut.write_bytes(whole.read_bytes()[:-40])
    result = lav2_hil("export", cut, "-o", tmp_path / "cut.csv", "--json")
    assert result.returncode == 0
    assert "WARNING" in result.stderr
    assert "cut off at byte" in result.stderr
    assert len(rows_of(tmp_path / "cut.csv")) == json.loads(result.stdout)["rows"] > 100
    assert "cut off" in json.loads(result.stdout)["damage"]


def test_a_cut_recording_is_imported_as_far_as_it_goes(tmp_path: Path) -> None:
    cut = tmp_path / "cut.tlog"
    cut.write_bytes(capture("sitl_iris_handshake").read_bytes()[:-5])
    result = lav2_hil("import", cut, "-o", tmp_path / "s.mcap", "--json")
    assert result.returncode == 0
    assert "ends inside the frame at byte" in result.stderr
    assert json.loads(result.stdout)["frames"] == 102


def test_a_full_disk_leaves_no_file(tmp_path: Path) -> None:
    out = tmp_path / "s.mcap"
    command = f'ulimit -f 8; exec "{sys.executable}" -m lav2_hil import "{capture("sitl_iris_handshake")}" -o "{out}"'
    result = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=60, check=False)
    assert (result.returncode, result.stdout) == (74, "")
    assert result.stderr == f"error: {out}: cannot be written: File too large\n"
    assert list(tmp_path.iterdir()) == []


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with all sorts of files."""
    (tmp_path / "text.tlog").write_text("this is no tlog at all")
    (tmp_path / "empty.tlog").touch()
    to_px4 = read_tlog(capture("sitl_iris_handshake", "to_px4"))
    from_px4 = read_tlog(capture("sitl_iris_handshake"))
    write(tmp_path / "to.tlog", to_px4)
    write(tmp_path / "from.tlog", from_px4)
    write(tmp_path / "both.tlog", sorted(from_px4 + to_px4))
    write(tmp_path / "late.tlog", [record._replace(time_us=2**63) for record in from_px4])
    (tmp_path / "not.mcap").write_text("no session")
    return tmp_path


def write(path: Path, records: list[TlogRecord]) -> None:
    path.write_bytes(b"".join(pack_record(record.time_us, record.frame) for record in records))


BAD = [
    ("import none.tlog -o out.mcap", 66, "none.tlog: cannot be read"),
    ("import text.tlog -o out.mcap", 65, "text.tlog: no MAVLink frame at byte 8"),
    ("import empty.tlog -o out.mcap", 65, "empty.tlog: the file is empty"),
    ("import to.tlog -o out.mcap", 65, "holds nothing that a flight controller sent"),
    ("import late.tlog -o out.mcap", 65, "is none since 1970"),
    ("import from.tlog --to from.tlog -o out.mcap", 65, "holds nothing that a simulator sent"),
    ("import both.tlog --to to.tlog -o out.mcap", 2, "holds both directions already"),
    ("import from.tlog -o out.mcap --profile nope", 78, "px4_iris"),
    ("import from.tlog -o out.mcap --seed -1", 2, "--seed"),
    ("import from.tlog -o out.mcap --date never", 2, "--date"),
    ("import from.tlog -o no/such/folder.mcap", 74, "cannot be written: No such file"),
    ("import from.tlog -o .", 74, "is a directory"),
    ("import from.tlog", 2, "--output"),
    ("export not.mcap -o out.txt", 2, "expected a name that ends in .tlog or .csv"),
    ("export not.mcap -o out", 2, "expected a name that ends in .tlog or .csv"),
    ("export not.mcap -o out.csv", 65, "not.mcap: not a session"),
    ("export none.mcap -o out.csv", 66, "none.mcap"),
]


@pytest.mark.parametrize(("command", "code", "says"), BAD, ids=[row[0] for row in BAD])
def test_bad_input_is_one_line_and_no_file(folder: Path, command: str, code: int, says: str) -> None:
    before = sorted(folder.iterdir())
    files = (".tlog", ".mcap", ".csv", ".txt", "out", ".")
    words = [str(folder / word) if word.endswith(files) else word for word in command.split()]
    result = lav2_hil(*words)
    assert (result.returncode, result.stdout) == (code, ""), result.stderr
    assert result.stderr.startswith("error: ")
    assert len(result.stderr.splitlines()) == 1
    assert says in result.stderr
    assert sorted(folder.iterdir()) == before


def test_another_rate_than_the_vehicles_is_refused(tmp_path: Path) -> None:
    """Answers at 250 Hz cannot be those of a vehicle that is stepped at 200 Hz."""
    profile = tmp_path / "slow.toml"
    profile.write_text(
        'extends = "px4_iris"\nname = "slow"\n'
        "[vehicle.sensors.imu]\nrate_hz = 200.0\n[vehicle.environment]\nsim_dt_us = 2500\n"
    )
    records = read_recording(capture("sitl_iris_handshake"), None)
    settings = import_settings(str(profile))
    out = tmp_path / "out.mcap"
    out.touch()
    with pytest.raises(DataError, match="steps of 4000 us, the vehicle's IMU in steps of 5000 us: choose a --profile"):
        import_recording(records, settings, "x", out)


def test_stamps_of_another_clock_are_refused_and_not_waited_for(tmp_path: Path) -> None:
    """Without the simulator's side, a stamp is a time after its first sensor: years of it are not flown."""
    records = read_recording(capture("sitl_iris_handshake"), None)
    shifted = [record._replace(frame=later(record.frame)) for record in records]
    settings = import_settings("px4_iris")
    out = tmp_path / "out.mcap"
    out.touch()
    with pytest.raises(DataError, match="another clock's; --to gives the simulator's side"):
        import_recording(shifted, settings, "x", out)


def later(frame: bytes) -> bytes:
    """The frame with a stamp of a thousand hours more, if it is an answer."""
    (message,) = Decoder(datagrams=True).feed(frame)
    if message.get_type() != "HIL_ACTUATOR_CONTROLS":
        return frame
    message.time_usec += 3_600_000_000_000
    return Encoder(2, 1, message.get_seq()).encode(message)
