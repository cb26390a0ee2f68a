"""Parity with the published vectors of the aerodynamic layer (lav2_aero), on every array library."""

import math

import msgspec
import numpy as np
from dynamics_goldens import LIBRARIES, arrays_of, check, each, golden, host, libraries
from scipy.spatial.transform import Rotation

from firmware_profiles.loader import load_profile
from firmware_profiles.profile import RotorParams
from twin.dynamics.aero import Aerodynamics, AeroEffects
from twin.dynamics.body_force import to_world, vertical_of
from twin.dynamics.ground_effect import ground_effect_gain
from twin.dynamics.surfaces import clearance_to_walls, distance_to_ground
from twin.dynamics.wall_effect import wall_effect_increment
from twin.dynamics.wrench import wrench_of_forces
from twin.world_params import WorldParams

FILE = golden("lav2_aero")
WALL_FIELDS = ("wall_pull_gain", "wall_pull_decay", "wall_lift_gain", "wall_lift_decay")
UP = np.array([0.0, 0.0, 1.0])


def tolerance(library: str) -> dict[str, float]:
    return FILE.tolerance(LIBRARIES[library][1])


def test_golden_is_the_file_that_its_sidecar_describes() -> None:
    assert FILE.described


@libraries()
@each(FILE, "z", "r", "kappa", "gmax", "gain")
def test_ground_effect_gain(case, library: str) -> None:
    array, xp = arrays_of(library, 1).array, arrays_of(library, 1).xp
    gain = ground_effect_gain(
        array(case["z"][:, None]),
        xp=xp,
        blade_radius_m=array(case["r"][:, None]),
        ground_effect_k=array(case["kappa"][:, None]),
        max_ground_effect_gain=array(case["gmax"][:, None]),
    )
    check(f"{case.name} {library}", gain[:, 0], case["gain"], **tolerance(library))


@libraries()
@each(FILE, "T_ge", "e_d", "clearance", "wall_params", "T_act")
def test_wall_effect(case, library: str) -> None:
    array, xp = arrays_of(library, 1).array, arrays_of(library, 1).xp
    parameters = {name: array(value) for name, value in zip(WALL_FIELDS, case["wall_params"], strict=True)}
    increment = wall_effect_increment(
        array(case["T_ge"][:, None]),
        xp=xp,
        clearance_m=array(case["clearance"][:, None]),
        toward_wall=array(case["e_d"][:, None]),
        blade_radius_m=array(case.config["radius"]),
        **parameters,
    )
    check(f"{case.name} {library}", host(increment)[:, 0] + case["T_ge"], case["T_act"], **tolerance(library))


@libraries()
@each(FILE, "quat", "vel_w", "F_ext_w", "C_drag", "F_body_b")
def test_drag_and_external_force(case, library: str) -> None:
    n = case["quat"].shape[0]
    arrays = arrays_of(library, n)
    params = WorldParams.of(load_profile("px4_iris").vehicle, n).with_values(linear_drag_n_s_m=case["C_drag"])
    model = Aerodynamics(params, effects=AeroEffects(drag=True, external_force=True), arrays=arrays)
    forces = model.forces(
        thrust=arrays.zeros(4),
        position_world=arrays.zeros(3),
        rotation_world_body=arrays.array(Rotation.from_quat(case["quat"]).as_matrix()),
        velocity_world=arrays.array(case["vel_w"]),
        external_force_world=arrays.array(case["F_ext_w"]),
    )
    check(f"{case.name} {library}", forces.body_force, case["F_body_b"], **tolerance(library))


def model_of(case, library: str) -> Aerodynamics:
    """The combined case through the profile's own types."""
    iris, config = load_profile("px4_iris").vehicle, case.config
    rotors = tuple(RotorParams(position_flu_m=tuple(hub), spin_dir=1) for hub in case["rotor_pos_b"].tolist())
    propeller = msgspec.structs.replace(iris.propeller, rotors=rotors, blade_radius_m=config["radius"])
    n = case["pos"].shape[0]
    params = WorldParams.of(msgspec.structs.replace(iris, propeller=propeller), n).with_values(
        ground_effect_k=config["kappa"],
        max_ground_effect_gain=config["gmax"],
        **dict(zip(WALL_FIELDS, case["wall_params"].tolist(), strict=True)),
    )
    effects = AeroEffects(ground_effect=True, wall_effect=True)
    model = Aerodynamics(params, effects=effects, arrays=arrays_of(library, n))
    model.set_ground(case["ground_z"][:, None])
    model.set_walls(case["wall_point"][:, None], case["wall_normal"][:, None])
    return model


@libraries()
@each(FILE, "pos", "rotor_pos_b", "thrust", "F_rotor_b")
def test_ground_then_wall(case, library: str) -> None:
    n = case["thrust"].shape[0]
    arrays, name, limits = arrays_of(library, n), f"{case.name} {library}", tolerance(library)
    array, xp = arrays.array, arrays.xp
    rotation = array(Rotation.from_quat(case["quat"]).as_matrix())
    forces = model_of(case, library).forces(
        thrust=array(case["thrust"]),
        position_world=array(case["pos"]),
        rotation_world_body=rotation,
        velocity_world=arrays.zeros(3),
    )
    nominal = array(case["thrust"][..., None] * UP)
    check(f"{name} increments", forces.rotor_increment_body, case["dF_rotor_b"], **limits)
    # The rotors' frames are the body's here: what goes to each of them is what telemetry shows.
    check(f"{name} in the rotors' frames", forces.rotor_increment, case["dF_rotor_b"], **limits)
    total = nominal + forces.rotor_increment_body
    check(f"{name} forces", total, case["F_rotor_b"], **limits)
    force, moment = wrench_of_forces(total, array(case["rotor_pos_b"]), xp=xp)
    check(f"{name} force", force, case["force_b"], **limits)
    largest = abs(case["F_rotor_b"]).max() * abs(case["rotor_pos_b"]).max()  # the moment is a difference of such
    check(f"{name} moment", moment, case["moment_b"], rtol=limits["rtol"], atol=limits["rtol"] * largest)


@libraries()
@each(FILE, "pos", "rotor_pos_b", "z_i", "d_i")
def test_distances_to_the_surfaces(case, library: str) -> None:
    n, rotors = case["thrust"].shape
    arrays, limits = arrays_of(library, n), tolerance(library)
    array, xp = arrays.array, arrays.xp
    rotation = array(Rotation.from_quat(case["quat"]).as_matrix())
    hub = to_world(array(np.tile(case["rotor_pos_b"], (n, 1, 1))), rotation) + array(case["pos"])[:, None, :]
    up = vertical_of(array(np.tile(UP, (n, rotors, 1))), rotation)
    ground = host(distance_to_ground(hub[..., 2] - array(case["ground_z"][:, None]), up, xp=xp))
    # Blowing along the ground, a rounding error decides between no distance and an enormous one: neither has an effect.
    ground[ground > 1e6] = math.inf
    expected = np.where(case["z_i"] > 1e6, math.inf, case["z_i"])
    check(f"{case.name} {library} ground", ground, expected, rtol=limits["rtol"], atol=limits["rtol"])
    clearance, toward = clearance_to_walls(
        hub,
        xp=xp,
        wall_point=array(case["wall_point"][:, None]),
        wall_normal=array(case["wall_normal"][:, None]),
        blade_radius_m=array(case.config["radius"]),
    )
    check(f"{case.name} {library} wall", clearance, case["d_i"], rtol=limits["rtol"], atol=limits["rtol"])
    check(
        f"{case.name} {library} direction",
        toward,
        np.repeat(-case["wall_normal"][:, None], rotors, axis=1),
        rtol=limits["rtol"],
        atol=0.0,
    )
