"""A pair of transports inside one process, met by name: tests and the built-in autopilot use it."""

from __future__ import annotations

import asyncio
from collections import deque
from weakref import WeakKeyDictionary

from bridge.endpoint import Memory
from bridge.transport.base import WRITE_LIMIT, LinkHandler, Nobody, Transport
from firmware_profiles.errors import LinkUnavailableError

_ends: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[str, list[MemoryTransport]]] = WeakKeyDictionary()


class MemoryTransport(Transport):
    """One end of a pair; the other is whichever transport of this event loop opens under the same name.

    Delivery goes through the event loop, so that a write never runs the other end's handler.

    Args:
        name: What the two ends share.
        datagrams: What to tell of this link; either way each write arrives as one piece, in order.
    """

    def __init__(self, name: str, *, datagrams: bool = False) -> None:
        self.address = str(Memory(name))
        self.datagrams = datagrams
        self._name = name
        self._loop: asyncio.AbstractEventLoop | None = None
        self._handler: LinkHandler = Nobody()
        self._peer: MemoryTransport | None = None
        self._incoming: deque[bytes] = deque()
        self._waiting = 0  # bytes in _incoming
        self._is_up = False

    async def open(self, handler: LinkHandler) -> None:
        """Take one of the two ends; the peer is there once both are taken."""
        if self._loop is not None:
            raise RuntimeError(f"{self.address} is open already")
        loop = asyncio.get_running_loop()
        ends = _ends.setdefault(loop, {}).setdefault(self._name, [])
        if len(ends) == 2:
            raise LinkUnavailableError(f"cannot open {self.address}: both ends are taken already")
        self._loop = loop
        self._handler = handler
        ends.append(self)
        if len(ends) == 2:
            for end, other in (ends, ends[::-1]):
                end._peer = other
                loop.call_soon(end._up, other)

    def write(self, data: bytes) -> bool:
        """Hand one frame to the event loop, which gives it to the other end."""
        peer = self._peer
        if peer is None or peer._waiting > WRITE_LIMIT:
            self.dropped += 1
            return False
        if not peer._incoming:
            assert self._loop is not None
            self._loop.call_soon(peer._deliver)
        peer._incoming.append(data)
        peer._waiting += len(data)
        return True

    async def close(self) -> None:
        """Leave the pair; the other end hears `link_down` and may be met again."""
        loop, self._loop = self._loop, None
        if loop is None:
            return
        self._handler = Nobody()
        self._incoming.clear()
        self._waiting = 0
        self._is_up = False
        names = _ends[loop]
        names[self._name].remove(self)
        if not names[self._name]:
            del names[self._name]
        peer, self._peer = self._peer, None
        if peer is not None:
            peer._peer = None
            loop.call_soon(peer._down)

    def _up(self, peer: MemoryTransport) -> None:
        if self._peer is peer and not self._is_up:
            self._is_up = True
            self._handler.link_up(self.address)

    def _down(self) -> None:
        if self._is_up:
            self._is_up = False
            self._handler.link_down("the other end was closed")

    def _deliver(self) -> None:
        incoming = self._incoming
        try:
            for _ in range(len(incoming)):
                if not incoming:
                    break  # closed by the handler
                data = incoming.popleft()
                self._waiting -= len(data)
                self._handler.link_data(data)
        finally:
            if incoming and self._loop is not None:
                self._loop.call_soon(self._deliver)
