"""The parameter protocol on bad links: every parameter arrives, none twice different, whatever gets lost."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bridge.param_wire import HASH_CHECK
from bridge.params_transfer import (
    FIRST_WAIT_S,
    LONGEST_WAIT_S,
    READ_ROUNDS,
    ROUNDS,
    WINDOW,
    AskList,
    AskRead,
    AskSet,
    Change,
    Download,
    Heard,
    Reading,
    Transfer,
)
from firmware_profiles.px4_params import Value

names = st.text("ABCDEFG_0123456789", min_size=1, max_size=16)
tables = st.dictionaries(names, st.integers(-(2**31), 2**31 - 1) | st.floats(width=32, allow_nan=False), min_size=1)


class Server:
    """A board behind a line that loses, repeats and reorders; in simulated time."""

    def __init__(self, values: dict[str, Value], seed: int, loss: float, unlisted: tuple[str, ...] = ()) -> None:
        self.values = dict(values)
        self.unlisted = set(unlisted)
        self.lists_all_after = -1
        self.requests: list[object] = []
        self._dice = random.Random(seed)
        self._loss = loss

    def said(self, name: str) -> Heard:
        if self.lists_all_after == 0:
            self.unlisted.clear()
        self.lists_all_after -= 1
        listed = sorted(set(self.values) - self.unlisted)
        return Heard(name, self.values[name], len(listed), listed.index(name) if name in listed else 65535)

    def answers(self, request: object) -> Iterator[Heard]:
        self.requests.append(request)
        if self._dice.random() < self._loss:
            return
        listed = sorted(set(self.values) - self.unlisted)
        match request:
            case AskList():
                yield Heard(HASH_CHECK, 7, len(listed), 65535)
                yield from map(self.said, listed)
            case AskRead(which) if isinstance(which, str):
                if which in self.values:
                    yield self.said(which)
            case AskRead(which):
                if which < len(listed):
                    yield self.said(listed[which])
            case AskSet(name, value):
                self.values[name] = value
                yield self.said(name)

    def run(self, transfer: Transfer, loss: float, *, limit: int = 20_000) -> float:
        """Drive a transfer to its end; how long it took."""
        now_s = 0.0
        for _ in range(limit):
            if transfer.over:
                return now_s
            frames = [frame for request in transfer.due(now_s) for frame in self.answers(request)]
            kept = [
                frame for frame in frames for _ in range(self._dice.choice((1, 1, 2))) if self._dice.random() >= loss
            ]
            for place in range(0, len(kept) - 1, 7):  # neighbours that overtake each other
                kept[place], kept[place + 1] = kept[place + 1], kept[place]
            for frame in kept:
                transfer.heard(frame, now_s)
            now_s = max(now_s, transfer.wake_s)
        raise AssertionError("it never ended")


@settings(max_examples=60)
@given(tables, st.integers(0, 2**32), st.sampled_from([0.0, 0.02, 0.2, 0.4]))
def test_every_parameter_arrives_as_it_is(values: dict[str, Value], seed: int, loss: float) -> None:
    server, download = Server(values, seed, loss), Download()
    server.run(download, loss)
    assert download.complete
    assert (download.total, download.received) == (len(values), len(values))
    assert {n: (type(v), v) for n, v in download.values.items()} == {n: (type(v), v) for n, v in values.items()}


def test_a_good_line_asks_once() -> None:
    values = {f"P{number:03}": number for number in range(809)}
    server, download = Server(values, 1, 0.0), Download()
    server.run(download, 0.0)
    assert server.requests == [AskList()]
    assert download.values == values


def test_only_gaps_are_asked_for_a_window_at_a_time() -> None:
    download = Download()
    assert download.due(0.0) == [AskList()]
    for index in range(100):
        if index % 2:
            download.heard(Heard(f"P{index:03}", index, 100, index), 0.0)
    assert download.due(FIRST_WAIT_S - 0.01) == []
    asked = download.due(FIRST_WAIT_S)
    assert asked == [AskRead(index) for index in range(0, 2 * WINDOW, 2)]
    for request in asked:
        download.heard(Heard(f"P{request.which:03}", request.which, 100, request.which), 0.31)
    # All of them came: no wait before the rest.
    assert download.due(0.31) == [AskRead(index) for index in range(2 * WINDOW, 100, 2)]


@settings(max_examples=40)
@given(st.integers(0, 2**32), st.sampled_from([0.0, 0.1, 0.3]), st.integers(1, 60), st.integers(1, 3))
def test_a_count_that_grows_on_the_way_mixes_nothing_up(seed: int, loss: float, after: int, more: int) -> None:
    """807 became 809 in a session with PX4: all indices behind the new ones moved."""
    values = {f"P{number:03}": number for number in range(60)}
    late = tuple(f"A{number}" for number in range(more))
    server = Server(values | dict.fromkeys(late, 1), seed, loss, unlisted=late)
    server.lists_all_after = after
    download = Download()
    server.run(download, loss)
    # What came into use after the last frame was said is nobody's to know.
    expected = values if download.total == len(values) else server.values
    assert download.complete
    assert download.values == expected


def test_old_frames_of_a_smaller_list_do_not_count() -> None:
    download = Download()
    download.due(0.0)
    download.heard(Heard("B", 1, 2, 0), 0.0)
    download.heard(Heard("A", 5, 3, 0), 0.0)  # A has come into use: B is at 1 now
    assert (download.total, download.received) == (3, 1)
    download.heard(Heard("C", 9, 2, 1), 0.0)  # still of the old list
    assert (download.total, download.received) == (3, 1)
    assert download.due(FIRST_WAIT_S) == [AskList()]
    for frame in (Heard("B", 1, 3, 1), Heard("C", 9, 3, 2)):
        download.heard(frame, 0.4)
    assert download.values == {"A": 5, "B": 1, "C": 9}


def test_indices_that_move_without_a_word_are_noticed() -> None:
    download = Download()
    download.due(0.0)
    download.heard(Heard("B", 1, 2, 0), 0.0)
    download.heard(Heard("B", 1, 2, 1), 0.0)
    assert not download.complete
    assert download.due(FIRST_WAIT_S) == [AskList()]


def test_an_unsolicited_newer_value_counts() -> None:
    download = Download()
    download.due(0.0)
    download.heard(Heard("A", 1, 2, 0), 0.0)
    download.heard(Heard("A", 2, 2, 65535), 0.0)
    download.heard(Heard("Z", 2, 2, 65535), 0.0)  # has no place in the list
    download.heard(Heard("B", 3, 2, 1), 0.0)
    assert download.values == {"A": 2, "B": 3}


def test_silence_ends_it_after_growing_waits() -> None:
    download = Download()
    waits, now_s = [], 0.0
    while not download.over:
        asked = download.due(now_s)
        assert asked in ([AskList()], [])
        if asked:
            waits.append(download.wake_s - now_s)
        now_s = download.wake_s
    assert (len(waits), download.complete, download.total) == (ROUNDS, False, None)
    assert waits == sorted(waits)
    assert waits[0] == pytest.approx(FIRST_WAIT_S)
    assert waits[-1] == pytest.approx(LONGEST_WAIT_S)


@settings(max_examples=60)
@given(tables, st.lists(names, max_size=5), st.integers(0, 2**32))
def test_names_are_read_and_absent_ones_are_missed(values, others: list[str], seed: int) -> None:
    hidden = tuple(sorted(values))[:1]
    server, reading = Server(values, seed, 0.0, unlisted=hidden), Reading([*values, *others, *values])
    server.run(reading, 0.0)
    assert reading.values == values
    absent = set(others) - set(values)
    asked = [request.which for request in server.requests if isinstance(request, AskRead)]
    assert all(asked.count(name) == (READ_ROUNDS if name in absent else 1) for name in asked)


@settings(max_examples=60)
@given(st.integers(-(2**31), 2**31 - 1) | st.floats(width=32), st.integers(0, 2**32), st.sampled_from([0.0, 0.2, 0.4]))
def test_a_change_is_confirmed_and_read_back(value: Value, seed: int, loss: float) -> None:
    server, change = Server({"A": type(value)(0), "B": 1}, seed, loss), Change("A", value)
    server.run(change, loss)
    assert change.complete
    kinds = [type(request) for request in server.requests]
    assert kinds[0] is AskSet
    assert kinds[-1] is AskRead
    if not loss:
        assert kinds == [AskSet, AskRead]


def test_an_echo_alone_is_no_proof() -> None:
    change = Change("A", 5)
    assert change.due(0.0) == [AskSet("A", 5)]
    change.heard(Heard("B", 5, 2, 1), 0.0)
    change.heard(Heard("A", 5, 2, 0), 0.0)
    assert not change.complete
    assert change.due(0.0) == [AskRead("A")]
    change.heard(Heard("A", 4, 2, 0), 0.1)
    assert not change.complete
    assert change.due(change.wake_s) == [AskSet("A", 5)]


def test_an_integer_is_no_float() -> None:
    change = Change("A", 1)
    change.due(0.0)
    change.heard(Heard("A", 1.0, 1, 0), 0.0)
    change.heard(Heard("A", 1.0, 1, 0), 0.0)
    assert not change.complete


def test_what_the_board_keeps_is_known_at_the_end() -> None:
    change, now_s, asked = Change("A", 5), 0.0, 0
    while not change.over:
        asked += len(change.due(now_s))
        change.heard(Heard("A", 4, 1, 0), now_s)
        now_s = max(now_s, change.wake_s)
    assert (change.complete, change.last, asked) == (False, 4, ROUNDS)
