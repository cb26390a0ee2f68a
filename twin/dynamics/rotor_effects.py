"""All that the surroundings and the battery do to the rotors of a vehicle, as its profile asks for it.

In this order: the battery's sag slows the rotors; moving air takes thrust away, drags and rolls; the ground lifts; a
wall pulls. What comes out is beside the nominal thrusts and reaction torques: one force at the centre of mass and one
torque, in the world's frame, as a physics engine takes them. (A rigid body does not tell rotors from their sum.)
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from firmware_profiles.profile import VehicleParams
from twin.control.arrays import Arrays
from twin.dynamics.aero import Aerodynamics, AeroEffects, AeroForces
from twin.dynamics.base import DynamicsBase
from twin.dynamics.battery import Battery, shaft_power
from twin.dynamics.body_force import to_world
from twin.dynamics.motor_aero import MotorAerodynamics, MotorForces
from twin.dynamics.wrench import wrench_of_forces
from twin.world_params import WorldParams


class RotorEffects(DynamicsBase):
    """Effects on the rotors of N vehicles; make one only where `needed`, so that a vehicle without pays nothing.

    The body's own drag is not among them.

    Args:
        vehicle: says which effects are on.
        params: parameters of the N worlds.
        arrays: where the arrays live; by default NumPy, float64.

    Attributes:
        aerodynamics: the layer of ground and walls, whose surfaces may be set.
        battery: or None.
        speed_scale: (N, 1) what the next speed commands are to be multiplied with; 1 without a battery.
        air_forces, motor_forces: of the last step, for telemetry, body frame; None before it, or where they are off.
    """

    def __init__(self, vehicle: VehicleParams, params: WorldParams, *, arrays: Arrays | None = None) -> None:
        arrays = Arrays(params.n) if arrays is None else arrays
        super().__init__(arrays)
        self.aerodynamics = Aerodynamics(params, effects=replace(AeroEffects.of(vehicle), drag=False), arrays=arrays)
        motor = vehicle.aerodynamics.motor_aerodynamics
        self._motor = MotorAerodynamics(params, vehicle.spin_dir, arrays=arrays) if motor else None
        has_battery = vehicle.battery is not None
        self.battery = Battery(params.battery, vehicle.sim_dt_s, arrays=arrays) if has_battery else None
        self._spin = arrays.spread("spin_dir", vehicle.spin_dir, len(vehicle.spin_dir))
        self._lever = arrays.array(params.rotor_position_flu_m - params.centre_of_mass_flu_m[:, None, :])
        self._still = arrays.zeros(3)
        self._one = arrays.zeros(1) + 1.0
        self.speed_scale = self._one
        self.air_forces: AeroForces | None = None
        self.motor_forces: MotorForces | None = None

    @classmethod
    def needed(cls, vehicle: VehicleParams) -> bool:
        """Whether the vehicle asks for any of them."""
        air = vehicle.aerodynamics
        asked = air.ground_effect or air.wall_effect or air.motor_aerodynamics or vehicle.battery is not None
        return bool(vehicle.rotors) and asked

    def reset(self, worlds: Any = None) -> None:
        """Batteries as at the start; see `DynamicsBase.reset`."""
        self.speed_scale = self._xp.where(self._chosen(worlds), self._one, self.speed_scale)
        if self.battery is not None:
            self.battery.reset(worlds)

    def step(
        self,
        *,
        thrust: Any,
        reaction_torque: Any,
        speed_rad_s: Any,
        position_world: Any,
        rotation_world_body: Any,
        velocity_world: Any,
        rates_body: Any,
        wind_world: Any = None,
    ) -> tuple[Any, Any]:
        """One physics step; all effects see the state before it.

        Args:
            thrust: (N, R) nominal, as `RotorDynamics` gives them [N].
            reaction_torque: (N, R) likewise [N m].
            speed_rad_s: (N, R) of the rotors.
            position_world: (N, 3) of the body's origin in the local world, z up [m].
            rotation_world_body: (N, 3, 3) v_world = R v_body.
            velocity_world: (N, 3) of the body's origin [m/s].
            rates_body: (N, 3) [rad/s].
            wind_world: (N, 3) [m/s]; None is still air.

        Returns:
            (N, 3) force at the centre of mass [N] and (N, 3) torque [N m], world frame, beside the nominal ones.
        """
        force, torque = self._still, self._still
        if self.battery is not None:
            power = shaft_power(speed_rad_s, reaction_torque, self._spin, xp=self._xp)
            self.speed_scale = self.battery.step(power)
        at_hubs: Any = None
        if self._motor is not None:
            self.motor_forces = motor = self._motor.forces(
                thrust=thrust,
                speed_rad_s=speed_rad_s,
                rotation_world_body=rotation_world_body,
                velocity_world=velocity_world,
                rates_body=rates_body,
                wind_world=wind_world,
            )
            thrust, at_hubs = motor.thrust, motor.rotor_increment_body
            torque = torque + self._xp.sum(motor.moment_body, axis=1)
        if self.aerodynamics.effects.any:
            self.air_forces = air = self.aerodynamics.forces(
                thrust=thrust,
                position_world=position_world,
                rotation_world_body=rotation_world_body,
                velocity_world=velocity_world,
            )
            added = air.rotor_increment_body
            at_hubs = added if at_hubs is None else at_hubs + added
        if at_hubs is None:
            return force, torque
        force, moment = wrench_of_forces(at_hubs, self._lever, xp=self._xp)
        return to_world(force, rotation_world_body), to_world(torque + moment, rotation_world_body)
