"""Keys on a real pseudo-terminal steer a run."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
import termios
import time
from collections.abc import Iterator

import pytest
from scripted_fc import ScriptedFc, spare_port


@pytest.fixture
def terminal() -> Iterator[tuple[int, int]]:
    """(our end, the process's end) of a pseudo-terminal."""
    ours, theirs = pty.openpty()
    yield ours, theirs
    os.close(ours)
    os.close(theirs)


def test_pause_resume_and_quit(terminal: tuple[int, int]) -> None:
    ours, theirs = terminal
    before = termios.tcgetattr(theirs)
    port = spare_port()
    command = [sys.executable, "-m", "lav2_hil", "run", "--no-session", "--profile", "px4_iris", "--json"]
    process = subprocess.Popen(
        [*command, "--endpoint", f"tcpin:127.0.0.1:{port}"],
        stdin=theirs,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: _take_terminal(theirs),
    )
    fc = ScriptedFc(port)
    fc.start()
    try:
        _until(lambda: len(fc.stamps) > 50)
        os.write(ours, b" ")
        time.sleep(0.3)
        paused = len(fc.stamps)
        time.sleep(0.5)
        assert len(fc.stamps) <= paused + 1
        os.write(ours, b" ")
        _until(lambda: len(fc.stamps) > paused + 50)
        os.write(ours, b"q")
        stdout, _ = process.communicate(timeout=10)
    finally:
        process.kill()
        process.wait()
        fc.stop()
    assert process.returncode == 0
    assert json.loads(stdout)["ended_by"] == "key"
    assert termios.tcgetattr(theirs) == before, "the terminal is put back as it was"


def _take_terminal(fd: int) -> None:
    """Make the terminal the process's own, as a shell does for what it starts."""
    import fcntl

    os.setsid()
    fcntl.ioctl(fd, termios.TIOCSCTTY, 0)


def _until(condition, seconds: float = 20.0) -> None:  # type: ignore[no-untyped-def]
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)
