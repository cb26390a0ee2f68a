"""The PID block: each term, its limits, its memory, and what a bad gain gets."""

import math

import array_api_strict
import numpy as np
import pytest
import torch

from firmware_profiles.errors import UsageError
from twin.control.arrays import Arrays
from twin.control.pid import Pid, PidGains


def pid(n: int = 1, columns: int = 1, dt: float = 0.1, **gains) -> Pid:
    return Pid(PidGains(**{"kp": 0.0, **gains}), columns, dt, Arrays(n))


def one(value: float) -> np.ndarray:
    return np.array([[value]])


def test_proportional() -> None:
    assert pid(kp=2.0).update(one(3.0)) == 6.0


def test_integral_is_used_before_it_grows_and_is_limited() -> None:
    loop = pid(ki=2.0, integral_limit=1.0)
    outputs = [loop.update(one(2.0)).item() for _ in range(5)]
    np.testing.assert_allclose(outputs, [0.0, 0.4, 0.8, 1.0, 1.0])
    outputs = [loop.update(one(-2.0)).item() for _ in range(7)]
    np.testing.assert_allclose(outputs, [1.0, 0.6, 0.2, -0.2, -0.6, -1.0, -1.0])


def test_derivative_is_minus_that_of_the_measurement() -> None:
    loop = pid(kd=0.5)
    assert loop.update(one(5.0), one(7.0)) == 0.0, "the first has no past"
    assert math.isclose(loop.update(one(-100.0), one(7.2)).item(), -1.0)
    assert math.isclose(loop.update(one(100.0), one(7.1)).item(), 0.5)
    assert loop.update(one(1.0), one(7.1)).item() == 0.0


def test_derivative_may_be_measured_itself() -> None:
    assert pid(kp=1.0, kd=0.5).update(one(1.0), rate=one(4.0)) == -1.0


def test_low_pass_is_exact() -> None:
    loop = pid(kd=1.0, cutoff_hz=2.0, dt=0.01)
    outputs = [loop.update(one(0.0), one(3.0 * 0.01 * step)).item() for step in range(30)]
    expected = [-3.0 * (1 - math.exp(-2 * math.pi * 2.0 * 0.01 * step)) for step in range(30)]
    np.testing.assert_allclose(outputs, expected, rtol=1e-12, atol=1e-12)


def test_output_limit_stops_the_integral_in_that_direction_only() -> None:
    loop = pid(kp=1.0, ki=1.0, output_limit=2.0)
    for _ in range(20):
        assert loop.update(one(5.0)).item() == 2.0
    assert loop.integral == 0.0
    assert loop.update(one(-5.0)).item() == -2.0
    loop.integral = one(4.0)
    assert loop.update(one(-1.0)).item() == 2.0
    assert math.isclose(loop.integral.item(), 3.9), "an error that leads away from the limit counts"


def test_gains_per_world_and_channel() -> None:
    loop = pid(2, 3, kp=np.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]))
    np.testing.assert_array_equal(loop.update(np.ones((2, 3))), [[1, 2, 3], [4, 5, 6]])
    np.testing.assert_array_equal(pid(2, 3, kp=[[1.0], [2.0]]).update(np.ones((2, 3))), [[1] * 3, [2] * 3])


@pytest.mark.parametrize("worlds", [[1], np.array([1]), np.array([False, True, False]), 1, torch.tensor([1])])
def test_reset_of_some_worlds(worlds) -> None:
    loop = pid(3, kp=1.0, ki=1.0, kd=1.0, cutoff_hz=1.0)
    for measured in (0.0, 1.0, 3.0):
        loop.update(np.ones((3, 1)), np.full((3, 1), measured))
    loop.reset(worlds)
    fresh = pid(3, kp=1.0, ki=1.0, kd=1.0, cutoff_hz=1.0)
    output = loop.update(np.ones((3, 1)), np.full((3, 1), 4.0))
    assert output[1] == fresh.update(np.ones((3, 1)), np.full((3, 1), 4.0))[1] == 1.0
    assert output[0] == output[2] != 1.0
    again = loop.update(np.ones((3, 1)), np.full((3, 1), 5.0))
    assert again[1] == fresh.update(np.ones((3, 1)), np.full((3, 1), 5.0))[1]


def test_two_resets_before_the_next_update() -> None:
    loop = pid(3, kd=1.0)
    loop.update(np.zeros((3, 1)), np.zeros((3, 1)))
    loop.reset([0])
    loop.reset([1])
    np.testing.assert_allclose(loop.update(np.zeros((3, 1)), np.ones((3, 1))), [[0.0], [0.0], [-10.0]])


def test_reset_of_all_and_of_none() -> None:
    loop = pid(2, ki=1.0)
    loop.update(np.ones((2, 1)))
    loop.reset([])
    assert (loop.integral > 0).all()
    loop.reset()
    assert (loop.integral == 0).all()
    with pytest.raises(UsageError, match="there are 2"):
        loop.reset([2])


def test_a_world_that_went_wrong_is_cured_by_a_reset_and_does_not_spread() -> None:
    loop = pid(2, kp=1.0, ki=1.0, kd=1.0, cutoff_hz=1.0)
    loop.update(np.array([[1.0], [math.nan]]), np.array([[1.0], [math.nan]]))
    output = loop.update(np.ones((2, 1)), np.ones((2, 1)))
    assert np.isfinite(output[0])
    assert np.isnan(output[1])
    loop.reset([1])
    assert np.isfinite(loop.update(np.ones((2, 1)), np.ones((2, 1)))).all()


@pytest.mark.parametrize(
    ("gains", "named"),
    [
        ({"kp": -1.0}, "kp"),
        ({"kp": math.nan}, "kp"),
        ({"kp": math.inf}, "kp"),
        ({"kp": 1.0, "ki": (0.1, -0.1)}, "ki"),
        ({"kp": 1.0, "kd": -1e-9}, "kd"),
        ({"kp": 1.0, "integral_limit": 0.0}, "integral_limit"),
        ({"kp": 1.0, "output_limit": -2.0}, "output_limit"),
        ({"kp": 1.0, "output_limit": math.nan}, "output_limit"),
        ({"kp": 1.0, "cutoff_hz": 0.0}, "cutoff_hz"),
    ],
)
def test_bad_gains_are_named(gains: dict, named: str) -> None:
    with pytest.raises(UsageError, match=f"^{named}: expected numbers"):
        PidGains(**gains)


def test_shapes_that_do_not_fit_are_refused() -> None:
    with pytest.raises(UsageError, match=r"kp: expected a shape that fits \(2, 3\), got \(4,\)"):
        pid(2, 3, kp=(1.0, 2.0, 3.0, 4.0))
    with pytest.raises(UsageError, match="dt_s"):
        pid(dt=0.0)


@pytest.mark.parametrize(("xp", "dtype"), [(torch, "float64"), (torch, "float32"), (array_api_strict, "float64")])
def test_one_code_path(xp, dtype: str) -> None:
    gains = PidGains(2.0, 1.0, 0.1, integral_limit=0.3, output_limit=3.0, cutoff_hz=3.0)
    reference, arrays = Pid(gains, 2, 0.1, Arrays(3)), Arrays(3, xp, dtype)
    loop, rng = Pid(gains, 2, 0.1, arrays), np.random.default_rng(1)
    for step in range(20):
        error, measured = rng.normal(size=(2, 3, 2))
        ours = loop.update(arrays.array(error), arrays.array(measured))
        tolerance = 1e-5 if dtype == "float32" else 1e-13
        np.testing.assert_allclose(np.asarray(ours), reference.update(error, measured), rtol=tolerance, atol=tolerance)
        if step == 10:
            loop.reset([0, 2])
            reference.reset([0, 2])
