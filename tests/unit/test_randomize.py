"""Worlds drawn from a vehicle's uncertainty: what is drawn, what a draw depends on, and what it does in the twin."""

import dataclasses

import numpy as np
import pytest
from twin_rig import DATE, ZURICH, G, command, put, replace, run, states, twin_of, vehicle

from firmware_profiles.effects import BatteryParams
from firmware_profiles.errors import ProfileError
from firmware_profiles.loader import load_profile
from firmware_profiles.uncertainty import UncertaintyParams
from twin.dynamics.delay import CommandDelay
from twin.randomize import randomize
from twin.twin import Twin
from twin.world_params import WorldParams

LARGE = UncertaintyParams(
    mass_rel=0.02,
    inertia_rel=0.03,
    centre_of_mass_m=(0.001, 0.002, 0.003),
    thrust_rel=0.04,
    torque_rel=0.05,
    time_constant_rel=0.06,
    drag_rel=0.07,
    rotor_delay_s=0.004,
    battery_voltage_v=0.3,
    battery_resistance_rel=0.08,
)
BATTERY = BatteryParams(
    charge_points=(0.0, 1.0),
    open_circuit_v=(14.0, 16.8),
    internal_resistance_ohm=0.02,
    capacity_ah=5.0,
    nominal_v=16.0,
    drive_efficiency=0.7,
)


def nominal(worlds: int, *, battery: bool = False) -> WorldParams:
    params = vehicle("lav2")
    return WorldParams.of(replace(params, battery=BATTERY) if battery else params, worlds)


def numbers(params: WorldParams) -> dict[str, np.ndarray]:
    values = {field.name: getattr(params, field.name) for field in dataclasses.fields(params)}
    return {name: value for name, value in values.items() if isinstance(value, np.ndarray)}


def test_no_uncertainty_draws_the_nominal_vehicle_to_the_bit() -> None:
    drawn = randomize(nominal(3), UncertaintyParams(), 7, rotors=4)
    for name, value in numbers(nominal(3)).items():
        assert np.array_equal(np.broadcast_to(value, getattr(drawn, name).shape), getattr(drawn, name)), name


WORLDS = 4000


def relative(drawn: WorldParams, name: str) -> np.ndarray:
    return getattr(drawn, name) / getattr(nominal(1), name) - 1.0


@pytest.mark.parametrize(
    ("name", "sigma", "columns"),
    [
        ("mass_kg", 0.02, 1),
        ("inertia_kg_m2", 0.03, 3),
        ("thrust_coefficient_n_s2", 0.04, 4),
        ("torque_coefficient_nm_s2", 0.05, 4),
        ("rise_time_constant_s", 0.06, 1),
        ("fall_time_constant_s", 0.06, 1),
        ("rotor_drag_n_s2_m", 0.07, 1),
    ],
)
def test_relative_parameters_have_their_deviation_and_their_limits(name: str, sigma: float, columns: int) -> None:
    apart = relative(randomize(nominal(WORLDS), LARGE, 0, rotors=4), name) / sigma
    assert apart.shape == (WORLDS, columns)
    assert np.abs(apart.mean(axis=0)).max() < 5 / np.sqrt(WORLDS)
    assert np.abs(apart.std(axis=0) - 1.0).max() < 5 / np.sqrt(2 * WORLDS)
    if name != "inertia_kg_m2":  # its largest moment may be brought down
        assert np.abs(apart).max() == pytest.approx(3.0)
    if columns > 1:
        correlation = np.corrcoef(apart.T) - np.eye(columns)
        assert np.abs(correlation).max() < 5 / np.sqrt(WORLDS)


def test_absolute_parameters_have_their_deviation() -> None:
    drawn = randomize(nominal(WORLDS, battery=True), LARGE, 0, rotors=4)
    centre = drawn.centre_of_mass_flu_m / LARGE.centre_of_mass_m
    assert np.abs(centre.std(axis=0) - 1.0).max() < 5 / np.sqrt(2 * WORLDS)
    assert np.abs(centre.mean(axis=0)).max() < 5 / np.sqrt(WORLDS)
    assert drawn.rotor_delay_s.min() >= 0.0
    assert np.sqrt(np.mean(drawn.rotor_delay_s**2)) == pytest.approx(0.004, rel=0.06)
    assert drawn.rotor_delay_s.max() == pytest.approx(0.012)
    drag = drawn.linear_drag_n_s_m
    assert drag[:, :2].std(axis=0) == pytest.approx(0.07 * np.array([0.5, 0.3]), rel=0.06)
    assert not drag[:, 2].any()  # nothing times anything
    battery = drawn.battery
    assert battery is not None
    shift = battery.open_circuit_v - BATTERY.open_circuit_v
    assert shift[:, 0] == pytest.approx(shift[:, 1])
    assert shift[:, 0].std() == pytest.approx(0.3, rel=0.06)
    assert (battery.internal_resistance_ohm / 0.02).std() == pytest.approx(0.08, rel=0.06)


def test_parameters_are_drawn_independently_of_each_other() -> None:
    drawn = numbers(randomize(nominal(WORLDS), LARGE, 0, rotors=4))
    varied = [column for value in drawn.values() for column in value.reshape(WORLDS, -1).T if np.ptp(column) > 0.0]
    assert len(varied) == 21
    correlation = np.corrcoef(varied) - np.eye(len(varied))
    assert np.abs(correlation).max() < 5 / np.sqrt(WORLDS)


def test_a_vehicle_without_a_battery_draws_the_same_numbers() -> None:
    without, with_one = randomize(nominal(5), LARGE, 3, 4), randomize(nominal(5, battery=True), LARGE, 3, 4)
    assert without.battery is None
    for name, value in numbers(without).items():
        assert np.array_equal(value, getattr(with_one, name)), name


def test_a_world_draws_the_same_numbers_among_8_or_800() -> None:
    few, many = randomize(nominal(8), LARGE, 1, 4), randomize(nominal(800), LARGE, 1, 4)
    for name, value in numbers(few).items():
        assert np.array_equal(value, getattr(many, name)[:8]), name


def test_a_parameter_that_is_known_exactly_changes_no_other() -> None:
    known = UncertaintyParams(thrust_rel=0.04)
    all_drawn, one_drawn = randomize(nominal(8), LARGE, 1, 4), randomize(nominal(8), known, 1, 4)
    assert np.array_equal(all_drawn.thrust_coefficient_n_s2, one_drawn.thrust_coefficient_n_s2)
    assert np.array_equal(one_drawn.mass_kg, nominal(8).mass_kg)


def test_another_seed_draws_other_vehicles() -> None:
    one, other = randomize(nominal(8), LARGE, 1, 4), randomize(nominal(8), LARGE, 2, 4)
    assert not np.any(one.mass_kg == other.mass_kg)


def test_every_vehicle_is_possible_at_the_largest_uncertainty() -> None:
    widest = UncertaintyParams(mass_rel=0.3, inertia_rel=0.3, thrust_rel=0.3, battery_voltage_v=100.0)
    drawn = randomize(nominal(WORLDS, battery=True), widest, 0, rotors=4)
    assert drawn.mass_kg.min() > 0.09 * nominal(1).mass_kg[0, 0]
    assert drawn.thrust_coefficient_n_s2.min() > 0.0
    assert drawn.battery is not None
    assert drawn.battery.open_circuit_v.min() > 0.0
    inertia = drawn.inertia_kg_m2
    assert inertia.min() > 0.0
    assert (2.0 * inertia.max(axis=1) <= inertia.sum(axis=1) * (1 + 1e-12)).all()


def test_every_shipped_vehicle_with_rotors_is_uncertain() -> None:
    for name in ("lav2", "px4_iris", "px4_x500"):
        assert not load_profile(name).uncertainty.nothing


@pytest.mark.parametrize(
    ("line", "key", "allowed"),
    [
        ("mass_rel = 0.4", "uncertainty.mass_rel", "<= 0.3"),
        ("thrust_rel = -0.1", "uncertainty.thrust_rel", ">= 0"),
        ("mass = 0.1", "uncertainty.mass", "mass_rel"),
    ],
)
def test_an_impossible_uncertainty_is_one_line(tmp_path, line: str, key: str, allowed: str) -> None:
    path = tmp_path / "vehicle.toml"
    path.write_text(f'extends = "px4_iris"\n[uncertainty]\n{line}\n', encoding="utf-8")
    with pytest.raises(ProfileError) as caught:
        load_profile(str(path))
    message = str(caught.value)
    assert message.startswith(f"{path}: {key}: ")
    assert allowed in message
    assert "\n" not in message


# What the twin makes of them


def test_each_world_has_its_own_delay_in_whole_steps() -> None:
    delay = CommandDelay(np.array([[0.0], [0.0021], [0.0059]]), 0.002, width=2)
    assert delay.steps.tolist() == [0, 1, 3]
    arrived = np.array([delay.step(np.full((3, 2), float(step))) for step in range(1, 9)])
    assert arrived[:, 0, 0].tolist() == [1, 2, 3, 4, 5, 6, 7, 8]
    assert arrived[:, 1, 1].tolist() == [0, 1, 2, 3, 4, 5, 6, 7]
    assert arrived[:, 2, 0].tolist() == [0, 0, 0, 1, 2, 3, 4, 5]
    delay.reset()
    assert not delay.step(np.ones((3, 2)))[1:].any()


def test_rotors_of_a_world_with_a_delay_are_late_by_it() -> None:
    twin = twin_of("px4_iris", 2, rotor_delay_s=[[0.0], [0.008]])
    told = command(twin, 500.0)
    speeds = []
    for _ in range(6):
        twin.step(told)
        speeds.append(twin._actuation.rotors.speed_rad_s[:, 0].copy())
    live, late = np.array(speeds).T
    assert live[0] > 0.0
    assert late[:2].tolist() == [0.0, 0.0]
    assert late[2:].tolist() == live[:4].tolist()
    twin.reset()
    twin.step(told)
    assert twin._actuation.rotors.speed_rad_s[1, 0] == 0.0


def test_a_centre_of_mass_ahead_pitches_a_hovering_vehicle_down() -> None:
    ahead = 0.004
    twin = put(twin_of("px4_iris", 2, centre_of_mass_flu_m=[[0, 0, 0], [ahead, 0, 0]]), height=20.0)
    params = vehicle("px4_iris")
    hover = params.hover_speed_rad_s()
    put(twin, rotors=hover)
    run(twin, 0.1, hover)
    pitch_rate = states(twin)[:, 11]
    # Thrust m g acts behind the centre of mass: about its own, the body pitches nose down, which is positive in FLU.
    expected = params.body.mass_kg * G * ahead / params.body.inertia_kg_m2[1] * 0.1
    # Rotors are not symmetric about the y axis in x: 0.13 ahead and behind, so the nominal one does not pitch.
    assert pitch_rate[0] == pytest.approx(0.0, abs=1e-3)
    assert pitch_rate[1] == pytest.approx(expected, rel=0.02)


def test_rotors_of_one_world_may_be_unequal() -> None:
    params = vehicle("px4_iris")
    c = params.propeller.thrust_coefficient_n_s2
    worlds = WorldParams.of(params, 2)
    weak = np.full((2, 4), c)
    weak[1, 0] *= 0.9  # front right
    twin = Twin(params, home=ZURICH, date=DATE, params=dataclasses.replace(worlds, thrust_coefficient_n_s2=weak))
    hover = params.hover_speed_rad_s()
    run(put(twin, height=20.0, rotors=hover), 0.04, hover)
    roll_rate = states(twin)[:, 10]
    front_right_y = params.propeller.rotors[0].position_flu_m[1]
    lost_n = 0.1 * c * hover**2
    expected = -front_right_y * lost_n / params.body.inertia_kg_m2[0] * 0.04
    assert roll_rate[1] - roll_rate[0] == pytest.approx(expected, rel=0.02)
