"""A ground station of a few lines of pymavlink breaks what the command line flies: all of it is as users have it."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

import pytest
from hitl.cli_run import Run
from hitl.lost_motor import check_lost_motor
from hitl.rig import Board
from pymavlink import mavutil
from pymavlink.dialects.v20 import common

from bridge.addresses import addresses_of
from lav2_hil.session.records import Kind, Record, fault_of

pytestmark = [pytest.mark.realtime, pytest.mark.timeout(120)]
MOTOR = 3
OK, OFF = common.FAILURE_TYPE_OK, common.FAILURE_TYPE_OFF
GPS_UNIT, MOTOR_UNIT = common.FAILURE_UNIT_SENSOR_GPS, common.FAILURE_UNIT_SYSTEM_MOTOR


class Station:
    """A ground station that blocks, for a thread of its own."""

    def __init__(self) -> None:
        self.link = mavutil.mavlink_connection("udpin:127.0.0.1:0", source_system=255, source_component=190)
        self.port = int(self.link.port.getsockname()[1])
        self.answers: list[Any] = []

    def until_up(self, height_m: float) -> None:
        while self._hears("GLOBAL_POSITION_INT").relative_alt < 1e3 * height_m:
            pass

    def asks(self, command: int, *values: float) -> int:
        """Send a command to the vehicle; gives its result."""
        self.link.mav.command_long_send(1, 1, command, 0, *values, *[0.0] * (7 - len(values)))
        self.answers.append(self._hears("COMMAND_ACK"))
        return int(self.answers[-1].result)

    def injects(self, unit: int, kind: int, instance: int) -> int:
        return self.asks(common.MAV_CMD_INJECT_FAILURE, unit, kind, instance)

    def _hears(self, kind: str) -> Any:
        message = self.link.recv_match(type=kind, blocking=True, timeout=20)
        assert message is not None, f"no {kind}"
        return message

    def breaks_the_vehicle(self) -> None:
        """Once it hovers."""
        self.until_up(1.8)
        assert self.injects(common.FAILURE_UNIT_SENSOR_AIRSPEED, OFF, 0) == common.MAV_RESULT_UNSUPPORTED
        assert self.injects(MOTOR_UNIT, common.FAILURE_TYPE_SLOW, 1) == common.MAV_RESULT_UNSUPPORTED
        assert self.injects(GPS_UNIT, OFF, 1) == common.MAV_RESULT_ACCEPTED
        time.sleep(1.0)
        assert self.injects(GPS_UNIT, OK, 1) == common.MAV_RESULT_ACCEPTED
        assert self.asks(common.MAV_CMD_REQUEST_MESSAGE, common.MAVLINK_MSG_ID_AUTOPILOT_VERSION) == 0
        assert self.injects(MOTOR_UNIT, OFF, MOTOR) == common.MAV_RESULT_ACCEPTED
        time.sleep(3.0)
        while (answer := self.link.recv_match(type="COMMAND_ACK")) is not None:
            self.answers.append(answer)


async def test_the_vehicle_breaks_and_the_autopilot_sees_it(tmp_path: Path) -> None:
    station = Station()
    try:
        async with (
            Board(tmp_path, mission="hover") as board,
            Run(board.device, tmp_path, "--ground", f"127.0.0.1:{station.port}") as run,
        ):
            await asyncio.to_thread(station.breaks_the_vehicle)
            await board.until(lambda: any("mission" in report for report in board.reports))
    finally:
        station.link.close()
    assert board.reports[-1] == {"mission": "the vehicle tips over"}
    assert len(station.answers) == 6, "each is answered once"
    assert {(answer.get_srcSystem(), answer.get_srcComponent()) for answer in station.answers} == {(1, 1)}
    assert run.summary["ground"]["answered"] == 5
    assert run.said("fault: rotor3 effectiveness=0, by the ground station 255/190") == 1
    session = await asyncio.to_thread(check_lost_motor, run.session, MOTOR, "lav2")
    faults = [index for index, record in enumerate(session.records) if record.kind is Kind.FAULT]
    off, on = faults[:2]
    assert fault_of(session.records[off].data).kind == "off"
    fixes = [_fixes(part) for part in (session.records[:off], session.records[off:on], session.records[on:])]
    assert min(fixes[0], fixes[2]) > 5
    assert fixes[1] == 0, "for a second the receiver says nothing"


def _fixes(records: list[Record]) -> int:
    sent = [record.data for record in records if record.kind is Kind.SENT]
    return sum(addresses_of(frame).message == common.MAVLINK_MSG_ID_HIL_GPS for frame in sent)
