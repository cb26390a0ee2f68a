"""Multirotor: groups, allocation, partial commands, initial speeds by name, and what is refused."""

from typing import Any

import numpy as np
import pytest
from dynamics_goldens import LIBRARIES, arrays_of, host, libraries

from firmware_profiles.errors import UsageError
from firmware_profiles.loader import load_profile
from twin.dynamics.multirotor import Multirotor, MultirotorCfg, allocation_matrix
from twin.dynamics.thruster import MultiRotorActions
from twin.dynamics.thruster_config import ThrusterCfg

BODIES = ["base_link", "rotor_0", "rotor_1", "rotor_2", "rotor_3", "camera"]
HUBS = np.array([[0.1, -0.2, 0.0], [-0.1, 0.2, 0.0], [0.1, 0.2, 0.0], [-0.1, -0.2, 0.0]])
SPIN = [-1, -1, 1, 1]


def group(*expressions: str, **changes: Any) -> ThrusterCfg:
    values: dict[str, Any] = {
        "dt": 0.005,
        "thrust_range": (0.0, 10.0),
        "thrust_const_range": (1e-5, 2e-5),
        "tau_inc_range": (0.05, 0.08),
        "tau_dec_range": (0.005, 0.005),
        "torque_to_thrust_ratio": 0.07,
        "thruster_names_expr": expressions or ("rotor_.*",),
    }
    return ThrusterCfg(**(values | changes))


def config(**changes: Any) -> MultirotorCfg:
    values: dict[str, Any] = {"actuators": {"all": group()}, "allocation_matrix": allocation_matrix(HUBS, SPIN, 0.07)}
    return MultirotorCfg(**(values | changes))


def vehicle(worlds: int = 3, library: str = "numpy", bodies: list[str] = BODIES, **changes: Any) -> Multirotor:
    xp, dtype, device = LIBRARIES[library]
    return Multirotor(config(**changes), bodies, worlds, device, xp=xp, dtype=dtype)


TWO = {"front": group("rotor_0", "rotor_2"), "rear": group("rotor_[13]", thrust_range=(0.0, 5.0))}


# Wrenches


@libraries()
def test_the_wrench_is_the_allocation_of_the_applied_thrusts(library: str) -> None:
    matrix = np.random.default_rng(3).normal(size=(6, 4))
    model = vehicle(library=library, allocation_matrix=matrix)
    arrays = arrays_of(library, 3)
    for newton in ([[1.0, 2.0, 3.0, 4.0]] * 3, [[9.0, 0.0, 20.0, -3.0]] * 3):
        wrench = model.step(MultiRotorActions(arrays.array(newton)))
        applied = host(model.applied_thrust)
        rtol = 1e-12 if LIBRARIES[library][1] == "float64" else 1e-5
        np.testing.assert_allclose(host(wrench), applied @ matrix.T, rtol=rtol, atol=rtol)
        assert ((applied >= 0) & (applied <= 10)).all()
    assert wrench.shape == (3, 6)


def test_each_rotor_pushes_up_at_its_place_and_turns_against_its_spin() -> None:
    """Front right, counter-clockwise seen from above: rolls left side down (-x), pitches nose up (-y), yaws to -z."""
    columns = allocation_matrix(HUBS, SPIN, 0.07).T
    for (x, y, _), spin, column in zip(HUBS.tolist(), SPIN, columns, strict=True):
        moment = np.cross([x, y, 0.0], [0.0, 0.0, 1.0])
        np.testing.assert_allclose(column, [0.0, 0.0, 1.0, moment[0], moment[1], 0.07 * spin])


def test_the_allocation_is_the_vehicles_own() -> None:
    """As the profile derives it for squared speeds: c_T w^2 = f."""
    lav2 = load_profile("lav2").vehicle
    propeller = lav2.propeller
    ratio = propeller.torque_coefficient_nm_s2 / propeller.thrust_coefficient_n_s2
    matrix = allocation_matrix([rotor.position_flu_m for rotor in propeller.rotors], lav2.spin_dir, ratio)
    derived = np.array(lav2.derived.allocation_matrix) / propeller.thrust_coefficient_n_s2
    np.testing.assert_allclose(matrix[2:], derived, rtol=1e-12)
    assert not matrix[:2].any()


def test_allocation_round_trip() -> None:
    """Wrench to thrusts by the pseudo-inverse, and back."""
    matrix = allocation_matrix(HUBS, SPIN, 0.07)
    wrench = np.array([0.0, 0.0, 20.0, 0.3, -0.2, 0.05])
    thrusts = np.linalg.pinv(matrix) @ wrench
    model = vehicle(worlds=1)
    for _ in range(600):
        out = model.step(MultiRotorActions(thrusts[None]))
    np.testing.assert_allclose(out[0], wrench, atol=1e-9)


def test_hover_trim_and_free_fall() -> None:
    """Equal thrusts of a quarter of the weight: the weight, and no moment; no thrust: nothing at all."""
    weight = 1.5 * 9.80665
    model = vehicle(worlds=2)
    for _ in range(600):
        wrench = model.step(MultiRotorActions(np.array([[weight / 4] * 4, [0.0] * 4])))
    np.testing.assert_allclose(wrench[0], [0, 0, weight, 0, 0, 0], atol=1e-9)
    np.testing.assert_allclose(wrench[1], 0.0, atol=1e-9)


# Groups and partial commands


def test_columns_follow_the_groups_and_each_group_has_its_own_range() -> None:
    model = vehicle(actuators=TWO)
    assert model.thruster_names == ("rotor_0", "rotor_2", "rotor_1", "rotor_3")
    assert [thruster.thruster_indices for thruster in model.actuators.values()] == [slice(0, 2), slice(2, 4)]
    assert vehicle().actuators["all"].thruster_indices == slice(None)
    for _ in range(400):
        model.step(MultiRotorActions(np.full((3, 4), 8.0)))
    np.testing.assert_allclose(model.applied_thrust, [[8.0, 8.0, 5.0, 5.0]] * 3, rtol=1e-6)


def test_groups_draw_independently() -> None:
    model = vehicle(actuators={"front": group("rotor_[02]"), "rear": group("rotor_[13]")})
    front, rear = (thruster.tau_inc_s for thruster in model.actuators.values())
    assert (front != rear).all()


@libraries()
@pytest.mark.parametrize(
    ("ids", "worlds", "target", "expected"),
    [
        (None, None, [[1.0, 2, 3, 4]], [[1, 2, 3, 4]] * 3),
        ([3, 0], None, [[1.0, 2]], [[2, 9, 9, 1]] * 3),
        (slice(1, 3), [2], [[1.0, 2]], [[9] * 4, [9] * 4, [9, 1, 2, 9]]),
        ([0], [2, 0], [[1.0], [2.0]], [[2, 9, 9, 9], [9] * 4, [1, 9, 9, 9]]),
        (np.array([True, False, False, True]), slice(0, 2), [[5.0]], [[5, 9, 9, 5], [5, 9, 9, 5], [9] * 4]),
        ([], None, [[1.0]], [[9] * 4] * 3),
    ],
)
def test_a_command_for_some_leaves_the_others(ids, worlds, target, expected, library: str) -> None:
    model, array = vehicle(library=library), arrays_of(library, 3).array
    model.set_thrust_target(array([[9.0]]))
    model.set_thrust_target(array(target), ids, worlds)
    np.testing.assert_array_equal(host(model.thrust_target), np.array(expected, dtype=float))


def test_actions_name_their_thrusters() -> None:
    model = vehicle()
    model.set_thrust_target(np.full((3, 4), 2.0))
    model.step(MultiRotorActions(np.full((3, 2), 7.0), [1, 2]))
    np.testing.assert_array_equal(model.thrust_target, [[2, 7, 7, 2]] * 3)
    model.step()
    np.testing.assert_array_equal(model.thrust_target, [[2, 7, 7, 2]] * 3)


# Initial speeds and resets


def test_initial_speeds_by_name_become_thrusts() -> None:
    model = vehicle(initial_rps={"rotor_[0-1]": 105.0, "rotor_[2-3]": 115.0})
    k = model.actuators["all"].thrust_const
    np.testing.assert_allclose(model.thrust_target, k * np.array([105.0, 105.0, 115.0, 115.0]) ** 2, rtol=1e-12)
    np.testing.assert_array_equal(model.applied_thrust, model.thrust_target)
    np.testing.assert_allclose(vehicle().thrust_target, vehicle().actuators["all"].thrust_const * 1e4, rtol=1e-12)


def test_a_reset_wants_the_initial_thrust_and_keeps_other_worlds() -> None:
    model = vehicle(actuators=TWO)
    for _ in range(5):
        model.step(MultiRotorActions(np.full((3, 4), 4.0)))
    before = model.thrust_target, model.applied_thrust
    model.reset([1])
    np.testing.assert_array_equal(model.thrust_target[[0, 2]], before[0][[0, 2]])
    np.testing.assert_array_equal(model.applied_thrust[[0, 2]], before[1][[0, 2]])
    k = np.concatenate([thruster.thrust_const for thruster in model.actuators.values()], axis=1)
    np.testing.assert_allclose(model.thrust_target[1], 1e4 * k[1], rtol=1e-12)  # 100 rps: not 100 N
    np.testing.assert_allclose(model.applied_thrust[1], 1e4 * k[1], rtol=1e-12)


# What is refused


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"actuators": {}}, "actuators: expected at least one group"),
        ({"actuators": {"legs": object()}}, r"actuators: 'legs': expected a ThrusterCfg \(no joints\), got object"),
        ({"actuators": {"all": group(), "legs": {"stiffness": 1}}}, "'legs': expected a ThrusterCfg"),
        ({"allocation_matrix": []}, "allocation_matrix: expected 6 rows of one length, got lengths \\[\\]"),
        ({"allocation_matrix": np.zeros((4, 4))}, "allocation_matrix: expected 6 rows"),
        ({"allocation_matrix": [[0.0] * 4] * 5 + [[0.0] * 3]}, "allocation_matrix: expected 6 rows of one length"),
        ({"allocation_matrix": np.full((6, 4), np.nan)}, "allocation_matrix: "),
        ({"allocation_matrix": np.zeros((6, 3))}, "allocation_matrix: expected a column for each of the 4 thrusters"),
        ({"rotor_directions": [1, -1, 0, 1]}, "rotor_directions: expected 1 and -1"),
        ({"rotor_directions": [1, -1]}, "rotor_directions: expected one for each of the 4 thrusters, got 2"),
        ({"actuators": {"all": group("rotor_[0-3]", "prop")}}, "'prop' matches none of base_link, rotor_0"),
        ({"actuators": {"all": group("rotor")}}, "'rotor' matches none"),  # whole names only
        ({"actuators": {"a": group("rotor_[0-3]"), "b": group("rotor_3")}}, "a body belongs to two groups"),
        ({"initial_rps": {"rotor_[0-2]": 100.0}}, "initial_rps: expected one expression for 'rotor_3', 0 match"),
        (
            {"initial_rps": {".*": 100.0, "rotor_3": 90.0}},
            "one expression for 'rotor_3', 2 match",
        ),
        ({"initial_rps": {".*": 100.0, "prop": 90.0}}, "initial_rps: 'prop' matches none"),
        ({"initial_rps": {"(": 100.0}}, "initial_rps: expected a regular expression"),
        ({"initial_rps": {".*": -1.0}}, "initial_rps"),
        ({"initial_rps": {".*": 800.0}}, "initial_rps: .*800 rps gives thrusts from 6.4 to 12.8 N.*0 to 10 N"),
        (
            {"actuators": {"all": group(thrust_range=(0.15, 10.0))}},
            "initial_rps: .*100 rps gives thrusts from 0.1 to 0.2 N",
        ),
    ],
)
def test_a_configuration_that_cannot_be_is_refused(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        vehicle(**changes)


def test_one_expression_may_name_all_thrusters_with_their_directions() -> None:
    """The published check counts expressions, so that `rotor_[0-3]` with four directions fails there."""
    assert vehicle(rotor_directions=[-1, -1, 1, 1], actuators={"all": group("rotor_[0-3]")}).num_thrusters == 4


@pytest.mark.parametrize(
    ("target", "ids", "worlds", "said"),
    [
        (np.zeros((3, 3)), None, None, r"target: expected what broadcasts to \(3, 4\), got \(3, 3\)"),
        (np.zeros((1, 1)), [4], None, "thruster_ids: there are 4"),
        (np.zeros((1, 1)), None, [3], "env_ids: there are 3"),
    ],
)
def test_targets_that_do_not_fit_are_refused(target, ids, worlds, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        vehicle().set_thrust_target(target, ids, worlds)
