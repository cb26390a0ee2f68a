"""Sensor axes that are turned round: the estimator must find each of them, and name it."""

import math
from itertools import islice

import pytest
from estimator_rig import (
    Reading,
    drive,
    flipped,
    readings,
    rest,
    run,
    square_flight,
)

NAN, INF = math.nan, math.inf


def all_short(faults: list[str]) -> bool:
    return all(len(fault) <= 50 for fault in faults)


@pytest.fixture(scope="module")
def standing() -> list[Reading]:
    return list(readings(rest(6.0, 40.0)))


@pytest.fixture(scope="module")
def squares() -> list[Reading]:
    return list(readings(square_flight(2.0, 20.0, yaw_turns=True), seed=5))


AT_REST = {
    ("accel", 2): "accelerometer says upside down",
    ("mag", 2): "magnetic inclination disagrees with world model",
}


@pytest.mark.parametrize(("sensor", "axis"), list(AT_REST))
def test_a_turned_axis_is_named_at_rest(standing: list[Reading], sensor: str, axis: int) -> None:
    assert AT_REST[sensor, axis] in run(iter(standing), flipped(sensor, axis)).estimator.arming_faults()


IN_FLIGHT = {
    ("accel", 0): "accelerometer x runs against the GPS velocity",
    ("accel", 1): "accelerometer y runs against the GPS velocity",
    ("gyro", 0): "gyroscope x runs against the magnetometer",
    ("gyro", 1): "gyroscope y runs against the magnetometer",
    ("gyro", 2): "gyroscope z runs against the magnetometer",
    ("mag", 0): "magnetometer x runs against the gyroscope",
    ("mag", 1): "magnetometer y runs against the gyroscope",
    ("mag", 2): "magnetometer z runs against the gyroscope",
    ("gps", 0): "GPS velocity north runs against GPS position",
    ("gps", 1): "GPS velocity east runs against GPS position",
    ("gps", 2): "GPS velocity down runs against GPS position",
    ("baro", 0): "barometer runs against the GPS height",
}


@pytest.mark.parametrize(("sensor", "axis"), list(IN_FLIGHT))
def test_a_turned_axis_is_named_in_flight(squares: list[Reading], sensor: str, axis: int) -> None:
    result = run(iter(squares), flipped(sensor, axis))
    assert IN_FLIGHT[sensor, axis] in result.seen
    assert all_short(list(result.seen))
    others = set(IN_FLIGHT.values()) - {IN_FLIGHT[sensor, axis]}
    if sensor in ("gps", "baro", "accel"):
        assert not others & set(result.seen)


@pytest.mark.parametrize("sign", [-1.0, 1.0])
@pytest.mark.parametrize(("sensor", "axis"), [("accel", 0), ("accel", 1)])
@pytest.mark.parametrize("seed", range(3))
def test_one_arc_of_a_rover_tells_an_accelerometer_axis(sign: float, sensor: str, axis: int, seed: int) -> None:
    motion = drive(70.0 * seed, arcs=1, lateral=0.6 * sign)
    result = run(islice(readings(motion, seed=seed), 2000), flipped(sensor, axis))
    assert set(result.seen) == {IN_FLIGHT[sensor, axis]}
    assert run(islice(readings(motion, seed=seed), 2000)).seen == {}


@pytest.mark.parametrize(("sensor", "axis"), [("gyro", 2), ("mag", 0), ("mag", 1), ("gps", 0), ("gps", 1)])
def test_a_rover_tells_a_turned_axis(sensor: str, axis: int) -> None:
    assert run(readings(drive(30.0), seed=1), flipped(sensor, axis)).seen


@pytest.mark.parametrize("drag", [0.1, 0.25])
@pytest.mark.parametrize("axis", [0, 1])
def test_weak_drag_tells_an_accelerometer_axis(drag: float, axis: int) -> None:
    result = run(readings(square_flight(2.0, 20.0, drag=drag), seed=2), flipped("accel", axis))
    assert IN_FLIGHT["accel", axis] in result.seen


def test_a_sensor_that_turns_round_in_flight_is_named(squares: list[Reading]) -> None:
    for sensor, axis in (("gps", 0), ("gyro", 2), ("mag", 0)):
        flip = flipped(sensor, axis)
        result = run(flip(r) if r.time_us > 9_000_000 else r for r in squares)
        assert result.seen
        assert min(result.seen.values()) > 9.0
