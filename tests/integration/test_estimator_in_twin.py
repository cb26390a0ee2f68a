"""The estimator on the real twin's sensors: it flies well on them, and finds every turned axis."""

import numpy as np
import pytest
from estimator_rig import DT, SYDNEY, TROMSO, Motion, fast_flight, flipped, ramp, square_flight
from estimator_twin_rig import fly

pytestmark = pytest.mark.slow

FLIPS = [(s, a) for s in ("accel", "gyro", "mag", "gps") for a in range(3)] + [("baro", 0)]


@pytest.mark.parametrize(
    ("profile", "motion", "place"),
    [
        ("px4_iris", square_flight(2.0, 90.0, yaw_turns=True), TROMSO),
        pytest.param("px4_x500", fast_flight(200.0), SYDNEY, marks=pytest.mark.slow),
    ],
)
def test_estimates_well_in_the_twin(profile: str, motion: Motion, place: tuple[float, float, float]) -> None:
    flight = fly([motion], profile=profile, place=place, seed=11, off_s=24.3 if profile == "px4_iris" else 99.0)
    flight.errors[0].assert_small()
    assert flight.seen == [{}]
    assert flight.arming == [[]]
    assert flight.ready_s[0] < 3.0
    if profile == "px4_iris":
        assert flight.spike > 30.0  # it did touch down
        assert flight.estimators[0].arming_faults() == []


def test_flies_on_its_own_estimate() -> None:
    flight = fly([square_flight(2.0, 45.0, yaw_turns=True)], on_estimate=True, off_s=24.3, seed=2)
    flight.errors[0].assert_small()
    assert flight.seen == [{}]


@pytest.mark.slow
@pytest.mark.parametrize("heading_deg", [20.0, 110.0])
def test_every_turned_axis_is_found_when_flying_on_the_estimate(heading_deg: float) -> None:
    motion = square_flight(2.0, heading_deg)
    flight = fly(
        [motion] * len(FLIPS), mutations=[flipped(*flip) for flip in FLIPS], on_estimate=True, seed=int(heading_deg)
    )
    for flip, seen, arming in zip(FLIPS, flight.seen, flight.arming, strict=True):
        assert seen or arming, flip


def wander(seed: int, seconds: float = 60.0) -> Motion:
    """Up, aggressive sums of sines with 3 m/s and 90 deg/s, down onto the ground."""
    rng = np.random.default_rng(seed)
    t = np.arange(round(seconds / DT)) * DT
    on = ramp([0.0, 6.0, seconds - 8.0, seconds], [0.0, 1.0, 0.0], 2.0)
    parts = []
    for _ in range(2):
        w, phase = rng.uniform(0.4, 1.8, 3), rng.uniform(0, 6, 3)
        parts.append(on * np.sum([1.2 * np.sin(a * t + b) for a, b in zip(w, phase, strict=True)], axis=0))
    down = ramp([0.0, 3.0, 6.0, seconds - 6.0, seconds - 2.0, seconds], [0.0, -1.2, 0.0, 1.2, 0.0])
    yaw = on * 1.9 * np.sin(0.8 * t + rng.uniform(0, 6)) + 0.0
    return Motion(np.stack((*parts, down), axis=1), yaw)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_no_false_fault_in_twenty_minutes_of_wild_flight() -> None:
    flight = fly([wander(seed) for seed in range(20)], seed=7, off_s=57.5)
    assert flight.seen == [{}] * 20
    assert flight.spike > 30.0
    for errors in flight.errors:
        errors.assert_small()
