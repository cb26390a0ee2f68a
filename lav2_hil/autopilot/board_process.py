"""The board as a process at one end of a serial line. Reports are JSON lines on stdout."""

from __future__ import annotations

import asyncio
import time

from bridge.endpoint import Endpoint, Serial
from bridge.transport.factory import create_transport
from firmware_profiles.profile import VehicleProfile
from lav2_hil.autopilot.board import CONTROLS_US, Board
from lav2_hil.autopilot.mission import Mission
from lav2_hil.autopilot.process import report


class BoardProcess:
    """Runs one board, over all its boots.

    Args:
        profile: the nominal vehicle.
        endpoint: the line to the simulator.
        instance: PX4's instance number; the system id is one more.
        mission: what to do after the first boot, if anything; the process ends with it.
        usb: the line is USB, and not a UART at the endpoint's rate.
        sys_hitl: SYS_HITL at the first boot.
    """

    def __init__(
        self,
        profile: VehicleProfile,
        endpoint: Endpoint,
        instance: int,
        mission: Mission | None,
        *,
        usb: bool,
        sys_hitl: int,
    ) -> None:
        baud = None if usb or not isinstance(endpoint, Serial) else endpoint.baud
        self._board = Board(profile, instance + 1, mission, report, baud, sys_hitl, _now_us())
        self._link = create_transport(endpoint)
        self._done = asyncio.Event()
        self._boots = 0

    async def run(self) -> None:
        """Fly until the mission has ended, or for ever.

        Raises:
            LinkUnavailableError: the line cannot be had.
        """
        await self._link.open(self)
        due = time.monotonic()
        try:
            while not self._done.is_set():
                self._send(self._board.tick(_now_us()))
                if self._board.boots != self._boots:
                    self._boots = self._board.boots
                    report({"boots": self._boots})
                if self._board.autopilot.finished:
                    report({"mission": self._board.autopilot.failure or "done"})
                    return
                due = max(due + 1e-6 * CONTROLS_US, time.monotonic())
                await asyncio.sleep(due - time.monotonic())
        finally:
            self._board.autopilot.close()
            await self._link.close()

    def end(self) -> None:
        """Let `run` come to its end."""
        self._done.set()

    def command(self, text: str) -> None:
        """A word on standard input: `reboot` is the reset button."""
        if text == "reboot":
            self.reboot()

    def reboot(self) -> None:
        """Start the board anew, in flight too; the mission was the first boot's."""
        self._board.autopilot.close()
        self._board.boot(_now_us())

    def _send(self, frames: list[bytes]) -> None:
        for frame in frames:
            self._link.write(frame)

    # The line

    def link_up(self, peer: str) -> None:
        """The line is there."""

    def link_down(self, reason: str) -> None:
        """The line is gone: the board does not notice."""

    def link_data(self, data: bytes) -> None:
        """Answer."""
        self._send(self._board.received(data, _now_us()))

    def link_refused(self) -> None:
        """Nobody there yet."""

    def link_ignored(self, peer: str) -> None:
        """Somebody else; no concern of this end."""


def _now_us() -> int:
    return time.monotonic_ns() // 1000
