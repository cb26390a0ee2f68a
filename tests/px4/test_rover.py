"""A real PX4 1.17 in the differential rover: it stands, drives, turns to the commanded side and reverses."""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from px4.harness import Flight, flight
from pymavlink.dialects.v20 import common

from twin.frames import euler_zyx_of_quat

pytestmark = [pytest.mark.px4, pytest.mark.timeout(300)]

MANUAL, ACRO = 1, 5
"""PX4's main modes: throttle and steering, throttle and yaw rate."""
RIGHT, LEFT = 0, 1
"""The channels of PX4's motors 1 and 2."""


def place(it: Flight) -> tuple[float, float, float]:
    """North, east [m] and heading [rad], in truth."""
    truth = it.service.twin.truth()
    return truth.pos_ned[0], truth.pos_ned[1], euler_zyx_of_quat(truth.q_ned_frd)[2]


def moved(it: Flight, start: tuple[float, float, float]) -> tuple[float, float, float]:
    """How far ahead and to the right of a place [m] the rover is, as seen from there, and turned clockwise [rad]."""
    north, east, heading = place(it)
    north, east = north - start[0], east - start[1]
    cos, sin = math.cos(start[2]), math.sin(start[2])
    return north * cos + east * sin, east * cos - north * sin, math.remainder(heading - start[2], math.tau)


def stick(it: Flight, throttle: float, right: float) -> None:
    """Hold the sticks, each -1 to 1, until they are moved again."""
    it.pilot.stick = common.MAVLink_manual_control_message(
        it.pilot.system, 0, round(1000 * right), round(500 + 500 * throttle), 0, 0
    )


def channels(it: Flight) -> tuple[float, ...]:
    """The newest controls as PX4 sent them."""
    assert it.recorder.controls is not None
    return it.recorder.controls.channels


async def hold(it: Flight, throttle: float, right: float, until: Callable[[], bool]) -> tuple[float, ...]:
    """Hold the sticks until something is so, then let go and let the rover stop; the controls while they were held."""
    stick(it, throttle, right)
    try:
        await it.pilot.until("the rover is there", until, 60)
        seen = channels(it)
    finally:
        stick(it, 0.0, 0.0)
    await it.simulated(1.5)
    return seen


@asynccontextmanager
async def armed_rover(directory: Path, mode: int) -> AsyncIterator[Flight]:
    """A rover that PX4 has armed, with the sticks in the middle."""
    async with flight(directory, "px4_rover_differential", "1.17", speed=1.0) as it:
        pilot = it.pilot
        stick(it, 0.0, 0.0)
        await pilot.until("position and home", lambda: {"HOME_POSITION", "LOCAL_POSITION_NED"} <= set(pilot.newest), 60)
        custom = common.MAV_MODE_FLAG_CUSTOM_MODE_ENABLED
        assert await pilot.command(common.MAV_CMD_DO_SET_MODE, custom, mode) == 0
        await pilot.until("ready to arm", pilot.ready, 60)
        assert await pilot.command(common.MAV_CMD_COMPONENT_ARM_DISARM, 1) == 0
        await pilot.until("armed", lambda: pilot.armed, 20)
        assert pilot.newest["HEARTBEAT"].custom_mode >> 16 == mode
        yield it
        assert await pilot.command(common.MAV_CMD_COMPONENT_ARM_DISARM, 0) == 0
        await pilot.until("disarmed", lambda: not pilot.armed, 20)
    assert it.recorder.count("flight_termination_suspected") == 0


async def test_39_armed_with_zero_controls_it_stands(tmp_path: Path) -> None:
    async with armed_rover(tmp_path, MANUAL) as it:
        start = place(it)
        await it.simulated(5.0)
        assert it.service.session.stats.replies > 100
        assert channels(it)[:2] == (0.0, 0.0)
        ahead, right, turned = moved(it, start)
        print(f"moved {ahead:.4f} m ahead, {right:.4f} m to the right, {math.degrees(turned):.3f} degrees")
        assert math.hypot(ahead, right) < 0.02
        assert abs(turned) < math.radians(0.5)


async def test_39_drives_forward_turns_to_the_commanded_side_and_reverses(tmp_path: Path) -> None:
    async with armed_rover(tmp_path, MANUAL) as it:
        start = place(it)
        seen = await hold(it, 0.6, 0.0, lambda: moved(it, start)[0] > 3.0)
        ahead, right, turned = moved(it, start)
        print(f"forward {ahead:.2f} m, {right:.2f} m to the right, turned {math.degrees(turned):.1f}; {seen[:2]}")
        assert 3.0 < ahead < 4.5
        assert abs(right) < 0.3
        assert seen[RIGHT] == pytest.approx(0.6, abs=0.01) == seen[LEFT]
        north, east, _ = it.pilot.position
        assert math.dist((north, east), place(it)[:2]) < 1.0  # PX4 knows where it is

        for side in (1.0, -1.0):  # to the right, and back to the left
            start = place(it)
            seen = await hold(it, 0.0, 0.2 * side, lambda s=start, sign=side: sign * moved(it, s)[2] > math.radians(85))
            ahead, right, turned = moved(it, start)
            print(f"turned {math.degrees(turned):.1f} degrees, moved {ahead:.2f}, {right:.2f} m; {seen[:2]}")
            assert side * turned == pytest.approx(math.radians(90), abs=math.radians(15))
            assert math.hypot(ahead, right) < 0.15
            assert side * seen[LEFT] > 0.1 > -0.1 > side * seen[RIGHT]

        start = place(it)
        seen = await hold(it, -0.5, 0.0, lambda: moved(it, start)[0] < -2.0)
        ahead, right, _ = moved(it, start)
        print(f"reverse {ahead:.2f} m, {right:.2f} m to the right; {seen[:2]}")
        assert -3.5 < ahead < -2.0
        assert seen[RIGHT] == pytest.approx(-0.5, abs=0.01) == seen[LEFT]
        assert it.recorder.count("reply_timeout") == 0


async def test_acro_turns_at_the_rate_that_the_stick_asks_for(tmp_path: Path) -> None:
    async with armed_rover(tmp_path, ACRO) as it:
        stick(it, 0.3, 0.2)  # RO_YAW_RATE_LIM is 250 degrees/s
        await it.simulated(2.0)
        rates = []
        for _ in range(20):
            await it.simulated(0.05)
            rates.append(math.degrees(it.service.twin.truth().rates_frd[2]))
        stick(it, 0.0, 0.0)
        await it.simulated(1.0)
        print(f"asked 50 degrees/s, {sum(rates) / len(rates):.1f} on the mean")
        assert sum(rates) / len(rates) == pytest.approx(50.0, rel=0.15)
