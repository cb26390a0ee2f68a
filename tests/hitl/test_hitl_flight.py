"""The built-in autopilot as a board at the end of a pty: it flies, is pulled out, restarts in flight."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest
from hitl.cli_run import Run
from hitl.rig import Board, Cable, speaker

from bridge.codec import Encoder
from lav2_hil.exitcodes import ExitCode
from lav2_hil.session.check import check_session
from lav2_hil.session.report import lines_of

pytestmark = pytest.mark.slow


def check_replay(session: Path) -> None:
    """A recording of a board's session replays bit for bit."""
    replayed = check_session(session)
    assert (replayed.spoilt, replayed.comparison.equal) == (None, True), "\n".join(lines_of(replayed))


@pytest.mark.realtime
async def test_it_flies_and_replays_bit_for_bit(tmp_path: Path) -> None:
    async with Board(tmp_path, mission="hover") as board, Run(board.device, tmp_path) as run:
        await board.until(lambda: any("mission" in report for report in board.reports), 60)
        assert board.reports[-1] == {"mission": "done"}
    summary = run.summary
    print(summary)
    assert summary["max_height_m"] == pytest.approx(2.0, abs=0.5)
    assert summary["times_armed"] == 1
    assert abs(summary["final_position_ned_m"][2]) < 0.3
    assert summary["sensors"] + summary["ticks_skipped"] == pytest.approx(summary["simulated_s"] * 250, abs=1)
    await asyncio.to_thread(check_replay, run.session)


@pytest.mark.realtime
async def test_report_26_pulled_out_in_flight_it_flies_again_under_another_name(tmp_path: Path) -> None:
    async with Board(tmp_path, mission="hover") as board, Run(board.device, tmp_path) as run:
        await board.until(lambda: any(report.get("progress", "").startswith("take-off") for report in board.reports))
        board.unplug()
        await run.until_said("the board is gone")
        board.plug()
        back = time.monotonic()
        await run.until_said("calling the board", times=2)
        # The board goes on sending; sensors flow once its controls are heard.
        await board.until(lambda: run.said("flight controller with system id 1") == 2)
        took = time.monotonic() - back
        print(f"back within {took:.2f} s")
        assert took < 2.0
    assert len(set(board.cable.names)) == 2
    assert run.summary["connections"] == 2
    assert run.summary["notices"]["peer_lost"] == 1
    await asyncio.to_thread(check_replay, run.session)


@pytest.mark.realtime
async def test_report_26_a_restart_in_flight_is_noticed_and_begins_anew(tmp_path: Path) -> None:
    async with Board(tmp_path, mission="hover") as board, Run(board.device, tmp_path) as run:
        await board.until(lambda: any(report.get("progress", "").startswith("take-off") for report in board.reports))
        board.reboot()
        await run.until_said("the board restarted")
        await board.until(lambda: {"boots": 2} in board.reports)
        await asyncio.sleep(3.0)
    assert run.summary["notices"]["px4_restarted"] == 1
    assert abs(run.summary["final_position_ned_m"][2]) < 0.15, "the twin stands where it began"
    await asyncio.to_thread(check_replay, run.session)


async def test_report_20_a_board_without_sys_hitl_is_told_so(tmp_path: Path) -> None:
    async with Board(tmp_path, hitl=False) as board, Run(board.device, tmp_path) as run:
        await run.end()
    assert run.code == ExitCode.REFUSED
    assert ["SYS_HITL was not 1" in line for line in run.lines if not line.startswith("INFO")] == [True]


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"$GPGGA,123519,4807.038,N,01131.000,E,1,08,0.9,545.4,M,46.9,M,,*47\r\n", "sends NMEA"),
        (bytes(range(7, 250, 3)), "no MAVLink"),
        (None, "runs ArduPilot"),
    ],
    ids=["nmea", "noise", "ardupilot"],
)
async def test_what_never_flies_ends_the_run_with_one_line(tmp_path: Path, data: bytes | None, words: str) -> None:
    from pymavlink.dialects.v20 import common

    if data is None:
        data = Encoder(1, 1).encode(common.MAVLink_heartbeat_message(2, 3, 81, 0, 3, 3))
    cable = Cable(tmp_path)
    end = speaker(cable, data)
    try:
        async with Run(str(cable.device), tmp_path) as run:
            await run.end()
    finally:
        end()
        cable.close()
    assert run.code == ExitCode.LINK_UNAVAILABLE
    assert [words in line for line in run.lines if line.startswith("ERROR")] == [True], run.lines
    assert not run.said("Traceback")


async def test_report_17_57600_baud_is_refused(tmp_path: Path) -> None:
    cable = Cable(tmp_path)
    try:
        async with Run(f"{cable.device},57600", tmp_path) as run:
            await run.end()
    finally:
        cable.close()
    assert run.code == ExitCode.LINK_UNAVAILABLE
    assert run.lines == [line for line in run.lines if "2880 B/s" in line and "921600" in line]
    assert len(run.lines) == 1
    assert not run.session.exists()


async def test_report_27_a_port_that_another_run_has_is_refused(tmp_path: Path) -> None:
    cable = Cable(tmp_path)
    (tmp_path / "second").mkdir()
    try:
        async with Run(str(cable.device), tmp_path) as first:
            await first.until_said("calling the board")
            async with Run(str(cable.device), tmp_path / "second") as run:
                await run.end()
    finally:
        cable.close()
    assert run.code == ExitCode.LINK_UNAVAILABLE
    assert run.said("busy") == 1
