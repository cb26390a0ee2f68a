"""One direction of a bad link: what is under way, in the order in which it is to arrive."""

from __future__ import annotations

import asyncio
import heapq
import itertools
from collections.abc import Callable, Iterable

from bridge.transport.faults import Fates

HELD_LIMIT = 4 << 20
"""Bytes that a delay or a stall may hold back in one direction; what comes beyond is dropped and counted."""

REORDER_WAIT_S = 0.1
"""How long a frame that is to be overtaken waits for one that overtakes it."""


class Lane:
    """One direction.

    Args:
        fates: decide what becomes of each frame.
        deliver: is given what arrives; False when it went nowhere.
        drop: is called for what was taken, and went nowhere later.
        in_order: delays keep the order, as a stream does.
    """

    def __init__(
        self, fates: Fates, deliver: Callable[[bytes], bool], drop: Callable[[], None], *, in_order: bool
    ) -> None:
        self._on_late_drop = drop
        self._fates = fates
        self._deliver = deliver
        self._in_order = in_order
        self._loop = asyncio.get_running_loop()
        self._under_way: list[tuple[float, int, bytes]] = []  # a heap: due time, number, frame
        self._numbers = itertools.count()
        self._held = 0  # bytes under way
        self._last_due = 0.0
        self._overtaken: tuple[bytes, ...] = ()
        self._overtaken_timer: asyncio.TimerHandle | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._stall_end = 0.0
        self._stall_timer: asyncio.TimerHandle | None = None

    def send(self, data: bytes) -> bool:
        """Let one frame meet its fate; False when it is known here and now that it goes nowhere."""
        if self._held > HELD_LIMIT:
            self._fates.counts.overflowed += 1
            return False
        fate = self._fates.decide(data)
        if not fate.copies:
            return True  # a sender does not learn of a loss
        if not (self._under_way or self._overtaken or self._stall_timer or fate.delay_s or fate.overtaken):
            delivered = [self._deliver(copy) for copy in fate.copies]
            return all(delivered)
        if fate.overtaken and not self._overtaken:
            self._overtaken = fate.copies
            self._held += sum(map(len, fate.copies))
            self._overtaken_timer = self._loop.call_later(fate.delay_s + REORDER_WAIT_S, self._let_go)
            return True
        due = self._loop.time() + fate.delay_s
        if self._in_order:
            due = self._last_due = max(due, self._last_due)
        self._enqueue(due, fate.copies)
        self._release_overtaken(due)
        self._advance()
        return True

    def stall(self, seconds: float) -> None:
        """Let nothing pass for a time; then what was held passes, in order."""
        end = self._loop.time() + seconds
        if self._stall_timer is not None:
            if end <= self._stall_end:
                return
            self._stall_timer.cancel()
        self._stall_end = end
        self._stall_timer = self._loop.call_at(end, self._resume)

    def clear(self) -> None:
        """Forget what is under way; a stall goes on."""
        for timer in (self._timer, self._overtaken_timer):
            if timer is not None:
                timer.cancel()
        self._timer = self._overtaken_timer = None
        self._under_way.clear()
        self._overtaken = ()
        self._held = 0

    def close(self) -> None:
        """Forget what is under way, and stop every timer."""
        self.clear()
        if self._stall_timer is not None:
            self._stall_timer.cancel()

    def _resume(self) -> None:
        self._stall_timer = None
        self._advance()

    def _enqueue(self, due: float, copies: Iterable[bytes]) -> None:
        for copy in copies:
            self._held += len(copy)
            heapq.heappush(self._under_way, (due, next(self._numbers), copy))

    def _release_overtaken(self, due: float) -> None:
        copies, self._overtaken = self._overtaken, ()
        if self._overtaken_timer is not None:
            self._overtaken_timer.cancel()
            self._overtaken_timer = None
        self._held -= sum(map(len, copies))
        self._enqueue(due, copies)

    def _let_go(self) -> None:
        self._release_overtaken(max(self._loop.time(), self._last_due))
        self._advance()

    def _advance(self) -> None:
        """Deliver what is due, and wake up for the next."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        under_way = self._under_way
        try:
            while under_way and self._stall_timer is None and under_way[0][0] <= self._loop.time():
                _due, _number, data = heapq.heappop(under_way)
                self._held -= len(data)
                if not self._deliver(data):
                    self._on_late_drop()
        finally:
            if under_way and self._stall_timer is None:
                self._timer = self._loop.call_at(under_way[0][0], self._advance)
