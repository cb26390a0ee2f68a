"""The force at the tool, by sign, size and frame: a plate that is pressed on it, and a weight that it carries."""

from __future__ import annotations

import mujoco
import numpy as np
from mujoco.batch import Batch

from twin.arms.model import PositionDrive, arm_spec, turn_about_vertical
from twin.arms.state import ArmReader
from twin.control.task_space.arm_state import ArmState


def pressed_by(
    force: float, direction: np.ndarray, yaw: np.ndarray, *, gravity: bool = False, mass: float = 2.0
) -> ArmState:
    """State of an arm that is held, after a plate on a slide was pressed on the tip of its tool."""
    spec = arm_spec("arm7", drive=PositionDrive(4000.0, 400.0), gravity=gravity)
    model = spec.compile()
    data = mujoco.MjData(model)
    data.qpos[:] = posture = [0.3, 0.2, -0.2, 0.4, 0.3, 0.5, 0.1] if not gravity else [0.0, 0, 0, 0.05, 0, -0.05, 0]
    mujoco.mj_forward(model, data)
    tip = data.site("ee").xpos.copy()
    # The plate lies across the tip: its axis is the direction in which it is pressed.
    plate = spec.worldbody.add_body(name="plate", pos=list(tip - 0.0101 * direction))
    plate.alt.type = mujoco.mjtOrientation.mjORIENTATION_ZAXIS
    plate.alt.zaxis = list(direction)
    plate.add_joint(name="slide", type=mujoco.mjtJoint.mjJNT_SLIDE, axis=[0, 0, 1])
    plate.add_geom(
        type=mujoco.mjtGeom.mjGEOM_BOX, size=[0.3, 0.3, 0.01], mass=mass, contype=1, conaffinity=0, condim=1, priority=1
    )
    for key in list(spec.keys):
        spec.delete(key)
    model = spec.compile()
    batch = Batch(model, len(yaw), 1)
    turn_about_vertical(batch, model, yaw)
    slide = model.joint("slide")
    joints = [j for j in range(model.njnt) if j != slide.id]
    batch.bind("qpos")[:, model.jnt_qposadr[joints]] = posture
    batch.bind("ctrl")[:] = posture
    batch.bind("qfrc_applied")[:, slide.dofadr[0]] = force
    reader = ArmReader(model, batch)
    batch.step(nstep=2000, stage=mujoco.mjtStage.mjSTAGE_VEL)
    assert np.abs(batch.bind("qvel")).max() < 1e-3
    return reader.read()


def test_a_plate_that_is_pressed_on_the_tool_feels_the_tool_press_back() -> None:
    """12 N along a direction of the root's frame: the tool exerts 12 N against it, whatever the yaw of the base."""
    direction = np.array([-0.5, 0.2, -0.8]) / np.linalg.norm([-0.5, 0.2, -0.8])
    state = pressed_by(12.0, direction, np.array([0.0, 1.0, -2.5]))
    np.testing.assert_allclose(state.ee_force, np.tile(-12.0 * direction, (3, 1)), atol=1e-2)


def test_a_weight_on_the_tool_is_carried() -> None:
    state = pressed_by(0.0, np.array([0.0, 0.0, -1.0]), np.array([0.0, 2.0]), gravity=True, mass=3.0)
    np.testing.assert_allclose(state.ee_force, np.tile([0.0, 0.0, 3.0 * 9.81], (2, 1)), atol=1e-2)
