"""Ten minutes of HITL with the recorder on: neither lateness nor memory grows."""

from __future__ import annotations

import asyncio
import statistics
from pathlib import Path

import pytest
from hitl.cli_run import Run
from hitl.rig import Board
from hitl.test_pacing import sensors

SECONDS = 600
PERIOD_US = 4_000


def resident_kib(pid: int) -> int:
    status = Path(f"/proc/{pid}/status").read_text()
    return int(next(line.split()[1] for line in status.splitlines() if line.startswith("VmRSS")))


def p99(values: list[int]) -> int:
    return sorted(values)[len(values) * 99 // 100]


@pytest.mark.long
@pytest.mark.timeout(SECONDS + 120)
async def test_ten_minutes(tmp_path: Path) -> None:
    memory = []
    async with Board(tmp_path) as board, Run(board.device, tmp_path) as run:
        await run.until_said("flight controller with system id")
        for _ in range(SECONDS // 10):
            await asyncio.sleep(10)
            memory.append(resident_kib(run.pid))
    left = sensors(run.session)
    base = min(wall - stamp for wall, stamp in left)
    late = [wall - stamp - base for wall, stamp in left]
    quarter = len(late) // 4
    first, last = p99(late[quarter : 2 * quarter]), p99(late[-quarter:])
    early, final = statistics.median(memory[5:15]), statistics.median(memory[-10:])
    print(f"p99 lateness {first} us, then {last} us; memory {early} KiB, then {final} KiB; {run.summary}")
    assert final - early < 4096
    # Within one tick's tolerance of each other: a leak or a growing queue would show as more.
    assert last - first < PERIOD_US // 2
    assert len(left) + run.summary["ticks_skipped"] == pytest.approx(run.summary["simulated_s"] * 250, abs=1)
    assert run.summary["notices"].keys() == {"peer_connected", "system_found"}
