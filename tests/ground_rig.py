"""A run whose flight controller also speaks as a board does, and ground stations of a few lines."""

from __future__ import annotations

import asyncio
import hashlib
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from pymavlink.dialects.v20 import common
from replay_rig import FcLink
from session_driver import ScriptedFc

from bridge.codec import Decoder, Encoder, Message
from bridge.endpoint import UdpOut, parse_endpoint
from bridge.session_io import Notice
from bridge.transport.base import LinkHandler
from firmware_profiles.loader import load_profile
from firmware_profiles.signals import HilControls, SensorSample
from lav2_hil.service import Service
from lav2_hil.settings import Settings


class Talker(ScriptedFc):
    """Flies, and says what a board says beside its controls: so many frames after each so many sensors."""

    def __init__(self, every: int = 25) -> None:
        super().__init__(boot=0)
        self.armed = True
        self.said: list[bytes] = []
        self.hil: list[Any] = []
        self._every = every

    def hear(self, message: Any) -> list[bytes]:
        frames = super().hear(message)
        if message.get_type() == "HIL_SENSOR":
            self.hil.append(message)
            if self.sensors % self._every == 0:
                telemetry = [
                    common.MAVLink_heartbeat_message(2, common.MAV_AUTOPILOT_PX4, 129, 0, 4, 3),
                    common.MAVLink_attitude_message(self.sensors, 0.1, 0.2, 0.3, 0, 0, 0),
                ]
                said = [self.pack(each) for each in telemetry]
                self.said += said
                frames = frames + said
        return frames

    @property
    def commands(self) -> list[Any]:
        return [message for message in self.heard if message.get_srcSystem() == Station.SYSTEM]


class BoardLink(FcLink):
    """Connects by itself, and knows what went to the flight controller in which order."""

    def __init__(self, fc: ScriptedFc) -> None:
        super().__init__(fc, datagrams=False)
        self.session_frames: list[bytes] = []
        self.ground_frames: list[bytes] = []

    async def open(self, handler: LinkHandler) -> None:
        await super().open(handler)
        asyncio.get_running_loop().call_soon(self.connect)

    def write(self, data: bytes) -> bool:
        self.session_frames.append(data)
        return super().write(data)

    def pass_on(self, data: bytes) -> bool:
        self.ground_frames.append(data)
        return super().write(data)


class Station:
    """A ground station: a UDP socket at a spare port, and an encoder."""

    SYSTEM = 255

    def __init__(self, system: int = SYSTEM) -> None:
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.bind(("127.0.0.1", 0))
        self.socket.setblocking(False)
        self.port = int(self.socket.getsockname()[1])
        self.encoder = Encoder(system, 190)
        self.frames: list[bytes] = []
        self.senders: set[tuple[str, int]] = set()
        self._decoder = Decoder(datagrams=True)
        self.messages: list[Message] = []

    @property
    def endpoint(self) -> UdpOut:
        return UdpOut("127.0.0.1", self.port)

    def read(self) -> None:
        try:
            while True:
                data, address = self.socket.recvfrom(65536)
                self.senders.add(address)
                self.frames.append(data)
                self.messages += self._decoder.feed(data)
        except BlockingIOError:
            pass

    def count(self, kind: str) -> int:
        self.read()
        return sum(message.get_type() == kind for message in self.messages)

    def say(self, message: Any, port: int | None = None) -> bytes:
        frame = self.encoder.encode(message)
        (address,) = {("127.0.0.1", port)} if port is not None else self.senders
        self.socket.sendto(frame, address)
        return frame


class Truth:
    """Every state, and how many steps there were; ends the run."""

    def __init__(self) -> None:
        self.service: Service
        self.hash = hashlib.sha256()
        self.ticks = 0
        self.notices: list[Notice] = []

    def stepped(self, controls: HilControls | None, sample: SensorSample) -> None:
        self.ticks += 1
        self.hash.update(self.service.twin.state().tobytes())

    def noticed(self, notice: Notice) -> None:
        self.notices.append(notice)


class Run:
    """One run, in this process; its forwarder is a process as ever."""

    def __init__(self, stations: tuple[Station, ...], fc: Talker, **settings: Any) -> None:
        self.fc = fc
        self.link = BoardLink(fc)
        self.truth = Truth()
        self.service = Service(
            Settings(
                **{  # type: ignore[arg-type]
                    "profile": load_profile("lav2"),
                    "profile_source": "lav2",
                    "endpoint": parse_endpoint("memory:board"),
                    "seed": 5,
                    "reply_timeout_s": 20.0,
                    "answers_every_sensor": True,  # no learning, which goes by the wall clock
                    "ground": tuple(station.endpoint for station in stations),
                }
                | settings
            ),
            transport=self.link,
            listeners=(self.truth,),
        )
        self.truth.service = self.service
        self.summary: dict[str, Any] = {}

    @property
    def forwarder(self) -> int:
        """The process's id."""
        ground = self.service._ground
        assert ground is not None
        return ground._process.pid

    async def until(self, condition: Callable[[], bool], what: str, seconds: float = 20.0) -> None:
        try:
            async with asyncio.timeout(seconds):
                while not condition():
                    await asyncio.sleep(0.005)
        except TimeoutError:
            raise AssertionError(f"did not happen: {what}") from None


@asynccontextmanager
async def running(*stations: Station, fc: Talker | None = None, **settings: Any) -> AsyncIterator[Run]:
    """A run that goes on until the end of the block, or to its duration if it has one."""
    run = Run(stations, fc or Talker(), **settings)
    task = asyncio.create_task(run.service.run())
    await asyncio.sleep(0)
    try:
        yield run
    finally:
        if run.service.settings.duration_s is None:
            run.service.stop("test")
        _, run.summary = await task
        for station in stations:
            station.read()
            station.socket.close()


def recorded(path: Path) -> dict[str, Any]:
    """Settings that record."""
    return {"record": True, "session_file": path}
