"""Thrusters: closed forms, what the schemes really do, draws, resets, and what is refused."""

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from dynamics_goldens import LIBRARIES, arrays_of, host, libraries

from firmware_profiles.errors import UsageError
from twin.dynamics.sampling import WorldSampler, philox4x32
from twin.dynamics.thruster import (
    MultiRotorActions,
    Thruster,
    euler_step,
    exact_step,
    rate_of_lag,
    rate_of_lag_and_step,
    rk4_step,
    thruster_step,
)
from twin.dynamics.thruster_config import ThrusterCfg

STUB: dict[str, Any] = {  # that of the published unit test
    "dt": 0.01,
    "thrust_range": (0.0, 10.0),
    "max_thrust_rate": 100.0,
    "thrust_const_range": (0.05, 0.1),
    "tau_inc_range": (0.01, 0.02),
    "tau_dec_range": (0.01, 0.02),
    "torque_to_thrust_ratio": 0.0,
    "thruster_names_expr": (".*",),
}
FIXED = {"thrust_const_range": (0.1, 0.1), "tau_inc_range": (0.02, 0.02), "tau_dec_range": (0.02, 0.02)}


def thruster(worlds: int = 2, motors: int = 4, *, rps: Any = 1.0, library: str = "numpy", seed: int = 0, **cfg: Any):
    xp, dtype, device = LIBRARIES[library]
    names = [f"rotor_{index}" for index in range(motors)]
    config = ThrusterCfg(**(STUB | cfg))
    return Thruster(config, names, slice(None), worlds, device, rps, xp=xp, dtype=dtype, seed=seed)


def command(model: Thruster, newton: Any, library: str = "numpy") -> np.ndarray:
    """The thrusts applied after a step under one command."""
    wanted = np.broadcast_to(np.asarray(newton, dtype=float), (model.n, model.num_thrusters))
    return host(model.compute(MultiRotorActions(arrays_of(library, model.n).array(wanted))).thrusts)


# Closed forms


@libraries()
@pytest.mark.parametrize(
    ("discrete", "scheme", "expected"),
    [
        (True, "euler", 0.5444444),
        (False, "rk4", 0.6619900),
        (True, "rk4", 0.4552867),
        (False, "euler", 0.9),
        (False, "exact", 0.6624845),
    ],
)
def test_one_step_from_one_rps_towards_five(discrete: bool, scheme: str, expected: float, library: str) -> None:
    model = thruster(
        **FIXED,
        max_thrust_rate=1e6,
        use_discrete_approximation=discrete,
        integration_scheme=scheme,
        library=library,
    )
    np.testing.assert_allclose(command(model, 2.5, library), expected, rtol=2e-6)


STEPS = {"euler": euler_step, "rk4": rk4_step, "exact": exact_step}


@pytest.mark.parametrize(
    ("tau", "dt", "shares"),
    [
        # published shares of the speed error that one step removes: exact, euler-c, euler-d, rk4-c, rk4-d
        (0.05, 0.01, (0.181269, 0.2, 0.166667, 0.181267, 0.153517)),
        (0.02, 0.01, (0.393469, 0.5, 0.333333, 0.393229, 0.283436)),
        (0.005, 0.01, (0.864665, 2.0, 0.666667, 0.666667, 0.485597)),
        (0.005, 0.005, (0.632121, 1.0, 0.5, 0.625, 0.393229)),
        (0.005, 0.002, (0.329680, 0.4, 0.285714, 0.3296, 0.248508)),
    ],
)
def test_what_each_pair_of_scheme_and_factor_does(tau: float, dt: float, shares: tuple[float, ...]) -> None:
    pairs = [
        ("exact", rate_of_lag),
        ("euler", rate_of_lag),
        ("euler", rate_of_lag_and_step),
        ("rk4", rate_of_lag),
        ("rk4", rate_of_lag_and_step),
    ]
    error, rate = np.array([[3.0]]), np.array([[1e9]])
    for (scheme, factor), share in zip(pairs, shares, strict=True):
        mixing = np.array([[factor(tau, dt)]])
        step = STEPS[scheme](error, xp=np, mixing=mixing, max_rate=rate, dt_s=dt)
        np.testing.assert_allclose(step / error, share, rtol=2e-5, err_msg=f"{scheme} {factor.__name__}")


def test_the_default_pair_lags_by_tau_and_a_step_and_the_recommended_one_by_tau() -> None:
    """After a time T the exponential of the lag that each claims, to what its order allows."""
    for factor, lag in ((rate_of_lag_and_step, 0.06), (rate_of_lag, 0.05)):
        for scheme, rtol in (("rk4", 1e-4), ("exact", 1e-12)):
            error = np.array([[1.0]])
            for _ in range(20):
                mixing, rate = np.array([[factor(0.05, 0.01)]]), np.array([[1e9]])
                error = error - STEPS[scheme](error, xp=np, mixing=mixing, max_rate=rate, dt_s=0.01)
            np.testing.assert_allclose(error, math.exp(-0.2 / lag), rtol=rtol)


def test_the_limited_exact_step_is_the_limit_of_many_small_ones() -> None:
    error, mixing, rate = np.array([[-9.0, 9.0, 4.0, 0.5, 0.0]]), np.full((1, 5), 40.0), np.full((1, 5), 150.0)
    dt, parts = 0.03, 20_000
    fine = error.copy()
    for _ in range(parts):
        fine = fine - euler_step(fine, xp=np, mixing=mixing, max_rate=rate, dt_s=dt / parts)
    step = exact_step(error, xp=np, mixing=mixing, max_rate=rate, dt_s=dt)
    np.testing.assert_allclose(error - step, fine, atol=2e-4)
    assert abs(step[0, 0]) == pytest.approx(dt * 150.0)  # on the ramp to the end: 9 - 4.5 is still above 150 / 40


@pytest.mark.parametrize("scheme", ["euler", "rk4", "exact"])
@pytest.mark.parametrize("discrete", [True, False])
def test_speed_approaches_without_overshoot(scheme: str, discrete: bool) -> None:
    model = thruster(**FIXED, max_thrust_rate=1e6, use_discrete_approximation=discrete, integration_scheme=scheme)
    before = host(model.curr_thrust)
    for _ in range(200):
        now = command(model, 8.0)
        assert (now >= before - 1e-12).all()
        assert (now <= 8.0 + 1e-9).all()
        before = now
    np.testing.assert_allclose(before, 8.0, rtol=1e-9)


def test_rising_and_falling_have_their_own_time_constants() -> None:
    model = thruster(
        **(FIXED | {"tau_dec_range": (0.1, 0.1)}),
        max_thrust_rate=1e6,
        use_discrete_approximation=False,
        integration_scheme="exact",
        rps=math.sqrt(50.0),  # 5 N
    )
    model.compute(MultiRotorActions(np.array([[10.0, 0.0, 5.0, 5.0]] * 2)))
    speed = np.sqrt(model.curr_thrust / 0.1)
    up, down = math.exp(-0.5), math.exp(-0.1)
    np.testing.assert_allclose(speed[0, 0], 10.0 + (math.sqrt(50.0) - 10.0) * up, rtol=1e-12)
    np.testing.assert_allclose(speed[0, 1], math.sqrt(50.0) * down, rtol=1e-12)
    np.testing.assert_allclose(speed[0, 2:], math.sqrt(50.0), rtol=1e-12)


def test_the_limit_is_one_of_speed_not_of_thrust() -> None:
    model = thruster(**FIXED, max_thrust_rate=50.0)
    for step in range(1, 6):
        command(model, 10.0)
        np.testing.assert_allclose(np.sqrt(model.curr_thrust / 0.1), 1.0 + 0.5 * step, rtol=1e-12)


# Numbers that must stay finite


@libraries()
def test_a_thrust_constant_of_zero_stays_finite_before_and_after_a_reset(library: str) -> None:
    model = thruster(thrust_const_range=(0.0, 0.0), library=library)
    for _ in range(2):
        for _ in range(5):
            assert np.isfinite(command(model, 3.0, library)).all()
        np.testing.assert_allclose(host(model.thrust_const), 1e-6, rtol=1e-6)
        model.reset_idx()


@libraries()
def test_a_negative_thrust_range_stays_finite_and_within_it(library: str) -> None:
    model = thruster(thrust_range=(-5.0, -1.0), library=library)
    for _ in range(5):
        out = command(model, -2.0, library)
        assert np.isfinite(out).all()
        assert ((out >= -5.0) & (out <= -1.0)).all()


@libraries()
def test_the_output_is_within_the_range_whatever_is_commanded(library: str) -> None:
    model = thruster(thrust_range=(0.5, 3.0), rps=0.0, library=library)
    for newton in (100.0, -100.0, 1.7, 0.0, 1e30):
        for _ in range(20):
            out = command(model, newton, library)
            assert ((out >= 0.5) & (out <= 3.0)).all()


# Draws and resets


def test_draws_are_uniform_in_their_ranges_and_belong_to_world_and_seed() -> None:
    ranges = {"thrust_const_range": (1.0, 3.0), "tau_inc_range": (0.1, 0.2), "tau_dec_range": (0.3, 0.7)}
    many = thruster(4000, 3, **ranges)
    for name, (low, high) in zip(("thrust_const", "tau_inc_s", "tau_dec_s"), ranges.values(), strict=True):
        values = getattr(many, name)
        assert ((values >= low) & (values < high)).all()
        assert abs(values.mean() - (low + high) / 2) < 0.01 * (high - low)
        assert abs(values.std() - (high - low) / math.sqrt(12)) < 0.01 * (high - low)
    drawn = np.stack([many.thrust_const, many.tau_inc_s, many.tau_dec_s]).reshape(3, -1)
    assert (abs(np.corrcoef(drawn) - np.eye(3)) < 0.05).all()
    few = thruster(8, 3, **ranges)
    np.testing.assert_array_equal(few.tau_inc_s[7], many.tau_inc_s[7])
    assert not np.isclose(thruster(8, 3, seed=1, **ranges).tau_inc_s, few.tau_inc_s).any()
    # a world's second draw is its second draw, whatever the others did
    for _ in range(2):
        few.reset_idx([3])
    few.reset_idx([7])
    many.reset_idx()
    np.testing.assert_array_equal(few.tau_inc_s[7], many.tau_inc_s[7])


@pytest.mark.parametrize(
    ("counter", "key", "words"),
    [
        ([0] * 4, [0] * 2, [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]),
        ([0xFFFFFFFF] * 4, [0xFFFFFFFF] * 2, [0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD]),
        (
            [0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344],
            [0xA4093822, 0x299F31D0],
            [0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1],
        ),
    ],
)
def test_philox_gives_the_known_answers_of_random123(counter, key, words) -> None:
    assert philox4x32(np.array(counter, dtype=np.uint64), np.array(key, dtype=np.uint64)).tolist() == words


def test_a_seed_below_zero_is_refused() -> None:
    with pytest.raises(UsageError, match="seed -1"):
        WorldSampler(-1, (1,), 2)


@libraries()
@pytest.mark.parametrize(
    "choice",
    [[0, 2], np.array([0, 2]), slice(0, None, 2), np.array([True, False, True]), [-1, 0], "library"],
    ids=["list", "array", "slice", "mask", "from the end", "own array"],
)
def test_a_subset_is_reset_and_the_rest_is_bitwise_unchanged(choice: Any, library: str) -> None:
    model = thruster(3, library=library, rps=2.0)
    if isinstance(choice, str):
        choice = LIBRARIES[library][0].asarray([0, 2])
    for _ in range(3):
        command(model, 7.0, library)
    names = ("tau_inc_s", "tau_dec_s", "thrust_const", "curr_thrust", "applied_thrust")
    before = {name: host(getattr(model, name)) for name in names}
    model.reset_idx(choice)
    after = {name: host(getattr(model, name)) for name in names}
    for name in names:
        np.testing.assert_array_equal(after[name][1], before[name][1])
        assert (after[name][[0, 2]] != before[name][[0, 2]]).all(), name
    np.testing.assert_allclose(after["curr_thrust"][[0, 2]], 4.0 * after["thrust_const"][[0, 2]], rtol=1e-6)


def test_reset_of_all_and_of_none() -> None:
    model = thruster(3)
    first = model.tau_inc_s
    model.reset([])
    np.testing.assert_array_equal(model.tau_inc_s, first)
    model.reset()
    assert (model.tau_inc_s != first).all()


def test_what_was_handed_out_does_not_change_afterwards() -> None:
    model = thruster()
    command(model, 5.0)
    kept, copy = model.computed_thrust, model.computed_thrust.copy()
    command(model, 9.0)
    model.reset_idx([0])
    np.testing.assert_array_equal(kept, copy)


def test_the_action_object_carries_the_answer() -> None:
    model = thruster()
    action = MultiRotorActions(np.full((2, 4), 9.0), slice(None))
    assert model.compute(action) is action
    assert action.thrusts is model.applied_thrust
    assert (model.mixing_factor_function, model.speed_step_function) == (rate_of_lag_and_step, rk4_step)


def test_n_worlds_are_n_times_one() -> None:
    together = thruster(5, rps=3.0)
    newton = np.linspace(0.0, 10.0, 20).reshape(5, 4)
    alone = []
    for world in range(5):
        model = thruster(1, rps=3.0)
        model.set_parameters(
            tau_inc_s=together.tau_inc_s[world],
            tau_dec_s=together.tau_dec_s[world],
            thrust_const=together.thrust_const[world],
        )
        alone.append([command(model, newton[world]) for _ in range(10)])
    for step in range(10):
        out = command(together, newton)
        np.testing.assert_array_equal(out, np.concatenate([steps[step] for steps in alone]))


def test_a_step_can_be_compiled_and_differentiated() -> None:
    """By JAX: to the same numbers, and to the derivative that a difference gives."""
    values = {name: np.full((2, 4), value) for name, value in (("tau_inc_s", 0.05), ("tau_dec_s", 0.02))}
    fixed: dict[str, Any] = {"mixing_factor": rate_of_lag, "speed_step": rk4_step, "dt_s": 0.01}
    limits = {"thrust_const": np.full((2, 4), 1e-5), "max_rate": np.full((2, 4), 1e5)}
    command_, thrust = np.linspace(1.0, 9.0, 8).reshape(2, 4), np.full((2, 4), 4.0)

    def total(xp: Any, wanted: Any) -> Any:
        return xp.sum(thruster_step(wanted, xp.asarray(thrust), xp=xp, **values, **limits, **fixed))

    compiled = jax.jit(jax.value_and_grad(lambda wanted: total(jnp, wanted)))
    value, slope = compiled(jnp.asarray(command_))
    assert float(value) == pytest.approx(float(total(np, command_)), rel=1e-12)
    step = np.zeros((2, 4))
    step[0, 1] = 1e-6
    difference = (total(np, command_ + step) - total(np, command_ - step)) / 2e-6
    assert float(slope[0, 1]) == pytest.approx(difference, rel=1e-6)
    assert difference > 0.01


# What is refused


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"dt": 0.0}, "dt: expected numbers above 0"),
        ({"dt": math.nan}, "dt: "),
        ({"max_thrust_rate": -1.0}, "max_thrust_rate: "),
        ({"thrust_range": (2.0, 1.0)}, r"thrust_range: .*smallest <= largest"),
        ({"thrust_range": (1.0,)}, r"thrust_range: expected \(smallest, largest\)"),
        ({"thrust_range": (0.0, math.inf)}, "thrust_range: "),
        ({"thrust_const_range": (-1.0, 1.0)}, "thrust_const_range: .*at least 0"),
        ({"tau_inc_range": (-0.1, 1.0)}, "tau_inc_range: .*at least 0"),
        ({"tau_dec_range": (0.0, 1.0), "use_discrete_approximation": False}, "tau_dec_range: .*above 0"),
        ({"torque_to_thrust_ratio": -0.1}, "torque_to_thrust_ratio: "),
        ({"integration_scheme": "heun"}, "integration_scheme: unknown scheme 'heun'; allowed: euler, rk4, exact"),
        ({"thruster_names_expr": ()}, "thruster_names_expr: "),
        ({"thruster_names_expr": ".*"}, "thruster_names_expr: expected at least one expression, in a list"),
        ({"thruster_names_expr": ("(",)}, "thruster_names_expr: expected a regular expression"),
    ],
)
def test_a_configuration_that_cannot_be_is_refused(change: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        ThrusterCfg(**(STUB | change))


def test_shapes_and_choices_that_do_not_fit_are_refused() -> None:
    model = thruster()
    with pytest.raises(UsageError, match=r"thrusts: expected \(2, 4\), got \(2, 3\)"):
        model.compute(MultiRotorActions(np.zeros((2, 3))))
    for choice in ([2], [-3], slice(0), np.array([True])):
        if isinstance(choice, slice):
            model.reset_idx(choice)  # an empty slice is nobody
            continue
        with pytest.raises(UsageError, match="worlds: there are 2"):
            model.reset_idx(choice)
    with pytest.raises(UsageError, match="init_thruster_rps"):
        thruster(rps=-1.0)
    with pytest.raises(UsageError, match="init_thruster_rps: expected a shape"):
        thruster(rps=[1.0, 2.0])
    with pytest.raises(UsageError, match="tau_inc_s"):
        model.set_parameters(tau_inc_s=-1.0)
    with pytest.raises(UsageError, match=r"tau_dec_s: .*above 0"):
        thruster(use_discrete_approximation=False).set_parameters(tau_dec_s=0.0)
    with pytest.raises(UsageError, match="thruster_names: expected one name for each"):
        Thruster(model.cfg, ["a"], [0, 1], 2, None, 1.0)
