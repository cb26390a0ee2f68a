"""Battery: its curve, its circuit, its charge, and what reaches the rotors."""

import math
from typing import Any

import msgspec
import numpy as np
import pytest
from dynamics_goldens import LIBRARIES, arrays_of, host, libraries
from hypothesis import given, settings
from hypothesis import strategies as st

from firmware_profiles.effects import BatteryParams
from firmware_profiles.errors import ProfileError, UsageError
from firmware_profiles.loader import load_profile
from twin.dynamics.battery import Battery, battery_current, open_circuit_voltage, shaft_power
from twin.dynamics.rotor import RotorDynamics
from twin.world_params import WorldParams

IRIS = load_profile("px4_iris").vehicle
PACK = BatteryParams(
    charge_points=(0.0, 0.2, 1.0),
    open_circuit_v=(10.5, 11.1, 12.6),
    internal_resistance_ohm=0.02,
    capacity_ah=3.5,
    nominal_v=12.0,
    drive_efficiency=0.8,
    sag_time_constant_s=0.0,
)
VEHICLE = msgspec.structs.replace(IRIS, battery=PACK)


def battery(worlds: int = 1, dt_s: float = 1.0, library: str = "numpy", **values: Any) -> Battery:
    params = WorldParams.of(VEHICLE, worlds).with_values(**values)
    return Battery(params.battery, dt_s, arrays=arrays_of(library, worlds))


def load(model: Battery, watt: float) -> np.ndarray:
    return model.step(np.full((model.n, 1), watt))


def test_the_voltage_follows_its_points_with_lines_between_them() -> None:
    charge = np.array([[-0.5, 0.0, 0.1, 0.2, 0.6, 1.0, 1.5]]).T
    points = {name: np.tile(getattr(PACK, name), (7, 1)) for name in ("charge_points", "open_circuit_v")}
    volts = open_circuit_voltage(charge, xp=np, **points)
    np.testing.assert_allclose(volts[:, 0], [10.5, 10.5, 10.8, 11.1, 11.85, 12.6, 12.6])


@given(st.floats(0.0, 1e5), st.floats(5.0, 60.0), st.floats(1e-4, 1.0))
@settings(deadline=None, max_examples=300)
def test_the_load_takes_its_power_as_far_as_there_is_any(watt: float, volt: float, ohm: float) -> None:
    args = np.array([[watt]]), np.array([[volt]])
    current = battery_current(*args, xp=np, internal_resistance_ohm=np.array([[ohm]])).item()
    terminal, largest = volt - ohm * current, volt * volt / (4 * ohm)
    assert current * terminal == pytest.approx(min(watt, largest), rel=1e-6)
    assert terminal >= volt / 2 * (1 - 1e-7)  # of the two currents that give the power, the smaller one


def test_without_load_nothing_sags_and_under_load_it_does() -> None:
    model = battery()
    assert load(model, 0.0).item() == 1.0
    assert (model.voltage_v.item(), model.current_a.item(), model.charge.item()) == (12.6, 0.0, 1.0)
    scales = [load(battery(), watt).item() for watt in (200.0, 400.0, 800.0, 1200.0)]
    assert scales == sorted(scales, reverse=True)
    assert scales[-1] < 0.9
    assert load(battery(), 1e9).item() == pytest.approx(6.3 / 12.0)  # half of the open-circuit voltage


def test_losses_and_what_idles_are_drawn_too() -> None:
    model = battery(idle_power_w=10.0, internal_resistance_ohm=1e-9)
    load(model, 100.0)
    assert model.current_a.item() * model.voltage_v.item() == pytest.approx(100.0 / 0.8 + 10.0)


def test_it_is_empty_after_its_capacity_and_not_below() -> None:
    flat = {"open_circuit_v": [12.0, 12.0, 12.0], "internal_resistance_ohm": 1e-9, "drive_efficiency": 1.0}
    model = battery(**flat)
    seconds = 0
    while model.charge.item() > 0.5 + 1e-9:
        load(model, 12.0 * 7.0)  # 7 A of 3.5 Ah: half an hour to empty
        seconds += 1
    assert seconds == 900
    for _ in range(1000):
        load(model, 12.0 * 7.0)
    assert model.charge.item() == 0.0


def test_the_charge_does_not_depend_on_the_step() -> None:
    ends = []
    for dt, steps in ((1.0, 600), (0.1, 6000)):
        model = battery(dt_s=dt)
        for _ in range(steps):
            load(model, 150.0)
        ends.append(model.charge.item())
    assert ends[0] == pytest.approx(ends[1], rel=1e-3)
    assert ends[0] < 0.6


def test_an_emptier_battery_is_weaker() -> None:
    charges = np.linspace(0.0, 1.0, 11)[:, None]
    model = battery(11, initial_charge=charges)
    scale = load(model, 300.0)[:, 0]
    assert (np.diff(scale) >= 0).all()
    assert scale[0] < scale[-1]


def test_shaft_power_is_torque_times_speed_and_braking_gives_nothing_back() -> None:
    rotors = RotorDynamics(WorldParams.of(IRIS, 1), IRIS.spin_dir, 0.002)
    rotors.reset(speed_rpm=IRIS.derived.hover_rpm)
    hover = IRIS.derived.hover_speed_rad_s
    out = rotors.update(np.full((1, 4), IRIS.derived.hover_rpm))
    power = shaft_power(rotors.speed_rad_s, out[:, 4:], np.array(IRIS.spin_dir), xp=np)
    assert power.item() == pytest.approx(4 * 3.504e-7 * hover**3, rel=1e-9)
    braking = rotors.update(np.zeros((1, 4)))
    assert shaft_power(rotors.speed_rad_s, braking[:, 4:], np.array(IRIS.spin_dir), xp=np).item() == 0.0


def test_sag_reaches_the_rotors() -> None:
    """A full throttle on an old battery: slower than on a stiff one, in the proportion of the voltages."""
    ends = {}
    for ohm in (1e-6, 0.05):
        model = battery(dt_s=0.002, internal_resistance_ohm=ohm, sag_time_constant_s=0.05)
        rotors = RotorDynamics(WorldParams.of(IRIS, 1), IRIS.spin_dir, 0.002)
        target, scale, out = rotors.limit(np.full((1, 4), 1100.0)), np.ones((1, 1)), np.zeros((1, 8))
        late: list[float] = []
        for _ in range(500):
            rotors.step(target * scale, out)
            scale = model.step(shaft_power(rotors.speed_rad_s, out[:, 4:], np.array(IRIS.spin_dir), xp=np))
            late.append(rotors.speed_rad_s[0, 0])
        assert np.ptp(late[-100:]) < 1.0  # settled: no chatter between rotors and battery
        ends[ohm] = rotors.speed_rad_s[0, 0]
        assert rotors.speed_rad_s[0, 0] == pytest.approx(1100.0 * min(1.0, model.voltage_v.item() / 12.0), rel=1e-3)
    assert ends[1e-6] == pytest.approx(1100.0, rel=1e-4)
    assert ends[0.05] < 1000.0


def test_the_rotors_see_the_sag_through_its_lag() -> None:
    model, at_once = battery(dt_s=0.01, sag_time_constant_s=0.05, capacity_ah=1e6), battery()
    end = load(at_once, 1500.0).item()
    for step in range(1, 20):
        scale = load(model, 1500.0).item() * 12.0
        expected = end * 12.0 + (12.6 - end * 12.0) * math.exp(-0.01 * step / 0.05)
        assert scale == pytest.approx(min(expected, 12.0), rel=1e-6)
    assert model.voltage_v.item() == pytest.approx(end * 12.0, rel=1e-6)


@libraries()
def test_worlds_are_independent_and_a_reset_fills_the_named_ones(library: str) -> None:
    values = {"internal_resistance_ohm": [[0.01], [0.05], [0.1]], "initial_charge": [[1.0], [0.8], [0.4]]}
    model, array = battery(3, library=library, **values), arrays_of(library, 3).array
    alone = [battery(**{name: value[world] for name, value in values.items()}) for world in range(3)]
    tolerance = 1e-12 if LIBRARIES[library][1] == "float64" else 1e-5
    for watt in (100.0, 500.0, 5000.0):
        scale = host(model.step(array(np.full((3, 1), watt))))
        np.testing.assert_allclose(scale, [load(one, watt)[0] for one in alone], rtol=tolerance)
        np.testing.assert_allclose(host(model.charge), [one.charge[0] for one in alone], rtol=tolerance)
    used = host(model.charge)
    model.reset([2])
    np.testing.assert_allclose(host(model.charge), [used[0], used[1], [0.4]], rtol=1e-6)
    assert host(model.current_a)[2] == 0.0
    np.testing.assert_allclose(host(model.voltage_v)[2], 11.475, rtol=1e-6)


def test_there_is_none_by_default() -> None:
    assert IRIS.battery is None
    assert WorldParams.of(IRIS, 2).battery is None
    with pytest.raises(UsageError, match="battery: the vehicle's parameters have none"):
        Battery(WorldParams.of(IRIS, 2).battery, 0.002)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"charge_points": (0.0, 1.0)}, "battery.open_circuit_v: expected one voltage for each of the 2"),
        ({"charge_points": (0.0, 0.5, 0.9)}, "battery.charge_points: expected numbers that rise from 0 to 1"),
        ({"charge_points": (0.1, 0.5, 1.0)}, "battery.charge_points: expected numbers that rise"),
        ({"charge_points": (0.0, 0.0, 1.0)}, "battery.charge_points: expected numbers that rise"),
    ],
)
def test_a_curve_that_is_none_is_refused(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(ProfileError, match=said):
        msgspec.structs.replace(PACK, **changes)


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"internal_resistance_ohm": 0.0}, "internal_resistance_ohm: expected finite values above 0"),
        ({"initial_charge": 1.1}, "initial_charge: expected finite values of at least 0 and at most 1"),
        ({"drive_efficiency": 1.5}, "drive_efficiency: .*at most 1"),
        ({"charge_points": [0.0, 0.9, 0.9]}, "charge_points: expected numbers that rise"),
        ({"capacity_ah": math.inf}, "capacity_ah"),
    ],
)
def test_values_of_worlds_that_cannot_be_are_refused(values: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        battery(**values)
