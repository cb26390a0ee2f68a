"""A real PX4's HITL code path at the end of a pty: arm, take off, hover, land, over the serial transport."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from hitl.cli_run import Run
from hitl.rig import Cable
from px4.pilot import Pilot
from px4.px4 import spare_instance
from px4.px4_hitl import px4_board
from pymavlink.dialects.v20 import common

from lav2_hil.session.check import check_session
from lav2_hil.session.report import lines_of

pytestmark = [pytest.mark.px4, pytest.mark.slow, pytest.mark.timeout(300)]

NAN = float("nan")


async def test_px4_flies_in_hitl_on_a_pty(tmp_path: Path) -> None:
    instance = spare_instance()
    cable = Cable(tmp_path)
    run = Run(str(cable.device), tmp_path, "--instance", str(instance), profile="px4_iris")
    with px4_board(tmp_path / "px4", cable.far, instance) as log:
        async with run, Pilot(instance) as pilot:
            try:
                await pilot.until("ready to arm", pilot.ready, 90)
                await asyncio.sleep(2.0)
                home = pilot.newest["HOME_POSITION"].altitude / 1000
                assert await pilot.command(common.MAV_CMD_NAV_TAKEOFF, 0, 0, 0, NAN, NAN, NAN, home + 3.0) == 0
                assert await pilot.command(common.MAV_CMD_COMPONENT_ARM_DISARM, 1) == 0
                await pilot.until("3 m", lambda: pilot.position[2] < -2.5, 40)
                await asyncio.sleep(3.0)
                assert -3.6 < pilot.position[2] < -2.4
                assert await pilot.command(common.MAV_CMD_NAV_LAND, 0, 0, 0, NAN, NAN, NAN, 0) == 0
                await pilot.until("landed and disarmed", lambda: not pilot.armed, 60)
            except BaseException:
                print(log.read_text(errors="replace")[-4000:], run.lines)
                raise
    cable.close()
    summary = run.summary
    print(summary)
    assert summary["max_height_m"] == pytest.approx(3.0, abs=0.7)
    assert summary["times_armed"] == 1
    assert "px4_restarted" not in summary["notices"]
    replayed = await asyncio.to_thread(check_session, run.session)
    assert (replayed.spoilt, replayed.comparison.equal) == (None, True), "\n".join(lines_of(replayed))
