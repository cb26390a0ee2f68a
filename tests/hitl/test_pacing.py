"""Pacing of a whole run, with the recorder on and another process that computes: order and counts, no times."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest
from hitl.cli_run import Run
from hitl.rig import Board

from bridge.codec import Decoder
from lav2_hil.session.reader import read_session
from lav2_hil.session.records import Kind

PERIOD_US = 4_000


def sensors(session: Path) -> list[tuple[int, int]]:
    """Wall time and stamp of every HIL_SENSOR that left."""
    decoder = Decoder()
    return [
        (record.time_us, message.time_usec)
        for record in read_session(session).records
        if record.kind is Kind.SENT
        for message in decoder.feed(record.data)
        if message.get_type() == "HIL_SENSOR"
    ]


@pytest.mark.realtime
async def test_no_burst_beside_a_busy_process_and_after_a_stall(tmp_path: Path) -> None:
    busy = subprocess.Popen([sys.executable, "-c", "while True: pass"])  # noqa: ASYNC220
    try:
        async with Board(tmp_path) as board, Run(board.device, tmp_path) as run:
            await run.until_said("flight controller with system id")
            await asyncio.sleep(3.0)
            os.kill(run.pid, signal.SIGSTOP)
            await asyncio.sleep(0.2)
            os.kill(run.pid, signal.SIGCONT)
            await asyncio.sleep(2.0)
    finally:
        busy.kill()
        busy.wait()
    left = sensors(run.session)
    assert len(left) == run.summary["sensors"] > 250
    gaps = [(b[0] - a[0], b[1] - a[1]) for a, b in pairwise(left)]
    assert min(wall for wall, _ in gaps) >= PERIOD_US // 2
    assert all(stamp > 0 and stamp % PERIOD_US == 0 for _, stamp in gaps)
    # The stall shows as ticks that were skipped, and simulated time went on with the wall clock.
    assert max(stamp for _, stamp in gaps) >= 45 * PERIOD_US
    assert run.summary["ticks_skipped"] >= 45
    drift = (left[-1][0] - left[0][0]) - (left[-1][1] - left[0][1])
    assert abs(drift) <= PERIOD_US
    assert run.summary["session"]["complete"]
