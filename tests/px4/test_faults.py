"""What a real PX4 says and does when something of its vehicle fails in flight: the table of docs/faults.md.

Every flight is recorded, and must replay with its faults bit for bit (see the harness).
"""

from __future__ import annotations

import asyncio
import math
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from px4.harness import Flight, flight

from lav2_hil.vehicle_faults import vehicle_fault
from twin.faults import FaultChange

pytestmark = [pytest.mark.px4, pytest.mark.timeout(300)]

HEIGHT_M = 8.0
AUTO, TERMINATION = 4, 10
LAND = 6
"""PX4's main modes, and a mode of AUTO."""


def mode(it: Flight) -> tuple[int, int]:
    """Main mode, and mode of AUTO."""
    custom = it.pilot.newest["HEARTBEAT"].custom_mode
    return custom >> 16 & 0xFF, custom >> 24


def said(it: Flight, pattern: str) -> bool:
    return any(re.search(pattern, text) for text in it.pilot.texts)


def fail(it: Flight, target: str, kind: str, value: str | None = None) -> None:
    """Let something fail from the next tick on."""
    fault = vehicle_fault(kind, target, value, "0s", None)
    it.service.loop.change_fault(FaultChange(fault.target, fault.kind, fault.value))


async def within(it: Flight, seconds: float, what: str, condition: Callable[[], bool]) -> float:
    """Wait until something is so, in simulated time; how long it took."""
    first = it.service.session.stats.sensors
    passed_s = 0.0
    while not condition():
        assert passed_s < seconds, f"not within {seconds} s: {what}; PX4 said {it.pilot.texts}"
        await asyncio.sleep(0.005)
        passed_s = (it.service.session.stats.sensors - first) * 1e-6 * it.service.twin.tick_us
    return passed_s


async def hovering(it: Flight) -> None:
    await it.take_off(HEIGHT_M)
    await it.simulated(6.0)
    it.pilot.texts.clear()


def tilt_deg(it: Flight) -> float:
    w, x, y, z = it.service.twin.truth().q_ned_frd
    return math.degrees(math.acos(max(-1.0, min(1.0, w * w - x * x - y * y + z * z))))


@pytest.mark.parametrize("release", ["1.17", "1.12"])
async def test_a_quad_that_loses_a_rotor_tips_over(release: str, tmp_path: Path) -> None:
    """With default parameters neither release terminates; whether 1.17 calls it a failure depends on the tumble."""
    async with flight(tmp_path, "px4_iris", release) as it:
        await hovering(it)
        fail(it, "rotor1", "lost")
        tipped_s = await within(it, 3.0, "tipped over", lambda: tilt_deg(it) > 60)
        await within(it, 8.0, "down", lambda: it.service.twin.height_m < 0.5)
        await it.simulated(3.0)
        print(f"tipped over after {tipped_s:.2f} s; {it.pilot.texts}")
        assert it.pilot.armed
        assert mode(it)[0] == AUTO
    assert it.recorder.count("flight_termination_suspected") == 0


@pytest.mark.parametrize("kind", ["off", "nofix"])
async def test_1_17_lands_without_gps(kind: str, tmp_path: Path) -> None:
    async with flight(tmp_path, "px4_iris", "1.17") as it:
        await hovering(it)
        fail(it, "gps", kind)
        after_s = await within(it, 15.0, "landing", lambda: mode(it) == (AUTO, LAND))
        print(f"{kind}: landing after {after_s:.1f} s; {it.pilot.texts}")
        assert after_s > 3.0, "it holds its place on inertia for some seconds"


@pytest.mark.parametrize(
    ("kind", "text"), [("stuck", "BARO #0 failed:  STALE"), ("silent", "BARO #0 failed:  TIMEOUT")]
)
@pytest.mark.parametrize("release", ["1.17", "1.12"])
async def test_a_barometer_that_fails_is_named_and_the_height_held(
    release: str, kind: str, text: str, tmp_path: Path
) -> None:
    async with flight(tmp_path, "px4_iris", release) as it:
        await hovering(it)
        fail(it, "baro", kind)
        after_s = await within(it, 5.0, text, lambda: said(it, text))
        await it.simulated(8.0)
        print(f"{kind}: after {after_s:.2f} s; {it.service.twin.height_m:.2f} m; {it.pilot.texts}")
        assert it.service.twin.height_m == pytest.approx(HEIGHT_M, abs=1.0)


async def test_a_magnetometer_that_is_silent_is_named_and_the_place_held(tmp_path: Path) -> None:
    async with flight(tmp_path, "px4_iris", "1.17") as it:
        await hovering(it)
        place = it.service.twin.truth().pos_ned
        fail(it, "mag", "silent")
        await within(it, 5.0, "told", lambda: said(it, "MAG #0 failed:  TIMEOUT"))
        await it.simulated(8.0)
        assert math.dist(it.service.twin.truth().pos_ned, place) < 1.5


async def test_a_magnetometer_that_is_off_keeps_px4_on_the_ground(tmp_path: Path) -> None:
    async with flight(tmp_path, "px4_iris", "1.17") as it:
        fail(it, "mag", "bias", "0.5G")
        await it.simulated(15.0)
        print(it.pilot.texts)
        assert not it.pilot.ready()
        it.service.loop.change_fault(FaultChange("mag", "bias", None))
        await it.pilot.until("ready to arm once it is over", it.pilot.ready, 60)


async def test_a_noisy_gyroscope_is_flown_with(tmp_path: Path) -> None:
    async with flight(tmp_path, "px4_iris", "1.17") as it:
        await hovering(it)
        place = it.service.twin.truth().pos_ned
        fail(it, "gyro", "noise", "0.3rad/s")
        await it.simulated(10.0)
        print(f"off by {math.dist(it.service.twin.truth().pos_ned, place):.2f} m; {it.pilot.texts}")
        assert math.dist(it.service.twin.truth().pos_ned, place) < 3.0


async def test_1_17_without_a_gyroscope_terminates_the_flight(tmp_path: Path) -> None:
    async with flight(tmp_path, "px4_iris", "1.17") as it:
        await hovering(it)
        fail(it, "gyro", "silent")
        await within(it, 5.0, "failsafe", lambda: said(it, "Failsafe activated"))
        await within(it, 5.0, "termination", lambda: mode(it)[0] == TERMINATION)
        await within(it, 10.0, "no data", lambda: said(it, "No valid data from Gyro 0"))
    assert it.recorder.count("flight_termination_suspected") == 1
