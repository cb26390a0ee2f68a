"""Trajectories: velocity and acceleration are the derivatives of the position; shapes, corners, headings."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from firmware_profiles.errors import UsageError
from twin.control.arrays import Arrays
from twin.control.flight import FlightController
from twin.control.trajectory import Circle, Hold, Lemniscate, Square, Trajectory, WayPoints, only
from twin.control.way_points import WayPointSequence

TWO = Arrays(2)
CORNERS = [[0.0, 0.0, 1.0], [2.0, 0.0, 1.0], [2.0, 1.0, 3.0], [-1.0, 1.0, 3.0]]
PATHS: dict[str, Trajectory] = {
    "hold": Hold([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], arrays=TWO),
    "circle": Circle((1.0, 0.0, 2.0), [[2.0], [1.0]], [[1.5], [-1.0]], arrays=TWO),
    "lemniscate": Lemniscate((0.0, 0.0, 2.0), [[2.0], [1.0]], [[8.0], [6.0]], arrays=TWO),
    "way-points": WayPoints(CORNERS, 1.0, arrays=TWO),
    "way-points of each": WayPoints(np.random.default_rng(2).normal(size=(4, 2, 3)), 0.7, loop=True, arrays=TWO),
    "square": Square((0.0, 0.0, 2.0), 2.0, 1.0, arrays=TWO),
}
EVERY = pytest.mark.parametrize("path", PATHS.values(), ids=list(PATHS))


@EVERY
@given(st.floats(0.01, 20.0))
@settings(max_examples=60, deadline=None)
def test_velocity_and_acceleration_are_derivatives(path: Trajectory, time_s: float) -> None:
    h = 1e-5
    before, now, after = (path.target(time_s + shift) for shift in (-h, 0.0, h))
    np.testing.assert_allclose((after["pos"] - before["pos"]) / (2 * h), now["vel"], atol=1e-6)
    # At a corner the acceleration is 0 and has a kink.
    np.testing.assert_allclose((after["vel"] - before["vel"]) / (2 * h), now["acc"], atol=2e-3)


@EVERY
def test_targets_enter_the_cascade(path: Trajectory) -> None:
    for mask in (("pos", "vel", "acc", "att_euler"), ("pos", "att_euler"), ("vel", "acc", "att_euler")):
        target = only(path.target(1.3), mask)
        assert set(target) == set(mask)
        flight = FlightController(
            dt_s=0.01,
            mass_kg=1.5,
            inertia_kg_m2=0.03,
            max_thrust_n=30.0,
            control_mask=dict.fromkeys(mask, True),
            arrays=TWO,
        )
        state = {name: np.zeros((2, 3)) for name in ("pos", "vel", "ang_vel")}
        wrench = flight.update(target, state | {"att_quat": np.tile((0.0, 0.0, 0.0, 1.0), (2, 1))})
        assert wrench.shape == (2, 4)
        assert all(array.shape == (2, 3) for array in path.target(1.3).values())


def test_circle() -> None:
    path = PATHS["circle"]
    for time_s in (0.0, 0.7, 5.0):
        target = path.target(time_s)
        away = target["pos"] - (1.0, 0.0, 2.0)
        np.testing.assert_allclose(np.linalg.norm(away, axis=1), [2.0, 1.0])
        np.testing.assert_allclose(np.linalg.norm(target["vel"], axis=1), [1.5, 1.0])
    np.testing.assert_allclose(path.target(0.0)["pos"], [[3.0, 0.0, 2.0], [2.0, 0.0, 2.0]])
    assert path.target(0.1)["pos"][0, 1] > 0 > path.target(0.1)["pos"][1, 1]  # negative speed: clockwise


def test_lemniscate_crosses_itself_and_comes_back() -> None:
    path = Lemniscate((0.0, 0.0, 2.0), 3.0, 8.0)
    for time_s in (0.0, 4.0, 8.0):
        np.testing.assert_allclose(path.target(time_s)["pos"], [[0.0, 0.0, 2.0]], atol=1e-9)
    np.testing.assert_allclose(path.target(2.0)["pos"], [[3.0, 0.0, 2.0]], atol=1e-9)
    assert path.target(1.0)["pos"][0, 1] > 1.0
    assert path.target(3.0)["pos"][0, 1] < -1.0


def test_square_stops_at_its_corners_and_goes_round() -> None:
    path = Square((1.0, 1.0, 2.0), 2.0, 1.0)
    corners = [(0, 0, 2), (2, 0, 2), (2, 2, 2), (0, 2, 2)]
    assert path.duration_s == pytest.approx(8.0)
    for lap in (0.0, 8.0):
        for number, corner in enumerate(corners):
            target = path.target(lap + 2.0 * number)
            np.testing.assert_allclose(target["pos"], [corner], atol=1e-9)
            np.testing.assert_allclose(target["vel"], 0, atol=1e-9)
    np.testing.assert_allclose(path.target(1.0)["vel"], [[1.875, 0, 0]])


def test_way_points_end_where_they_end() -> None:
    path = WayPoints(CORNERS, 1.0)
    assert path.duration_s == pytest.approx(2.0 + math.sqrt(5.0) + 3.0)
    for time_s in (path.duration_s, 100.0):
        target = path.target(time_s)
        np.testing.assert_allclose(target["pos"], CORNERS[-1:])
        np.testing.assert_allclose(target["vel"], 0, atol=1e-12)
    np.testing.assert_allclose(path.target(-3.0)["pos"], CORNERS[:1])
    np.testing.assert_allclose(WayPoints(CORNERS[:1], 1.0).target(5.0)["pos"], CORNERS[:1])


def test_the_nose_follows_the_path_at_rest_too() -> None:
    path = WayPoints([[0, 0, 1], [1, 0, 1], [1, 1, 1]], 1.0, along=True)
    for time_s, yaw in ((0.0, 0.0), (0.5, 0.0), (1.0, math.pi / 2), (1.5, math.pi / 2), (9.0, math.pi / 2)):
        np.testing.assert_allclose(path.target(time_s)["att_euler"], [[0, 0, yaw]], atol=1e-12)
    circle = Circle((0, 0, 1), 1.0, 1.0, along=True, yaw_rad=0.5)
    np.testing.assert_allclose(circle.target(0.0)["att_euler"], [[0, 0, math.pi / 2 + 0.5]])
    np.testing.assert_allclose(Hold((0, 0, 1), yaw_rad=0.7).target(0.0)["att_euler"], [[0, 0, 0.7]])


@pytest.mark.parametrize(
    ("make", "named"),
    [
        (lambda: Circle((0, 0, 0), 0.0, 1.0), "radius_m"),
        (lambda: Circle((0, 0, 0), 1.0, math.nan), "speed_m_s"),
        (lambda: Lemniscate((0, 0, 0), 1.0, 0.0), "period_s"),
        (lambda: Hold((0, 0)), "pos"),
        (lambda: WayPoints([], 1.0), "points"),
        (lambda: WayPoints([[0.0, 0.0]], 1.0), "points"),
        (lambda: WayPoints(np.zeros((3, 5, 3)), 1.0, arrays=TWO), "points"),
        (lambda: WayPoints(CORNERS, 0.0), "speed_m_s"),
        (lambda: Square((0, 0, 0), -1.0, 1.0), "side_m"),
        (lambda: WayPointSequence([], 1.0), "points"),
        (lambda: WayPointSequence(CORNERS, 0.0), "reach_m"),
    ],
)
def test_paths_that_cannot_be(make, named: str) -> None:
    with pytest.raises(UsageError, match=named):
        make()


def test_a_sequence_goes_on_when_a_point_is_reached_each_world_for_itself() -> None:
    sequence = WayPointSequence([[0, 0, 0], [5, 0, 0], [5, 5, 0]], 0.5, 1.0, TWO)
    target = sequence.target(np.array([[0.3, 0.3, 9.0], [2.0, 0.0, 0.0]]))  # height does not count
    np.testing.assert_allclose(target["pos"], [[5, 0, 0], [0, 0, 0]])
    np.testing.assert_allclose(target["att_euler"], [[0, 0, 1], [0, 0, 1]])
    target = sequence.target(np.array([[5.0, 0.5, 0.0], [0.0, 0.0, 0.0]]))
    np.testing.assert_allclose(target["pos"], [[5, 5, 0], [5, 0, 0]])
    np.testing.assert_array_equal(sequence.at_last, [[True], [False]])
    target = sequence.target(np.array([[5.0, 5.0, 0.0], [0.0, 0.0, 0.0]]))
    np.testing.assert_allclose(target["pos"], [[5, 5, 0], [5, 0, 0]])
    sequence.reset(0)
    np.testing.assert_allclose(sequence.target(np.full((2, 3), 9.0))["pos"], [[0, 0, 0], [5, 0, 0]])
