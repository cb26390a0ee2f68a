"""The differential rover in the twin: it has no rotors, and stands, drives and turns as PX4 numbers its wheels."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from twin_rig import G, states, twin_of, vehicle

from firmware_profiles.errors import ProfileError
from firmware_profiles.loader import load_profile
from firmware_profiles.signals import CHANNELS, ActuatorCommand, HilControls
from lav2_hil.actuator_map import ActuatorMap
from twin.control.flight import FlightController
from twin.control.mixer import Mixer
from twin.twin import Twin
from twin.vehicle_model import build_model
from twin.world_params import WorldParams

NAME = "px4_rover_differential"
ROVER = vehicle(NAME)
assert ROVER.ground_drive is not None
DRIVE = ROVER.ground_drive
TICK_S = ROVER.step_dt_s
MOTOR_1, MOTOR_2 = 0, 1  # right and left, says PX4's airframe


def sides(twin: Twin, left: float, right: float) -> ActuatorCommand:
    return ActuatorCommand(np.zeros((twin.n, 0)), np.tile((left, right), (twin.n, 1)).astype(float))


def driven(motor_1: float, motor_2: float, seconds: float = 2.0) -> Twin:
    """A twin after PX4's two motors were driven through the actuator map, armed, nose to the north."""
    channels = [0.0] * CHANNELS
    channels[MOTOR_1], channels[MOTOR_2] = motor_1, motor_2
    twin = twin_of(NAME)
    told = ActuatorMap(load_profile(NAME).firmware).command(HilControls(tuple(channels), armed=True, time_us=0))
    assert told.rotor_speed.shape == (1, 0)
    for _ in range(round(seconds / TICK_S)):
        twin.move(told)
    return twin


def test_39_armed_with_all_controls_zero_it_stands_still() -> None:
    twin = driven(0.0, 0.0, 20.0)
    assert math.hypot(*twin.truth().pos_ned[:2]) < 1e-5
    assert np.abs(twin.truth().vel_ned).max() < 1e-6
    accel = [twin.step(sides(twin, 0.0, 0.0)).accel_frd[0] for _ in range(250)]
    assert np.mean(accel, axis=0) == pytest.approx([0.0, 0.0, -G], abs=0.15)  # it leans on its front ball a little
    assert np.std(accel, axis=0).max() < 0.03  # the sensor's own noise


@pytest.mark.parametrize("control", [0.5, -0.5, 1.0])
def test_39_half_a_control_drives_forward_and_minus_half_back(control: float) -> None:
    truth = driven(control, control).truth()
    north, east, _ = truth.vel_ned
    assert north == pytest.approx(control * DRIVE.max_speed_m_s, rel=0.06)
    assert abs(east) < 0.01
    assert math.copysign(1.0, truth.pos_ned[0]) == math.copysign(1.0, control)


@pytest.mark.parametrize(("motor_1", "motor_2"), [(-0.2, 0.2), (0.2, -0.2), (0.3, 0.5), (0.5, 0.3)])
def test_motor_1_is_the_right_wheel_and_a_faster_left_one_turns_clockwise(motor_1: float, motor_2: float) -> None:
    rate = driven(motor_1, motor_2).truth().rates_frd[2]
    by_geometry = (motor_2 - motor_1) * DRIVE.max_speed_m_s / DRIVE.allocation_width_m
    assert rate == pytest.approx(by_geometry, rel=0.12)  # one axle does not skid; the gears' friction takes its share


@pytest.mark.parametrize("axis", [0, 1], ids=["across", "along"])
def test_41_no_creep_at_standstill_on_a_slope(monkeypatch: pytest.MonkeyPatch, axis: int) -> None:
    def tilted(params, **options):
        model = build_model(params, **options)
        model.opt.gravity[2] = -G * math.cos(math.radians(25.0))
        model.opt.gravity[axis] = G * math.sin(math.radians(25.0))
        return model

    monkeypatch.setattr("twin.twin.build_model", tilted)
    twin = twin_of(NAME)
    for _ in range(250):
        twin.move(sides(twin, 0.0, 0.0))
    before = states(twin)[0, :2]
    for _ in range(2500):
        twin.move(sides(twin, 0.0, 0.0))
    assert np.linalg.norm(states(twin)[0, :2] - before) < 0.002


def test_stops_within_a_metre_from_full_speed_and_stays_upright() -> None:
    twin = driven(1.0, 1.0, 3.0)
    start, lean = states(twin)[0, :2], 1.0
    for _ in range(500):
        twin.move(sides(twin, 0.0, 0.0))
        x, y = states(twin)[0, 4:6]
        lean = min(lean, 1.0 - 2.0 * (x * x + y * y))
    assert 0.1 < np.linalg.norm(states(twin)[0, :2] - start) < 1.0
    assert np.abs(states(twin)[0, 7:]).max() < 1e-4
    assert lean > math.cos(math.radians(4.0))


def test_the_wheels_carry_the_load_and_the_balls_slide() -> None:
    model = build_model(ROVER)
    assert model.nu == 2
    assert model.body_mass.sum() == pytest.approx(ROVER.total_mass_kg) == pytest.approx(8.0)
    balls = [index for index in range(model.npair) if model.pair(index).name.startswith("caster")]
    assert [model.pair_dim[index] for index in balls] == [1, 1]


def test_no_rotors_anywhere() -> None:
    assert ROVER.rotors == ROVER.spin_dir == ()
    assert (ROVER.hover_speed_rad_s(), ROVER.derived.hover_throttle) == (math.inf, math.inf)
    assert ROVER.derived.max_thrust_n == 0.0
    worlds = WorldParams.of(ROVER, 3)
    assert worlds.rotor_position_flu_m.shape == (3, 0, 3)
    assert worlds.thrust_coefficient_n_s2.shape == (3, 0)
    twin = twin_of(NAME, 3, mass_kg=[[6.0], [7.0], [9.0]])
    assert twin.bad_commands.shape == (3, 0)
    for make in (lambda: FlightController.of(ROVER, TICK_S), lambda: Mixer.of(ROVER)):
        with pytest.raises(ProfileError, match="the vehicle has no rotors"):
            make()


def test_sixteen_worlds_equal_one() -> None:
    one, many = twin_of(NAME), twin_of(NAME, 16, threads=2)
    for left, right in ((10.0, 10.0), (-6.0, 6.0), (0.0, 0.0)):
        for twin in (one, many):
            for _ in range(125):
                twin.move(sides(twin, left, right))
    np.testing.assert_allclose(states(many), np.repeat(states(one), 16, axis=0), rtol=0, atol=1e-10)


@pytest.mark.parametrize(("base", "text", "key", "said"), [
    (NAME, "[vehicle.ground_drive]\ncasters = [{ radius_m = 0.1 }]\n", "casters[0].position_flu_m", "missing"),
    (NAME, "[[firmware.rotor_outputs]]\nchannel = 2\nrotor = 0\nspeed_range_rad_s = [0, 1]\n", "rotor_out", "0 rotors"),
    ("", 'name = "x"\ndescription = "x"\n[firmware]\n', "vehicle", "missing"),
])  # fmt: skip
def test_what_cannot_be_is_refused(tmp_path: Path, base: str, text: str, key: str, said: str) -> None:
    file = tmp_path / "mine.toml"
    file.write_text((f'extends = "{base}"\n' if base else "") + text)
    with pytest.raises(ProfileError) as refused:
        load_profile(str(file))
    assert key in str(refused.value)
    assert said in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_vehicle_that_neither_flies_nor_drives_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "brick.toml"
    text = (Path(__file__).parents[2] / f"firmware_profiles/profiles/{NAME}.toml").read_text()
    start, end = text.index("[vehicle.ground_drive]"), text.index("[vehicle.sensors.imu]")
    file.write_text(text[:start] + text[end : text.index("[firmware]")] + "[firmware]\n")
    with pytest.raises(ProfileError, match=r"vehicle: neither flies nor drives"):
        load_profile(str(file))
