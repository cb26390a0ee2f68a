"""The moving set-point: within its limits, exactly at its goal, and honest about how long it has stood there."""

from __future__ import annotations

import itertools
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lav2_hil.autopilot.reference import Reference

DT, ACCELERATION = 0.004, 1.5
place = st.tuples(*[st.floats(-50.0, 50.0)] * 3)


def follow(reference: Reference, most_s: float = 300.0) -> list[tuple[float, float, float]]:
    """Positions at every tick, until it stands."""
    track = [reference.position]
    while reference.moving:
        reference.step(DT)
        track.append(reference.position)
        assert len(track) < most_s / DT, "it never arrives"
    return track


def speeds(track: list[tuple[float, float, float]]) -> list[float]:
    return [math.dist(a, b) / DT for a, b in itertools.pairwise(track)]


@given(place, place, st.floats(0.5, 5.0))
def test_it_goes_straight_within_its_limits_and_arrives_exactly(start, goal, limit) -> None:
    reference = Reference(start)
    reference.go(goal, limit)
    track = follow(reference)
    assert track[-1] == goal
    way = math.dist(start, goal)
    for here in track[:: max(1, len(track) // 50)]:
        assert math.dist(start, here) + math.dist(here, goal) == pytest.approx(way, abs=1e-6)
    flown = speeds(track)
    assert max(flown, default=0.0) <= limit + 1e-6
    for before, after in zip([0.0, *flown[:-2]], flown[:-1], strict=False):  # the last millimetre is a jump
        assert after - before <= ACCELERATION * DT + 1e-6
        assert before - after <= 1.2 * ACCELERATION * DT + 1e-3 / DT * (after < 0.06)


def test_a_long_way_is_a_trapezoid() -> None:
    reference = Reference((0.0, 0.0, 0.0))
    reference.go((20.0, 0.0, 0.0), 2.0)
    track = follow(reference)
    flown = speeds(track)
    assert len(track) * DT == pytest.approx(20.0 / 2.0 + 2.0 / ACCELERATION, rel=0.02)
    assert flown[round(0.5 / DT)] == pytest.approx(0.75, rel=0.02)
    assert flown[len(flown) // 2] == pytest.approx(2.0)
    assert flown[-round(0.5 / DT)] == pytest.approx(0.75, rel=0.1)


def test_a_short_way_never_reaches_full_speed() -> None:
    reference = Reference((0.0, 0.0, 0.0))
    reference.go((0.0, 1.0, 0.0), 5.0)
    assert max(speeds(follow(reference))) == pytest.approx(math.sqrt(ACCELERATION), rel=0.03)


def test_the_same_goal_again_and_again_does_not_slow_it_down() -> None:
    """A stream of set-points, as in offboard mode."""
    reference = Reference((0.0, 0.0, 0.0))
    ticks = 0
    while reference.moving or ticks == 0:
        if ticks % 10 == 0:
            reference.go((10.0, 0.0, 0.0), 2.0)
        reference.step(DT)
        ticks += 1
        assert ticks * DT < 7.0, reference.position
    assert reference.position == (10.0, 0.0, 0.0)


@pytest.mark.parametrize(("goal", "kept"), [((40.0, 0.0, 0.0), 1.0), ((-40.0, 0.0, 0.0), 0.0), ((0.0, 9.0, 0.0), None)])
def test_a_new_goal_keeps_the_speed_that_points_there(goal: tuple[float, float, float], kept: float | None) -> None:
    reference = Reference((0.0, 0.0, 0.0))
    reference.go((20.0, 0.0, 0.0), 2.0)
    for _ in range(500):
        reference.step(DT)
    before = reference.position
    if kept is None:
        goal = (before[0], goal[1], 0.0)
    reference.go(goal, 2.0)
    reference.step(DT)
    after = math.dist(before, reference.position) / DT
    assert after == pytest.approx(2.0 if kept else ACCELERATION * DT, abs=1e-6)


def test_a_lower_limit_counts_at_once() -> None:
    reference = Reference((0.0, 0.0, 0.0))
    reference.go((20.0, 0.0, 0.0), 4.0)
    for _ in range(750):
        reference.step(DT)
    reference.go((20.0, 0.0, 0.0), 1.0)
    assert max(speeds(follow(reference))) == pytest.approx(1.0)


def test_how_long_it_has_stood() -> None:
    reference = Reference((0.0, 0.0, 0.0))
    for _ in range(250):
        reference.step(DT)
    assert reference.still_s == pytest.approx(1.0)
    reference.go((1.0, 0.0, 0.0), 1.0)
    reference.step(DT)
    assert reference.still_s == 0.0
    follow(reference)
    assert reference.still_s == 0.0
    reference.step(DT)
    assert reference.still_s == pytest.approx(DT)
    reference.jump((1.0, 0.0, 0.0))
    assert reference.still_s == pytest.approx(DT), "it has not moved"
    reference.jump((2.0, 0.0, 0.0))
    assert reference.still_s == 0.0, "it stands somewhere else now"


def test_going_nowhere_is_standing() -> None:
    reference = Reference((1.0, 2.0, 3.0))
    reference.go((1.0, 2.0, 3.0), 2.0)
    assert not reference.moving
    reference.step(DT)
    assert reference.position == (1.0, 2.0, 3.0)
