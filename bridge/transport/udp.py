"""UDP: a socket that listens and answers its first peer, and one that speaks first to a given peer."""

from __future__ import annotations

import asyncio
import socket
from abc import abstractmethod
from typing import Any, Protocol, cast

from bridge.endpoint import UdpIn, UdpOut
from bridge.transport.base import WRITE_LIMIT, LinkHandler, Nobody, Transport
from bridge.transport.sockets import TOLD_LIMIT, peer_name, resolve, unavailable


class _Wire(Protocol):
    """asyncio's datagram transports, which tell how much waits although their base class does not say so."""

    def sendto(self, data: bytes, addr: Any = None) -> None: ...

    def get_write_buffer_size(self) -> int: ...

    def get_extra_info(self, name: str) -> Any: ...

    def abort(self) -> None: ...


class _Socket(asyncio.DatagramProtocol):
    """The socket of one opening of a transport."""

    __slots__ = ("_owner", "closed", "wire")

    def __init__(self, owner: _UdpTransport) -> None:
        self._owner = owner
        self.closed = asyncio.Event()
        self.wire: _Wire

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.wire = cast(_Wire, transport)

    def datagram_received(self, data: bytes, addr: Any) -> None:
        self._owner._received(data, addr)

    def error_received(self, exc: Exception) -> None:
        self._owner._failed(exc)

    def connection_lost(self, exc: Exception | None) -> None:
        self.closed.set()
        self._owner._lost(self, exc)


class _UdpTransport(Transport):
    """What both kinds share: one socket, one peer at most."""

    datagrams = True

    def __init__(self, host: str, port: int) -> None:
        self._host = host
        self._port = port
        self._handler: LinkHandler = Nobody()
        self._socket: _Socket | None = None
        self._peer: Any = None
        self._send_failed = False

    async def open(self, handler: LinkHandler) -> None:
        if self._socket is not None:
            raise RuntimeError(f"{self.address} is open already")
        loop = asyncio.get_running_loop()
        try:
            family, address = await resolve(self._host, self._port, socket.SOCK_DGRAM)
            sock = socket.socket(family, socket.SOCK_DGRAM)
            try:
                sock.setblocking(False)
                self._prepare(sock, address)
                _, self._socket = await loop.create_datagram_endpoint(lambda: _Socket(self), sock=sock)
            except BaseException:
                sock.close()
                raise
        except OSError as error:
            raise unavailable(self.address, self._port, error) from None
        self._handler = handler

    @abstractmethod
    def _prepare(self, sock: socket.socket, address: Any) -> None:
        """Bind or connect."""

    @abstractmethod
    def _received(self, data: bytes, addr: Any) -> None:
        """Take one datagram."""

    async def close(self) -> None:
        self._handler = Nobody()
        self._peer = None
        opened, self._socket = self._socket, None
        if opened is not None:
            opened.wire.abort()
            await opened.closed.wait()

    def _failed(self, exc: Exception) -> None:
        # asyncio calls this from inside sendto too, and the handler must not be called from there.
        self._send_failed = True
        if isinstance(exc, ConnectionRefusedError):
            asyncio.get_running_loop().call_soon(self._refused, self._socket)

    def _refused(self, opened: _Socket | None) -> None:
        if opened is self._socket:
            self._handler.link_refused()

    def _lost(self, lost: _Socket, exc: Exception | None) -> None:
        if lost is self._socket:
            self._peer = self._socket = None
            self._handler.link_down(f"the socket failed: {exc}")


class UdpInTransport(_UdpTransport):
    """Listens, and is pinned to the first peer that sends something, until `unpin`.

    Args:
        host: Name or address to bind.
        port: UDP port, 0 for a spare one.
    """

    def __init__(self, host: str, port: int) -> None:
        super().__init__(host, port)
        self.address = str(UdpIn(host, port))
        self._told: set[Any] = set()

    async def open(self, handler: LinkHandler) -> None:
        """Bind; the peer is told when its first datagram comes."""
        await super().open(handler)
        assert self._socket is not None
        self._told.clear()
        self.address = str(UdpIn(self._host, self._socket.wire.get_extra_info("sockname")[1]))

    async def close(self) -> None:
        """Close the socket and forget the peer."""
        await super().close()
        self.address = str(UdpIn(self._host, self._port))

    def write(self, data: bytes) -> bool:
        """Send one datagram to the peer."""
        peer, opened = self._peer, self._socket
        if peer is not None and opened is not None and opened.wire.get_write_buffer_size() <= WRITE_LIMIT:
            self._send_failed = False
            opened.wire.sendto(data, peer)
            if not self._send_failed:
                return True
        self.dropped += 1
        return False

    def unpin(self) -> None:
        """Forget the peer; the next one to send something takes its place."""
        if self._peer is not None:
            self._peer = None
            self._told.clear()
            self._handler.link_down("forgotten, it was silent")

    def _prepare(self, sock: socket.socket, address: Any) -> None:
        sock.bind(address)

    def _received(self, data: bytes, addr: Any) -> None:
        if addr != self._peer:
            if self._peer is not None:
                self._ignore(addr)
                return
            self._peer = addr
            self._handler.link_up(peer_name(addr))
        self._handler.link_data(data)

    def _ignore(self, addr: Any) -> None:
        self.ignored += 1
        if addr not in self._told and len(self._told) < TOLD_LIMIT:
            self._told.add(addr)
            self._handler.link_ignored(peer_name(addr))


class UdpOutTransport(_UdpTransport):
    """Speaks first to one peer; the system drops what comes from anybody else.

    Args:
        host: Name or address of the peer.
        port: UDP port of the peer.
    """

    speaks_first = True

    def __init__(self, host: str, port: int) -> None:
        super().__init__(host, port)
        self.address = str(UdpOut(host, port))

    async def open(self, handler: LinkHandler) -> None:
        """Bind a spare port and tell of the peer at once, whether it listens or not."""
        await super().open(handler)
        handler.link_up(peer_name(self._peer))

    def write(self, data: bytes) -> bool:
        """Send one datagram. Refusals of earlier ones come as `link_refused`."""
        opened = self._socket
        if opened is not None and opened.wire.get_write_buffer_size() <= WRITE_LIMIT:
            self._send_failed = False
            opened.wire.sendto(data)
            if self._send_failed:
                # A connected socket reports the refusal of an earlier datagram instead of sending this one.
                self._send_failed = False
                opened.wire.sendto(data)
            if not self._send_failed:
                return True
        self.dropped += 1
        return False

    def _prepare(self, sock: socket.socket, address: Any) -> None:
        sock.connect(address)
        self._peer = address

    def _received(self, data: bytes, addr: Any) -> None:
        self._handler.link_data(data)
