"""A motion capture system's poses: rate, delay, noise, frames; and that nobody else notices."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from twin_rig import put, replace, run, twin_of, vehicle

from bridge.held_readings import HeldReadings
from firmware_profiles.errors import UsageError
from firmware_profiles.motion_capture import MotionCaptureParams
from firmware_profiles.profile import VehicleParams
from twin.frames import quat_multiply, rotation_of_quat
from twin.random_streams import NoiseBlock, StreamKey
from twin.sensors.motion_capture import MotionCapture, MotionCaptureBatch
from twin.twin import SensorBatch

TICK_US = 4000
QUIET = MotionCaptureParams(position_noise_m=0.0, attitude_noise_rad=0.0)
LEVEL = np.array([[1.0, 0.0, 0.0, 0.0]])


def seen(params: MotionCaptureParams, name: str = "px4_iris") -> VehicleParams:
    plain = vehicle(name)
    return replace(plain, sensors=replace(plain.sensors, motion_capture=params))


def delivered(
    params: MotionCaptureParams, ticks: int, pos: Any = (0.0, 0.0, 0.0), q: Any = LEVEL, worlds: range = range(1)
) -> dict[int, MotionCaptureBatch]:
    """By the tick of delivery."""
    sensor = MotionCapture(params, tick_us=TICK_US, seed=4, worlds=worlds)
    pos, q = np.broadcast_to(pos, (len(worlds), 3)), np.broadcast_to(q, (len(worlds), 4))
    batches = {tick: sensor.sample(tick, pos, q) for tick in range(ticks)}
    return {tick: batch for tick, batch in batches.items() if batch is not None}


@pytest.mark.parametrize(
    ("rate_hz", "delay_s", "late"), [(50.0, 0.01, 3), (50.0, 0.0, 0), (100.0, 0.02, 5), (30.0, 0.3, 75)]
)
def test_rate_and_delay(rate_hz: float, delay_s: float, late: int) -> None:
    found = delivered(replace(QUIET, rate_hz=rate_hz, delay_s=delay_s), 2500)
    due = [-(-k * 250 // int(rate_hz)) for k in range(2500)]
    assert list(found) == [tick + late for tick in due if tick + late < 2500]
    assert {batch.age_us for batch in found.values()} == {late * TICK_US}


def test_a_pose_is_of_the_moment_that_was_measured() -> None:
    sensor = MotionCapture(replace(QUIET, delay_s=0.02), tick_us=TICK_US, seed=0, worlds=range(1))
    for tick in range(100):
        batch = sensor.sample(tick, np.array([[float(tick), 0.0, 0.0]]), LEVEL)
        if batch is not None:
            assert batch.pos_ned[0, 0] == tick - 5
            assert batch.pose(1_000_000 + tick * TICK_US, 0).measured_us == 1_000_000 + (tick - 5) * TICK_US


def test_the_noise_is_white_and_as_large_as_it_says() -> None:
    yaw = np.array([math.cos(0.6), 0.0, 0.0, math.sin(0.6)])
    found = list(delivered(MotionCaptureParams(), 100_000, (1.0, -2.0, 3.0), yaw).values())
    assert len(found) == 20_000
    off = np.array([batch.pos_ned[0] for batch in found]) - (1.0, -2.0, 3.0)
    turn = quat_multiply(yaw * (1, -1, -1, -1), np.array([batch.q_ned_frd[0] for batch in found]))
    angles = 2.0 * turn[:, 1:] * np.sign(turn[:, :1])
    for errors, sigma in ((off, 0.01), (angles, 0.005)):
        # Of 20,000 samples the standard deviation is known to 0.5 %, a correlation to 0.007.
        assert errors.std(axis=0) == pytest.approx([sigma] * 3, rel=0.02)
        assert np.abs(errors.mean(axis=0)).max() < 4.0 * sigma / math.sqrt(20_000)
        assert abs(np.mean(errors[1:] * errors[:-1])) < 4.0 * sigma**2 / math.sqrt(60_000)
    both = np.corrcoef(np.concatenate((off, angles), axis=1).T)
    assert np.abs(both - np.eye(6)).max() < 0.03
    assert np.linalg.norm([batch.q_ned_frd[0] for batch in found], axis=1) == pytest.approx(1.0, abs=1e-12)
    pose = found[0].pose(0, 0)
    assert (pose.pos_variance_m2, pose.attitude_variance_rad2) == pytest.approx((1e-4, 2.5e-5))


def test_a_world_sees_the_same_noise_in_any_company_and_again_after_a_reset() -> None:
    alone, eight = (
        delivered(MotionCaptureParams(), 200, worlds=range(7, 8)),
        delivered(MotionCaptureParams(), 200, worlds=range(8)),
    )
    for tick, batch in alone.items():
        assert np.array_equal(batch.pos_ned[0], eight[tick].pos_ned[7])
        assert not np.array_equal(batch.pos_ned[0], eight[tick].pos_ned[6])
    sensor = MotionCapture(MotionCaptureParams(), tick_us=TICK_US, seed=4, worlds=range(7, 8))
    for _ in range(2):
        again = {tick: sensor.sample(tick, np.zeros((1, 3)), LEVEL) for tick in range(200)}
        assert all(np.array_equal(again[tick].pos_ned, batch.pos_ned) for tick, batch in alone.items())
        sensor.reset()


def test_noise_may_differ_between_worlds_and_the_pose_says_so() -> None:
    params = replace(MotionCaptureParams(), position_noise_m=np.array([[0.0], [0.5]]))
    batch = next(iter(delivered(params, 50, worlds=range(2)).values()))
    assert not batch.pos_ned[0].any()
    assert batch.pos_ned[1].all()
    assert [batch.pose(0, world).pos_variance_m2 for world in (0, 1)] == [0.0, 0.25]
    with pytest.raises(UsageError, match="position_noise_m"):
        MotionCapture(params, tick_us=TICK_US, seed=0, worlds=range(3))


def other_readings(batches: list[SensorBatch]) -> list[Any]:
    out: list[Any] = []
    for batch in batches:
        gnss = batch.gnss
        out += [batch.accel_frd, batch.gyro_frd, batch.mag_frd_gauss, *(batch.baro or (None,))]
        out += [None] if gnss is None else [gnss.pos_ned, gnss.vel_ned]
    return out


def test_no_other_sensor_notices() -> None:
    without = run(twin_of(n=2, seed=5), 2.0, 500.0)
    with_it = run(twin_of(seen(MotionCaptureParams()), 2, seed=5), 2.0, 500.0)
    pairs = list(zip(other_readings(without), other_readings(with_it), strict=True))
    assert all((a is None and b is None) or np.array_equal(a, b) for a, b in pairs)
    assert all(batch.motion_capture is None for batch in without)
    assert sum(batch.motion_capture is not None for batch in with_it) == 99  # one is still under way


def test_without_it_a_sample_has_none() -> None:
    twin = twin_of()
    assert twin.sample_of(run(twin, 0.1)[-1], 0).motion_capture is None


@pytest.mark.parametrize(
    "q_enu_flu",
    [(1, 0, 0, 0), (0.6, 0, 0, 0.8), (0.9, 0.3, -0.2, 0.1), (0.1, -0.7, 0.5, 0.3), (0.5, 0.5, 0.5, -0.5)],
)
def test_without_noise_it_is_the_truth_in_any_attitude(q_enu_flu: tuple[float, ...]) -> None:
    q = np.array(q_enu_flu) / np.linalg.norm(q_enu_flu)
    twin = put(twin_of(seen(replace(QUIET, rate_hz=250.0, delay_s=0.0))), height=40.0, q_enu_flu=q)
    twin._engine.pos_enu[:, :2] = (3.0, -7.0)
    batch = run(twin, 0.004)[-1]
    sample = twin.sample_of(batch, 5_000, truth=True)
    assert sample.motion_capture is not None
    assert sample.truth is not None
    pose, truth = sample.motion_capture, sample.truth
    assert pose.measured_us == 5_000
    assert pose.pos_ned == pytest.approx(truth.pos_ned, abs=1e-9)
    assert pose.q_ned_frd == pytest.approx(truth.q_ned_frd, abs=1e-9)
    # And by hand: north is y, east is x, down is -z; the nose keeps its direction.
    assert pose.pos_ned == pytest.approx((-7.0, 3.0, -40.0), abs=0.01)
    nose_enu = rotation_of_quat(twin._engine.q_enu_flu)[0, :, 0]
    left_enu = rotation_of_quat(twin._engine.q_enu_flu)[0, :, 1]
    rotation = rotation_of_quat(np.array([pose.q_ned_frd]))[0]
    assert rotation[:, 0] == pytest.approx(nose_enu[[1, 0, 2]] * (1, 1, -1), abs=1e-9)
    assert rotation[:, 1] == pytest.approx(-left_enu[[1, 0, 2]] * (1, 1, -1), abs=1e-9)


def test_a_pose_of_a_tick_that_was_skipped_goes_out_with_the_next() -> None:
    twin = twin_of(seen(MotionCaptureParams()))
    samples = [twin.sample_of(batch, 4000 * tick) for tick, batch in enumerate(run(twin, 0.2))]
    with_pose = next(i for i, sample in enumerate(samples) if sample.motion_capture is not None)
    held = HeldReadings()
    held.hold(samples[with_pose])
    merged = held.merged(samples[with_pose + 1])
    assert merged.motion_capture == samples[with_pose].motion_capture
    assert held.merged(samples[with_pose + 2]) == samples[with_pose + 2]
    held.hold(samples[with_pose + 3])
    assert held.merged(samples[with_pose + 4]).motion_capture is None


def test_its_noise_is_nobody_elses() -> None:
    batch = next(iter(delivered(MotionCaptureParams(), 10).values()))
    for key in StreamKey:
        same = np.allclose(NoiseBlock(4, range(1), key, 6).next()[:, :3], batch.pos_ned / 0.01)
        assert same is (key is StreamKey.MOTION_CAPTURE)
