"""What the sensors deliver and when: schedules, delay, clipping, per-world values, reproducibility."""

from fractions import Fraction

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from firmware_profiles.errors import UsageError
from firmware_profiles.profile import BarometerParams, GnssParams, ImuParams, MagnetometerParams
from twin.environment import pressure_hpa_at
from twin.sensors.barometer import Barometer
from twin.sensors.gnss import Gnss
from twin.sensors.imu import Imu
from twin.sensors.magnetometer import Magnetometer
from twin.sensors.schedule import SampleSchedule, ticks_to_wait

IMU = ImuParams(
    rate_hz=250,
    accel_noise_density_m_s2_sqrt_hz=0.00126,
    accel_bias_walk_m_s2_sqrt_s=5e-5,
    accel_limit_m_s2=156.9,
    gyro_noise_density_rad_s_sqrt_hz=0.000126,
    gyro_bias_walk_rad_s_sqrt_s=2e-6,
    gyro_limit_rad_s=34.9,
)
BARO = BarometerParams(rate_hz=50, noise_hpa=0.02, drift_hpa=0.005, drift_time_constant_s=300)
MAG = MagnetometerParams(rate_hz=50, noise_gauss=0.001)
GNSS = GnssParams(
    rate_hz=10,
    delay_s=0.01,
    horizontal_noise_m=0.02,
    vertical_noise_m=0.03,
    horizontal_drift_m=0.05,
    vertical_drift_m=0.08,
    drift_time_constant_s=60,
    velocity_noise_m_s=0.02,
    eph_m=0.9,
    epv_m=1.8,
    satellites=12,
)
QUIET_GNSS = msgspec.structs.replace(
    GNSS,
    horizontal_noise_m=0.0,
    vertical_noise_m=0.0,
    horizontal_drift_m=0.0,
    vertical_drift_m=0.0,
    velocity_noise_m_s=0.0,
)
TICK_US = 4000
REST = np.array([0.0, 0.0, -9.80665])


def due_ticks(schedule: SampleSchedule, ticks: int) -> list[int]:
    return [tick for tick in range(ticks) if schedule.due(tick)]


# schedule


@given(st.integers(1, 20_000), st.integers(1, 10_000).map(lambda n: n / 1000), st.integers(0, 10**12))
def test_schedule_is_the_floor_law_in_exact_arithmetic(tick_us: int, share: float, tick: int) -> None:
    rate_hz = min(round(share * 1e5 / tick_us, 3), 1e6 / tick_us)
    if rate_hz == 0:
        return
    per_tick = min(Fraction(str(rate_hz)) * tick_us / 10**6, Fraction(1))
    advanced = tick == 0 or (tick * per_tick).__floor__() > ((tick - 1) * per_tick).__floor__()
    assert SampleSchedule(rate_hz, tick_us).due(tick) == advanced


@pytest.mark.parametrize(
    ("rate_hz", "expected"),
    [(250, list(range(20))), (50, [0, 5, 10, 15]), (100, [0, 3, 5, 8, 10, 13, 15, 18]), (62.5, [0, 4, 8, 12, 16])],
)
def test_schedule_at_250_hz(rate_hz: float, expected: list[int]) -> None:
    assert due_ticks(SampleSchedule(rate_hz, TICK_US), 20) == expected


@pytest.mark.parametrize("rate_hz", [0.1, 7.0, 30.0, 33.3, 99.9])
@pytest.mark.parametrize("tick_us", [1000, 3333, 4000])
def test_schedule_does_not_drift(rate_hz: float, tick_us: int) -> None:
    schedule = SampleSchedule(rate_hz, tick_us)
    late = 10**9 // tick_us * 3600  # about a thousand hours on
    in_a_minute = [tick for tick in range(late, late + 60_000_000 // tick_us) if schedule.due(tick)]
    assert abs(len(in_a_minute) - 60 * rate_hz) <= 1
    for tick in in_a_minute:  # each at the first tick not before an ideal moment n / rate
        n = Fraction(tick * tick_us, 10**6) * Fraction(str(rate_hz))
        assert n - n.__floor__() < Fraction(tick_us, 10**6) * Fraction(str(rate_hz))


def test_schedule_with_a_rounded_tick_skips_exactly_what_the_rate_lacks() -> None:
    # 300 Hz on a 3,333 us tick is 0.9999 samples a tick; the tick's own rate, whatever its decimals, is every tick.
    assert len(due_ticks(SampleSchedule(300.0, 3333), 20_000)) == 19_998
    assert len(due_ticks(SampleSchedule(1e6 / 3333, 3333), 20_000)) == 20_000


@pytest.mark.parametrize("rate_hz", [250.1, 1000.0, 0.0, -5.0, float("nan"), float("inf")])
def test_schedule_refuses_a_rate_that_the_tick_cannot_give(rate_hz: float) -> None:
    with pytest.raises(UsageError, match="allowed: above 0, up to 250 Hz"):
        SampleSchedule(rate_hz, TICK_US)


def test_every_rate_bound_sensor_refuses_a_rate_above_the_tick_rate() -> None:
    for sensor, params in ((Barometer, BARO), (Magnetometer, MAG), (Gnss, GNSS)):
        with pytest.raises(UsageError, match="up to 250 Hz"):
            sensor(msgspec.structs.replace(params, rate_hz=500.0), tick_us=TICK_US, seed=0, worlds=[0])
    with pytest.raises(UsageError, match="tick"):
        SampleSchedule(1.0, 0)


# IMU


@pytest.mark.parametrize("axis", range(3))
@pytest.mark.parametrize("sign", [-1, 1])
def test_32_imu_passes_specific_force_of_each_face_down(axis: int, sign: int) -> None:
    force = np.zeros((1, 3))
    force[0, axis] = sign * 9.80665
    imu = Imu(IMU, tick_us=TICK_US, seed=1, worlds=[0])
    accel = np.mean([imu.sample(force, np.zeros((1, 3)))[0] for _ in range(250)], axis=0)
    np.testing.assert_allclose(accel, force, atol=0.01)  # 0.02 / sqrt(250) = 0.0013 per axis


def test_imu_clips_at_its_limits_and_only_there() -> None:
    imu = Imu(IMU, tick_us=TICK_US, seed=1, worlds=[0, 1])
    accel, gyro = imu.sample(np.array([[1e3, -1e3, 100.0], [0, 0, 0]]), np.array([[-40.0, 40.0, 34.0], [0, 0, 0]]))
    np.testing.assert_array_equal(accel[0, :2], [156.9, -156.9])
    np.testing.assert_array_equal(gyro[0, :2], [-34.9, 34.9])
    np.testing.assert_allclose([accel[0, 2], gyro[0, 2]], [100.0, 34.0], atol=0.2)


def test_imu_starts_without_bias_and_returns_fresh_arrays() -> None:
    params = msgspec.structs.replace(IMU, accel_noise_density_m_s2_sqrt_hz=0.0, gyro_noise_density_rad_s_sqrt_hz=0.0)
    imu = Imu(params, tick_us=TICK_US, seed=1, worlds=[0])
    force, rates = REST[None].copy(), np.array([[0.1, 0.2, 0.3]])
    first = imu.sample(force, rates)
    np.testing.assert_array_equal(first[0], force)
    np.testing.assert_array_equal(first[1], rates)
    second = imu.sample(force, rates)
    assert (second[0] != force).all()
    np.testing.assert_array_equal(first[0], REST[None])
    np.testing.assert_array_equal(force, REST[None])


# barometer and magnetometer


def test_barometer_is_due_at_its_rate_and_touches_nothing_in_between() -> None:
    baro = Barometer(BARO, tick_us=TICK_US, seed=1, worlds=range(3))
    alt = np.array([0.0, 488.0, 3000.0])
    for tick in range(50):
        sample = baro.sample(tick, alt if tick % 5 == 0 else None)
        assert (sample is None) == (tick % 5 != 0)
        if sample is not None:
            pressure, pressure_alt, temperature = sample
            np.testing.assert_allclose(pressure, pressure_hpa_at(alt), atol=0.15)
            np.testing.assert_allclose(pressure_alt, alt, atol=1.5)
            np.testing.assert_allclose(temperature, 15 - 0.0065 * alt)


def test_magnetometer_is_due_at_its_rate_and_touches_nothing_in_between() -> None:
    mag = Magnetometer(MAG, tick_us=TICK_US, seed=1, worlds=range(2))
    field = np.array([[0.2, 0.01, 0.43]])
    for tick in range(50):
        assert mag.due(tick) == (tick % 5 == 0)
        sample = mag.sample(tick, field if tick % 5 == 0 else None)
        assert (sample is None) == (tick % 5 != 0)
        if sample is not None:
            assert sample.shape == (2, 3)
            np.testing.assert_allclose(sample, np.broadcast_to(field, (2, 3)), atol=0.006)


# GNSS


def fly(gnss: Gnss, tick_us: int, seconds: float, speed: float = 1.0) -> list[tuple[int, object]]:
    fixes = []
    for tick in range(int(seconds * 1e6) // tick_us):
        north = speed * tick * tick_us * 1e-6
        fix = gnss.sample(tick, np.array([[north, 0.0, 0.0]]), np.array([[speed, 0.0, 0.0]]))
        if fix is not None:
            fixes.append((tick, fix))
    return fixes


@pytest.mark.parametrize("rate_hz", [1, 5, 8, 10])
@pytest.mark.parametrize("delay_s", [0.0, 0.01, 0.1, 0.2, 0.45])
@pytest.mark.parametrize("tick_us", [1000, 4000])
def test_44_fixes_come_at_their_rate_and_their_delay(rate_hz: int, delay_s: float, tick_us: int) -> None:
    params = msgspec.structs.replace(QUIET_GNSS, rate_hz=float(rate_hz), delay_s=delay_s)
    gnss = Gnss(params, tick_us=tick_us, seed=1, worlds=[0])
    fixes = fly(gnss, tick_us, 4.0)
    delivered_s = np.array([tick for tick, _ in fixes]) * tick_us * 1e-6
    measured_s = np.array([fix.measured_tick for _, fix in fixes]) * tick_us * 1e-6
    assert len(fixes) == pytest.approx((4.0 - delay_s) * rate_hz, abs=1)
    # PX4 sees a steady 5 Hz stream (and any other) within 5 ms; the age is the delay rounded up to a tick.
    np.testing.assert_allclose(delivered_s, delivered_s[0] + np.arange(len(fixes)) / rate_hz, atol=0.005)
    np.testing.assert_allclose(np.diff(measured_s), np.diff(delivered_s), atol=1e-12)
    age_s = delivered_s - measured_s
    assert (age_s >= delay_s - 1e-9).all()
    assert (age_s < delay_s + tick_us * 1e-6 - 1e-9).all()
    # The fix is where the vehicle was at measured_tick, not where it is at delivery: 1 m/s north from zero.
    np.testing.assert_allclose([fix.pos_ned[0, 0] for _, fix in fixes], measured_s, atol=1e-12)
    np.testing.assert_allclose([fix.vel_ned[0] for _, fix in fixes], [[1.0, 0.0, 0.0]] * len(fixes), atol=1e-12)


@pytest.mark.parametrize(
    ("delay_s", "tick_us", "ticks"),
    [(0, 4000, 0), (0.01, 4000, 3), (0.012, 4000, 3), (0.1, 1000, 100), (1e-6, 4000, 1)],
)
def test_44_delay_is_rounded_up_to_whole_ticks(delay_s: float, tick_us: int, ticks: int) -> None:
    assert ticks_to_wait(delay_s, tick_us) == ticks
    params = msgspec.structs.replace(GNSS, delay_s=delay_s)
    assert Gnss(params, tick_us=tick_us, seed=0, worlds=[0]).delay_ticks == ticks


def test_44_a_negative_delay_is_refused() -> None:
    for delay_s in (-0.1, float("nan"), float("inf")):
        with pytest.raises(UsageError, match="allowed: 0 and above"):
            ticks_to_wait(delay_s, TICK_US)


def test_gnss_touches_nothing_between_measurement_and_delivery() -> None:
    gnss = Gnss(GNSS, tick_us=TICK_US, seed=1, worlds=[0])
    still = np.zeros((1, 3))
    delivered = [
        tick for tick in range(100) if gnss.sample(tick, *((still, still) if tick % 25 == 0 else (None, None)))
    ]
    assert delivered == [3, 28, 53, 78]


def test_gnss_fix_does_not_follow_the_callers_buffer() -> None:
    gnss = Gnss(QUIET_GNSS, tick_us=TICK_US, seed=1, worlds=[0])
    pos, vel = np.ones((1, 3)), np.ones((1, 3))
    gnss.sample(0, pos, vel)
    pos[:], vel[:] = 7.0, 7.0
    fix = [gnss.sample(tick, pos, vel) for tick in (1, 2, 3)][-1]
    np.testing.assert_array_equal(fix.pos_ned, np.ones((1, 3)))
    np.testing.assert_array_equal(fix.vel_ned, np.ones((1, 3)))


def test_gnss_reset_forgets_a_fix_under_way() -> None:
    gnss = Gnss(GNSS, tick_us=TICK_US, seed=1, worlds=[0])
    still = np.zeros((1, 3))
    gnss.sample(0, still, still)
    gnss.reset()
    assert [gnss.sample(tick, still, still) for tick in range(1, 25)] == [None] * 24


# all of them


def run_all(worlds, ticks: int = 300, seed: int = 11, reset_after: int | None = None) -> list[np.ndarray]:
    """Everything that four sensors deliver, as arrays with the world axis first."""
    n = len(worlds)
    sensors = [
        kind(params, tick_us=TICK_US, seed=seed, worlds=worlds)
        for kind, params in ((Imu, IMU), (Barometer, BARO), (Magnetometer, MAG), (Gnss, GNSS))
    ]
    imu, baro, mag, gnss = sensors
    rest, still, alt = np.tile(REST, (n, 1)), np.zeros((n, 3)), np.full(n, 488.0)

    def run(count: int) -> list[np.ndarray]:
        out: list[np.ndarray] = []
        for tick in range(count):
            out += imu.sample(rest, still)
            out += [column[:, None] for column in baro.sample(tick, alt) or ()]
            reading, fix = mag.sample(tick, still), gnss.sample(tick, still, still)
            out += [reading] if reading is not None else []
            out += [fix.pos_ned, fix.vel_ned] if fix is not None else []
        return out

    if reset_after is not None:
        run(reset_after)
        for sensor in sensors:
            sensor.reset()
    return run(ticks)


def test_first_eight_worlds_are_the_same_among_64() -> None:
    for few, many in zip(run_all(range(8)), run_all(range(64)), strict=True):
        np.testing.assert_array_equal(many[:8], few)


def test_one_world_is_the_world_of_its_number() -> None:
    for alone, many in zip(run_all([7]), run_all(range(8)), strict=True):
        np.testing.assert_array_equal(alone[0], many[7])


def test_reset_replays_and_another_seed_does_not() -> None:
    first = run_all(range(2))
    for again, one in zip(run_all(range(2), reset_after=37), first, strict=True):
        np.testing.assert_array_equal(again, one)
    other = run_all(range(2), seed=12)
    assert all((a != b).any() for a, b in zip(other[:2], first[:2], strict=True))
