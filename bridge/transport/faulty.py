"""A bad link on purpose: wraps any transport and loses, delays, repeats, swaps, corrupts, stalls or cuts."""

from __future__ import annotations

import asyncio

from bridge.framing import FrameCutter
from bridge.transport.base import LinkHandler, Nobody, Transport
from bridge.transport.faults import Fates, FaultCounts, FaultPlan, check_time
from bridge.transport.lane import HELD_LIMIT, REORDER_WAIT_S, Lane

__all__ = ["HELD_LIMIT", "REORDER_WAIT_S", "FaultCounts", "FaultPlan", "FaultyTransport"]


class FaultyTransport(Transport):
    """A transport behind a bad link. With an empty plan it changes nothing.

    Each frame meets its own fate. A byte stream is cut into frames first, so that the faults do not depend on how much
    was read at once; delays keep its order, unless reordering is asked for. What is under way when the peer is lost is
    lost too.

    Args:
        inner: The transport to spoil.
        plan: What goes wrong.
        seed: The same seed and the same frames give the same faults.
        incoming: Another plan for what arrives; its stalls are not used, since a planned stall stops both directions.

    Attributes:
        sent: What was done to outgoing frames.
        received: What was done to incoming frames.
    """

    def __init__(self, inner: Transport, plan: FaultPlan, seed: int = 0, *, incoming: FaultPlan | None = None) -> None:
        self._inner = inner
        self._stalls = plan.stalls
        self._handler: LinkHandler = Nobody()
        self._out_fates = Fates(plan, f"{seed} out")
        self._in_fates = Fates(incoming or plan, f"{seed} in")
        self._out: Lane | None = None
        self._in: Lane | None = None
        self._cutter = FrameCutter()
        self._peer: str | None = None  # of the inner transport
        self._up = False  # as the handler was told
        self._mending: asyncio.TimerHandle | None = None
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
        self._out = Lane(self._out_fates, self._send, self._count_drop, in_order=in_order)
        self._in = Lane(self._in_fates, self._hand_over, self._count_drop, in_order=in_order)
        try:
            await self._inner.open(_Inner(self))
        except BaseException:
            self._out = self._in = None
            raise
        self.address = self._inner.address
        loop = asyncio.get_running_loop()
        self._planned = [loop.call_later(start_s, self.stall, length_s) for start_s, length_s in self._stalls]

    def write(self, data: bytes) -> bool:
        """Send one frame into the bad link. A frame that the plan loses counts as sent."""
        out = self._out
        if out is not None and self._up and out.send(data):
            return True
        self.dropped += 1
        return False

    def waiting(self) -> int:
        """Of the inner transport; what a fault delays is not counted, as if it were on its way already."""
        return self._inner.waiting()

    @property
    def is_open(self) -> bool:
        """Whether there is a link to spoil."""
        return self._out is not None

    def change(self, outgoing: FaultPlan, incoming: FaultPlan) -> None:
        """Other faults from the next frame on; what is under way keeps its fate, and the dice are not thrown anew."""
        self._out_fates.plan, self._in_fates.plan = outgoing, incoming

    def stall(self, seconds: float, *, outgoing: bool = True, incoming: bool = True) -> None:
        """Let nothing pass for a time, in either direction or in one; then what was held passes, in order.

        Raises:
            UsageError: not a time of 0 s or more.
            RuntimeError: the transport is not open.
        """
        check_time("a stall", seconds)
        if self._out is None or self._in is None:
            raise RuntimeError(f"{self.address} is not open")
        if outgoing:
            self._out.stall(seconds)
        if incoming:
            self._in.stall(seconds)

    def cut(self, seconds: float) -> None:
        """Break the link for a time: the peer is lost, and whoever connects meanwhile is turned away.

        A peer that has no connection to lose (serial, udpout, memory) is there again at the end. The handler hears
        `link_down` before this returns.

        Raises:
            UsageError: not a time of 0 s or more.
            RuntimeError: the transport is not open.
        """
        check_time("a cut", seconds)
        if self._out is None:
            raise RuntimeError(f"{self.address} is not open")
        loop = asyncio.get_running_loop()
        end = loop.time() + seconds
        if self._mending is not None:
            end = max(end, self._mending.when())
            self._mending.cancel()
        self._mending = loop.call_at(end, self._mend)
        self._go_down("the link was cut on purpose")
        self._inner.unpin()

    def unpin(self) -> None:
        """Forget a silent peer of the inner transport."""
        self._inner.unpin()

    async def close(self) -> None:
        """Close the inner transport; what is under way is lost."""
        self._handler = Nobody()
        for timer in (*self._planned, self._mending):
            if timer is not None:
                timer.cancel()
        self._planned.clear()
        self._mending = None
        self._up = False
        self._peer = None
        for lane in (self._out, self._in):
            if lane is not None:
                lane.close()
        self._out = self._in = None
        self._cutter.clear()
        await self._inner.close()
        self.address = self._inner.address

    def _mend(self) -> None:
        self._mending = None
        if self._peer is not None:
            self._go_up(self._peer)

    def _go_up(self, peer: str) -> None:
        self._up = True
        self._handler.link_up(peer)

    def _go_down(self, reason: str) -> None:
        if not self._up:
            return
        self._up = False
        self._cutter.clear()
        for lane in (self._out, self._in):
            if lane is not None:
                lane.clear()
        self._handler.link_down(reason)

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
        owner = self._owner
        owner._peer = peer
        if owner._mending is None:
            owner._go_up(peer)
        else:
            owner._inner.unpin()

    def link_down(self, reason: str) -> None:
        self._owner._peer = None
        self._owner._go_down(reason)

    def link_data(self, data: bytes) -> None:
        owner = self._owner
        for piece in [data] if owner.datagrams else owner._cutter.feed(data):
            lane = owner._in
            if lane is None or not owner._up:
                return  # nobody to hand it to: cut, or closed by the handler
            if not lane.send(piece):
                owner.dropped += 1

    def link_refused(self) -> None:
        self._owner._handler.link_refused()

    def link_ignored(self, peer: str) -> None:
        self._owner.ignored = self._owner._inner.ignored
        self._owner._handler.link_ignored(peer)
