"""A recorded flight of a real PX4, with all that a link can go through in it, and its replay."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path

import pytest
from px4.harness import flight

from bridge.session_io import Pause, Resume, SetSpeed
from bridge.session_state import Phase

pytestmark = [pytest.mark.px4, pytest.mark.timeout(300)]


@pytest.mark.parametrize("udp", [False, True], ids=["tcp", "udp"])
async def test_a_pause_a_silence_a_lost_link_and_a_restart_replay(udp: bool, tmp_path: Path) -> None:
    async with flight(tmp_path, "px4_iris", "1.17", udp=udp) as it:
        service, pilot = it.service, it.pilot
        await it.take_off(3.0)
        service.loop.feed(Pause())
        await asyncio.sleep(1.0)
        service.loop.feed(Resume())
        service.loop.feed(SetSpeed(2.0))
        await it.simulated(3.0)
        assert it.px4.process is not None
        it.px4.process.send_signal(signal.SIGSTOP)
        await asyncio.sleep(1.5)
        it.px4.process.send_signal(signal.SIGCONT)
        await pilot.until("lockstep again", lambda: service.session.phase is Phase.LOCKSTEP, 20)
        service.loop.feed(SetSpeed(0.0))
        it.px4.stop()
        await pilot.until("loss noticed", lambda: it.recorder.count("peer_lost") == 1, 10)
        pilot.newest.clear()
        it.px4.start()
        await it.take_off(3.0)
        await it.land()
    print(it.replayed)
    assert it.replayed is not None
    assert it.replayed.identical
    assert it.replayed.frames > it.summary["sensors"]
    assert it.recorder.count("reply_timeout") >= 1
    assert it.summary["connections"] == (1 if udp else 2)
    assert it.summary["session"]["complete"]
