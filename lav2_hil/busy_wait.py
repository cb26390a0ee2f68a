"""An event loop that looks for the next event again and again for a while before it goes to sleep.

In lockstep at full speed each side waits some hundred microseconds for the other, thousands of times a second. To sleep
and be woken costs as much as the wait, and leaves the processor cold: the same code then runs at half its speed.
"""

from __future__ import annotations

import asyncio
import os
import selectors
import time
from collections.abc import Coroutine
from typing import Any, TypeVar

from lav2_hil.precise_wait import precise_loop

Result = TypeVar("Result")

BUSY_S = 0.002
"""How long to look before sleeping: several times a lockstep tick."""


class BusySelector(selectors.EpollSelector):
    """An epoll selector that polls for `BUSY_S` before it blocks."""

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """See `selectors.BaseSelector.select`."""
        poll = super().select
        ready = poll(0)
        if ready or (timeout is not None and timeout <= 0):
            return ready
        now = time.perf_counter
        end = now() + (BUSY_S if timeout is None else min(timeout, BUSY_S))
        while now() < end:
            ready = poll(0)
            if ready:
                return ready
            os.sched_yield()  # another may need this processor to do what is waited for
        if timeout is None:
            return poll(None)
        return poll(timeout - BUSY_S) if timeout > BUSY_S else ready


def run(main: Coroutine[Any, Any, Result], *, busy: bool, precise: bool = False) -> Result:
    """`asyncio.run`, and busy if asked to and if another processor is there for the other side; or on time."""
    busy = busy and len(os.sched_getaffinity(0)) > 1
    with asyncio.Runner(loop_factory=precise_loop if precise else _busy_loop if busy else None) as runner:
        return runner.run(main)


def _busy_loop() -> asyncio.AbstractEventLoop:
    return asyncio.SelectorEventLoop(BusySelector())
