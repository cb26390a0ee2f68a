"""A board's parameter service in the test's own event loop: on any transport, quick to restart, open to interference.

Its parameters are the built-in autopilot's as a board; what happens to each request can be decided by the test.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable

from pymavlink.dialects.v20 import common

from bridge.codec import Decoder, Encoder, Message
from bridge.param_wire import HASH_CHECK, name_of, value_message, value_of
from bridge.transport.base import Transport
from firmware_profiles.px4_params import Value, float32, kind_of
from lav2_hil.autopilot.board_parameters import BoardParameters

BEAT_S = 0.02
REBOOT = common.MAV_CMD_PREFLIGHT_REBOOT_SHUTDOWN


def board_values() -> dict[str, Value]:
    """A board's parameters as they are before anybody came."""
    values = BoardParameters(1).values()
    return {name: float32(value) if isinstance(value, float) else value for name, value in values.items()}


class ParamBoard:
    """One board; `async with` opens its end of the link.

    Attributes:
        values: all its parameters.
        unlisted: names that it has and does not list.
        sets: what it was told to set, in order.
        stubborn: names that it does not change.
        on_set: is called before a parameter is set.
        on_list, on_restart: are called before these are answered.
        dead: it hears and says nothing any more.
        boots: so often it has restarted.
    """

    def __init__(
        self,
        transport: Transport,
        values: dict[str, Value] | None = None,
        *,
        unlisted: Iterable[str] = (),
        autopilot: int = common.MAV_AUTOPILOT_PX4,
        uid2: bytes = bytes(range(18)),
        uid: int = 0,
    ) -> None:
        self.values = board_values() if values is None else dict(values)
        self.unlisted = set(unlisted)
        self.sets: list[tuple[str, Value]] = []
        self.stubborn: set[str] = set()
        self.on_set: Callable[[str, Value], None] = lambda *_: None
        self.on_list: Callable[[], None] = lambda: None
        self.on_restart: Callable[[], None] = lambda: None
        self.armed = False
        self.dead = False
        self.boots = 0
        self.restart_result = common.MAV_RESULT_ACCEPTED
        self._transport = transport
        self._autopilot = autopilot
        self._uid, self._uid2 = uid, uid2
        self._decoder, self._encoder = Decoder(datagrams=transport.datagrams), Encoder(1, 1)
        self._boot_ms = 1_000_000.0
        self._silent = False
        self._tasks: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> ParamBoard:
        await self._transport.open(self)
        self._tasks.append(asyncio.create_task(self._speak()))
        return self

    async def __aexit__(self, *_: object) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._transport.close()

    def boot(self) -> None:
        """Restart, with what PX4 does to its parameters then."""
        self.boots += 1
        self._boot_ms = 0.0
        if self.values.get("SYS_HITL", 0) != 0:
            for name in ("GPS_1_CONFIG", "UAVCAN_ENABLE"):
                if name in self.values:
                    self.values[name] = 0
        for name in ("COM_FLIGHT_UUID", "LND_FLIGHT_T_LO"):
            if name in self.values:
                self.values[name] += 1

    def say(self, message: Message) -> None:
        if not self._silent and not self.dead:
            self._transport.write(self._encoder.encode(message))

    def tell(self, name: str, value: Value | None = None) -> None:
        """PARAM_VALUE of a parameter."""
        listed = self.listed
        index = listed.index(name) if name in listed else 65535
        self.say(value_message(name, self.values[name] if value is None else value, len(listed), index))

    @property
    def listed(self) -> list[str]:
        return sorted(name for name in self.values if name not in self.unlisted)

    async def _speak(self) -> None:
        while True:
            base = 128 if self.armed else 0
            self.say(common.MAVLink_heartbeat_message(2, self._autopilot, base, 0, 3, 3))
            self.say(common.MAVLink_attitude_message(int(self._boot_ms), 0, 0, 0, 0, 0, 0))
            await asyncio.sleep(BEAT_S)
            self._boot_ms += 2000  # so that a restart after a moment is seen as one

    # The transport's handler

    def link_up(self, peer: str) -> None:
        """Somebody is there."""

    def link_down(self, reason: str) -> None:
        """Gone."""

    def link_refused(self) -> None:
        """Nobody."""

    def link_ignored(self, peer: str) -> None:
        """Nobody."""

    def link_data(self, data: bytes) -> None:
        for message in self._decoder.feed(data):
            handler = getattr(self, f"_{message.get_type().lower()}", None)
            if handler is not None and getattr(message, "target_system", 1) == 1:
                handler(message)

    def _param_request_list(self, message: Message) -> None:
        self.on_list()
        self.say(common.MAVLink_param_value_message(HASH_CHECK.encode(), 1e9, 5, len(self.listed), 65535))
        for name in self.listed:
            self.tell(name)

    def _param_request_read(self, message: Message) -> None:
        if message.param_index >= 0:
            if message.param_index < len(self.listed):
                self.tell(self.listed[message.param_index])
        elif name_of(message) in self.values:
            self.tell(name_of(message))

    def _param_set(self, message: Message) -> None:
        name, value = name_of(message), value_of(message)
        if name not in self.values or value is None or kind_of(value) != kind_of(self.values[name]):
            return
        self.on_set(name, value)
        if self.dead:
            return
        self.sets.append((name, value))
        if name not in self.stubborn:
            self.values[name] = value
        self.tell(name)

    def _command_long(self, message: Message) -> None:
        command = message.command
        if command == common.MAV_CMD_REQUEST_MESSAGE:
            self._ack(command, 0)
            self.say(
                common.MAVLink_autopilot_version_message(
                    0, 0x011100FF, 0, 0, 0, [0] * 8, [0] * 8, [0] * 8, 0, 0, self._uid, list(self._uid2)
                )
            )
        elif command == REBOOT:
            self.on_restart()
            self._ack(command, self.restart_result)
            if self.restart_result == common.MAV_RESULT_ACCEPTED and not self._silent:
                self._silent = True
                self._tasks.append(asyncio.create_task(self._restart()))
        else:
            self._ack(command, common.MAV_RESULT_UNSUPPORTED)

    def _ack(self, command: int, result: int) -> None:
        self.say(common.MAVLink_command_ack_message(command, result))

    async def _restart(self) -> None:
        await asyncio.sleep(3 * BEAT_S)
        self._silent = False
        self.boot()
