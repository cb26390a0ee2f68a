"""Numbers that are none, gaps, silence, and time that goes back: named, and survived."""

import math
from dataclasses import replace

import numpy as np
import pytest
from estimator_rig import (
    DT,
    DT_US,
    ZURICH,
    Reading,
    feed,
    flipped,
    readings,
    rest,
    run,
    square_flight,
)

from lav2_hil.autopilot.estimator import Estimator
from twin.environment import pressure_altitude_m, pressure_hpa_at

NAN, INF = math.nan, math.inf


@pytest.fixture(scope="module")
def standing() -> list[Reading]:
    return list(readings(rest(6.0, 40.0)))


@pytest.fixture(scope="module")
def squares() -> list[Reading]:
    return list(readings(square_flight(2.0, 20.0, yaw_turns=True), seed=5))


@pytest.mark.parametrize("bad", [NAN, INF, -INF, 1e30])
@pytest.mark.parametrize(
    ("sensor", "name"),
    [
        ("accel", "accelerometer"),
        ("gyro", "gyroscope"),
        ("mag", "magnetometer"),
        ("pressure_hpa", "barometer"),
        ("fix", "GPS"),
    ],
)
def test_what_is_no_number_is_named_and_does_not_poison(
    standing: list[Reading], sensor: str, name: str, bad: float
) -> None:
    estimator, seen = Estimator(DT), set()
    for reading in standing:
        r, value = reading, getattr(reading, sensor)
        if 2_000_000 <= r.time_us < 2_300_000 and r.time_us % 100_000 < 50_000 and value is not None:
            if sensor == "fix":
                value = replace(value, vel_ned=(0.0, bad, 0.0))
            else:
                value = bad if isinstance(value, float) else (value[0], bad, value[2])
            r = replace(reading, **{sensor: value})
        feed(estimator, r)
        seen.update(estimator.faults)
        if estimator.ready:
            assert all(map(math.isfinite, (*estimator.state.pos_ned, *estimator.state.q_ned_frd)))
    assert seen == {f"{name} sends impossible numbers"}
    assert estimator.ready
    assert estimator.faults == []
    assert np.isfinite(estimator._filter.covariance).all()
    assert np.linalg.norm(estimator.state.pos_ned) < 0.3


def test_an_imu_that_sends_nothing_else_loses_the_attitude(standing: list[Reading]) -> None:
    estimator = Estimator(DT)
    for r in standing:
        feed(estimator, replace(r, gyro=(NAN, 0.0, 0.0)) if r.time_us > 2_000_000 else r)
    assert not estimator.ready
    assert "gyroscope sends impossible numbers" in estimator.arming_faults()


@pytest.mark.parametrize(("sensor", "name"), [("mag", "magnetometer"), ("pressure_hpa", "barometer"), ("fix", "GPS")])
def test_silent_and_stuck_sensors_are_named(standing: list[Reading], sensor: str, name: str) -> None:
    silent = run(replace(r, **{sensor: None}) if r.time_us > 2_500_000 else r for r in standing)
    assert silent.estimator.faults == [f"{name} is silent"]
    assert f"{name} is silent" in silent.estimator.arming_faults()
    held = next(getattr(r, sensor) for r in standing if getattr(r, sensor) is not None)
    stuck = run(replace(r, **{sensor: held}) if getattr(r, sensor) is not None else r for r in standing)
    assert f"{name} is stuck" in stuck.estimator.arming_faults()


@pytest.mark.parametrize(("sensor", "name"), [("accel", "accelerometer"), ("gyro", "gyroscope")])
def test_a_stuck_imu_is_named(standing: list[Reading], sensor: str, name: str) -> None:
    held = getattr(standing[0], sensor)
    result = run(replace(r, **{sensor: held}) for r in standing[:800])
    assert f"{name} is stuck" in result.estimator.arming_faults()


def test_a_sensor_that_moves_again_is_no_longer_stuck(standing: list[Reading]) -> None:
    result = run(replace(r, gyro=standing[600].gyro) if 600 <= r.time_us // DT_US < 720 else r for r in standing)
    assert list(result.seen) == ["gyroscope is stuck"]
    assert result.estimator.faults == []


def test_a_gap_of_the_imu_means_aligning_anew(standing: list[Reading]) -> None:
    estimator = Estimator(DT)
    for r in standing[:500]:
        feed(estimator, r)
    assert estimator.ready
    later = [replace(r, time_us=r.time_us + 3_000_000) for r in standing[500:]]
    feed(estimator, later[0])
    assert not estimator.ready
    assert estimator.arming_faults() == ["IMU was silent for 3.0 s"]
    for r in later[1:500]:
        feed(estimator, r)
    assert estimator.ready
    assert estimator.arming_faults() == []


def test_short_gaps_are_bridged(squares: list[Reading]) -> None:
    result = run(r for r in squares if r.time_us % 400_000 >= 60_000 or r.fix is not None)
    assert result.ready_s is not None
    assert result.ready_s < 3.0
    assert result.errors.vel < 0.3
    assert result.errors.tilt < 3.0


def test_time_that_goes_back_begins_anew(standing: list[Reading]) -> None:
    estimator = Estimator(DT)
    for r in standing:
        feed(estimator, r)
    feed(estimator, standing[0])
    assert not estimator.ready
    assert estimator.home is None
    fresh = Estimator(DT)
    for r in standing[:700]:
        feed(fresh, r)
    for r in standing[1:700]:
        feed(estimator, r)
    assert estimator.state == fresh.state


def test_a_stamp_that_comes_twice_counts_once(standing: list[Reading]) -> None:
    estimator = Estimator(DT)
    for r in standing[:600]:
        feed(estimator, r)
    before = estimator.state
    estimator.imu(standing[599].time_us, (5.0, 0.0, 0.0), (1.0, 0.0, 0.0))
    assert estimator.state == before


def test_one_wild_fix_is_no_fault_and_pulls_little(standing: list[Reading]) -> None:
    k = next(i for i, r in enumerate(standing) if r.fix is not None and r.time_us > 4_000_000)
    wild = replace(standing[k], fix=replace(standing[k].fix, lat_deg=47.40, vel_ned=(50.0, 0.0, 0.0)))
    result = run([*standing[:k], wild, *standing[k + 1 :]])
    assert result.seen == {}
    assert result.errors.pos < 0.7
    assert result.errors.vel < 0.3


def test_a_rough_period_of_other_length_works() -> None:
    assert Estimator(0.02)._delay_samples == 1
    assert Estimator(0.001)._delay_samples == 12
    assert DT_US == 4000


def test_the_flipped_barometer_is_flipped_about_home() -> None:
    r = next(readings(rest(0.1)))
    turned = flipped("baro")(replace(r, pressure_hpa=float(pressure_hpa_at(ZURICH[2] + 10.0))))
    assert float(pressure_altitude_m(turned.pressure_hpa)) == pytest.approx(ZURICH[2] - 10.0, abs=1e-6)
