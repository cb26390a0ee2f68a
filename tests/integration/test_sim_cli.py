"""`lav2-hil sim` as a user meets it: a mission and a verdict, and an end without anything left behind."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from lav2_hil.autopilot.mission import mission_names

SIM = [sys.executable, "-m", "lav2_hil", "sim", "--no-session"]
INSTANCE = 27  # each test its own, from here on: they may run side by side
PORT = 4560


def sim(*arguments: str, instance: int = INSTANCE, timeout_s: float = 90) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*SIM, "--speed", "0", "--instance", str(instance), *arguments],
        capture_output=True,
        text=True,
        timeout=timeout_s,
        stdin=subprocess.DEVNULL,
        check=False,
    )


def autopilots(instance: int) -> list[int]:
    """Ids of the autopilot processes of an instance that still run."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                words = (entry / "cmdline").read_bytes().split(b"\0")
                state = (entry / "stat").read_text().rpartition(")")[2].split()[0]
            except OSError:
                continue  # it has ended
            if b"lav2_hil.autopilot" in words and str(instance).encode() in words and state != "Z":
                found.append(int(entry.name))
    return found


def test_demo_mission_passes_with_a_summary_and_progress() -> None:
    result = sim("--mission", "demo", "--json")
    assert result.returncode == 0, result.stderr
    summary = json.loads(result.stdout)
    assert (summary["mission"], summary["mission_state"], summary["problems"]) == ("demo", "done", [])
    assert 0.0 < summary["own_error_m"] < 0.5
    assert 0.0 < summary["true_error_m"] < 1.5
    assert 0.0 < summary["heading_error_deg"] < 5.0
    assert summary["ended_by"] == "mission"
    assert summary["times_armed"] == 1
    assert 4.5 < summary["max_height_m"] < 5.5
    assert len(summary["truth_sha256"]) == 64
    north, east, _ = summary["final_position_ned_m"]
    assert north == pytest.approx(2.0, abs=0.5)
    assert east == pytest.approx(0.0, abs=0.5)
    said = [
        result.stderr.find(word) for word in ("take-off to 5 m", "fly to 4 m north", "land", "drive 2 m", "turn by")
    ]
    assert -1 not in said
    assert said == sorted(said)
    assert autopilots(INSTANCE) == []


def test_unknown_mission_lists_those_that_exist() -> None:
    result = sim("--mission", "moon")
    assert result.returncode == 2
    assert result.stdout == ""
    assert len(result.stderr.splitlines()) == 1
    assert result.stderr.startswith("error: ")
    assert all(name in result.stderr for name in ("moon", *mission_names()))


def test_unknown_profile_is_one_line() -> None:
    result = sim("--profile", "nope")
    assert (result.returncode, result.stdout) == (78, "")
    assert len(result.stderr.splitlines()) == 1


def test_busy_port_is_one_line_and_leaves_no_autopilot() -> None:
    instance = INSTANCE + 1
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", PORT + instance))
        taken.listen()
        result = sim(instance=instance)
    assert (result.returncode, result.stdout) == (69, "")
    assert len(result.stderr.splitlines()) == 1
    assert str(PORT + instance) in result.stderr
    assert autopilots(instance) == []


def flying(started: list[subprocess.Popen[str]], instance: int) -> subprocess.Popen[str]:
    """A run that has begun its mission, in a process group of its own as in a shell."""
    process = subprocess.Popen(
        [*SIM, "--instance", str(instance), "--json"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        stdin=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
    )
    started.append(process)
    assert process.stderr is not None
    deadline = time.monotonic() + 30
    for line in process.stderr:
        if "take-off" in line or time.monotonic() > deadline:
            break
    assert len(autopilots(instance)) == 1
    return process


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_to_all_of_it_ends_it_and_its_autopilot_within_two_seconds(
    started, number: signal.Signals, code: int
) -> None:
    instance = INSTANCE + 2 + (number == signal.SIGTERM)
    process = flying(started, instance)
    asked = time.monotonic()
    os.killpg(process.pid, number)
    output, said = process.communicate(timeout=10)
    assert time.monotonic() - asked < 2.0
    assert process.returncode == code
    assert json.loads(output)["ended_by"] == number.name
    assert "Traceback" not in said
    assert autopilots(instance) == []


def test_killed_it_leaves_no_autopilot(started) -> None:
    instance = INSTANCE + 5
    flying(started, instance).kill()
    deadline = time.monotonic() + 10
    while autopilots(instance) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert autopilots(instance) == []


@pytest.mark.slow
def test_a_vehicle_that_cannot_transform_fails_that_mission_with_a_reason() -> None:
    result = sim("--profile", "px4_iris", "--mission", "transform", "--json", instance=INSTANCE + 6)
    assert result.returncode == 1
    summary = json.loads(result.stdout)
    assert summary["mission_state"] == "failed"
    assert len(summary["problems"]) == 1
    assert "cannot transform to drive: no arms" in summary["problems"][0]
    assert summary["max_height_m"] > 2.5
    assert "Traceback" not in result.stderr
    assert autopilots(INSTANCE + 6) == []
