"""A recorded flight controller as the peer of a link."""

from __future__ import annotations

import asyncio
from pathlib import Path

from bridge.capture import CapturePlayer
from bridge.codec import Decoder
from bridge.tlog import read_tlog
from bridge.transport.base import LinkHandler, Nobody, Transport


class CaptureTransport(Transport):
    """Plays a tlog of what a PX4 sent to its simulator; at its end the peer is gone.

    Delivery goes through the event loop, so that a write never runs the handler. Opened again, it plays from the start.

    Args:
        path: the tlog.

    Raises:
        NoInputError, DataError: as `read_tlog`.
    """

    def __init__(self, path: Path) -> None:
        self.address = f"tlog:{path}"
        self._records = read_tlog(path)
        self._handler: LinkHandler = Nobody()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._connected = False

    async def open(self, handler: LinkHandler) -> None:
        """The recorded flight controller connects."""
        if self._loop is not None:
            raise RuntimeError(f"{self.address} is open already")
        self._loop = asyncio.get_running_loop()
        self._handler = handler
        self._player = CapturePlayer(self._records)
        self._decoder = Decoder()
        self._loop.call_soon(self._connect, self._player)

    def write(self, data: bytes) -> bool:
        """Hand a frame to the recorded flight controller."""
        if self._loop is None or not self._connected:
            self.dropped += 1
            return False
        for message in self._decoder.feed(data):
            if message.get_type() == "HIL_SENSOR":
                self._say(self._player.sensor(message.time_usec))
                if self._player.ended:
                    self._loop.call_soon(self._leave, self._player)
        return True

    async def close(self) -> None:
        """Stop playing."""
        self._handler = Nobody()
        self._loop = None
        self._connected = False

    def _connect(self, player: CapturePlayer) -> None:
        if self._loop is not None and player is self._player and player.connect():
            self._connected = True
            self._handler.link_up("the recorded flight controller")
            self._say(player.greeting())

    def _leave(self, player: CapturePlayer) -> None:
        if self._loop is not None and player is self._player and self._connected:
            self._connected = False
            self._handler.link_down("it closed the connection")
            self._loop.call_soon(self._connect, player)

    def _say(self, frames: list[bytes]) -> None:
        assert self._loop is not None
        for frame in frames:
            self._loop.call_soon(self._hand_over, self._player, frame)

    def _hand_over(self, player: CapturePlayer, frame: bytes) -> None:
        if player is self._player:
            self._handler.link_data(frame)
