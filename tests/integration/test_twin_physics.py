"""The twin against what can be worked out by hand: forces, moments, contact, and what breaks."""

import math
from pathlib import Path

import msgspec
import numpy as np
import pytest
from scipy.spatial.transform import Rotation
from twin_rig import G, command, hover_speed, put, run, states, twin_of, vehicle

from firmware_profiles.loader import load_profile
from firmware_profiles.profile import VehicleParams
from firmware_profiles.signals import HilControls
from lav2_hil.actuator_map import ActuatorMap
from twin.twin import Twin, TwinDivergedError

QUADS = ["px4_iris", "px4_x500"]
AIR = 1000.0
"""A height from which nothing reaches the ground."""


def weightless(name: str = "px4_iris") -> VehicleParams:
    """Almost: a profile has some gravity."""
    params = vehicle(name)
    environment = msgspec.structs.replace(params.environment, gravity_m_s2=1e-12)
    return msgspec.structs.replace(params, environment=environment)


def mean_accel(twin: Twin, seconds: float, speeds=0.0) -> np.ndarray:
    return np.mean([batch.accel_frd for batch in run(twin, seconds, speeds)], axis=0)[0]


# 32: specific force


def test_32_free_fall_shows_no_acceleration() -> None:
    twin = put(twin_of(), height=AIR)
    assert np.linalg.norm(mean_accel(twin, 0.2)) < 0.1
    assert np.linalg.norm(twin.truth().accel_frd) < 0.01  # noise-free, with a little drag
    assert twin.truth().vel_ned[2] == pytest.approx(G * 0.2, rel=1e-6)


@pytest.mark.parametrize("name", QUADS)
def test_32_climbing_with_1_m_s2_shows_that_much_more(name: str) -> None:
    speed = hover_speed(name, (G + 1) / G)
    twin = put(twin_of(name), height=AIR, rotors=speed)
    np.testing.assert_allclose(mean_accel(twin, 1.0, speed), [0.0, 0.0, -10.8], atol=0.05)
    assert twin.truth().vel_ned[2] == pytest.approx(-1.0, rel=1e-6)


@pytest.mark.parametrize("name", QUADS)
@pytest.mark.parametrize(
    ("down_flu", "expected_frd"),
    [
        ((0, 0, -1), (0, 0, -1)),  # on its feet: the ground pushes up, which is -z
        ((0, 0, 1), (0, 0, 1)),
        ((1, 0, 0), (-1, 0, 0)),  # on its nose: pushed backward
        ((-1, 0, 0), (1, 0, 0)),
        ((0, 1, 0), (0, 1, 0)),  # on its left side: pushed to the right
        ((0, -1, 0), (0, -1, 0)),
    ],
    ids=["feet", "back", "nose", "tail", "left", "right"],
)
def test_32_each_face_down(name: str, down_flu, expected_frd) -> None:
    twin = twin_of(name)
    body = vehicle(name).body
    turn, _ = Rotation.align_vectors([[0, 0, -1]], [down_flu])
    axis = int(np.argmax(np.abs(down_flu)))
    height = body.collision_half_size_m[axis] + down_flu[axis] * body.collision_centre_flu_m[axis]
    put(twin, height=height, q_enu_flu=turn.as_quat(scalar_first=True))
    run(twin, 2.0)
    np.testing.assert_allclose(mean_accel(twin, 1.0), np.multiply(expected_frd, G), atol=0.05)
    assert twin._engine.pos_enu[0, 2] == pytest.approx(height, abs=1e-3)


def test_an_accelerometer_on_a_turntable_sees_the_pull_to_the_middle_only_off_centre() -> None:
    """The IMU is at the centre of mass: turning alone gives no specific force, and the gyroscope shows it all."""
    twin = put(twin_of(weightless()), height=AIR, rates_flu=[0.0, 0.0, 3.0])
    batches = run(twin, 0.5)
    assert np.abs(np.mean([batch.accel_frd[0] for batch in batches], axis=0)).max() < 0.01
    np.testing.assert_allclose(np.mean([batch.gyro_frd[0] for batch in batches], axis=0), [0, 0, -3.0], atol=1e-3)


# 37, 38: motors


@pytest.mark.parametrize("name", QUADS)
@pytest.mark.parametrize(
    ("motor", "roll", "pitch", "yaw"),
    # PX4's effectiveness of 1001's geometry: roll -+, pitch +-, yaw by the rotor's drag on the body (FRD).
    [(0, -1, 1, 1), (1, 1, -1, 1), (2, 1, 1, -1), (3, -1, -1, -1)],
    ids=["front right", "rear left", "front left", "rear right"],
)
def test_37_raising_one_motor_turns_the_vehicle_as_px4_expects(name: str, motor, roll, pitch, yaw) -> None:
    profile = load_profile(name)
    actuators = ActuatorMap(profile.firmware)
    idle, full = profile.firmware.rotor_outputs[0].speed_range_rad_s
    hover = (hover_speed(name) - idle) / (full - idle)
    twin = put(twin_of(name), height=AIR, rotors=hover_speed(name))
    channels = [hover] * 4 + [0.0] * 12
    channels[motor] += 0.1
    for _ in range(25):
        twin.step(actuators.command(HilControls(tuple(channels), armed=True, time_us=0)))
    truth = twin.truth()
    assert np.sign(truth.rates_frd).tolist() == [roll, pitch, yaw]
    assert min(abs(rate) for rate in truth.rates_frd) > 0.02
    assert truth.vel_ned[2] < -0.01  # more thrust: up


@pytest.mark.parametrize("name", QUADS)
def test_38_at_the_hover_control_it_neither_climbs_nor_sinks(name: str) -> None:
    profile = load_profile(name)
    actuators = ActuatorMap(profile.firmware)
    idle, full = profile.firmware.rotor_outputs[0].speed_range_rad_s
    for factor, lowest, highest in ((1.0, -0.01, 0.01), (1.01, 0.5, 20.0), (0.99, -20.0, -0.5)):
        control = factor * (hover_speed(name) - idle) / (full - idle)
        twin = put(twin_of(name), height=AIR, rotors=idle + (full - idle) * control)
        for _ in range(1250):
            twin.step(actuators.command(HilControls((control,) * 4 + (0.0,) * 12, armed=True, time_us=0)))
        assert lowest < -twin.truth().pos_ned[2] - AIR < highest
        assert np.abs(twin.truth().rates_frd).max() < 1e-9


@pytest.mark.parametrize("name", QUADS)
def test_it_leaves_the_ground_above_hover_and_not_below(name: str) -> None:
    for factor, flies in ((0.97, False), (1.03, True)):
        twin = twin_of(name)
        run(twin, 3.0, hover_speed(name, factor))
        assert (twin.height_m > 0.5) is flies
        assert flies or abs(twin.height_m) < 1e-3


# F = m a and its relatives


def test_worlds_of_different_mass_accelerate_as_they_must() -> None:
    masses = np.array([[0.5], [1.0], [1.535], [4.0]])
    twin = twin_of(n=4, mass_kg=masses, linear_drag_n_s_m=0.0)
    put(twin, height=AIR, rotors=700.0)
    run(twin, 0.5, 700.0)
    expected = (4 * 5.84e-6 * 700.0**2 / masses[:, 0] - G) * 0.5
    np.testing.assert_allclose(twin._engine.vel_enu[:, 2], expected, rtol=1e-10)
    np.testing.assert_allclose(twin._engine.vel_enu[:, :2], 0.0, atol=1e-9)
    for world in range(4):
        assert twin.truth(world).accel_frd[2] == pytest.approx(-4 * 5.84e-6 * 700.0**2 / masses[world, 0], rel=1e-9)


@pytest.mark.parametrize(
    ("axis", "motors"),
    # x500: all arms are equal, so two motors give a moment about one axis alone; yaw needs a pair of one spin.
    [(0, (1, 2)), (1, (1, 3)), (2, (0, 1))],
    ids=["roll", "pitch", "yaw"],
)
def test_worlds_of_different_inertia_turn_as_they_must(axis: int, motors: tuple[int, int]) -> None:
    inertias = np.array([[0.02, 0.03, 0.04], [0.04, 0.05, 0.06], [0.2, 0.2, 0.3]])
    twin = twin_of("px4_x500", n=3, inertia_kg_m2=inertias, motor_inertia_kg_m2=0.0)
    speeds = np.zeros(4)
    speeds[list(motors)] = 500.0
    put(twin, height=AIR, rotors=speeds)
    run(twin, 0.1, speeds)
    arm = 0.016 if axis == 2 else 0.174
    sign = -1.0 if axis == 2 else 1.0  # counter-clockwise rotors turn the body clockwise
    expected = sign * 2 * arm * 8.54858e-6 * 500.0**2 * 0.1 / inertias[:, axis]
    np.testing.assert_allclose(twin._engine.rates_flu[:, axis], expected, rtol=1e-6)
    np.testing.assert_allclose(np.delete(twin._engine.rates_flu, axis, axis=1), 0.0, atol=1e-9)


def test_the_impulse_of_thrust_is_the_change_of_momentum() -> None:
    """Through spin-up and slow-down: the sum over steps of thrust and weight is m dv, in a world without air."""
    mass = 1.535
    twin = put(twin_of(mass_kg=mass, linear_drag_n_s_m=0.0), height=AIR)
    speed, impulse = 0.0, 0.0
    for command_rad_s, ticks in ((900.0, 20), (300.0, 30), (0.0, 50)):
        run(twin, ticks * 0.004, command_rad_s)
        for _ in range(2 * ticks):  # by hand: the exact lag, then k w^2
            tau = 0.0125 if command_rad_s > speed else 0.025
            speed = command_rad_s + (speed - command_rad_s) * math.exp(-0.002 / tau)
            impulse += 4 * 5.84e-6 * speed**2 * 0.002
    expected = impulse / mass - G * 0.4
    np.testing.assert_allclose(twin._engine.vel_enu[0], [0.0, 0.0, expected], atol=1e-9)


def test_spin_up_turns_the_body_as_drag_and_motor_inertia_say() -> None:
    """I dw/dt = d (c_M w^2 + J dw_rotor/dt): two counter-clockwise rotors of the x500, from standstill."""
    twin = put(twin_of("px4_x500"), height=AIR)
    run(twin, 0.08, [800.0, 800.0, 0.0, 0.0])
    speeds = 800.0 * (1 - np.exp(-0.002 * np.arange(1, 41) / 0.0125))
    drag, inertia = 2 * 1.3677728e-7 * np.sum(speeds**2) * 0.002, 2 * 2.7e-5 * speeds[-1]
    expected = -(drag + inertia) / 0.0438948
    assert inertia > 2 * drag  # the part that a model without motor inertia would miss
    np.testing.assert_allclose(twin._engine.rates_flu[0], [0.0, 0.0, expected], rtol=1e-6, atol=1e-9)


def test_what_the_rotors_gain_in_spin_the_body_loses() -> None:
    """Without air on the blades, and switched on and off again, the body ends as it began."""
    twin = put(twin_of("px4_x500", torque_coefficient_nm_s2=1e-30), height=AIR)
    run(twin, 0.1, [800.0, 800.0, 0.0, 0.0])
    assert twin._engine.rates_flu[0, 2] == pytest.approx(
        -2 * 2.7e-5 * twin._actuation.rotors.speed_rad_s[0, 0] / 0.0438948
    )
    run(twin, 2.0)
    np.testing.assert_allclose(twin._engine.rates_flu[0], 0.0, atol=1e-9)


# Drag


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_drag_slows_down_along_each_body_axis_with_its_own_constant(axis: int) -> None:
    drag, mass = np.array([0.5, 0.3, 0.8]), 1.535
    turned = Rotation.from_euler("ZYX", [0.7, 0.4, -0.3])
    twin = put(twin_of(weightless(), linear_drag_n_s_m=drag), height=AIR)
    direction = turned.apply(np.eye(3)[axis])
    put(twin, q_enu_flu=turned.as_quat(scalar_first=True), vel_enu=10.0 * direction)
    run(twin, 2.0)
    expected = 10.0 * math.exp(-drag[axis] / mass * 2.0)
    # Force is held for a tick: the relative error is (c/m) dt / 2 of the exponent.
    np.testing.assert_allclose(twin._engine.vel_enu[0], expected * direction, rtol=2e-3, atol=1e-9)
    np.testing.assert_allclose(
        twin._engine.vel_enu[0], 10.0 * (1 - drag[axis] / mass * 0.004) ** 500 * direction, rtol=1e-9, atol=1e-9
    )


def test_terminal_velocity() -> None:
    worlds = [[0.2, 0.2, 1.0], [0.2, 0.2, 3.0]]
    twin = put(twin_of(n=2, linear_drag_n_s_m=worlds), height=AIR)
    run(twin, 12.0)
    np.testing.assert_allclose(twin._engine.vel_enu[:, 2], [-1.535 * G / 1.0, -1.535 * G / 3.0], rtol=1e-3)
    np.testing.assert_allclose(twin.truth(1).accel_frd, [0.0, 0.0, -G], atol=1e-2)  # as if it stood on the ground


def test_drag_gives_no_moment() -> None:
    twin = put(twin_of(linear_drag_n_s_m=[2.0, 1.0, 0.5]), height=AIR, vel_enu=[8.0, -5.0, 3.0])
    run(twin, 1.0)
    np.testing.assert_allclose(twin._engine.rates_flu, 0.0, atol=1e-12)


# Rotation without moments


def angular_momentum(twin: Twin, inertia: np.ndarray) -> np.ndarray:
    return Rotation.from_quat(twin._engine.q_enu_flu, scalar_first=True).apply(inertia * twin._engine.rates_flu)


def tumble(sim_dt_us: int, seconds: float) -> float:
    """Relative change of the angular momentum of a tumbling body, a turn and a half a second."""
    inertia = np.array([0.02, 0.03, 0.045])
    params = weightless()
    params = msgspec.structs.replace(
        params, environment=msgspec.structs.replace(params.environment, sim_dt_us=sim_dt_us)
    )
    twin = put(twin_of(params, inertia_kg_m2=inertia), height=AIR, rates_flu=[8.0, 1.0, 5.0])
    before = angular_momentum(twin, inertia)
    run(twin, seconds)
    change = np.linalg.norm(angular_momentum(twin, inertia) - before) / np.linalg.norm(before)
    return float(change)


def test_a_tumbling_body_keeps_its_angular_momentum() -> None:
    """Within the first-order error of the integrator, which must shrink with the step: anything else is a moment."""
    errors = [tumble(sim_dt_us, 1.0) for sim_dt_us in (2000, 1000, 500)]
    assert errors[0] < 0.01
    assert errors[0] / errors[1] == pytest.approx(2.0, rel=0.1)
    assert errors[1] / errors[2] == pytest.approx(2.0, rel=0.1)


def test_a_spin_about_a_principal_axis_lasts() -> None:
    twin = put(twin_of(weightless()), height=AIR, rates_flu=[0.0, 0.0, 6.0])
    run(twin, 5.0)
    np.testing.assert_allclose(twin._engine.rates_flu[0], [0.0, 0.0, 6.0], atol=1e-9)
    w, _, _, z = twin._engine.q_enu_flu[0]
    turned = 2 * math.atan2(z, w) - math.pi / 2 - 30.0  # from heading north
    assert math.remainder(turned, math.tau) == pytest.approx(0.0, abs=1e-6)


@pytest.mark.parametrize("name", QUADS)
def test_the_body_turns_about_its_centre_of_mass(name: str) -> None:
    twin = put(twin_of(weightless(name), linear_drag_n_s_m=0.0), height=AIR, rates_flu=[3.0, 2.0, -1.0])
    run(twin, 1.0)
    np.testing.assert_allclose(twin._engine.pos_enu[0], [0.0, 0.0, AIR], atol=1e-9)
    np.testing.assert_allclose(twin._engine.vel_enu[0], 0.0, atol=1e-9)


def test_a_moment_moves_no_centre_of_mass() -> None:
    """Two motors of the x500 roll it over; what moves it is their thrust alone, along the body's up."""
    twin = put(twin_of(weightless("px4_x500"), linear_drag_n_s_m=0.0), height=AIR, rotors=[0.0, 300.0, 300.0, 0.0])
    impulse = np.zeros(3)
    for _ in range(100):
        up = Rotation.from_quat(twin._engine.q_enu_flu[0], scalar_first=True).apply([0.0, 0.0, 1.0])
        run(twin, 0.004, [0.0, 300.0, 300.0, 0.0])
        after = Rotation.from_quat(twin._engine.q_enu_flu[0], scalar_first=True).apply([0.0, 0.0, 1.0])
        impulse += 0.004 * 2 * 8.54858e-6 * 300.0**2 * 0.5 * (up + after)
    assert abs(twin._engine.rates_flu[0, 0]) > 1.0
    np.testing.assert_allclose(twin._engine.vel_enu[0], impulse / 2.06432, atol=2e-3)


def test_thrust_follows_the_attitude() -> None:
    """Upside down, nose down, and on its side: the acceleration is along the body's up."""
    for turn in (
        Rotation.from_euler("X", np.pi),
        Rotation.from_euler("Y", 1.0),
        Rotation.from_euler("ZX", [2.0, -0.7]),
    ):
        twin = put(twin_of(linear_drag_n_s_m=0.0), height=AIR, rotors=600.0, q_enu_flu=turn.as_quat(scalar_first=True))
        run(twin, 0.1, 600.0)
        expected = turn.apply([0.0, 0.0, 4 * 5.84e-6 * 600.0**2 / 1.535]) - [0.0, 0.0, G]
        np.testing.assert_allclose(twin._engine.vel_enu[0], 0.1 * expected, rtol=1e-9, atol=1e-9)


# 42: what is no number


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_42_a_command_that_is_no_number_stops_one_rotor_of_one_world(
    bad: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd
) -> None:
    """Public report 42: slot 2 of world 7 of 16 as if disarmed, the other 15 worlds bit-identical."""
    monkeypatch.chdir(tmp_path)
    speeds = np.full((16, 4), hover_speed("px4_iris", 1.2)) * np.linspace(0.9, 1.1, 16)[:, None]
    stopped = speeds.copy()
    stopped[7, 2] = 0.0
    broken = speeds.copy()
    broken[7, 2] = bad
    runs = []
    for told in (speeds, stopped, broken):
        twin = put(twin_of(n=16), height=AIR)
        batches = run(twin, 0.5, told)
        runs.append((states(twin), np.array([(batch.accel_frd, batch.gyro_frd) for batch in batches]), twin))
    (whole, whole_seen, _), (stop, stop_seen, _), (broke, broke_seen, twin) = runs
    np.testing.assert_array_equal(broke, stop)
    np.testing.assert_array_equal(broke_seen, stop_seen)
    others = np.arange(16) != 7
    np.testing.assert_array_equal(broke[others], whole[others])
    np.testing.assert_array_equal(broke_seen[:, :, others], whole_seen[:, :, others])
    assert np.abs(broke[7] - whole[7]).max() > 0.1
    assert np.isfinite(broke).all()
    assert twin.bad_commands[7].tolist() == [0, 0, 125, 0]
    assert twin.bad_commands.sum() == 125
    assert not twin._engine._batch.warning.any()  # mjWARN_BADCTRL above all
    assert list(tmp_path.iterdir()) == []
    assert capfd.readouterr() == ("", "")


# 50: a batch is so many single worlds


@pytest.mark.slow
def test_50_sixty_four_worlds_are_sixty_four_single_worlds() -> None:
    """Public report 50: equal to 1e-10 after 10 s, each world under commands of its own, on the ground or above."""
    rng = np.random.default_rng(50)
    told = hover_speed("px4_iris", 1.15) * rng.uniform(0.8, 1.1, (64, 1)) * rng.uniform(0.99, 1.01, (100, 64, 4))
    masses = rng.uniform(1.2, 1.9, (64, 1))
    batch = twin_of(n=64, mass_kg=masses, threads=2)
    for speeds in told:
        run(batch, 0.1, speeds)
    after = states(batch)
    assert np.ptp(after[:, 2]) > 10.0  # some flew away, some did not
    for world in (0, 17, 40, 63):
        single = twin_of(mass_kg=masses[world])
        for speeds in told:
            run(single, 0.1, speeds[world])
        np.testing.assert_allclose(states(single)[0], after[world], rtol=0, atol=1e-10)


# Contact


@pytest.mark.parametrize("name", QUADS)
def test_touchdown_settles_without_a_bounce(name: str) -> None:
    twin = twin_of(name)
    rest = twin._engine.start_height_m[0]
    put(twin, height=rest + 0.002, vel_enu=[0.0, 0.0, -0.5])
    heights = np.array([run(twin, 0.004) and twin.height_m for _ in range(500)])
    assert heights.min() > -0.015
    touched = int(np.argmax(heights <= 0.0))
    assert touched < 5
    assert heights[touched:].max() < 0.05
    assert np.abs(heights[125:]).max() < 1e-4  # half a second later
    np.testing.assert_allclose(twin._engine.vel_enu, 0.0, atol=1e-6)
    np.testing.assert_allclose(twin._engine.pos_enu[0, :2], 0.0, atol=1e-3)


@pytest.mark.parametrize("name", QUADS)
def test_it_stands_still(name: str) -> None:
    twin = twin_of(name)
    before = states(twin)
    run(twin, 60.0)
    np.testing.assert_allclose(states(twin)[0, :3], before[0, :3], atol=1e-3)
    np.testing.assert_allclose(states(twin)[0, 3:7], before[0, 3:7], atol=1e-4)
    assert twin._engine.pos_enu[0, 2] == pytest.approx(
        vehicle(name).body.collision_half_size_m[2] - vehicle(name).body.collision_centre_flu_m[2], abs=1e-3
    )


def pushed(name: str, share: float, seconds: float) -> np.ndarray:
    """(8, 2) how far a vehicle slides that is pushed along the ground in eight directions, `share` of its weight."""
    twin = twin_of(name, n=8, linear_drag_n_s_m=0.0)
    angle = np.arange(8) * np.pi / 4
    direction = np.stack((np.cos(angle), np.sin(angle)), axis=1)
    # Through `qfrc_applied`, which the twin does not use itself: a force at the centre of mass, in the world's axes.
    twin._engine._batch.bind("qfrc_applied")[:, :2] = share * vehicle(name).body.mass_kg * G * direction
    before = twin._engine.pos_enu[:, :2].copy()
    run(twin, seconds)
    return np.sum((twin._engine.pos_enu[:, :2] - before) * direction, axis=1)


@pytest.mark.parametrize("name", QUADS)
def test_a_push_below_the_friction_limit_moves_nothing_in_any_direction(name: str) -> None:
    assert vehicle(name).body.friction == 1.0
    assert np.abs(pushed(name, 0.7, 5.0)).max() < 1e-3


def test_a_push_above_the_friction_limit_slides_the_same_way_in_all_directions() -> None:
    slid = pushed("px4_iris", 1.3, 2.0)
    np.testing.assert_allclose(slid, 0.5 * 0.3 * G * 2.0**2, rtol=0.02)  # what friction leaves over: 0.3 g


# What breaks


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize(
    ("view", "value"),
    [("pos_enu", np.nan), ("q_enu_flu", np.nan), ("vel_enu", 1e12), ("rates_flu", 1e9)],
    ids=["position", "attitude", "velocity", "rates"],
)
def test_a_world_that_breaks_down_is_named_and_leaves_no_log(
    view: str, value: float, threads: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd
) -> None:
    monkeypatch.chdir(tmp_path)
    twin = twin_of(n=4, threads=threads)
    run(twin, 0.02)
    getattr(twin._engine, view)[2] = value
    with pytest.raises(
        TwinDivergedError, match=r"^the physics of world 2 broke down at tick 6: Nan, Inf or huge value"
    ):
        twin.step(command(twin))
    assert list(tmp_path.iterdir()) == []
    assert capfd.readouterr() == ("", "")


def test_any_warning_of_mujocos_counts() -> None:
    """With its log off, nothing else would tell."""
    for kind, said in ((0, "Inertia matrix"), (1, "contact"), (6, "CTRL")):
        twin = twin_of(n=2)
        twin._engine._batch.warning[1, kind] = (2, 1)
        with pytest.raises(TwinDivergedError, match=f"world 1 broke down at tick 1: .*{said}"):
            twin.step(command(twin))
