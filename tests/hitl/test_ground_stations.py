"""A board on a serial line, flown by MAVSDK through the forwarder: a client that knows nothing of this project."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

pytest.importorskip("mavsdk")
from hitl.rig import Board
from hitl.sdk_pilot import fly, spare_instance

from lav2_hil.session.check import check_session
from lav2_hil.session.reader import read_session
from lav2_hil.session.records import Kind

pytestmark = [pytest.mark.long, pytest.mark.timeout(240)]  # a flight in real time


async def test_mavsdk_flies_the_board(tmp_path: Path) -> None:
    instance = spare_instance()
    path = tmp_path / "run.mcap"
    arguments = ["--profile", "lav2", "--instance", str(instance), "--session", str(path)]
    async with Board(tmp_path, instance=instance) as board:
        arguments += ["--endpoint", f"{board.device},921600", "--ground", f"127.0.0.1:{14540 + instance}"]
        summary = await asyncio.to_thread(fly, arguments, instance)
    ground = summary["ground"]
    assert (summary["times_armed"], ground["lost"], ground["not_taken"], ground["dropped"]) == (1, False, 0, 0)
    assert summary["max_height_m"] == pytest.approx(4.0, abs=0.7)
    assert ground["written"] > 5
    result = check_session(path)
    assert result.spoilt is None
    assert result.comparison.identical
    said = [record for record in read_session(path).records if record.kind is Kind.GROUND]
    assert len(said) == ground["written"]
