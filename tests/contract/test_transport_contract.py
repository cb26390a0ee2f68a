"""One contract for every link, over real sockets, a real pseudo-terminal and memory, bare and wrapped."""

from __future__ import annotations

import asyncio
import gc
import os
import socket
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from contract.transport_rigs import (
    LOCAL,
    RIGS,
    Rig,
    SerialRig,
    TcpInRig,
    TcpOutRig,
    UdpInRig,
    UdpOutRig,
    bound,
    port_of,
)
from link_recorder import Recorder, until

from bridge.endpoint import TcpOut, parse_endpoint
from bridge.transport.base import WRITE_LIMIT
from bridge.transport.factory import create_transport
from bridge.transport.faulty import FaultyTransport
from firmware_profiles.errors import LinkUnavailableError


def over(*kinds: str) -> pytest.MarkDecorator:
    """Run a test over these kinds of link, bare and in a `FaultyTransport` with an empty plan."""
    names = [f"{wrapper}{kind}" for kind in kinds for wrapper in ("", "faulty-")]
    return pytest.mark.parametrize("rig", names, indirect=True)


@pytest.fixture
async def rig(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Rig]:
    wrapped, _, kind = request.param.rpartition("-")
    made = RIGS[kind](tmp_path)
    made.make(bool(wrapped))
    yield made
    await made.transport.close()
    await made.cleanup()
    assert not made.handler.violations, "the handler was called from inside write"


def open_files() -> int:
    return len(os.listdir("/proc/self/fd"))  # noqa: PTH208


def frames(count: int, size: int = 64) -> list[bytes]:
    return [index.to_bytes(4, "big") * (size // 4) for index in range(count)]


@over(*RIGS)
class TestEveryLink:
    async def test_round_trip_is_whole_and_in_order(self, rig: Rig) -> None:
        await rig.up()
        sent = frames(100)
        for frame in sent:
            assert rig.write(frame)
            await rig.send(frame)
        await until(lambda: len(rig.handler.received) == 6400, "all frames arrive")
        assert rig.handler.received == b"".join(sent)
        assert await rig.receive_all(6400) == b"".join(sent)
        assert rig.transport.dropped == 0
        assert rig.handler.events == ["up"]

    async def test_writing_without_a_peer_is_harmless(self, rig: Rig) -> None:
        assert rig.write(b"too early") is False
        await rig.transport.open(rig.handler)
        present = rig.handler.ups
        if not rig.transport.speaks_first and not present:
            assert rig.write(b"nobody") is False
            assert rig.transport.dropped == 2
        await rig.attach()
        await until(lambda: rig.handler.ups == 1)
        assert rig.write(b"somebody")

    async def test_a_lost_peer_comes_back(self, rig: Rig) -> None:
        await rig.up()
        for turn in range(1, 4):
            await rig.lose()
            if rig.transport.speaks_first:
                for _ in range(5):
                    rig.write(b"anybody?")
                    await asyncio.sleep(0)
                await until(lambda: rig.handler.refused > 0, "link_refused")
            else:
                await until(lambda turn=turn: rig.handler.downs == turn, "link_down")  # type: ignore[misc]
                assert rig.write(b"nobody") is False
            await rig.attach()
            if not rig.transport.speaks_first:
                await until(lambda turn=turn: rig.handler.ups == turn + 1, "link_up again")  # type: ignore[misc]
            rig.handler.data.clear()
            assert rig.write(b"ping")
            assert await rig.receive_all(4) == b"ping"
            await rig.send(b"pong")
            await until(lambda: rig.handler.received == b"pong")
        expected = ["up"] if rig.transport.speaks_first else ["up"] + ["down", "up"] * 3
        assert rig.handler.events == expected

    async def test_close_is_quiet_and_leaves_nothing(self, rig: Rig) -> None:
        await rig.transport.close()
        tasks, files = asyncio.all_tasks(), open_files()
        await rig.transport.open(rig.handler)
        await rig.attach()
        await until(lambda: rig.handler.ups == 1)
        for _ in range(3):
            rig.write(b"bye" * 1000)
        await rig.transport.close()
        await rig.transport.close()
        assert open_files() == files + rig.peer_files
        told = list(rig.handler.events), len(rig.handler.data)
        assert asyncio.all_tasks() == tasks
        assert rig.write(b"closed") is False
        await rig.lose()
        await asyncio.sleep(0.02)
        assert (rig.handler.events, len(rig.handler.data)) == told
        gc.collect()

    async def test_closing_while_the_peer_is_gone(self, rig: Rig) -> None:
        tasks = asyncio.all_tasks()
        await rig.up()
        await rig.lose()
        await until(lambda: rig.handler.downs == 1 or rig.transport.speaks_first)
        await rig.transport.close()
        assert asyncio.all_tasks() == tasks

    async def test_it_can_be_opened_again(self, rig: Rig) -> None:
        await rig.up()
        with pytest.raises(RuntimeError):
            await rig.transport.open(rig.handler)
        await rig.transport.close()
        await rig.lose()
        rig.handler = Recorder()
        if isinstance(rig, SerialRig):
            await rig.attach()
        await rig.up()
        assert rig.write(b"ping")
        assert await rig.receive_all(4) == b"ping"


@over("udpin", "udpout")
async def test_datagrams_keep_their_bounds(rig: Rig) -> None:
    await rig.up()
    for frame in (b"a", b"bcd" * 90, b"e"):
        assert rig.write(frame)
        await rig.send(frame)
        assert await rig.receive() == frame
    await until(lambda: len(rig.handler.data) == 3)
    assert rig.handler.data == [b"a", b"bcd" * 90, b"e"]


@over("udpin", "tcpin")
async def test_a_second_peer_is_ignored(rig: Rig) -> None:
    await rig.up()
    other = await rig.stranger()
    await until(lambda: bool(rig.handler.ignored), "link_ignored")
    await rig.send(b"still here")
    await until(lambda: rig.handler.received == b"still here", "only the peer is heard")
    assert rig.write(b"you?")
    assert await rig.receive_all(4) == b"you?"
    assert len(rig.handler.ignored) == 1
    assert rig.transport.ignored >= 1
    assert rig.handler.events == ["up"]
    other.close()


@over("tcpin", "tcpout", "serial")
async def test_a_peer_that_never_reads_costs_no_memory(rig: Rig) -> None:
    await rig.up()
    taken = []
    for frame in frames(1 << 17, 1024):
        if not rig.write(frame):
            break
        taken.append(frame)
    assert len(taken) < 1 << 17, "write never said that it is full"
    assert not any(rig.write(b"x" * 1024) for _ in range(1000))
    assert rig.transport.dropped == 1001
    size = sum(map(len, taken))
    assert await rig.receive_all(size) == b"".join(taken), "what was accepted arrives, whole frames only"
    await until(lambda: rig.write(b"again"), "it accepts frames again")
    assert await rig.receive_all(5) == b"again"
    assert rig.handler.events == ["up"]


@over("memory")
async def test_a_burst_within_one_turn_of_the_loop_is_bounded(rig: Rig) -> None:
    await rig.up()
    taken = sum(rig.write(b"x" * 1024) for _ in range(1000))
    assert WRITE_LIMIT / 1024 <= taken <= WRITE_LIMIT / 1024 + 1
    assert len(await rig.receive_all(taken * 1024)) == taken * 1024
    assert rig.write(b"again")


@over("udpin", "tcpin", "serial", "memory")
async def test_a_busy_port_is_told_in_one_line(rig: Rig) -> None:
    await rig.up()
    address = rig.transport.address
    other = create_transport(parse_endpoint(address))
    with pytest.raises(LinkUnavailableError) as caught:
        await other.open(Recorder())
    line = str(caught.value)
    assert address.partition(",")[0] in line
    assert len(line.splitlines()) == 1
    await other.close()
    assert rig.write(b"unharmed")


@pytest.mark.parametrize("rig", [f"faulty-{kind}" for kind in RIGS], indirect=True)
async def test_a_cut_link_comes_back(rig: Rig) -> None:
    await rig.up()
    faulty = rig.transport
    assert isinstance(faulty, FaultyTransport)
    faulty.cut(0.2)
    assert rig.handler.events == ["up", "down"]
    assert rig.write(b"nobody") is False
    if isinstance(rig, TcpInRig):
        await rig.lose()
        await rig.attach()  # turned away, as the link is cut
        await asyncio.sleep(0.05)
    await asyncio.sleep(0.2)
    if isinstance(rig, TcpInRig | UdpInRig):
        assert rig.handler.events == ["up", "down"], "a peer that can come again has to"
    if isinstance(rig, TcpInRig):
        await rig.lose()
        await rig.attach()
    elif isinstance(rig, UdpInRig):
        await rig.send(b"hello")
    await until(lambda: rig.handler.ups == 2, "link_up again")
    assert rig.handler.events == ["up", "down", "up"]
    if isinstance(rig, TcpOutRig):
        return  # its server has a queue of connections that were given up again
    rig.handler.data.clear()
    assert rig.write(b"ping")
    assert (await rig.receive_all(4)).endswith(b"ping")
    await rig.send(b"pong")
    await until(lambda: rig.handler.received.endswith(b"pong"))


class TestTcp:
    async def test_the_next_connection_may_come_before_the_last_one_was_seen_to_end(self, tmp_path: Path) -> None:
        rig = TcpInRig(tmp_path)
        rig.make(False)
        await rig.up()
        first, address = rig.peer, (LOCAL, port_of(rig.transport.address))
        assert first is not None
        first.send(b"last words")
        first.close()
        second = socket.create_connection(address)  # both within one turn of the loop
        second.setblocking(False)
        rig.peer = second
        await until(lambda: rig.handler.ups == 2, "the new connection is accepted")
        assert rig.handler.events == ["up", "down", "up"]
        assert not rig.handler.ignored
        assert rig.write(b"ping")
        assert await rig.receive_all(4) == b"ping"
        await rig.transport.close()
        await rig.cleanup()

    async def test_a_silent_peer_can_be_forgotten(self, tmp_path: Path) -> None:
        rig = TcpInRig(tmp_path)
        rig.make(False)
        await rig.up()
        silent = rig.peer
        rig.transport.unpin()
        assert rig.handler.events == ["up", "down"]
        await rig.attach()
        await until(lambda: rig.handler.ups == 2)
        assert rig.handler.events == ["up", "down", "up"]
        assert silent is not None
        silent.close()
        await rig.transport.close()
        await rig.cleanup()

    async def test_a_client_waits_for_its_server(self) -> None:
        with bound(socket.SOCK_STREAM) as sock:
            port = sock.getsockname()[1]
        handler, transport = Recorder(), create_transport(TcpOut(LOCAL, port))
        await transport.open(handler)
        await asyncio.sleep(0.1)
        assert handler.events == []
        with bound(socket.SOCK_STREAM, port) as server:
            server.listen()
            await until(lambda: handler.ups == 1, timeout_s=3)
            await transport.close()

    async def test_a_peer_that_stops_sending_is_gone_though_it_never_read(self, tmp_path: Path) -> None:
        rig = TcpInRig(tmp_path)
        rig.make(False)
        await rig.up()
        while rig.write(b"x" * 1024):
            pass
        assert rig.peer is not None
        rig.peer.shutdown(socket.SHUT_WR)
        await until(lambda: rig.handler.downs == 1, "link_down")
        await rig.transport.close()
        await rig.cleanup()

    async def test_an_unknown_host_is_told_at_once(self, monkeypatch: pytest.MonkeyPatch) -> None:
        async def unknown(*_args: object, **_options: object) -> None:
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

        monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", unknown)
        transport = create_transport(TcpOut("no-such-host.invalid", 4560))
        with pytest.raises(LinkUnavailableError, match=r"tcp:no-such-host\.invalid:4560: .*not known"):
            await transport.open(Recorder())
        await transport.close()


class TestUdp:
    async def test_each_stranger_is_told_once(self, tmp_path: Path) -> None:
        rig = UdpInRig(tmp_path)
        rig.make(False)
        await rig.up()
        others = [await rig.stranger(), await rig.stranger()]
        await until(lambda: rig.transport.ignored == 6)
        assert rig.handler.ignored == [f"{LOCAL}:{other.getsockname()[1]}" for other in others]
        for other in others:
            other.close()
        await rig.transport.close()
        await rig.cleanup()

    async def test_an_outgoing_link_hears_only_its_target(self, tmp_path: Path) -> None:
        rig = UdpOutRig(tmp_path)
        rig.make(False)
        await rig.up()
        with bound(socket.SOCK_DGRAM) as other:
            other.sendto(b"stranger", rig.client)
        await rig.send(b"target")
        await until(lambda: bool(rig.handler.data))
        await asyncio.sleep(0.02)
        assert rig.handler.data == [b"target"]
        await rig.transport.close()
        await rig.cleanup()

    async def test_the_first_datagram_after_a_refusal_is_sent(self, tmp_path: Path) -> None:
        rig = UdpOutRig(tmp_path)
        rig.make(False)
        await rig.transport.open(rig.handler)
        rig.write(b"refused")
        rig.peer = bound(socket.SOCK_DGRAM, rig.port)  # the refusal waits in the socket, unread
        assert rig.write(b"first")
        assert await rig.receive() == b"first"
        await until(lambda: rig.handler.refused == 1)
        assert rig.transport.dropped == 0
        await rig.transport.close()
        await rig.cleanup()
