"""The command line as a user meets it: a process, its exit code, its two streams."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
from scripted_fc import ScriptedFc, spare_port

LAV2_HIL = [sys.executable, "-m", "lav2_hil"]


def lav2_hil(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*LAV2_HIL, *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        env=os.environ | environment,
        stdin=subprocess.DEVNULL,
        check=False,
    )


def start(started: list[subprocess.Popen[str]], *arguments: str) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [*LAV2_HIL, *arguments, "--no-session"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        stdin=subprocess.DEVNULL,
        text=True,
    )
    started.append(process)
    return process


def listening(port: int) -> None:
    """Wait until the bridge listens, without becoming its peer: a second bind fails."""
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        with socket.socket() as sock:
            try:
                sock.bind(("127.0.0.1", port))
            except OSError:
                return
        time.sleep(0.02)
    raise AssertionError("the bridge never listened")


BAD = [
    (["run", "--profile", "nope"], 78, "px4_iris"),
    (["run", "--profile", "does/not/exist.toml"], 78, "does/not/exist.toml"),
    (["run", "--profile", "px4_iris", "--endpoint", "bluetooth:7"], 2, "tcpin:HOST:PORT"),
    (["run", "--profile", "px4_iris", "--endpoint", "tcpin:127.0.0.1:99999"], 2, "99999"),
    (["run", "--profile", "px4_iris", "--speed", "-1"], 2, "--speed"),
    (["run", "--profile", "px4_iris", "--speed", "nan"], 2, "--speed"),  # report 9
    (["run", "--profile", "px4_iris", "--speed", "fast"], 2, "--speed"),
    (["run", "--profile", "px4_iris", "--seed", "-3"], 2, "--seed"),
    (["run", "--profile", "px4_iris", "--duration", "inf"], 2, "--duration"),
    (["run", "--profile", "px4_iris", "--reply-timeout", "-5"], 2, "--reply-timeout"),
    (["run", "--profile", "px4_iris", "--home", "47,8"], 2, "LAT,LON,ALT_AMSL"),
    (["run", "--profile", "px4_iris", "--home", "95,8,400"], 2, "lat"),
    (["run", "--profile", "px4_iris", "--home", "nan,8,400"], 2, "lat"),
    (["run", "--profile", "px4_iris", "--date", "yesterday"], 2, "ISO 8601"),
    (["run", "--profile", "px4_iris", "--date", "1999-01-01"], 2, "WMM"),
    (["run", "--profile", "px4_iris", "--instance", "900"], 2, "--instance"),
    (["run"], 2, "--profile"),
    (["fly"], 2, "fly"),
    (["profiles", "show", "nope"], 78, "px4_iris"),
]


@pytest.mark.parametrize(("arguments", "code", "names"), BAD, ids=lambda value: str(value)[:60])
def test_bad_input_is_one_line_and_an_exit_code(arguments: list[str], code: int, names: str) -> None:
    result = lav2_hil(*arguments)
    assert result.returncode == code
    assert result.stdout == ""
    assert len(result.stderr.splitlines()) == 1
    assert result.stderr.startswith("error: ")
    assert names in result.stderr


def test_profile_with_an_error_names_file_key_and_what_is_allowed(tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text('extends = "px4_iris"\n[vehicle.body]\nmas_kg = 2.0\n')
    result = lav2_hil("run", "--profile", str(file))
    assert result.returncode == 78
    assert re.fullmatch(
        rf"error: {re.escape(str(file))}: vehicle\.body\.mas_kg: unknown key; allowed here: mass_kg, .*\n",
        result.stderr,
    )


def test_home_of_px4s_environment_is_honoured_and_checked() -> None:
    result = lav2_hil("run", "--profile", "px4_iris", PX4_HOME_LAT="north")
    assert result.returncode == 2
    assert "PX4_HOME_LAT" in result.stderr


def test_report_27_busy_port_is_named() -> None:
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        holder.listen()
        port = holder.getsockname()[1]
        result = lav2_hil("run", "--profile", "px4_iris", "--endpoint", f"tcpin:127.0.0.1:{port}")
    assert result.returncode == 69
    assert str(port) in result.stderr.splitlines()[-1]
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_signal_ends_the_wait_within_a_second(
    number: signal.Signals, code: int, started: list[subprocess.Popen[str]]
) -> None:
    port = spare_port()
    process = start(started, "run", "--profile", "px4_iris", "--endpoint", f"tcpin:127.0.0.1:{port}")
    listening(port)
    time.sleep(0.2)
    asked = time.monotonic()
    process.send_signal(number)
    assert process.wait(10) == code
    assert time.monotonic() - asked < 1.0


def waits_cheaply(started: list[subprocess.Popen[str]], seconds: float) -> None:
    """Report 3: a peer that never comes costs no processor time and no memory, and Ctrl-C still ends it."""
    port = spare_port()
    process = start(started, "run", "--profile", "px4_iris", "--endpoint", f"tcpin:127.0.0.1:{port}")
    listening(port)
    time.sleep(1.0)
    cpu, memory = usage(process.pid)
    time.sleep(seconds)
    cpu_after, memory_after = usage(process.pid)
    assert cpu_after - cpu < 0.05 * seconds
    assert memory_after - memory < 1_000_000
    process.send_signal(signal.SIGINT)
    assert process.wait(10) == 130


def usage(pid: int) -> tuple[float, int]:
    """Processor time [s] and resident memory [bytes] of a process."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    ticks = int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK"), int(fields[21]) * os.sysconf("SC_PAGE_SIZE")


def test_report_3_waiting_is_cheap(started: list[subprocess.Popen[str]]) -> None:
    waits_cheaply(started, 5.0)


@pytest.mark.long
@pytest.mark.timeout(120)
def test_report_3_waiting_is_cheap_for_a_minute(started: list[subprocess.Popen[str]]) -> None:
    waits_cheaply(started, 60.0)


def test_a_run_gives_one_json_document_and_a_log_on_stderr(started: list[subprocess.Popen[str]]) -> None:
    port = spare_port()
    process = start(
        started, *["run", "--profile", "px4_iris", "--endpoint", f"tcpin:127.0.0.1:{port}"],
        *["--speed", "0", "--duration", "5", "--seed", "3", "--json"],
    )  # fmt: skip
    fc = ScriptedFc(port)
    fc.start()
    stdout, stderr = process.communicate(timeout=60)
    fc.stop()
    assert process.returncode == 0
    summary = json.loads(stdout)
    assert summary["simulated_s"] == 5.0
    assert summary["sensors"] == len(fc.stamps) == 1250
    assert summary["reply_timeouts"] == 0
    assert summary["ended_by"] == "duration"
    assert fc.stamps == list(range(1_000_000, 6_000_000, 4000))
    assert "127.0.0.1" in stderr


def test_flight_controller_comes_and_goes(started: list[subprocess.Popen[str]]) -> None:
    """The next one is taken at once, its time begins anew, and the log says why the last one left."""
    port = spare_port()
    process = start(started, "run", "--profile", "px4_iris", "--endpoint", f"tcpin:127.0.0.1:{port}", "--json")
    for _ in range(3):
        fc = ScriptedFc(port)
        fc.start()
        while len(fc.stamps) < 50:
            time.sleep(0.01)
        fc.stop()
        assert fc.stamps[:3] == [1_000_000, 1_004_000, 1_008_000]
    time.sleep(0.3)  # the last loss is noticed too
    process.send_signal(signal.SIGINT)
    stdout, stderr = process.communicate(timeout=10)
    assert json.loads(stdout)["connections"] == 3
    assert stderr.count("flight controller is gone") == 3
    assert "restart it" in stderr


def test_second_flight_controller_is_reported_and_ignored(started: list[subprocess.Popen[str]]) -> None:
    port = spare_port()
    process = start(started, "run", "--profile", "px4_iris", "--endpoint", f"tcpin:127.0.0.1:{port}", "--json")
    fc = ScriptedFc(port)
    fc.start()
    while len(fc.stamps) < 20:
        time.sleep(0.01)
    with socket.create_connection(("127.0.0.1", port)) as other:
        assert other.recv(10) == b""
    so_far = len(fc.stamps)
    while len(fc.stamps) < so_far + 20:
        time.sleep(0.01)
    fc.stop()
    process.send_signal(signal.SIGINT)
    stdout, _ = process.communicate(timeout=10)
    assert json.loads(stdout)["notices"]["peer_ignored"] == 1


def test_profiles_are_listed_and_shown() -> None:
    listed = json.loads(lav2_hil("profiles", "--json").stdout)
    assert {entry["name"] for entry in listed} >= {"lav2", "px4_iris", "px4_x500"}
    shown = json.loads(lav2_hil("profiles", "show", "px4_x500").stdout)
    assert shown["vehicle"]["body"]["mass_kg"] == 2.06432
    assert shown["vehicle"]["sensors"]["imu"]["rate_hz"] == 250.0
