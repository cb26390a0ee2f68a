"""A real PX4 takes off, hovers a minute, lands and disarms in the twin (issue: the link and the twin)."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

import pytest
from px4.pilot import Pilot
from px4.px4 import Px4, build_of, spare_instance
from pymavlink.dialects.v20 import common

from bridge.endpoint import parse_endpoint
from firmware_profiles.loader import load_profile
from lav2_hil.service import Service
from lav2_hil.settings import Settings

CASES = [
    ("px4_iris", "1.17", "tcp"),
    ("px4_iris", "1.17", "udp"),
    ("px4_x500", "1.17", "tcp"),
    ("px4_iris", "1.12", "tcp"),
    ("px4_iris", "1.12", "udp"),
]
HOVER_M = 10.0
HOVER_S = 60.0
COMPLAINTS = re.compile(r"stale|time ?out|bias", re.IGNORECASE)


@pytest.mark.px4
@pytest.mark.timeout(400)
@pytest.mark.parametrize(("profile", "release", "link"), CASES)
async def test_takes_off_hovers_and_lands(profile: str, release: str, link: str, tmp_path: Path) -> None:
    build = build_of(release)
    if build is None:
        pytest.skip(f"no PX4 {release} build is named")
    instance = spare_instance()
    px4 = Px4(build, instance, tmp_path / "px4", model=profile, udp=link == "udp")
    endpoint = f"udpout:127.0.0.1:{14560 + instance}" if link == "udp" else f"tcpin:127.0.0.1:{4560 + instance}"
    service = Service(Settings(profile=load_profile(profile), endpoint=parse_endpoint(endpoint), speed=0, seed=1))
    run = asyncio.create_task(service.run())
    await asyncio.sleep(0.1)
    px4.start()
    try:
        async with Pilot(instance) as pilot:
            await fly(pilot, service)
    finally:
        service.stop("test")
        _, summary = await run
        px4.stop()
    print(summary)
    complaints = [line for line in (*pilot.texts, *px4.log.splitlines()) if COMPLAINTS.search(line)]
    assert not complaints
    assert summary["notices"].get("flight_termination_suspected", 0) == 0


async def fly(pilot: Pilot, service: Service) -> None:
    twin = service.twin
    ground = twin.height_m
    await pilot.until("ready to arm", pilot.ready, 60)
    home_alt = pilot.newest["HOME_POSITION"].altitude / 1000
    ground_z = pilot.position[2]
    nan = float("nan")
    assert await pilot.command(common.MAV_CMD_NAV_TAKEOFF, 0, 0, 0, nan, nan, nan, home_alt + HOVER_M) == 0
    assert await pilot.command(common.MAV_CMD_COMPONENT_ARM_DISARM, 1) == 0
    await pilot.until("armed", lambda: pilot.armed, 20)
    await pilot.until("10 m", lambda: twin.height_m - ground > HOVER_M - 0.5, 60)
    await simulated(service, 8.0)
    local, truth = [], []

    def note(message: object) -> None:
        if message.get_type() == "LOCAL_POSITION_NED":  # type: ignore[attr-defined]
            local.append(pilot.position)
            truth.append(twin.truth().pos_ned)

    start_truth = twin.truth().pos_ned
    start = pilot.position
    pilot.on_message = note
    await simulated(service, HOVER_S)
    pilot.on_message = None
    assert len(local) > 100
    spread = [max(abs(p[i] - start[i]) for p in local) for i in range(3)]
    off = max(abs(-(p[2] - ground_z) - HOVER_M) for p in local)
    true = max(max(abs(p[i] - q[i]) for i in (0, 1)) for p, q in zip(truth, local, strict=True))
    true_height = max(abs(-p[2] - ground - HOVER_M) for p in truth)
    print("hover: spread", spread, "altitude off", off, "truth off", true, true_height, start, start_truth)
    assert max(spread) < 0.5
    assert off < 0.8
    assert true < 1.5
    assert true_height < 1.5
    assert await pilot.command(common.MAV_CMD_NAV_LAND, 0, 0, 0, nan, nan, nan, 0) == 0
    await pilot.until("landed and disarmed", lambda: not pilot.armed, 120)
    assert twin.height_m - ground < 0.1


async def simulated(service: Service, seconds: float) -> None:
    """Let simulated time pass."""
    until = service.session.time_us + seconds * 1e6
    while service.session.time_us < until:
        await asyncio.sleep(0.01)
