"""How late sensors leave in HITL: `lav2-hil run` on a pty, recording, beside a busy process; and a bare pacer there.

python tools/bench_pacing.py prints the figures; `make bench` takes them into its table.
"""

from __future__ import annotations

import contextlib
import os
import pty
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import tty
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from bench_tick import PROFILE
from pymavlink.dialects.v20 import common

from bridge.codec import Decoder, Encoder
from lav2_hil.session.reader import read_session
from lav2_hil.session.records import Kind

PERIOD_US = 4_000
SECONDS = 10.0
ROUNDS = 3
_BUSY = "while True: sum(range(1000))"
_BARE = """
import sys, time
start, late = time.monotonic(), []
for tick in range(1, int(sys.argv[1])):
    due = start + 0.004 * tick
    time.sleep(max(0.0, due - time.monotonic()))
    late.append(1e6 * (time.monotonic() - due))
print(*late)
"""


class QuietBoard(threading.Thread):
    """The board's end of a pty: HEARTBEATs and controls at 200 Hz, and what comes falls on the floor."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self._board, line = pty.openpty()
        tty.setraw(line)
        self.device = os.ttyname(line)
        self._line = line
        os.set_blocking(self._board, False)
        self._done = threading.Event()

    def run(self) -> None:
        """Speak until closed."""
        encoder, start = Encoder(1, 1), time.monotonic()
        beat = common.MAVLink_heartbeat_message(2, common.MAV_AUTOPILOT_PX4, 0x35, 0, 3, 3)
        for tick in range(1, 1_000_000):
            frames = encoder.encode(common.MAVLink_hil_actuator_controls_message(5_000 * tick, [0.0] * 16, 53, 0))
            if tick % 200 == 1:
                frames += encoder.encode(beat)
            with contextlib.suppress(OSError):
                os.write(self._board, frames)
                os.read(self._board, 65536)
            if self._done.wait(max(0.0, start + 0.005 * tick - time.monotonic())):
                return

    def close(self) -> None:
        """End the thread and the pty."""
        self._done.set()
        self.join()
        os.close(self._board)
        os.close(self._line)


@contextlib.contextmanager
def busy_process() -> Iterator[None]:
    """Another process that computes all the time."""
    process = subprocess.Popen([sys.executable, "-c", _BUSY])
    try:
        yield
    finally:
        process.kill()
        process.wait()


def lateness_us(session: Path) -> np.ndarray[Any, Any]:
    """How much later than the best of them each HIL_SENSOR of a recording left, on the grid of their stamps [us]."""
    decoder = Decoder()
    offsets = [
        record.time_us - message.time_usec
        for record in read_session(session).records
        if record.kind is Kind.SENT
        for message in decoder.feed(record.data)
        if message.get_type() == "HIL_SENSOR"
    ]
    return np.array(offsets) - min(offsets)


def hitl_lateness_us(seconds: float) -> np.ndarray[Any, Any]:
    """Of a run of so many seconds."""
    board = QuietBoard()
    board.start()
    with tempfile.TemporaryDirectory() as directory:
        session = Path(directory) / "run.mcap"
        command = [sys.executable, "-m", "lav2_hil", "-q", "run", "--profile", PROFILE, "--endpoint", board.device]
        command += ["--no-ground", "--duration", f"{seconds}", "--session", str(session)]
        try:
            subprocess.run(command, check=True, capture_output=True)
        finally:
            board.close()
        return lateness_us(session)


def bare_lateness_us(seconds: float) -> np.ndarray[Any, Any]:
    """Of a loop that does nothing but sleep until the next tick."""
    command = [sys.executable, "-c", _BARE, str(round(seconds * 1e6 / PERIOD_US))]
    out = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return np.array([float(word) for word in out.split()])


def measure() -> dict[str, dict[str, Any]]:
    """Both, in turns, beside a busy process; p50 and p99 in microseconds with the bare pacer's as the floor."""
    runs: dict[str, list[float]] = {}
    with busy_process():
        for _ in range(ROUNDS):
            for name, late in (("hitl", hitl_lateness_us(SECONDS)), ("bare", bare_lateness_us(SECONDS))):
                for part in (50, 99):
                    runs.setdefault(f"{name}_{part}", []).append(float(np.percentile(late, part)))
    figures = {}
    for part in (50, 99):
        values, floor = runs[f"hitl_{part}"], statistics.median(runs[f"bare_{part}"])
        value = statistics.median(values)
        figures[f"hitl_lateness_p{part}_us"] = {
            "value": round(value, 2),
            "unit": "us",
            "floor": round(floor, 2),
            "ratio": round(value / floor, 3),
            "spread": [round(min(values), 2), round(max(values), 2)],
        }
    return figures


if __name__ == "__main__":
    for figure, values in measure().items():
        print(figure, values)
