"""The arms: their dimensions as stated, who touches whom, that they can carry themselves; what goes with them."""

from __future__ import annotations

import mujoco
import numpy as np
import pytest

from firmware_profiles.errors import UsageError
from twin.arms.model import PositionDrive, Wall, arm_names, load_arm

PROXIMAL = {"base", "link1", "link2"}
DISTAL = {"arm7": {"link6", "link7", "tool"}, "arm6": {"link4", "link5", "link6", "tool"}}


def at(arm: str, posture: str | float) -> tuple[mujoco.MjModel, mujoco.MjData]:
    model = load_arm(arm)
    data = mujoco.MjData(model)
    if posture == "home":
        mujoco.mj_resetDataKeyframe(model, data, model.key("home").id)
    else:
        data.qpos[:] = posture
    mujoco.mj_forward(model, data)
    return model, data


def test_there_are_two_arms() -> None:
    assert arm_names() == ("arm6", "arm7")
    for name in arm_names():
        model = load_arm(name)
        assert model.nv == model.nu == int(name[-1])
        assert [model.joint(i).name for i in range(model.njnt)] == [f"joint{i + 1}" for i in range(model.nv)]
        assert [int(model.actuator(i).trnid[0]) for i in range(model.nu)] == list(range(model.nv))


@pytest.mark.parametrize(
    ("arm", "tip", "mass", "home"),
    [("arm7", (-0.09, 0.0, 1.24), 16.0, (0.490, 0.0, 0.422)), ("arm6", (1.18, 0.37, 0.01), 23.5, (0.407, 0.17, 0.371))],
)
def test_dimensions_are_the_stated_ones(arm: str, tip: tuple[float, ...], mass: float, home: tuple[float, ...]) -> None:
    model, data = at(arm, 0.0)
    np.testing.assert_allclose(data.site("ee").xpos, tip, atol=1e-9)
    assert model.body("base").subtreemass[0] == pytest.approx(mass + 4.0)
    model, data = at(arm, "home")
    np.testing.assert_allclose(data.site("ee").xpos, home, atol=1e-3)
    np.testing.assert_allclose(data.site("ee").xmat.reshape(3, 3)[:, 2], [0.0, 0.0, -1.0], atol=1e-8)
    assert data.ncon == 0


@pytest.mark.parametrize("arm", arm_names())
def test_only_wrist_and_tool_touch_base_and_upper_arm(arm: str) -> None:
    model = load_arm(arm)
    data = mujoco.MjData(model)
    rng = np.random.default_rng(0)
    pairs = set()
    for _ in range(500):
        data.qpos[:] = rng.uniform(model.jnt_range[:, 0], model.jnt_range[:, 1])
        mujoco.mj_forward(model, data)
        pairs |= {frozenset(model.geom(g).name for g in contact.geom) for contact in data.contact[: data.ncon]}
    assert pairs
    for pair in pairs:
        assert len(pair & PROXIMAL) == 1, pair
        assert len(pair & DISTAL[arm]) == 1, pair


@pytest.mark.parametrize("arm", arm_names())
def test_an_arm_carries_itself_with_two_thirds_of_its_torque(arm: str) -> None:
    model = load_arm(arm)
    data = mujoco.MjData(model)
    rng = np.random.default_rng(1)
    for _ in range(500):
        data.qpos[:] = rng.uniform(model.jnt_range[:, 0], model.jnt_range[:, 1])
        mujoco.mj_forward(model, data)
        assert (np.abs(data.qfrc_bias) < 0.667 * model.actuator_ctrlrange[:, 1]).all()


@pytest.mark.parametrize("arm", arm_names())
def test_a_drive_holds_a_position_and_no_more_torque_than_the_motor_has(arm: str) -> None:
    model = load_arm(arm, drive=PositionDrive(), gravity=False)
    data = mujoco.MjData(model)
    mujoco.mj_resetDataKeyframe(model, data, 0)
    target = data.qpos + 0.3
    data.ctrl[:] = target
    for _ in range(1500):
        mujoco.mj_step(model, data)
    np.testing.assert_allclose(data.qpos, target, atol=1e-3)
    data.ctrl[:] = target + 100.0
    mujoco.mj_step(model, data)
    np.testing.assert_allclose(data.actuator_force, load_arm(arm).actuator_ctrlrange[:, 1])


def test_a_floating_arm_falls_and_keeps_its_home() -> None:
    model = load_arm("arm7", floating=True)
    data = mujoco.MjData(model)
    mujoco.mj_resetDataKeyframe(model, data, model.key("home").id)
    np.testing.assert_allclose(data.qpos[:7], [0, 0, 0, 1, 0, 0, 0])
    np.testing.assert_allclose(data.qpos[7:], load_arm("arm7").key("home").qpos)
    mujoco.mj_forward(model, data)
    np.testing.assert_allclose(data.qacc, [0, 0, -9.81, 0, 0, 0] + [0] * 7, atol=1e-9)


def test_without_gravity_nothing_falls() -> None:
    assert not load_arm("arm6", gravity=False).opt.gravity.any()


def test_the_wall_is_where_it_was_put() -> None:
    wall = Wall(position_m=(0.7, 0.1, 0.4), tilt_rad=-0.5, size_m=(1.0, 2.0, 0.1), friction=0.4, contact_time_s=0.02)
    model = load_arm("arm7", wall=wall)
    data = mujoco.MjData(model)
    mujoco.mj_forward(model, data)
    geom = model.geom("wall")
    np.testing.assert_allclose(data.body("wall").xpos, [0.7, 0.1, 0.4])
    np.testing.assert_allclose(data.body("wall").xmat.reshape(3, 3)[:, 2], [-np.sin(0.5), 0.0, np.cos(0.5)])
    np.testing.assert_allclose(data.body("wall").xquat[[1, 2, 3, 0]], wall.quat_xyzw)
    np.testing.assert_allclose(geom.size, [0.5, 1.0, 0.05])
    assert (geom.friction[0], geom.solref[0]) == (0.4, 0.02)


def test_what_an_arm_cannot_be() -> None:
    with pytest.raises(UsageError, match="no arm 'arm5': known are arm6, arm7"):
        load_arm("arm5")
    with pytest.raises(UsageError, match="timestep_s must be positive"):
        load_arm("arm7", timestep_s=0.0)
    with pytest.raises(UsageError, match="size_m must be positive"):
        Wall(size_m=(1.0, 0.0, 1.0))
    with pytest.raises(UsageError, match="position_m must be three finite numbers"):
        Wall(position_m=(1.0, float("nan"), 1.0))
    with pytest.raises(UsageError, match="tilt_rad must be finite"):
        Wall(tilt_rad=float("inf"))
    with pytest.raises(UsageError, match="friction must be positive"):
        Wall(friction=0.0)
    with pytest.raises(UsageError, match="contact_time_s must be positive"):
        Wall(contact_time_s=-1.0)
    with pytest.raises(UsageError, match="damping_nms_rad must be positive"):
        PositionDrive(damping_nms_rad=-1.0)
