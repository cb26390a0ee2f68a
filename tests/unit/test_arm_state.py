"""The state of an arm as controllers take it, against MuJoCo's own functions and differences of poses and energies."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import mujoco
import numpy as np
import pytest
from mujoco.batch import Batch

from firmware_profiles.errors import UsageError
from twin.arms.model import Wall, arm_names, arm_spec, load_arm, turn_about_vertical
from twin.arms.state import ArmReader
from twin.frames import rotation_of_xyzw

N = 5
H = 1e-6
ARRAYS = ("joint_pos", "joint_vel", "mass_matrix", "gravity", "ee_pos", "ee_vel", "jacobian", "ee_force")


class Worlds:
    """N worlds of an arm, all in motion: on a fixed base with a random yaw, or on one that floats and moves."""

    def __init__(self, arm: str, floating: bool) -> None:
        self.model = load_arm(arm, floating=floating)
        self.floating = floating
        rng = np.random.default_rng(7)
        self.batch = batch = Batch(self.model, N, 1)
        if not floating:
            turn_about_vertical(batch, self.model, rng.uniform(-np.pi, np.pi, N))
        self.reader = ArmReader(self.model, batch)
        joints = len(self.reader.joint_names)
        lower, upper = self.reader.joint_lower, self.reader.joint_upper
        qpos, qvel = batch.bind("qpos"), batch.bind("qvel")
        qpos[:, -joints:] = rng.uniform(lower, upper, (N, joints))
        qvel[:] = rng.normal(size=qvel.shape)
        if floating:
            qpos[:, :3] = rng.normal(size=(N, 3))
            qpos[:, 3:7] = unit(rng.normal(size=(N, 4)))
        batch.forward()
        self.state = self.reader.read()

    def each(self) -> Iterator[tuple[int, mujoco.MjModel, mujoco.MjData]]:
        for world in range(N):
            model = self.batch.get_model(world)
            data = self.batch.get_data(world)
            mujoco.mj_forward(model, data)
            yield world, model, data


def unit(v: np.ndarray) -> np.ndarray:
    return v / np.linalg.norm(v, axis=-1, keepdims=True)


def pose_in_root(model: mujoco.MjModel, data: mujoco.MjData, qpos: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Position and rotation matrix of the end effector in the frame of the base."""
    data = mujoco.MjData(model)
    data.qpos[:] = qpos
    mujoco.mj_kinematics(model, data)
    root = data.body("base").xmat.reshape(3, 3)
    ee = data.site("ee")
    return root.T @ (ee.xpos - data.body("base").xpos), root.T @ ee.xmat.reshape(3, 3)


def twist(model: mujoco.MjModel, data: mujoco.MjData, velocity: np.ndarray) -> np.ndarray:
    """(6,) rate of the pose in the root's frame while MuJoCo moves with a velocity: a central difference."""
    sides = []
    for sign in (-1.0, 1.0):
        qpos = data.qpos.copy()
        mujoco.mj_integratePos(model, qpos, velocity, sign * H)
        sides.append(pose_in_root(model, data, qpos))
    (p0, r0), (p1, r1) = sides
    turn = (r1 - r0) @ (0.5 * (r0 + r1)).T / (2.0 * H)
    return np.concatenate(((p1 - p0) / (2.0 * H), [turn[2, 1], turn[0, 2], turn[1, 0]]))


@pytest.fixture(scope="module", params=[(a, f) for a in arm_names() for f in (False, True)], ids=str)
def worlds(request: pytest.FixtureRequest) -> Worlds:
    return Worlds(*request.param)


def arm_dofs(model: mujoco.MjModel) -> np.ndarray:
    return np.array([model.joint(j).dofadr[0] for j in range(model.njnt) if model.joint(j).name.startswith("joint")])


def test_the_jacobian_is_the_difference_of_the_pose_in_the_root(worlds: Worlds) -> None:
    for world, model, data in worlds.each():
        for column, dof in enumerate(arm_dofs(model)):
            expected = twist(model, data, np.eye(model.nv)[dof])
            np.testing.assert_allclose(worlds.state.jacobian[world, :, column], expected, atol=1e-7)


def test_jacobian_mass_and_bias_are_mujocos(worlds: Worlds) -> None:
    for world, model, data in worlds.each():
        dofs = arm_dofs(model)
        root = data.body("base").xmat.reshape(3, 3)
        jacp, jacr, mass = np.zeros((3, model.nv)), np.zeros((3, model.nv)), np.zeros((model.nv, model.nv))
        mujoco.mj_jacSite(model, data, jacp, jacr, model.site("ee").id)
        mujoco.mj_fullM(model, data, mass)
        expected = np.concatenate((root.T @ jacp, root.T @ jacr))[:, dofs]
        np.testing.assert_allclose(worlds.state.jacobian[world], expected, atol=1e-13)
        np.testing.assert_allclose(worlds.state.mass_matrix[world], mass[np.ix_(dofs, dofs)], atol=1e-14)
        np.testing.assert_array_equal(worlds.reader.bias()[world], data.qfrc_bias[dofs])
        data.qvel[:] = 0.0
        mujoco.mj_forward(model, data)
        np.testing.assert_allclose(worlds.state.gravity[world], data.qfrc_bias[dofs], atol=1e-11)


def test_the_pose_is_that_in_the_root(worlds: Worlds) -> None:
    for world, model, data in worlds.each():
        position, rotation = pose_in_root(model, data, data.qpos)
        np.testing.assert_allclose(worlds.state.ee_pos[world], position, atol=1e-14)
        told = rotation_of_xyzw(worlds.state.ee_quat_xyzw, xp=np)[world]
        np.testing.assert_allclose(told, rotation, atol=1e-13)


def test_the_velocity_is_the_rate_of_the_pose_in_the_root_however_that_moves(worlds: Worlds) -> None:
    state = worlds.state
    np.testing.assert_allclose(state.ee_vel, (state.jacobian @ state.joint_vel[:, :, None])[:, :, 0], atol=1e-12)
    for world, model, data in worlds.each():
        if worlds.floating:
            assert np.linalg.norm(data.qvel[:6]) > 1.0
        np.testing.assert_allclose(state.ee_vel[world], twist(model, data, data.qvel), atol=1e-7)


def test_the_mass_matrix_is_that_of_the_kinetic_energy(worlds: Worlds) -> None:
    """Of all bodies, and of the motors' rotors, with a base that does not move."""
    for world, model, data in worlds.each():
        dofs = arm_dofs(model)
        speed = data.qvel[dofs].copy()
        data.qvel[:] = 0.0
        data.qvel[dofs] = speed
        mujoco.mj_forward(model, data)
        energy = 0.5 * np.sum(model.dof_armature[dofs] * speed**2)
        for body in range(1, model.nbody):
            velocity = np.zeros(6)  # of the centre of mass, axes of the inertia: angular, linear
            mujoco.mj_objectVelocity(model, data, mujoco.mjtObj.mjOBJ_BODY, body, velocity, 1)
            energy += 0.5 * model.body_mass[body] * velocity[3:] @ velocity[3:]
            energy += 0.5 * np.sum(model.body_inertia[body] * velocity[:3] ** 2)
        assert 0.5 * speed @ worlds.state.mass_matrix[world] @ speed == pytest.approx(energy, rel=1e-10)


def test_gravity_is_the_slope_of_the_potential_energy(worlds: Worlds) -> None:
    def potential(model: mujoco.MjModel, qpos: np.ndarray) -> float:
        data = mujoco.MjData(model)
        data.qpos[:] = qpos
        mujoco.mj_kinematics(model, data)
        mujoco.mj_comPos(model, data)
        return float(9.81 * model.body_mass @ data.xipos[:, 2])

    for world, model, data in worlds.each():
        for column, dof in enumerate(arm_dofs(model)):
            sides = []
            for sign in (-1.0, 1.0):
                qpos = data.qpos.copy()
                mujoco.mj_integratePos(model, qpos, np.eye(model.nv)[dof], sign * 1e-5)
                sides.append(potential(model, qpos))
            assert worlds.state.gravity[world, column] == pytest.approx((sides[1] - sides[0]) / 2e-5, abs=1e-5)


def test_n_worlds_are_n_times_one(worlds: Worlds) -> None:
    """Each world alone, as MjData, says the same."""
    for world, model, data in worlds.each():
        one = ArmReader(model, data).read()
        for name in ARRAYS:
            many = getattr(worlds.state, name)[world]
            np.testing.assert_allclose(getattr(one, name)[0], many, atol=1e-13, err_msg=name)
        np.testing.assert_allclose(one.ee_quat_xyzw[0], worlds.state.ee_quat_xyzw[world], atol=1e-13)


def test_a_state_stays_what_it_was() -> None:
    worlds = Worlds("arm7", floating=False)
    names = (*ARRAYS, "ee_quat_xyzw")
    before = {name: getattr(worlds.state, name).copy() for name in names}
    worlds.batch.step(nstep=20, stage=mujoco.mjtStage.mjSTAGE_VEL)
    after = worlds.reader.read()
    for name in names:
        np.testing.assert_array_equal(getattr(worlds.state, name), before[name], err_msg=name)
        if name != "ee_force":
            assert np.abs(getattr(after, name) - before[name]).max() > 1e-3, name


def test_after_a_step_with_the_velocity_stage_the_state_is_the_new_one() -> None:
    worlds = Worlds("arm6", floating=True)
    worlds.batch.step(nstep=3, stage=mujoco.mjtStage.mjSTAGE_VEL)
    state = worlds.reader.read()
    for world, model, data in worlds.each():
        one = ArmReader(model, data).read()
        for name in ("joint_pos", "mass_matrix", "gravity", "ee_pos", "ee_vel", "jacobian"):
            np.testing.assert_allclose(getattr(state, name)[world], getattr(one, name)[0], atol=1e-12, err_msg=name)


def test_before_the_first_step_there_is_nothing_to_read() -> None:
    model = load_arm("arm7")
    batch = Batch(model, 2, 1)
    batch.forward()
    reader = ArmReader(model, batch)
    with pytest.raises(UsageError, match="nothing to read yet"):
        reader.read()
    batch.forward([0])
    with pytest.raises(UsageError, match="nothing to read yet"):
        reader.read()
    batch.forward()
    assert np.isfinite(reader.read().ee_quat_xyzw).all()


def test_where_limits_and_default_come_from() -> None:
    model = load_arm("arm7", floating=True)
    reader = ArmReader(model, mujoco.MjData(model))
    assert reader.joint_names == tuple(f"joint{i}" for i in range(1, 8))
    np.testing.assert_array_equal(reader.joint_lower, [-2.8, -1.8, -2.8, 0.05, -2.8, -0.6, -2.8])
    np.testing.assert_array_equal(reader.joint_upper, [2.8, 1.8, 2.8, 3.0, 2.8, 3.2, 2.8])
    np.testing.assert_allclose(reader.default_joint_pos, [0, -0.2, 0, 2.1, 0, 1.2415927, 0], atol=1e-7)


def test_joints_in_an_order_of_ones_own(worlds: Worlds) -> None:
    names = worlds.reader.joint_names
    chosen = [3, 0, len(names) - 1]
    reader = ArmReader(worlds.model, worlds.batch, joints=[names[i] for i in chosen])
    worlds.batch.forward()
    part = reader.read()
    np.testing.assert_array_equal(part.jacobian, worlds.state.jacobian[:, :, chosen])
    np.testing.assert_array_equal(part.mass_matrix, worlds.state.mass_matrix[:, chosen][:, :, chosen])
    np.testing.assert_array_equal(part.gravity, worlds.state.gravity[:, chosen])


def test_a_joint_that_does_not_move_the_end_effector_has_no_column() -> None:
    """The site on the elbow: what is behind it is in the mass matrix, not in the Jacobian."""
    spec = arm_spec("arm7")
    spec.body("link4").add_site(name="elbow", pos=[0.0, 0.0, 0.1])
    model = spec.compile()
    data = mujoco.MjData(model)
    mujoco.mj_resetDataKeyframe(model, data, 0)
    mujoco.mj_forward(model, data)
    joints = [f"joint{i}" for i in range(1, 8)]
    state = ArmReader(model, data, site="elbow", joints=joints).read()
    jacp, jacr = np.zeros((3, 7)), np.zeros((3, 7))
    mujoco.mj_jacSite(model, data, jacp, jacr, model.site("elbow").id)
    np.testing.assert_allclose(state.jacobian[0], np.concatenate((jacp, jacr)), atol=1e-14)
    assert not state.jacobian[0, :, 4:].any()
    assert ArmReader(model, data, site="elbow").joint_names == tuple(joints[:4])


def test_two_branches_have_no_inertia_in_common() -> None:
    spec = arm_spec("arm7")
    side = spec.body("base").add_body(name="side", pos=[0.0, 0.3, 0.0])
    side.add_joint(name="wheel", axis=[0, 1, 0])
    side.add_geom(size=[0.05, 0, 0], mass=2.0)
    for key in list(spec.keys):
        spec.delete(key)
    model = spec.compile()
    data = mujoco.MjData(model)
    data.qvel[:] = 1.0
    mujoco.mj_forward(model, data)
    state = ArmReader(model, data, joints=["joint2", "wheel"]).read()
    mass = np.zeros((model.nv, model.nv))
    mujoco.mj_fullM(model, data, mass)
    dofs = [model.joint("joint2").dofadr[0], model.joint("wheel").dofadr[0]]
    assert state.mass_matrix[0, 0, 1] == 0.0
    np.testing.assert_allclose(state.mass_matrix[0], mass[np.ix_(dofs, dofs)], atol=1e-14)
    assert not state.jacobian[0, :, 1].any()


def test_a_world_with_a_payload_of_its_own() -> None:
    model = load_arm("arm7")
    batch = Batch(model, 2, 1)
    batch.expand("body_mass")[1, model.body("tool").id] += 3.0
    batch.expand("opt.gravity")[0] = [0.0, 0.0, -1.62]
    batch.set_const()
    reader = ArmReader(model, batch)
    batch.reset(keyframe=0)
    state = reader.read()
    assert np.abs(state.gravity[1] - state.gravity[0]).max() > 5.0
    for world in range(2):
        data = batch.get_data(world)
        mujoco.mj_forward(batch.get_model(world), data)
        np.testing.assert_allclose(state.gravity[world], data.qfrc_bias, atol=1e-11)


def test_the_pose_of_a_body_in_the_root() -> None:
    """The wall turns with the base, so in the root's frame it stays where it was put."""
    wall = Wall()
    model = load_arm("arm7", wall=wall)
    batch = Batch(model, 4, 1)
    turn_about_vertical(batch, model, [0.0, 1.0, -2.0, 3.0])
    reader = ArmReader(model, batch)
    batch.forward()
    state = reader.read()
    position, quat = state.body_pose("wall")
    np.testing.assert_allclose(position, np.tile(wall.position_m, (4, 1)), atol=1e-14)
    np.testing.assert_allclose(quat, np.tile([0.0, -0.38268343, 0.0, 0.92387953], (4, 1)), atol=1e-8)


def test_a_free_arm_feels_nothing(worlds: Worlds) -> None:
    for world, _, data in worlds.each():
        if data.ncon == 0:
            assert not worlds.state.ee_force[world].any()
    blind = ArmReader(worlds.model, worlds.batch, force_sensor=None)
    worlds.batch.forward()
    assert not blind.read().ee_force.any()


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"root": "nobody"}, "no body 'nobody' in the model: it has world, base, link1"),
        ({"site": "hand"}, "no site 'hand' in the model: it has ee"),
        ({"joints": ["joint1", "joint9"]}, "no joint 'joint9' in the model: it has joint1, joint2"),
        ({"force_sensor": "touch"}, "no sensor 'touch' in the model: it has ee_force"),
        ({"root": "link7", "site": "ee"}, "no joint between root 'link7' and site 'ee'"),
        ({"root": "wall"}, "the end effector does not hang on body 'wall'"),
    ],
)
def test_a_wrong_name_is_told_with_those_that_exist(wrong: dict[str, Any], said: str) -> None:
    model = load_arm("arm7", wall=Wall())
    with pytest.raises(UsageError, match=said):
        ArmReader(model, mujoco.MjData(model), **wrong)


def test_an_arms_joints_have_one_degree_of_freedom() -> None:
    model = load_arm("arm7", floating=True)
    with pytest.raises(UsageError, match="joint 'root': an arm's joints are hinges and slides"):
        ArmReader(model, mujoco.MjData(model), joints=["root"])
