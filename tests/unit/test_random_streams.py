"""Streams per world: what a number depends on, and the exact Gauss-Markov step."""

import numpy as np
import pytest

from firmware_profiles.errors import UsageError
from twin.random_streams import GaussMarkov, NoiseBlock, StreamKey, per_world


def draw(noise: NoiseBlock, steps: int) -> np.ndarray:
    return np.stack([noise.next().copy() for _ in range(steps)])  # (steps, N, width)


def test_numbers_are_those_of_the_documented_generator() -> None:
    drawn = draw(NoiseBlock(5, [3, 9], key=2, width=4, block=16), 40)
    for row, world in enumerate((3, 9)):
        stream = np.random.Generator(np.random.Philox(np.random.SeedSequence(5, spawn_key=(world, 2))))
        np.testing.assert_array_equal(drawn[:, row], stream.standard_normal((40, 4)))


def test_world_sees_the_same_numbers_among_8_64_or_8000() -> None:
    few = draw(NoiseBlock(1, range(8), key=1, width=12), 30)
    more = draw(NoiseBlock(1, range(64), key=1, width=12), 30)
    many = draw(NoiseBlock(1, range(8000), key=1, width=12), 30)
    np.testing.assert_array_equal(more[:, :8], few)
    np.testing.assert_array_equal(many[:, :8], few)


def test_order_of_worlds_is_the_order_of_rows() -> None:
    forward = draw(NoiseBlock(1, [4, 7], key=1, width=2), 5)
    np.testing.assert_array_equal(draw(NoiseBlock(1, [7, 4], key=1, width=2), 5), forward[:, ::-1])


@pytest.mark.parametrize("block", [1, 7, 100])
def test_block_length_changes_no_number(block: int) -> None:
    expected = draw(NoiseBlock(2, range(3), key=1, width=5, block=256), 300)
    np.testing.assert_array_equal(draw(NoiseBlock(2, range(3), key=1, width=5, block=block), 300), expected)


def test_memory_stays_bounded_with_many_worlds() -> None:
    assert NoiseBlock(1, range(1000), key=1, width=12, block=100_000)._buffer.nbytes <= 16 * 2**20


def test_reset_starts_again_also_in_the_middle_of_a_block() -> None:
    noise = NoiseBlock(3, range(2), key=1, width=3, block=8)
    first = draw(noise, 13)
    noise.reset()
    np.testing.assert_array_equal(draw(noise, 13), first)


def test_streams_of_other_worlds_keys_and_seeds_are_independent() -> None:
    steps = 20_000
    streams = [
        draw(NoiseBlock(seed, [world], key, width=1), steps).ravel()
        for seed, world, key in ((0, 0, 1), (0, 1, 1), (0, 0, 2), (1, 0, 1), (0, 1, 0), (0, 2, 1))
    ]
    correlation = np.corrcoef(streams)
    assert np.abs(correlation - np.eye(len(streams))).max() < 5 / np.sqrt(steps)


def test_keys_of_the_sensors_are_distinct_and_fixed() -> None:
    # A recorded session replays only while these numbers stay.
    assert {key.name: key.value for key in StreamKey} == {
        "IMU": 1,
        "BAROMETER": 2,
        "MAGNETOMETER": 3,
        "GNSS": 4,
        "PARAMETERS": 5,
        "ACCEL_FAULT": 6,
        "GYRO_FAULT": 7,
        "MAG_FAULT": 8,
        "BARO_FAULT": 9,
        "GPS_FAULT": 10,
        "MOTION_CAPTURE": 11,
        "MOCAP_FAULT": 12,
        "STATE_NOISE": 101,
    }


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"seed": -1}, "seed -1"),
        ({"worlds": []}, "at least one world"),
        ({"worlds": [0, -2]}, "0 and above"),
        ({"width": 0}, "width >= 1"),
        ({"block": 0}, "block >= 1"),
        ({"key": -1}, "key >= 0"),
    ],
)
def test_impossible_arguments_are_refused(arguments: dict, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        NoiseBlock(**({"seed": 0, "worlds": [0], "key": 1, "width": 1} | arguments))


def gauss_markov(sigma: float, tau_s: float, worlds: int = 1) -> GaussMarkov:
    return GaussMarkov(np.full((1, 1), sigma), np.full((1, 1), tau_s), worlds, 1)


def test_gauss_markov_is_zero_at_the_first_look_whatever_its_time() -> None:
    process = gauss_markov(2.0, 10.0)
    for start_us in (0, 123_000_000):
        assert process.advance(start_us, np.ones((1, 1))) == 0.0
        assert process.advance(start_us + 1_000_000, np.ones((1, 1))) > 0.0
        process.reset()


def test_gauss_markov_decays_by_time_not_by_looks() -> None:
    silent, end_us = np.zeros((1, 1)), 9_000_000
    ends = []
    for looks in (1, 3, 90):
        process = gauss_markov(2.0, 10.0)
        process.advance(0, silent)
        process.state = np.full((1, 1), 5.0)
        for look in range(1, looks + 1):
            process.advance(look * end_us // looks, silent)
        ends.append(process.state.item())
    np.testing.assert_allclose(ends, 5.0 * np.exp(-0.9), rtol=1e-12)


def test_gauss_markov_variance_does_not_depend_on_the_number_of_looks() -> None:
    # Propagates the variance itself: v' = (gain of state)^2 v + (gain of noise)^2, exact, no sampling.
    for looks in (1, 4, 50):
        process = gauss_markov(3.0, 20.0)
        variance = 0.0
        process.advance(0, np.zeros((1, 1)))
        for look in range(1, looks + 1):
            process.state = np.full((1, 1), np.sqrt(variance))
            kept = process.advance(look * 8_000_000 // looks, np.zeros((1, 1))).item()
            decay, drive = process._over(8_000_000 // looks)
            variance = kept**2 + drive.item() ** 2
            assert decay < 1.0
        np.testing.assert_allclose(variance, 9.0 * (1.0 - np.exp(-2.0 * 8.0 / 20.0)), rtol=1e-12)


def test_gauss_markov_refuses_time_that_goes_back_and_a_bad_time_constant() -> None:
    process = gauss_markov(1.0, 1.0)
    process.advance(5_000, np.zeros((1, 1)))
    with pytest.raises(ValueError, match="go back by 1000 us"):
        process.advance(4_000, np.zeros((1, 1)))
    with pytest.raises(UsageError, match="correlation time"):
        gauss_markov(1.0, 0.0)


def test_gauss_markov_with_irregular_looks_keeps_few_coefficients() -> None:
    process, time_us = gauss_markov(1.0, 1.0), 0
    for step in range(1, 200):
        time_us += step
        process.advance(time_us, np.zeros((1, 1)))
    assert len(process._coefficients) <= 8


def test_per_world_takes_a_number_or_a_column_and_nothing_else() -> None:
    assert per_world(0.5, 4, "x").shape == (1, 1)
    assert per_world(np.arange(4.0)[:, None], 4, "x").shape == (4, 1)
    for bad in (np.zeros(4), np.zeros((3, 1)), np.zeros((4, 3))):
        with pytest.raises(UsageError, match=r"noise_hpa has shape .* allowed: a number, or \(4, 1\)"):
            per_world(bad, 4, "noise_hpa")
    for bad in (-0.1, float("nan"), float("inf")):
        with pytest.raises(UsageError, match="noise_hpa holds"):
            per_world(bad, 4, "noise_hpa")
