"""The lockstep session on bad links: whatever goes wrong, its rules hold, and afterwards it finds lockstep again."""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path
from typing import Any, cast

import pytest
from contract.transport_rigs import RIGS, Rig
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from session_driver import FIRST_US, PERIOD_US, Driver, ScriptedFc, at_rest, make_driver

from bridge.codec import Decoder
from bridge.hil import HilSession
from bridge.session_io import Event, Output, Pause, Resume, Send, SetSpeed, StepTwin
from bridge.session_state import Phase
from bridge.transport.faults import FaultPlan
from bridge.transport.faulty import FaultyTransport
from firmware_profiles.signals import SensorSample
from lav2_hil.loop import HilLoop

pytestmark = pytest.mark.slow

RATES = st.sampled_from([0.0, 0.0, 0.02, 0.2])
PLANS = st.builds(
    FaultPlan,
    loss=RATES,
    duplicate=RATES,
    reorder=RATES,
    corrupt=RATES,
    latency_s=st.sampled_from([0.0, 0.0005, 0.02, 0.3]),
    jitter_s=st.sampled_from([0.0, 0.001, 0.05]),
)
HAPPENINGS = st.lists(
    st.tuples(
        st.floats(0.0, 1.5),
        st.sampled_from(["silent", "speaks", "restart", "refuse", "arm", "disarm", "pause", "hang", "fast", "slow"]),
    ),
    max_size=6,
)
KINDS = {
    "stream": {"reply_timeout_us": 500_000},
    "udpin": {"datagrams": True, "reply_timeout_us": 50_000},
    "udpout": {"datagrams": True, "speaks_first": True, "reply_timeout_us": 50_000},
}
PEERS: dict[str, dict[str, Any]] = {
    "one for one": {},
    "one in four": {"pattern": "0001"},
    "one in four while armed": {"armed_pattern": "0001"},
    "rover": {"quiet_disarmed": True, "armed_pattern": "01001"},
}


class Trouble:
    """Makes happen what a schedule says, to a driver."""

    def __init__(self, driver: Driver, make_fc: Any) -> None:
        self.driver = driver
        self.make_fc = make_fc

    @property
    def fc(self) -> ScriptedFc:
        return cast(ScriptedFc, self.driver.peer)

    def silent(self) -> None:
        self.fc.silent = True

    def speaks(self) -> None:
        self.fc.silent = False

    def arm(self) -> None:
        self.fc.armed = True

    def disarm(self) -> None:
        self.fc.armed = False

    def restart(self) -> None:
        if not self.driver.session._datagrams:
            self.driver.disconnect("it closed the connection")
            self.driver.peer = self.make_fc()
            self.driver.connect()
        elif self.driver.session._speaks_first:
            self.driver.exchange(self.make_fc())

    def refuse(self) -> None:
        if self.driver.session._speaks_first:
            self.driver.exchange(self.make_fc())
            self.driver.refusing = True
            self.driver.after(1.3, self.listens)

    def listens(self) -> None:
        self.driver.refusing = False

    def pause(self) -> None:
        self.driver.feed(Pause())
        self.driver.after(0.2, lambda: self.driver.feed(Resume()))

    def hang(self) -> None:
        self.driver.now += 150_000  # the process does not run

    def fast(self) -> None:
        self.driver.feed(SetSpeed(3.0))

    def slow(self) -> None:
        self.driver.feed(SetSpeed(0.5))


@pytest.mark.parametrize("kind", KINDS)
@settings(
    deadline=None, derandomize=True, max_examples=20, suppress_health_check=[HealthCheck.too_slow], print_blob=False
)
@given(plan=PLANS, happenings=HAPPENINGS, peer=st.sampled_from(sorted(PEERS)), seed=st.integers(0, 1000))
def test_faults_then_recovery(
    kind: str, plan: FaultPlan, happenings: list[tuple[float, str]], peer: str, seed: int
) -> None:
    """The driver checks at each step: the counters, stamps that only go forward, no sensor before its turn."""
    options = KINDS[kind]

    def make_fc() -> ScriptedFc:
        return ScriptedFc(deaf_first="speaks_first" in options, **PEERS[peer])

    driver = make_driver(make_fc(), plan=plan, seed=seed, timer_late_us=300, **options)
    trouble = Trouble(driver, make_fc)
    driver.connect()
    for seconds, what in sorted(happenings):
        driver.after(seconds, getattr(trouble, what))
    driver.run(1.8)

    driver.faults(FaultPlan())
    trouble.speaks()
    trouble.arm()
    driver.run(0.4)  # what was under way arrives
    if driver.session.phase is Phase.WAITING:
        driver.connect()  # a silent peer was forgotten; it speaks again
    elif driver.session.phase is Phase.CALLING:
        driver.exchange(make_fc())  # the handshake was lost: PX4 says it once in its life
        trouble.listens()
        trouble.arm()
    driver.feed(SetSpeed(1.0))
    for _ in range(9):  # the last loss may have its time-out still to come
        timeouts = driver.session.stats.timeouts
        driver.run(0.6)
        if driver.in_lockstep() and driver.session.stats.timeouts == timeouts:
            break
    assert driver.in_lockstep(), driver.session.describe()
    stats = driver.session.stats
    timeouts, replies, start = stats.timeouts, stats.replies, driver.now
    driver.run(0.8)
    assert stats.timeouts <= timeouts + 1
    assert stats.replies > replies
    assert len(driver.since(start)) >= 0.8 * 250 - 3 - 13 * (stats.timeouts - timeouts) * (
        10 if kind == "stream" else 1
    )
    driver.check_replay(HilSession(period_us=PERIOD_US, **cast(Any, options)))


# The same over real transports


class Recorded(HilSession):
    """A session that keeps what it is told and what it says, and checks its counters."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.log: list[tuple[Event, int, list[Output]]] = []
        self.stamps: list[int] = []

    def handle(self, event: Event, now_us: int) -> list[Output]:
        outputs = super().handle(event, now_us)
        stats = self.stats
        assert stats.sensors - stats.replies - stats.timeouts - stats.not_expected <= 1
        self.log.append((event, now_us, list(outputs)))
        for output in outputs:
            if isinstance(output, Send):
                (message,) = Decoder().feed(output.frame)
                if message.get_type() == "HIL_SENSOR":
                    self.stamps.append(message.time_usec)
        return outputs


class StubTwin:
    """A vehicle at rest in the place of the twin."""

    def __init__(self) -> None:
        import random

        self._noise = random.Random(1)

    def step(self, command: object) -> None: ...

    def reset(self) -> None: ...

    def sample_of(self, batch: object, time_us: int, *, truth: bool) -> SensorSample:
        return at_rest(StepTwin(time_us, None, truth), self._noise)


class StubActuators:
    def command(self, controls: object) -> None: ...


async def answer(rig: Rig, fc: ScriptedFc, datagrams: bool) -> None:
    decoder = Decoder(datagrams=datagrams)
    for frame in fc.greeting():
        await rig.send(frame)
    while True:
        for message in decoder.feed(await rig.receive()):
            if message.get_msgId() >= 0:
                for frame in fc.hear(message):
                    with contextlib.suppress(ConnectionError):
                        await rig.send(frame)


@pytest.mark.parametrize("kind", sorted(RIGS))
async def test_over_a_real_transport_with_faults(kind: str, tmp_path: Path) -> None:
    rig = RIGS[kind](tmp_path)
    rig.make(wrapped=False)
    datagrams, speaks_first = rig.transport.datagrams, rig.transport.speaks_first
    options = {
        "period_us": PERIOD_US,
        "datagrams": datagrams,
        "speaks_first": speaks_first,
        "reply_timeout_us": 50_000 if datagrams else 120_000,
    }
    rate = 0.005 if datagrams else 0.002
    plan = FaultPlan(
        latency_s=0.0002, jitter_s=0.0005, loss=rate, duplicate=0.02, reorder=rate, corrupt=rate, stalls=((0.9, 0.2),)
    )
    transport = FaultyTransport(rig.transport, plan, seed=3)
    session = Recorded(**options)
    fc = ScriptedFc(deaf_first=speaks_first)
    loop = HilLoop(session, transport, cast(Any, StubTwin()), cast(Any, StubActuators()))
    stop = asyncio.Event()
    running = asyncio.create_task(loop.run(stop))
    await asyncio.sleep(0.05)
    await rig.attach()
    answering = asyncio.create_task(answer(rig, fc, datagrams))
    try:
        await asyncio.sleep(2.6 if speaks_first else 1.6)  # the first call goes to nobody
        assert not running.done()
        assert not answering.done()
    finally:
        stop.set()
        answering.cancel()
        await running
        await rig.cleanup()
    assert session.stats.connections == 1
    assert session.stamps[0] == FIRST_US
    assert all(after - before == PERIOD_US for before, after in zip(session.stamps, session.stamps[1:], strict=False))
    assert 100 < len(session.stamps) <= 1.7 * 250
    assert session.stats.replies > 100
    fresh = HilSession(**cast(Any, options))
    for event, now, outputs in session.log:
        assert fresh.handle(event, now) == outputs
