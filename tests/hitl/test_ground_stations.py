"""A board on a serial line, flown by MAVSDK through the forwarder: a client that knows nothing of this project."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

pytest.importorskip("mavsdk")
from hitl.lost_motor import check_lost_motor
from hitl.rig import Board
from hitl.sdk_pilot import fly, spare_instance

from lav2_hil.session.records import Kind

pytestmark = [pytest.mark.realtime, pytest.mark.timeout(240)]
MOTOR = 2


async def test_mavsdk_flies_the_board_and_breaks_a_motor(tmp_path: Path) -> None:
    instance = spare_instance()
    path = tmp_path / "run.mcap"
    arguments = ["--profile", "lav2", "--instance", str(instance), "--session", str(path)]
    async with Board(tmp_path, instance=instance) as board:
        arguments += ["--endpoint", f"{board.device},921600", "--ground", f"127.0.0.1:{14540 + instance}"]
        summary, texts = await asyncio.to_thread(fly, arguments, instance, MOTOR)
    ground = summary["ground"]
    assert (summary["times_armed"], ground["lost"], ground["not_taken"], ground["dropped"]) == (2, False, 0, 0)
    assert summary["max_height_m"] == pytest.approx(4.0, abs=0.7)
    assert texts[-1] == "Disarmed: the vehicle tips over"
    assert (summary["vehicle_fault_changes"], ground["answered"]) == (1, 3)
    assert ground["written"] > 5
    session = await asyncio.to_thread(check_lost_motor, path, MOTOR, "lav2")
    said = [record for record in session.records if record.kind is Kind.GROUND]
    assert len(said) == ground["written"]
