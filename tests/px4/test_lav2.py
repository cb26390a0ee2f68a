"""A real PX4 1.17 in the land-air vehicle: it drives, flies, and drives back."""

from __future__ import annotations

import asyncio
import math
from pathlib import Path

import pytest
from px4.harness import NAN, Flight, flight
from pymavlink.dialects.v20 import common

pytestmark = [pytest.mark.px4, pytest.mark.timeout(300)]


async def drive(it: Flight, left: float, right: float) -> None:
    """Set the wheels, and leave the other actuators alone."""
    result = await it.pilot.command(common.MAV_CMD_DO_SET_ACTUATOR, left, right, NAN, NAN, NAN, NAN, 0)
    assert result == 0


async def drive_by(it: Flight, distance_m: float) -> None:
    """Drive straight by a distance, backwards when negative: the pilot's own loop, on PX4's estimate."""
    start = it.pilot.position
    yaw = it.pilot.newest["ATTITUDE"].yaw
    while True:
        here = it.pilot.position
        gone = (here[0] - start[0]) * math.cos(yaw) + (here[1] - start[1]) * math.sin(yaw)
        left_m = distance_m - gone
        if abs(left_m) < 0.1:
            break
        speed = max(-0.3, min(0.3, 0.4 * left_m))
        speed += math.copysign(0.05, speed)
        turn = 0.8 * math.remainder(yaw - it.pilot.newest["ATTITUDE"].yaw, math.tau)  # clockwise: left side faster
        await drive(it, speed + turn, speed - turn)
        await asyncio.sleep(0.01)
    await drive(it, 0.0, 0.0)


async def test_drives_flies_lands_and_drives_back(tmp_path: Path) -> None:
    async with flight(tmp_path, "lav2", "1.17", speed=1.0) as it:
        pilot, twin = it.pilot, it.service.twin
        await pilot.until("ready to arm", pilot.ready, 60)
        await drive(it, 0.0, 0.0)  # what was set while disarmed moves the wheels when PX4 arms
        assert await pilot.command(common.MAV_CMD_COMPONENT_ARM_DISARM, 1) == 0
        await pilot.until("armed", lambda: pilot.armed, 20)
        async with asyncio.timeout(60):
            await drive_by(it, 3.0)
        await it.simulated(1.0)
        there = twin.truth().pos_ned
        assert math.hypot(there[0], there[1]) == pytest.approx(3.0, abs=0.4)
        await it.take_off(3.0)
        await it.simulated(3.0)
        assert await pilot.command(common.MAV_CMD_NAV_LAND, 0, 0, 0, NAN, NAN, NAN, 0) == 0
        await pilot.until("landed", lambda: pilot.newest["EXTENDED_SYS_STATE"].landed_state == 1, 60)
        await it.simulated(1.0)
        assert pilot.armed
        landed = twin.truth().pos_ned
        async with asyncio.timeout(60):
            await drive_by(it, -3.0)
        await it.simulated(1.0)
        back = twin.truth().pos_ned
        assert math.dist(back[:2], landed[:2]) == pytest.approx(3.0, abs=0.4)
        assert await pilot.command(common.MAV_CMD_COMPONENT_ARM_DISARM, 0) == 0
        print("there", there, "landed", landed, "back", back)
