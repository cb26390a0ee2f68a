"""Motion capture on a serial line: a board that does not arm without its poses flies by them."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from hitl.cli_run import Run
from hitl.rig import Board

from lav2_hil.session.check import check_session
from lav2_hil.session.report import lines_of

pytestmark = [pytest.mark.slow, pytest.mark.realtime]


async def test_a_board_flies_by_motion_capture(tmp_path: Path) -> None:
    profile = tmp_path / "seen.toml"
    profile.write_text('extends = "lav2"\nname = "seen"\n\n[vehicle.sensors.motion_capture]\n')
    async with (
        Board(tmp_path, profile=str(profile), mission="hover") as board,
        Run(board.device, tmp_path, profile=str(profile)) as run,
    ):
        await board.until(lambda: any("mission" in report for report in board.reports), 60)
        assert board.reports[-1] == {"mission": "done"}
    assert run.summary["times_armed"] == 1
    assert run.summary["max_height_m"] == pytest.approx(1.9, abs=0.3)
    replayed = await asyncio.to_thread(check_session, run.session, recorded_profile=True)
    assert (replayed.spoilt, replayed.comparison.equal) == (None, True), "\n".join(lines_of(replayed))
