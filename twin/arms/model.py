"""Arms by name, composed with what an experiment needs: a wall, a floating base, drives that hold positions."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.resources import as_file, files
from math import cos, isfinite, sin
from typing import Any

import mujoco
import numpy as np
import numpy.typing as npt

from firmware_profiles.errors import UsageError
from twin.frames import quat_multiply

ROOT_BODY, EE_SITE, EE_FORCE_SENSOR, HOME_KEY = "base", "ee", "ee_force", "home"
"""Names in every model: the root, the end effector, the sensor of contact at the tool, the default posture."""


def arm_names() -> tuple[str, ...]:
    """What `load_arm` knows."""
    models = files("twin.arms") / "models"
    return tuple(sorted(entry.name.removesuffix(".xml") for entry in models.iterdir() if entry.name.endswith(".xml")))


@dataclass(frozen=True, slots=True)
class Wall:
    """A box that stands still; its own z axis is the normal of the face that is meant.

    The defaults are the wall of Isaac Lab's operational-space tutorial, 45 degrees about y, facing back and up.

    Attributes:
        position_m: of the centre, world.
        tilt_rad: turn about y; 0 is a table, -pi/2 faces back towards the arm.
        size_m: edges along its own x, y, z.
        friction: sliding friction of whatever touches it. The default is a tool that ends in a ball and rolls.
        contact_time_s: time constant of the contact, critically damped; 10 N sink in by 0.4 mm.

    Raises:
        UsageError: a value that is not finite, an edge, a friction or a time that is not positive.
    """

    position_m: tuple[float, float, float] = (0.685, 0.0, 0.3)
    tilt_rad: float = -np.pi / 4
    size_m: tuple[float, float, float] = (2.0, 1.5, 0.01)
    friction: float = 0.02
    contact_time_s: float = 0.04

    def __post_init__(self) -> None:
        for name in ("position_m", "size_m"):
            value = getattr(self, name)
            if len(value) != 3 or not all(isfinite(x) for x in value):
                raise UsageError(f"{name} must be three finite numbers, not {value}")
        if min(self.size_m) <= 0.0:
            raise UsageError(f"size_m must be positive, not {self.size_m}")
        if not isfinite(self.tilt_rad):
            raise UsageError(f"tilt_rad must be finite, not {self.tilt_rad}")
        for name in ("friction", "contact_time_s"):
            value = getattr(self, name)
            if not (isfinite(value) and value > 0.0):
                raise UsageError(f"{name} must be positive and finite, not {value}")

    @property
    def quat_xyzw(self) -> npt.NDArray[np.float64]:
        """(4,) from the wall's frame to the world's."""
        return np.array([0.0, sin(0.5 * self.tilt_rad), 0.0, cos(0.5 * self.tilt_rad)])


@dataclass(frozen=True, slots=True)
class PositionDrive:
    """Drives that hold joint positions, in place of motors: stiffness * (target - q) - damping * qd.

    The defaults are Isaac Lab's for its arm with stiff drives. MuJoCo integrates the damping implicitly.

    Attributes:
        stiffness_nm_rad: of every joint [N m/rad].
        damping_nms_rad: of every joint [N m s/rad].

    Raises:
        UsageError: a value that is not positive and finite.
    """

    stiffness_nm_rad: float = 400.0
    damping_nms_rad: float = 80.0

    def __post_init__(self) -> None:
        for name in ("stiffness_nm_rad", "damping_nms_rad"):
            value = getattr(self, name)
            if not (isfinite(value) and value > 0.0):
                raise UsageError(f"{name} must be positive and finite, not {value}")


def load_arm(name: str, **options: Any) -> mujoco.MjModel:
    """`arm_spec`, compiled."""
    return arm_spec(name, **options).compile()


def arm_spec(
    name: str,
    *,
    wall: Wall | None = None,
    drive: PositionDrive | None = None,
    gravity: bool = True,
    floating: bool = False,
    timestep_s: float = 0.002,
) -> mujoco.MjSpec:
    """Compose an arm; its base stands in the world's origin, or floats there.

    Actuators, one a joint and in order: motors, whose control is a torque [N m], or with `drive` the joints' target
    positions [rad]; both are held to the torques that the model states. The sensor `ee_force` says what touches the
    tool, see `twin.arms.state`.

    Args:
        name: one of `arm_names`.
        wall: stands before the arm, as body and geom `wall`.
        drive: the joints hold positions.
        gravity: 9.81 m/s^2 downwards, or none.
        floating: a free joint `root` is under the base, and qpos begins with its pose.
        timestep_s: of the physics.

    Raises:
        UsageError: no such arm, or a time step that is not positive.
    """
    known = arm_names()
    if name not in known:
        raise UsageError(f"no arm {name!r}: known are {', '.join(known)}")
    if not (isfinite(timestep_s) and timestep_s > 0.0):
        raise UsageError(f"timestep_s must be positive, not {timestep_s}")
    with as_file(files("twin.arms") / "models" / f"{name}.xml") as path:
        spec = mujoco.MjSpec.from_file(str(path))
    spec.option.timestep = timestep_s
    spec.option.gravity = [0.0, 0.0, -9.81 if gravity else 0.0]
    spec.option.integrator = mujoco.mjtIntegrator.mjINT_IMPLICITFAST
    spec.option.cone = mujoco.mjtCone.mjCONE_ELLIPTIC  # the same friction in all directions
    if floating:
        spec.body(ROOT_BODY).add_freejoint(name="root")
        for key in spec.keys:
            key.qpos = [0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, *key.qpos]
    if drive is not None:
        for motor in spec.actuators:
            motor.forcelimited, motor.forcerange = True, motor.ctrlrange
            motor.ctrllimited = False
            motor.set_to_position(kp=drive.stiffness_nm_rad, kv=drive.damping_nms_rad)
    if wall is not None:
        x, y, z, w = wall.quat_xyzw
        body = spec.worldbody.add_body(name="wall", pos=list(wall.position_m), quat=[w, x, y, z])
        body.add_geom(
            name="wall",
            type=mujoco.mjtGeom.mjGEOM_BOX,
            size=[0.5 * edge for edge in wall.size_m],
            friction=[wall.friction, 0.005, 0.0001],
            solref=[wall.contact_time_s, 1.0],
            priority=1,  # friction and softness are the wall's, whatever the tool's are
            contype=1,
            conaffinity=0,
            rgba=[0.8, 0.2, 0.2, 0.5],
        )
    return spec


def turn_about_vertical(batch: Any, model: mujoco.MjModel, yaw_rad: npt.ArrayLike) -> None:
    """Turn all that stands fixed in the worlds, arm and wall, about the world's z axis, each world by its own angle.

    Args:
        batch: N worlds (`mujoco.batch.Batch`) of `model`.
        model: with a fixed base.
        yaw_rad: (N,) angles [rad], from the model's own pose.
    """
    yaw = np.asarray(yaw_rad, dtype=np.float64)
    cosine, sine = np.cos(yaw), np.sin(yaw)
    zero = np.zeros_like(yaw)
    turn = np.stack((np.cos(0.5 * yaw), zero, zero, np.sin(0.5 * yaw)), axis=1)
    positions, attitudes = batch.expand("body_pos"), batch.expand("body_quat")
    for body in range(1, model.nbody):
        if model.body_parentid[body] == 0:
            x, y, z = model.body_pos[body]
            positions[:, body] = np.stack((cosine * x - sine * y, sine * x + cosine * y, zero + z), axis=1)
            attitudes[:, body] = quat_multiply(turn, np.broadcast_to(model.body_quat[body], turn.shape))
    batch.set_const()
