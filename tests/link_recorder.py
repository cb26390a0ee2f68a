"""What the tests of links share: a handler that keeps what it is told, and waiting for something to happen."""

from __future__ import annotations

import asyncio
from collections.abc import Callable


async def until(condition: Callable[[], bool], what: str = "", timeout_s: float = 5.0) -> None:
    try:
        async with asyncio.timeout(timeout_s):
            while not condition():
                await asyncio.sleep(0.001)
    except TimeoutError:
        raise AssertionError(f"did not happen: {what or condition}") from None


class Recorder:
    """A link handler that keeps what it is told, and notices a call from inside `write`."""

    def __init__(self) -> None:
        self.events: list[str] = []
        self.peers: list[str] = []
        self.data: list[bytes] = []
        self.ignored: list[str] = []
        self.refused = 0
        self.inside_write = False
        self.violations: list[str] = []

    def _told(self, what: str) -> None:
        if self.inside_write:
            self.violations.append(what)

    @property
    def ups(self) -> int:
        return self.events.count("up")

    @property
    def downs(self) -> int:
        return self.events.count("down")

    @property
    def received(self) -> bytes:
        return b"".join(self.data)

    def link_up(self, peer: str) -> None:
        self._told("up")
        assert peer
        self.events.append("up")
        self.peers.append(peer)

    def link_down(self, reason: str) -> None:
        self._told("down")
        assert reason
        self.events.append("down")

    def link_data(self, data: bytes) -> None:
        self._told("data")
        self.data.append(data)

    def link_refused(self) -> None:
        self._told("refused")
        self.refused += 1

    def link_ignored(self, peer: str) -> None:
        self._told("ignored")
        self.ignored.append(peer)
