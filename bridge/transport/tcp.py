"""TCP: a server for one peer at a time (a simulator, for PX4), and a client that never gives up."""

from __future__ import annotations

import asyncio
import socket
from typing import Any, cast

from bridge.endpoint import TcpIn, TcpOut
from bridge.transport.base import WRITE_LIMIT, LinkHandler, Nobody, Transport
from bridge.transport.sockets import TOLD_LIMIT, peer_name, resolve, unavailable

FIRST_RETRY_S = 0.02
LAST_RETRY_S = 0.5
CONNECT_TIMEOUT_S = 2.0
"""A host that answers nothing is asked again after this time; the system's own limit is minutes."""
STEADY_S = 1.0
"""A connection that held this long counts as a success, and the next retry starts from the short delay."""

_ESTABLISHED = 1  # tcpi_state, the first byte of TCP_INFO


class _Connection(asyncio.Protocol):
    """One TCP connection of a transport."""

    __slots__ = ("_owner", "lost", "peer", "wire")

    def __init__(self, owner: _TcpTransport) -> None:
        self._owner = owner
        self.lost = asyncio.Event()
        self.peer: Any = None
        self.wire: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.wire = cast(asyncio.Transport, transport)
        self.peer = transport.get_extra_info("peername")
        transport.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._owner._made(self)

    def data_received(self, data: bytes) -> None:
        owner = self._owner
        if owner._current is self:
            owner._handler.link_data(data)

    def eof_received(self) -> None:
        # Not close(): that would wait for what is still unsent, to somebody who may never read it.
        self.wire.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost.set()
        self._owner._lost(self, _reason(exc))

    def is_gone(self) -> bool:
        """True when the peer has closed its side, though its last bytes may still have to be read."""
        if self.wire.is_closing():
            return True
        sock = self.wire.get_extra_info("socket")
        state = sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1)[0]
        return bool(state != _ESTABLISHED)


def _reason(exc: Exception | None) -> str:
    if exc is None:
        return "the peer closed the connection"
    return (isinstance(exc, OSError) and exc.strerror) or str(exc)


class _TcpTransport(Transport):
    """What both ends share: the connections, one of them current."""

    def __init__(self, host: str, port: int) -> None:
        self._host = host
        self._port = port
        self._handler: LinkHandler = Nobody()
        self._current: _Connection | None = None
        self._connections: set[_Connection] = set()

    def write(self, data: bytes) -> bool:
        current = self._current
        if current is not None:
            wire = current.wire
            if not wire.is_closing() and wire.get_write_buffer_size() <= WRITE_LIMIT:
                wire.write(data)
                return True
        self.dropped += 1
        return False

    def unpin(self) -> None:
        current = self._current
        if current is not None:
            self._down(current, "forgotten, it was silent")
            current.wire.abort()

    def _made(self, connection: _Connection) -> None:
        self._connections.add(connection)
        if self._accepts(connection):
            self._current = connection
            self._handler.link_up(peer_name(connection.peer))
        else:
            connection.wire.abort()

    def _accepts(self, connection: _Connection) -> bool:
        raise NotImplementedError

    def _lost(self, connection: _Connection, reason: str) -> None:
        self._connections.discard(connection)
        self._down(connection, reason)

    def _down(self, connection: _Connection, reason: str) -> None:
        if self._current is connection:
            self._current = None
            self._handler.link_down(reason)

    async def _drop_connections(self) -> None:
        self._handler = Nobody()
        self._current = None
        for connection in list(self._connections):
            connection.wire.abort()
            await connection.lost.wait()


class TcpInTransport(_TcpTransport):
    """A server for exactly one peer; further connections are closed at once.

    Args:
        host: Name or address to listen at.
        port: TCP port, 0 for a spare one.
    """

    def __init__(self, host: str, port: int) -> None:
        super().__init__(host, port)
        self.address = str(TcpIn(host, port))
        self._server: asyncio.Server | None = None
        self._told: set[str] = set()

    async def open(self, handler: LinkHandler) -> None:
        """Bind and listen; the peer is told when it connects."""
        if self._server is not None:
            raise RuntimeError(f"{self.address} is open already")
        self._handler = handler
        self._told.clear()
        loop = asyncio.get_running_loop()
        try:
            self._server = await loop.create_server(
                lambda: _Connection(self), self._host, self._port, reuse_address=True
            )
        except OSError as error:
            self._handler = Nobody()
            raise unavailable(self.address, self._port, error) from None
        self.address = str(TcpIn(self._host, self._server.sockets[0].getsockname()[1]))

    async def close(self) -> None:
        """Stop listening and drop the peer."""
        server, self._server = self._server, None
        if server is not None:
            server.close()
            await self._drop_connections()
            await server.wait_closed()
            self.address = str(TcpIn(self._host, self._port))

    def _accepts(self, connection: _Connection) -> bool:
        if self._server is None:
            return False
        current = self._current
        if current is not None and current.is_gone():
            # A peer that restarts can be back before the loop has read the end of its last connection.
            self._down(current, _reason(None))
            current.wire.abort()
            current = None
        if current is None:
            self._told.clear()
            return True
        self.ignored += 1
        # By host: a client that retries comes from another port each time.
        name = peer_name(connection.peer)
        host = name.rpartition(":")[0]
        if host not in self._told and len(self._told) < TOLD_LIMIT:
            self._told.add(host)
            self._handler.link_ignored(name)
        return False


class TcpOutTransport(_TcpTransport):
    """A client that connects again and again.

    Args:
        host: Name or address of the server.
        port: TCP port of the server.
    """

    def __init__(self, host: str, port: int) -> None:
        super().__init__(host, port)
        self.address = str(TcpOut(host, port))
        self._task: asyncio.Task[None] | None = None

    async def open(self, handler: LinkHandler) -> None:
        """Start to connect; that nobody listens yet is no error, a host name that is not known is."""
        if self._task is not None:
            raise RuntimeError(f"{self.address} is open already")
        try:
            await resolve(self._host, self._port, socket.SOCK_STREAM)
        except OSError as error:
            raise unavailable(self.address, self._port, error) from None
        self._handler = handler
        self._task = asyncio.create_task(self._stay_connected(), name=f"connect {self.address}")

    async def close(self) -> None:
        """Stop connecting and drop the connection."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            await self._drop_connections()

    async def _stay_connected(self) -> None:
        loop = asyncio.get_running_loop()
        delay = FIRST_RETRY_S
        while True:
            started = loop.time()
            try:
                async with asyncio.timeout(CONNECT_TIMEOUT_S):
                    _, connection = await loop.create_connection(lambda: _Connection(self), self._host, self._port)
            except OSError:
                pass  # nobody listens at present
            else:
                await connection.lost.wait()
                if loop.time() - started > STEADY_S:
                    delay = FIRST_RETRY_S
            await asyncio.sleep(delay)
            delay = min(2 * delay, LAST_RETRY_S)

    def _accepts(self, connection: _Connection) -> bool:
        # On the loopback a client that retries an unused port can be given that very port, and meet itself.
        return bool(self._task is not None and connection.wire.get_extra_info("sockname") != connection.peer)
