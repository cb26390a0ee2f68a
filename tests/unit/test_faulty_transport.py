"""The bad link: each fault has its effect, nothing else has, and a seed decides it all."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import fields, replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from link_recorder import Recorder, until
from pymavlink.dialects.v20 import common

from bridge.codec import Encoder
from bridge.transport.base import Transport
from bridge.transport.faults import Fates
from bridge.transport.faulty import HELD_LIMIT, FaultPlan, FaultyTransport
from bridge.transport.memory import MemoryTransport
from firmware_profiles.errors import UsageError

_names = itertools.count()
FRAMES = [bytes([index]) * 20 for index in range(200)]


class TimedRecorder(Recorder):
    """Also keeps when each piece arrived, in the loop's seconds."""

    def __init__(self) -> None:
        super().__init__()
        self.times: list[float] = []

    def link_data(self, data: bytes) -> None:
        super().link_data(data)
        self.times.append(asyncio.get_running_loop().time())


class Pair:
    """A spoiled end and a plain one, each with what it heard."""

    def __init__(self, plan: FaultPlan, seed: int = 1, *, datagrams: bool = True, **options: Any) -> None:
        name = f"faulty-{next(_names)}"
        self.faulty = FaultyTransport(MemoryTransport(name, datagrams=datagrams), plan, seed, **options)
        self.plain: Transport = MemoryTransport(name)
        self.near, self.far = TimedRecorder(), TimedRecorder()

    async def open(self) -> Pair:
        await self.plain.open(self.far)
        await self.faulty.open(self.near)
        await settle()
        assert self.near.events == ["up"]
        return self

    async def send_out(self, frames: list[bytes]) -> list[bytes]:
        for frame in frames:
            assert self.faulty.write(frame)
        await settle()
        return self.far.data

    async def send_in(self, frames: list[bytes]) -> list[bytes]:
        for frame in frames:
            assert self.plain.write(frame)
        await settle()
        return self.near.data

    async def close(self) -> None:
        await self.faulty.close()
        await self.plain.close()


async def settle() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


Opener = Callable[..., Awaitable[Pair]]


@pytest.fixture
async def opened() -> AsyncIterator[Opener]:
    pairs: list[Pair] = []

    async def open_pair(*args: Any, **options: Any) -> Pair:
        pairs.append(Pair(*args, **options))
        return await pairs[-1].open()

    yield open_pair
    for pair in pairs:
        await pair.close()


async def test_an_empty_plan_changes_nothing(opened: Opener) -> None:
    pair = await opened(FaultPlan())
    assert await pair.send_out(FRAMES) == FRAMES
    assert await pair.send_in(FRAMES) == FRAMES
    for counts in (pair.faulty.sent, pair.faulty.received):
        assert counts.frames == len(FRAMES)
        assert counts.lost == counts.duplicated == counts.reordered == counts.corrupted == counts.overflowed == 0


async def test_loss(opened: Opener) -> None:
    pair = await opened(FaultPlan(loss=0.3))
    out, into = await pair.send_out(FRAMES), await pair.send_in(FRAMES)
    for arrived, counts in ((out, pair.faulty.sent), (into, pair.faulty.received)):
        assert 0 < counts.lost < len(FRAMES)
        assert len(arrived) == len(FRAMES) - counts.lost
        assert arrived == [frame for frame in FRAMES if frame in arrived]
    assert out != into, "each direction has its own luck"
    assert pair.faulty.dropped == 0, "a sender does not learn of a loss"


async def test_total_loss_lets_nothing_pass(opened: Opener) -> None:
    pair = await opened(FaultPlan(loss=1.0))
    assert await pair.send_out(FRAMES) == []
    assert pair.faulty.sent.lost == len(FRAMES)


async def test_duplication(opened: Opener) -> None:
    pair = await opened(FaultPlan(duplicate=0.3))
    arrived = await pair.send_out(FRAMES)
    doubled = [frame for frame in FRAMES if arrived.count(frame) == 2]
    assert 0 < len(doubled) == pair.faulty.sent.duplicated < len(FRAMES)
    assert arrived == [frame for frame in FRAMES for _ in range(arrived.count(frame))]
    assert set(arrived) == set(FRAMES)


@pytest.mark.parametrize("datagrams", [True, False])
async def test_reordering_lets_the_next_frame_overtake(opened: Opener, datagrams: bool) -> None:
    pair = await opened(FaultPlan(reorder=0.3), datagrams=datagrams)
    await pair.send_out(FRAMES)
    await until(lambda: len(pair.far.data) == len(FRAMES))
    arrived = pair.far.data
    assert sorted(arrived) == FRAMES
    assert arrived != FRAMES
    positions = [arrived.index(frame) for frame in FRAMES]
    assert max(abs(position - index) for index, position in enumerate(positions)) == 1
    assert pair.faulty.sent.reordered > 0


async def test_a_frame_that_nobody_overtakes_arrives_in_the_end(opened: Opener) -> None:
    pair = await opened(FaultPlan(reorder=1.0))
    await pair.send_out([b"alone"])
    assert pair.far.data == []
    await until(lambda: pair.far.data == [b"alone"])


async def test_corruption_flips_one_bit(opened: Opener) -> None:
    pair = await opened(FaultPlan(corrupt=0.3))
    arrived = await pair.send_out([*FRAMES, b""])
    assert len(arrived) == len(FRAMES) + 1
    flips = [
        (int.from_bytes(before, "big") ^ int.from_bytes(after, "big")).bit_count()
        for before, after in zip(FRAMES, arrived, strict=False)
    ]
    assert set(flips) == {0, 1}
    assert flips.count(1) == pair.faulty.sent.corrupted


async def test_latency_and_jitter_on_a_stream_keep_the_order(opened: Opener) -> None:
    plan = FaultPlan(latency_s=0.02, jitter_s=0.05)
    pair = await opened(plan, datagrams=False)
    loop = asyncio.get_running_loop()
    begin = loop.time()
    assert await pair.send_out(FRAMES) == []
    await pair.send_in(FRAMES)
    await until(lambda: len(pair.far.data) == len(pair.near.data) == len(FRAMES))
    assert pair.far.data == pair.near.data == FRAMES
    for heard in (pair.far, pair.near):
        assert min(heard.times) >= begin + 0.02


async def test_jitter_reorders_datagrams(opened: Opener) -> None:
    pair = await opened(FaultPlan(jitter_s=0.05))
    await pair.send_out(FRAMES)
    await until(lambda: len(pair.far.data) == len(FRAMES))
    assert sorted(pair.far.data) == FRAMES
    assert pair.far.data != FRAMES


async def test_plain_latency_keeps_the_order_of_datagrams(opened: Opener) -> None:
    pair = await opened(FaultPlan(latency_s=0.01))
    await pair.send_out(FRAMES)
    await until(lambda: len(pair.far.data) == len(FRAMES))
    assert pair.far.data == FRAMES


async def test_a_stall_holds_both_directions_and_then_lets_go(opened: Opener) -> None:
    pair = await opened(FaultPlan())
    loop = asyncio.get_running_loop()
    await pair.send_out([b"before"])
    end = loop.time() + 0.2
    pair.faulty.stall(0.2)
    pair.faulty.stall(0.01)  # a shorter one does not end it
    assert await pair.send_out(FRAMES) == [b"before"]
    assert await pair.send_in(FRAMES) == []
    await until(lambda: len(pair.far.data) == len(FRAMES) + 1 and len(pair.near.data) == len(FRAMES))
    assert pair.far.data == [b"before", *FRAMES]
    assert pair.near.data == FRAMES
    assert min(pair.far.times[1:] + pair.near.times) >= end - 1e-3  # a timer may be early by a step of the clock
    assert await pair.send_out([b"after"]) == [b"before", *FRAMES, b"after"]


async def test_stalls_can_be_planned(opened: Opener) -> None:
    pair = await opened(FaultPlan(stalls=((0.0, 0.2), (0.4, 0.2))))
    assert await pair.send_out([b"first"]) == []
    await until(lambda: pair.far.data == [b"first"])
    sent = [b"first"]
    async with asyncio.timeout(5):
        while pair.far.data == sent:
            sent.append(b"frame %d" % len(sent))
            await pair.send_out(sent[-1:])
            await asyncio.sleep(0.005)
    await until(lambda: pair.far.data == sent)


async def test_what_is_held_back_is_bounded(opened: Opener) -> None:
    pair = await opened(FaultPlan(latency_s=60.0))
    frame = bytes(65536)
    taken = sum(pair.faulty.write(frame) for _ in range(200))
    assert HELD_LIMIT / 65536 <= taken <= HELD_LIMIT / 65536 + 1
    assert pair.faulty.sent.overflowed == pair.faulty.dropped == 200 - taken


async def test_what_has_passed_is_held_no_more(opened: Opener) -> None:
    pair = await opened(FaultPlan(latency_s=0.001))
    frame = bytes(65536)
    for count in range(1, HELD_LIMIT // len(frame) + 10):
        assert pair.faulty.write(frame)
        await until(lambda count=count: len(pair.far.data) == count)  # type: ignore[misc]
    assert pair.faulty.sent.overflowed == 0


async def test_what_is_under_way_is_lost_with_the_peer(opened: Opener) -> None:
    pair = await opened(FaultPlan(latency_s=0.2))
    await pair.send_out(FRAMES)
    await pair.send_in(FRAMES)
    await pair.plain.close()
    await settle()
    assert pair.near.events == ["up", "down"]
    assert pair.faulty.write(b"nobody") is False
    await pair.plain.open(pair.far)
    await asyncio.sleep(0.25)
    assert pair.near.data == pair.far.data == []
    assert pair.near.events == ["up", "down", "up"]
    await pair.send_out([b"new"])
    await until(lambda: bool(pair.far.data))
    assert pair.far.data == [b"new"]


async def test_closing_stops_every_timer(opened: Opener) -> None:
    pair = await opened(FaultPlan(latency_s=0.1, reorder=0.5, stalls=((0.1, 0.1),)))
    pair.faulty.stall(0.05)
    await pair.send_out(FRAMES)
    await pair.faulty.close()
    await asyncio.sleep(0.25)
    assert pair.far.data == []
    with pytest.raises(RuntimeError):
        pair.faulty.stall(0.1)


async def test_directions_can_differ(opened: Opener) -> None:
    pair = await opened(FaultPlan(), incoming=FaultPlan(loss=1.0))
    assert await pair.send_out(FRAMES) == FRAMES
    assert await pair.send_in(FRAMES) == []


ROUGH = FaultPlan(latency_s=0.01, jitter_s=0.02, loss=0.2, duplicate=0.2, reorder=0.2, corrupt=0.2)


async def test_the_same_seed_gives_the_same_faults(opened: Opener) -> None:
    plan = replace(ROUGH, latency_s=0.0, jitter_s=0.0)
    first, again, other = [await (await opened(plan, seed)).send_out(FRAMES) for seed in (7, 7, 8)]
    assert first == again
    assert first != other


@settings(deadline=None)
@given(seed=st.integers(), frames=st.lists(st.binary(max_size=40), max_size=40))
def test_decisions_depend_on_seed_and_frames_only(seed: int, frames: list[bytes]) -> None:
    fates, again = Fates(ROUGH, seed), Fates(ROUGH, seed)
    first = [fates.decide(frame) for frame in frames]
    assert first == [again.decide(frame) for frame in frames]
    assert all(ROUGH.latency_s <= fate.delay_s <= ROUGH.latency_s + ROUGH.jitter_s for fate in first)
    assert fates.counts.frames == len(frames)
    assert fates.counts.lost == sum(not fate.copies for fate in first)


@settings(deadline=None)
@given(seed=st.integers())
def test_a_further_fault_leaves_the_other_decisions_as_they_were(seed: int) -> None:
    some = FaultPlan(loss=0.3, jitter_s=0.1)
    more = replace(some, duplicate=0.5, reorder=0.5, corrupt=0.5)
    plain, busy = Fates(some, seed), Fates(more, seed)
    for frame in FRAMES[:40]:
        one, other = plain.decide(frame), busy.decide(frame)
        assert bool(one.copies) == bool(other.copies)
        assert one.delay_s == other.delay_s


@pytest.mark.parametrize("name", ["loss", "duplicate", "reorder", "corrupt"])
@pytest.mark.parametrize("value", [-0.1, 1.1, float("nan"), float("inf")])
def test_probabilities_are_checked(name: str, value: float) -> None:
    with pytest.raises(UsageError, match=f"{name} is a probability from 0 to 1"):
        replace(FaultPlan(), **{name: value})  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["latency_s", "jitter_s"])
@pytest.mark.parametrize("value", [-0.1, float("nan"), float("inf")])
def test_times_are_checked(name: str, value: float) -> None:
    with pytest.raises(UsageError, match=f"{name} is a time"):
        replace(FaultPlan(), **{name: value})  # type: ignore[arg-type]


@pytest.mark.parametrize("stall", [(-1.0, 1.0), (0.0, -1.0), (float("nan"), 1.0)])
def test_planned_stalls_are_checked(stall: tuple[float, float]) -> None:
    with pytest.raises(UsageError, match="a stall's"):
        FaultPlan(stalls=(stall,))


def test_a_plan_starts_empty() -> None:
    assert all(not getattr(FaultPlan(), field.name) for field in fields(FaultPlan))


async def test_a_plan_can_be_changed_and_the_luck_goes_on(opened: Opener) -> None:
    pair = await opened(FaultPlan(loss=0.3))
    await pair.send_out(FRAMES[:100])
    pair.faulty.change(FaultPlan(), FaultPlan(loss=1.0))
    await pair.send_out(FRAMES[:50])
    assert await pair.send_in(FRAMES) == []
    pair.faulty.change(FaultPlan(loss=0.3), FaultPlan())
    arrived = await pair.send_out(FRAMES[150:])
    assert await pair.send_in(FRAMES) == FRAMES
    fates = Fates(FaultPlan(loss=0.3), "1 out")
    luck = [bool(fates.decide(frame).copies) for frame in FRAMES]
    expected = [f for f, lucky in zip(FRAMES[:100], luck, strict=False) if lucky] + FRAMES[:50]
    expected += [f for f, lucky in zip(FRAMES[150:], luck[150:], strict=True) if lucky]
    assert arrived == expected


@pytest.mark.parametrize("outgoing", [True, False])
async def test_a_stall_of_one_direction_leaves_the_other(opened: Opener, outgoing: bool) -> None:
    pair = await opened(FaultPlan())
    pair.faulty.stall(0.1, outgoing=outgoing, incoming=not outgoing)
    assert await pair.send_out([b"out"]) == ([] if outgoing else [b"out"])
    assert await pair.send_in([b"in"]) == ([b"in"] if outgoing else [])
    await until(lambda: pair.far.data == [b"out"] and pair.near.data == [b"in"])


async def test_a_cut_loses_the_peer_for_a_time(opened: Opener) -> None:
    pair = await opened(FaultPlan(latency_s=0.01))
    loop = asyncio.get_running_loop()
    await pair.send_out([b"under way"])
    end = loop.time() + 0.1
    pair.faulty.cut(0.1)
    assert pair.near.events == ["up", "down"]
    pair.faulty.cut(0.01)  # a shorter one does not end it, and the peer is not lost twice
    assert pair.faulty.write(b"nobody") is False
    assert await pair.send_in([b"nobody"]) == []
    await until(lambda: pair.near.events == ["up", "down", "up"])
    assert loop.time() >= end - 1e-3
    await pair.send_out([b"again"])
    await until(lambda: bool(pair.far.data))
    assert pair.far.data == [b"again"]
    assert pair.near.data == []


async def test_a_peer_that_goes_during_a_cut_is_not_there_at_its_end(opened: Opener) -> None:
    pair = await opened(FaultPlan())
    pair.faulty.cut(0.05)
    await pair.plain.close()
    await asyncio.sleep(0.1)
    assert pair.near.events == ["up", "down"]


async def test_a_closed_link_cannot_be_cut_and_its_cut_ends_unheard(opened: Opener) -> None:
    pair = await opened(FaultPlan())
    pair.faulty.cut(0.05)
    await pair.faulty.close()
    assert not pair.faulty.is_open
    await asyncio.sleep(0.1)
    assert pair.near.events == ["up", "down"]
    with pytest.raises(RuntimeError):
        pair.faulty.cut(0.1)


@pytest.mark.parametrize("size", [1, 7, 93, 10_000])
async def test_faults_on_a_stream_do_not_depend_on_how_it_was_read(opened: Opener, size: int) -> None:
    encoder = Encoder(1, 1)
    frames = [encoder.encode(common.MAVLink_system_time_message(n, n)) for n in range(100)]
    stream = b"".join(frames)
    pair = await opened(FaultPlan(loss=0.3, duplicate=0.1, corrupt=0.1), datagrams=False)
    await pair.send_in([stream[at : at + size] for at in range(0, len(stream), size)])
    fates = Fates(FaultPlan(loss=0.3, duplicate=0.1, corrupt=0.1), "1 in")
    expected = [copy for frame in frames for copy in fates.decide(frame).copies]
    assert pair.near.data == expected
    assert pair.faulty.received == fates.counts
