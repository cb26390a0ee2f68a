"""RotorEffects: what the profile asks for, in its order, as one force and one torque."""

from typing import Any

import msgspec
import numpy as np
import pytest
from dynamics_goldens import LIBRARIES, arrays_of, host, libraries
from scipy.spatial.transform import Rotation

from firmware_profiles.effects import BatteryParams
from firmware_profiles.loader import load_profile
from firmware_profiles.profile import VehicleParams
from twin.dynamics.rotor import RotorDynamics
from twin.dynamics.rotor_effects import RotorEffects
from twin.world_params import WorldParams

IRIS = load_profile("px4_iris").vehicle
HUBS = np.array([rotor.position_flu_m for rotor in IRIS.rotors])
BATTERY = BatteryParams(
    charge_points=(0.0, 1.0),
    open_circuit_v=(10.5, 12.6),
    internal_resistance_ohm=0.02,
    capacity_ah=3.5,
    nominal_v=12.0,
    drive_efficiency=0.8,
)


def vehicle(battery: BatteryParams | None = None, **on: bool) -> VehicleParams:
    air = msgspec.structs.replace(IRIS.aerodynamics, **on)
    return msgspec.structs.replace(IRIS, aerodynamics=air, battery=battery)


def state(n: int = 1, seed: int = 5) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    tilt = Rotation.from_euler("zyx", rng.uniform([-180, -25, -25], [180, 25, 25], (n, 3)), degrees=True)
    return {
        "thrust": rng.uniform(2.0, 6.0, (n, 4)),
        "reaction_torque": rng.uniform(0.1, 0.3, (n, 4)) * np.array(IRIS.spin_dir),
        "speed_rad_s": rng.uniform(600.0, 900.0, (n, 4)),
        "position_world": rng.uniform([-0.1, -0.1, 0.1], [0.1, 0.1, 0.3], (n, 3)),
        "rotation_world_body": tilt.as_matrix(),
        "velocity_world": rng.normal(size=(n, 3)),
        "rates_body": rng.normal(size=(n, 3)),
    }


def effects(which: VehicleParams, n: int = 1, library: str = "numpy", **values: Any) -> RotorEffects:
    model = RotorEffects(which, WorldParams.of(which, n).with_values(**values), arrays=arrays_of(library, n))
    model.aerodynamics.set_walls(np.tile([[[0.5, 0.0, 0.0]]], (n, 1, 1)), np.tile([[[-1.0, 0.0, 0.0]]], (n, 1, 1)))
    return model


def test_a_vehicle_that_asks_for_nothing_needs_none() -> None:
    assert not RotorEffects.needed(IRIS)
    assert not RotorEffects.needed(load_profile("lav2").vehicle)
    for asked in ({"ground_effect": True}, {"wall_effect": True}, {"motor_aerodynamics": True}, {"battery": BATTERY}):
        assert RotorEffects.needed(vehicle(**asked))
    force, torque = effects(IRIS).step(**state())
    assert not force.any()
    assert not torque.any()


def test_thrust_loss_comes_before_the_ground_and_the_ground_before_the_wall() -> None:
    now = state(3)
    model = effects(vehicle(ground_effect=True, wall_effect=True, motor_aerodynamics=True), 3)
    model.step(**now)
    motor, air = model.motor_forces, model.air_forces
    assert motor is not None
    assert air is not None
    assert (motor.thrust < now["thrust"]).all()
    only_air = effects(vehicle(ground_effect=True, wall_effect=True), 3)
    only_air.step(**(now | {"thrust": motor.thrust}))
    assert only_air.air_forces is not None
    np.testing.assert_array_equal(air.ground_body, only_air.air_forces.ground_body)
    np.testing.assert_array_equal(air.wall_body, only_air.air_forces.wall_body)
    assert abs(air.wall_body).max() > 1e-3


def test_the_sum_is_that_of_forces_at_the_hubs_about_the_centre_of_mass() -> None:
    now, centre = state(4), np.array([0.02, -0.01, 0.03])
    which = vehicle(ground_effect=True, wall_effect=True, motor_aerodynamics=True)
    model = effects(which, 4, centre_of_mass_flu_m=centre)
    force, torque = model.step(**now, wind_world=np.ones((4, 3)))
    motor, air = model.motor_forces, model.air_forces
    assert motor is not None
    assert air is not None
    at_hubs = motor.loss_body + motor.drag_body + air.ground_body + air.wall_body
    moment = np.cross(HUBS - centre, at_hubs).sum(axis=1) + motor.moment_body.sum(axis=1)
    rotation = now["rotation_world_body"]
    np.testing.assert_allclose(force, np.einsum("nij,nj->ni", rotation, at_hubs.sum(axis=1)), rtol=1e-10, atol=1e-13)
    np.testing.assert_allclose(torque, np.einsum("nij,nj->ni", rotation, moment), rtol=1e-10, atol=1e-13)


def test_drag_of_the_body_is_no_part_of_it() -> None:
    now = state() | {"position_world": np.array([[0.0, 0.0, 1e9]]), "velocity_world": np.array([[9.0, 0.0, 0.0]])}
    force, _ = effects(vehicle(ground_effect=True)).step(**now)
    assert abs(force).max() < 1e-12


def test_near_the_ground_less_speed_carries_the_vehicle() -> None:
    model = effects(vehicle(ground_effect=True))
    rotors = RotorDynamics(WorldParams.of(IRIS, 1), IRIS.spin_dir, 0.002)
    rotors.reset(speed_rpm=IRIS.derived.hover_rpm)
    out = rotors.update(np.full((1, 4), IRIS.derived.hover_rpm))
    now = state() | {"rotation_world_body": np.eye(3)[None], "thrust": out[:, :4], "reaction_torque": out[:, 4:]}
    added = [
        model.step(**(now | {"position_world": np.array([[0.0, 0.0, z]])}))[0][0, 2] for z in (0.05, 0.1, 0.3, 1.0, 5.0)
    ]
    assert added == sorted(added, reverse=True)
    assert added[0] > 0.03 * IRIS.total_mass_kg * 9.80665
    assert added[-1] < 1e-3


def test_a_battery_slows_the_next_commands() -> None:
    model = effects(vehicle(BATTERY))
    assert model.speed_scale.item() == 1.0
    heavy = state() | {"reaction_torque": np.full((1, 4), 0.6) * np.array(IRIS.spin_dir)}
    for _ in range(200):
        force, torque = model.step(**heavy)
    assert not (force.any() | torque.any())
    assert model.battery is not None
    assert model.speed_scale.item() == pytest.approx(model.battery.voltage_v.item() / 12.0, rel=1e-3)
    assert model.speed_scale.item() < 0.95
    assert model.battery.charge.item() < 1.0
    model.reset()
    assert (model.speed_scale.item(), model.battery.charge.item()) == (1.0, 1.0)


@libraries()
def test_n_worlds_are_n_times_one_on_every_library(library: str) -> None:
    now = state(3)
    which = vehicle(BATTERY, ground_effect=True, wall_effect=True, motor_aerodynamics=True)
    model, array = effects(which, 3, library), arrays_of(library, 3).array
    for _ in range(3):
        force, torque = model.step(**{name: array(value) for name, value in now.items()})
    tolerance = 1e-12 if LIBRARIES[library][1] == "float64" else 2e-5
    for world in range(3):
        alone = effects(which)
        for _ in range(3):
            one = alone.step(**{name: value[world : world + 1] for name, value in now.items()})
        np.testing.assert_allclose(host(force)[world], one[0][0], rtol=tolerance, atol=tolerance)
        np.testing.assert_allclose(host(torque)[world], one[1][0], rtol=tolerance, atol=tolerance)
        np.testing.assert_allclose(host(model.speed_scale)[world], alone.speed_scale[0], rtol=tolerance)
