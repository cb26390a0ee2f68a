"""The arm in the twin: its masses and motors, what it does to the vehicle and to the IMU, and the force at its tip."""

from datetime import UTC, datetime
from typing import Any

import msgspec
import numpy as np
import pytest

from firmware_profiles.errors import UsageError
from firmware_profiles.loader import load_profile
from firmware_profiles.profile import VehicleParams
from firmware_profiles.signals import ActuatorCommand
from twin.environment import Home
from twin.twin import Twin
from twin.vehicle_model import build_model
from twin.world_params import WorldParams

VEHICLE = load_profile("lav2_arm").vehicle
ARM = VEHICLE.arm
assert ARM is not None
JOINTS = len(ARM.links)


def make_twin(vehicle: VehicleParams = VEHICLE, n: int = 1, **options: Any) -> Twin:
    params = options.pop("params", WorldParams.of(vehicle, n))
    return Twin(
        vehicle,
        home=Home(47.4, 8.5, 488.0, options.pop("heading", 0.0)),
        date=datetime(2026, 6, 1, tzinfo=UTC),
        params=params,
        **options,
    )


def command(n: int = 1, speed: float = 0.0, torque: Any = None) -> ActuatorCommand:
    return ActuatorCommand(np.full((n, 4), speed), arm_torque_nm=None if torque is None else np.asarray(torque))


def hover(twin: Twin, seconds: float, torque: Any, thrust: float = 1.0) -> None:
    """Rotors at hover, whatever the vehicle does."""
    speed = VEHICLE.hover_speed_rad_s() * np.sqrt(thrust)
    for _ in range(round(seconds * 250)):
        twin.move(command(speed=speed, torque=torque))


def without(**parts: Any) -> VehicleParams:
    return msgspec.structs.replace(VEHICLE, **parts)


def test_the_model_weighs_what_the_profile_says() -> None:
    assert build_model(VEHICLE).body_subtreemass[1] == pytest.approx(VEHICLE.total_mass_kg, rel=1e-12)


def test_at_rest_the_arm_is_put_away_and_the_imu_feels_gravity() -> None:
    twin = make_twin()
    before = twin.state()
    for _ in range(250):
        batch = twin.step(command())
    np.testing.assert_allclose(twin.arm_state().joint_pos[0], ARM.stowed_rad, atol=0.02)
    np.testing.assert_allclose(twin.state(), before, atol=1e-6)
    assert batch.accel_frd[0] @ batch.accel_frd[0] == pytest.approx(9.80665**2, rel=0.02)


def test_gravity_compensation_holds_the_arm_without_the_brake() -> None:
    twin = make_twin()
    for _ in range(75):
        twin.move(command(torque=twin.arm_state().gravity))
    np.testing.assert_allclose(twin.arm_state().joint_pos[0], ARM.stowed_rad, atol=0.03)
    np.testing.assert_allclose(twin.arm_state().joint_vel, 0.0, atol=0.02)


def test_without_torque_the_arm_falls_and_a_positive_torque_lowers_it() -> None:
    twin = make_twin()
    for _ in range(50):
        twin.move(command(torque=np.zeros((1, JOINTS))))
    assert np.abs(twin.arm_state().joint_vel[0]).max() > 0.1
    twin.reset()
    before = twin.arm_state().joint_pos[0]
    for _ in range(10):
        twin.move(command(torque=twin.arm_state().gravity + np.array([[0.0, 0.0, 0.05]])))
    assert twin.arm_state().joint_pos[0][2] > before[2] + 0.01


def test_a_torque_that_is_no_number_counts_as_none_and_is_counted() -> None:
    n = 2
    odd, plain = make_twin(n=n), make_twin(n=n)
    for _ in range(20):
        odd.move(command(n, torque=[[0.1, np.nan, np.inf], [0.1, 0.0, 0.2]]))
        plain.move(command(n, torque=[[0.1, 0.0, 0.0], [0.1, 0.0, 0.2]]))
    np.testing.assert_array_equal(odd.states(), plain.states())
    np.testing.assert_array_equal(odd.bad_arm_torques, [[0, 20, 20], [0, 0, 0]])


def test_the_motors_have_a_limit() -> None:
    strong, stronger = make_twin(), make_twin()
    for _ in range(20):
        strong.move(command(torque=[[link.torque_limit_nm for link in ARM.links]]))
        stronger.move(command(torque=[[1e6] * JOINTS]))
    np.testing.assert_array_equal(strong.states(), stronger.states())


def test_in_free_fall_what_the_arm_does_moves_no_common_centre_of_mass() -> None:
    """Newton: whatever the motors do, the whole falls with g, and its angular momentum stays."""
    vehicle = without(
        environment=msgspec.structs.replace(VEHICLE.environment, walls=()),
        body=msgspec.structs.replace(VEHICLE.body, linear_drag_n_s_m=(0.0, 0.0, 0.0)),
    )
    twin = make_twin(vehicle)
    checkpoint = np.empty(twin.checkpoint_size)
    twin.save(checkpoint)
    checkpoint[1 + 2] += 50.0  # behind the time: place and attitude of the body
    twin.load(checkpoint)
    for _ in range(25):  # the wheels' suspension comes to rest
        twin.move(command())
    momenta, heights = [], []
    for _ in range(40):
        twin.move(command(torque=[[0.3, -0.2, 0.1]]))
        momentum, centre = _whole(twin)
        momenta.append(momentum)
        heights.append(centre[2])
    assert np.abs(np.diff(heights, 2) / 0.004**2 + 9.80665).max() < 0.05
    assert np.ptp(np.array(momenta), axis=0).max() < 2e-3
    assert np.abs(twin.arm_state().joint_vel[0]).max() > 1.0


def _whole(twin: Twin) -> tuple[np.ndarray, np.ndarray]:
    """Angular momentum about, and place of, the centre of mass of all bodies: by MuJoCo, of the twin's state."""
    import mujoco

    model = build_model(VEHICLE)
    data = mujoco.MjData(model)
    state = np.empty(twin.checkpoint_size)
    twin.save(state)
    kind = mujoco.mjtState.mjSTATE_INTEGRATION
    mujoco.mj_setState(model, data, state[: mujoco.mj_stateSize(model, kind)], kind)
    mujoco.mj_forward(model, data)
    matrix = np.zeros((3, model.nv))
    mujoco.mj_angmomMat(model, data, matrix, 1)
    return matrix @ data.qvel, data.subtree_com[1].copy()


def test_the_imu_is_where_the_body_is_and_not_the_centre_of_mass() -> None:
    """In flight the arm throws the body about: the specific force is that of its origin, by its own velocities."""
    twin = make_twin()
    hover(twin, 0.5, None, thrust=1.2)
    worst, seen = 0.0, 0.0
    for _ in range(60):
        before = twin.state()
        batch = twin.step(command(speed=VEHICLE.hover_speed_rad_s(), torque=[[1.5, -1.0, 0.5]]))
        after = twin.state()
        mean_q = before[3:7] + after[3:7]
        rotation = _rotation(mean_q / np.linalg.norm(mean_q))
        expected_flu = ((after[7:10] - before[7:10]) / 0.004 + (0.0, 0.0, 9.80665)) @ rotation
        worst = max(worst, np.abs(batch.accel_frd[0] * (1.0, -1.0, -1.0) - expected_flu).max())
        seen = max(seen, abs(expected_flu[0]))
    assert seen > 1.0
    assert worst < 0.15  # noise of 0.02, and the attitude in the middle


def _rotation(q: np.ndarray) -> np.ndarray:
    w, x, y, z = q
    return np.array(
        (
            (1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)),
            (2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)),
            (2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)),
        )
    )


def pressing(wall_m: float = 0.5) -> VehicleParams:
    """A vehicle on its wheels, its nose to the north, so near to a wall that the ready arm presses on it."""
    wall = msgspec.structs.replace(
        VEHICLE.environment.walls[0], centre_enu_m=(0.0, wall_m + 0.1, 1.0), half_size_m=(1.0, 0.1, 1.0)
    )
    return without(environment=msgspec.structs.replace(VEHICLE.environment, walls=(wall,)))


def test_pressing_on_a_wall_the_tip_feels_the_force_that_holds_the_vehicle() -> None:
    """The vehicle stands, the arm stretches against the wall: by the wheels' friction the vehicle stays where it is.

    Forces in balance: what the tip exerts to the north is what the torques of the joints make of it, J^T f = tau - g,
    and it points into the wall, in the world and (as the nose points north) along x in the arm's frame.
    """
    twin = make_twin(pressing())
    ready, torque = np.array(ARM.ready_rad), np.zeros((1, JOINTS))
    for _ in range(750):
        state = twin.arm_state()
        torque = 3.0 * (ready - state.joint_pos) - 0.15 * state.joint_vel + state.gravity
        twin.move(command(torque=torque))
    state, force = twin.arm_state(), twin.tip_force_enu[0]
    assert force[1] > 0.3
    assert abs(force[0]) < 0.01 * force[1]
    np.testing.assert_allclose(state.ee_force[0], force @ _rotation(twin.state()[3:7]), atol=1e-9)
    assert state.ee_force[0, 0] == pytest.approx(force[1], rel=0.01)
    np.testing.assert_allclose(state.joint_vel, 0.0, atol=1e-3)
    at_surface = np.cross(np.array((0.0, ARM.tip_radius_m, 0.0)), force) @ _rotation(twin.state()[3:7])
    wrench = np.concatenate((state.ee_force[0], at_surface))
    np.testing.assert_allclose(state.jacobian[0].T @ wrench, (torque - state.gravity)[0], atol=2e-3)
    assert abs(twin.state()[1]) < 0.01


def test_nothing_touched_is_no_force() -> None:
    twin = make_twin()
    twin.move(command())
    np.testing.assert_array_equal(twin.tip_force_enu, np.zeros((1, 3)))
    np.testing.assert_array_equal(twin.arm_state().ee_force, np.zeros((1, 3)))


def test_a_checkpoint_goes_on_to_the_bit_with_the_arm_at_the_wall() -> None:
    twin, other = make_twin(pressing()), make_twin(pressing())

    def on(which: Twin, ticks: int) -> None:
        for _ in range(ticks):
            state = which.arm_state()
            torque = 3.0 * (np.array(ARM.ready_rad) - state.joint_pos) - 0.15 * state.joint_vel + state.gravity
            which.move(command(torque=torque))

    on(twin, 400)
    checkpoint = np.empty(twin.checkpoint_size)
    twin.save(checkpoint)
    other.load(checkpoint)
    np.testing.assert_array_equal(other.tip_force_enu, twin.tip_force_enu)
    on(twin, 100)
    on(other, 100)
    assert twin.tip_force_enu[0, 1] > 0.3
    np.testing.assert_array_equal(other.states(), twin.states())
    np.testing.assert_array_equal(other.arm_state().joint_pos, twin.arm_state().joint_pos)


def test_reading_the_state_changes_no_bit_of_the_motion() -> None:
    read, unread = make_twin(pressing()), make_twin(pressing())
    for tick in range(400):
        torque = np.array([[0.02, 0.05, 0.01]]) * np.sin(0.05 * tick) + (0.3, -0.1, 0.0)
        read.move(command(torque=torque))
        unread.move(command(torque=torque))
        read.arm_state()
    np.testing.assert_array_equal(read.states(), unread.states())
    np.testing.assert_array_equal(read.arm_state().joint_pos, unread.arm_state().joint_pos)


def test_worlds_are_alike_and_alone() -> None:
    """World 1 of 3 under torques of its own: the others do not notice, and it is what it is alone."""
    vehicle = pressing()
    many, alone = make_twin(vehicle, n=3, threads=2), make_twin(vehicle)
    own = np.array([[0.2, 0.1, 0.05]])
    for _ in range(200):
        gravity = many.arm_state().gravity
        many.move(command(3, torque=gravity + np.array([[0.0], [1.0], [0.0]]) * own))
        alone.move(command(torque=alone.arm_state().gravity + own))
    np.testing.assert_array_equal(many.states()[1], alone.states()[0])
    np.testing.assert_array_equal(many.arm_state().joint_pos[1], alone.arm_state().joint_pos[0])
    np.testing.assert_array_equal(many.tip_force_enu[1], alone.tip_force_enu[0])
    np.testing.assert_array_equal(many.states()[0], many.states()[2])
    assert np.abs(many.arm_state().joint_pos[0] - many.arm_state().joint_pos[1]).max() > 0.1


def test_a_reset_is_the_start() -> None:
    twin = make_twin()
    start, arm = twin.state(), twin.arm_state().joint_pos
    for _ in range(50):
        twin.move(command(torque=np.zeros((1, JOINTS))))
    twin.reset()
    np.testing.assert_array_equal(twin.state(), start)
    np.testing.assert_array_equal(twin.arm_state().joint_pos, arm)


def test_a_vehicle_without_an_arm_says_so() -> None:
    twin = make_twin(load_profile("lav2").vehicle)
    with pytest.raises(UsageError, match=r"the profile has no vehicle\.arm|its profile has no vehicle\.arm"):
        twin.arm_state()
    assert twin.tip_force_enu.shape == (1, 0)
