"""What a real PX4 does to the link: it restarts, falls silent, freezes, answers one sensor in four or none."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path

import msgspec
import pytest
from px4.harness import flight
from pymavlink.dialects.v20 import common

from bridge.session_state import PacedReason, Phase
from firmware_profiles.loader import load_profile

pytestmark = [pytest.mark.px4, pytest.mark.timeout(300)]


@pytest.mark.parametrize("release", ["1.17", "1.12"])
async def test_restarts_on_tcp(release: str, tmp_path: Path) -> None:
    async with flight(tmp_path, "px4_iris", release) as it:
        await it.take_off(3.0)
        it.px4.stop()
        await it.pilot.until("loss noticed", lambda: it.recorder.count("peer_lost") == 1, 5)
        assert it.service.twin.height_m == 0.0
        it.pilot.newest.clear()
        it.px4.start()
        await it.take_off(3.0)
        await it.land()
    assert it.summary["connections"] == 2


@pytest.mark.parametrize("release", ["1.17", "1.12"])
async def test_restarts_on_udp(release: str, tmp_path: Path) -> None:
    async with flight(tmp_path, "px4_iris", release, udp=True) as it:
        await it.take_off(3.0)
        it.px4.stop()
        await asyncio.sleep(2.0)
        assert it.recorder.count("peer_lost") == 1
        it.pilot.newest.clear()
        it.px4.start()
        await it.take_off(3.0)
        await it.land()


async def test_flight_termination_of_1_17(tmp_path: Path) -> None:
    async with flight(tmp_path, "px4_iris", "1.17") as it:
        await it.take_off(5.0)
        await it.pilot.command(common.MAV_CMD_DO_FLIGHTTERMINATION, 1)
        await it.pilot.until("suspicion", lambda: it.recorder.count("flight_termination_suspected") == 1, 10)
        await it.pilot.until("on the ground", lambda: it.service.twin.height_m < 0.3, 20)
        assert it.service.session.phase is Phase.PACED


async def test_freezes_for_3_s_and_goes_on(tmp_path: Path) -> None:
    async with flight(tmp_path, "px4_iris", "1.17", speed=1.0) as it:
        await it.pilot.until("ready to arm", it.pilot.ready, 60)
        assert it.px4.process is not None
        it.px4.process.send_signal(signal.SIGSTOP)
        await asyncio.sleep(3.0)
        it.px4.process.send_signal(signal.SIGCONT)
        await it.pilot.until("lockstep again", lambda: it.service.session.phase is Phase.LOCKSTEP, 20)
        await it.simulated(3.0)  # the estimator has seen 3 s in no time, and settles
        it.pilot.newest.clear()
        await it.take_off(3.0)
        await it.land()
    assert it.recorder.count("reply_timeout") == 1
    assert it.summary["connections"] == 1


async def test_rover_answers_only_while_armed(tmp_path: Path) -> None:
    async with flight(tmp_path, "px4_rover_differential", "1.17") as it:
        session, pilot = it.service.session, it.pilot
        await pilot.until("ready to arm", lambda: "HOME_POSITION" in pilot.newest, 60)
        assert session.stats.replies == 0
        assert session.paced_reason is PacedReason.LEARNING
        pilot.stick = common.MAVLink_manual_control_message(pilot.system, 0, 0, 500, 0, 0)
        await it.simulated(2.0)
        assert await pilot.command(common.MAV_CMD_COMPONENT_ARM_DISARM, 1, 21196) == 0
        await pilot.until("lockstep", lambda: session.phase is Phase.LOCKSTEP, 20)
        assert session.describe() == "lockstep: 2 answers per 5 sensors"
        assert await pilot.command(common.MAV_CMD_COMPONENT_ARM_DISARM, 0, 21196) == 0
        await pilot.until("silence", lambda: session.phase is Phase.PACED, 20)
    assert it.recorder.count("reply_timeout") == 0
    assert it.recorder.count("flight_termination_suspected") == 0


async def test_without_lockstep_it_is_paced(tmp_path: Path) -> None:
    async with flight(tmp_path, "px4_iris", "nolockstep") as it:
        await it.pilot.until("controls", lambda: it.service.session.stats.replies > 100, 60)
        assert it.recorder.count("no_lockstep") == 1
        before = it.service.session.stats.sensors
        await asyncio.sleep(2.0)
        assert it.service.session.stats.sensors - before == pytest.approx(500, rel=0.2)


@pytest.mark.parametrize("rate_hz", [500.0, 1000.0])
async def test_fast_imu_is_answered_less_often(rate_hz: float, tmp_path: Path) -> None:
    """500 and 1,000 Hz sensors: one for one, until the logger runs."""
    profile = load_profile("px4_iris")
    sensors = profile.vehicle.sensors
    imu = msgspec.structs.replace(sensors.imu, rate_hz=rate_hz)
    environment = msgspec.structs.replace(profile.vehicle.environment, sim_dt_us=1000)
    vehicle = msgspec.structs.replace(
        profile.vehicle, sensors=msgspec.structs.replace(sensors, imu=imu), environment=environment
    )
    profile = msgspec.structs.replace(profile, vehicle=vehicle)
    async with flight(tmp_path, "px4_iris", "1.17", profile=profile) as it:
        await it.take_off(5.0)
        await it.simulated(5.0)
        print(it.service.session.describe(), it.recorder.notices)
        assert it.service.session.phase is Phase.LOCKSTEP
        await it.land()
    assert it.summary["reply_timeouts"] < 10
