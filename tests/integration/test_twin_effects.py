"""The effects that a profile may ask for, in the twin that flies: off they change no bit, on they do what they say."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
import pytest
from twin_rig import G, command, put, replace, run, twin_of, vehicle

from firmware_profiles.effects import BatteryParams
from firmware_profiles.profile import VehicleParams
from firmware_profiles.signals import ActuatorCommand
from twin.twin import Twin

IRIS = vehicle()
HOVER = IRIS.hover_speed_rad_s()
BATTERY = BatteryParams(
    charge_points=(0.0, 1.0),
    open_circuit_v=(9.0, 12.6),
    internal_resistance_ohm=0.02,
    capacity_ah=5.0,
    nominal_v=12.6,
    drive_efficiency=0.8,
)


def with_effects(params: VehicleParams = IRIS, battery: BatteryParams | None = None, **on: Any) -> VehicleParams:
    return replace(params, aerodynamics=replace(params.aerodynamics, **on), battery=battery)


def flown(twin: Twin, ticks: int = 250) -> bytes:
    return b"".join(twin.step(command(twin, HOVER)).accel_frd.tobytes() + twin.state().tobytes() for _ in range(ticks))


def climb_rate(twin: Twin, height: float, seconds: float = 0.2) -> float:
    put(twin, height=height, rotors=HOVER)
    run(twin, seconds, HOVER)
    return float(twin.state()[9])


def test_a_vehicle_that_asks_for_none_has_none() -> None:
    assert twin_of().effects is None
    assert twin_of(with_effects(ground_effect=True)).effects is not None


def test_effects_that_find_nothing_to_act_on_change_no_bit() -> None:
    # No wall stands anywhere: the layer runs, and adds exact zeros.
    assert flown(put(twin_of(with_effects(wall_effect=True)), height=20.0, rotors=HOVER)) == flown(
        put(twin_of(), height=20.0, rotors=HOVER)
    )


def test_the_ground_lifts_near_it_and_not_far_from_it() -> None:
    nominal, near = climb_rate(twin_of(), 0.3), climb_rate(twin_of(with_effects(ground_effect=True)), 0.3)
    far = climb_rate(twin_of(with_effects(ground_effect=True)), 20.0)
    radius, hub_height = IRIS.flying_propeller().blade_radius_m, 0.3 + IRIS.rotors[0].position_flu_m[2]
    gain = 1 / (1 - IRIS.aerodynamics.ground_effect_k * (radius / (4 * hub_height)) ** 2)
    # It climbs meanwhile, by little: the gain at the start is the acceleration within a few per cent.
    assert near - nominal == pytest.approx((gain - 1) * G * 0.2, rel=0.1)
    assert abs(far - nominal) < 1e-4


def test_a_wall_pulls_towards_it() -> None:
    twin = twin_of(with_effects(wall_effect=True))
    assert twin.effects is not None
    put(twin, height=5.0, rotors=HOVER)
    twin.effects.aerodynamics.set_walls(np.array([[[0.0, 0.5, 0.0]]]), np.array([[[0.0, -1.0, 0.0]]]))
    run(twin, 0.2, HOVER)
    velocity = twin.state()[7:10]
    assert velocity[1] > 1e-3
    assert abs(velocity[0]) < velocity[1] / 5


def test_moving_air_brakes_and_weakens_the_rotors() -> None:
    params = with_effects(motor_aerodynamics=True)
    velocity = []
    for model in (IRIS, params):
        twin = put(twin_of(model), height=50.0, rotors=HOVER, vel_enu=(5.0, 0.0, 3.0))
        run(twin, 0.1, HOVER)
        velocity.append(twin.state()[7:10])
    plain, moved = velocity
    assert moved[0] < plain[0] - 0.01
    assert moved[2] < plain[2] - 0.01


def test_a_battery_sags_under_load_and_empties() -> None:
    twin = put(twin_of(with_effects(battery=BATTERY)), height=50.0, rotors=HOVER)
    run(twin, 2.0, HOVER)
    assert twin.effects is not None
    battery = twin.effects.battery
    assert battery is not None
    assert 10.0 < battery.voltage_v.item() < 12.6
    assert 0.9 < battery.charge.item() < 1.0
    speeds = twin._actuation.rotors.speed_rad_s
    np.testing.assert_allclose(speeds, np.full((1, 4), HOVER * twin.effects.speed_scale.item()), rtol=2e-3)
    assert twin.state()[9] < -0.1, "it sinks, as the controls are not raised"


def test_a_battery_is_full_again_after_a_reset() -> None:
    twin = twin_of(with_effects(battery=BATTERY))
    first = flown(twin)
    twin.reset()
    assert flown(twin) == first


def test_a_checkpoint_holds_the_battery() -> None:
    twin, other = twin_of(with_effects(battery=BATTERY)), twin_of(with_effects(battery=BATTERY), n=3)
    flown(twin)
    checkpoint = np.empty(twin.checkpoint_size)
    twin.save(checkpoint)
    other.load(checkpoint)
    for _ in range(50):
        twin.step(command(twin, HOVER))
        other.step(command(other, HOVER))
    assert (other.states() == twin.state()).all()


def drive_profile(**changes: Any) -> VehicleParams:
    params = vehicle("lav2")
    assert params.ground_drive is not None
    return replace(params, ground_drive=msgspec.structs.replace(params.ground_drive, **changes))


def side_set_points(params: VehicleParams, ticks: int) -> list[list[float]]:
    twin = twin_of(params)
    seen = []
    for _ in range(ticks):
        twin.step(ActuatorCommand(np.zeros((1, 4)), np.array([[4.0, 6.0]])))
        seen.append(twin._actuation._sides[0].tolist())
    return seen


def test_the_sides_are_told_late_and_by_their_gains() -> None:
    late = side_set_points(drive_profile(command_delay_s=(0.008, 0.016), side_gain=(0.5, 1.0)), 6)
    assert late == [[0.0, 0.0], [0.0, 0.0], [2.0, 0.0], [2.0, 0.0], [2.0, 6.0], [2.0, 6.0]]
    assert side_set_points(vehicle("lav2"), 2) == [[4.0, 6.0]] * 2


def test_the_difference_of_the_sides_is_scaled() -> None:
    assert side_set_points(drive_profile(yaw_allocation_scale=2.0), 1) == [[3.0, 7.0]]
