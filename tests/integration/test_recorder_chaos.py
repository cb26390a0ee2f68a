"""A recorded flight while the disk fills up, the clock is set or physics stands still: it must not notice.

Each flight must end as the undisturbed one does, bit for bit in truth. The short forms fly some seconds, the long ones
the whole demo mission.
"""

from __future__ import annotations

import itertools
import json
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from recorded_flights import (
    SHORT_S,
    durations,
    end_all,
    flew_undisturbed,
    marked_and_said_once,
    recorded,
    size_of,
    start,
    take_off,
    until,
)
from scripted_fc import ScriptedFc, spare_port

from lav2_hil.session.reader import read_session
from lav2_hil.session.records import Kind

HOUR_S = 3600

pytestmark = pytest.mark.timeout(300)


@pytest.fixture(autouse=True)
def nobody_left() -> Iterator[None]:
    yield
    end_all()


# A disk that is full


@contextmanager
def small_disk(directory: Path, size: int) -> Iterator[None]:
    mounting = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(directory)], capture_output=True, text=True
    )
    if mounting.returncode:
        pytest.skip(f"no small disk to be had: {mounting.stderr.strip()}")
    try:
        yield
    finally:
        subprocess.run(["umount", str(directory)], check=True)


@durations
def test_disk_full_for_the_recorder(duration_s: float | None, tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    with small_disk(disk, 96 * 1024):
        flight = take_off(tmp_path, duration_s, "--session", "disk/a.mcap")
        summary = flight.ended()
        session = read_session(disk / "a.mcap")
        assert size_of(disk / "a.mcap") == summary["session"]["bytes"] <= 96 * 1024
    flew_undisturbed(summary, duration_s)
    marked_and_said_once(flight, summary, "No space left on device")
    *whole, last = session.records
    assert session.damage is None
    assert last.kind is Kind.LOST
    assert session.incomplete_from_us == last.time_us
    assert len(whole) > 1000
    assert whole[0].kind is Kind.LINK_UP


@pytest.mark.slow
def test_a_file_that_may_grow_no_more(tmp_path: Path) -> None:
    limit = 30_000
    flight = take_off(tmp_path, SHORT_S)
    resource.prlimit(flight.process.pid, resource.RLIMIT_FSIZE, (limit, limit))  # long before it starts its writer
    summary = flight.ended()
    flew_undisturbed(summary, SHORT_S)
    marked_and_said_once(flight, summary, "File too large")
    session = read_session(tmp_path / summary["session"]["file"])
    assert session.damage is None
    assert session.records[-1].kind is Kind.LOST


# A clock that is set


def faketime() -> Path:
    for path in Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1"):
        return path
    pytest.skip("libfaketime is not installed (Debian: apt-get install libfaketime)")


@pytest.mark.parametrize("step_s", [HOUR_S, pytest.param(-HOUR_S, marks=pytest.mark.slow)])
@durations
def test_the_clock_stepped_by_an_hour(duration_s: float | None, step_s: int, tmp_path: Path) -> None:
    clock = tmp_path / "clock"
    clock.write_text("+0\n")
    environment = os.environ | {
        "LD_PRELOAD": str(faketime()),
        "FAKETIME_TIMESTAMP_FILE": str(clock),
        "FAKETIME_NO_CACHE": "1",
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
    }
    file = tmp_path / "a.mcap"
    flight = take_off(tmp_path, duration_s, "--session", str(file), env=environment)
    until(lambda: size_of(file) > 40_000, "some seconds of flight")
    clock.write_text(f"{step_s:+d}\n")
    ask = [sys.executable, "-c", "import time; print(time.time())"]
    shown = float(subprocess.run(ask, env=environment, capture_output=True, text=True, check=True).stdout)
    assert flight.process.poll() is None, "it was stepped in flight"
    assert shown - time.time() == pytest.approx(step_s, abs=60)
    summary = flight.ended()
    flew_undisturbed(summary, duration_s)
    times = [record.time_us for record in recorded(file)]
    assert times == sorted(times)
    assert 1e-6 * (times[-1] - times[0]) < summary["wall_s"] + 1


# A pause in physics


def stood_still(process: subprocess.Popen[str], seconds: float) -> None:
    """As under a debugger."""
    os.kill(process.pid, signal.SIGSTOP)
    time.sleep(seconds)
    os.kill(process.pid, signal.SIGCONT)


@pytest.mark.slow
def test_report_5_a_pause_in_physics_makes_no_jump(tmp_path: Path) -> None:
    port = spare_port()
    command = [
        sys.executable,
        "-m",
        "lav2_hil",
        "run",
        "--profile",
        "px4_iris",
        "--endpoint",
        f"tcpin:127.0.0.1:{port}",
    ]
    process = start([*command, "--duration", "6", "--json"], tmp_path)
    fc = ScriptedFc(port)
    fc.start()
    for sensors in (300, 600):  # in lockstep by then, and once more
        until(lambda count=sensors: len(fc.stamps) > count, "sensors")
        stood_still(process, 1.2)
    stdout, _ = process.communicate(timeout=60)
    fc.stop()
    summary = json.loads(stdout)
    assert fc.stamps == list(range(1_000_000, 7_000_000, 4000))
    assert (summary["reply_timeouts"], summary["connections"]) == (0, 1)
    assert summary["session"]["complete"]
    (file,) = tmp_path.glob("*.mcap")
    arrived = [record.time_us for record in recorded(file) if record.kind is Kind.RECEIVED]
    gaps = sorted(b - a for a, b in itertools.pairwise(arrived))
    assert [gap > 1_100_000 for gap in gaps[-3:]] == [False, True, True], "the pauses were there"


@pytest.mark.slow
def test_report_5_a_flight_does_not_notice_a_pause(tmp_path: Path) -> None:
    file = tmp_path / "a.mcap"
    flight = take_off(tmp_path, SHORT_S, "--session", str(file))
    until(lambda: size_of(file) > 40_000, "some seconds of flight")
    stood_still(flight.process, 1.2)
    flew_undisturbed(flight.ended(), SHORT_S)
    recorded(file)
