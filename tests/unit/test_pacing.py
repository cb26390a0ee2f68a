"""Simulated time against the wall clock."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bridge.pacing import MAX_LAG_US, Pacer


def pacer(speed: float, max_lag_us: int = MAX_LAG_US) -> Pacer:
    pacer = Pacer()
    pacer.anchor(5_000_000, 1_000_000, speed, max_lag_us)
    return pacer


@pytest.mark.parametrize(("speed", "wall_us"), [(1.0, 400_000), (2.0, 200_000), (0.5, 800_000), (10.0, 40_000)])
def test_due_by_the_speed(speed: float, wall_us: int) -> None:
    assert pacer(speed).due_us(1_400_000, 5_000_000) == 5_000_000 + wall_us


def test_speed_0_is_always_due() -> None:
    assert pacer(0.0).due_us(99_000_000, 5_000_123) == 5_000_123
    assert Pacer().due_us(99_000_000, 7) == 7, "before any anchor too"


def test_a_small_lag_is_made_up_for() -> None:
    made = pacer(1.0)
    assert made.due_us(1_100_000, 5_100_000 + MAX_LAG_US) == 5_100_000
    assert made.due_us(1_104_000, 5_100_000 + MAX_LAG_US) == 5_104_000


def test_a_lag_above_100_ms_is_let_go() -> None:
    late = 5_100_000 + MAX_LAG_US + 1
    made = pacer(1.0)
    assert made.due_us(1_100_000, late) == late, "at once, and from here on anew"
    assert made.due_us(1_104_000, late) == late + 4000


def test_a_smaller_limit_lets_go_sooner() -> None:
    made = pacer(1.0, 3999)
    assert made.due_us(1_100_000, 5_103_999) == 5_100_000
    assert made.due_us(1_104_000, 5_103_999) == 5_104_000, "in the future: never two at once"
    assert made.due_us(1_108_000, 5_112_000) == 5_112_000
    assert made.due_us(1_112_000, 5_112_000) == 5_116_000


@settings(deadline=None, derandomize=True)
@given(st.lists(st.integers(0, 50_000), min_size=1, max_size=100), st.sampled_from([0.25, 1.0, 3.0]))
def test_never_more_than_the_limit_behind_nor_ahead(delays: list[int], speed: float) -> None:
    """However late each tick is taken: simulated time is never ahead, and after a lag at most the limit is made up."""
    made, now, sim = pacer(speed), 5_000_000, 1_000_000
    for delay in delays:
        sim += 4000
        due = made.due_us(sim, now)
        assert due >= now - MAX_LAG_US
        now = max(now, due) + delay
        assert sim - 1_000_000 <= speed * (now - 5_000_000) + 1
