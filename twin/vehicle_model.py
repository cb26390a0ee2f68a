"""The vehicle as a MuJoCo model, composed from VehicleParams: a free body, its rotors as actuators, the ground."""

from __future__ import annotations

import mujoco

from firmware_profiles.profile import GroundDriveParams, VehicleParams

CONTACT_TIME_CONSTANT_S = 0.04
"""Stiffness of contact: a critically damped spring with this time constant. A touchdown at 0.5 m/s then peaks at 3.5 g,
is above 3 g for 8 ms and sinks in 6 mm; at 0.02 s it would be 5.8 g, at 0.05 s 3.0 g and 8 mm."""
FRICTION_STIFFNESS = 100.0
"""Of friction, against that of the normal direction. MuJoCo's friction yields a little: at 1 a vehicle that is pushed
with half of what would move it creeps 3 mm/s, at 100 it creeps 0.01 mm/s."""

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


def build_model(vehicle: VehicleParams) -> mujoco.MjModel:
    """Compile the model.

    World: ENU, ground at z = 0. Body `base`: FLU, origin at the centre of mass. Actuators: one force along +z body at
    each rotor's hub, in order, then one torque about +z body at each; `ctrl` is (R thrusts [N], R torques [N m]). With
    wheels two more follow, the speeds of the left and the right side [rad/s].
    """
    spec = mujoco.MjSpec()
    spec.modelname = "lav2_hil"
    spec.option.timestep = 1e-6 * vehicle.environment.sim_dt_us
    spec.option.gravity = [0.0, 0.0, -vehicle.environment.gravity_m_s2]
    spec.option.cone = mujoco.mjtCone.mjCONE_ELLIPTIC  # the same limit in all directions
    spec.option.impratio = FRICTION_STIFFNESS
    body = vehicle.body
    solref = [CONTACT_TIME_CONSTANT_S, 1.0]
    friction = [body.friction, 0.005, 0.0001]
    spec.worldbody.add_geom(
        name="ground", type=mujoco.mjtGeom.mjGEOM_PLANE, size=[0, 0, 1], solref=solref, friction=friction
    )
    base = spec.worldbody.add_body(name="base", pos=[0.0, 0.0, resting_height_m(vehicle)])
    base.add_freejoint(name="root")
    base.explicitinertial = True
    base.ipos, base.iquat = [0.0, 0.0, 0.0], [1.0, 0.0, 0.0, 0.0]  # left unset, MuJoCo puts the body's own `pos` there
    base.mass = body.mass_kg
    base.inertia = list(body.inertia_kg_m2)
    base.add_geom(
        name="hull",
        type=mujoco.mjtGeom.mjGEOM_BOX,
        size=list(body.collision_half_size_m),
        pos=list(body.collision_centre_flu_m),
        mass=0.0,
        solref=solref,
        friction=friction,
    )
    rotors = vehicle.propeller.rotors
    for index, rotor in enumerate(rotors):
        base.add_site(name=f"rotor{index}", pos=list(rotor.position_flu_m))
    for kind, gear in (("thrust", [0, 0, 1, 0, 0, 0]), ("torque", [0, 0, 0, 0, 0, 1])):
        for index in range(len(rotors)):
            spec.add_actuator(
                name=f"{kind}{index}", trntype=mujoco.mjtTrn.mjTRN_SITE, target=f"rotor{index}", gear=gear
            )
    if vehicle.ground_drive is not None:
        _add_wheels(spec, base, vehicle.ground_drive)
    return spec.compile()


def _add_wheels(spec: mujoco.MjSpec, base: mujoco.MjsBody, drive: GroundDriveParams) -> None:
    """A row of wheels on each side: the driven one has a velocity servo, the others turn with it."""
    spec.option.integrator = mujoco.mjtIntegrator.mjINT_IMPLICITFAST  # the servos are stiff
    spec.option.impratio = TYRE_FRICTION_STIFFNESS
    solref, solimp = [TYRE_TIME_CONSTANT_S, TYRE_DAMPING_RATIO], [TYRE_IMPEDANCE, TYRE_IMPEDANCE, 0.001, 0.5, 2.0]
    for side, y in (("left", drive.wheel_y_m), ("right", -drive.wheel_y_m)):
        for axle, x in enumerate(drive.wheel_x_m):
            name = f"{side}{axle}"
            wheel = base.add_body(name=name, pos=[x, y, drive.wheel_z_m])
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
                solref=solref,
                solimp=solimp,
                priority=1,  # the wheel's friction holds, whatever it touches
            )
            spec.add_pair(
                name=name,
                geomname1="ground",
                geomname2=name,
                condim=3,
                friction=[drive.friction, drive.friction, 0.005, 0.0001, 0.0001],
                solref=solref,
                solimp=solimp,
                solreffriction=[-1.0, -SLIDING_DAMPING_1_S],  # negative: stiffness, which friction has not, and damping
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


def resting_height_m(vehicle: VehicleParams) -> float:
    """Height of the body's origin above the ground on which the vehicle stands [m]."""
    drive = vehicle.ground_drive
    if drive is not None:
        return drive.wheel_radius_m - drive.wheel_z_m
    return vehicle.body.collision_half_size_m[2] - vehicle.body.collision_centre_flu_m[2]
