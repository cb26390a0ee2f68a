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

    Args:
        path: the tlog.

    Raises:
        NoInputError, DataError: as `read_tlog`.
    """

    def __init__(self, path: Path) -> None:
        self.address = f"tlog:{path}"
        self._player = CapturePlayer(read_tlog(path))
        self._handler: LinkHandler = Nobody()
        self._decoder = Decoder()
        self._connected = False

    async def open(self, handler: LinkHandler) -> None:
        """The recorded flight controller connects."""
        self._handler = handler
        asyncio.get_running_loop().call_soon(self._connect)

    def write(self, data: bytes) -> bool:
        """Hand a frame to the recorded flight controller."""
        if not self._connected:
            self.dropped += 1
            return False
        for message in self._decoder.feed(data):
            if message.get_type() == "HIL_SENSOR":
                self._say(self._player.sensor(message.time_usec))
                if self._player.ended:
                    asyncio.get_running_loop().call_soon(self._leave)
        return True

    async def close(self) -> None:
        """Stop playing."""
        self._handler = Nobody()
        self._connected = False

    def _connect(self) -> None:
        if self._player.connect():
            self._connected = True
            self._handler.link_up("the recorded flight controller")
            self._say(self._player.greeting())

    def _leave(self) -> None:
        if self._connected:
            self._connected = False
            self._handler.link_down("it closed the connection")
            asyncio.get_running_loop().call_soon(self._connect)

    def _say(self, frames: list[bytes]) -> None:
        for frame in frames:
            asyncio.get_running_loop().call_soon(self._hand_over, frame)

    def _hand_over(self, frame: bytes) -> None:
        self._handler.link_data(frame)
