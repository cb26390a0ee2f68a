"""MAV_CMD_INJECT_FAILURE from a ground station, over the wire: done by the twin, answered once, and not passed on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from ground_rig import Station, recorded, running
from pymavlink.dialects.v20 import common

from lav2_hil.session.check import check_session
from lav2_hil.session.reader import read_session
from lav2_hil.session.records import Kind, fault_of

pytestmark = pytest.mark.timeout(60)
GPS, BATTERY, MOTOR = 4, 100, 101
OK, OFF = 0, 1


def inject(unit: int, kind: int, instance: int) -> common.MAVLink_command_long_message:
    values = (unit, kind, instance, 0, 0, 0, 0)
    return common.MAVLink_command_long_message(1, 1, common.MAV_CMD_INJECT_FAILURE, 0, *values)


def arm() -> common.MAVLink_command_long_message:
    return common.MAVLink_command_long_message(1, 1, common.MAV_CMD_COMPONENT_ARM_DISARM, 0, *[0.0] * 7)


async def test_it_is_done_and_answered_once_and_goes_no_further(tmp_path: Path) -> None:
    station, other = Station(), Station(245)
    path = tmp_path / "run.mcap"
    async with running(station, other, **recorded(path)) as run:
        await run.until(lambda: min(station.count("HEARTBEAT"), other.count("HEARTBEAT")) > 0, "telemetry")
        station.say(common.MAVLink_heartbeat_message(6, 8, 0, 0, 0, 3))
        asked = [(inject(MOTOR, OFF, 2), 0), (inject(BATTERY, OFF, 0), 3), (inject(MOTOR, OFF, 9), 2)]
        asked += [(inject(GPS, OFF, 1), 0), (inject(MOTOR, OK, 0), 0)]
        for number, (message, _) in enumerate(asked, 1):
            station.say(message)
            await run.until(lambda n=number: station.count("COMMAND_ACK") >= n, "an answer")
        station.say(arm())
        await run.until(lambda: any(m.get_type() == "COMMAND_LONG" for m in run.fc.heard), "an ordinary command")
        beats = station.count("HEARTBEAT")
        await run.until(lambda: station.count("HEARTBEAT") > beats + 1, "nothing more is said")
        other.read()
    answers = [message for message in station.messages if message.get_type() == "COMMAND_ACK"]
    assert [answer.result for answer in answers] == [result for _, result in asked]
    assert {(a.get_srcSystem(), a.get_srcComponent(), a.command) for a in answers} == {(1, 1, 420)}
    assert {(a.target_system, a.target_component) for a in answers} == {(255, 190)}
    assert not any(message.get_type() == "COMMAND_ACK" for message in other.messages), "nobody else asked"
    passed_on: list[Any] = [message for message in run.fc.heard if message.get_type() == "COMMAND_LONG"]
    assert [message.command for message in passed_on] == [400]
    assert run.summary["ground"]["answered"] == len(asked)
    faults = [fault_of(record.data) for record in read_session(path).records if record.kind is Kind.FAULT]
    assert [(fault.target, fault.value) for fault in faults[:2]] == [("rotor2", (0.0,)), ("gps", ())]
    assert len(faults) == 2 + 4 * 2
    assert check_session(path).comparison.identical
