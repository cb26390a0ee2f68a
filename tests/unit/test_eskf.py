"""The filter's mathematics against numbers that do not come from it."""

import math

import numpy as np
import pytest

from lav2_hil.autopilot.consistency import HeadingMonitor, InnovationMonitor, SlopeMonitor, TurnMonitor
from lav2_hil.autopilot.error_state import SIZE
from lav2_hil.autopilot.eskf import Eskf
from lav2_hil.autopilot.rotations import attitude_at_rest, rotate, rotation_rows
from twin.frames import quat_multiply, rotation_of_quat

G = 9.80665
Q = tuple((np.array((0.8, 0.2, -0.3, 0.45)) / np.linalg.norm((0.8, 0.2, -0.3, 0.45))).tolist())
ACCEL, GYRO = (1.5, -2.0, -11.0), (0.4, -0.7, 0.9)

FIELD = (0.2, 0.05, 0.4)


def filter_at(q=Q, pos=(1.0, 2.0, -3.0), vel=(0.5, -1.0, 0.2), gyro_bias=(0.01, -0.02, 0.005)) -> Eskf:
    rest = tuple((-G * np.array(rotation_rows(q))[2]).tolist())
    return Eskf(pos, vel, q, gyro_bias=gyro_bias, force_frd=rest, field_ned=FIELD, delay_samples=3)


def unbiased(vel=(0.0, 0.0, 0.0), q=(1.0, 0.0, 0.0, 0.0)) -> Eskf:
    return filter_at(q, (0.0, 0.0, 0.0), vel, (0.0, 0.0, 0.0))


def difference(a: Eskf, b: Eskf) -> np.ndarray:
    """The error state that takes b to a."""
    turn = quat_multiply(np.array(a.q), np.array(b.q) * (1, -1, -1, -1))
    parts = [np.subtract(getattr(a, n), getattr(b, n)) for n in ("pos", "vel")]
    parts += [2.0 * turn[1:]]
    parts += [np.subtract(getattr(a, n), getattr(b, n)) for n in ("gyro_bias", "accel_bias", "accel_gain")]
    return np.concatenate(parts)


@pytest.mark.parametrize("state", range(SIZE))
def test_transition_is_the_derivative_of_the_integration(state: int) -> None:
    dt, step = 0.004, 1e-4
    plain, moved = filter_at(), filter_at()
    moved._dx[state] = step
    moved._inject()
    for f in (plain, moved):
        for _ in range(5):
            f.predict(dt, ACCEL, GYRO)
    slope = difference(moved, plain) / step
    plain.predict_covariance()
    # Attitude turns by 0.02 rad and position gains 0.2 mm/(m/s^2) meanwhile: what a first-order transition leaves out.
    assert slope == pytest.approx(plain._transition[:, state], abs=8e-3)


def test_covariance_follows_the_transition_and_grows() -> None:
    f = filter_at()
    before = f.covariance.copy()
    for _ in range(5):
        f.predict(0.004, ACCEL, GYRO)
    f.predict_covariance()
    t = f._transition
    grown = f.covariance - t @ before @ t.T
    assert np.diag(grown)[3:6] == pytest.approx(0.02**2 * 0.02)
    assert np.diag(grown)[6:9] == pytest.approx(0.001**2 * 0.02)
    again = f.covariance.copy()
    f.predict_covariance()
    assert (f.covariance == again).all()


def test_start_covariance_ties_tilt_to_accelerometer_errors() -> None:
    """At rest, an error that the levelling has hidden must not predict any acceleration."""
    q = attitude_at_rest((2.0, 1.0, -9.5), (0.2, 0.05, 0.4), 0.05)
    f = unbiased(q=q)
    rest = tuple((-G * np.array(rotation_rows(q))[2]).tolist())
    f.predict(0.004, rest, (0.0, 0.0, 0.0))
    f.predict_covariance()
    assert f.vel == pytest.approx((0.0, 0.0, 0.0), abs=1e-9)
    across = f._transition[3:6] / 0.004
    across[:, 3:6] = 0.0  # the velocity itself
    spread = np.sqrt(np.diag(across @ f.covariance @ across.T))
    assert spread == pytest.approx(
        (G * 0.003, G * 0.003, 0.01), rel=0.1
    )  # the tilt that is not explained by the accelerometer


def test_start_covariance_ties_heading_to_tilt() -> None:
    """A tilt has turned the levelled field: the magnetometer must not tell anything about the tilt at the start."""
    f = filter_at()
    before = f.covariance[6:8, 6:8].copy()
    f.correct_heading((0.25, 0.05, 0.4), FIELD, 0.03)
    assert f.covariance[6:8, 6:8] == pytest.approx(before, rel=1e-3)


def test_circle_at_constant_speed_is_exact() -> None:
    """10 s of a level circle with 3 m/s and 1 rad/s: closed form."""
    speed, rate, dt = 3.0, 1.0, 0.004
    f = unbiased((speed, 0.0, 0.0))
    mean = speed * 2 * math.sin(0.5 * rate * dt) / dt  # of the specific force over a sample, from the middle
    for _ in range(2500):
        f.predict(dt, (0.0, mean, -G), (0.0, 0.0, rate))
    assert f.pos == pytest.approx((3.0 * math.sin(10.0), 3.0 * (1.0 - math.cos(10.0)), 0.0), abs=2e-3)
    assert f.vel == pytest.approx((3.0 * math.cos(10.0), 3.0 * math.sin(10.0), 0.0), abs=1e-4)
    assert f.q == pytest.approx((math.cos(5.0), 0.0, 0.0, math.sin(5.0)), abs=1e-6)
    assert f.turned == pytest.approx((0.0, 0.0, 10.0))
    assert f.pushed == pytest.approx((f.vel[0] - 3.0, f.vel[1], 0.0), abs=1e-9)


def test_large_steps_turn_exactly() -> None:
    f = unbiased()
    for _ in range(10):
        f.predict(0.1, (0.0, 0.0, -G), (0.0, 3.0, 4.0))
    assert f.q == pytest.approx((math.cos(2.5), 0.0, 0.6 * math.sin(2.5), 0.8 * math.sin(2.5)), abs=1e-9)


def test_heading_row_is_the_derivative() -> None:
    field = (0.2, 0.05, 0.4)
    body = rotate(tuple(zip(*rotation_rows(Q), strict=True)), field)  # R' field
    for axis in range(3):
        f = filter_at()
        f._dx[6 + axis] = 1e-3
        f._inject()
        seen = rotate(rotation_rows(f.q), body)
        f.covariance = np.zeros((SIZE, SIZE))
        f.covariance[6 + axis, 6 + axis] = 1e-2
        ratio = f.correct_heading(seen, field, 1e-9)
        # One state, no noise: the correction must take the error back, whatever the sensitivity.
        assert abs(ratio) > 0.0
        assert difference(f, filter_at())[6 + axis] == pytest.approx(0.0, abs=1e-5)


def test_gnss_is_compared_with_the_past() -> None:
    f = unbiased((5.0, 0.0, 0.0))
    for _ in range(10):
        f.predict(0.004, (10.0, 0.0, -G), (0.0, 0.0, 0.0))
    past = f.past[0]
    assert past[0][0] == pytest.approx(5.0 * 0.028 + 5.0 * 0.028**2, abs=1e-6)
    ratios = f.correct_gnss(past[0], past[1], (0.3,) * 3, (0.05,) * 3)
    assert ratios == pytest.approx([0.0] * 6, abs=1e-12)


def test_a_measurement_far_off_pulls_no_more_than_five_sigma() -> None:
    near, far = filter_at(), filter_at()
    sigma = math.hypot(0.5, math.sqrt(near.covariance[2, 2]))
    near.correct_height(3.0 + 5.0 * sigma, 0.5)
    assert far.correct_height(3.0 + 500.0, 0.5) == pytest.approx(-500.0 / sigma)
    assert far.pos == pytest.approx(near.pos)
    assert -far.pos[2] > 3.3


def test_order_of_the_six_gnss_values_does_not_matter_much_and_shrinks_them_all() -> None:
    f = filter_at()
    before = np.sqrt(np.diag(f.covariance))[:6]
    f.correct_gnss((1.1, 2.2, -2.9), (0.5, -1.0, 0.3), (0.3, 0.3, 0.4), (0.05,) * 3)
    after = np.sqrt(np.diag(f.covariance))[:6]
    expected = (
        before * np.array((0.3, 0.3, 0.4, 0.05, 0.05, 0.05)) / np.hypot(before, (0.3, 0.3, 0.4, 0.05, 0.05, 0.05))
    )
    assert after == pytest.approx(expected)
    assert f.pos == pytest.approx((1.05, 2.1, -2.964), abs=1e-9)


def test_a_fix_is_the_joint_kalman_update() -> None:
    f = unbiased()
    for _ in range(250):  # correlates velocity with position
        f.predict(0.004, (0.5, 0.0, -G), (0.0, 0.0, 0.0))
        f.predict_covariance()
    before, p = (f.pos, f.vel, f.q, f.accel_bias), f.covariance.copy()
    past_pos, past_vel, _, _ = f.past[0]
    innovation = np.array((0.1, -0.2, 0.15, 0.05, 0.02, -0.03))
    sigma = np.array((0.3, 0.3, 0.4, 0.05, 0.05, 0.05))
    vel = tuple(np.add(past_vel, innovation[3:]).tolist())
    f.correct_gnss(np.add(past_pos, innovation[:3]).tolist(), vel, (0.3, 0.3, 0.4), (0.05,) * 3)
    gain = p[:, :6] @ np.linalg.inv(p[:6, :6] + np.diag(sigma**2))
    error = gain @ innovation
    assert np.subtract(f.pos, before[0]) == pytest.approx(error[0:3], abs=1e-9)
    assert np.subtract(f.vel, before[1]) == pytest.approx(error[3:6], abs=1e-9)
    assert np.subtract(f.accel_bias, before[3]) == pytest.approx(error[12:15], abs=1e-9)
    assert f.covariance == pytest.approx(p - gain @ p[:6], abs=1e-9)


def test_attitude_at_rest_finds_any_attitude() -> None:
    rng = np.random.default_rng(0)
    field = np.array((0.21, 0.013, 0.43))
    for _ in range(50):
        q = rng.normal(size=4)
        q /= np.linalg.norm(q)
        r = rotation_of_quat(q[None])[0]
        found = attitude_at_rest(tuple(r.T @ (0, 0, -G)), tuple(r.T @ field), math.atan2(field[1], field[0]))
        assert abs(float(np.dot(found, q))) == pytest.approx(1.0, abs=1e-9)


# Monitors


def test_innovations_are_wrong_after_a_second_and_right_again_later() -> None:
    monitor = InnovationMonitor()
    for _ in range(10):
        monitor.add(6.0, 0.1)
    assert not monitor.wrong
    for _ in range(5):
        monitor.add(-6.0, 0.1)
    assert monitor.wrong
    for _ in range(4):
        monitor.add(0.0, 0.1)
    assert monitor.wrong  # until it is well below
    for _ in range(10):
        monitor.add(1.0, 0.1)
    assert not monitor.wrong
    for k in range(200):
        monitor.add(100.0 if k % 20 == 0 else 1.0, 0.1)
        assert not monitor.wrong


@pytest.mark.parametrize("slope", [1.0, 0.0, -1.0])
def test_slopes(slope: float) -> None:
    rng = np.random.default_rng(1)
    monitor = SlopeMonitor(0.1)
    for x in rng.normal(0.0, 0.5, 300):
        monitor.add(x, slope * x + 0.1 * rng.normal())
    assert monitor.wrong == (slope < 0.0)
    assert monitor.slope == pytest.approx(slope, abs=0.2)
    for x in rng.normal(0.0, 0.5, 300):
        monitor.add(x, x)
    assert not monitor.wrong


def test_a_wild_pair_is_no_slope() -> None:
    monitor = SlopeMonitor(0.1)
    for _ in range(6):
        monitor.add(0.4, 0.4)
    monitor.add(0.4, -500.0)
    assert not monitor.wrong
    assert monitor.slope > 0.0


def test_noise_alone_is_no_slope() -> None:
    rng = np.random.default_rng(2)
    monitor = SlopeMonitor(0.1)
    monitor.add(50.0, -50.0)
    assert not monitor.wrong  # one pair does not decide
    monitor = SlopeMonitor(0.1)
    for x, y in rng.normal(0.0, 0.1, (20_000, 2)):
        monitor.add(0.5 * x, y)
        assert not monitor.wrong


@pytest.mark.parametrize("sensor", ["gyroscope", "magnetometer"])
@pytest.mark.parametrize("axis", range(3))
def test_turns_name_the_axis(sensor: str, axis: int) -> None:
    rng = np.random.default_rng(3)
    monitor, healthy = TurnMonitor(), TurnMonitor()
    field = np.array((0.1, -0.2, 0.4))
    flip = np.ones(3)
    flip[axis] = -1.0
    for _ in range(40):
        turn = rng.normal(0.0, 0.05, 3)
        half = np.concatenate(([1.0], 0.5 * turn))
        after = field @ rotation_of_quat((half / np.linalg.norm(half))[None])[0]
        noisy = after + rng.normal(0.0, 0.001, 3)
        if sensor == "gyroscope":
            monitor.add(turn * flip, field, noisy)
        else:
            monitor.add(turn, field * flip, noisy * flip)
        healthy.add(turn, field, noisy)
        field = after
    assert getattr(monitor, sensor) == "xyz"[axis]
    assert (healthy.gyroscope, healthy.magnetometer, healthy.either) == ("", "", "")
    assert healthy.slopes == pytest.approx([1.0] * 3, abs=0.1)


@pytest.mark.parametrize("error_deg", [-170.0, -40.0, 0.0, 10.0, 60.0])
def test_heading_error_from_velocity_changes(error_deg: float) -> None:
    rng = np.random.default_rng(4)
    monitor = HeadingMonitor()
    turn = complex(math.cos(math.radians(error_deg)), math.sin(math.radians(error_deg)))
    for _ in range(100):
        u = complex(*rng.normal(0.0, 0.3, 2))
        monitor.add(u, turn * u + complex(*rng.normal(0.0, 0.03, 2)))
    assert math.degrees(monitor.error_rad) == pytest.approx(error_deg, abs=5.0)
    assert monitor.wrong == (abs(error_deg) > 25.0)
