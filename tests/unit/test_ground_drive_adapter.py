"""GroundDriveActuatorAdapter: yaw scale, side limit, delays, gains, draws."""

from typing import Any

import msgspec
import numpy as np
import pytest
from dynamics_goldens import LIBRARIES, arrays_of, host, libraries
from hypothesis import given, settings
from hypothesis import strategies as st

from firmware_profiles.errors import UsageError
from firmware_profiles.loader import load_profile
from twin.dynamics.ground_drive import GroundDriveActuatorAdapter, side_targets
from twin.world_params import WorldParams

LAV2 = load_profile("lav2").vehicle
DT = 0.002


def adapter(worlds: int = 1, library: str = "numpy", seed: int = 0, **values: Any) -> GroundDriveActuatorAdapter:
    params = WorldParams.of(LAV2, worlds).with_values(**values)
    return GroundDriveActuatorAdapter(params.ground_drive, DT, seed=seed, arrays=arrays_of(library, worlds))


def sides(left: float, right: float, *, scale: float = 1.0, limit: float = 10.0) -> list[float]:
    out = side_targets(
        np.array([[left, right]]),
        xp=np,
        yaw_allocation_scale=np.array([[scale]]),
        max_side_speed_rad_s=np.array([[limit]]),
    )
    return out[0].tolist()


def run(model: GroundDriveActuatorAdapter, commands: Any) -> np.ndarray:
    """(steps, 2) of world 0 under (steps, 2) commands, the same in all worlds."""
    return np.array([model.step(np.tile(command, (model.n, 1)))[0] for command in np.asarray(commands, dtype=float)])


# Yaw scale and side limit


def test_only_the_difference_is_scaled() -> None:
    assert sides(4.0, 6.0, scale=1.5) == [3.5, 6.5]
    assert sides(5.0, 5.0, scale=3.0) == [5.0, 5.0]
    assert sides(-2.0, 2.0, scale=0.5) == [-1.0, 1.0]


def test_a_side_that_is_too_fast_shifts_both_alike() -> None:
    assert sides(8.0, 12.0) == [6.0, 10.0]  # the difference of 4 stays, forward speed pays
    assert sides(-12.0, -8.0) == [-10.0, -6.0]
    assert sides(-5.0, 25.0) == [-10.0, 10.0]  # a difference that no shift makes fit is cut, and no speed is left
    assert sides(12.0, 12.0) == [10.0, 10.0]
    assert sides(8.0, 9.0, scale=3.0) == [7.0, 10.0]  # the limit is that of the scaled sides


@given(st.floats(-100, 100), st.floats(-100, 100), st.floats(0.1, 5.0), st.floats(0.5, 50.0))
@settings(deadline=None, max_examples=300)
def test_the_limit_holds_and_the_difference_has_priority(left: float, right: float, scale: float, limit: float) -> None:
    a, b = sides(left, right, scale=scale, limit=limit)
    assert max(abs(a), abs(b)) <= limit * (1 + 1e-12)
    wanted = (right - left) * scale
    assert b - a == pytest.approx(max(-2 * limit, min(2 * limit, wanted)), abs=1e-9)
    assert abs(a + b) <= abs(left + right) + 1e-9


def test_by_default_it_changes_nothing_within_the_limit() -> None:
    assert not GroundDriveActuatorAdapter.needed(WorldParams.of(LAV2, 3).ground_drive)
    assert not GroundDriveActuatorAdapter.needed(None)
    for change in ({"yaw_allocation_scale": 1.1}, {"side_gain": [1.0, 0.9]}, {"command_delay_s": [0.0, 0.01]}):
        assert GroundDriveActuatorAdapter.needed(WorldParams.of(LAV2, 3).with_values(**change).ground_drive)
    commands = np.random.default_rng(1).uniform(-20, 20, (30, 2))
    np.testing.assert_allclose(run(adapter(), commands), commands, rtol=1e-12, atol=1e-12)


# Delays


def test_left_and_right_are_delayed_each_on_its_own_by_physics_steps() -> None:
    model = adapter(command_delay_s=[3 * DT, 1 * DT])
    commands = np.arange(1.0, 21.0).reshape(10, 2)
    out = run(model, commands)
    assert out[:, 0].tolist() == [0, 0, 0, *commands[:7, 0]]
    assert out[:, 1].tolist() == [0, *commands[:9, 1]]


def test_a_fraction_of_a_step_is_a_line_between_two_commands() -> None:
    out = run(adapter(command_delay_s=2.25 * DT), [[4.0, 8.0]] * 5)
    np.testing.assert_allclose(out[:, 0], [0.0, 0.0, 3.0, 4.0, 4.0])
    np.testing.assert_allclose(out[:, 1], [0.0, 0.0, 6.0, 8.0, 8.0])
    ramp = np.outer(np.arange(20.0), [1.0, 1.0])  # of a ramp, the delay is exact
    np.testing.assert_allclose(run(adapter(command_delay_s=2.25 * DT), ramp)[5:], ramp[5:] - 2.25, rtol=1e-12)


def test_a_delay_of_whole_steps_in_seconds_is_whole_steps() -> None:
    """0.3 / 0.1 is not quite 3 in floating point."""
    params = WorldParams.of(LAV2, 1).with_values(command_delay_s=0.3)
    out = run(GroundDriveActuatorAdapter(params.ground_drive, 0.1), [[1.0, 1.0]] * 5)
    assert out[:, 0].tolist() == [0.0, 0.0, 0.0, 1.0, 1.0]


@libraries()
def test_each_world_has_its_own_delays(library: str) -> None:
    delays = np.array([[0.0, 5.0], [2.0, 0.5], [7.0, 7.0]]) * DT
    model = adapter(3, library, command_delay_s=delays)
    array = arrays_of(library, 3).array
    commands = np.random.default_rng(2).uniform(-20, 20, (20, 3, 2))
    out = np.stack([host(model.step(array(command))) for command in commands])
    tolerance = 1e-12 if LIBRARIES[library][1] == "float64" else 1e-5
    for world in range(3):
        alone = adapter(command_delay_s=delays[world])
        expected = np.stack([alone.step(command[None, world])[0] for command in commands])
        np.testing.assert_allclose(out[:, world], expected, rtol=tolerance, atol=20 * tolerance)


@libraries()
def test_a_reset_forgets_commands_under_way_in_the_worlds_that_are_named(library: str) -> None:
    model = adapter(2, library, command_delay_s=3 * DT)
    array = arrays_of(library, 2).array
    for _ in range(5):
        model.step(array([[5.0, 6.0]] * 2))
    model.reset([1])
    out = np.stack([host(model.step(array([[7.0, 7.0]] * 2))) for _ in range(4)])
    np.testing.assert_allclose(out[:, 0], [[5, 6], [5, 6], [5, 6], [7, 7]], rtol=1e-6)
    np.testing.assert_allclose(out[:, 1], [[0, 0], [0, 0], [0, 0], [7, 7]], rtol=1e-6)


# Order, gains and draws


def test_gains_come_last_and_are_no_part_of_the_limit() -> None:
    model = adapter(side_gain=[0.5, 1.25], yaw_allocation_scale=2.0, max_side_speed_rad_s=10.0, command_delay_s=DT)
    out = run(model, [[8.0, 10.0], [0.0, 0.0]])
    assert out.tolist() == [[0.0, 0.0], [6.0 * 0.5, 10.0 * 1.25]]


def test_draws_are_relative_to_nominal_independent_and_belong_to_the_world() -> None:
    nominal = {"yaw_allocation_scale": 1.4, "side_gain": [0.9, 1.1]}
    many, few = adapter(3000, **nominal), adapter(8, **nominal)
    for model in (many, few):
        model.randomize(yaw_scale_range=(0.8, 1.2), gain_range=(0.95, 1.05))
    scale, gain = many.yaw_allocation_scale / 1.4, many.side_gain / np.array([0.9, 1.1])
    for values, low, high in ((scale, 0.8, 1.2), (gain[:, :1], 0.95, 1.05), (gain[:, 1:], 0.95, 1.05)):
        assert ((values >= low) & (values <= high)).all()
        assert abs(values.mean() - 1.0) < 0.01 * (high - low)
        assert abs(values.std() - (high - low) / 12**0.5) < 0.02 * (high - low)
    drawn = np.concatenate((scale, gain), axis=1).T
    assert (abs(np.corrcoef(drawn) - np.eye(3)) < 0.06).all()
    np.testing.assert_array_equal(few.side_gain[7], many.side_gain[7])
    other = adapter(8, seed=1, **nominal)
    other.randomize(yaw_scale_range=(0.8, 1.2), gain_range=(0.95, 1.05))
    assert (other.side_gain != few.side_gain).all()


@libraries()
def test_some_worlds_are_drawn_and_the_rest_stays(library: str) -> None:
    model = adapter(3, library)
    model.randomize([0, 2], yaw_scale_range=(2.0, 3.0), gain_range=(1.5, 2.0))
    scale, gain = host(model.yaw_allocation_scale), host(model.side_gain)
    assert (scale[[0, 2]] >= 2.0).all()
    assert scale[1] == 1.0
    assert (gain[1] == 1.0).all()
    model.randomize(slice(0, 1))
    assert host(model.yaw_allocation_scale)[0] == 1.0
    assert host(model.yaw_allocation_scale)[2] == scale[2]


def test_a_drawn_yaw_scale_turns_and_does_not_drive() -> None:
    model = adapter(yaw_allocation_scale=1.3)
    left, right = run(model, [[3.0, 7.0]])[0]
    assert right - left == pytest.approx(1.3 * 4.0)
    assert right + left == pytest.approx(10.0)


# What is refused


def test_what_cannot_be_is_refused() -> None:
    with pytest.raises(UsageError, match="ground_drive: the vehicle's parameters have none"):
        GroundDriveActuatorAdapter(WorldParams.of(load_profile("px4_iris").vehicle, 1).ground_drive, DT)
    with pytest.raises(UsageError, match="dt_s"):
        GroundDriveActuatorAdapter(WorldParams.of(LAV2, 1).ground_drive, 0.0)
    for ranges, said in (
        ({"gain_range": (0.0, 1.0)}, "gain_range"),
        ({"yaw_scale_range": (1.2, 0.8)}, "yaw_scale_range: expected smallest <= largest"),
        ({"worlds": [5]}, "worlds: there are 1"),
    ):
        with pytest.raises(UsageError, match=said):
            adapter().randomize(**ranges)
    for values, said in (
        ({"yaw_allocation_scale": 0.0}, "yaw_allocation_scale: expected finite values above 0"),
        ({"command_delay_s": -0.1}, "command_delay_s: expected finite values of at least 0"),
        ({"side_gain": [[1.0, 1.0, 1.0]]}, r"side_gain: expected a shape that fits \(1, 2\)"),
    ):
        with pytest.raises(UsageError, match=said):
            adapter(**values)


def test_the_profile_carries_the_calibration() -> None:
    drive = msgspec.structs.replace(LAV2.ground_drive, yaw_allocation_scale=1.2, command_delay_s=(0.01, 0.02))
    params = WorldParams.of(msgspec.structs.replace(LAV2, ground_drive=drive), 2).ground_drive
    assert params.yaw_allocation_scale.tolist() == [[1.2]] * 2
    assert params.command_delay_s.tolist() == [[0.01, 0.02]] * 2
    assert params.side_gain.tolist() == [[1.0, 1.0]] * 2
