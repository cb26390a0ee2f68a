"""The transport contract: a link to one flight controller, as bytes.

A transport is opened once, with a handler. It finds its one peer (by listening, by connecting again and again, or
by being spoken to), tells the handler of connection and loss, and hands over whatever arrives. It never raises into
the loop after `open`: what goes wrong is told to the handler.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Protocol


class LinkHandler(Protocol):
    """What a transport calls; always from the event loop's thread, never from inside `write`."""

    def link_up(self, peer: str) -> None:
        """A peer is there. On a datagram socket that sends first, as soon as the socket is open."""

    def link_down(self, reason: str) -> None:
        """The peer is gone; the transport listens or tries again by itself."""

    def link_data(self, data: bytes) -> None:
        """Bytes arrived: one datagram, or any piece of a stream."""

    def link_refused(self) -> None:
        """A datagram was refused: nobody listens at the peer's port at present. No error."""

    def link_ignored(self, peer: str) -> None:
        """Somebody other than the peer connected or sent something, and was ignored (told once a peer)."""


class Transport(ABC):
    """A link to one peer.

    Attributes:
        datagrams: True when the peer gets whole datagrams that may be lost, duplicated or reordered;
            False for a byte stream that arrives whole and in order.
        speaks_first: True when nothing arrives until something has been sent (udpout).
    """

    datagrams: bool = False
    speaks_first: bool = False

    @abstractmethod
    async def open(self, handler: LinkHandler) -> None:
        """Bind, listen or start to connect.

        Raises:
            LinkUnavailableError: the port cannot be had (busy, no such device, no permission), in one line.
        """

    @abstractmethod
    def write(self, data: bytes) -> bool:
        """Send one whole frame, without waiting.

        Returns:
            False when it was dropped, because there is no peer or because more than `WRITE_LIMIT` bytes wait already.
        """

    @abstractmethod
    async def close(self) -> None:
        """Close everything; the handler hears nothing more."""


WRITE_LIMIT = 65536
"""Bytes that may wait to be sent; beyond it frames are dropped, so that a peer that stops reading costs no memory."""
