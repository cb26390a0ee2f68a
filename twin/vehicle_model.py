"""The vehicle as a MuJoCo model, composed from VehicleParams: a free body, its rotors as actuators, the ground."""

from __future__ import annotations

import mujoco

from firmware_profiles.profile import VehicleParams

CONTACT_TIME_CONSTANT_S = 0.02
"""Stiffness of contact: a spring whose critically damped response has this time constant."""


def build_model(vehicle: VehicleParams) -> mujoco.MjModel:
    """Compile the model.

    World: ENU, ground at z = 0. Body `base`: FLU, origin at the centre of mass. Actuators: one force along +z body at
    each rotor's hub, in order, then one torque about +z body at each; `ctrl` is (R thrusts [N], R torques [N m]).
    """
    spec = mujoco.MjSpec()
    spec.modelname = "lav2_hil"
    spec.option.timestep = 1e-6 * vehicle.environment.sim_dt_us
    spec.option.gravity = [0.0, 0.0, -vehicle.environment.gravity_m_s2]
    body = vehicle.body
    solref = [CONTACT_TIME_CONSTANT_S, 1.0]
    friction = [body.friction, 0.005, 0.0001]
    spec.worldbody.add_geom(
        name="ground", type=mujoco.mjtGeom.mjGEOM_PLANE, size=[0, 0, 1], solref=solref, friction=friction
    )
    base = spec.worldbody.add_body(name="base", pos=[0.0, 0.0, resting_height_m(vehicle)])
    base.add_freejoint(name="root")
    base.explicitinertial = True
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
    return spec.compile()


def resting_height_m(vehicle: VehicleParams) -> float:
    """Height of the centre of mass above the ground on which the vehicle stands [m]."""
    return vehicle.body.collision_half_size_m[2] - vehicle.body.collision_centre_flu_m[2]
