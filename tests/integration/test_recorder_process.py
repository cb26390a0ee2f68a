"""A recorded run: its file, and what becomes of it when the run, or its recorder, is stopped or killed."""

from __future__ import annotations

import os
import signal
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from recorded_flights import (
    INSTANCE,
    SHORT_S,
    durations,
    end_all,
    flew_undisturbed,
    has_ended,
    marked_and_said_once,
    recorded,
    size_of,
    take_off,
    until,
    writer_of,
)

from lav2_hil.session.reader import read_session
from lav2_hil.session.records import Kind

pytestmark = pytest.mark.timeout(300)


@pytest.fixture(autouse=True)
def nobody_left() -> Iterator[None]:
    yield
    end_all()


@durations
def test_recording_changes_nothing(duration_s: float | None, tmp_path: Path) -> None:
    summary = take_off(tmp_path, duration_s).ended()
    flew_undisturbed(summary, duration_s)
    (file,) = tmp_path.glob("*.mcap")
    assert file.name.startswith("lav2-hil-20")
    assert file.name.endswith("Z-lav2.mcap")
    assert summary["session"] == {
        "file": file.name,
        "bytes": file.stat().st_size,
        "complete": True,
        "incomplete_from_s": None,
        "reason": None,
        "dropped_records": 0,
    }
    records = recorded(file)
    kinds = [record.kind for record in records]
    assert kinds.count(Kind.SAMPLED) == summary["sensors"]
    assert kinds[-1] is Kind.END
    assert file.stat().st_size < 40_000 * summary["simulated_s"] + 20_000


def test_without_a_session_there_is_no_file(tmp_path: Path) -> None:
    summary = take_off(tmp_path, 0.5, "--no-session").ended()
    assert summary["session"] is None
    assert list(tmp_path.iterdir()) == []


# A writer that is stopped or killed


@pytest.mark.slow
def test_a_writer_that_stands_still_is_waited_for(tmp_path: Path) -> None:
    """In lockstep: the flight stands still too once the pipe is full, and not a record is lost."""
    duration_s, file = 24.0, tmp_path / "a.mcap"
    flight = take_off(tmp_path, duration_s, "--session", str(file))
    writer = writer_of(flight.process)
    until(lambda: size_of(file) > 30_000, "a beginning")
    os.kill(writer, signal.SIGSTOP)
    threading.Timer(6.0, os.kill, (writer, signal.SIGCONT)).start()
    summary = flight.ended()
    flew_undisturbed(summary, duration_s)
    assert summary["session"]["complete"]
    kinds = [record.kind for record in recorded(file)]
    assert kinds.count(Kind.SAMPLED) == summary["sensors"] == 6000


def test_a_writer_that_is_killed(tmp_path: Path) -> None:
    file = tmp_path / "a.mcap"
    flight = take_off(tmp_path, SHORT_S, "--session", str(file))
    writer = writer_of(flight.process)
    until(lambda: size_of(file) > 40_000, "some seconds of flight")
    os.kill(writer, signal.SIGKILL)
    summary = flight.ended()
    flew_undisturbed(summary, SHORT_S)
    marked_and_said_once(flight, summary, "its writer ended with exit code -9")
    session = read_session(file)
    assert "its end is missing" in str(session.damage)
    assert session.records[0].kind is Kind.LINK_UP
    assert session.incomplete_from_us == session.records[-1].time_us


# A run that is killed


def test_the_file_of_a_run_that_was_killed_is_whole(tmp_path: Path) -> None:
    file = tmp_path / "a.mcap"
    flight = take_off(tmp_path, SHORT_S, "--session", str(file))
    writer = writer_of(flight.process)
    until(lambda: size_of(file) > 40_000, "some seconds of flight")
    flight.process.kill()
    flight.process.communicate(timeout=10)
    until(lambda: has_ended(writer), "the recorder's own end")
    session = read_session(file)
    assert session.damage is None
    assert session.end is None
    assert session.incomplete_from_us == session.records[-1].time_us
    assert sum(record.kind is Kind.SAMPLED for record in session.records) > 250


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_session_in_order(number: signal.Signals, tmp_path: Path) -> None:
    """Ctrl-C goes to the whole foreground group, the recorder's process is not in it."""
    file = tmp_path / "a.mcap"
    flight = take_off(tmp_path, None, "--session", str(file))
    until(lambda: size_of(file) > 40_000, "some seconds of flight")
    os.killpg(flight.process.pid, number)
    summary = flight.ended()
    assert summary["session"]["complete"]
    assert summary["session"]["bytes"] == size_of(file)
    assert recorded(file)[-1].kind is Kind.END
    assert read_session(file).end == {"ended_by": number.name}


# A file that cannot be


@pytest.mark.parametrize(
    ("name", "words"), [("there.mcap", "exists"), ("no/such.mcap", "No such file"), (".", "directory")]
)
def test_a_session_file_that_cannot_be_made_is_an_error_before_the_run(name: str, words: str, tmp_path: Path) -> None:
    (tmp_path / "there.mcap").write_text("precious")
    flight = take_off(tmp_path, SHORT_S, "--session", name)
    stdout, stderr = flight.process.communicate(timeout=60)
    assert (flight.process.returncode, stdout) == (74, "")
    assert len(stderr.splitlines()) == 1
    assert stderr.startswith(f"error: --session {name}: ")
    assert words in stderr
    assert (tmp_path / "there.mcap").read_text() == "precious"
    assert len(list(tmp_path.iterdir())) == 1


def test_session_and_no_session_exclude_each_other(tmp_path: Path) -> None:
    flight = take_off(tmp_path, SHORT_S, "--session", "a.mcap", "--no-session")
    _, stderr = flight.process.communicate(timeout=60)
    assert flight.process.returncode == 2
    assert stderr == "error: --session and --no-session: expected one of them\n"


def test_a_run_that_never_began_leaves_no_file(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # the port of a flight that has just ended
        taken.bind(("127.0.0.1", 4560 + INSTANCE))
        taken.listen()
        flight = take_off(tmp_path, SHORT_S)
        _, stderr = flight.process.communicate(timeout=60)
    assert flight.process.returncode == 69
    assert len(stderr.splitlines()) == 1
    assert list(tmp_path.iterdir()) == []
