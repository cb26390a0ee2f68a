"""A bad link on purpose: wraps any transport and delays, loses, repeats, swaps, corrupts or stalls what passes."""

from __future__ import annotations

import asyncio
import heapq
import itertools
from collections.abc import Callable, Iterable

from bridge.transport.base import LinkHandler, Nobody, Transport
from bridge.transport.faults import Fates, FaultCounts, FaultPlan, check_time

__all__ = ["HELD_LIMIT", "REORDER_WAIT_S", "FaultCounts", "FaultPlan", "FaultyTransport"]

HELD_LIMIT = 4 << 20
"""Bytes that a delay or a stall may hold back in one direction; what comes beyond is dropped and counted."""

REORDER_WAIT_S = 0.1
"""How long a frame that is to be overtaken waits for one that overtakes it."""


class _Lane:
    """One direction: what is under way, in the order in which it is to arrive."""

    def __init__(self, fates: Fates, deliver: Callable[[bytes], bool], drop: Callable[[], None], *, in_order: bool):
        self.stalled = False
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

    def send(self, data: bytes) -> bool:
        """Let one frame meet its fate; False when it is known here and now that it goes nowhere."""
        if self._held > HELD_LIMIT:
            self._fates.counts.overflowed += 1
            return False
        fate = self._fates.decide(data)
        if not fate.copies:
            return True  # a sender does not learn of a loss
        if not (self._under_way or self._overtaken or self.stalled or fate.delay_s or fate.overtaken):
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

    def clear(self) -> None:
        """Forget what is under way."""
        for timer in (self._timer, self._overtaken_timer):
            if timer is not None:
                timer.cancel()
        self._timer = self._overtaken_timer = None
        self._under_way.clear()
        self._overtaken = ()
        self._held = 0

    def resume(self) -> None:
        """End a stall: what was held passes."""
        self.stalled = False
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
            while under_way and not self.stalled and under_way[0][0] <= self._loop.time():
                _due, _number, data = heapq.heappop(under_way)
                self._held -= len(data)
                if not self._deliver(data):
                    self._on_late_drop()
        finally:
            if under_way and not self.stalled:
                self._timer = self._loop.call_at(under_way[0][0], self._advance)


class FaultyTransport(Transport):
    """A transport behind a bad link. With an empty plan it changes nothing.

    On a byte stream a fault meets whatever piece was written or read at once, and delays keep the order, unless
    reordering is asked for. What is under way when the peer is lost is lost too.

    Args:
        inner: The transport to spoil.
        plan: What goes wrong.
        seed: The same seed and the same frames give the same faults.
        incoming: Another plan for what arrives; its stalls are not used, since a stall stops both directions.

    Attributes:
        sent: What was done to outgoing frames.
        received: What was done to incoming frames.
    """

    def __init__(self, inner: Transport, plan: FaultPlan, seed: int = 0, *, incoming: FaultPlan | None = None) -> None:
        self._inner = inner
        self._plan = plan
        self._handler: LinkHandler = Nobody()
        self._out_fates = Fates(plan, f"{seed} out")
        self._in_fates = Fates(incoming or plan, f"{seed} in")
        self._out: _Lane | None = None
        self._in: _Lane | None = None
        self._up = False
        self._stall_end = 0.0
        self._stall_timer: asyncio.TimerHandle | None = None
        self._planned: list[asyncio.TimerHandle] = []
        self.sent: FaultCounts = self._out_fates.counts
        self.received: FaultCounts = self._in_fates.counts
        self.datagrams = inner.datagrams
        self.speaks_first = inner.speaks_first
        self.address = inner.address

    async def open(self, handler: LinkHandler) -> None:
        """Open the inner transport; planned stalls count from here."""
        if self._out is not None:
            raise RuntimeError(f"{self.address} is open already")
        in_order = not self.datagrams
        self._handler = handler
        self._out = _Lane(self._out_fates, self._send, self._count_drop, in_order=in_order)
        self._in = _Lane(self._in_fates, self._hand_over, self._count_drop, in_order=in_order)
        try:
            await self._inner.open(_Inner(self))
        except BaseException:
            self._out = self._in = None
            raise
        self.address = self._inner.address
        loop = asyncio.get_running_loop()
        self._planned = [loop.call_later(start_s, self.stall, length_s) for start_s, length_s in self._plan.stalls]

    def write(self, data: bytes) -> bool:
        """Send one frame into the bad link. A frame that the plan loses counts as sent."""
        out = self._out
        if out is not None and self._up and out.send(data):
            return True
        self.dropped += 1
        return False

    def stall(self, seconds: float) -> None:
        """Let nothing pass for a time, in either direction; then what was held passes, in order.

        Raises:
            UsageError: not a time of 0 s or more.
            RuntimeError: the transport is not open.
        """
        check_time("a stall", seconds)
        if self._out is None or self._in is None:
            raise RuntimeError(f"{self.address} is not open")
        loop = asyncio.get_running_loop()
        end = loop.time() + seconds
        if self._stall_timer is not None:
            if end <= self._stall_end:
                return
            self._stall_timer.cancel()
        self._stall_end = end
        self._out.stalled = self._in.stalled = True
        self._stall_timer = loop.call_at(end, self._resume)

    def unpin(self) -> None:
        """Forget a silent peer of the inner transport."""
        self._inner.unpin()

    async def close(self) -> None:
        """Close the inner transport; what is under way is lost."""
        self._handler = Nobody()
        for timer in (*self._planned, self._stall_timer):
            if timer is not None:
                timer.cancel()
        self._planned.clear()
        self._stall_timer = None
        self._forget()
        self._out = self._in = None
        await self._inner.close()
        self.address = self._inner.address

    def _resume(self) -> None:
        self._stall_timer = None
        for lane in (self._out, self._in):
            if lane is not None:
                lane.resume()

    def _forget(self) -> None:
        self._up = False
        for lane in (self._out, self._in):
            if lane is not None:
                lane.clear()

    def _count_drop(self) -> None:
        self.dropped += 1

    def _send(self, data: bytes) -> bool:
        return self._inner.write(data)

    def _hand_over(self, data: bytes) -> bool:
        self._handler.link_data(data)
        return True


class _Inner:
    """What the spoiled transport talks to."""

    def __init__(self, owner: FaultyTransport) -> None:
        self._owner = owner

    def link_up(self, peer: str) -> None:
        self._owner._up = True
        self._owner._handler.link_up(peer)

    def link_down(self, reason: str) -> None:
        self._owner._forget()
        self._owner._handler.link_down(reason)

    def link_data(self, data: bytes) -> None:
        lane = self._owner._in
        if lane is not None and not lane.send(data):
            self._owner.dropped += 1

    def link_refused(self) -> None:
        self._owner._handler.link_refused()

    def link_ignored(self, peer: str) -> None:
        self._owner.ignored = self._owner._inner.ignored
        self._owner._handler.link_ignored(peer)
