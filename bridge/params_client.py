"""A board's parameters over a link: the asyncio shell around `bridge.params_transfer`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from contextlib import suppress

from bridge.board_link import BoardLink, Found
from bridge.codec import Message
from bridge.param_wire import list_message, name_of, read_message, set_message, value_of
from bridge.params_transfer import (
    CLEAN_READ_ROUNDS,
    READ_ROUNDS,
    AskList,
    AskRead,
    Change,
    Download,
    Heard,
    Reading,
    Request,
    Transfer,
)
from firmware_profiles.errors import LinkUnavailableError, RefusedError
from firmware_profiles.px4_params import Value, shown

Progress = Callable[[int, int], None]
"""Is told how many have come, and of how many."""


class ParamsClient:
    """Reads and changes a board's parameters; one thing at a time.

    Args:
        link: with the autopilot found.
        board: the autopilot.
    """

    def __init__(self, link: BoardLink, board: Found) -> None:
        self._link = link
        self._board = board
        self._news = asyncio.Event()
        self._transfer: Transfer | None = None
        self._clean = False
        link.on_message = self._message

    async def download(self, progress: Progress = lambda *_: None) -> dict[str, Value]:
        """All parameters that the board lists.

        Raises:
            LinkUnavailableError: some did not come in spite of everything.
        """
        download = Download()
        await self._run(download, lambda: progress(download.received, download.total or 0))
        self._clean = download.clean
        if not download.complete:
            total = "none" if download.total is None else f"{download.received} of {download.total}"
            raise LinkUnavailableError(
                f"{self._link.transport.address}: the board stopped answering: {total} of its parameters came; is "
                "another program on this link, or the line too bad?"
            )
        return download.values

    async def read(self, names: Iterable[str], rounds: int | None = None) -> dict[str, Value]:
        """Some parameters by name, without those that the board does not have.

        Args:
            names: of the parameters.
            rounds: so often one that does not come is asked for; None is what the line has shown to need.
        """
        if rounds is None:
            rounds = CLEAN_READ_ROUNDS if self._clean else READ_ROUNDS
        reading = Reading(names, rounds)
        await self._run(reading)
        return reading.values

    async def set(self, name: str, value: Value) -> None:
        """Change one parameter, and read it back.

        Raises:
            RefusedError: the board keeps another value.
            LinkUnavailableError: it does not answer.
        """
        change = Change(name, value)
        await self._run(change)
        if change.complete:
            return
        if change.last is None:
            raise LinkUnavailableError(f"{self._link.transport.address}: no answer when {name} was set")
        raise RefusedError(f"{name} was set to {shown(value)}, and the board keeps {shown(change.last)}")

    async def _run(self, transfer: Transfer, look: Callable[[], None] = lambda: None) -> None:
        self._transfer = transfer
        try:
            while not transfer.over:
                self._news.clear()
                for request in transfer.due(self._link.now_s):
                    self._link.send(self._message_of(request))
                look()
                left_s = transfer.wake_s - self._link.now_s
                if not transfer.over and left_s > 0:
                    with suppress(TimeoutError):
                        await asyncio.wait_for(self._news.wait(), left_s)
            look()
        finally:
            self._transfer = None

    def _message(self, message: Message) -> None:
        if message.get_type() != "PARAM_VALUE" or self._transfer is None:
            return
        value = value_of(message)
        name = name_of(message)
        if value is not None:
            self._transfer.heard(Heard(name, value, message.param_count, message.param_index), self._link.now_s)
            self._news.set()

    def _message_of(self, request: Request) -> Message:
        system, component = self._board.system, self._board.component
        if isinstance(request, AskList):
            return list_message(system, component)
        if isinstance(request, AskRead):
            return read_message(system, component, request.which)
        return set_message(system, component, request.name, request.value)
