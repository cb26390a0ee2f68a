"""A PX4's own HITL path, from a board that knows nothing of HITL and back: prepare, fly, restore."""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
from pathlib import Path

import pytest
from hitl.px4_board import Px4Board
from hitl.rig import Cable
from px4.harness import NAN
from px4.pilot import Pilot
from px4.px4 import build_of, spare_instance
from pymavlink.dialects.v20 import common

from bridge.board import Report, prepare, restore
from bridge.board_link import BoardLink
from bridge.board_plan import without_counters
from bridge.endpoint import parse_endpoint
from bridge.params_client import ParamsClient
from bridge.transport.factory import create_transport
from firmware_profiles.hitl import hitl_parameters
from firmware_profiles.loader import load_profile
from firmware_profiles.px4_params import Value, differences, read_params

PROFILE = "px4_iris"

pytestmark = [pytest.mark.px4, pytest.mark.slow, pytest.mark.timeout(300)]


class Hand:
    """Pulls the plug when somebody has to."""

    def __init__(self, px4: Px4Board) -> None:
        self.px4 = px4
        self.texts: list[str] = []

    def say(self, text: str) -> None:
        print(text)
        self.texts.append(text)
        if "unplug it" in text:
            self.px4.restart()

    def progress(self, done: int, total: int) -> None:
        assert done <= total


async def fly(instance: int, device: str) -> list[float]:
    """Arm, take off, hover, land; heights on the way."""
    service = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "lav2_hil", "run", "--profile", PROFILE, "--endpoint", f"{device},921600"),
        *("--no-session", "--no-ground", "--json"),
        stdout=asyncio.subprocess.PIPE,
    )
    heights: list[float] = []
    try:
        async with Pilot(instance) as pilot:
            await pilot.until("ready to arm", pilot.ready, 90)
            altitude = pilot.newest["HOME_POSITION"].altitude / 1000 + 5.0
            takeoff = common.MAV_CMD_NAV_TAKEOFF
            assert await pilot.command(takeoff, 0, 0, 0, NAN, NAN, NAN, altitude) == 0
            assert await pilot.command(common.MAV_CMD_COMPONENT_ARM_DISARM, 1) == 0
            await pilot.until("4 m", lambda: -pilot.position[2] > 4.0, 60)
            for _ in range(20):
                heights.append(-pilot.position[2])
                await asyncio.sleep(0.1)
            assert await pilot.command(common.MAV_CMD_NAV_LAND, 0, 0, 0, NAN, NAN, NAN, 0) == 0
            await pilot.until("landed and disarmed", lambda: not pilot.armed, 90)
    finally:
        with contextlib.suppress(ProcessLookupError):
            service.terminate()
        output, _ = await service.communicate()
        print(json.loads(output))
    return heights


async def test_prepare_fly_restore(tmp_path: Path) -> None:
    build = build_of("nolockstep")
    if build is None:
        pytest.skip("no PX4 without lockstep is named")
    cable, instance, backup = Cable(tmp_path), spare_instance(), tmp_path / "board.params"
    px4 = Px4Board(build.path, tmp_path / "px4", cable.far, instance)
    hand, profile = Hand(px4), load_profile(PROFILE)
    px4.start()

    def link() -> BoardLink:
        return BoardLink(create_transport(parse_endpoint(str(cable.device))), 20)

    def check(values: dict[str, Value], simulated: str | None) -> None:
        assert simulated == "PWM_MAIN"

    try:
        async with link() as opened:
            done: Report = await prepare(opened, profile, backup, check, hand)
        assert (done.phase, done.restarted) == ("prepared", True)
        heights = await fly(instance, str(cable.device))
        assert all(3.0 < height < 7.0 for height in heights), heights
        async with link() as opened:
            back = await restore(opened, backup, hand)
            assert (back.phase, back.kept) == ("restored", {})
            client = ParamsClient(opened, await opened.find())
            board = await client.download()
            saved = read_params(backup).values
            board |= await client.read(name for name in saved if name not in board)
    finally:
        px4.stop()
        cable.close()
        print(px4.log[-3000:])
    found = {name: pair for name, pair in differences(saved, board).items() if None not in pair}
    assert without_counters(found) == []
    assert set(hitl_parameters(profile, "PWM_MAIN")) <= saved.keys()
    assert len(saved) > 700
    assert saved["SYS_HITL"] == 0
    assert set(done.set) >= {"SYS_HITL", "SYS_AUTOSTART", "PWM_MAIN_FUNC1"}
    assert Path(done.backup) == backup
