"""The transport contract: a link to one flight controller, as bytes.

A transport is opened with a handler. It finds its one peer (by listening, by connecting again and again, or by being
spoken to), tells the handler of connection and loss, and hands over whatever arrives. It never raises into the loop
after `open`: what goes wrong is told to the handler. A closed transport may be opened again.
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


class Nobody:
    """A handler that does nothing: what a closed transport calls."""

    def link_up(self, peer: str) -> None:
        """Do nothing."""

    def link_down(self, reason: str) -> None:
        """Do nothing."""

    def link_data(self, data: bytes) -> None:
        """Do nothing."""

    def link_refused(self) -> None:
        """Do nothing."""

    def link_ignored(self, peer: str) -> None:
        """Do nothing."""


class Transport(ABC):
    """A link to one peer.

    Attributes:
        datagrams: True when the peer gets whole datagrams that may be lost, duplicated or reordered;
            False for a byte stream that arrives whole and in order.
        speaks_first: True when nothing arrives until something has been sent (udpout).
        address: The endpoint in its printed form; a spare port (0) is replaced by the real one while open.
        dropped: Frames for which `write` returned False, and frames that were lost on this side later.
        ignored: Connections or datagrams of others than the peer, all of them counted.
    """

    datagrams: bool = False
    speaks_first: bool = False
    address: str = ""
    dropped: int = 0
    ignored: int = 0

    @abstractmethod
    async def open(self, handler: LinkHandler) -> None:
        """Bind, listen or start to connect. A peer that is there already may be told before this returns.

        Raises:
            LinkUnavailableError: the port cannot be had (busy, no such device, no permission), in one line.
            RuntimeError: it is open already.
        """

    @abstractmethod
    def write(self, data: bytes) -> bool:
        """Send one whole frame, without waiting.

        Returns:
            False when it was dropped, because there is no peer or because more than `WRITE_LIMIT` bytes wait already.
        """

    def waiting(self) -> int:
        """Bytes that were taken and are known not to have left yet; 0 where that cannot be known."""
        return 0

    def pass_on(self, data: bytes) -> bool:
        """Send a frame that somebody else has made, as it is; where the link is signed, so is the frame already."""
        return self.write(data)

    def unpin(self) -> None:  # noqa: B027 - most links have nobody to forget
        """Forget a peer that has fallen silent, so that another may take its place.

        Where there was such a peer, `link_down` is called before this returns. Does nothing on links that have only
        one possible peer.
        """

    @abstractmethod
    async def close(self) -> None:
        """Close everything; the handler hears nothing more. May be called twice, or before `open`."""


WRITE_LIMIT = 65536
"""Bytes that may wait to be sent; beyond it frames are dropped, so that a peer that stops reading costs no memory."""
