"""A board of a few lines at the other end of a pty, in the test's own event loop: it says what the test wants.

async with PtyBoard(tmp_path) as board:      # beats as PX4 in HITL does, and says nothing else
    async with Run(board.device, tmp_path) as run:
        board.say(common.MAVLink_statustext_message(2, b"Preflight Fail: ..."))
        board.heard                          # what it was sent, with its times
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import pty
import time
import tty
from pathlib import Path
from typing import Any

from pymavlink.dialects.v20 import common

from bridge.codec import Decoder, Message

HIL_MODE = 0x35
"""base_mode of a board in HITL: HIL, stabilised, auto and custom mode."""
BEAT_S = 0.1


class PtyBoard:
    """One board; `async with` plugs it in and pulls it out.

    Args:
        folder: where its link is, as in /dev/serial/by-id.
        base_mode: of its HEARTBEAT; None for a board that is silent.
        deaf: never reads what it is sent.

    Attributes:
        data: all bytes that it was sent.
        heard: all messages, with their times [s].
        names: of its ptys so far.
    """

    def __init__(self, folder: Path, *, base_mode: int | None = HIL_MODE, deaf: bool = False) -> None:
        self.device = str(folder / "usb-PX4_board")
        self.data = b""
        self.heard: list[tuple[float, Message]] = []
        self._base_mode = base_mode
        self._deaf = deaf
        self._decoder = Decoder()
        self._mav = common.MAVLink(None, srcSystem=1, srcComponent=1)
        self.names: list[str] = []
        self._master = -1
        self._tasks: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> PtyBoard:
        self.plug()
        if self._base_mode is not None:
            self._tasks.append(asyncio.create_task(self._beat(self._base_mode)))
        return self

    async def __aexit__(self, *_: object) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self.unplug()

    def plug(self) -> None:
        """Be there, under a name that it has not had before."""
        kept = []
        while os.ttyname((pair := pty.openpty())[1]) in self.names:  # the system gives out the lowest free number
            kept += pair
        for each in kept:
            os.close(each)
        self._master, self._line = pair
        self.names.append(os.ttyname(self._line))
        tty.setraw(self._line)
        os.set_blocking(self._master, False)
        Path(self.device).symlink_to(self.names[-1])
        if not self._deaf:
            asyncio.get_running_loop().add_reader(self._master, self._read)

    def unplug(self) -> None:
        """Be gone."""
        Path(self.device).unlink()
        asyncio.get_running_loop().remove_reader(self._master)
        os.close(self._master)
        os.close(self._line)
        self._master = -1

    def say(self, *messages: Any) -> None:
        """Send messages; what finds no room is lost, as on a board."""
        for message in messages if self._master >= 0 else ():
            with contextlib.suppress(BlockingIOError):
                os.write(self._master, message.pack(self._mav))
            self._mav.seq = (self._mav.seq + 1) & 0xFF

    def of(self, kind: str) -> list[Message]:
        """What it was sent of one kind."""
        return [message for _, message in self.heard if message.get_type() == kind]

    def read(self) -> bytes:
        """What it was sent and has not read; for a deaf one."""
        try:
            return os.read(self._master, 65536)
        except BlockingIOError:
            return b""

    def _read(self) -> None:
        data = self.read()
        self.data += data
        now = time.monotonic()
        self.heard += [(now, message) for message in self._decoder.feed(data)]

    async def _beat(self, base_mode: int) -> None:
        while True:
            self.say(common.MAVLink_heartbeat_message(2, common.MAV_AUTOPILOT_PX4, base_mode, 0, 3, 3))
            await asyncio.sleep(BEAT_S)
