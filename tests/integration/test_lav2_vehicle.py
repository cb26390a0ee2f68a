"""LAV2 on the ground and as a profile: touchdown, rest, driving, turning, slopes, bad commands."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import mujoco
import numpy as np
import pytest
from twin_rig import G, put, states, twin_of, vehicle

from firmware_profiles.errors import ProfileError
from firmware_profiles.loader import load_profile
from firmware_profiles.signals import CHANNELS, ActuatorCommand, HilControls
from lav2_hil.actuator_map import ActuatorMap
from twin.twin import Twin
from twin.vehicle_model import build_model, resting_height_m

LAV2 = vehicle("lav2")
assert LAV2.ground_drive is not None
DRIVE = LAV2.ground_drive
RADIUS, AXLES = DRIVE.wheel_radius_m, len(DRIVE.wheel_x_m)
TICK_S = 1e-6 * LAV2.step_dt_us
Changed = Callable[[Callable[[mujoco.MjModel], None]], Twin]


def sides(twin: Twin, left: float, right: float) -> ActuatorCommand:
    """Wheel speeds [rad/s] in all worlds; rotors still."""
    return ActuatorCommand(np.zeros((twin.n, 4)), np.tile((left, right), (twin.n, 1)).astype(float))


def roll(twin: Twin, left: float, right: float, seconds: float) -> np.ndarray:
    """(T, 7) of world 0: velocity ENU, rates FLU and the norm of what the IMU feels, at each tick."""
    told = sides(twin, left, right)
    rows = []
    for _ in range(round(seconds / TICK_S)):
        twin.move(told)
        force = np.linalg.norm(twin._specific_force_flu[0])
        rows.append([*twin._engine.vel_enu[0], *twin._engine.rates_flu[0], force])
    return np.array(rows)


def wheel_speeds(twin: Twin) -> np.ndarray:
    """(N, 2, axles) of the left and the right wheels [rad/s]."""
    return twin._engine._batch.bind("qvel")[:, 6:].reshape(twin.n, 2, AXLES).copy()


@pytest.fixture
def changed(monkeypatch) -> Changed:
    """A twin of lav2 whose compiled model was changed."""

    def make(change: Callable[[mujoco.MjModel], None]) -> Twin:
        def build(params, **options) -> mujoco.MjModel:
            model = build_model(params, **options)
            change(model)
            return model

        monkeypatch.setattr("twin.twin.build_model", build)
        return twin_of("lav2")

    return make


def tilted(degrees: float, axis: int) -> Callable[[mujoco.MjModel], None]:
    """The ground falls by an angle, to the east (axis 0) or to the north (1), where the nose points."""

    def change(model: mujoco.MjModel) -> None:
        gravity = [0.0, 0.0, -G * math.cos(math.radians(degrees))]
        gravity[axis] = G * math.sin(math.radians(degrees))
        model.opt.gravity[:] = gravity

    return change


# Touchdown and rest


def test_touchdown_at_half_a_metre_per_second_stays_below_4_g() -> None:
    twin = put(twin_of("lav2", 9), vel_enu=[0.0, 0.0, -0.5])
    # Worlds touch at different moments between two samples.
    put(twin, height=resting_height_m(LAV2) + np.linspace(0.0, 0.5 * TICK_S, 9))
    batches, depths = [], []
    for _ in range(100):
        batches.append(twin.step(sides(twin, 0.0, 0.0)).accel_frd)
        depths.append(resting_height_m(LAV2) - twin._engine.pos_enu[:, 2])
    felt = np.linalg.norm(batches, axis=2) / G
    assert 2.0 < felt.max() <= 4.0
    assert (felt > 3.0).sum(axis=0).max() * TICK_S <= 0.012
    assert 0.003 < np.max(depths) <= 0.010
    assert np.abs(batches).max() < LAV2.sensors.imu.accel_limit_m_s2
    assert felt[-1] == pytest.approx(1.0, abs=0.05)


def test_stands_still_and_quiet_for_a_minute() -> None:
    twin = twin_of("lav2")
    start = states(twin)
    rows = roll(twin, 0.0, 0.0, 60.0)
    assert np.abs(states(twin)[0, :7] - start[0, :7]).max() < 1e-5
    assert np.abs(rows[:, :6]).max() < 1e-6
    assert rows[:, 6] == pytest.approx(G, abs=1e-4)
    assert 0.0 < resting_height_m(LAV2) - twin._engine.pos_enu[0, 2] < 0.005


@pytest.mark.parametrize("axis", [0, 1], ids=["across", "along"])
@pytest.mark.parametrize(("degrees", "allowed_m"), [(15.0, 0.001), (30.0, 0.004)])
def test_41_no_creep_at_standstill_on_a_slope_below_the_friction_limit(changed, degrees, allowed_m, axis: int) -> None:
    assert degrees < math.degrees(math.atan(DRIVE.friction))
    twin = changed(tilted(degrees, axis))
    roll(twin, 0.0, 0.0, 1.0)
    before = states(twin)[0, :2]
    roll(twin, 0.0, 0.0, 10.0)
    assert np.linalg.norm(states(twin)[0, :2] - before) < allowed_m  # the servo alone would let it roll 0.05 m and more


@pytest.mark.parametrize("axis", [0, 1], ids=["across", "along"])
def test_41_slides_on_a_slope_above_the_friction_limit(changed, axis: int) -> None:
    twin = changed(tilted(43.0, axis))
    roll(twin, 0.0, 0.0, 2.0)
    assert twin._engine.vel_enu[0, axis] > 0.5


# Driving


def driven(left: float, right: float, seconds: float = 1.5) -> Twin:
    """A twin after it was driven through the profile's actuator map, armed, nose to the north."""
    firmware = load_profile("lav2").firmware
    channels = [0.0] * CHANNELS
    for output in firmware.wheel_outputs:
        channels[output.channel] = left if output.side == "left" else right
    twin, actuators = twin_of("lav2"), ActuatorMap(firmware)
    controls = HilControls(time_us=0, channels=tuple(channels), armed=True, stale=False)
    wheels = ActuatorCommand(np.zeros((1, 4)), actuators.command(controls).side_speed)  # without the idling rotors
    for _ in range(round(seconds / TICK_S)):
        twin.move(wheels)
    return twin


def test_39_armed_with_all_controls_zero_it_stands_still() -> None:
    truth = driven(0.0, 0.0).truth()
    assert math.dist(truth.pos_ned[:2], (0.0, 0.0)) < 1e-5
    assert np.abs(truth.vel_ned).max() < 1e-6


@pytest.mark.parametrize("control", [0.5, -0.5, 1.0])
def test_39_half_a_control_drives_forward_and_minus_half_back(control: float) -> None:
    truth = driven(control, control).truth()
    north, east, _ = truth.vel_ned
    assert north == pytest.approx(control * DRIVE.max_speed_m_s, rel=0.05)
    assert abs(east) < 0.01
    assert math.copysign(1.0, truth.pos_ned[0]) == math.copysign(1.0, control)


@pytest.mark.parametrize(("left", "right"), [(0.3, -0.3), (-0.3, 0.3), (0.4, 0.2), (0.2, 0.4)])
def test_39_a_faster_left_side_turns_clockwise(left: float, right: float) -> None:
    yaw_rate = driven(left, right).truth().rates_frd[2]
    assert math.copysign(1.0, yaw_rate) == math.copysign(1.0, left - right)
    assert abs(yaw_rate) > 0.2


@pytest.mark.parametrize("speed_m_s", [0.3, 1.0, 2.4])
def test_straight_driving_rolls_without_slip_and_the_wheels_of_a_side_turn_together(speed_m_s: float) -> None:
    twin = twin_of("lav2")
    told = speed_m_s / RADIUS
    rows = roll(twin, told, told, 3.0)
    wheels = wheel_speeds(twin)[0]
    assert wheels.mean() == pytest.approx(told, rel=0.05, abs=0.3)  # the gear's friction over the servo's gain
    assert rows[-1, 1] == pytest.approx(wheels.mean() * RADIUS, rel=0.05)
    assert np.abs(rows[-250:, 3:6]).max() < 0.01
    assert np.ptp(wheels, axis=1).max() < 0.02 * abs(wheels.mean())
    assert np.ptp(rows[-250:, 6]) < 0.1


def test_wheels_of_a_side_turn_together_while_they_skid() -> None:
    twin = twin_of("lav2")
    roll(twin, 15.0, -10.0, 0.2)
    for _ in range(100):
        roll(twin, 15.0, -10.0, 0.02)
        wheels = wheel_speeds(twin)[0]
        assert (np.ptp(wheels, axis=1) < 0.02 * np.abs(wheels).mean(axis=1) + 0.02).all()


@pytest.mark.parametrize("told", [3.0, 6.0, 12.0, 20.0])
def test_turning_on_the_spot_takes_three_times_what_geometry_says_and_does_not_shake(told: float) -> None:
    twin = twin_of("lav2")
    rows = roll(twin, -told, told, 4.0)[500:]
    geometric = told * RADIUS / DRIVE.wheel_y_m
    assert 2.2 < geometric / rows[:, 5].mean() < 4.5
    assert 1.0 + (DRIVE.wheel_x_m[0] / DRIVE.wheel_y_m) ** 2 == pytest.approx(
        wheel_speeds(twin)[0, 1].mean() * RADIUS / DRIVE.wheel_y_m / rows[:, 5].mean(), rel=0.07
    )
    assert rows[:, 5].std() < 0.02 * rows[:, 5].mean()
    assert rows[:, 6].std() < 0.2
    assert np.linalg.norm(twin._engine.pos_enu[0, :2]) < 0.1


def test_turning_slows_down_with_the_wheels() -> None:
    twin = twin_of("lav2")
    roll(twin, -8.0, 8.0, 2.0)
    for step in range(60):  # a stiff servo on a light axle would let the vehicle stand while the wheels still skid
        told = 8.0 - 0.1 * step
        rate = roll(twin, -told, told, 0.02)[-1, 5]
        assert 2.2 < told * RADIUS / DRIVE.wheel_y_m / rate < 5.0


def test_the_allocation_width_is_what_turning_takes() -> None:
    twin = twin_of("lav2")
    half = 0.5 * DRIVE.allocation_width_m / RADIUS
    assert roll(twin, -half, half, 4.0)[500:, 5].mean() == pytest.approx(1.0, rel=0.1)


def test_the_torque_limit_holds_when_the_wheels_are_stuck(changed) -> None:
    def stuck(model: mujoco.MjModel) -> None:
        model.dof_frictionloss[6:] = 50.0

    for make in (lambda: changed(stuck), lambda: twin_of("lav2")):
        twin = make()
        live = twin._engine._batch.bind("actuator_force")
        forces = []
        for _ in range(50):
            roll(twin, DRIVE.max_side_speed_rad_s, -DRIVE.max_side_speed_rad_s, TICK_S)
            forces.append(live[0, -2:].copy())
        assert np.abs(forces).max() == pytest.approx(DRIVE.torque_limit_nm)
        assert forces[-1][0] > 0 > forces[-1][1]


def test_a_side_is_told_no_more_than_its_largest_speed() -> None:
    fast, most = twin_of("lav2"), twin_of("lav2")
    roll(fast, 1e6, -1e6, 0.5)
    roll(most, DRIVE.max_side_speed_rad_s, -DRIVE.max_side_speed_rad_s, 0.5)
    assert states(fast).tobytes() == states(most).tobytes()


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_42_a_side_that_is_told_no_number_stands_and_is_counted(value: float) -> None:
    twin, healthy, zero = (twin_of("lav2", 4) for _ in range(3))
    told = [sides(it, 8.0, 8.0) for it in (twin, healthy, zero)]
    told[0].side_speed[2, 0] = value
    told[2].side_speed[2, 0] = 0.0
    for _ in range(200):
        for it, command in zip((twin, healthy, zero), told, strict=True):
            it.move(command)
    others = [0, 1, 3]
    assert states(twin)[others].tobytes() == states(healthy)[others].tobytes()
    assert states(twin)[2].tobytes() == states(zero)[2].tobytes()
    assert states(twin)[2].tobytes() != states(healthy)[2].tobytes()
    expected = np.zeros((4, 2), dtype=int)
    expected[2, 0] = 200
    assert (twin.bad_side_commands == expected).all()
    assert not twin.bad_commands.any()


def test_sixteen_worlds_equal_one() -> None:
    one, many = twin_of("lav2", 1), twin_of("lav2", 16, threads=2)
    for left, right in ((10.0, 10.0), (-6.0, 6.0), (12.0, 3.0), (0.0, 0.0)):
        for twin in (one, many):
            told = sides(twin, left, right)
            for _ in range(round(0.5 / TICK_S)):
                twin.move(told)
    np.testing.assert_allclose(states(many), np.repeat(states(one), 16, axis=0), rtol=0, atol=1e-10)
    np.testing.assert_allclose(wheel_speeds(many), np.repeat(wheel_speeds(one), 16, axis=0), rtol=0, atol=1e-10)
    assert np.linalg.norm(states(one)[0, :2]) > 0.1


# The profile


def test_published_constants() -> None:
    propeller, firmware = LAV2.propeller, load_profile("lav2").firmware
    assert propeller.thrust_coefficient_n_s2 == 1.1529035793718415e-05
    assert propeller.torque_coefficient_nm_s2 == 1.9211597483286326e-07
    assert propeller.max_speed_rad_s == 1050.0
    assert [rotor.spin_dir for rotor in propeller.rotors] == [-1, -1, 1, 1]
    assert LAV2.body.linear_drag_n_s_m == (0.50, 0.30, 0.0)
    assert (DRIVE.max_speed_m_s, DRIVE.max_yaw_rate_rad_s) == (2.5, 7.0)
    assert DRIVE.max_side_speed_rad_s * RADIUS == pytest.approx(2.5, rel=1e-3)
    assert [output.full_speed_rad_s for output in firmware.wheel_outputs] == [DRIVE.max_side_speed_rad_s] * 2
    controls = HilControls(time_us=0, channels=(0.0, 0.25, 0.5, 1.0) + (0.0,) * 12, armed=True, stale=False)
    speeds = ActuatorMap(firmware).command(controls).rotor_speed[0]
    assert speeds == pytest.approx([900 * u + 100 for u in (0.0, 0.25, 0.5, 1.0)])  # rotors in channel order


def test_38_hover_control_is_what_px4_is_told_and_carries_the_vehicle() -> None:
    speed = LAV2.hover_speed_rad_s()
    mass = build_model(LAV2).body_mass.sum()
    assert mass == pytest.approx(LAV2.total_mass_kg)
    assert 4 * LAV2.propeller.thrust_coefficient_n_s2 * speed**2 == pytest.approx(mass * G)
    told = load_profile("lav2").firmware.px4[0].params["MPC_THR_HOVER"]
    assert told == pytest.approx((speed - 100.0) / 900.0, rel=0.02)
    twin = put(twin_of("lav2"), height=10.0, rotors=speed)
    for _ in range(100):
        twin.move(ActuatorCommand(np.full((1, 4), speed)))
    assert np.abs(twin._engine.vel_enu[0]).max() < 1e-3


def wheels(*outputs: tuple[int, str]) -> str:
    lines = ", ".join(f'{{ channel = {c}, side = "{side}", full_speed_rad_s = 41.7 }}' for c, side in outputs)
    return f"[firmware]\nwheel_outputs = [{lines}]\n"


WRONG = {
    "one side twice": (wheels((4, "left"), (5, "left")), "firmware.wheel_outputs", "['left', 'right']"),
    "one side only": (wheels((4, "left")), "firmware.wheel_outputs", "['left', 'right']"),
    "no wheels driven": (wheels(), "firmware.wheel_outputs", "['left', 'right']"),
    "no such side": (wheels((4, "left"), (5, "middle")), "firmware.wheel_outputs[1].side", "'left', 'right'"),
    "a rotor's channel": (wheels((0, "left"), (5, "right")), "firmware.wheel_outputs", "each channel drives one"),
    "one channel twice": (wheels((4, "left"), (4, "right")), "firmware.wheel_outputs", "each channel drives one"),
    "no such channel": (wheels((16, "left"), (5, "right")), "firmware.wheel_outputs[0].channel", "<= 15"),
    "no such axle": (
        f"[vehicle.ground_drive]\ndriven_axle = {AXLES}\n",
        "vehicle.ground_drive.driven_axle",
        f"{AXLES} axles",
    ),
    "no axles": ("[vehicle.ground_drive]\nwheel_x_m = []\n", "vehicle.ground_drive.wheel_x_m", ">= 1"),
    "no radius": ("[vehicle.ground_drive]\nwheel_radius_m = 0\n", "vehicle.ground_drive.wheel_radius_m", "> 0"),
    "no torque": ("[vehicle.ground_drive]\ntorque_limit_nm = 0\n", "vehicle.ground_drive.torque_limit_nm", "> 0"),
}


@pytest.mark.parametrize(("text", "key", "said"), WRONG.values(), ids=WRONG.keys())
def test_wheels_that_cannot_be_are_refused_in_one_line(tmp_path: Path, text: str, key: str, said: str) -> None:
    file = tmp_path / "mine.toml"
    file.write_text(f'extends = "lav2"\n{text}')
    with pytest.raises(ProfileError) as refused:
        load_profile(str(file))
    message = str(refused.value)
    assert message.startswith(f"{file}: {key}: ")
    assert said in message
    assert "\n" not in message


def test_outputs_for_wheels_that_a_vehicle_has_not_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text('extends = "px4_iris"\n' + wheels((4, "left"), (5, "right")))
    with pytest.raises(ProfileError, match=r"firmware\.wheel_outputs: expected one output for each of the sides \[\]"):
        load_profile(str(file))
