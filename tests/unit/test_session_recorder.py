"""The recorder in the loop: a tap before a process of its own, which may be slow, stopped or killed."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import session_files

from bridge.session_io import Notice, Received, Sampled, TimerExpired
from firmware_profiles.errors import OutputError
from lav2_hil.session import recorder as recorder_module
from lav2_hil.session.reader import read_session
from lav2_hil.session.recorder import SessionRecorder
from lav2_hil.session.recording import start_recording
from lav2_hil.session.records import Kind, Record, pack_truth

START = session_files.STARTED_US
STATE = np.arange(13.0)


class Run:
    """A recorder as a loop uses it."""

    def __init__(self, path: Path | None) -> None:
        self.said: list[Notice] = []
        twin = SimpleNamespace(state=lambda: STATE)
        self.recorder: SessionRecorder = start_recording(path, session_files.header(), twin, self.said.append)  # type: ignore[arg-type]
        self.now_us = START
        self.fed: list[Record] = []
        self.closed = False

    @property
    def writer(self) -> int:
        return self.recorder._process.pid

    def tick(self, size: int = 200, *, may_wait: bool = True) -> None:
        self.now_us += 4000
        data, frame = os.urandom(size), os.urandom(60)
        recorder = self.recorder
        recorder.event(Received(data), self.now_us)
        recorder.event(Sampled(None), self.now_us + 50)  # type: ignore[arg-type]
        recorder.sent(frame)
        recorder.stepped(SimpleNamespace(time_us=self.now_us))  # type: ignore[arg-type]
        recorder.flush(may_wait=may_wait)
        self.fed += [
            Record(Kind.RECEIVED, self.now_us, data),
            Record(Kind.SAMPLED, self.now_us + 50, b""),
            Record(Kind.SENT, self.now_us + 50, frame),
            Record(Kind.TRUTH, self.now_us + 50, pack_truth(self.now_us, STATE.tobytes())),
        ]

    def close(self) -> dict[str, object]:
        if not self.closed:
            self.closed = True
            self.recorder.close({"ended_by": "test"})
            self.fed.append(Record(Kind.END, self.now_us + 50, b'{"ended_by":"test"}'))
        return self.recorder.summary()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "run.mcap"


@pytest.fixture
def run(path: Path) -> Iterator[Run]:
    made = Run(path)
    yield made
    made.close()


@contextmanager
def stopped(process: int) -> Iterator[None]:
    """The process stands still, as under a debugger or before a disk that hangs."""
    os.kill(process, signal.SIGSTOP)
    try:
        yield
    finally:
        with suppress(ProcessLookupError):  # it has been killed
            os.kill(process, signal.SIGCONT)


def test_what_the_loop_says_is_on_the_file(run: Run, path: Path) -> None:
    for _ in range(300):
        run.tick()
    assert run.close() == {
        "file": str(path),
        "bytes": path.stat().st_size,
        "complete": True,
        "incomplete_from_s": None,
        "reason": None,
        "dropped_records": 0,
    }
    session = read_session(path)
    assert session.records == session_files.as_read(run.fed)
    assert (session.damage, session.incomplete_from_us, session.end) == (None, None, {"ended_by": "test"})
    assert run.said == []


def test_a_quiet_loop_is_on_the_file_within_two_seconds(run: Run, path: Path) -> None:
    run.recorder.event(TimerExpired(), START + 1)
    run.recorder.flush(may_wait=False)
    deadline = time.monotonic() + 2.0 + 3.0  # the writer has to start first
    while time.monotonic() < deadline:
        run.recorder.tend()
        time.sleep(0.1)
        if path.stat().st_size > 5000 and read_session_or_none(path):
            return
    raise AssertionError("nothing came")


def read_session_or_none(path: Path) -> bool:
    try:
        return bool(read_session(path).records)
    except Exception:
        return False


def test_in_lockstep_the_loop_waits_and_nothing_is_lost(run: Run, path: Path) -> None:
    """More than the pipe holds is said while the writer stands still: it must be waited for, to the last byte."""
    import threading

    run.tick()
    time.sleep(0.3)
    with stopped(run.writer):
        went_on = threading.Timer(1.0, os.kill, (run.writer, signal.SIGCONT))
        went_on.start()
        asked = time.monotonic()
        for _ in range(400):
            run.tick(size=5000, may_wait=True)
        waited = time.monotonic() - asked
        went_on.join()
    assert waited > 0.7
    assert run.close()["complete"]
    assert read_session(path).records == session_files.as_read(run.fed)


def test_in_real_time_a_loss_is_marked_from_there_and_the_recording_goes_on(
    run: Run, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recorder_module, "BUFFER_LIMIT", 200_000)
    run.tick()
    time.sleep(0.3)
    with stopped(run.writer):
        asked = time.monotonic()
        for _ in range(1000):
            run.tick(size=5000, may_wait=False)
        assert time.monotonic() - asked < 1.0
        assert len(run.recorder._buffer) < 2 * 200_000, "memory is bounded"
    before = len(run.fed)
    deadline = time.monotonic() + 10
    while run.recorder._buffer and time.monotonic() < deadline:
        run.recorder.tend()
        time.sleep(0.01)
    for _ in range(20):
        run.tick()
    summary = run.close()
    session = read_session(path)
    kinds = [record.kind for record in session.records]
    assert kinds.count(Kind.LOST) == 1
    lost = kinds.index(Kind.LOST)
    assert lost > 500
    assert session.damage is None
    assert session.end == {"ended_by": "test"}
    assert session.records[:lost] == session_files.as_read(run.fed)[:lost]
    at_us = session.records[lost].time_us
    assert session.incomplete_from_us == at_us
    after = [record for record in session.records[lost + 1 :] if record.kind is Kind.RECEIVED]
    assert after == [record for record in run.fed[before:] if record.kind is Kind.RECEIVED]
    assert not summary["complete"]
    assert summary["incomplete_from_s"] == pytest.approx(1e-6 * (at_us - START))
    assert summary["dropped_records"] == len(run.fed) - before_and_after(session.records, run.fed)
    assert [notice.name for notice in run.said] == ["session_incomplete"]


def before_and_after(read: list[Record], fed: list[Record]) -> int:
    """How many of the records fed were not dropped, by those of which a copy is on the file: all but truth."""
    kept = {record for record in read if record.kind is Kind.RECEIVED}
    whole_ticks = sum(record in kept for record in fed if record.kind is Kind.RECEIVED)
    return 4 * whole_ticks + 1


def test_a_writer_that_hangs_is_given_up(run: Run, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recorder_module, "PATIENCE_S", 0.5)
    run.tick()
    time.sleep(0.3)
    with stopped(run.writer):
        asked = time.monotonic()
        for _ in range(1000):
            run.tick(size=5000)
        assert 0.4 < time.monotonic() - asked < 3.0
        (notice,) = run.said
        assert notice.name == "session_failed"
        assert "took nothing for 0.5 s" in notice.text
        assert "\n" not in notice.text
        summary = run.close()  # kills it
    assert (summary["complete"], summary["reason"]) == (False, "its writer took nothing for 0.5 s")
    assert run.said == [notice]


def until_it_says_something(run: Run) -> None:
    deadline = time.monotonic() + 5
    while not run.said and time.monotonic() < deadline:
        run.recorder.tend()
        time.sleep(0.05)


def test_a_writer_that_is_killed_is_told_once_and_the_run_goes_on(run: Run, path: Path) -> None:
    for _ in range(100):
        run.tick()
    time.sleep(1.5)  # a chunk is due
    os.kill(run.writer, signal.SIGKILL)
    for _ in range(100):
        run.tick()
    until_it_says_something(run)
    (notice,) = run.said
    assert notice.name == "session_failed"
    assert "exit code -9" in notice.text
    before = run.recorder.summary()["dropped_records"]
    run.tick()
    summary = run.close()
    assert run.said == [notice]
    assert not summary["complete"]
    assert summary["dropped_records"] == before + 4
    session = read_session(path)
    assert "its end is missing" in str(session.damage)
    assert session.records == session_files.as_read(run.fed)[: len(session.records)]
    assert session.records


def test_a_writer_that_is_killed_while_the_loop_is_idle_is_noticed(run: Run) -> None:
    os.kill(run.writer, signal.SIGKILL)
    until_it_says_something(run)
    assert [notice.name for notice in run.said] == ["session_failed"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_signals_for_the_run_do_not_reach_the_file(number: signal.Signals, run: Run, path: Path) -> None:
    for _ in range(20):
        run.tick()
    deadline = time.monotonic() + 20.0
    while path.stat().st_size == 0 and time.monotonic() < deadline:
        time.sleep(0.01)  # it has not started
    os.kill(run.writer, number)
    assert os.getsid(run.writer) != os.getsid(0)
    for _ in range(20):
        run.tick()
    assert run.close()["complete"]
    assert read_session(path).records == session_files.as_read(run.fed)


def test_a_file_that_is_there_is_never_replaced(path: Path) -> None:
    path.write_text("precious")
    with pytest.raises(OutputError, match="exists"):
        Run(path)
    assert path.read_text() == "precious"


@pytest.mark.parametrize(("name", "words"), [(".", "directory"), ("no/such/x.mcap", "No such file"), ("a\0b", "null")])
def test_a_file_that_cannot_be_made_is_one_line(name: str, words: str, tmp_path: Path) -> None:
    with pytest.raises(OutputError, match=words) as caught:
        Run(tmp_path / name)
    assert len(str(caught.value).splitlines()) == 1


def test_a_name_is_made_for_each_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    first, second = Run(None), Run(None)
    stem = "lav2-hil-20260601T123000Z-test"
    assert [first.close()["file"], second.close()["file"]] == [f"{stem}.mcap", f"{stem}-2.mcap"]
