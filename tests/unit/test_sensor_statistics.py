"""The laws of the noise, over many worlds. Bounds are five standard errors or more; seeds are fixed."""

import msgspec
import numpy as np
import pytest

from firmware_profiles.errors import UsageError
from firmware_profiles.profile import BarometerParams, GnssParams, ImuParams, MagnetometerParams
from twin.environment import pressure_hpa_at
from twin.sensors.barometer import Barometer
from twin.sensors.gnss import Gnss
from twin.sensors.imu import Imu
from twin.sensors.magnetometer import Magnetometer

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


def assert_standard_normal(x: np.ndarray) -> None:
    """Mean, deviation, skewness, kurtosis and neighbours' correlation of (steps, independent series), by 5 sigma."""
    n = x.size
    assert abs(x.mean()) < 5 / np.sqrt(n)
    assert abs(x.std() - 1) < 5 / np.sqrt(2 * n)
    assert abs((x**3).mean()) < 5 * np.sqrt(15 / n)
    assert abs((x**4).mean() - 3) < 5 * np.sqrt(96 / n)
    for lag in (1, 2, 7):
        assert abs((x[lag:] * x[:-lag]).mean()) < 5 / np.sqrt(n * (1 - lag / len(x)))
    if x.shape[1] > 1:
        across = x.T @ x / len(x) - np.diag((x**2).mean(axis=0))
        assert np.abs(across).max() < 6 / np.sqrt(len(x))


@pytest.mark.parametrize("tick_us", [1000, 4000])
def test_imu_white_noise_follows_its_density_at_any_tick(tick_us: int) -> None:
    params = msgspec.structs.replace(IMU, accel_bias_walk_m_s2_sqrt_s=0.0, gyro_bias_walk_rad_s_sqrt_s=0.0)
    imu = Imu(params, tick_us=tick_us, seed=2, worlds=range(4))
    force, rates = np.tile([0.0, 0.0, -9.80665], (4, 1)), np.full((4, 3), 0.3)
    samples = [imu.sample(force, rates) for _ in range(10_000)]
    root = np.sqrt(1e6 / tick_us)
    accel = np.array([accel for accel, _ in samples]) - force
    gyro = np.array([gyro for _, gyro in samples]) - rates
    scaled = np.concatenate((accel / (0.00126 * root), gyro / (0.000126 * root)), axis=2)
    assert_standard_normal(scaled.reshape(len(samples), -1))


def test_34_accelerometer_bias_after_600_s_follows_its_law() -> None:
    """Public report 34: the bias walk at 600 s matches walk * sqrt(t), at 250 Hz, for both sensors."""
    worlds, ticks = 64, 150_000
    params = msgspec.structs.replace(IMU, accel_noise_density_m_s2_sqrt_hz=0.0, gyro_noise_density_rad_s_sqrt_hz=0.0)
    imu = Imu(params, tick_us=4000, seed=3, worlds=range(worlds))
    rest, still = np.tile([0.0, 0.0, -9.80665], (worlds, 1)), np.zeros((worlds, 3))
    for tick in range(ticks + 1):
        accel, gyro = imu.sample(rest, still)
        if tick == ticks // 4:
            quarter = accel - rest
    bias = accel - rest
    law = 5e-5 * np.sqrt(600.0)
    # z alone: 64 values, one standard error is 9 %. All axes of both sensors: 384 values, 3.6 %.
    assert bias[:, 2].std() == pytest.approx(law, rel=0.45)
    normal = np.concatenate((bias / law, gyro / (2e-6 * np.sqrt(600.0))), axis=1)
    assert np.sqrt((normal**2).mean()) == pytest.approx(1.0, rel=0.18)
    assert abs(normal.mean()) < 5 / np.sqrt(normal.size)
    # sqrt(t): half the deviation at a quarter of the time, and the later part is independent of the earlier.
    assert np.sqrt((quarter**2).mean()) == pytest.approx(law / 2, rel=0.26)
    assert abs(np.corrcoef(quarter.ravel(), (bias - quarter).ravel())[0, 1]) < 5 / np.sqrt(bias.size)


@pytest.mark.parametrize("tick_us", [5_000, 20_000])
def test_bias_walk_does_not_depend_on_the_tick(tick_us: int) -> None:
    worlds = 1500
    params = msgspec.structs.replace(IMU, accel_noise_density_m_s2_sqrt_hz=0.0)
    imu = Imu(params, tick_us=tick_us, seed=4, worlds=range(worlds))
    nothing = np.zeros((worlds, 3))
    for _ in range(10_000_000 // tick_us + 1):
        accel, _ = imu.sample(nothing, nothing)
    n = accel.size
    assert accel.std() == pytest.approx(5e-5 * np.sqrt(10.0), rel=5 / np.sqrt(2 * n))


def test_barometer_noise_is_gaussian_without_offset() -> None:
    # The wrong use of Box-Muller in other simulators shows as a mean of -0.085 sigma.
    params = msgspec.structs.replace(BARO, drift_hpa=0.0)
    baro = Barometer(params, tick_us=4000, seed=5, worlds=range(8))
    alt = np.linspace(0.0, 3000.0, 8)
    noise = np.array([baro.sample(5 * n, alt)[0] for n in range(10_000)]) - pressure_hpa_at(alt)
    assert_standard_normal(noise / 0.02)


def test_34_mean_barometer_altitude_of_ten_minutes_is_true() -> None:
    """Public report 34: ten minutes at rest, mean barometer altitude within 0.2 m of the truth, in each world."""
    baro = Barometer(BARO, tick_us=4000, seed=6, worlds=range(200))
    alt = np.full(200, 488.0)
    mean = np.zeros(200)
    for n in range(30_000):
        mean += baro.sample(5 * n, alt)[1]
    error = mean / 30_000 - alt
    assert np.abs(error).max() < 0.2
    # Not by the absence of drift: its share of the mean is 0.005 hPa (0.044 m here) times 0.59, from zero.
    assert 0.015 < error.std() < 0.035


@pytest.mark.parametrize("rate_hz", [10.0, 50.0])
def test_barometer_drift_has_its_deviation_and_time_constant_at_any_rate(rate_hz: float) -> None:
    worlds, tau_s = 3000, 20.0
    params = msgspec.structs.replace(BARO, rate_hz=rate_hz, noise_hpa=0.0, drift_hpa=0.5, drift_time_constant_s=tau_s)
    baro = Barometer(params, tick_us=20_000, seed=7, worlds=range(worlds))
    alt, seen = np.zeros(worlds), {}
    for tick in range(int(80e6) // 20_000 + 1):
        sample = baro.sample(tick, alt)
        if sample is not None:
            seen[tick * 20_000] = sample[0] - 1013.25
    start, early, late = seen[0], seen[60_000_000], seen[80_000_000]
    np.testing.assert_array_equal(start, 0.0)
    for at, time_s in ((seen[5_000_000], 5.0), (early, 60.0), (late, 80.0)):
        law = 0.5 * np.sqrt(1 - np.exp(-2 * time_s / tau_s))
        assert at.std() == pytest.approx(law, rel=5 / np.sqrt(2 * worlds))
        assert abs((at**4).mean() / (at**2).mean() ** 2 - 3) < 5 * np.sqrt(24 / worlds)
    assert np.corrcoef(early, late)[0, 1] == pytest.approx(np.exp(-1), abs=5 * (1 - np.exp(-2)) / np.sqrt(worlds))


def test_magnetometer_noise_is_white_and_gaussian() -> None:
    mag = Magnetometer(MAG, tick_us=20_000, seed=8, worlds=range(4))
    field = np.array([[0.2174, 0.0129, 0.4305]])
    noise = np.array([mag.sample(tick, field) for tick in range(10_000)]) - field
    assert_standard_normal(noise.reshape(10_000, -1) / 0.001)


def test_gnss_white_noise_of_position_and_velocity() -> None:
    params = msgspec.structs.replace(GNSS, horizontal_drift_m=0.0, vertical_drift_m=0.0, delay_s=0.0)
    gnss = Gnss(params, tick_us=100_000, seed=9, worlds=range(4))
    pos, vel = np.array([[1.0, -2.0, -30.0]]), np.array([[0.5, 0.0, -0.1]])
    fixes = [gnss.sample(tick, pos, vel) for tick in range(10_000)]
    white = np.array([fix.pos_ned for fix in fixes]) - pos
    speed = np.array([fix.vel_ned for fix in fixes]) - vel
    scaled = np.concatenate((white / [0.02, 0.02, 0.03], speed / 0.02), axis=2)
    assert_standard_normal(scaled.reshape(10_000, -1))


@pytest.mark.parametrize("gnss_hz", [5.0, 10.0])
@pytest.mark.parametrize("tick_us", [1000, 4000])
def test_gnss_drift_depends_on_neither_tick_rate_nor_gnss_rate(tick_us: int, gnss_hz: float) -> None:
    worlds, tau_s = 1500, 10.0
    params = msgspec.structs.replace(
        GNSS,
        rate_hz=gnss_hz,
        delay_s=0.0,
        horizontal_noise_m=0.0,
        vertical_noise_m=0.0,
        horizontal_drift_m=1.0,
        vertical_drift_m=2.0,
        drift_time_constant_s=tau_s,
    )
    gnss = Gnss(params, tick_us=tick_us, seed=10, worlds=range(worlds))
    still, seen = np.zeros((worlds, 3)), {}
    for tick in range(50_000_000 // tick_us + 1):
        fix = gnss.sample(tick, still, still)
        if fix is not None:
            seen[tick * tick_us] = fix.pos_ned
    np.testing.assert_array_equal(seen[0], 0.0)
    early, late = seen[40_000_000] / [1, 1, 2], seen[50_000_000] / [1, 1, 2]
    n = late.size
    assert late.std() == pytest.approx(1.0, rel=5 / np.sqrt(2 * n))
    assert late[:, 2].std() == pytest.approx(1.0, rel=5 / np.sqrt(2 * worlds))
    assert abs(late.mean()) < 5 / np.sqrt(n)
    correlation = (early * late).mean() / np.sqrt((early**2).mean() * (late**2).mean())
    assert correlation == pytest.approx(np.exp(-1), abs=5 * (1 - np.exp(-2)) / np.sqrt(n))
    axes = late.T @ late / worlds - np.diag((late**2).mean(axis=0))
    assert np.abs(axes).max() < 5 / np.sqrt(worlds)


@pytest.mark.parametrize("gnss_hz", [5.0, 10.0])
def test_gnss_at_rest_passes_px4s_drift_checks(gnss_hz: float) -> None:
    """PX4's Ekf::gps_is_good (src/modules/ekf2/EKF/gps_checks.cpp), over five minutes in 500 worlds.

    Limits EKF2_REQ_HDRIFT 0.1 m/s and EKF2_REQ_VDRIFT 0.2 m/s. The drift itself must also leave a hover that follows
    it within 0.5 m of the truth.
    """
    worlds, dt = 500, 1 / gnss_hz
    gnss = Gnss(GNSS, tick_us=int(1e6 * dt) // 5, seed=11, worlds=range(worlds))
    limit = np.array([0.1, 0.1, 0.2])
    still = np.zeros((worlds, 3))
    previous, moved, speed = None, np.zeros((worlds, 3)), np.zeros((worlds, 3))
    furthest, fastest, farthest = 0.0, 0.0, np.zeros(3)
    for tick in range(int(300 * 5 / dt)):
        fix = gnss.sample(tick, still, still)
        if fix is None:
            continue
        if previous is not None:
            step = np.clip((fix.pos_ned - previous) / dt, -10 * limit, 10 * limit)
            moved += (step - moved) * dt / 10
            speed += (fix.vel_ned - speed) * dt / 10
            furthest = max(furthest, np.hypot(moved[:, 0], moved[:, 1]).max())
            fastest = max(fastest, np.hypot(speed[:, 0], speed[:, 1]).max())
            assert np.abs(moved[:, 2]).max() < 0.2
        previous = fix.pos_ned
        farthest = np.maximum(farthest, np.abs(fix.pos_ned).max(axis=0))
    assert 0.005 < furthest < 0.1
    assert 0.002 < fastest < 0.1
    assert (farthest < 0.5).all()
    assert (farthest > 0.15).all()


def test_barometer_and_accelerometer_never_look_stale_to_px4() -> None:
    # PX4 calls a sensor stale after 100 equal samples; what goes out is single precision.
    baro = Barometer(BARO, tick_us=4000, seed=1, worlds=[0])
    imu = Imu(IMU, tick_us=4000, seed=1, worlds=[0])
    alt, rest, still = np.array([0.0]), np.array([[0.0, 0.0, -9.80665]]), np.zeros((1, 3))
    pressure = np.array([baro.sample(5 * n, alt)[0] for n in range(5000)], dtype=np.float32)[:, 0]
    accel = np.array([imu.sample(rest, still)[0][0] for _ in range(5000)], dtype=np.float32)
    for series in (pressure, *accel.T):
        equal = np.diff(series) == 0
        assert not (equal[1:] & equal[:-1]).any()
        assert equal.mean() < 0.01


def test_noise_may_differ_between_worlds() -> None:
    column = np.array([[0.0], [1.0], [3.0]])
    nothing = np.zeros((3, 3))
    imu = Imu(
        msgspec.structs.replace(IMU, accel_noise_density_m_s2_sqrt_hz=0.01 * column, accel_bias_walk_m_s2_sqrt_s=0.0),
        tick_us=4000,
        seed=1,
        worlds=[5, 5, 5],  # the same numbers in each row: only the scale differs
    )
    accel, gyro = imu.sample(nothing, nothing)
    np.testing.assert_allclose(accel, accel[1] * column, atol=1e-15)
    assert (accel[1] != 0).all()
    np.testing.assert_array_equal(gyro[0], gyro[2])

    mag = Magnetometer(msgspec.structs.replace(MAG, noise_gauss=column), tick_us=4000, seed=1, worlds=[5, 5, 5])
    reading = mag.sample(0, nothing)
    np.testing.assert_allclose(reading, reading[1] * column, atol=1e-15)

    changed = {
        "noise_hpa": 0.0,
        "drift_hpa": column,
        "drift_time_constant_s": np.full((3, 1), 1.0),
    }
    baro = Barometer(msgspec.structs.replace(BARO, **changed), tick_us=4000, seed=1, worlds=[5, 5, 5])
    baro.sample(0, np.zeros(3))
    drift = baro.sample(5, np.zeros(3))[0] - 1013.25
    np.testing.assert_allclose(drift, drift[1] * column[:, 0], atol=1e-10)
    assert drift[1] != 0

    gnss = Gnss(
        msgspec.structs.replace(
            GNSS,
            horizontal_noise_m=0.0,
            horizontal_drift_m=0.0,
            vertical_drift_m=0.0,
            delay_s=0.0,
            vertical_noise_m=column,
            velocity_noise_m_s=2 * column,
        ),
        tick_us=4000,
        seed=1,
        worlds=[5, 5, 5],
    )
    fix = gnss.sample(0, nothing, nothing)
    np.testing.assert_allclose(fix.pos_ned, fix.pos_ned[1] * column, atol=1e-15)
    np.testing.assert_array_equal(fix.pos_ned[:, :2], 0.0)
    np.testing.assert_allclose(fix.vel_ned, fix.vel_ned[1] * column, atol=1e-15)


def test_a_parameter_of_the_wrong_shape_is_named() -> None:
    with pytest.raises(UsageError, match=r"noise_gauss has shape \(3,\)"):
        Magnetometer(msgspec.structs.replace(MAG, noise_gauss=np.ones(3)), tick_us=4000, seed=1, worlds=range(3))
    with pytest.raises(UsageError, match="accel_limit_m_s2 has shape"):
        Imu(msgspec.structs.replace(IMU, accel_limit_m_s2=np.ones((2, 1))), tick_us=4000, seed=1, worlds=range(3))


def alone(kind: type, params: object, **kept: float) -> np.ndarray:
    """The error of a sensor with all noise switched off but `kept`, (steps, values), same seed each time."""
    off = {
        name: 0.0
        for name in params.__struct_fields__
        if any(word in name for word in ("noise", "walk", "drift_hpa", "drift_m"))
    }
    off |= {name: value for name, value in {"delay_s": 0.0}.items() if name in params.__struct_fields__}
    sensor = kind(msgspec.structs.replace(params, **off | kept), tick_us=100_000, seed=12, worlds=[0])
    zero, steps = np.zeros((1, 3)), range(4000)
    if kind is Imu:
        return np.array([np.concatenate(sensor.sample(zero, zero), axis=1)[0] for _ in steps])
    if kind is Barometer:
        return np.array([sensor.sample(tick, zero[:, 0])[0] for tick in steps]) - 1013.25
    fixes = [sensor.sample(tick, zero, zero) for tick in steps]
    return np.array([np.concatenate((fix.pos_ned, fix.vel_ned), axis=1)[0] for fix in fixes])


def test_the_noises_of_a_vehicle_are_independent_of_each_other() -> None:
    baro = msgspec.structs.replace(BARO, rate_hz=10.0)
    walk = alone(Imu, IMU, accel_bias_walk_m_s2_sqrt_s=1.0, gyro_bias_walk_rad_s_sqrt_s=1.0)
    slow = alone(Gnss, GNSS, horizontal_drift_m=1.0, vertical_drift_m=1.0)[:, :3]
    white = [
        np.diff(walk, axis=0),
        alone(Imu, IMU, accel_noise_density_m_s2_sqrt_hz=1.0, gyro_noise_density_rad_s_sqrt_hz=1.0)[:-1],
        alone(Barometer, baro, noise_hpa=1.0)[1:],
        np.diff(alone(Barometer, baro, drift_hpa=1.0), axis=0),
        alone(Gnss, GNSS, horizontal_noise_m=1.0, vertical_noise_m=1.0)[1:, :3],
        np.diff(slow, axis=0),
        alone(Gnss, GNSS, velocity_noise_m_s=1.0)[1:, 3:],
    ]
    series = np.concatenate(white, axis=1)
    correlation = np.corrcoef(series, rowvar=False) - np.eye(series.shape[1])
    assert series.shape == (3999, 23)
    assert np.abs(correlation).max() < 5.5 / np.sqrt(len(series))
