"""Aerodynamics: the laws of each effect, surfaces of each environment, frames, and nothing where it is off."""

import dataclasses
import math
from typing import Any

import msgspec
import numpy as np
import pytest
from dynamics_goldens import LIBRARIES, arrays_of, host, libraries
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial.transform import Rotation

from firmware_profiles.errors import UsageError
from firmware_profiles.loader import load_profile
from twin.dynamics.aero import Aerodynamics, AeroEffects
from twin.dynamics.ground_effect import ground_effect_gain
from twin.dynamics.wall_effect import wall_effect_increment
from twin.dynamics.wrench import wrench_of_forces
from twin.world_params import WorldParams

IRIS = load_profile("px4_iris").vehicle
RADIUS = IRIS.propeller.blade_radius_m
ALL = AeroEffects(drag=True, external_force=True, ground_effect=True, wall_effect=True)
GROUND, WALL = AeroEffects(ground_effect=True), AeroEffects(wall_effect=True)
HUBS = np.array([rotor.position_flu_m for rotor in IRIS.propeller.rotors])


def gain(z: Any, k: float = 0.171, most: float = 2.0) -> np.ndarray:
    z = np.asarray(z, dtype=float)
    return ground_effect_gain(
        z, xp=np, blade_radius_m=np.ones(1), ground_effect_k=np.array([k]), max_ground_effect_gain=np.array([most])
    )


def wall(force: Any, clearance: float, toward: Any = (1.0, 0.0, 0.0), **changes: float) -> np.ndarray:
    values = {"wall_pull_gain": 0.21, "wall_pull_decay": 0.34, "wall_lift_gain": 0.06, "wall_lift_decay": 0.54}
    parameters = {name: np.array([[value]]) for name, value in (values | changes).items()}
    increment = wall_effect_increment(
        np.array([[force]], dtype=float),
        xp=np,
        clearance_m=np.array([[clearance]]),
        toward_wall=np.array([[toward]], dtype=float),
        blade_radius_m=np.ones((1, 1)),
        **parameters,
    )
    return increment[0, 0]


def forces(model: Aerodynamics, **changes: Any):
    """Hovering 2 m up, level and at rest, with 4 N a rotor."""
    n = model.n
    values: dict[str, Any] = {
        "thrust": np.full((n, 4), 4.0),
        "position_world": np.tile([0.0, 0.0, 2.0], (n, 1)),
        "rotation_world_body": np.tile(np.eye(3), (n, 1, 1)),
        "velocity_world": np.zeros((n, 3)),
    }
    return model.forces(**(values | changes))


def aerodynamics(worlds: int = 1, effects: AeroEffects = ALL, **values: Any) -> Aerodynamics:
    params = WorldParams.of(IRIS, worlds).with_values(**values)
    return Aerodynamics(params, effects=effects)


# Ground effect


def test_the_published_gains_and_the_cap() -> None:
    z = [0.15, 0.2, 0.25, 0.5, 1.0, 2.0]
    np.testing.assert_allclose(gain(z), [1.904762, 1.364606, 1.206273, 1.044659, 1.010803, 1.002679], rtol=1e-6)
    np.testing.assert_allclose(gain([0.5, 1.0], k=1.0), [1.333333, 1.066667], rtol=1e-6)
    # capped up to z/r = sqrt(2 k) / 4 = 0.146202, and below the pole at 0.103380, where the formula is negative
    assert gain([0.14620, 0.12, 0.10338, 0.1, 0.01, 0.0, -1.0]).tolist() == [2.0] * 7
    assert 1.999 < gain(0.14622) < 2.0
    assert gain(0.353553 - 1e-6, k=1.0) == 2.0 > gain(0.353553 + 1e-5, k=1.0)


def test_far_from_the_ground_and_without_a_coefficient_there_is_none() -> None:
    assert gain(math.inf) == 1.0
    assert gain(0.3, k=0.0) == 1.0


@given(st.floats(0.0, 2.0), st.floats(1.0, 4.0), st.lists(st.floats(-1.0, 50.0), min_size=2, max_size=20))
@settings(deadline=None, max_examples=200)
def test_the_gain_never_rises_with_distance_and_stays_in_its_bounds(k: float, most: float, z: list[float]) -> None:
    gains = gain(sorted(z), k=k, most=most)
    assert (np.diff(gains) <= 1e-12).all()
    assert ((gains >= 1.0) & (gains <= most)).all()


def test_a_weak_ground_effect_is_the_whole_vehicles_extra_force() -> None:
    """First order in k: T k (r / 4z)^2 a rotor, the added force of MuJoCo-Drones-Gym with its C = k."""
    k, z = 1e-5, 1.0
    added = forces(
        aerodynamics(effects=GROUND, ground_effect_k=k), position_world=np.array([[0.0, 0.0, z]])
    ).ground_body
    hub = z + HUBS[0, 2]
    np.testing.assert_allclose(added.sum(axis=(0, 1)), [0.0, 0.0, 16.0 * k * (RADIUS / (4 * hub)) ** 2], rtol=1e-6)


def test_a_tilted_vehicle_gets_more_from_its_low_rotors_which_rights_it() -> None:
    roll = Rotation.from_euler("x", 10, degrees=True).as_matrix()[None]
    low = np.array([[0.0, 0.0, 0.1]])
    out = forces(aerodynamics(effects=GROUND), rotation_world_body=roll, position_world=low)
    _, moment = wrench_of_forces(out.ground_body, HUBS, xp=np)
    assert moment[0, 0] < -1e-3  # rolled to the right, the right rotors are low
    assert not out.ground_body[..., :2].any()  # along the thrust only


def test_an_inverted_rotor_has_no_ground_effect_and_one_in_the_ground_the_largest() -> None:
    inverted = Rotation.from_euler("x", 180, degrees=True).as_matrix()[None]
    model = aerodynamics(effects=GROUND)
    assert not forces(model, rotation_world_body=inverted).ground_body.any()
    below = forces(model, position_world=np.array([[0.0, 0.0, -1.0]])).ground_body
    np.testing.assert_allclose(below[..., 2], 4.0)


def test_each_environment_has_its_own_ground() -> None:
    model = aerodynamics(3, effects=GROUND)
    position = np.array([[0.0, 0.0, 0.1], [5.0, 5.0, 7.1], [0.0, 0.0, 0.1]])
    model.set_ground([[0.0], [7.0], [-50.0]])
    added = forces(model, position_world=position).ground_body[..., 2]
    np.testing.assert_allclose(added[0], added[1], rtol=1e-9)
    assert (added[0] > 0.04).all()
    assert (added[2] < 1e-5).all()


def test_a_tables_edge_comes_in_as_distances() -> None:
    """The front rotors over a table, the rear ones over nothing: the nose is lifted."""
    distance = np.where(HUBS[:, 0] > 0, 0.05, math.inf)[None]
    out = forces(aerodynamics(effects=GROUND), ground_distance_m=distance)
    assert (out.ground_body[0, HUBS[:, 0] > 0, 2] > 0.1).all()
    assert not out.ground_body[0, HUBS[:, 0] < 0].any()
    assert wrench_of_forces(out.ground_body, HUBS, xp=np)[1][0, 1] < 0  # FLU: nose up is about -y


# Wall effect


def test_the_published_wall_factors() -> None:
    for d, pull, lift in ((0, 0.21, 0.06), (0.5, 0.122450, 0.044091), (1, 0.0714, 0.0324), (3, 0.008254, 0.009448)):
        np.testing.assert_allclose(wall((0.0, 0.0, 1.0), d), [pull, 0.0, lift], rtol=1e-4)


def test_no_wall_is_nothing_at_all() -> None:
    assert wall((0.3, -0.2, 5.0), math.inf).tolist() == [0.0, 0.0, 0.0]
    assert wall((0.3, -0.2, 5.0), -1.0).tolist() == wall((0.3, -0.2, 5.0), 0.0).tolist()


def test_a_rotor_that_does_not_push_up_feels_no_wall() -> None:
    for force in ((0.0, 0.0, -5.0), (5.0, 0.0, 0.0), (1.0, 1.0, 0.0)):
        assert not wall(force, 0.1).any()


@given(st.floats(0.0, 20.0), st.floats(0.01, 5.0), st.floats(0.1, 20.0))
@settings(deadline=None, max_examples=200)
def test_the_wall_pulls_and_lifts_less_the_farther_it_is(near: float, more: float, thrust: float) -> None:
    close, far = wall((0.0, 0.0, thrust), near), wall((0.0, 0.0, thrust), near + more)
    assert close[0] > far[0] > 0.0
    assert close[2] > far[2] > 0.0
    assert close[0] <= 0.21 * thrust


def test_the_nearest_of_several_walls_counts_for_each_rotor() -> None:
    model = aerodynamics(effects=WALL)
    gap = 0.5
    points, normals = (
        np.array([[[gap, 0, 0], [0, gap, 0]]], dtype=float),
        np.array([[[-1, 0, 0], [0, -1, 0]]], dtype=float),
    )
    model.set_walls(points, normals)
    out = forces(model).wall_body[0]
    for hub, force in zip(HUBS, out, strict=True):
        ahead, left = gap - hub[0], gap - hub[1]
        clearance, axis = (ahead, 0) if ahead < left else (left, 1)
        np.testing.assert_allclose(force[axis], 4.0 * 0.21 * 0.34 ** ((clearance - RADIUS) / RADIUS), rtol=1e-9)
        assert force[1 - axis] == 0.0
    assert {0, 1} == {int(np.argmax(abs(force[:2]))) for force in out}
    model.set_walls(np.zeros((1, 0, 3)), np.zeros((1, 0, 3)))
    assert not forces(model).wall_body.any()


def test_the_wall_comes_after_the_ground() -> None:
    """Its force is a share of what the ground effect left, not of the nominal thrust."""
    model = aerodynamics()
    model.set_walls([[[0.4, 0.0, 0.0]]], [[[-1.0, 0.0, 0.0]]])
    low = np.array([[0.0, 0.0, 0.02]])
    both = forces(model, position_world=low)
    lifted = 4.0 + both.ground_body[..., 2]
    assert (lifted > 4.4).all()
    high = forces(model, thrust=lifted, position_world=np.array([[0.0, 0.0, 1e9]]))
    np.testing.assert_allclose(both.wall_body, high.wall_body, rtol=1e-9)


# Body


def test_drag_takes_energy_and_the_external_force_is_the_worlds() -> None:
    rng = np.random.default_rng(4)
    rotation = Rotation.random(50, random_state=5).as_matrix()
    velocity, push = rng.normal(size=(50, 3)), rng.normal(size=(50, 3))
    model = aerodynamics(50, linear_drag_n_s_m=[0.5, 0.3, 0.2])
    out = forces(model, rotation_world_body=rotation, velocity_world=velocity, external_force_world=push)
    drag_world = np.einsum("nij,nj->ni", rotation, out.drag_body)
    assert ((drag_world * velocity).sum(axis=1) < 0).all()
    np.testing.assert_allclose(np.einsum("nij,nj->ni", rotation, out.external_body), push, rtol=1e-12)
    np.testing.assert_array_equal(out.body_force, out.drag_body + out.external_body)
    still = forces(model)
    assert not still.drag_body.any()
    assert not still.external_body.any()


# All together


def test_everything_is_off_by_default() -> None:
    assert AeroEffects() == AeroEffects(False, False, False, False)
    assert not AeroEffects().any
    assert not any(
        (IRIS.aerodynamics.ground_effect, IRIS.aerodynamics.wall_effect, IRIS.aerodynamics.motor_aerodynamics)
    )
    model = Aerodynamics(WorldParams.of(IRIS, 2))
    model.set_walls([[[0.3, 0.0, 0.0]]] * 2, [[[-1.0, 0.0, 0.0]]] * 2)
    out = forces(model, position_world=np.zeros((2, 3)), velocity_world=np.ones((2, 3)))
    for name in (field.name for field in dataclasses.fields(out)):
        value = getattr(out, name)
        assert value.shape == ((2, 3) if name in ("drag_body", "external_body") else (2, 4, 3))
        assert not value.any()
    with pytest.raises(UsageError, match="external_force_world: given, although"):
        forces(model, external_force_world=np.ones((2, 3)))


def test_the_profile_says_which_effects_are_on() -> None:
    on = msgspec.structs.replace(IRIS.aerodynamics, ground_effect=True)
    assert AeroEffects.of(msgspec.structs.replace(IRIS, aerodynamics=on)) == AeroEffects(drag=True, ground_effect=True)
    assert AeroEffects.of(IRIS) == AeroEffects(drag=True)


def test_the_direction_that_the_world_is_turned_to_changes_nothing_in_the_body() -> None:
    """Turn vehicle, walls, velocity and push about the vertical together."""
    rng = np.random.default_rng(6)
    tilt = Rotation.from_euler("xy", rng.uniform(-20, 20, (8, 2)), degrees=True)
    turn = Rotation.from_euler("z", rng.uniform(0, 360, (8, 1)), degrees=True)
    position, normal = rng.uniform([-0.1, -0.1, 0.2], [0.1, 0.1, 0.4], (8, 3)), np.tile([1.0, 0.0, 0.0], (8, 1))
    velocity, push = rng.normal(size=(8, 3)), rng.normal(size=(8, 3))
    results = []
    for world in (Rotation.identity(8), turn):
        model = aerodynamics(8)
        model.set_walls(world.apply(-0.4 * normal)[:, None], world.apply(normal)[:, None])
        results.append(
            forces(
                model,
                position_world=world.apply(position),
                rotation_world_body=(world * tilt).as_matrix(),
                velocity_world=world.apply(velocity),
                external_force_world=world.apply(push),
            )
        )
    for name in (field.name for field in dataclasses.fields(results[0])):
        plain, turned = (getattr(result, name) for result in results)
        assert abs(plain).max() > 1e-3
        np.testing.assert_allclose(turned, plain, atol=1e-12)


def test_increments_go_to_each_rotors_own_frame() -> None:
    """A rotor turned about its thrust: the same force, seen from its frame; one tilted pushes along its own axis."""
    turns = Rotation.from_euler("zyx", [[90, 0, 0], [0, 0, 0], [0, 20, 0], [0, 0, -30]], degrees=True).as_matrix()
    model = Aerodynamics(WorldParams.of(IRIS, 1), effects=ALL, rotor_rotation_body=turns)
    model.set_walls([[[0.4, 0.0, 0.0]]], [[[-1.0, 0.0, 0.0]]])
    out = forces(model, position_world=np.array([[0.0, 0.0, 0.1]]))
    body = out.rotor_increment_body
    np.testing.assert_allclose(np.einsum("rij,nrj->nri", turns, out.rotor_increment), body, atol=1e-12)
    np.testing.assert_allclose(out.rotor_increment[0, 0, 1], -body[0, 0, 0], rtol=1e-12)
    axis = turns[:, :, 2]
    np.testing.assert_allclose(np.cross(out.ground_body[0], axis), 0.0, atol=1e-12)  # ground effect along the thrust
    assert out.ground_body[0, 2, 0] > 1e-3


@libraries()
def test_n_worlds_are_n_times_one(library: str) -> None:
    rng = np.random.default_rng(7)
    n = 6
    state = {
        "thrust": rng.uniform(1, 6, (n, 4)),
        "position_world": rng.uniform([-0.2, -0.2, 0.1], [0.2, 0.2, 0.5], (n, 3)),
        "rotation_world_body": Rotation.random(n, random_state=8).as_matrix(),
        "velocity_world": rng.normal(size=(n, 3)),
        "external_force_world": rng.normal(size=(n, 3)),
    }
    values = {"ground_effect_k": rng.uniform(0.1, 0.4, (n, 1)), "wall_pull_gain": rng.uniform(0.1, 0.4, (n, 1))}
    grounds, points = rng.uniform(-0.2, 0.1, (n, 1)), rng.uniform(-1, -0.5, (n, 2, 3))
    normals = np.tile([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]], (n, 1, 1))

    def run(rows: slice) -> list[np.ndarray]:
        count = len(range(n)[rows])
        params = WorldParams.of(IRIS, count).with_values(**{name: value[rows] for name, value in values.items()})
        arrays = arrays_of(library, count)
        model = Aerodynamics(params, effects=ALL, arrays=arrays)
        model.set_ground(grounds[rows])
        model.set_walls(points[rows], normals[rows])
        out = model.forces(**{name: arrays.array(value[rows]) for name, value in state.items()})
        return [host(getattr(out, field.name)) for field in dataclasses.fields(out)]

    together, alone = run(slice(None)), [run(slice(world, world + 1)) for world in range(n)]
    tolerance = 1e-12 if LIBRARIES[library][1] == "float64" else 1e-5
    for index, batch in enumerate(together):
        np.testing.assert_allclose(batch, np.concatenate([one[index] for one in alone]), rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize(
    ("point", "normal", "said"),
    [
        (np.zeros((1, 3)), np.zeros((1, 3)), r"walls: expected two arrays \(1, W, 3\)"),
        (np.zeros((2, 1, 3)), np.zeros((2, 1, 3)), "walls: expected two arrays"),
        (np.zeros((1, 1, 3)), np.array([[[0.0, 0.0, 1.0]]]), "walls: .*horizontal unit vectors"),
        (np.zeros((1, 1, 3)), np.array([[[2.0, 0.0, 0.0]]]), "walls: .*horizontal unit vectors"),
        (np.full((1, 1, 3), np.nan), np.array([[[1.0, 0.0, 0.0]]]), "walls: expected finite points"),
    ],
)
def test_walls_that_cannot_be_are_refused(point, normal, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        aerodynamics().set_walls(point, normal)


def test_other_things_that_cannot_be_are_refused() -> None:
    with pytest.raises(UsageError, match="height_m"):
        aerodynamics(2).set_ground([[0.0], [math.inf]])
    with pytest.raises(UsageError, match="height_m: expected a shape"):
        aerodynamics(2).set_ground([1.0, 2.0, 3.0])
    with pytest.raises(UsageError, match="rotor_rotation_body: expected rotations"):
        Aerodynamics(WorldParams.of(IRIS, 1), rotor_rotation_body=np.zeros((4, 3, 3)))
    with pytest.raises(UsageError, match="worlds: there are 1"):
        aerodynamics().reset([1])
