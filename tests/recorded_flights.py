"""Recorded flights of `sim` for tests that disturb them, and what they would have flown undisturbed."""

from __future__ import annotations

import contextlib
import functools
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from lav2_hil.session.reader import read_session
from lav2_hil.session.records import Record

SIM = [sys.executable, "-m", "lav2_hil", "sim", "--speed", "0", "--json"]
INSTANCE = 160 + int(os.environ.get("PYTEST_XDIST_WORKER", "gw0")[2:])
"""The flights of one worker fly one after the other."""
SHORT_S = 6.0

durations = pytest.mark.parametrize(
    "duration_s",
    [
        pytest.param(SHORT_S, id="short"),
        pytest.param(None, id="demo", marks=[pytest.mark.long, pytest.mark.timeout(900)]),
    ],
)


@dataclass
class Flight:
    """One run of `sim`: its process, and its outcome once it has ended."""

    process: subprocess.Popen[str]
    stdout: str = ""
    stderr: str = ""

    def ended(self) -> dict[str, Any]:
        self.stdout, self.stderr = self.process.communicate(timeout=600)
        assert "Traceback" not in self.stderr
        summary: dict[str, Any] = json.loads(self.stdout)
        return summary

    def lines(self, word: str) -> list[str]:
        return [line for line in self.stderr.splitlines() if word in line]


def take_off(directory: Path, duration_s: float | None, *options: str, **popen: Any) -> Flight:
    duration = [] if duration_s is None else ["--duration", str(duration_s)]
    return Flight(start([*SIM, *duration, "--instance", str(INSTANCE), *options], directory, **popen))


STARTED: list[subprocess.Popen[str]] = []


def start(command: list[str], directory: Path, **popen: Any) -> subprocess.Popen[str]:
    pipe = subprocess.PIPE
    process = subprocess.Popen(
        command,
        cwd=directory,
        stdin=subprocess.DEVNULL,
        stdout=pipe,
        stderr=pipe,
        text=True,
        process_group=0,
        **popen,
    )
    STARTED.append(process)
    return process


def end_all() -> None:
    """Kill what was started and still runs, with its autopilot."""
    for process in STARTED:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
    STARTED.clear()


@functools.cache
def undisturbed(duration_s: float | None) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as directory:
        return take_off(Path(directory), duration_s, "--no-session").ended()


def flew_undisturbed(summary: dict[str, Any], duration_s: float | None) -> None:
    expected = undisturbed(duration_s)
    assert expected["truth_sha256"]
    for key in ("truth_sha256", "ended_by", "simulated_s", "sensors", "reply_timeouts", "mission_state"):
        assert summary[key] == expected[key], key


def until(found: Callable[[], Any], what: str) -> Any:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        value = found()
        if value:
            return value
        time.sleep(0.02)
    raise AssertionError(f"never: {what}")


def writer_of(process: subprocess.Popen[str]) -> int:
    """The process id of a run's recorder."""

    def find() -> int:
        for entry in Path("/proc").glob("[0-9]*"):
            try:
                words = (entry / "cmdline").read_bytes().split(b"\0")
                parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            except OSError:
                continue  # it has ended
            if parent == process.pid and b"lav2_hil.session.writer" in words:
                return int(entry.name)
        return 0

    return int(until(find, "a recorder"))


def has_ended(process: int) -> bool:
    """Whether a process that is nobody's child any more runs no longer; it may wait for ever to be reaped."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


def size_of(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def recorded(path: Path) -> list[Record]:
    """Of a session that must be whole."""
    session = read_session(path)
    assert (session.damage, session.incomplete_from_us) == (None, None)
    return session.records


def marked_and_said_once(flight: Flight, summary: dict[str, Any], reason: str) -> None:
    session = summary["session"]
    (line,) = flight.lines("incomplete")
    assert session["file"] in line
    assert reason in line
    assert (session["complete"], session["reason"]) == (False, reason)
    assert 0 < session["incomplete_from_s"] < summary["wall_s"]
    assert session["dropped_records"] > 0
    assert summary["notices"]["session_failed"] == 1
