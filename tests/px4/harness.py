"""A real PX4 in the twin: both running, and a pilot to command it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from px4.pilot import Pilot
from px4.px4 import Px4, build_of, spare_instance
from pymavlink.dialects.v20 import common

from bridge.endpoint import parse_endpoint
from bridge.session_io import Notice
from firmware_profiles.loader import load_profile
from firmware_profiles.profile import VehicleProfile
from firmware_profiles.signals import HilControls, SensorSample
from lav2_hil.service import Service
from lav2_hil.session.check import check_session
from lav2_hil.session.compare import Comparison
from lav2_hil.session.report import lines_of
from lav2_hil.settings import Settings

NAN = float("nan")


@dataclass
class Recorder:
    """Listens to the loop: the notices, and the newest controls."""

    notices: list[Notice] = field(default_factory=list)
    controls: HilControls | None = None

    def stepped(self, controls: HilControls | None, sample: SensorSample) -> None:
        self.controls = controls

    def noticed(self, notice: Notice) -> None:
        self.notices.append(notice)

    def count(self, name: str) -> int:
        return sum(notice.name == name for notice in self.notices)


@dataclass
class Flight:
    """One PX4 with its twin."""

    px4: Px4
    service: Service
    pilot: Pilot
    recorder: Recorder
    summary: dict[str, Any] = field(default_factory=dict)
    replayed: Comparison | None = None

    async def simulated(self, seconds: float) -> None:
        """Let simulated time pass."""
        ticks = self.service.session.stats.sensors + seconds * 1e6 / self.service.twin.tick_us
        while self.service.session.stats.sensors < ticks:
            await asyncio.sleep(0.01)

    async def take_off(self, height_m: float) -> None:
        """From the ground to a height, once PX4 is ready."""
        pilot, twin = self.pilot, self.service.twin
        await pilot.until("ready to arm", pilot.ready, 90)
        altitude = pilot.newest["HOME_POSITION"].altitude / 1000 + height_m
        assert await pilot.command(common.MAV_CMD_NAV_TAKEOFF, 0, 0, 0, NAN, NAN, NAN, altitude) == 0
        # PX4 1.12 refuses to arm what is armed, and a slow answer makes the pilot ask twice.
        accepted = await pilot.command(common.MAV_CMD_COMPONENT_ARM_DISARM, 1) == 0
        await pilot.until("armed", lambda: pilot.armed, 30 if accepted else 2)
        await pilot.until(f"{height_m} m", lambda: twin.height_m > height_m - 0.5, 90)

    async def land(self) -> None:
        """Down and disarmed."""
        assert await self.pilot.command(common.MAV_CMD_NAV_LAND, 0, 0, 0, NAN, NAN, NAN, 0) == 0
        await self.pilot.until("landed and disarmed", lambda: not self.pilot.armed, 120)


@asynccontextmanager
async def flight(
    directory: Path,
    model: str,
    release: str,
    *,
    udp: bool = False,
    speed: float = 0,
    profile: VehicleProfile | None = None,
) -> AsyncIterator[Flight]:
    """Start a PX4 of a release with a twin of its own; skips when no such build is named.

    Every flight is recorded, and must replay with every frame equal.
    """
    build = build_of(release)
    if build is None:
        pytest.skip(f"no PX4 {release} build is named")
    instance = spare_instance()
    px4 = Px4(build, instance, directory / "px4", model=model, udp=udp)
    endpoint = f"udpout:127.0.0.1:{14560 + instance}" if udp else f"tcpin:127.0.0.1:{4560 + instance}"
    recorder = Recorder()
    settings = Settings(
        profile=load_profile(model) if profile is None else profile,
        profile_source=model,
        endpoint=parse_endpoint(endpoint),
        speed=speed,
        seed=1,
        record=True,
        session_file=directory / "flight.mcap",
    )
    service = Service(settings, listeners=(recorder,))
    run = asyncio.create_task(service.run())
    await asyncio.sleep(0.1)
    px4.start()
    try:
        async with Pilot(instance) as pilot:
            it = Flight(px4, service, pilot, recorder)
            yield it
    finally:
        service.stop("test")
        _, summary = await run
        px4.stop()
        print(summary)
    it.summary = summary
    replayed = await asyncio.to_thread(check_session, directory / "flight.mcap", recorded_profile=profile is not None)
    assert (replayed.spoilt, replayed.comparison.equal) == (None, True), "\n".join(lines_of(replayed))
    it.replayed = replayed.comparison
