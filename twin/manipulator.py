"""The arm on a vehicle and the walls around it, in the MuJoCo model."""

from __future__ import annotations

import math

import mujoco

from firmware_profiles.arm import ArmParams, WallParams

TIP = "arm_tip"
"""Name of the ball, of the site in its middle, and of the sensor of the force that it presses with."""
WALL_TIME_CONSTANT_S = 0.04


def joint_name(index: int) -> str:
    """Name of a joint of the arm, and of the motor at it; from 0."""
    return f"arm{index}"


def add_arm(spec: mujoco.MjSpec, base: mujoco.MjsBody, arm: ArmParams) -> None:
    """Hang the arm on the vehicle's body; add its motors, `add_arm_motors`, after rotors and wheels.

    The sensor `TIP` gives the force that the ball exerts on all that it touches [N], in the world's frame.
    """
    spec.option.integrator = mujoco.mjtIntegrator.mjINT_IMPLICITFAST  # joint damping
    parent, place = base, list(arm.mount_flu_m)
    for index, link in enumerate(arm.links):
        name = joint_name(index)
        parent = parent.add_body(name=name, pos=place)
        joint = parent.add_joint(
            name=name,
            type=mujoco.mjtJoint.mjJNT_HINGE,
            axis=[0, 1, 0],
            limited=True,
            range=[math.degrees(angle) for angle in link.range_rad],
            armature=link.rotor_inertia_kg_m2,
        )
        joint.damping = [link.damping_nm_s, 0.0, 0.0]
        joint.solref_limit = [0.02, 1.0]
        parent.add_geom(
            name=name,
            type=mujoco.mjtGeom.mjGEOM_CAPSULE,
            fromto=[0.0, 0.0, 0.0, link.length_m, 0.0, 0.0],
            size=[link.radius_m, 0, 0],
            mass=link.mass_kg,
            contype=0,  # touches the ground, walls and the vehicle, but no other link: folded, they lie side by side
        )
        place = [link.length_m, 0.0, 0.0]
    parent.add_geom(
        name=TIP,
        type=mujoco.mjtGeom.mjGEOM_SPHERE,
        pos=place,
        size=[arm.tip_radius_m, 0, 0],
        mass=arm.tip_mass_kg,
        contype=0,
        friction=[arm.tip_friction, 0.005, 0.0001],
        solref=[arm.tip_time_constant_s, 1.0],
        priority=1,  # soft rubber, whatever it touches
    )
    parent.add_site(name=TIP, pos=place)
    data, net = 1 << int(mujoco.mjtConDataField.mjCONDATA_FORCE), 3  # the sum of all contacts
    spec.add_sensor(
        name=TIP,
        type=mujoco.mjtSensor.mjSENS_CONTACT,
        objtype=mujoco.mjtObj.mjOBJ_GEOM,
        objname=TIP,
        intprm=[data, net, 1],
    )


def add_arm_motors(spec: mujoco.MjSpec, arm: ArmParams) -> None:
    """A motor at each joint, which is told its torque [N m]."""
    for index, link in enumerate(arm.links):
        motor = spec.add_actuator(name=joint_name(index), trntype=mujoco.mjtTrn.mjTRN_JOINT, target=joint_name(index))
        motor.set_to_motor()
        motor.ctrllimited = True
        motor.ctrlrange = [-link.torque_limit_nm, link.torque_limit_nm]


def add_walls(spec: mujoco.MjSpec, walls: tuple[WallParams, ...]) -> None:
    """Boxes that stand in the world."""
    for index, wall in enumerate(walls):
        half = math.radians(wall.yaw_deg) / 2
        spec.worldbody.add_geom(
            name=f"wall{index}",
            type=mujoco.mjtGeom.mjGEOM_BOX,
            pos=list(wall.centre_enu_m),
            quat=[math.cos(half), 0.0, 0.0, math.sin(half)],
            size=list(wall.half_size_m),
            friction=[wall.friction, 0.005, 0.0001],
            solref=[WALL_TIME_CONSTANT_S, 1.0],
        )
