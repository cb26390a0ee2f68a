"""VehicleParams: what is derived, coefficients from a propeller's numbers, and the per-world form."""

import copy
import math
import pickle
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from firmware_profiles.derived import hover_throttle, thrust_coefficient, torque_coefficient
from firmware_profiles.effects import AerodynamicsParams, BatteryParams, Px4AlignedParams
from firmware_profiles.errors import ProfileError, UsageError
from firmware_profiles.loader import load_profile, profile_names
from firmware_profiles.profile import RotorParams, VehicleParams
from twin.control.mixer import Mixer
from twin.control.thrust_curve import NormalisedThrust
from twin.world_params import WorldParams

IRIS, LAV2 = load_profile("px4_iris").vehicle, load_profile("lav2").vehicle
replace = msgspec.structs.replace
BATTERY = BatteryParams(
    charge_points=(0.0, 1.0),
    open_circuit_v=(10.5, 12.6),
    internal_resistance_ohm=0.02,
    capacity_ah=3.5,
    nominal_v=11.1,
    drive_efficiency=0.8,
)


def with_propeller(**changes: Any) -> VehicleParams:
    return replace(IRIS, propeller=replace(IRIS.propeller, **changes))


# Derived values


FLYING = [name for name in profile_names() if load_profile(name).vehicle.rotors]


@pytest.mark.parametrize("name", FLYING)
def test_at_hover_the_thrust_is_the_weight_and_the_moments_are_those_of_the_geometry(name: str) -> None:
    vehicle = load_profile(name).vehicle
    speeds = np.full(len(vehicle.rotors), vehicle.hover_speed_rad_s())
    thrust, roll, pitch, yaw = np.array(vehicle.derived.allocation_matrix) @ speeds**2
    assert thrust == pytest.approx(vehicle.total_mass_kg * vehicle.environment.gravity_m_s2, rel=1e-12)
    lever = max(abs(x) for rotor in vehicle.rotors for x in rotor.position_flu_m[:2])
    assert abs(yaw) < 1e-9 * thrust
    assert max(abs(roll), abs(pitch)) < 0.1 * lever * thrust  # the Iris' rotors are not quite about its centre
    assert vehicle.derived.hover_rpm == pytest.approx(vehicle.hover_speed_rad_s() * 60 / (2 * math.pi), rel=1e-12)
    assert 0.2 < vehicle.derived.hover_throttle < 0.8


def test_the_mixer_inverts_the_allocation() -> None:
    for vehicle in (IRIS, LAV2):
        mixer = Mixer.of(vehicle)
        wrench = np.array([[vehicle.total_mass_kg * 9.80665, 0.05, -0.04, 0.01]])
        speeds = mixer.allocate(wrench)
        np.testing.assert_allclose(np.array(vehicle.derived.allocation_matrix) @ speeds[0] ** 2, wrench[0], rtol=1e-9)


def test_hover_throttle_is_the_signal_that_carries_the_weight() -> None:
    for factor in (0.0, 0.3, 1.0):
        vehicle = replace(IRIS, px4=Px4AlignedParams(thrust_model_factor=factor))
        derived = vehicle.derived
        newtons = NormalisedThrust(derived.max_thrust_n, factor).newtons(np.array([[derived.hover_throttle]]))
        assert newtons.item() == pytest.approx(vehicle.total_mass_kg * 9.80665, rel=1e-12)
    assert IRIS.derived.hover_throttle == pytest.approx(1.535 * 9.80665 / (4 * 5.84e-6 * 1100**2), rel=1e-12)


@pytest.mark.parametrize(
    ("share", "factor", "throttle"),
    [
        (0.1, 0.3, 0.135042),
        (0.25, 0.3, 0.314699),
        (0.75, 0.3, 0.798304),
        (1.0, 0.3, 1.0),
        (0.5, 0.35, 0.584973),
        (0.25, 1.0, 0.5),
        (0.4, 0.0, 0.4),
        (0.0, 1.0, 0.0),
    ],
)
def test_published_values_of_the_inverse_thrust_curve(share: float, factor: float, throttle: float) -> None:
    assert hover_throttle(share, factor) == pytest.approx(throttle, rel=5e-6)


def test_what_cannot_hover_says_so_instead_of_failing() -> None:
    assert replace(IRIS, body=replace(IRIS.body, mass_kg=100.0)).derived.hover_throttle > 1.0
    assert hover_throttle(math.inf, 0.5) == math.inf
    assert with_propeller(thrust_coefficient_n_s2=5e-324, max_speed_rad_s=1e-3).derived.hover_throttle == math.inf


def test_derived_values_follow_every_change_and_every_copy() -> None:
    heavy = replace(IRIS, body=replace(IRIS.body, mass_kg=4 * 1.535))
    assert heavy.hover_speed_rad_s() == pytest.approx(2 * IRIS.hover_speed_rad_s(), rel=1e-12)
    for same in (copy.copy(heavy), copy.deepcopy(heavy), pickle.loads(pickle.dumps(heavy))):
        assert same == heavy
        assert same.derived == heavy.derived
    assert heavy != IRIS


def test_the_two_steps_are_kept_apart() -> None:
    slow = replace(IRIS, sensors=replace(IRIS.sensors, imu=replace(IRIS.sensors.imu, rate_hz=100.0)))
    assert (IRIS.sim_dt_s, IRIS.step_dt_s) == (0.002, 0.004)
    assert (slow.sim_dt_s, slow.step_dt_s) == (0.002, 0.01)
    assert LAV2.spin_dir == (-1, -1, 1, 1)


# Coefficients from numbers


def test_coefficients_follow_from_the_propellers_numbers() -> None:
    """T = C_T rho n^2 D^4, Q = C_Q rho n^2 D^5 at 100 revolutions per second."""
    vehicle = with_propeller(thrust_number=0.1, torque_number=0.008, blade_radius_m=0.1)
    speed = 100.0 * 2 * math.pi
    propeller = vehicle.propeller
    assert propeller.thrust_coefficient_n_s2 * speed**2 == pytest.approx(0.1 * 1.225 * 1e4 * 0.2**4, rel=1e-12)
    assert propeller.torque_coefficient_nm_s2 * speed**2 == pytest.approx(0.008 * 1.225 * 1e4 * 0.2**5, rel=1e-12)
    assert thrust_coefficient(0.1, 0.1, 1.225) == propeller.thrust_coefficient_n_s2
    assert torque_coefficient(0.008, 0.1, 1.225) == propeller.torque_coefficient_nm_s2
    # What was derived is then what the vehicle has: a coefficient that is given later holds.
    again = replace(vehicle, propeller=replace(propeller, thrust_coefficient_n_s2=1e-5))
    assert again.propeller.thrust_coefficient_n_s2 == 1e-5


def profile_file(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "vehicle.toml"
    path.write_text(f'extends = "px4_iris"\n{text}\n')
    return path


def test_a_file_may_give_numbers_and_a_density(tmp_path: Path) -> None:
    thin = profile_file(
        tmp_path, "[vehicle.propeller]\nthrust_number = 0.1\n[vehicle.environment]\nair_density_kg_m3 = 0.6"
    )
    propeller = load_profile(str(thin)).vehicle.propeller
    assert propeller.thrust_coefficient_n_s2 == pytest.approx(thrust_coefficient(0.1, 0.128, 0.6), rel=1e-12)
    assert propeller.torque_coefficient_nm_s2 == IRIS.propeller.torque_coefficient_nm_s2


@pytest.mark.parametrize(
    ("text", "key", "said"),
    [
        ("[vehicle.propeller]\nthrust_number = 0.0", "vehicle.propeller.thrust_number", "> 0"),
        (
            "[vehicle.propeller]\nthrust_number = 1e-320",
            "vehicle.propeller.thrust_number",
            "finite coefficient above 0",
        ),
        ("[vehicle.propeller]\nblade_radius_m = -1", "vehicle.propeller.blade_radius_m", "> 0"),
        ("[vehicle.aerodynamics]\nmax_ground_effect_gain = 0.5", "vehicle.aerodynamics.max_ground_effect_gain", ">= 1"),
        ("[vehicle.aerodynamics]\nwall_pull_decay = 1.0", "vehicle.aerodynamics.wall_pull_decay", "< 1"),
        ("[vehicle.aerodynamics]\nground = true", "vehicle.aerodynamics.ground", "ground_effect"),
        ("[vehicle.px4]\nthrust_model_factor = 1.5", "vehicle.px4.thrust_model_factor", "<= 1"),
        ("[vehicle]\nderived = 1", "vehicle.derived", "unknown key"),
        ("[vehicle.battery]\nnominal_v = 12", "vehicle.battery.charge_points", "missing"),
        (
            "[vehicle.battery]\ncharge_points = [0, 1]\nopen_circuit_v = [10, 11, 12]\ninternal_resistance_ohm = 0.1\n"
            "capacity_ah = 3\nnominal_v = 12\ndrive_efficiency = 0.8",
            "vehicle.battery.open_circuit_v",
            "one voltage for each of the 2 charge_points, got 3",
        ),
    ],
)
def test_a_file_that_is_wrong_is_refused_in_one_line(tmp_path: Path, text: str, key: str, said: str) -> None:
    path = profile_file(tmp_path, text)
    with pytest.raises(ProfileError) as caught:
        load_profile(str(path))
    file, named, problem = str(caught.value).split(": ", 2)
    assert (file, named) == (str(path), key)
    assert said in problem


def test_a_propeller_needs_its_coefficients_or_its_numbers() -> None:
    for kind, field in (("thrust", "thrust_coefficient_n_s2"), ("torque", "torque_coefficient_nm_s2")):
        with pytest.raises(ProfileError, match=f"propeller.{field}: missing; expected it, or {kind}_number"):
            with_propeller(**{field: 0.0})


# Defaults


def test_the_effects_have_the_seeds_defaults_and_are_off() -> None:
    air = AerodynamicsParams()
    assert (air.ground_effect_k, air.max_ground_effect_gain) == (0.171, 2.0)
    wall = (air.wall_pull_gain, air.wall_pull_decay, air.wall_lift_gain, air.wall_lift_decay)
    assert wall == (0.21, 0.34, 0.06, 0.54)
    assert (air.max_relative_airspeed_m_s, air.rotor_drag_n_s2_m, air.rolling_moment_n_s2) == (25.0, 1.75e-4, 1e-6)
    for name in profile_names():
        vehicle = load_profile(name).vehicle
        air = vehicle.aerodynamics
        assert not (air.ground_effect | air.wall_effect | air.motor_aerodynamics)
        assert vehicle.battery is None


def test_the_published_lav2_constants() -> None:
    propeller = LAV2.propeller
    assert propeller.thrust_coefficient_n_s2 == 1.1529035793718415e-05
    assert propeller.torque_coefficient_nm_s2 == 1.9211597483286326e-07
    assert LAV2.derived.max_thrust_n == pytest.approx(50.843, abs=1e-3)


# Per-world form


def test_the_per_world_form_has_the_same_fields() -> None:
    vehicle = replace(LAV2, battery=BATTERY)
    worlds = WorldParams.of(vehicle, 3)
    assert worlds.blade_radius_m.tolist() == [[0.125]] * 3
    assert worlds.ground_effect_k.tolist() == [[0.171]] * 3
    assert worlds.rotor_position_flu_m.shape == (3, 4, 3)
    assert worlds.rotor_position_flu_m[2].tolist() == [list(rotor.position_flu_m) for rotor in LAV2.propeller.rotors]
    assert worlds.ground_drive is not None
    assert worlds.ground_drive.max_side_speed_rad_s.tolist() == [[41.7]] * 3
    assert worlds.battery is not None
    assert worlds.battery.open_circuit_v.tolist() == [[10.5, 12.6]] * 3
    nothing = WorldParams.of(IRIS, 1)
    assert (nothing.ground_drive, nothing.battery) == (None, None)


def test_values_reach_their_group_and_leave_the_rest() -> None:
    worlds = WorldParams.of(replace(LAV2, battery=BATTERY), 2)
    changed = worlds.with_values(
        mass_kg=3.0, side_gain=[[1.0, 0.9], [1.1, 1.0]], internal_resistance_ohm=[[0.01], [0.05]], blade_radius_m=0.1
    )
    assert changed.mass_kg.tolist() == [[3.0], [3.0]]
    assert changed.ground_drive.side_gain.tolist() == [[1.0, 0.9], [1.1, 1.0]]
    assert changed.battery.internal_resistance_ohm.tolist() == [[0.01], [0.05]]
    assert changed.battery.capacity_ah is worlds.battery.capacity_ah
    assert worlds.ground_drive.side_gain.tolist() == [[1.0, 1.0]] * 2
    moved = worlds.with_values(rotor_position_flu_m=worlds.rotor_position_flu_m * [1.0, -1.0, 1.0])
    np.testing.assert_array_equal(moved.rotor_position_flu_m[..., 1], -worlds.rotor_position_flu_m[..., 1])


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"side_gain": 1.0}, "unknown parameter 'side_gain'; allowed: mass_kg, "),  # the Iris has no wheels
        ({"ground_drive": 1.0}, "unknown parameter 'ground_drive'"),
        ({"max_ground_effect_gain": 0.9}, "max_ground_effect_gain: expected finite values of at least 1"),
        ({"ground_effect_k": -0.1}, "ground_effect_k: expected finite values of at least 0"),
        ({"wall_lift_decay": 1.2}, "wall_lift_decay: expected finite values above 0 and at most 1"),
        ({"rotor_position_flu_m": np.zeros((3, 3))}, "rotor_position_flu_m: expected a shape that fits"),
        ({"rotor_position_flu_m": np.nan}, "rotor_position_flu_m: expected finite values"),
        ({"blade_radius_m": 0.0}, "blade_radius_m: expected finite values above 0"),
    ],
)
def test_values_that_no_world_has_are_refused(values: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        WorldParams.of(IRIS, 2).with_values(**values)


def test_any_number_of_rotors() -> None:
    arms = [(math.cos(angle), math.sin(angle), 0.0) for angle in np.arange(6) * math.pi / 3]
    rotors = tuple(RotorParams(position_flu_m=arm, spin_dir=1 if i % 2 else -1) for i, arm in enumerate(arms))
    vehicle = with_propeller(rotors=rotors)
    assert np.array(vehicle.derived.allocation_matrix).shape == (4, 6)
    assert WorldParams.of(vehicle, 2).rotor_position_flu_m.shape == (2, 6, 3)
    assert vehicle.hover_speed_rad_s() == pytest.approx(IRIS.hover_speed_rad_s() * math.sqrt(4 / 6), rel=1e-12)
