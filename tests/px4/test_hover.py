"""A real PX4 takes off, hovers a minute, lands and disarms in the twin."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from px4.harness import Flight, flight

CASES = [
    ("px4_iris", "1.17", "tcp"),
    ("px4_iris", "1.17", "udp"),
    ("px4_x500", "1.17", "tcp"),
    ("px4_x500", "1.17", "udp"),
    ("px4_iris", "1.12", "tcp"),
    ("px4_iris", "1.12", "udp"),
]
HOVER_M = 10.0
HOVER_S = 60.0
COMPLAINTS = re.compile(r"stale|time ?out|bias", re.IGNORECASE)


@pytest.mark.px4
@pytest.mark.timeout(400)
@pytest.mark.parametrize(("model", "release", "link"), CASES)
async def test_takes_off_hovers_and_lands(model: str, release: str, link: str, tmp_path: Path) -> None:
    async with flight(tmp_path, model, release, udp=link == "udp") as it:
        await it.take_off(HOVER_M)
        await it.simulated(8.0)
        await hover(it)
        await it.land()
        assert it.service.twin.height_m < 0.1
    assert it.recorder.count("flight_termination_suspected") == 0
    assert [line for line in (*it.pilot.texts, *it.px4.log.splitlines()) if COMPLAINTS.search(line)] == []


async def hover(it: Flight) -> None:
    """Stand still for a minute: by PX4's own estimate, and in truth."""
    pilot, twin = it.pilot, it.service.twin
    start, local, truth = pilot.position, [], []

    def note(message: Any) -> None:
        if message.get_type() == "LOCAL_POSITION_NED":
            local.append(pilot.position)
            truth.append(twin.truth().pos_ned)

    pilot.on_message = note
    await it.simulated(HOVER_S)
    pilot.on_message = None
    assert len(local) > 100
    drift = [max(abs(position[axis] - start[axis]) for position in local) for axis in range(3)]
    height = max(abs(-position[2] - HOVER_M) for position in local)
    apart = [max(abs(t[axis] - p[axis]) for t, p in zip(truth, local, strict=True)) for axis in range(3)]
    print(f"drift {drift}, height off by {height}, truth off by {apart}")
    assert max(drift) < 0.5
    assert height < 0.8
    assert max(apart) < 1.5
