"""The loop's side of the shadows: hands every tick over, and takes what comes back. It never waits for them."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import sys
from collections.abc import Callable
from typing import Any

import msgspec

from bridge.session_io import Notice
from firmware_profiles.profile import VehicleProfile
from firmware_profiles.signals import HilControls, SensorSample
from lav2_hil.shadow_process import LAST_S
from lav2_hil.shadow_records import (
    RESULT_ROWS,
    RESULT_WIDTH,
    Result,
    Schedule,
    ShadowTask,
    Totals,
    channels_of,
    checkpoint,
    live_state,
    pack_tick,
    published,
    tick_width,
    unpack_result,
)
from lav2_hil.shared_ring import SharedRing
from twin.shadow import CHANNELS
from twin.twin import Twin

COLLECT_S = 0.1
NICE = 10
"""The flight goes first: it must not become slower where there are fewer processors than processes."""
_GRACE_S = LAST_S + 1.0


class Shadow:
    """A listener that lets N shadows follow the twin, in a process of its own.

    Args:
        twin: the live one.
        profile: the model: the nominal vehicle, its uncertainty, its actuator map.
        worlds, seed: how many shadows, and of what draws.
        report: takes notices.

    Attributes:
        subscribers: take the bands, as `shadow_records.published` gives them.
        lost: the process ended before the run.
    """

    def __init__(
        self,
        twin: Twin,
        profile: VehicleProfile,
        worlds: int,
        seed: int,
        report: Callable[[Notice], None],
    ) -> None:
        self.worlds = worlds
        self.subscribers: list[Callable[[dict[str, Any]], None]] = []
        self.lost = False
        self._twin = twin
        self._report = report
        self._totals = Totals.none()
        self._bands_seen = 0
        self._read = 0
        self._ended = asyncio.Event()
        self._schedule = schedule = Schedule.of(profile)
        width = tick_width(twin.checkpoint_size)
        self._task = ShadowTask(
            profile=profile,
            worlds=worlds,
            seed=seed,
            ticks_fd=SharedRing.allocate("lav2-hil ticks", schedule.ring_rows, width),
            results_fd=SharedRing.allocate("lav2-hil shadows", RESULT_ROWS, RESULT_WIDTH),
            checkpoint_size=twin.checkpoint_size,
        )
        self._ticks = SharedRing(self._task.ticks_fd, schedule.ring_rows, width)
        self._results = SharedRing(self._task.results_fd, RESULT_ROWS, RESULT_WIDTH)

    # Listener

    def stepped(self, controls: HilControls | None, sample: SensorSample) -> None:
        """Hand the tick over: a few microseconds."""
        tick = self._twin.ticks
        row = self._ticks.next_row()
        live, channels = channels_of(controls)
        pack_tick(row.data, 0, tick, sample.time_us, live, *channels)
        if self._schedule.compares(tick):
            live_state(row)[:] = self._twin.state()
        if self._schedule.anchors(tick):
            self._twin.save(checkpoint(row))
        self._ticks.publish()

    def noticed(self, notice: Notice) -> None:
        """Nothing that the shadows need to know."""

    # The process

    async def run(self) -> None:
        """Start the process and take what it finds, until `end`, or until it is gone."""
        fds = (self._task.ticks_fd, self._task.results_fd)
        try:
            process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-m",
                "lav2_hil.shadow_process",
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.DEVNULL,
                pass_fds=fds,
                start_new_session=True,  # Ctrl-C is for the run, which then ends this
            )
        finally:
            for fd in fds:
                os.close(fd)
        try:
            with contextlib.suppress(ProcessLookupError):  # from here: what it imports is a second of work already
                os.setpriority(os.PRIO_PROCESS, process.pid, os.getpriority(os.PRIO_PROCESS, 0) + NICE)
            assert process.stdin is not None
            process.stdin.write(msgspec.json.encode(self._task) + b"\n")
            await self._follow(process)
            process.stdin.close()
            if not self.lost:
                await asyncio.wait_for(process.wait(), _GRACE_S)
            self._collect()
        except TimeoutError:
            self._lose("did not end")
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()

    def end(self) -> None:
        """The run has ended."""
        self._ended.set()

    async def _follow(self, process: asyncio.subprocess.Process) -> None:
        gone = asyncio.create_task(process.wait(), name="shadow process")
        ended = asyncio.create_task(self._ended.wait(), name="shadow end")
        try:
            while not (gone.done() or ended.done()):
                await asyncio.wait({gone, ended}, timeout=COLLECT_S, return_when=asyncio.FIRST_COMPLETED)
                self._collect()
            if gone.done():
                self._lose(f"ended ({gone.result()})")
        finally:
            gone.cancel()
            ended.cancel()

    def _lose(self, how: str) -> None:
        self.lost = True
        self._report(
            Notice(logging.WARNING, "shadow_lost", f"the shadow process {how}: the flight goes on without bands")
        )

    def _collect(self) -> None:
        """Take the results that are there."""
        while self._read < self._results.count:
            row = self._results.read(self._read)
            if row is None:  # overwritten: go on with the newest
                self._read = self._results.count - 1
                continue
            self._read += 1
            self._take(unpack_result(row))

    def _take(self, result: Result) -> None:
        if result.totals.times_behind > self._totals.times_behind:
            self._report(
                Notice(logging.WARNING, "shadow_behind", "the shadows cannot keep up: they skip parts of the flight")
            )
        self._totals = result.totals
        if result.bands is not None:
            self._bands_seen += 1
            if self.subscribers:
                data = published(result, self.worlds)
                for subscriber in self.subscribers:
                    subscriber(data)

    def summary(self) -> dict[str, Any]:
        """What the shadows came to.

        `inside_90` are shares of the moments at which the armed vehicle was compared: that each channel was within the
        5 to 95 % band, and that all of them were.
        """
        totals = self._totals
        moments = totals.compared
        shares = (totals.inside / moments).round(4).tolist() if moments else [None] * len(CHANNELS)
        return {
            "worlds": self.worlds,
            "bands": self._bands_seen,
            "compared": moments,
            "inside_90": dict(zip(CHANNELS, shares, strict=True)),
            "all_inside_90": round(totals.all_inside / moments, 4) if moments else None,
            "skipped_ticks": totals.skipped_ticks,
            "times_behind": totals.times_behind,
            "broke_down": totals.broke_down,
            "lost": self.lost,
        }
