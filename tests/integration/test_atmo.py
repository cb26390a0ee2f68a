"""ATMO: it flies, lands, tilts its thrusters until they are its wheels, drives and turns, and flies again."""

from __future__ import annotations

import asyncio
import math
from pathlib import Path

import msgspec
import numpy as np
import pytest
from twin_rig import G, put, states, twin_of, vehicle

from bridge.endpoint import parse_endpoint
from firmware_profiles.errors import ProfileError
from firmware_profiles.loader import load_profile
from firmware_profiles.signals import CHANNELS, ActuatorCommand, HilControls
from firmware_profiles.tilt import DRIVE_ANGLE_RAD
from firmware_profiles.uncertainty import UncertaintyParams
from lav2_hil.actuator_map import ActuatorMap
from lav2_hil.exitcodes import ExitCode
from lav2_hil.settings import Settings
from lav2_hil.sim import Simulation
from twin.shadow import ShadowEnsemble
from twin.twin import Twin
from twin.vehicle_model import build_model, resting_height_m

ATMO = vehicle("atmo")
assert ATMO.ground_drive is not None
assert ATMO.tilt is not None
DRIVE, TILT = ATMO.ground_drive, ATMO.tilt
TICK_S = ATMO.step_dt_s
INSTANCE = 45
LIFT_M = DRIVE.wheel_radius_m - DRIVE.wheel_z_m - resting_height_m(ATMO)
"""By how much the hull rises when the arms come down."""
REACH_M = TILT.hinge_z_m - DRIVE.wheel_z_m + DRIVE.wheel_radius_m
"""From the hinge to the wheel's far end."""


def told(
    twin: Twin, left: float = 0.0, right: float = 0.0, *, tilt: float | None = None, rotors: float = 0.0
) -> ActuatorCommand:
    angle = None if tilt is None else np.full((twin.n, 1), tilt)
    return ActuatorCommand(np.full((twin.n, 4), rotors), np.tile((left, right), (twin.n, 1)).astype(float), angle)


def go(twin: Twin, seconds: float, left: float = 0.0, right: float = 0.0, **more: float) -> np.ndarray:
    """(T, 16) of world 0: its 13 states and the specific force, at each tick."""
    command, rows = told(twin, left, right, **more), []
    for _ in range(round(seconds / TICK_S)):
        twin.move(command)
        rows.append([*states(twin)[0], *twin._specific_force_flu[0]])
    return np.array(rows)


def joint(twin: Twin, name: str) -> float:
    """Angle or turn of a joint in world 0 [rad]."""
    model = build_model(ATMO)
    return float(twin._engine._batch.bind("qpos")[0, model.joint(name).qposadr[0]])


def driving() -> Twin:
    """A twin that has transformed."""
    twin = twin_of("atmo")
    go(twin, 3.5, tilt=DRIVE_ANGLE_RAD)
    return twin


# The model


def test_mass_and_width_are_the_published_ones() -> None:
    model = build_model(ATMO)
    assert model.body_mass.sum() == pytest.approx(5.5) == ATMO.total_mass_kg
    outwards = TILT.hinge_z_m - DRIVE.wheel_z_m
    assert 2 * (TILT.hinge_y_m + REACH_M) == pytest.approx(0.65)
    assert {abs(rotor.position_flu_m[1]) for rotor in ATMO.rotors} == {TILT.hinge_y_m + outwards}  # rotor in its wheel
    assert {abs(rotor.position_flu_m[0]) for rotor in ATMO.rotors} == set(map(abs, DRIVE.wheel_x_m))
    assert 1.8 < ATMO.derived.max_thrust_n / (ATMO.total_mass_kg * G) < 2.5


@pytest.mark.parametrize("axis", [0, 1, 2], ids=["roll", "pitch", "yaw"])
def test_the_controller_reckons_with_the_inertia_that_flies(axis: int) -> None:
    """A pair of rotors that is raised turns the whole vehicle as fast as its inertia in flight says."""
    speeds = np.full((1, 4), ATMO.hover_speed_rad_s())
    signs = np.array([np.sign(row) for row in ATMO.derived.allocation_matrix[1:]])[axis]
    twin = put(twin_of("atmo"), height=20.0, rotors=speeds)
    speeds = np.sqrt(speeds**2 * (1.0 + 0.05 * signs))
    put(twin, rotors=speeds)
    before = states(twin)[0, 10:]
    for _ in range(10):
        twin.move(ActuatorCommand(speeds))
    moment = (np.array(ATMO.derived.allocation_matrix[1:]) @ speeds[0] ** 2)[axis]
    acceleration = (states(twin)[0, 10:] - before)[axis] / (10 * TICK_S)
    assert acceleration == pytest.approx(moment / ATMO.flight_inertia_kg_m2[axis], rel=0.03)


def test_thrust_tilts_with_the_arms_and_cancels_between_the_sides() -> None:
    twin = twin_of("atmo")
    put(twin, height=50.0)
    go(twin, 2.0, tilt=math.radians(60.0))
    put(twin, height=50.0, vel_enu=[0.0, 0.0, 0.0], rotors=1500.0)
    rows = go(twin, 0.04, tilt=math.radians(60.0), rotors=1500.0)
    lift = 4 * ATMO.propeller.thrust_coefficient_n_s2 * 1500.0**2 / ATMO.total_mass_kg  # type: ignore[union-attr]
    assert rows[-1, 15] == pytest.approx(0.5 * lift, rel=0.03)
    assert abs(rows[-1, 14]) < 0.01 * lift


def test_both_arms_move_together_at_the_rate_of_one_motor_and_within_its_torque() -> None:
    twin = twin_of("atmo")
    force = twin._engine._batch.bind("actuator_force")
    go(twin, 0.5, tilt=DRIVE_ANGLE_RAD)
    assert joint(twin, "left_tilt") == pytest.approx(0.5 * TILT.max_rate_rad_s, abs=0.02)
    most = 0.0
    for _ in range(30):
        go(twin, 0.1, tilt=DRIVE_ANGLE_RAD)
        most = max(most, abs(float(force[0, -1])))
        assert joint(twin, "right_tilt") == pytest.approx(joint(twin, "left_tilt"), abs=0.002)
    assert joint(twin, "left_tilt") == pytest.approx(DRIVE_ANGLE_RAD, abs=0.01)
    assert 10.0 < most < 0.5 * TILT.torque_limit_nm  # it lifts the vehicle


def test_the_belt_turns_front_and_rear_wheel_of_a_side_together() -> None:
    twin = driving()
    start = {name: joint(twin, name) for name in ("left0", "left1", "right0", "right1")}
    go(twin, 2.0, 6.0, 3.0)
    turned = {name: joint(twin, name) - angle for name, angle in start.items()}
    assert turned["left0"] == pytest.approx(turned["left1"], abs=0.05)
    assert turned["right0"] == pytest.approx(turned["right1"], abs=0.05)
    assert turned["left1"] > 1.5 * turned["right1"] > 3.0


# On the ground


def test_it_rises_onto_its_wheels_and_comes_down_again_quietly() -> None:
    twin = twin_of("atmo")
    start = states(twin)[0]
    assert np.abs(go(twin, 2.0)[-1, :3] - start[:3]).max() < 1e-4
    up = go(twin, 4.0, tilt=DRIVE_ANGLE_RAD)
    assert up[-1, 2] - start[2] == pytest.approx(LIFT_M, abs=0.006)
    down = go(twin, 4.0, tilt=0.0)
    assert down[-1, 2] == pytest.approx(start[2], abs=1e-3)
    for rows in (up, down):
        felt = np.linalg.norm(rows[:, 13:], axis=1)
        assert felt.max() < 2.0 * G  # a touchdown has more
        assert np.abs(rows[:, 10:13]).max() < 0.5
        assert np.abs(rows[-1, 7:13]).max() < 1e-3
        # One side may stick while the other slides, in or out by the arm's length.
        assert np.linalg.norm(rows[-1, :2] - rows[0, :2]) < REACH_M + 0.01


def test_arms_stay_where_they_are_when_nobody_tells_them() -> None:
    twin = twin_of("atmo")
    go(twin, 2.0, tilt=DRIVE_ANGLE_RAD)
    half = joint(twin, "left_tilt")
    assert 0.9 < half < 1.4
    go(twin, 5.0)
    assert joint(twin, "left_tilt") == pytest.approx(half, abs=0.02)


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_42_an_angle_that_is_no_number_is_counted_and_the_arms_stay(value: float) -> None:
    twin = twin_of("atmo", 3)
    command = told(twin, tilt=DRIVE_ANGLE_RAD)
    assert command.tilt_angle is not None
    command.tilt_angle[1] = value
    for _ in range(250):
        twin.move(command)
    angle = twin._engine.ctrl[:, -1]
    assert angle == pytest.approx([0.6, 0.0, 0.6])
    assert twin._actuation.tilt is not None
    assert twin._actuation.tilt.bad_commands[:, 0].tolist() == [0, 250, 0]


def test_drives_forward_and_turns_to_the_side_of_the_slower_wheels() -> None:
    twin = driving()
    rows = go(twin, 3.0, 8.0, 8.0)
    assert rows[-1, 8] == pytest.approx(8.0 * DRIVE.wheel_radius_m, rel=0.06)  # nose to the north
    rows = go(twin, 1.5)
    assert np.abs(rows[-1, 7:13]).max() < 0.01
    half = 0.5 * DRIVE.allocation_width_m / DRIVE.wheel_radius_m
    rows = go(twin, 4.0, -half, half)
    assert rows[500:, 12].mean() == pytest.approx(1.0, rel=0.1)
    assert rows[500:, 13:].std(axis=0).max() < 0.2


def test_touchdown_on_the_hull_stays_below_4_g() -> None:
    twin = put(twin_of("atmo"), vel_enu=[0.0, 0.0, -0.5])
    felt = np.linalg.norm(go(twin, 0.5)[:, 13:], axis=1)
    assert 2.0 * G < felt.max() < 4.0 * G


def test_shadows_transform_with_it_from_where_its_arms_are() -> None:
    twin = twin_of("atmo")
    go(twin, 1.0, tilt=DRIVE_ANGLE_RAD)
    certain = msgspec.structs.replace(load_profile("atmo"), uncertainty=UncertaintyParams())
    shadows = ShadowEnsemble(certain, 3, seed=1)
    checkpoint = np.zeros(twin.checkpoint_size)
    twin.save(checkpoint)
    shadows.anchor(checkpoint)
    go(twin, 1.0, tilt=DRIVE_ANGLE_RAD)
    for _ in range(round(1.0 / TICK_S)):
        shadows.step(told(twin, tilt=DRIVE_ANGLE_RAD))
    np.testing.assert_array_equal(shadows.states(), np.repeat(states(twin), 3, axis=0))
    assert joint(twin, "left_tilt") == pytest.approx(2.0 * TILT.max_rate_rad_s, abs=0.02)


# The actuator map


def controls(tilt: float, *, armed: bool = True, stale: bool = False) -> HilControls:
    channels = [0.0] * CHANNELS
    channels[6] = tilt
    return HilControls(tuple(channels), armed=armed, time_us=0, stale=stale)


@pytest.mark.parametrize(
    ("value", "angle"), [(0.0, 0.0), (0.5, 0.7854), (1.0, DRIVE_ANGLE_RAD), (9.0, DRIVE_ANGLE_RAD)]
)
def test_the_tilt_channel_passes_the_gate(value: float, angle: float) -> None:
    command = ActuatorMap(load_profile("atmo").firmware).command(controls(value))
    assert command.tilt_angle is not None
    assert command.tilt_angle == pytest.approx(angle, abs=1e-4)
    assert command.rotor_speed.tolist() == [[0.0] * 4]  # armed, the thrusters stand still


@pytest.mark.parametrize(
    "closed",
    [controls(1.0, armed=False), controls(1.0, stale=True), controls(math.nan), None],
    ids=["disarmed", "stale", "not a number", "none"],
)
def test_without_a_live_tilt_channel_the_arms_are_told_nothing(closed: HilControls | None) -> None:
    actuators = ActuatorMap(load_profile("atmo").firmware)
    assert actuators.command(closed).tilt_angle is None
    assert sum(actuators.gate.not_finite) == (closed is not None and not math.isfinite(closed.channels[6]))


# With the built-in autopilot


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("mission", ["demo", "transform"])
def test_the_built_in_autopilot_flies_it_and_drives_it(mission: str) -> None:
    settings = Settings(
        profile=load_profile("atmo"),
        endpoint=parse_endpoint(f"tcpin:127.0.0.1:{4560 + INSTANCE}"),
        speed=0.0,
        seed=4,
        answers_every_sensor=True,
        reply_timeout_s=2.0,
    )
    exit_code, summary = asyncio.run(Simulation(settings, "atmo", INSTANCE, mission).run())
    print(summary)
    assert (summary["mission_state"], summary["problems"]) == ("done", [])
    assert exit_code is ExitCode.OK
    height = {"demo": 5.0, "transform": 3.0}[mission]
    assert summary["max_height_m"] == pytest.approx(height, abs=0.2)
    north, east, down = summary["final_position_ned_m"]
    assert north == pytest.approx({"demo": 2.0, "transform": 3.0}[mission], abs=0.5)
    assert abs(east) < 0.6
    on_its_wheels = DRIVE.wheel_radius_m - DRIVE.wheel_z_m
    assert -down == pytest.approx({"demo": on_its_wheels, "transform": resting_height_m(ATMO)}[mission], abs=0.01)


# The profile

_OUTPUTS = ", ".join(
    f"{{ channel = {index}, rotor = {index}, speed_range_rad_s = [100.0, 2200.0] }}" for index in range(4)
)
IDLING = f"[firmware]\nrotor_outputs = [{_OUTPUTS}]\n"


@pytest.mark.parametrize(("text", "key", "said"), [
    ("[firmware.tilt_output]\nchannel = 5\n", "firmware.tilt_output.channel", "each channel drives one thing"),
    ("[firmware.tilt_output]\nrange_rad = [0.2, 1.0]\n", "firmware.tilt_output.range_rad", "[0, drive]"),
    ("[firmware.tilt_output]\nrange_rad = [0.0, 3.0]\n", "firmware.tilt_output.range_rad[1]", "<= 1.5708"),
    (IDLING, "firmware.rotor_outputs", "must stand still at control 0"),
    ("[vehicle.tilt]\nmax_rate_rad_s = 0\n", "vehicle.tilt.max_rate_rad_s", "> 0"),
    ("[vehicle.ground_drive]\ncasters = [{ position_flu_m = [0, 0, 0], radius_m = 1 }]\n", "casters", "on its body"),
])  # fmt: skip
def test_a_tilt_that_cannot_be_is_refused_in_one_line(tmp_path: Path, text: str, key: str, said: str) -> None:
    file = tmp_path / "mine.toml"
    file.write_text(f'extends = "atmo"\n{text}')
    with pytest.raises(ProfileError) as refused:
        load_profile(str(file))
    assert key in str(refused.value)
    assert said in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_tilt_output_without_arms_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text('extends = "lav2"\n[firmware]\ntilt_output = { channel = 6, range_rad = [0.0, 1.0] }\n')
    with pytest.raises(ProfileError, match=r"firmware\.tilt_output: expected if and only if"):
        load_profile(str(file))
