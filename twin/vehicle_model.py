"""The vehicle as a MuJoCo model, composed from VehicleParams: a free body, its rotors as actuators, the ground."""

from __future__ import annotations

import mujoco

from firmware_profiles.profile import VehicleParams
from twin.manipulator import add_arm, add_arm_motors, add_walls
from twin.running_gear import Mount, add_arms, add_casters, add_tilt_servo, add_wheels

CONTACT_TIME_CONSTANT_S = 0.04
"""Stiffness of contact: a critically damped spring with this time constant. A touchdown at 0.5 m/s then peaks at 3.5 g,
is above 3 g for 8 ms and sinks in 6 mm; at 0.02 s it would be 5.8 g, at 0.05 s 3.0 g and 8 mm."""
FRICTION_STIFFNESS = 100.0
"""Of friction, against that of the normal direction. MuJoCo's friction yields a little: at 1 a vehicle that is pushed
with half of what would move it creeps 3 mm/s, at 100 it creeps 0.01 mm/s."""


def build_model(vehicle: VehicleParams, *, centre_may_move: bool = False) -> mujoco.MjModel:
    """Compile the model.

    World: ENU, ground at z = 0. Body `base`: FLU, origin at the centre of mass. Actuators: one force along +z body at
    each rotor's hub, in order, then one torque about +z body at each; `ctrl` is (R thrusts [N], R torques [N m]). With
    wheels two more follow, the speeds of the left and the right side [rad/s]; with a manipulator one more for each of
    its joints, their torques [N m]; with arms that tilt, their angle [rad]. Rotors on arms push along the arm's own z.

    Args:
        vehicle: the nominal vehicle.
        centre_may_move: the centre of mass may be put elsewhere in the compiled model.
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
    base.simple = not centre_may_move  # MuJoCo's short cut for a body whose origin is its centre of mass
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
    rotors = vehicle.rotors
    tilt = vehicle.tilt
    mounts = {"left": Mount(base), "right": Mount(base)} if tilt is None else add_arms(spec, base, tilt)
    for index, rotor in enumerate(rotors):
        mount = mounts["left" if rotor.position_flu_m[1] > 0.0 else "right"]
        mount.body.add_site(name=f"rotor{index}", pos=mount.place_in_flight(rotor.position_flu_m))
    for kind, gear in (("thrust", [0, 0, 1, 0, 0, 0]), ("torque", [0, 0, 0, 0, 0, 1])):
        for index in range(len(rotors)):
            spec.add_actuator(
                name=f"{kind}{index}", trntype=mujoco.mjtTrn.mjTRN_SITE, target=f"rotor{index}", gear=gear
            )
    if vehicle.ground_drive is not None:
        add_wheels(spec, mounts, vehicle.ground_drive)
        add_casters(spec, base, vehicle.ground_drive)
    if vehicle.arm is not None:
        add_arm(spec, base, vehicle.arm)
        add_arm_motors(spec, vehicle.arm)
    add_walls(spec, vehicle.environment.walls)
    if tilt is not None:
        add_tilt_servo(spec, tilt)
    return spec.compile()


def resting_height_m(vehicle: VehicleParams) -> float:
    """Height of the body's origin above the ground on which the vehicle stands at the start [m].

    That is on its wheels, or on its hull if it has none, or has them at arms that are stretched out.
    """
    drive = vehicle.ground_drive
    if drive is not None and vehicle.tilt is None:
        return drive.wheel_radius_m - drive.wheel_z_m
    return vehicle.body.collision_half_size_m[2] - vehicle.body.collision_centre_flu_m[2]
