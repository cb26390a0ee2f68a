"""Ten minutes of HITL with the recorder on, or one: neither lateness nor memory grows."""

from __future__ import annotations

import asyncio
import statistics
from itertools import pairwise
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


class Soak:
    """So many seconds on a pty; nothing of it may grow."""

    def __init__(self) -> None:
        self.memory_kib: list[int] = []
        self.late_us: list[int] = []

    async def run(self, folder: Path, seconds: int, every_s: int) -> None:
        async with Board(folder) as board, Run(board.device, folder) as run:
            await run.until_said("flight controller with system id")
            for _ in range(seconds // every_s):
                await asyncio.sleep(every_s)
                self.memory_kib.append(resident_kib(run.pid))
        left = sensors(run.session)
        base = min(wall - stamp for wall, stamp in left)
        self.late_us = [wall - stamp - base for wall, stamp in left]
        print(run.summary)
        assert len(left) + run.summary["ticks_skipped"] == pytest.approx(run.summary["simulated_s"] * 250, abs=1)
        assert min(b - a for (a, _), (b, _) in pairwise(left)) >= PERIOD_US // 2
        assert run.summary["notices"].keys() == {"peer_connected", "system_found"}
        self._check_memory()

    def _check_memory(self) -> None:
        samples = len(self.memory_kib)
        early = statistics.median(self.memory_kib[samples // 12 : samples // 4])
        final = statistics.median(self.memory_kib[-samples // 6 :])
        print(f"memory {early} KiB, then {final} KiB")
        assert final - early < 4096


@pytest.mark.realtime
async def test_report_23_one_minute(tmp_path: Path) -> None:
    soak = Soak()
    await soak.run(tmp_path, 60, 2)
    # Other tests beside it make single sensors late; what grows makes all of them late.
    quarter = len(soak.late_us) // 4
    first, last = statistics.median(soak.late_us[:quarter]), statistics.median(soak.late_us[-quarter:])
    print(f"median lateness {first} us, then {last} us")
    assert last - first < PERIOD_US // 2


@pytest.mark.long
@pytest.mark.timeout(SECONDS + 120)
async def test_report_23_ten_minutes(tmp_path: Path) -> None:
    soak = Soak()
    await soak.run(tmp_path, SECONDS, 10)
    quarter = len(soak.late_us) // 4
    first, last = p99(soak.late_us[quarter : 2 * quarter]), p99(soak.late_us[-quarter:])
    print(f"p99 lateness {first} us, then {last} us")
    # Within one tick's tolerance of each other: a leak or a growing queue would show as more.
    assert last - first < PERIOD_US // 2
