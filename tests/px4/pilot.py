"""A pilot for a real PX4: commands and telemetry over its SDK link, as a ground station would."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import Any

from pymavlink.dialects.v20 import common

from bridge.codec import Decoder, Encoder


class Pilot(asyncio.DatagramProtocol):
    """Listens on 14540 + N and speaks to 14580 + N; keeps the newest message of each kind and all status texts."""

    def __init__(self, instance: int) -> None:
        self._instance = instance
        self.system = instance + 1
        self._decoder = Decoder(datagrams=True)
        self._encoder = Encoder(255, 190)
        self._transport: Any = None
        self._beat: asyncio.Task[None] | None = None
        self.newest: dict[str, Any] = {}
        self.texts: list[str] = []
        self.acks: dict[int, int] = {}
        self.stick: Any = None  # a MANUAL_CONTROL to repeat
        self.on_message: Callable[[Any], None] | None = None

    async def __aenter__(self) -> Pilot:
        loop = asyncio.get_running_loop()
        self._transport, _ = await loop.create_datagram_endpoint(
            lambda: self, local_addr=("127.0.0.1", 14540 + self._instance)
        )
        self._beat = asyncio.create_task(self._heartbeats(), name="pilot heartbeats")
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._beat is not None
        self._beat.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._beat
        self._transport.close()
        await asyncio.sleep(0)

    async def _heartbeats(self) -> None:
        while True:
            # Ten a second: PX4 counts simulated time, which may run ten times as fast as ours.
            self.send(common.MAVLink_heartbeat_message(common.MAV_TYPE_GCS, common.MAV_AUTOPILOT_INVALID, 0, 0, 4, 3))
            for _ in range(5):
                if self.stick is not None:
                    self.send(self.stick)
                await asyncio.sleep(0.02)

    def datagram_received(self, data: bytes, addr: Any) -> None:
        for message in self._decoder.feed(data):
            kind = message.get_type()
            self.newest[kind] = message
            if kind == "STATUSTEXT":
                self.texts.append(str(message.text if isinstance(message.text, str) else message.text.decode()))
            elif kind == "COMMAND_ACK":
                self.acks[message.command] = message.result
            if self.on_message is not None:
                self.on_message(message)

    def error_received(self, exc: Exception) -> None:
        """PX4 is not there yet."""

    def send(self, message: Any) -> None:
        self._transport.sendto(self._encoder.encode(message), ("127.0.0.1", 14580 + self._instance))

    async def command(self, command: int, *params: float) -> int:
        """Send a command until it is acknowledged; the result."""
        self.acks.pop(command, None)
        values = [*params, *[0.0] * (7 - len(params))]
        for attempt in range(40):
            self.send(common.MAVLink_command_long_message(self.system, 1, command, min(attempt, 255), *values))
            for _ in range(10):
                await asyncio.sleep(0.02)
                if command in self.acks:
                    return self.acks[command]
        raise AssertionError(f"no answer to command {command}; PX4 said {self.texts}")

    async def until(self, what: str, condition: Callable[[], bool], seconds: float) -> None:
        """Wait until something is so, in wall time."""
        try:
            async with asyncio.timeout(seconds):
                while not condition():
                    await asyncio.sleep(0.01)
        except TimeoutError:
            raise AssertionError(f"not within {seconds} s: {what}; PX4 said {self.texts}") from None

    @property
    def armed(self) -> bool:
        beat = self.newest.get("HEARTBEAT")
        return beat is not None and bool(beat.base_mode & common.MAV_MODE_FLAG_SAFETY_ARMED)

    @property
    def position(self) -> tuple[float, float, float]:
        """LOCAL_POSITION_NED [m]."""
        local = self.newest["LOCAL_POSITION_NED"]
        return local.x, local.y, local.z

    def ready(self) -> bool:
        """PX4 has a position, a home and passes its own pre-arm check."""
        status = self.newest.get("SYS_STATUS")
        prearm = status is not None and bool(status.onboard_control_sensors_health & common.MAV_SYS_STATUS_PREARM_CHECK)
        return prearm and "HOME_POSITION" in self.newest and "LOCAL_POSITION_NED" in self.newest
