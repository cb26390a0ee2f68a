"""Report 30: what a serial line costs in processor time and in delay; `test_reports.py` has the table."""

from __future__ import annotations

import asyncio
import os
import pty
import time
import tty
from collections.abc import Iterator
from pathlib import Path

import pytest
from hitl.cli_run import Run
from hitl.pty_board import PtyBoard
from link_recorder import Recorder

from bridge.transport.serial import SerialTransport


def processor_s(pid: int) -> float:
    """Processor time of a process so far [s]."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


async def test_report_30_a_silent_line_costs_no_processor_time(tmp_path: Path) -> None:
    async with PtyBoard(tmp_path, base_mode=None) as board, Run(board.device, tmp_path) as run:
        await run.until_said("calling the board")
        await asyncio.sleep(1.0)
        before, begun = processor_s(run.pid), time.monotonic()
        await asyncio.sleep(3.0)
        share = (processor_s(run.pid) - before) / (time.monotonic() - begun)
    print(f"{100 * share:.1f} %")
    assert share < 0.05


class Stamps(Recorder):
    """Keeps when bytes came."""

    def __init__(self) -> None:
        super().__init__()
        self.times: list[float] = []

    def link_data(self, data: bytes) -> None:
        self.times += [time.perf_counter()] * len(data)


@pytest.fixture
def line() -> Iterator[tuple[int, str]]:
    """A pty: its master, and the device."""
    master, slave = pty.openpty()
    tty.setraw(slave)
    yield master, os.ttyname(slave)
    os.close(master)
    os.close(slave)


async def delays(line: tuple[int, str], count: int) -> tuple[list[float], list[float]]:
    """From a byte's writing to the transport's handler, and to a bare reader of the same event loop [s]."""
    master, device = line
    loop = asyncio.get_running_loop()
    through: list[float] = []
    bare: list[float] = []
    stamps = Stamps()
    transport = SerialTransport(device)
    for _ in range(2):
        await transport.open(stamps)
        for number in range(count // 2):
            sent = time.perf_counter()
            os.write(master, b"x")
            while len(stamps.times) <= number:
                await asyncio.sleep(0)
            through.append(stamps.times[number] - sent)
        await transport.close()
        stamps.times.clear()
        there: list[float] = []
        slave = os.open(device, os.O_RDWR | os.O_NOCTTY | os.O_NONBLOCK)

        def take(fd: int = slave, there: list[float] = there) -> None:
            there += [time.perf_counter()] * len(os.read(fd, 65536))

        loop.add_reader(slave, take)
        for number in range(count // 2):
            sent = time.perf_counter()
            os.write(master, b"x")
            while len(there) <= number:
                await asyncio.sleep(0)
            bare.append(there[number] - sent)
        loop.remove_reader(slave)
        os.close(slave)
    return through, bare


async def test_report_30_the_transport_adds_next_to_nothing_to_a_bare_reader(line: tuple[int, str]) -> None:
    """Polling with sleeps would be a thousand times as much."""
    through, bare = await delays(line, 400)
    ours, theirs = sorted(through)[200], sorted(bare)[200]
    print(f"median {1e6 * ours:.0f} us, bare {1e6 * theirs:.0f} us")
    assert ours < 5 * theirs


@pytest.mark.realtime
async def test_report_30_p99_below_a_millisecond(line: tuple[int, str]) -> None:
    through, _ = await delays(line, 4000)
    p99 = sorted(through)[len(through) * 99 // 100]
    print(f"p99 {1e6 * p99:.0f} us")
    assert p99 < 1e-3
