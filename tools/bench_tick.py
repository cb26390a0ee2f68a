"""A lockstep tick, timed: of the whole service, and of the least that any simulator can do."""

from __future__ import annotations

import asyncio
import contextlib
import multiprocessing
import socket
import struct
import tempfile
import time
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from pymavlink.dialects.v20 import common

from bridge.codec import Encoder
from bridge.endpoint import TcpIn, TcpOut
from firmware_profiles.loader import load_profile
from lav2_hil.service import Service
from lav2_hil.settings import Settings

WARM_UP = 200
PROFILE = "px4_iris"


# The flight controller: one process for every run, as fast as Python goes


def flight_controller(port: int) -> None:
    """Answer each HIL_SENSOR with a HIL_ACTUATOR_CONTROLS that carries its stamp, until the simulator leaves."""
    encoder = Encoder(1, 1)
    controls = [0.7] * 4 + [0.0] * 12
    with contextlib.suppress(ConnectionResetError), _connected(port) as sock:
        while data := sock.recv(4096):
            position = 0
            while position < len(data):
                length = data[position + 1] + 12
                if data[position + 7] == common.MAVLINK_MSG_ID_HIL_SENSOR:
                    (stamp,) = struct.unpack_from("<Q", data, position + 10)
                    message = common.MAVLink_hil_actuator_controls_message(stamp, controls, 129, 1)
                    sock.sendall(encoder.encode(message))
                position += length


def _connected(port: int) -> socket.socket:
    while True:
        try:
            sock = socket.create_connection(("127.0.0.1", port))
        except OSError:
            time.sleep(0.005)
            continue
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return sock


def _start_peer(port: int) -> BaseProcess:
    peer = multiprocessing.get_context("spawn").Process(target=flight_controller, args=(port,))
    peer.start()
    return peer


def spare_port() -> int:
    """A TCP port that is free at present."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


# The two simulators


class NullSimulator(asyncio.Protocol):
    """Sends one HIL_SENSOR for each frame that it gets, the same each time: the floor."""

    def __init__(self, done: asyncio.Event, ticks: int) -> None:
        self._done = done
        self._left = ticks
        message = common.MAVLink_hil_sensor_message(1_000_000, *[0.1] * 13, 0x1FFF)
        self._frame = Encoder(1, 200).encode(message)
        self.started = 0.0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The flight controller is there."""
        assert isinstance(transport, asyncio.Transport)
        transport.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._transport = transport
        self.started = time.perf_counter()
        transport.write(self._frame)

    def data_received(self, data: bytes) -> None:
        """An answer came."""
        self._left -= 1
        if self._left > 0:
            self._transport.write(self._frame)
        else:
            self._transport.close()
            self._done.set()


async def null_tick_us(ticks: int) -> float:
    """A tick of the null simulator [us]."""
    loop = asyncio.get_running_loop()
    done = asyncio.Event()
    simulator = NullSimulator(done, ticks)
    server = await loop.create_server(lambda: simulator, "127.0.0.1", 0)
    peer = _start_peer(server.sockets[0].getsockname()[1])
    await done.wait()
    elapsed = time.perf_counter() - simulator.started
    server.close()
    peer.join()
    return 1e6 * elapsed / ticks


class _TickClock:
    """Notes when each tick ends, and stops the service after enough of them."""

    def __init__(self, ticks: int) -> None:
        self._ticks = ticks
        self._warm_up = WARM_UP
        self.service: Service | None = None
        self.times: list[float] = []

    def stepped(self, controls: Any, sample: Any) -> None:
        """Count a tick."""
        if self._warm_up:
            self._warm_up -= 1
            return
        self.times.append(time.perf_counter())
        if len(self.times) == self._ticks + 1:
            assert self.service is not None
            self.service.stop("bench")

    def noticed(self, notice: Any) -> None:
        """Nothing to do."""


async def lockstep_ticks_us(ticks: int, *, record: bool = False, broker_port: int = 0, shadows: int = 0) -> list[float]:
    """Each tick of the whole service in lockstep, at N = 1 [us].

    Args:
        ticks: how many.
        record: with the recorder.
        broker_port: with MQTT, to a broker there; 0 is without.
        shadows: with so many shadow worlds.
    """
    port = spare_port()
    clock = _TickClock(ticks)
    with tempfile.TemporaryDirectory() as directory:
        settings = Settings(
            profile=load_profile(PROFILE),
            profile_source=PROFILE,
            endpoint=TcpIn("127.0.0.1", port),
            speed=0,
            record=record,
            session_file=Path(directory) / "bench.mcap" if record else None,
            mqtt=TcpOut("127.0.0.1", broker_port) if broker_port else None,
            shadows=shadows,
        )
        clock.service = service = Service(settings, listeners=(clock,))
        peer = _start_peer(port)
        await service.run()
        peer.join()
    return [1e6 * (after - before) for before, after in zip(clock.times, clock.times[1:], strict=False)]
