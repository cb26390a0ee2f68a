"""A real PX4 1.17 in ATMO: it flies, lands, and drives once its thrusters are its wheels."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from px4.harness import NAN, Flight, flight
from pymavlink.dialects.v20 import common

from firmware_profiles.loader import load_profile

pytestmark = [pytest.mark.px4, pytest.mark.timeout(300)]

TILT = load_profile("atmo").vehicle.tilt
assert TILT is not None
QUARTER_TURN_S = math.pi / 2 / TILT.max_rate_rad_s


async def actuators(it: Flight, left: float, right: float, arms: float) -> None:
    """Set wheels and arms."""
    assert await it.pilot.command(common.MAV_CMD_DO_SET_ACTUATOR, left, right, arms, NAN, NAN, NAN, 0) == 0


async def test_flies_lands_transforms_and_drives(tmp_path: Path) -> None:
    async with flight(tmp_path, "atmo", "1.17", speed=1.0) as it:
        pilot, twin = it.pilot, it.service.twin
        await pilot.until("ready to arm", pilot.ready, 60)
        await actuators(it, 0.0, 0.0, 0.0)
        await it.take_off(3.0)
        await it.simulated(3.0)
        assert twin.height_m == pytest.approx(3.0, abs=0.7)
        assert await pilot.command(common.MAV_CMD_NAV_LAND, 0, 0, 0, NAN, NAN, NAN, 0) == 0
        await pilot.until("landed", lambda: pilot.newest["EXTENDED_SYS_STATE"].landed_state == 1, 90)
        await it.simulated(1.0)
        assert twin.height_m < 0.02
        await actuators(it, 0.0, 0.0, 1.0)
        await it.simulated(QUARTER_TURN_S + 1.0)
        assert twin.height_m == pytest.approx(0.141, abs=0.01)  # on its wheels
        start = twin.truth().pos_ned
        await actuators(it, 0.4, 0.4, 1.0)
        await it.simulated(4.0)
        await actuators(it, 0.0, 0.0, 1.0)
        await it.simulated(1.5)
        there = twin.truth().pos_ned
        print("drove", math.dist(start[:2], there[:2]), "m, lifted", twin.height_m, "m")
        assert 1.5 < math.dist(start[:2], there[:2]) < 4.5
        assert await pilot.command(common.MAV_CMD_COMPONENT_ARM_DISARM, 0) == 0
        await pilot.until("disarmed", lambda: not pilot.armed, 20)
        await it.simulated(1.0)
        assert twin.height_m == pytest.approx(0.141, abs=0.01)  # the arms stay where they are
