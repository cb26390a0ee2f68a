"""Recorded sessions to replay: the demo flight, its beginning, and runs of a real loop on a link that is not there."""

from __future__ import annotations

import asyncio
import dataclasses
import functools
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from session_driver import ScriptedFc

from bridge.codec import Decoder
from bridge.endpoint import parse_endpoint
from bridge.session_io import Event, Notice
from bridge.transport.base import LinkHandler, Transport
from firmware_profiles.loader import load_profile
from firmware_profiles.signals import HilControls, SensorSample
from lav2_hil.loop import HilLoop
from lav2_hil.session.header import make_header, session_params
from lav2_hil.session.reader import Session, read_session
from lav2_hil.session.records import Kind, Record, fault_data, notice_data, pack_truth, record_of
from lav2_hil.session.rewrite import write_session
from lav2_hil.session.truth import TRUTH_EVERY, TruthThinner, encode_truth
from lav2_hil.settings import Settings
from twin.faults import FaultChange
from twin.twin import Twin

DEMO = Path(__file__).parent / "data" / "sessions" / "demo.mcap"


@functools.cache
def demo() -> Session:
    return read_session(DEMO)


def beginning(seconds: float = 4.0) -> Session:
    """The demo flight up to a moment after the rotors have begun to turn, as a whole session."""
    session = demo()
    ticks, end = 0, 0
    for place, record in enumerate(session.records):
        ticks += record.kind is Kind.SAMPLED
        if ticks >= seconds * 250 and record.kind is Kind.TRUTH:
            end = place + 1
            break
    records = session.records[:end]
    records.append(Record(Kind.END, records[-1].time_us, b'{"ended_by":"test"}'))
    return dataclasses.replace(session, records=records, end={"ended_by": "test"})


def written_beginning(folder: Path, seconds: float) -> Path:
    """A file with the beginning of the demo flight."""
    path = folder / "flight.mcap"
    path.touch()
    session = beginning(seconds)
    write_session(path, session.header, session.truth_every, session.records)
    return path


class MemoryTap:
    """Writes a session down as recorder and reader together would give it back."""

    def __init__(self, twin: Twin) -> None:
        self.records: list[Record] = []
        self._twin = twin
        self._truth = TruthThinner()
        self._now_us = 0

    def event(self, event: Event, now_us: int) -> None:
        self._now_us = now_us
        self.records.append(record_of(event, now_us))

    def fault(self, change: FaultChange) -> None:
        self.records.append(Record(Kind.FAULT, self._now_us, fault_data(change)))

    def sent(self, frame: bytes) -> None:
        self.records.append(Record(Kind.SENT, self._now_us, frame))

    def noticed(self, notice: Notice) -> None:
        self.records.append(Record(Kind.NOTICE, self._now_us, notice_data(notice)))

    def stepped(self, sample: SensorSample) -> None:
        self._add(self._truth.add(pack_truth(sample.time_us, self._twin.state().tobytes())))

    def flush(self, *, may_wait: bool) -> None:
        pass

    def end(self) -> None:
        self._add(self._truth.finish())
        self.records.append(Record(Kind.END, self._now_us, b"{}"))

    def _add(self, sample: Any) -> None:
        if sample is not None:
            self.records.append(Record(Kind.TRUTH, self._now_us, encode_truth(sample)))


class FcLink(Transport):
    """A link whose other end is a scripted flight controller, and which does what a test tells it.

    Args:
        fc: the other end.
        datagrams: of UDP, so that it can be given up.
    """

    def __init__(self, fc: ScriptedFc, *, datagrams: bool) -> None:
        self.fc = fc
        self.datagrams = datagrams
        self.handler: Any = None
        self._decoder = Decoder()
        self._up = False

    async def open(self, handler: LinkHandler) -> None:
        self.handler = handler

    def connect(self) -> None:
        self._up = True
        self.handler.link_up("test")
        self._say(self.fc.greeting())

    def lose(self) -> None:
        self._up = False
        self.handler.link_down("lost on purpose")

    def write(self, data: bytes) -> bool:
        for message in self._decoder.feed(data):
            self._say(self.fc.hear(message))
        return self._up

    def unpin(self) -> None:
        if self._up:
            self.lose()

    async def close(self) -> None:
        pass

    def _say(self, frames: list[bytes]) -> None:
        for frame in frames:
            asyncio.get_running_loop().call_soon(self._deliver, frame)

    def _deliver(self, frame: bytes) -> None:
        if self._up:
            self.handler.link_data(frame)


class Live:
    """A loop that runs, for a test to disturb."""

    def __init__(self, loop: HilLoop, link: FcLink) -> None:
        self.loop = loop
        self.link = link

    async def until_halted(self) -> None:
        """Wait for the end that `stop_at` brings."""
        while not self.loop._halted:
            await asyncio.sleep(0)

    async def until(self, ticks: int) -> None:
        """Wait until so many more sensors have left; with a flight controller that answers this takes no time."""
        wanted = self.loop.session.stats.sensors + ticks
        deadline = time.monotonic() + 20
        while self.loop.session.stats.sensors < wanted:
            assert time.monotonic() < deadline, "the loop stands still"
            await asyncio.sleep(0)


async def record_live(
    script: Callable[[Live], Any], *, datagrams: bool = False, stop_at: int | None = None, pattern: str = "1"
) -> Session:
    """Run a real loop while a script disturbs it, and give the session that was recorded.

    Args:
        script: a coroutine function.
        datagrams: the link is one.
        stop_at: halt after so many ticks, from inside the loop, as a run's duration does.
        pattern: which sensors the flight controller answers.
    """
    settings = Settings(
        profile=load_profile("lav2"),
        endpoint=parse_endpoint("memory:test"),
        speed=0.0,
        seed=3,
        reply_timeout_s=0.05,
        profile_source="lav2",
    )
    params = session_params(settings, datagrams=datagrams, speaks_first=False)
    started_us = time.monotonic_ns() // 1000
    header = make_header(
        settings, params, name="t", command="run", profile_source="lav2", endpoint="test", started_us=started_us
    )
    twin = header.make_twin()
    tap = MemoryTap(twin)
    link = FcLink(ScriptedFc(pattern=pattern), datagrams=datagrams)
    stopper = Stopper(stop_at)
    loop = HilLoop(header.make_session(), link, twin, header.make_actuators(), (stopper,), tap)
    stopper.loop = loop
    stop = asyncio.Event()
    running = asyncio.create_task(loop.run(stop))
    await asyncio.sleep(0)
    await script(Live(loop, link))
    loop.halt()
    stop.set()
    await running
    tap.end()
    return Session(header, TRUTH_EVERY, tap.records, end={})


class Stopper:
    """Halts its loop after some ticks."""

    def __init__(self, ticks: int | None) -> None:
        self.loop: HilLoop | None = None
        self._left = -1 if ticks is None else ticks

    def stepped(self, controls: HilControls | None, sample: SensorSample) -> None:
        self._left -= 1
        if self._left == 0 and self.loop is not None:
            self.loop.halt()

    def noticed(self, notice: Notice) -> None:
        pass
