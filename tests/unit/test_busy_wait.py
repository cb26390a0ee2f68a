"""The busy event loop: nothing missed, and no processor burnt while nothing happens."""

from __future__ import annotations

import asyncio
import os
import socket
import time

import pytest

from lav2_hil import busy_wait


@pytest.mark.parametrize("busy", [False, True])
def test_events_and_timers_arrive(busy: bool) -> None:
    async def main() -> tuple[bytes, list[int]]:
        left, right = socket.socketpair()
        order: list[int] = []
        reader, writer = await asyncio.open_connection(sock=left)
        loop = asyncio.get_running_loop()
        for number, delay_s in ((3, 0.03), (1, 0.0005), (2, 0.004)):
            loop.call_later(delay_s, order.append, number)
        loop.call_later(0.01, right.send, b"hello")
        data = await reader.readexactly(5)
        await asyncio.sleep(0.05)
        right.close()
        writer.close()
        await writer.wait_closed()
        return data, order

    assert busy_wait.run(main(), busy=busy) == (b"hello", [1, 2, 3])


def test_a_timer_does_not_fire_early_nor_a_busy_wait_late() -> None:
    async def main() -> float:
        start = time.monotonic()
        await asyncio.sleep(0.02)
        return time.monotonic() - start

    waited = [busy_wait.run(main(), busy=True) for _ in range(5)]
    assert min(waited) >= 0.02
    assert min(waited) < 0.04


def test_idle_costs_little() -> None:
    async def main() -> float:
        start = time.process_time()
        await asyncio.sleep(0.5)
        return time.process_time() - start

    assert busy_wait.run(main(), busy=True) < 0.1


def test_it_is_not_busy_on_one_processor(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> type:
        return type(asyncio.get_running_loop()._selector)  # type: ignore[attr-defined]

    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 1})
    assert busy_wait.run(main(), busy=True) is busy_wait.BusySelector
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0})
    assert busy_wait.run(main(), busy=True) is not busy_wait.BusySelector
