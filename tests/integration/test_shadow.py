"""The shadow process: what a user sees of it, and that nothing it does, dying included, reaches the flight."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
from running_processes import processes, shadows_of
from twin_rig import command, hover_speed, put, twin_of

from bridge.session_io import Notice
from firmware_profiles.loader import load_profile
from firmware_profiles.signals import HilControls
from lav2_hil.shadow import Shadow
from lav2_hil.shadow_records import Schedule
from twin.shadow import CHANNELS

PROFILE = load_profile("px4_iris")
TICKS_S = 250
CONTROLS = HilControls((0.6, 0.6, 0.6, 0.6, *[0.0] * 12), True, 0)


async def until(condition: Callable[[], Any], timeout_s: float = 30.0) -> Any:
    async with asyncio.timeout(timeout_s):
        while not (value := condition()):
            await asyncio.sleep(0.01)
    return value


class Flight:
    """A hovering twin with shadows, without a bridge."""

    def __init__(self, worlds: int = 4) -> None:
        self.twin = put(twin_of("px4_iris"), height=20.0, rotors=hover_speed("px4_iris"))
        self.notices: list[Notice] = []
        self.bands: list[dict[str, Any]] = []
        self.shadow = Shadow(self.twin, PROFILE, worlds, 0, self.notices.append)
        self.shadow.subscribers.append(self.bands.append)
        self._told = command(self.twin, hover_speed("px4_iris"))

    def fly(self, ticks: int) -> None:
        for _ in range(ticks):
            sample = self.twin.sample_of(self.twin.step(self._told), 4000 * self.twin.ticks)
            self.shadow.stepped(CONTROLS, sample)

    @property
    def process(self) -> int | None:
        found = shadows_of(os.getpid())
        return found[0] if found else None

    def names(self) -> list[str]:
        return [notice.name for notice in self.notices]


@asynccontextmanager
async def flight(worlds: int = 4) -> AsyncIterator[Flight]:
    flown = Flight(worlds)
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(flown.shadow.run())
        try:
            await until(lambda: flown.process)
            yield flown
        finally:
            flown.shadow.end()
    assert flown.process is None


async def test_bands_come_back_while_it_flies() -> None:
    async with flight() as run:
        run.fly(2 * TICKS_S)
        await until(lambda: len(run.bands) == 19)
        assert [bands["t_us"] for bands in run.bands[:2]] == [4000 * 26, 4000 * 51]
    summary = run.shadow.summary()
    assert (summary["worlds"], summary["bands"], summary["compared"]) == (4, 19, 19)
    assert (summary["skipped_ticks"], summary["lost"], run.notices) == (0, False, [])
    assert set(summary["inside_90"]) == set(CHANNELS)


async def test_the_flight_goes_first() -> None:
    async with flight() as run:
        nice = os.getpriority(os.PRIO_PROCESS, 0)
        await until(lambda: os.getpriority(os.PRIO_PROCESS, run.process) == min(nice + 10, 19))


async def test_ticks_that_are_in_the_ring_at_the_end_are_still_compared() -> None:
    async with flight() as run:
        run.fly(30)
        await until(lambda: run.bands)
        run.fly(TICKS_S - 30)
    assert run.shadow.summary()["compared"] == 9


async def test_a_killed_process_costs_one_warning_and_no_tick() -> None:
    async with flight() as run:
        run.fly(TICKS_S)
        await until(lambda: run.bands)
        os.kill(run.process, signal.SIGKILL)
        await until(lambda: run.notices)
        run.fly(10 * TICKS_S)  # round the ring and more
        await asyncio.sleep(0.3)
    assert run.twin.ticks == 11 * TICKS_S
    assert run.names() == ["shadow_lost"]
    assert run.notices[0].text == "the shadow process ended (-9): the flight goes on without bands"
    summary = run.shadow.summary()
    assert summary["lost"]
    assert summary["compared"] >= 1  # what had come remains


async def test_a_process_that_stands_still_is_behind_and_goes_on_later() -> None:
    async with flight() as run:
        run.fly(TICKS_S)
        await until(lambda: len(run.bands) == 9)
        os.kill(run.process, signal.SIGSTOP)
        started = time.monotonic()
        run.fly(12 * TICKS_S)  # the ring holds 8 s
        assert time.monotonic() - started < 10.0
        os.kill(run.process, signal.SIGCONT)
        await until(lambda: run.bands[-1]["t_us"] > 4000 * 13 * TICKS_S - 110_000)
    assert run.names() == ["shadow_behind"]
    assert run.shadow.summary()["skipped_ticks"] == 3000 - 250  # the newest anchor is at tick 3001
    assert run.shadow.summary()["times_behind"] == 1


async def test_a_process_that_never_ends_is_killed() -> None:
    async with flight() as run:
        os.kill(run.process, signal.SIGSTOP)
        started = time.monotonic()
    assert time.monotonic() - started < 4.0
    assert run.names() == ["shadow_lost"]


async def test_a_run_that_is_cancelled_leaves_no_process() -> None:
    flown = Flight()
    task = asyncio.create_task(flown.shadow.run())
    await until(lambda: flown.process)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert flown.process is None


PARENT = textwrap.dedent("""
    import asyncio, sys
    sys.path.insert(0, {tests!r})
    import importlib.util
    spec = importlib.util.spec_from_file_location("test_shadow", {this!r})
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)

    async def main():
        async with module.flight() as run:
            while True:
                run.fly(25)
                await asyncio.sleep(0.02)
                if run.bands:
                    print("flying", flush=True)

    asyncio.run(main())
""")


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_killed_run_leaves_no_process_and_no_memory(number: signal.Signals) -> None:
    shared = set(Path("/dev/shm").iterdir())
    script = PARENT.format(tests=str(Path(__file__).parents[1]), this=__file__)
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        assert parent.stdout.readline() == "flying\n"
        (shadow,) = shadows_of(parent.pid)
        parent.send_signal(number)
        parent.wait(10)
    deadline = time.monotonic() + 5.0
    while shadow in processes("lav2_hil.shadow_process"):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    assert set(Path("/dev/shm").iterdir()) <= shared


def test_handing_a_tick_over_costs_microseconds() -> None:
    flown = Flight()
    sample = flown.twin.sample_of(flown.twin.step(command(flown.twin, 400.0)), 4000)
    best = float("inf")
    for _ in range(20):
        started = time.perf_counter()
        for _ in range(250):
            flown.twin.ticks += 1
            flown.shadow.stepped(CONTROLS, sample)
        best = min(best, (time.perf_counter() - started) / 250)
    assert best < 30e-6  # 2 to 3 us on a quiet machine


def test_anchors_and_bands_keep_their_times_at_every_rate() -> None:
    assert Schedule.of(PROFILE) == Schedule(250, 25, 2000)
    sensors = PROFILE.vehicle.sensors
    slow = msgspec.structs.replace(sensors.imu, rate_hz=100.0)
    vehicle = msgspec.structs.replace(PROFILE.vehicle, sensors=msgspec.structs.replace(sensors, imu=slow))
    assert Schedule.of(msgspec.structs.replace(PROFILE, vehicle=vehicle)) == Schedule(100, 10, 800)
