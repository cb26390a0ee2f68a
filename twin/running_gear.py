"""What a vehicle stands and drives on, in the MuJoCo model: wheels with their servos, balls, and arms that tilt."""

from __future__ import annotations

import math
from dataclasses import dataclass

import mujoco

from firmware_profiles.fields import Vec3
from firmware_profiles.profile import GroundDriveParams
from firmware_profiles.tilt import TiltParams

# Wheels skid whenever a vehicle with two rows of them turns, so friction that slides must be right. MuJoCo lifts what
# slides: the contact's damping acts on the sliding speed v_t too, with 2 / time constant = 50 1/s where nothing else is
# said, and friction times damping times v_t is more than the share of the weight that the contact is pressed in by. The
# wheels then leave the ground and fall back: 3 to 8 m/s^2 in the IMU, whatever step or solver. Soft tyres and a small
# damping along the ground end that; up to 20 rad/s in opposite directions it is silent. The price: friction feels the
# wheels' acceleration beside their sliding. It must be a real one, so a servo's gain times the physics step must not
# exceed the axle's inertia.
TYRE_TIME_CONSTANT_S, TYRE_DAMPING_RATIO, TYRE_IMPEDANCE = 0.05, 0.6, 0.5
"""Tyres, pressed in by 3.5 mm at rest. A touchdown of lav2 at 0.5 m/s peaks at 3.1 g, is above 3 g for 4 ms and presses
them in by 9 mm."""
SLIDING_DAMPING_1_S = 5.0
"""Friction follows the direction of sliding within 1 / 5 s; at 10 wheels hop from 20 rad/s on, at 20 from 10 rad/s."""
TYRE_FRICTION_STIFFNESS = 10_000.0
"""As FRICTION_STIFFNESS; makes up for the small damping: creeps 0.02 mm/s on a slope of 15 degrees."""
_TYRE = {
    "solref": [TYRE_TIME_CONSTANT_S, TYRE_DAMPING_RATIO],
    "solimp": [TYRE_IMPEDANCE, TYRE_IMPEDANCE, 0.001, 0.5, 2.0],
}
_RIGID = {"solref": [0.004, 1.0], "solimp": [0.99, 0.9999, 0.001, 0.5, 2.0]}
"""Of what ties the arms together: as stiff as two physics steps allow."""


@dataclass(frozen=True, slots=True)
class Mount:
    """What carries the rotors and the wheels of one side: the body itself, or an arm.

    Attributes:
        body: to add them to.
        hinge_flu_m: its origin, seen from the vehicle's body.
        quarter_turns: about x, that take the vehicle's axes while it drives to the mount's own.
    """

    body: mujoco.MjsBody
    hinge_flu_m: Vec3 = (0.0, 0.0, 0.0)
    quarter_turns: int = 0

    def place_in_flight(self, place_flu_m: Vec3) -> list[float]:
        """A place on the vehicle, given for flight, in the mount's frame [m]."""
        return [a - b for a, b in zip(place_flu_m, self.hinge_flu_m, strict=True)]

    def place_in_drive(self, place_flu_m: Vec3) -> list[float]:
        """A place on the vehicle, given for driving, in the mount's frame [m]."""
        x, y, z = self.place_in_flight(place_flu_m)
        turn = self.quarter_turns
        return [x, -turn * z, turn * y] if turn else [x, y, z]

    @property
    def q_mount_drive(self) -> list[float]:
        """The turn from the vehicle's axes while it drives, w first."""
        half = self.quarter_turns * math.pi / 4
        return [math.cos(half), math.sin(half), 0.0, 0.0]


def add_arms(spec: mujoco.MjSpec, base: mujoco.MjsBody, tilt: TiltParams) -> dict[str, Mount]:
    """An arm on each side, the right one tied to the left one; add their servo, `add_tilt_servo`, after all else."""
    spec.option.integrator = mujoco.mjtIntegrator.mjINT_IMPLICITFAST  # the servo is stiff
    mounts = {}
    for side, sign in (("left", 1), ("right", -1)):
        hinge = (0.0, sign * tilt.hinge_y_m, tilt.hinge_z_m)
        arm = base.add_body(name=f"{side}_arm", pos=list(hinge))
        arm.explicitinertial = True
        arm.mass, arm.inertia = tilt.arm_mass_kg, list(tilt.arm_inertia_kg_m2)
        arm.ipos, arm.iquat = [0.0, sign * tilt.arm_centre_m, 0.0], [1.0, 0.0, 0.0, 0.0]
        # A positive angle lowers the outer end on either side.
        arm.add_joint(
            name=f"{side}_tilt",
            type=mujoco.mjtJoint.mjJNT_HINGE,
            axis=[-sign, 0, 0],
            armature=tilt.motor_inertia_kg_m2 if side == "left" else 0.0,
        )
        mounts[side] = Mount(arm, hinge, sign)
    mirrored = spec.add_equality(
        name="mirror",
        type=mujoco.mjtEq.mjEQ_JOINT,
        objtype=mujoco.mjtObj.mjOBJ_JOINT,
        name1="right_tilt",
        name2="left_tilt",
        data=[0, 1] + [0] * 10,
    )
    mirrored.solref, mirrored.solimp = _RIGID["solref"], _RIGID["solimp"]
    return mounts


def add_tilt_servo(spec: mujoco.MjSpec, tilt: TiltParams) -> None:
    """The one motor of both arms."""
    servo = spec.add_actuator(name="tilt", trntype=mujoco.mjtTrn.mjTRN_JOINT, target="left_tilt")
    servo.set_to_position(kp=tilt.servo_gain_nm_rad, kv=tilt.servo_damping_nm_s)
    servo.forcelimited = True
    servo.forcerange = [-tilt.torque_limit_nm, tilt.torque_limit_nm]


def add_wheels(spec: mujoco.MjSpec, mounts: dict[str, Mount], drive: GroundDriveParams) -> None:
    """A row of wheels on each side: the driven one has a velocity servo, the others turn with it."""
    spec.option.integrator = mujoco.mjtIntegrator.mjINT_IMPLICITFAST  # the servos are stiff
    spec.option.impratio = TYRE_FRICTION_STIFFNESS
    for side, y in (("left", drive.wheel_y_m), ("right", -drive.wheel_y_m)):
        mount = mounts[side]
        for axle, x in enumerate(drive.wheel_x_m):
            name = f"{side}{axle}"
            wheel = mount.body.add_body(name=name, pos=mount.place_in_drive((x, y, drive.wheel_z_m)))
            if mount.quarter_turns:
                wheel.quat = mount.q_mount_drive
                spec.add_exclude(bodyname1="base", bodyname2=name)  # arms have room between wheels and hull
            joint = wheel.add_joint(
                name=name,
                type=mujoco.mjtJoint.mjJNT_HINGE,
                axis=[0, 1, 0],  # turning about the axis to the left rolls forward
                armature=drive.axle_inertia_kg_m2,
            )
            wheel.add_geom(
                name=name,
                type=mujoco.mjtGeom.mjGEOM_ELLIPSOID,
                size=[drive.wheel_radius_m, drive.wheel_width_m / 2, drive.wheel_radius_m],
                mass=drive.wheel_mass_kg,
                friction=[drive.friction, 0.005, 0.0001],
                priority=1,  # the wheel's friction holds, whatever it touches
                **_TYRE,
            )
            spec.add_pair(
                name=name,
                geomname1="ground",
                geomname2=name,
                condim=3,
                friction=[drive.friction, drive.friction, 0.005, 0.0001, 0.0001],
                solreffriction=[-1.0, -SLIDING_DAMPING_1_S],  # negative: stiffness, which friction has not, and damping
                **_TYRE,
            )
            if axle == drive.driven_axle:
                joint.frictionloss = drive.gear_friction_nm
                joint.solref_friction, joint.solimp_friction = [0.004, 1.0], [0.9999, 0.9999, 0.001, 0.5, 2.0]  # dry
            else:
                spec.add_equality(
                    name=name,
                    type=mujoco.mjtEq.mjEQ_JOINT,
                    objtype=mujoco.mjtObj.mjOBJ_JOINT,
                    name1=name,
                    name2=f"{side}{drive.driven_axle}",
                    data=[0, 1] + [0] * 10,
                )
        servo = spec.add_actuator(name=side, trntype=mujoco.mjtTrn.mjTRN_JOINT, target=f"{side}{drive.driven_axle}")
        servo.set_to_velocity(kv=drive.servo_gain_nm_s)
        servo.forcelimited = True
        servo.forcerange = [-drive.torque_limit_nm, drive.torque_limit_nm]


def add_casters(spec: mujoco.MjSpec, base: mujoco.MjsBody, drive: GroundDriveParams) -> None:
    """Balls that hold the body up and slide without friction."""
    for index, caster in enumerate(drive.casters):
        name = f"caster{index}"
        base.add_geom(
            name=name,
            type=mujoco.mjtGeom.mjGEOM_SPHERE,
            size=[caster.radius_m, 0, 0],
            pos=list(caster.position_flu_m),
            mass=0.0,
        )
        spec.add_pair(name=name, geomname1="ground", geomname2=name, condim=1, **_TYRE)  # one dimension: no friction
