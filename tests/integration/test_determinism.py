"""The same seed gives the same flight, byte for byte on the wire, whatever else the computer does."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from scripted_fc import spare_port

from bridge.endpoint import parse_endpoint
from bridge.transport.base import LinkHandler
from bridge.transport.tcp import TcpInTransport
from firmware_profiles.loader import load_profile
from lav2_hil.exitcodes import ExitCode
from lav2_hil.settings import Settings
from lav2_hil.sim import Simulation

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

INSTANCE = 24
OF_THE_WALL_CLOCK = ("wall_s", "real_time_factor", "endpoint")
BUSY = "while True: sum(range(100_000))"


class RecordedTcp(TcpInTransport):
    """A TcpInTransport that keeps what goes out and what comes in."""

    def __init__(self, port: int) -> None:
        super().__init__("127.0.0.1", port)
        self.sent = bytearray()
        self.received = bytearray()

    async def open(self, handler: LinkHandler) -> None:
        hear = handler.link_data

        def link_data(data: bytes) -> None:
            self.received += data
            hear(data)

        handler.link_data = link_data  # type: ignore[method-assign]
        await super().open(handler)

    def write(self, data: bytes) -> bool:
        taken = super().write(data)
        if taken:
            self.sent += data
        return taken


@dataclass
class Flight:
    """What there is to compare."""

    exit_code: ExitCode
    summary: dict[str, Any]
    sent: bytes
    received: bytes


def fly(seed: int) -> Flight:
    port = spare_port()
    transport = RecordedTcp(port)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("lav2_hil.service.create_transport", lambda endpoint: transport)
        settings = Settings(
            profile=load_profile("lav2"),
            endpoint=parse_endpoint(f"tcpin:127.0.0.1:{port}"),
            speed=0.0,
            seed=seed,
            reply_timeout_s=0.0,  # a computer that is busy enough stops an autopilot for half a second
            system=INSTANCE + 1,
            answers_every_sensor=True,
        )
        exit_code, summary = asyncio.run(Simulation(settings, "lav2", INSTANCE, "demo").run())
    for name in OF_THE_WALL_CLOCK:
        summary.pop(name)
    return Flight(exit_code, summary, bytes(transport.sent), bytes(transport.received))


def first_difference(one: bytes, other: bytes) -> int | None:
    """Where two streams part; None where they are the same."""
    if one == other:
        return None
    return next((i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))


def same(one: Flight, other: Flight) -> None:
    assert first_difference(one.sent, other.sent) is None
    assert first_difference(one.received, other.received) is None
    assert one.summary == other.summary
    assert one.exit_code is other.exit_code


@pytest.fixture(scope="module")
def flight() -> Flight:
    flown = fly(seed=3)
    assert flown.exit_code is ExitCode.OK
    assert flown.summary["reply_timeouts"] == 0
    assert len(flown.sent) > 1_000_000
    assert len(flown.received) > 500_000
    return flown


@pytest.fixture
def load() -> Iterator[None]:
    """Two processes that do nothing but compute."""
    busy = [subprocess.Popen([sys.executable, "-c", BUSY]) for _ in range(2)]
    yield
    for process in busy:
        assert process.poll() is None
        process.kill()
        process.wait()


def test_the_same_seed_gives_the_same_bytes_and_the_same_summary(flight: Flight) -> None:
    same(fly(seed=3), flight)


@pytest.mark.usefixtures("load")
def test_a_busy_computer_changes_nothing(flight: Flight) -> None:
    same(fly(seed=3), flight)


def test_another_seed_gives_another_flight(flight: Flight) -> None:
    other = fly(seed=4)
    assert other.exit_code is ExitCode.OK
    assert other.sent != flight.sent
    assert other.received != flight.received
    assert other.summary["truth_sha256"] != flight.summary["truth_sha256"]
