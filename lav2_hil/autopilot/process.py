"""The autopilot as a process: the simulator's link on one side, ground stations on the other.

The ports are PX4's: the simulator at TCP 4560 + N, a ground station at 14550 spoken to from 18570 + N, an SDK at
14540 + N spoken to from 14580 + N. Reports are JSON lines on stdout.
"""

from __future__ import annotations

import asyncio
import json
import logging
import sys
from typing import Any, cast

from pymavlink.dialects.v20 import common

from bridge.codec import Decoder, Encoder, Message
from bridge.endpoint import Endpoint
from bridge.transport.factory import create_transport
from firmware_profiles.profile import VehicleProfile
from lav2_hil.autopilot.autopilot import COMPONENT, Autopilot
from lav2_hil.autopilot.mission import Mission
from lav2_hil.ground_stations import GROUND_STATION, SDK

logger = logging.getLogger("lav2_hil")


class GroundLink(asyncio.DatagramProtocol):
    """One UDP link to a ground station or an SDK: speaks to a default address, and then to whoever spoke last.

    Args:
        process: takes what arrives.
        system: MAVLink system id.
        default: where to send until somebody has spoken.
    """

    def __init__(self, process: AutopilotProcess, system: int, default: tuple[str, int]) -> None:
        self._process = process
        self._decoder = Decoder(datagrams=True)
        self._encoder = Encoder(system, COMPONENT)
        self._address: Any = default
        self._transport: asyncio.DatagramTransport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The socket is there."""
        self._transport = cast(asyncio.DatagramTransport, transport)

    def datagram_received(self, data: bytes, addr: Any) -> None:
        """Answer a ground station."""
        self._address = addr
        for message in self._decoder.feed(data):
            self.send(self._process.ground_message(message))
        self._process.tell()

    def error_received(self, exc: Exception) -> None:
        """Nobody listens: no error."""

    def send(self, messages: list[Message]) -> None:
        """Send messages, each in a datagram of its own."""
        if self._transport is not None:
            for message in messages:
                self._transport.sendto(self._encoder.encode(message), self._address)

    def close(self) -> None:
        """Close the socket."""
        if self._transport is not None:
            self._transport.close()


class AutopilotProcess:
    """Runs one autopilot after the other, one for each connection to a simulator.

    Args:
        profile: the nominal vehicle.
        endpoint: where the simulator is.
        instance: PX4's instance number.
        mission: what to do, if anything; the process ends with it.
    """

    def __init__(self, profile: VehicleProfile, endpoint: Endpoint, instance: int, mission: Mission | None) -> None:
        self._profile = profile
        self._instance = instance
        self._mission = mission
        self._link = create_transport(endpoint)
        self._decoder = Decoder()
        self._ground: list[GroundLink] = []
        self._done = asyncio.Event()
        self._autopilot = self._boot()

    @property
    def system(self) -> int:
        """MAVLink system id: the instance plus one, as PX4's."""
        return self._instance + 1

    def _boot(self) -> Autopilot:
        return Autopilot(self._profile, self.system, self._mission, report)

    async def run(self) -> None:
        """Fly until the mission has ended, or for ever.

        Raises:
            LinkUnavailableError: the simulator's address cannot be used.
        """
        loop = asyncio.get_running_loop()
        for own, other in ((GROUND_STATION[0] + self._instance, GROUND_STATION[1]), _shifted(SDK, self._instance)):
            link = GroundLink(self, self.system, ("127.0.0.1", other))
            try:
                await loop.create_datagram_endpoint(lambda link=link: link, local_addr=("127.0.0.1", own))  # type: ignore[misc]
            except OSError as error:
                logger.warning("no ground link from port %d: %s", own, error.strerror or error)
                continue
            self._ground.append(link)
        await self._link.open(self)
        try:
            await self._done.wait()
        finally:
            self._autopilot.close()
            await self._link.close()
            for link in self._ground:
                link.close()

    def end(self) -> None:
        """Let `run` come to its end."""
        self._done.set()

    def command(self, text: str) -> None:
        """A word on standard input: it means nothing here."""

    # The simulator's link

    def link_up(self, peer: str) -> None:
        """A simulator is there: boot."""
        self._autopilot.close()
        self._autopilot = self._boot()
        self._decoder = Decoder()
        for frame in self._autopilot.greeting():
            self._link.write(frame)

    def link_down(self, reason: str) -> None:
        """The simulator is gone."""

    def link_data(self, data: bytes) -> None:
        """Answer sensors."""
        if self._done.is_set():
            return
        autopilot = self._autopilot
        for message in self._decoder.feed(data):
            answer = autopilot.simulator_message(message)
            if answer is not None:
                self._link.write(answer)
            elif autopilot.finished:
                self._finish(autopilot)
                return
        autopilot.settle()
        self.tell()

    def link_refused(self) -> None:
        """Nobody there yet."""

    def link_ignored(self, peer: str) -> None:
        """Somebody else; no concern of this end."""

    def tell(self) -> None:
        """Send all ground stations what is new."""
        broadcasts = self._autopilot.broadcasts()
        for link in self._ground:
            link.send(broadcasts)

    def _finish(self, autopilot: Autopilot) -> None:
        report(
            {
                "mission": "done" if autopilot.failure is None else "failed",
                "failure": autopilot.failure,
                "worst_error_m": autopilot.vehicle.worst_error_m,
                "time_us": autopilot.commander.time_us,
            }
        )
        self._done.set()

    # Ground stations

    def ground_message(self, message: Message) -> list[Message]:
        """The answers to a ground station's message."""
        if message.get_msgId() < 0 or message.get_srcSystem() == self.system:
            return []
        if message.get_type() == "HEARTBEAT" and message.type == common.MAV_TYPE_GCS:
            return []
        return self._autopilot.ground.handle(message)


def _shifted(ports: tuple[int, int], instance: int) -> tuple[int, int]:
    return ports[0] + instance, ports[1] + instance


def report(line: dict[str, Any]) -> None:
    """One JSON line on stdout, for whoever started the process."""
    sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()
