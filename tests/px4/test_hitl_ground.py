"""PX4's own HITL code at the other end of a line, flown by MAVSDK through the forwarder."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

pytest.importorskip("mavsdk")
from hitl.lost_motor import check_lost_motor
from hitl.rig import Cable
from hitl.sdk_pilot import fly, spare_instance
from px4.px4_hitl import px4_board

pytestmark = [pytest.mark.px4, pytest.mark.slow, pytest.mark.timeout(300)]
MOTOR = 1


async def test_mavsdk_flies_px4_in_hitl_and_breaks_a_motor(tmp_path: Path) -> None:
    instance, path, cable = spare_instance(), tmp_path / "run.mcap", Cable(tmp_path)
    arguments = ["--profile", "px4_iris", "--instance", str(instance), "--session", str(path)]
    arguments += ["--endpoint", f"{cable.device},921600", "--ground", f"127.0.0.1:{14540 + instance}"]
    with px4_board(tmp_path / "px4", cable.far, instance, serves_ground=False) as log:
        try:
            summary, texts = await asyncio.to_thread(fly, arguments, instance, MOTOR)
        except BaseException:
            print(log.read_text(errors="replace")[-4000:])
            raise
    cable.close()
    ground = summary["ground"]
    assert (summary["times_armed"], ground["lost"], ground["not_taken"], ground["dropped"]) == (2, False, 0, 0)
    assert summary["max_height_m"] == pytest.approx(4.0, abs=0.8)
    assert (summary["vehicle_fault_changes"], ground["answered"]) == (1, 3)
    print(texts)
    await asyncio.to_thread(check_lost_motor, path, MOTOR, "px4_iris")
