"""The estimator on synthetic motion: accuracy, wrong sensors, broken streams, and what it must not do."""

import math
from dataclasses import replace
from itertools import islice

import numpy as np
import pytest
from estimator_rig import (
    DATE,
    DT,
    SYDNEY,
    TROMSO,
    ZURICH,
    Motion,
    Reading,
    drive,
    euler_deg,
    fast_flight,
    feed,
    readings,
    rest,
    run,
    square_flight,
)

from lav2_hil.autopilot import alignment
from lav2_hil.autopilot.estimator import EstimatedState, Estimator
from twin.environment import magnetic_field_ned_gauss
from twin.frames import quat_multiply

NAN, INF = math.nan, math.inf


@pytest.fixture(scope="module")
def standing() -> list[Reading]:
    return list(readings(rest(6.0, 40.0)))


@pytest.fixture(scope="module")
def squares() -> list[Reading]:
    return list(readings(square_flight(2.0, 20.0, yaw_turns=True), seed=5))


# Alignment


@pytest.mark.parametrize("place", [ZURICH, SYDNEY, TROMSO])
@pytest.mark.parametrize("heading_deg", [0.0, 90.0, 200.0])
def test_aligns_within_three_seconds(place: tuple[float, float, float], heading_deg: float) -> None:
    tilt = (math.radians(4.0), math.radians(-6.0))
    result = run(readings(rest(3.0, heading_deg, tilt), place))
    assert result.ready_s is not None
    assert 1.0 <= result.ready_s < 2.0
    result.errors.assert_small()
    estimator = result.estimator
    roll, pitch, yaw = euler_deg(estimator.state.q_ned_frd)
    assert roll == pytest.approx(4.0, abs=0.5)
    assert pitch == pytest.approx(-6.0, abs=0.5)
    assert math.remainder(yaw - heading_deg, 360.0) == pytest.approx(0.0, abs=1.0)
    assert estimator.faults == []
    assert estimator.arming_faults() == []
    assert estimator.home == pytest.approx(place, abs=0.2)


def test_home_is_the_first_good_fix(standing: list[Reading]) -> None:
    first = next(r.fix for r in standing if r.fix is not None)
    assert run(iter(standing)).estimator.home == (first.lat_deg, first.lon_deg, first.alt_amsl_m)


def test_before_anything_arrives() -> None:
    estimator = Estimator(DT)
    assert not estimator.ready
    assert estimator.home is None
    assert estimator.arming_faults() == ["no sensors yet"]
    with pytest.raises(RuntimeError, match="not ready"):
        _ = estimator.state


@pytest.mark.parametrize(
    ("missing", "reason"),
    [
        ({"mag": None}, "no magnetometer data"),
        ({"pressure_hpa": None}, "no barometer data"),
        ({"fix": None}, "no GPS fix"),
    ],
)
def test_says_what_is_missing(standing: list[Reading], missing: dict[str, None], reason: str) -> None:
    result = run(replace(r, **missing) for r in standing[:600])
    assert result.ready_s is None
    assert result.estimator.arming_faults() == [reason]


def test_waits_for_stillness_and_a_second_of_gps() -> None:
    moving = Motion(np.zeros((500, 3)), np.linspace(0.0, 2.0, 500), level=True)
    estimator = Estimator(DT)
    for reading in readings(moving):
        feed(estimator, reading)
        assert not estimator.ready
    assert estimator.arming_faults() == ["aligning: hold the vehicle still"]
    sliding = Motion(np.full((1000, 3), (0.0, 0.6, 0.0)), np.zeros(1000), level=True)
    assert run(readings(sliding)).ready_s is None
    late = run(replace(r, fix=None) if r.time_us < 2_000_000 else r for r in readings(rest(4.0)))
    assert late.ready_s == pytest.approx(3.1, abs=0.25)


def test_a_move_while_aligning_begins_anew() -> None:
    yaw = np.concatenate((np.zeros(200), np.linspace(0.0, 0.5, 50), np.full(500, 0.5)))
    result = run(readings(Motion(np.zeros((750, 3)), yaw, level=True)))
    assert result.ready_s is not None
    assert result.ready_s >= 2.0
    result.errors.assert_small()


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"accel": (0.0, 0.0, 9.8)}, "accelerometer says upside down"),
        ({"accel": (0.0, 6.3, -7.5)}, "accelerometer says tilted by 40 degrees"),
        ({"accel": (0.0, 0.0, -8.0)}, "accelerometer reads 8.0 m/s2 at rest, not 9.8"),
        ({"gyro": (0.0, 0.1, 0.0)}, "gyroscope y reads 5.7 deg/s at rest"),
    ],
)
def test_refuses_an_attitude_that_cannot_be(change: dict[str, tuple[float, ...]], reason: str) -> None:
    def wrong(r: Reading) -> Reading:
        wobble = 1e-3 * math.sin(r.time_us)
        return replace(r, **{name: tuple(v + wobble for v in value) for name, value in change.items()})

    result = run(readings(rest(3.0)), wrong)
    assert result.ready_s is None
    assert result.estimator.arming_faults() == [reason]


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"fix_type": 2}, "no GPS fix"),
        ({"satellites": 5}, "GPS sees 5 satellites, 6 needed"),
        ({"eph_m": 4.0}, "GPS accuracy 4.0 m, 3 m needed"),
        ({"epv_m": 9.0}, "GPS height accuracy 9.0 m, 5 m needed"),
    ],
)
@pytest.mark.parametrize("from_s", [0.0, 3.0])
def test_refuses_a_poor_fix(standing: list[Reading], change: dict[str, float], reason: str, from_s: float) -> None:
    def poor(r: Reading) -> Reading:
        return r if r.fix is None or r.time_us < 1e6 * from_s else replace(r, fix=replace(r.fix, **change))

    result = run(iter(standing), poor)
    assert (result.ready_s is None) == (from_s == 0.0)
    assert any(reason in fault or fault == "no GPS fix" for fault in result.estimator.arming_faults())
    if from_s:
        assert result.estimator.arming_faults() == [reason]


def test_names_a_wrong_magnetic_field_and_a_wrong_barometer(standing: list[Reading]) -> None:
    def stronger(r: Reading) -> Reading:
        return r if r.mag is None else replace(r, mag=tuple(1.5 * m for m in r.mag))

    result = run(iter(standing), stronger)
    assert result.estimator.arming_faults() == ["magnetic strength disagrees with the world model"]
    assert result.estimator.faults == result.estimator.arming_faults()

    def higher(r: Reading) -> Reading:
        return r if r.pressure_hpa is None else replace(r, pressure_hpa=r.pressure_hpa - 10.0)

    (fault,) = run(iter(standing), higher).estimator.arming_faults()
    assert fault.startswith("barometer is ")
    assert fault.endswith("m off the GPS altitude")
    assert len(fault) <= 50


def test_a_date_outside_the_magnetic_model_is_named(standing: list[Reading]) -> None:
    for utc_us in (0, 10**18, 10**30):
        result = run(
            r if r.fix is None else replace(r, fix=replace(r.fix, utc_us=utc_us + r.time_us)) for r in standing[:500]
        )
        assert result.ready_s is None
        assert result.estimator.arming_faults() == ["GPS place or date has no magnetic model"]


# Accuracy and silence in healthy motion

HEALTHY = {
    "square": square_flight(2.0, 90.0),
    "square with turns": square_flight(2.0, 200.0, yaw_turns=True),
    "fast": fast_flight(),
    "drive": drive(30.0),
}


@pytest.mark.parametrize("name", list(HEALTHY))
@pytest.mark.parametrize("place", [ZURICH, TROMSO])
def test_estimates_well_and_finds_no_fault(name: str, place: tuple[float, float, float]) -> None:
    result = run(readings(HEALTHY[name], place, seed=3))
    result.errors.assert_small()
    assert result.seen == {}
    covariance = result.estimator._filter.covariance
    assert (covariance == covariance.T).all()
    assert np.linalg.eigvalsh(covariance).min() > 0.0


@pytest.mark.parametrize("every", [2, 10])
def test_a_slow_gps_is_enough(squares: list[Reading], every: int) -> None:
    def thin(r: Reading) -> Reading:
        return r if r.time_us // 100_000 % every == 0 else replace(r, fix=None)

    result = run(iter(squares), thin)
    assert result.seen == {}
    result.errors.assert_small()
    outlier = replace(squares[2003].fix, vel_ned=(9.0, 9.0, 9.0)) if squares[2003].fix else None
    assert outlier is not None
    assert run(thin(replace(r, fix=outlier) if r.time_us == squares[2003].time_us else r) for r in squares).seen == {}


@pytest.mark.parametrize("noise", [0.1, 4.0])
def test_other_noise_is_no_fault(noise: float) -> None:
    result = run(readings(square_flight(2.0, 90.0), seed=4, noise=noise))
    assert result.ready_s is not None
    assert result.seen == {}


def vibration(motion: Motion, accel_m_s2: float, seed: int) -> np.ndarray:
    """Velocity of a rough ride on wheels: five tones between 8 and 40 Hz, while it rolls."""
    rng = np.random.default_rng(seed)
    t = np.arange(len(motion.vel))[:, None] * DT
    rolling = np.minimum(1.0, np.linalg.norm(motion.vel, axis=1))[:, None]
    shake = np.zeros((len(motion.vel), 3))
    for hz in (8.0, 13.0, 21.0, 30.0, 40.0):
        shake += accel_m_s2 / (2 * np.pi * hz) * np.sin(2 * np.pi * hz * t + rng.uniform(0, 6, 3))
    return shake * rolling


@pytest.mark.parametrize("seed", range(3))
def test_rough_ground_is_no_fault(seed: int) -> None:
    motion = drive(50.0 * seed)
    result = run(readings(motion, seed=seed, shake=vibration(motion, 2.0, seed)))
    assert result.seen == {}
    result.errors.assert_small()


def test_the_estimate_turns_with_the_world(monkeypatch: pytest.MonkeyPatch) -> None:
    turn = 1.1
    field = magnetic_field_ned_gauss(*ZURICH, DATE)
    c, s = math.cos(turn), math.sin(turn)
    matrix = np.array([[c, -s, 0.0], [s, c, 0.0], [0.0, 0.0, 1.0]])
    plain = square_flight(2.0, 15.0, yaw_turns=True)
    turned = Motion(plain.vel @ matrix.T, plain.yaw + turn)
    a = run(islice(readings(plain, noise=0.0), 3000)).estimator.state
    monkeypatch.setattr(alignment, "magnetic_field_ned_gauss", lambda *_: matrix @ field)
    b = run(islice(readings(turned, field_ned=matrix @ field, noise=0.0), 3000)).estimator.state
    assert matrix @ a.pos_ned == pytest.approx(np.array(b.pos_ned), abs=2e-3)
    assert matrix @ a.vel_ned == pytest.approx(np.array(b.vel_ned), abs=2e-3)
    assert matrix @ a.accel_ned == pytest.approx(np.array(b.accel_ned), abs=5e-3)
    error = quat_multiply(
        np.array(b.q_ned_frd),
        quat_multiply(np.array((math.cos(turn / 2), 0, 0, math.sin(turn / 2))), np.array(a.q_ned_frd))
        * (1, -1, -1, -1),
    )
    assert abs(error[0]) == pytest.approx(1.0, abs=1e-6)


def test_the_same_calls_give_the_same_bits(squares: list[Reading]) -> None:
    def states() -> list[EstimatedState]:
        estimator, out = Estimator(DT), []
        for reading in squares[:2500]:
            feed(estimator, reading)
            if estimator.ready:
                out.append(estimator.state)
        return out

    first = states()
    assert first == states()
    assert len(first) > 2000
    assert all(type(value) is float for value in (*first[-1].pos_ned, *first[-1].q_ned_frd, first[-1].height_m))


def test_state_is_that_of_the_newest_sample(squares: list[Reading]) -> None:
    estimator = Estimator(DT)
    for reading in squares[:2300]:
        feed(estimator, reading)
    state, newest = estimator.state, squares[2299]
    assert state.height_m == -state.pos_ned[2]
    assert state.rates_frd == pytest.approx(newest.gyro, abs=0.01)
    slope = (squares[2299].vel - squares[2298].vel) / DT
    assert state.accel_ned == pytest.approx(slope, abs=0.15)
