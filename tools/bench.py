"""`make bench`: what a lockstep tick costs, and the same loop against the least that any simulator can do.

Prints a table and writes bench.json: {"figure": {"value", "unit", "floor", "ratio", "spread"}}. Runs are interleaved,
values are medians of five; the machine's own speed cancels in the ratios.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import multiprocessing
import socket
import statistics
import struct
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from pymavlink.dialects.v20 import common

from bridge.codec import Decoder, Encoder
from bridge.endpoint import TcpIn
from bridge.hil_messages import SensorEncoder
from firmware_profiles.loader import load_profile
from firmware_profiles.signals import ActuatorCommand
from lav2_hil import busy_wait
from lav2_hil.service import Service
from lav2_hil.settings import DEFAULT_DATE, DEFAULT_HOME, Settings
from twin.twin import Twin

ROUNDS = 5
TICKS = 5000
STAGE_TICKS = 2000


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


# The two simulators


class NullSimulator(asyncio.Protocol):
    """Sends one HIL_SENSOR for each frame that it gets, the same each time but for nothing: the floor."""

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
    """Stops the service some ticks after lockstep is reached, and times them."""

    def __init__(self, ticks: int) -> None:
        self._ticks = ticks
        self.service: Service | None = None
        self.elapsed = 0.0
        self._count = -200
        self._start = 0.0

    def stepped(self, controls: Any, sample: Any) -> None:
        """Count a tick."""
        self._count += 1
        if self._count == 0:
            self._start = time.perf_counter()
        elif self._count == self._ticks:
            self.elapsed = time.perf_counter() - self._start
            assert self.service is not None
            self.service.stop("bench")

    def noticed(self, notice: Any) -> None:
        """Nothing to do."""


async def lockstep_tick_us(ticks: int) -> float:
    """A tick of the whole service in lockstep, at N = 1 [us]."""
    port = _spare_port()
    clock = _TickClock(ticks)
    settings = Settings(profile=load_profile("px4_iris"), endpoint=TcpIn("127.0.0.1", port), speed=0)
    clock.service = service = Service(settings, listeners=(clock,))
    peer = _start_peer(port)
    await service.run()
    peer.join()
    return 1e6 * clock.elapsed / ticks


def _start_peer(port: int) -> multiprocessing.process.BaseProcess:
    peer = multiprocessing.get_context("spawn").Process(target=flight_controller, args=(port,))
    peer.start()
    return peer


def _spare_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


# The stages of a tick


def stages() -> dict[str, Callable[[], object]]:
    """What a tick is made of, each as a call that can be repeated."""
    vehicle = load_profile("px4_iris").vehicle
    twin = Twin(vehicle, home=DEFAULT_HOME, date=DEFAULT_DATE)
    command = ActuatorCommand(np.full((1, 4), vehicle.hover_speed_rad_s()))
    sample = twin.sample_of(twin.step(command), 1_000_000)
    decoder, encoder, sensor_encoder = Decoder(), Encoder(1, 200), SensorEncoder()
    controls = common.MAVLink_hil_actuator_controls_message(1_000_000, [0.7] * 4 + [0.0] * 12, 129, 1)
    frame = Encoder(1, 1).encode(controls)
    return {
        "decode": lambda: decoder.feed(frame),
        "twin": lambda: twin.move(command),
        "sensors": lambda: twin.sample_of(twin.sense(), 1_000_000),
        "encode": lambda: encoder.encode(sensor_encoder.hil_sensor(sample)),
    }


def timed_us(call: Callable[[], object], ticks: int) -> float:
    """Mean time of a call [us]."""
    start = time.perf_counter()
    for _ in range(ticks):
        call()
    return 1e6 * (time.perf_counter() - start) / ticks


def sim_real_time_factor() -> float:
    """Simulated over wall time of the demo mission: bridge, twin and autopilot, as fast as they go."""
    command = [sys.executable, "-m", "lav2_hil", "-q", "sim", "--speed", "0", "--instance", "77", "--json"]
    result = subprocess.run(command, capture_output=True, text=True, check=True)
    return float(json.loads(result.stdout)["real_time_factor"])


# The table


def measure() -> dict[str, dict[str, Any]]:
    """All figures."""
    runs: dict[str, list[float]] = {name: [] for name in ("null", "lockstep", "sim", *stages())}
    for _ in range(ROUNDS):
        runs["null"].append(busy_wait.run(null_tick_us(TICKS), busy=True))
        runs["lockstep"].append(busy_wait.run(lockstep_tick_us(TICKS), busy=True))
        for name, call in stages().items():
            runs[name].append(timed_us(call, STAGE_TICKS))
        runs["sim"].append(sim_real_time_factor())
    floor = statistics.median(runs["null"])
    figures = {"lockstep_tick_us": _figure(runs["lockstep"], floor)}
    for name in stages():
        figures[f"lockstep_{name}_us"] = _figure(runs[name], None)
    figures["null_tick_us"] = _figure(runs["null"], None)
    figures["sim_real_time_factor"] = _figure(runs["sim"], None, unit="x")
    return figures


def _figure(values: list[float], floor: float | None, unit: str = "us") -> dict[str, Any]:
    value = statistics.median(values)
    return {
        "value": round(value, 2),
        "unit": unit,
        "floor": None if floor is None else round(floor, 2),
        "ratio": None if floor is None else round(value / floor, 3),
        "spread": [round(min(values), 2), round(max(values), 2)],
    }


def main() -> None:
    """Measure, print, write bench.json."""
    figures = measure()
    print(f"{'figure':<24}{'median':>10}{'min':>10}{'max':>10}{'floor':>10}{'ratio':>8}")
    for name, figure in figures.items():
        low, high = figure["spread"]
        floor = "" if figure["floor"] is None else f"{figure['floor']:.1f}"
        ratio = "" if figure["ratio"] is None else f"{figure['ratio']:.2f}"
        print(f"{name:<24}{figure['value']:>10.1f}{low:>10.1f}{high:>10.1f}{floor:>10}{ratio:>8}")
    Path("bench.json").write_text(json.dumps(figures, indent=2) + "\n")


if __name__ == "__main__":
    main()
