"""Rigs for the transport contract: each makes a transport, and is its peer, which can go away and come back."""

from __future__ import annotations

import asyncio
import itertools
import os
import pty
import socket
import tty
from pathlib import Path

from link_recorder import Recorder, until

from bridge.endpoint import Endpoint, Memory, Serial, TcpIn, TcpOut, UdpIn, UdpOut, parse_endpoint
from bridge.transport.base import Transport
from bridge.transport.factory import create_transport
from bridge.transport.faulty import FaultPlan, FaultyTransport
from bridge.transport.memory import MemoryTransport

LOCAL = "127.0.0.1"
_names = itertools.count()


def port_of(address: str) -> int:
    endpoint = parse_endpoint(address)
    assert isinstance(endpoint, UdpIn | TcpIn)
    return endpoint.port


def bound(kind: socket.SocketKind, port: int = 0) -> socket.socket:
    sock = socket.socket(socket.AF_INET, kind)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    sock.setblocking(False)
    sock.bind((LOCAL, port))
    return sock


class Rig:
    """One transport under test with its peer; a subclass for each kind."""

    peer_files = 0
    """Files that `attach` opens on the peer's side."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.handler = Recorder()
        self.transport: Transport

    def make(self, wrapped: bool) -> None:
        transport = create_transport(self.endpoint())
        self.transport = FaultyTransport(transport, FaultPlan(), seed=1) if wrapped else transport

    def endpoint(self) -> Endpoint:
        raise NotImplementedError

    async def attach(self) -> None:
        """Bring the peer, until both sides can send."""
        raise NotImplementedError

    async def lose(self) -> None:
        """Make the peer go away."""
        raise NotImplementedError

    async def send(self, data: bytes) -> None:
        raise NotImplementedError

    async def receive(self) -> bytes:
        """What has come to the peer by now, one datagram or a piece of the stream; waits for it."""
        raise NotImplementedError

    async def stranger(self) -> socket.socket:
        """Somebody else who says b'stranger'."""
        raise NotImplementedError

    async def cleanup(self) -> None:
        raise NotImplementedError

    async def up(self) -> None:
        await self.transport.open(self.handler)
        await self.attach()
        await until(lambda: self.handler.ups == 1, "link_up")
        self.handler.data.clear()

    def write(self, data: bytes) -> bool:
        self.handler.inside_write = True
        try:
            return self.transport.write(data)
        finally:
            self.handler.inside_write = False

    async def receive_all(self, size: int) -> bytes:
        received = bytearray()
        async with asyncio.timeout(10):
            while len(received) < size:
                received += await self.receive()
        return bytes(received)


class SocketRig(Rig):
    peer_files = 1
    peer: socket.socket | None = None

    async def send(self, data: bytes) -> None:
        assert self.peer is not None
        await asyncio.get_running_loop().sock_sendall(self.peer, data)

    async def receive(self) -> bytes:
        assert self.peer is not None
        return await asyncio.get_running_loop().sock_recv(self.peer, 65536)

    async def lose(self) -> None:
        assert self.peer is not None
        self.peer.close()
        self.peer = None

    async def cleanup(self) -> None:
        if self.peer is not None:
            self.peer.close()


class UdpInRig(SocketRig):
    def endpoint(self) -> Endpoint:
        return UdpIn(LOCAL, 0)

    async def attach(self) -> None:
        self.peer = bound(socket.SOCK_DGRAM)
        self.peer.connect((LOCAL, port_of(self.transport.address)))
        await self.send(b"hello")

    async def lose(self) -> None:
        await super().lose()
        self.transport.unpin()

    async def stranger(self) -> socket.socket:
        other = bound(socket.SOCK_DGRAM)
        other.connect((LOCAL, port_of(self.transport.address)))
        for _ in range(3):
            await asyncio.get_running_loop().sock_sendall(other, b"stranger")
        return other


class UdpOutRig(SocketRig):
    def endpoint(self) -> Endpoint:
        with bound(socket.SOCK_DGRAM) as sock:
            self.port: int = sock.getsockname()[1]
        return UdpOut(LOCAL, self.port)

    async def attach(self) -> None:
        self.peer = bound(socket.SOCK_DGRAM, self.port)
        assert self.write(b"hello")
        _, address = await asyncio.get_running_loop().sock_recvfrom(self.peer, 65536)
        self.peer.connect(address)
        self.client = address


class TcpInRig(SocketRig):
    def endpoint(self) -> Endpoint:
        return TcpIn(LOCAL, 0)

    async def connect(self) -> socket.socket:
        sock = bound(socket.SOCK_STREAM)
        await asyncio.get_running_loop().sock_connect(sock, (LOCAL, port_of(self.transport.address)))
        return sock

    async def attach(self) -> None:
        self.peer = await self.connect()

    async def stranger(self) -> socket.socket:
        other = await self.connect()
        try:
            await asyncio.get_running_loop().sock_sendall(other, b"stranger")
            end = await asyncio.wait_for(asyncio.get_running_loop().sock_recv(other, 1), 5)
        except ConnectionError:
            end = b""
        assert end == b"", "a second connection is closed at once"
        return other


class TcpOutRig(SocketRig):
    server: socket.socket | None = None

    def endpoint(self) -> Endpoint:
        self.server = bound(socket.SOCK_STREAM)
        self.server.listen()
        return TcpOut(LOCAL, self.server.getsockname()[1])

    async def attach(self) -> None:
        assert self.server is not None
        peer, _ = await asyncio.wait_for(asyncio.get_running_loop().sock_accept(self.server), 5)
        peer.setblocking(False)
        self.peer = peer

    async def cleanup(self) -> None:
        await super().cleanup()
        assert self.server is not None
        self.server.close()


class SerialRig(Rig):
    fds: tuple[int, ...] = ()

    def endpoint(self) -> Endpoint:
        self.device = self.folder / "ttyACM0"
        self.plug_in()
        return Serial(str(self.device))

    def plug_in(self) -> None:
        board, line = pty.openpty()
        tty.setraw(line)
        os.set_blocking(board, False)
        self.fds = (board, line)
        self.device.symlink_to(os.ttyname(line))

    async def attach(self) -> None:
        if not self.fds:
            self.plug_in()

    async def lose(self) -> None:
        self.device.unlink()
        await self.cleanup()

    async def send(self, data: bytes) -> None:
        while data:
            try:
                data = data[os.write(self.fds[0], data) :]
            except BlockingIOError:
                await asyncio.sleep(0.001)

    async def receive(self) -> bytes:
        while True:
            try:
                return os.read(self.fds[0], 65536)
            except BlockingIOError:
                await asyncio.sleep(0.001)

    async def cleanup(self) -> None:
        for fd in self.fds:
            os.close(fd)
        self.fds = ()


class MemoryRig(Rig):
    peer: MemoryTransport | None = None

    def endpoint(self) -> Endpoint:
        self.name = f"contract-{next(_names)}"
        return Memory(self.name)

    async def attach(self) -> None:
        self.peer = MemoryTransport(self.name)
        self.other = Recorder()
        await self.peer.open(self.other)
        await until(lambda: self.other.ups == 1)

    async def lose(self) -> None:
        assert self.peer is not None
        await self.peer.close()
        self.peer = None

    async def send(self, data: bytes) -> None:
        assert self.peer is not None
        assert self.peer.write(data)

    async def receive(self) -> bytes:
        await until(lambda: bool(self.other.data))
        return self.other.data.pop(0)

    async def cleanup(self) -> None:
        if self.peer is not None:
            await self.peer.close()


RIGS: dict[str, type[Rig]] = {
    "udpin": UdpInRig,
    "udpout": UdpOutRig,
    "tcpin": TcpInRig,
    "tcpout": TcpOutRig,
    "serial": SerialRig,
    "memory": MemoryRig,
}
