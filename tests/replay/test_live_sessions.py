"""What a real loop did, disturbed in every way it knows, comes out of a replay again: every record, in order."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable

import pytest
from replay_rig import Live, record_live
from session_driver import ScriptedFc

from bridge.session_io import Pause, Resume, SetSpeed
from bridge.session_state import Phase
from lav2_hil.session.compare import compare
from lav2_hil.session.reader import Session
from lav2_hil.session.records import Kind, notice_of
from lav2_hil.session.replay import replay


def check(session: Session) -> None:
    outcome = replay(session)
    assert outcome.stopped is None
    assert outcome.records == session.records[:-1]  # all but the last words
    comparison = compare(outcome, exact=True)
    assert comparison.equal
    assert comparison.identical


def kinds(session: Session) -> Counter[Kind]:
    return Counter(record.kind for record in session.records)


def names(session: Session) -> list[tuple[int, str]]:
    """The notices, each with its place."""
    records = enumerate(session.records)
    return [(place, notice_of(record.data).name) for place, record in records if record.kind is Kind.NOTICE]


def notices(session: Session) -> list[str]:
    return [name for _, name in names(session)]


async def test_pause_speed_silence_a_lost_link_and_another_connection() -> None:
    async def script(live: Live) -> None:
        live.link.connect()
        live.link.fc.armed = True
        await live.until(100)
        live.loop.feed(Pause())
        await asyncio.sleep(0.02)
        live.loop.feed(Resume())
        live.loop.feed(SetSpeed(4.0))
        await live.until(50)
        live.loop.feed(SetSpeed(0.0))
        live.loop.link_ignored("somebody else")
        live.link.fc.silent = True
        await asyncio.sleep(0.2)
        live.link.fc.silent = False
        await live.until(100)
        live.link.lose()
        await asyncio.sleep(0.01)
        live.link.connect()
        await live.until(63)

    session = await record_live(script)
    seen = kinds(session)
    for kind in (Kind.PAUSE, Kind.RESUME, Kind.SET_SPEED, Kind.LINK_DOWN, Kind.TIMER_EXPIRED):
        assert seen[kind], kind
    assert seen[Kind.LINK_UP] == 2
    assert {"peer_ignored", "reply_timeout", "reply_again", "peer_lost"} <= set(notices(session))
    check(session)


async def test_a_restart_on_datagrams_and_refusals() -> None:
    async def script(live: Live) -> None:
        link = live.link
        link.connect()
        await live.until(100)
        fresh = type(link.fc)()
        link.fc = fresh  # PX4 again, behind the same port
        link._say(fresh.greeting())
        await live.until(100)
        live.loop.link_refused()

    session = await record_live(script, datagrams=True)
    assert "px4_restarted" in notices(session)
    assert kinds(session)[Kind.REFUSED] == 1
    check(session)


async def test_a_peer_that_is_given_up_is_gone_inside_of_the_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bridge.hil.SILENT_PEER_US", 1_000_000)

    async def script(live: Live) -> None:
        live.link.connect()
        await live.until(50)
        live.link.fc.silent = True
        await asyncio.sleep(1.3)
        live.link.fc.silent = False
        live.link.connect()
        await live.until(50)

    session = await record_live(script, datagrams=True)
    down = next(i for i, record in enumerate(session.records) if record.kind is Kind.LINK_DOWN)
    assert session.records[down - 1].kind in (Kind.TIMER_EXPIRED, Kind.SENT, Kind.TRUTH)
    check(session)


async def test_a_run_that_ends_at_a_tick_ends_there_again() -> None:
    """Also where the session has asked for a step that is not taken; the last ticks have a sample of their own."""
    asked: list[bool] = []

    async def script(live: Live) -> None:
        live.link.connect()
        await live.until_halted()
        asked.append(live.loop.session._awaiting_sample)

    for ticks in (400, 401, 402, 403):  # of four sensors three are followed by the next at once
        session = await record_live(script, stop_at=ticks, pattern="0001")
        assert kinds(session)[Kind.SAMPLED] == ticks
        check(session)
    assert True in asked


async def test_a_session_cut_anywhere_replays_up_to_there() -> None:
    """Also inside of a turn that goes on after its step: an answer and somebody else's frame in one piece."""

    async def script(live: Live) -> None:
        fc, stranger = live.link.fc, ScriptedFc(system=9)
        hear = fc.hear
        live.link.connect()
        while live.loop.session.phase is not Phase.LOCKSTEP:
            await live.until(1)
        fc.hear = lambda message: [answer + stranger.answer(1) for answer in hear(message)]  # type: ignore[method-assign]
        await live.until(20)

    session = await record_live(script)
    other = next(i for i, name in names(session) if name == "other_system")
    # The notice came before the step and stands behind it, and at some ticks behind a truth sample too.
    assert Kind.SAMPLED in [record.kind for record in session.records[other - 2 : other]]
    for end in range(other - 12, other + 6):
        records = session.records[:end]
        cut = Session(session.header, session.truth_every, records, "cut", records[-1].time_us)
        outcome = replay(cut)
        comparison = compare(outcome, exact=True)
        assert comparison.equal, (end, comparison)
        assert comparison.ticks >= 15


async def test_the_link_s_own_notices_stand_where_they_stood() -> None:
    """A fault of the link is told from inside a turn, between a step and the next."""

    class Spoils:
        def __init__(self, tell: Callable[[str], None]) -> None:
            self.tell = tell

        def stepped(self, controls: object, sample: object) -> None:
            self.tell("loss 0.02")

        def noticed(self, notice: object) -> None:
            pass

    async def script(live: Live) -> None:
        live.loop._listeners = (*live.loop._listeners, Spoils(live.loop.fault_told))
        live.link.connect()
        await live.until(60)

    session = await record_live(script)
    assert notices(session).count("fault") >= 60
    check(session)
