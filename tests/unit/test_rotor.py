"""Rotors: the laws of the model, at any step, in any array namespace."""

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from firmware_profiles.errors import UsageError
from firmware_profiles.loader import load_profile
from twin.dynamics.rotor import RotorDynamics, exact_gain, rotor_step
from twin.world_params import WorldParams

IRIS = load_profile("px4_iris").vehicle
SPIN = [-1, -1, 1, 1]


def rotors(dt_s: float = 0.002, worlds: int = 1, **values: Any) -> RotorDynamics:
    return RotorDynamics(WorldParams.of(IRIS, worlds).with_values(**values), SPIN, dt_s)


def run(model: RotorDynamics, command: float, steps: int) -> tuple[np.ndarray, np.ndarray]:
    """(steps, R) speeds and (steps, 2R) outputs of world 0 under a constant command."""
    speeds, outputs = [], []
    for _ in range(steps):
        out = np.full((model.speed_rad_s.shape[0], 2 * len(SPIN)), np.inf)
        model.step(model.limit(np.full_like(model.speed_rad_s, command)), out)
        speeds.append(model.speed_rad_s[0].copy())
        outputs.append(out[0])
    return np.array(speeds), np.array(outputs)


@pytest.mark.parametrize(("start", "command", "tau"), [(0.0, 800.0, 0.0125), (800.0, 200.0, 0.025)])
def test_the_response_is_the_exact_exponential(start: float, command: float, tau: float) -> None:
    for split in (1, 2, 3, 10, 100):  # 40 ms in steps of any length
        model = rotors(0.04 / split)
        model.speed_rad_s = np.full((1, 4), start)
        speeds, _ = run(model, command, split)
        times = 0.04 / split * np.arange(1, split + 1)
        expected = command + (start - command) * np.exp(-times / tau)
        np.testing.assert_allclose(speeds, np.tile(expected[:, None], 4), rtol=1e-12)


def test_no_time_constant_is_no_delay() -> None:
    model = rotors(rise_time_constant_s=0.0, fall_time_constant_s=0.0, max_rise_rad_s2=1e9, max_fall_rad_s2=1e9)
    assert exact_gain(0.002, np.array([0.0, 1e-320, math.inf])).tolist() == [1.0, 1.0, 0.0]
    assert run(model, 700.0, 1)[0].tolist() == [[700.0] * 4]
    assert run(model, 0.0, 1)[0].tolist() == [[0.0] * 4]


@given(
    st.lists(st.tuples(st.floats(-1e4, 1e4), st.integers(1, 30)), min_size=1, max_size=6),
    st.sampled_from([1e-4, 0.002, 0.1]),
    st.floats(1.0, 1e6),
    st.floats(1.0, 1e6),
)
@settings(deadline=None, max_examples=50)
def test_speed_is_monotone_without_overshoot_and_within_its_limits(commands, dt_s, max_rise, max_fall) -> None:
    model = rotors(dt_s, max_rise_rad_s2=max_rise, max_fall_rad_s2=max_fall)
    speed = np.zeros((1, 4))
    for command, steps in commands:
        goal = min(max(command, 0.0), IRIS.propeller.max_speed_rad_s)
        for new in run(model, command, steps)[0]:
            assert (new >= 0.0).all()
            assert (new <= IRIS.propeller.max_speed_rad_s).all()
            low, high = np.minimum(speed, goal), np.maximum(speed, goal)
            assert ((new >= low - 1e-9) & (new <= high + 1e-9)).all()
            change = (new - speed) / dt_s
            assert (change <= max_rise * (1 + 1e-9) + 1e-6).all()
            assert (-change <= max_fall * (1 + 1e-9) + 1e-6).all()
            speed = new


def test_the_rate_limit_is_a_ramp_and_each_direction_has_its_own() -> None:
    model = rotors(max_rise_rad_s2=1000.0, max_fall_rad_s2=500.0)
    rising, _ = run(model, 1000.0, 50)
    np.testing.assert_allclose(rising[:, 0], 2.0 * np.arange(1, 51), rtol=1e-12)
    falling, _ = run(model, 0.0, 10)
    np.testing.assert_allclose(falling[:, 0], 100.0 - np.arange(1, 11), rtol=1e-12)


def test_thrust_and_torque_in_steady_state() -> None:
    model = rotors()
    speeds, outputs = run(model, 600.0, 400)
    np.testing.assert_allclose(speeds[-1], 600.0, rtol=1e-12)
    np.testing.assert_allclose(outputs[-1, :4], 5.84e-6 * 600.0**2, rtol=1e-12)
    np.testing.assert_allclose(outputs[-1, 4:], np.array(SPIN) * 3.504e-7 * 600.0**2, rtol=1e-12)


def test_a_rotor_that_spins_up_pushes_back_harder() -> None:
    """tau = d (c_M w^2 + J dw/dt): larger than steady in the direction of d, smaller and reversed when it slows."""
    model = rotors()
    model.speed_rad_s = np.full((1, 4), 500.0)
    speed, output = run(model, 600.0, 1)
    steady = np.array(SPIN) * 3.504e-7 * speed[0] ** 2
    acceleration = (speed[0] - 500.0) / 0.002
    assert (acceleration > 0).all()
    assert (output[0, 4:] * SPIN > steady * SPIN).all()
    np.testing.assert_allclose(output[0, 4:], steady + np.array(SPIN) * 2.7e-5 * acceleration, rtol=1e-12)
    assert (run(model, 0.0, 1)[1][0, 4:] * SPIN < 0).all()
    # Whatever the way, the impulse of the motor's own inertia is J times the change of speed.
    with_inertia, without = rotors(), rotors(motor_inertia_kg_m2=0.0)
    impulse = 0.002 * (run(with_inertia, 900.0, 37)[1] - run(without, 900.0, 37)[1])[:, 4:].sum(axis=0)
    np.testing.assert_allclose(impulse, np.array(SPIN) * 2.7e-5 * with_inertia.speed_rad_s[0], rtol=1e-9)


def test_worlds_have_their_own_parameters() -> None:
    values = {"thrust_coefficient_n_s2": [[1e-6], [2e-6]], "rise_time_constant_s": [[0.01], [0.1]]}
    both = rotors(worlds=2, **values)
    out = np.empty((2, 8))
    both.step(both.limit(np.full((2, 4), 500.0)), out)
    for world in range(2):
        alone = rotors(**{name: value[world] for name, value in values.items()})
        np.testing.assert_array_equal(run(alone, 500.0, 1)[1][0], out[world])
    assert out[0, 0] > out[1, 0]


def test_commands_are_limited_each_by_its_world() -> None:
    model = rotors(worlds=2, max_speed_rad_s=[[100.0], [1000.0]])
    limited = model.limit(np.array([[-5.0, 50.0, 500.0, 5000.0]] * 2))
    assert limited.tolist() == [[0.0, 50.0, 100.0, 100.0], [0.0, 50.0, 500.0, 1000.0]]


def test_reset_stops_the_rotors() -> None:
    model = rotors()
    first = run(model, 900.0, 5)[0]
    model.reset()
    assert (model.speed_rad_s == 0).all()
    np.testing.assert_array_equal(run(model, 900.0, 5)[0], first)


# Other array namespaces


def arguments(columns: bool) -> dict[str, Any]:
    """Five worlds; parameters as (N, 1) columns that differ, or as plain numbers."""
    spin = np.array(SPIN, dtype=np.float64)
    scale = 1.0 + 0.1 * np.arange(5.0)[:, None]
    numbers = {"rise_gain": 0.147, "fall_gain": 0.077, "max_rise": 60.0, "max_fall": -30.0}
    parameters = {name: number * scale for name, number in numbers.items()} if columns else numbers
    rng = np.random.default_rng(8)
    return {
        "target": rng.uniform(0.0, 1100.0, (5, 4)),
        "speed": rng.uniform(0.0, 1100.0, (5, 4)),
        "thrust_coefficient": 5.84e-6 * scale if columns else 5.84e-6,
        "reaction_coefficient": 3.5e-7 * spin * scale,
        "spin_up_coefficient": 0.0135 * spin * scale,
        **parameters,
    }


def moved(values: dict[str, Any], xp: Any) -> dict[str, Any]:
    return {name: xp.asarray(value) if isinstance(value, np.ndarray) else value for name, value in values.items()}


@pytest.mark.parametrize("columns", [True, False], ids=["columns", "numbers"])
@pytest.mark.parametrize("namespace", ["torch", "array_api_compat.torch", "array_api_strict"])
def test_every_array_namespace_gives_the_same_numbers(namespace: str, columns: bool) -> None:
    xp = pytest.importorskip(namespace)
    given_values = arguments(columns)
    expected = rotor_step(xp=np, **given_values)
    changes = expected[0] - given_values["speed"]
    assert np.isclose(changes.max(), np.max(given_values["max_rise"]), rtol=0.3)  # both limits and both gains are used
    assert (changes > 0).any()
    assert (changes < 0).any()
    for array, ours in zip(rotor_step(xp=xp, **moved(given_values, xp)), expected, strict=True):
        assert array.dtype == xp.float64
        np.testing.assert_allclose(np.asarray(array), ours, rtol=1e-15)


def test_numbers_and_columns_are_the_same_parameters() -> None:
    numbers = arguments(columns=False)
    columns = {name: np.full((5, 1), value) if np.isscalar(value) else value for name, value in numbers.items()}
    for a, b in zip(rotor_step(xp=np, **numbers), rotor_step(xp=np, **columns), strict=True):
        np.testing.assert_array_equal(a, b)


def test_torch_carries_gradients_through_a_step() -> None:
    torch = pytest.importorskip("torch")
    values = moved(arguments(columns=True), torch)
    values["thrust_coefficient"].requires_grad_()
    speed, thrust, _ = rotor_step(xp=torch, **values)
    thrust.sum().backward()
    torch.testing.assert_close(values["thrust_coefficient"].grad[:, 0], (speed**2).sum(dim=1))


def test_the_live_loop_is_the_public_step() -> None:
    """`RotorDynamics` and `rotor_step` are one model."""
    model = rotors()
    model.speed_rad_s = np.array([[0.0, 300.0, 600.0, 900.0]])
    target = np.array([[1000.0, 200.0, 600.0, 0.0]])
    spin = np.array(SPIN, dtype=np.float64)
    expected = rotor_step(
        target,
        model.speed_rad_s,
        xp=np,
        rise_gain=-math.expm1(-0.002 / 0.0125),
        fall_gain=-math.expm1(-0.002 / 0.025),
        max_rise=2000.0,
        max_fall=-2000.0,
        thrust_coefficient=5.84e-6,
        reaction_coefficient=3.504e-7 * spin,
        spin_up_coefficient=2.7e-5 * spin / 0.002,
    )
    out = np.empty((1, 8))
    model.step(target, out)
    np.testing.assert_allclose(model.speed_rad_s, expected[0], rtol=1e-14)
    np.testing.assert_allclose(out, np.concatenate(expected[1:], axis=1), rtol=1e-14)


# The seed's interface: revolutions per minute in, one array out


def test_rpm_in_and_one_array_out_is_the_live_loop() -> None:
    live, public = rotors(worlds=3), rotors(worlds=3)
    rng = np.random.default_rng(11)
    for _ in range(50):
        rpm, out = rng.uniform(-1000.0, 15000.0, (3, 4)), np.full((3, 8), np.inf)
        live.step(live.limit(rpm * math.pi / 30), out)
        np.testing.assert_allclose(public.update(rpm), out, rtol=1e-13)
    np.testing.assert_allclose(public.speed_rpm, live.speed_rad_s * 30 / math.pi, rtol=1e-13)


def test_hover_trim_and_free_fall() -> None:
    """At the derived hover speed: the weight, no yaw, no change. Without a command from rest: nothing at all."""
    model = rotors(worlds=2)
    hover = IRIS.derived.hover_rpm
    model.reset([0], speed_rpm=hover)
    for _ in range(20):
        out = model.update(np.array([[hover] * 4, [0.0] * 4]))
        assert out[0, :4].sum() == pytest.approx(IRIS.total_mass_kg * 9.80665, rel=1e-12)
        assert abs(out[0, 4:].sum()) < 1e-15
        assert not out[1].any()


def test_reset_of_some_worlds_to_a_speed() -> None:
    model = rotors(worlds=3)
    run(model, 900.0, 5)
    kept = model.speed_rad_s.copy()
    model.reset(slice(1, None), speed_rpm=[[0.0], [3000.0], [1e6]])
    np.testing.assert_array_equal(model.speed_rad_s[0], kept[0])
    np.testing.assert_allclose(model.speed_rpm[1], 3000.0)
    np.testing.assert_allclose(model.speed_rad_s[2], IRIS.propeller.max_speed_rad_s)


def test_n_worlds_are_n_times_one() -> None:
    rng = np.random.default_rng(12)
    values = {
        "thrust_coefficient_n_s2": rng.uniform(4e-6, 8e-6, (5, 1)),
        "fall_time_constant_s": rng.uniform(0.01, 0.1, (5, 1)),
        "max_rise_rad_s2": rng.uniform(1e3, 1e5, (5, 1)),
    }
    together = rotors(worlds=5, **values)
    alone = [rotors(**{name: value[world] for name, value in values.items()}) for world in range(5)]
    for _ in range(30):
        rpm = rng.uniform(0.0, 12000.0, (5, 4))
        expected = np.concatenate([one.update(rpm[None, world]) for world, one in enumerate(alone)])
        np.testing.assert_array_equal(together.update(rpm), expected)


def test_the_euler_response_is_the_exact_one_in_small_steps() -> None:
    ends = []
    for response, split in (("exact", 1), ("euler", 1), ("euler", 4000)):
        model = RotorDynamics(WorldParams.of(IRIS, 1), SPIN, 0.01 / split, response=response)
        ends.append(run(model, 800.0, split)[0][-1, 0])
    assert ends[2] == pytest.approx(ends[0], rel=1e-4)
    assert ends[1] == pytest.approx(800.0 * 0.01 / 0.0125)


@pytest.mark.parametrize(
    ("arguments_", "said"),
    [
        ((SPIN, 0.002, "heun"), "response: expected 'exact' or 'euler', got 'heun'"),
        ((SPIN, 0.0, "exact"), "dt_s: expected a finite step above 0"),
        (([1, 0, 1, -1], 0.002, "exact"), "spin_dir: expected 1"),
    ],
)
def test_what_cannot_be_is_refused(arguments_: tuple, said: str) -> None:
    spin, dt_s, response = arguments_
    with pytest.raises(UsageError, match=said):
        RotorDynamics(WorldParams.of(IRIS, 1), spin, dt_s, response=response)
