"""A ground station's view of a flight controller: finds the autopilot on a link, speaks to it, sees it restart."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from pymavlink.dialects.v20 import common

from bridge.codec import Decoder, Encoder, Message
from bridge.not_an_autopilot import Diagnosis
from bridge.transport.base import Transport
from firmware_profiles.errors import LinkUnavailableError

logger = logging.getLogger("bridge")

SYSTEM, COMPONENT = 255, common.MAV_COMP_ID_ONBOARD_COMPUTER
"""Who asks; not the HIL link's simulator, and not QGroundControl (255/190)."""
BEAT_S, CALL_S = 1.0, 0.25
"""HEARTBEATs: to who speaks, and to who does not. PX4 starts MAVLink on USB when it sees one."""
SILENCE_S = 1.5
"""A board that says nothing for so long has restarted, or is about to."""
TRIES = 6
COMMAND_WAIT_S = 0.5
_SIMULATED_UID = int.from_bytes(b"ONIDLATI", "little")
"""Hardware id of a PX4 that was built for a PC, the middle of SIMULATIONID0000; it adds its system id less 1."""


@dataclass(frozen=True, slots=True)
class Found:
    """The autopilot on a link."""

    system: int
    component: int
    armed: bool
    uid: str = ""
    """Of the hardware, in hexadecimal digits; empty when it did not say."""
    release: str = ""
    simulated: bool = False
    """A PX4 that was built for a PC."""


class BoardLink:
    """One link with an autopilot on it; a context manager that opens and closes the transport.

    Args:
        transport: not opened yet.
        wait_s: how long to wait for a sign of an autopilot.

    Attributes:
        on_message: is given every message of the autopilot.
        beat_type: MAV_TYPE of the HEARTBEATs; only a ground station is sent texts.
    """

    def __init__(self, transport: Transport, wait_s: float = 10.0) -> None:
        self.transport = transport
        self.wait_s = wait_s
        self.on_message: Callable[[Message], None] = lambda _: None
        self.beat_type: int = common.MAV_TYPE_GCS
        self._decoder = Decoder(datagrams=transport.datagrams)
        self._encoder = Encoder(SYSTEM, COMPONENT)
        self._diagnosis = Diagnosis()
        self._beats: asyncio.Task[None] | None = None
        self._beat: Message | None = None  # the autopilot's newest HEARTBEAT
        self._target = (0, 0)
        self._beat_came = asyncio.Event()
        self._version: Message | None = None
        self._acks: dict[int, int] = {}
        self._news = asyncio.Event()
        self._heard_s = -1.0
        self._boot_ms = -1
        self._boots = 0  # restarts that were seen

    async def __aenter__(self) -> BoardLink:
        await self.transport.open(self)
        self._beats = asyncio.create_task(self._call(), name="heartbeats")
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._beats is not None:
            self._beats.cancel()
            with suppress(asyncio.CancelledError):
                await self._beats
        await self.transport.close()

    def send(self, message: Message) -> None:
        """Send one message; it may get lost."""
        self.transport.write(self._encoder.encode(message))

    @property
    def now_s(self) -> float:
        """The event loop's clock."""
        return asyncio.get_running_loop().time()

    async def hear(self) -> Found:
        """Wait for a PX4 to show itself.

        Raises:
            LinkUnavailableError: there is none; says what is there instead.
        """
        await self._await_beat(self.wait_s)
        return self._found()

    async def find(self) -> Found:
        """Wait for a PX4 to show itself, and ask who it is.

        Raises:
            LinkUnavailableError: as `hear`.
        """
        await self.hear()
        self._version = None
        for _ in range(TRIES):
            await self.command(common.MAV_CMD_REQUEST_MESSAGE, common.MAVLINK_MSG_ID_AUTOPILOT_VERSION, tries=1)
            if await self._until(lambda: self._version is not None, COMMAND_WAIT_S):
                break
        return self._found()

    def _found(self) -> Found:
        beat, version = self._beat, self._version
        assert beat is not None
        armed = bool(beat.base_mode & common.MAV_MODE_FLAG_SAFETY_ARMED)
        who = (beat.get_srcSystem(), beat.get_srcComponent(), armed)
        if version is None:
            return Found(*who)
        number = version.flight_sw_version
        release = ".".join(str(number >> shift & 0xFF) for shift in (24, 16, 8))
        return Found(*who, _uid(version), release, version.uid - (who[0] - 1) == _SIMULATED_UID)

    @property
    def armed(self) -> bool:
        """Whether the newest HEARTBEAT said so."""
        return self._beat is not None and bool(self._beat.base_mode & common.MAV_MODE_FLAG_SAFETY_ARMED)

    async def command(self, command: int, *params: float, tries: int = TRIES) -> int | None:
        """Send a command until it is acknowledged; the result, or None without an answer."""
        self._acks.pop(command, None)
        values = [*params, *[0.0] * (7 - len(params))]
        for attempt in range(tries):
            self.send(common.MAVLink_command_long_message(*self._target, command, attempt, *values))
            if await self._until(lambda: command in self._acks, COMMAND_WAIT_S):
                return self._acks[command]
        return None

    async def restart(self, wait_s: float, by_hand: Callable[[str], None]) -> None:
        """Let the board save its parameters and restart, and wait until it is there again, wherever.

        Args:
            wait_s: how long that may take.
            by_hand: is told why somebody has to pull the plug, when the board does not restart by itself.

        Raises:
            LinkUnavailableError: it did not come back.
        """
        await self.command(common.MAV_CMD_PREFLIGHT_STORAGE, 1)
        boots = self._boots
        result = await self.command(common.MAV_CMD_PREFLIGHT_REBOOT_SHUTDOWN, 1)
        if result not in (None, common.MAV_RESULT_ACCEPTED):
            by_hand(f"the board does not restart by itself ({_result_name(result)})")
        end_s = self.now_s + wait_s
        while self._boots == boots:
            if self.now_s > end_s:
                raise LinkUnavailableError(
                    f"{self.transport.address}: the board did not restart within {wait_s:g} s; unplug it, plug it in "
                    "again and repeat the command: it goes on where it was"
                )
            if self.now_s - self._heard_s > SILENCE_S:
                self._restarted()
            await asyncio.sleep(0.02)
        await self._await_beat(max(end_s - self.now_s, self.wait_s))

    async def _await_beat(self, wait_s: float) -> None:
        end_s = self.now_s + wait_s
        while self._beat is None:
            problem = self._diagnosis.problem
            if problem is None and self.now_s > end_s:
                problem = self._diagnosis.of_silence(wait_s, self._decoder.stats.frames)
            if problem is not None:
                raise LinkUnavailableError(f"{self.transport.address}: {problem}")
            with suppress(TimeoutError):
                await asyncio.wait_for(self._beat_came.wait(), 0.1)
            self._beat_came.clear()

    async def _until(self, condition: Callable[[], bool], seconds: float) -> bool:
        end_s = self.now_s + seconds
        while not condition() and (left_s := end_s - self.now_s) > 0:
            self._news.clear()
            with suppress(TimeoutError):
                await asyncio.wait_for(self._news.wait(), left_s)
        return condition()

    async def _call(self) -> None:
        while True:
            self.send(common.MAVLink_heartbeat_message(self.beat_type, common.MAV_AUTOPILOT_INVALID, 0, 0, 4, 3))
            await asyncio.sleep(BEAT_S if self.now_s - self._heard_s < SILENCE_S else CALL_S)

    def _restarted(self) -> None:
        self._boots += 1
        self._boot_ms = -1
        self._beat = None

    # The transport's handler

    def link_up(self, peer: str) -> None:
        """The device is there."""

    def link_down(self, reason: str) -> None:
        """The device is gone: the board has restarted, or somebody pulled the plug."""
        self._decoder.forget_sequences()
        self._restarted()

    def link_data(self, data: bytes) -> None:
        """Take what the autopilot says."""
        self._diagnosis.data(data)
        for message in self._decoder.feed(data):
            if message.get_msgId() >= 0:
                self._message(message)

    def link_refused(self) -> None:
        """Nobody there yet."""

    def link_ignored(self, peer: str) -> None:
        """Somebody else speaks on this port."""
        logger.warning("%s speaks on this port, too; ignored", peer)

    def _message(self, message: Message) -> None:
        kind = message.get_type()
        if kind == "HEARTBEAT":
            self._diagnosis.heartbeat(message)
        if message.get_srcComponent() != common.MAV_COMP_ID_AUTOPILOT1:
            return
        beat = self._beat
        if beat is not None and message.get_srcSystem() != beat.get_srcSystem():
            return
        self._watch_clock(message)
        if kind == "HEARTBEAT" and message.autopilot == common.MAV_AUTOPILOT_PX4:
            self._beat = message
            self._target = (message.get_srcSystem(), message.get_srcComponent())
            self._heard_s = self.now_s
            self._beat_came.set()
            self.on_message(message)
        elif beat is not None:
            self._heard_s = self.now_s
            if kind == "COMMAND_ACK":
                self._acks[message.command] = message.result
            elif kind == "AUTOPILOT_VERSION":
                self._version = message
            self.on_message(message)
        self._news.set()

    def _watch_clock(self, message: Message) -> None:
        boot_ms = getattr(message, "time_boot_ms", None)
        if boot_ms is None or message.get_type() == "TIMESYNC":
            return
        if boot_ms + 1000 * SILENCE_S < self._boot_ms:
            self._restarted()
        self._boot_ms = boot_ms


def _uid(version: Message) -> str:
    wide = bytes(version.uid2)
    if any(wide[1:]):  # a build for a PC has its system id in the first
        return wide.hex()
    return f"{version.uid:016x}" if version.uid else ""


def _result_name(result: int | None) -> str:
    known = common.enums["MAV_RESULT"]
    return str(known[result].name if result in known else result)
