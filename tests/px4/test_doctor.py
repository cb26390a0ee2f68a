"""A real PX4 with a wrong feed, or wrong parameters: the doctor names the cause, and nothing else."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from px4.pilot import Pilot
from px4.px4 import MODELS, Px4, build_of, spare_instance
from pymavlink.dialects.v20 import common
from wrong_feeds import (
    Change,
    constant_barometer,
    few_satellites,
    strong_magnet,
    unchanged,
    without_barometer,
    without_gps,
    without_magnetometer,
)

from bridge.endpoint import parse_endpoint
from bridge.param_wire import set_message
from firmware_profiles.loader import load_profile
from lav2_hil.doctor.complaints import Cause
from lav2_hil.doctor.findings import Finding
from lav2_hil.doctor.gather import Visit
from lav2_hil.doctor.observation import Observation
from lav2_hil.doctor.report import lines_of
from lav2_hil.doctor.rules import diagnose
from lav2_hil.service import Service
from lav2_hil.settings import Settings

pytestmark = [pytest.mark.px4, pytest.mark.timeout(180)]

FEEDS: dict[str, tuple[Change, list[Cause]]] = {
    "healthy": (unchanged, []),
    "no GPS": (without_gps, [Cause.GPS]),
    "4 satellites": (few_satellites, [Cause.GPS]),
    "no magnetometer": (without_magnetometer, [Cause.SENSOR_MISSING]),
    "no barometer": (without_barometer, [Cause.SENSOR_MISSING]),
    "magnetic field off": (strong_magnet, [Cause.MAGNETIC_FIELD]),
    "barometer constant": (constant_barometer(), [Cause.SENSOR_CONSTANT]),
}


@dataclasses.dataclass
class Sitl:
    """PX4 and its feed."""

    px4: Px4
    service: Service

    async def visit(self) -> tuple[Observation, list[Finding]]:
        """The doctor comes over the ground station's port of this instance; what it tells is printed."""
        endpoint = parse_endpoint(f"udpout:127.0.0.1:{18570 + self.px4.instance}")
        seen = await Visit(endpoint, listen_s=5.0).observe()
        findings = diagnose(seen)
        print("\n".join(lines_of(seen, findings)))
        return seen, findings

    async def ready(self, seconds: float = 10.0) -> None:
        """Let simulated time pass: sensors come, and estimators settle or do not."""
        while self.service.session.stats.sensors < 250 * seconds:
            await asyncio.sleep(0.05)


@asynccontextmanager
async def sitl(directory: Path, release: str, change: Change = unchanged) -> AsyncIterator[Sitl]:
    build = build_of(release)
    if build is None:
        pytest.skip(f"no PX4 {release} build is named")
    instance = spare_instance()
    px4 = Px4(build, instance, directory / "px4")
    settings = Settings(
        profile=load_profile("px4_iris"),
        endpoint=parse_endpoint(f"tcpin:127.0.0.1:{4560 + instance}"),
        speed=2.0,
        seed=1,
        record=False,
    )
    service = Service(settings)
    right = service.twin.sample_of
    service.twin.sample_of = lambda *args, **kw: change(right(*args, **kw))  # type: ignore[method-assign]
    run = asyncio.create_task(service.run())
    await asyncio.sleep(0.1)
    px4.start()
    try:
        yield Sitl(px4, service)
    finally:
        service.stop("test")
        await run
        px4.stop()


def causes(findings: list[Finding]) -> list[Cause]:
    return [finding.cause for finding in findings]


@pytest.mark.parametrize("release", ["1.17", "1.12"])
@pytest.mark.parametrize("feed", FEEDS)
async def test_what_is_wrong_with_the_feed_is_named(feed: str, release: str, tmp_path: Path) -> None:
    change, expected = FEEDS[feed]
    async with sitl(tmp_path, release, change) as it:
        await it.ready()
        seen, findings = await it.visit()
    assert causes(findings) == expected
    assert (seen.report is not None) == (release == "1.17")
    assert seen.release[:2] == ((1, 17) if release == "1.17" else (1, 12))


async def test_a_feed_that_ends_is_named(tmp_path: Path) -> None:
    """Only without lockstep: in lockstep PX4 says nothing at all."""
    async with sitl(tmp_path, "nolockstep") as it:
        await it.ready()
        it.service.stop("feed ends")
        _, findings = await it.visit()
    assert causes(findings) == [Cause.NO_FEED]


@pytest.mark.parametrize(
    ("parameters", "expected"),
    [
        ({"NAV_DLL_ACT": "2"}, [Cause.GROUND_STATION]),
        ({"NAV_DLL_ACT": "0"}, []),
        ({"COM_RC_IN_MODE": "0", "RC1_MIN": "1600"}, [Cause.MANUAL_CONTROL]),
        ({"COM_RC_IN_MODE": "4"}, []),
    ],
    ids=["NAV_DLL_ACT 2", "NAV_DLL_ACT 0", "RC calibration", "no sticks"],
)
async def test_what_the_parameters_ask_for_is_named(
    parameters: dict[str, str], expected: list[Cause], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = ("px4_iris", "1.17")
    extra = {f"PX4_PARAM_{name}": value for name, value in parameters.items()}
    monkeypatch.setitem(MODELS, model, MODELS[model] | extra)
    async with sitl(tmp_path, "1.17") as it:
        await it.ready()
        _, findings = await it.visit()
    assert causes(findings) == expected
    for finding in findings:
        assert any(name in line for line in finding.evidence for name in parameters)


@pytest.mark.parametrize("release", ["1.17", "1.12"])
async def test_flight_termination_is_named(release: str, tmp_path: Path) -> None:
    async with sitl(tmp_path, release) as it, Pilot(it.px4.instance) as pilot:
        await pilot.until("ready to arm", pilot.ready, 60)
        await it.ready()
        assert await pilot.command(common.MAV_CMD_COMPONENT_ARM_DISARM, 1) == 0
        await pilot.until("armed", lambda: pilot.armed, 20)
        await pilot.command(common.MAV_CMD_DO_FLIGHTTERMINATION, 1)
        seen, findings = await it.visit()
    assert causes(findings) == [Cause.FLIGHT_TERMINATION]
    assert seen.armed
    assert seen.prearm_answer is None  # nothing was asked of an armed vehicle


@pytest.mark.parametrize("release", ["1.17", "1.12"])
async def test_the_kill_switch_is_named(release: str, tmp_path: Path) -> None:
    async with sitl(tmp_path, release) as it, Pilot(it.px4.instance) as pilot:
        await pilot.until("ready to arm", pilot.ready, 60)
        for name, value in (("COM_RC_IN_MODE", 0), ("RC_MAP_KILL_SW", 6), ("RC_CHAN_CNT", 8)):
            pilot.send(set_message(pilot.system, 1, name, value))
        channels = [1500, 1500, 1000, 1500, 1000, 2000, 1000, 1000]
        pilot.stick = common.MAVLink_rc_channels_override_message(pilot.system, 1, *channels)
        await it.ready(20.0)
        _, findings = await it.visit()
    assert Cause.KILL_SWITCH in causes(findings)
