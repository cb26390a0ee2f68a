"""The doctor's visit: asks, listens, and gives an observation. It changes nothing on the board, and never arms it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from pymavlink.dialects.v20 import common

from bridge.board_link import BoardLink, Found
from bridge.codec import Message
from bridge.endpoint import Endpoint, Serial
from bridge.params_client import ParamsClient
from bridge.transport.factory import create_transport
from lav2_hil.doctor.collector import Collector
from lav2_hil.doctor.observation import OUTPUT_FUNCTIONS, PARAMETERS, Observation

LISTEN_S = 8.0
"""Long enough for an estimator to settle, which takes 4 s."""
EVENTS_SINCE = (1, 13)
LOOK_S = 0.1
"""The sensors are looked at so often."""
REPORT_S = 2.0
"""PX4 is asked for its arming report so often."""
_LOOKED_AT = (common.MAVLINK_MSG_ID_HIGHRES_IMU,)
_ASKED_FOR = (
    common.MAVLINK_MSG_ID_SYS_STATUS,
    common.MAVLINK_MSG_ID_GPS_RAW_INT,
    common.MAVLINK_MSG_ID_SYSTEM_TIME,
    common.MAVLINK_MSG_ID_ESTIMATOR_STATUS,
)
_LOSS_MARGIN_S = 2.0
_LATEST = 4.0
"""Sensors count from so long before the end [s]: the beginning may be the vehicle's, too."""


@dataclass
class Visit:
    """One visit.

    Args:
        endpoint: where the flight controller is.
        listen_s: how long to listen to it.
        wait_s: how long to wait for it to show itself.
        say: is told what takes long.
    """

    endpoint: Endpoint
    listen_s: float = LISTEN_S
    wait_s: float = 10.0
    say: Callable[[str], None] = lambda _: None

    async def observe(self) -> Observation:
        """Ask and listen.

        Raises:
            LinkUnavailableError: the port cannot be had, or no PX4 is there; says what is.
        """
        link = BoardLink(create_transport(self.endpoint), self.wait_s)
        link.beat_type = common.MAV_TYPE_GENERIC  # PX4 shall not take the doctor for the ground station it may miss
        collector = Collector()
        link.on_message = collector.take
        async with link:
            board = await link.find()
            return await self._examine(link, board, collector)

    async def _examine(self, link: BoardLink, board: Found, collector: Collector) -> Observation:
        release = tuple(int(part) for part in board.release.split(".")) if board.release else ()
        started_s = link.now_s
        lonely = None
        client = ParamsClient(link, board)
        answers = link.on_message

        def both(message: Message) -> None:
            collector.take(message)
            answers(message)

        link.on_message = both
        # Who is the only ground station and leaves is a lost link to a vehicle that flies: only listen to that one.
        armed = link.armed
        if not armed:
            await link.command(common.MAV_CMD_RUN_PREARM_CHECKS, tries=3)
            await self._until(link, lambda: collector.reader.reports > 0, 1.0)
            lonely = collector.reader.report
            link.beat_type = common.MAV_TYPE_GCS
        parameters = await client.read(PARAMETERS)
        if parameters.get("SYS_HITL"):
            parameters |= await client.read(OUTPUT_FUNCTIONS)
        if not armed and (1, 1) <= release < EVENTS_SINCE:
            await self._make_it_speak(link, collector, float(parameters.get("COM_DL_LOSS_T", 10)))
        await self._listen(link, board, collector)
        endpoint = self.endpoint
        return Observation(
            address=link.transport.address,
            serial=isinstance(endpoint, Serial),
            baud=endpoint.baud if isinstance(endpoint, Serial) else 0,
            release=release,
            simulated=board.simulated,
            seconds=link.now_s - started_s,
            parameters=parameters,
            lonely_report=lonely,
            **collector.seen(),
        )

    async def _make_it_speak(self, link: BoardLink, collector: Collector, loss_s: float) -> None:
        """PX4 1.12 tells why it will not arm when a ground station comes; so go away, and come again."""
        await self._until(link, lambda: bool(collector.told), 3.0)
        if collector.told or collector.seen()["prearm_bit"]:
            return
        self.say(f"PX4 1.12 tells its reasons to a ground station that comes; going away for {loss_s:g} s")
        link.beat_type = common.MAV_TYPE_GENERIC
        await self._until(link, lambda: False, loss_s + _LOSS_MARGIN_S)
        link.beat_type = common.MAV_TYPE_GCS

    async def _listen(self, link: BoardLink, board: Found, collector: Collector) -> None:
        end_s = link.now_s + self.listen_s
        report_s = 0.0
        fresh = False
        while link.now_s < end_s:
            if not fresh and end_s - link.now_s < _LATEST:
                collector.look_again()
                fresh = True
            for kind in _LOOKED_AT:
                self._ask(link, board, common.MAV_CMD_REQUEST_MESSAGE, kind)
            if link.now_s >= report_s:
                report_s = link.now_s + REPORT_S
                for kind in _ASKED_FOR:
                    self._ask(link, board, common.MAV_CMD_REQUEST_MESSAGE, kind)
                if not link.armed:
                    self._ask(link, board, common.MAV_CMD_RUN_PREARM_CHECKS)
            await asyncio.sleep(LOOK_S)

    def _ask(self, link: BoardLink, board: Found, command: int, param1: int = 0) -> None:
        link.send(
            common.MAVLink_command_long_message(board.system, board.component, command, 0, param1, 0, 0, 0, 0, 0, 0)
        )

    async def _until(self, link: BoardLink, condition: Callable[[], bool], seconds: float) -> None:
        end_s = link.now_s + seconds
        while link.now_s < end_s:
            if condition():
                return
            await asyncio.sleep(0.05)
