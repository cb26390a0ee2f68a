"""From a tick's commands to what acts on the bodies: rotors, wheels, arms, drag, and the effects that a vehicle has."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from firmware_profiles.profile import VehicleParams
from firmware_profiles.signals import ActuatorCommand
from twin.dynamics.arm_motors import ArmMotors
from twin.dynamics.battery import Battery
from twin.dynamics.delay import CommandDelay
from twin.dynamics.ground_drive import GroundDriveActuatorAdapter
from twin.dynamics.rotor import RotorDynamics
from twin.dynamics.rotor_effects import RotorEffects
from twin.dynamics.rotor_faults import RotorFaults
from twin.dynamics.tilt import TiltServo
from twin.engine.mujoco_cpu import MujocoCpu
from twin.frames import rotation_of_quat
from twin.world_params import WorldParams

FloatArray = npt.NDArray[np.float64]


class Actuation:
    """The actuators of N worlds, between the commands and the physics engine.

    What a vehicle does not have is None and costs nothing.

    Args:
        vehicle: the nominal vehicle.
        params: parameters of the worlds.
        engine: is given forces and servo set-points.
        seed: of what is drawn.
        arm: the motors of the manipulator.

    Attributes:
        bad_commands: (N, R) how often each rotor was given a command that is not finite, and was told 0 instead.
        bad_side_commands: (N, 2) the same of the wheels of the left and the right side.
        rotors: their response.
        effects: of battery and air on the rotors; its surfaces may be set.
        ground_drive: between the commanded speeds of the sides and their servos.
        tilt: of the arms.
        arm: of the manipulator.
        rotor_faults: what is wrong with the rotors; None while nothing is. May be set between two ticks.
    """

    def __init__(
        self,
        vehicle: VehicleParams,
        params: WorldParams,
        engine: MujocoCpu,
        seed: int,
        arm: ArmMotors | None = None,
    ) -> None:
        spin, dt_s = vehicle.spin_dir, vehicle.sim_dt_s
        count = len(spin)
        drive, tilt = vehicle.ground_drive, vehicle.tilt
        self._engine = engine
        self._count = count
        self._drag = -params.linear_drag_n_s_m[:, None, :]
        self.bad_commands = np.zeros((params.n, count), dtype=np.int64)
        self.bad_side_commands = np.zeros((params.n, 2), dtype=np.int64)
        self.rotors = RotorDynamics(params, spin, dt_s)
        self._delay = CommandDelay(params.rotor_delay_s, dt_s, count) if params.rotor_delay_s.any() else None
        self.effects = RotorEffects(vehicle, params) if RotorEffects.needed(vehicle) else None
        self._max_side_speed = 0.0 if drive is None else drive.max_side_speed_rad_s
        self._sides = engine.ctrl[:, 2 * count : 2 * count + 2]
        adapts = GroundDriveActuatorAdapter.needed(params.ground_drive)
        self.ground_drive = GroundDriveActuatorAdapter(params.ground_drive, dt_s, seed=seed) if adapts else None
        self.tilt = None if tilt is None else TiltServo(tilt, engine.ctrl[:, -1:], dt_s)
        self.arm = arm
        self.rotor_faults: RotorFaults | None = None
        self._wanted = self._drag_enu = self._wanted_sides = np.zeros(0)

    def reset(self) -> None:
        """All at rest, with full batteries, and no command under way."""
        self.rotors.reset()
        for part in (self._delay, self.effects, self.ground_drive):
            if part is not None:
                part.reset()

    def begin(self, command: ActuatorCommand) -> None:
        """Take the commands of a tick; what is not finite counts as 0, and arms stay where they are."""
        engine = self._engine
        self._wanted = self.rotors.limit(_finite(command.rotor_speed, self.bad_commands))
        if self._max_side_speed:
            self._drive(command.side_speed)
        if self.tilt is not None:
            self.tilt.aim(command.tilt_angle)
        if self.arm is not None:
            self.arm.take(command.arm_torque_nm)
        # Drag follows the velocity, which changes little in a tick: it is looked at once.
        rotation = rotation_of_quat(engine.q_enu_flu)
        drag_flu = np.matmul(engine.vel_enu[:, None, :], rotation) * self._drag
        drag = np.matmul(drag_flu, rotation.transpose(0, 2, 1), out=engine.force_enu[:, None, :])
        if self.effects is not None:
            self._drag_enu = drag[:, 0].copy()

    def _drive(self, side_speed: FloatArray | None) -> None:
        sides = np.zeros_like(self._sides) if side_speed is None else _finite(side_speed, self.bad_side_commands)
        if self.ground_drive is not None:
            self._wanted_sides = sides
            return
        np.minimum(np.maximum(sides, -self._max_side_speed), self._max_side_speed, out=self._sides)

    def step(self) -> None:
        """Let the actuators act for one physics step."""
        target, engine = self._wanted, self._engine
        if self._delay is not None:
            target = self._delay.step(target)
        if self.effects is not None:
            target = target * self.effects.speed_scale
        if self.rotor_faults is not None:
            target = self.rotor_faults.targets(target, self.rotors.speed_rad_s)
        self.rotors.step(target, engine.ctrl)
        if self.rotor_faults is not None:
            self.rotor_faults.weaken(engine.ctrl)
        if self.effects is not None:
            self._affect(self.effects)
        if self.ground_drive is not None:
            self._sides[:] = self.ground_drive.step(self._wanted_sides)
        if self.tilt is not None:
            self.tilt.step()
        if self.arm is not None:
            self.arm.step(engine)

    def _affect(self, effects: RotorEffects) -> None:
        engine, count = self._engine, self._count
        force, torque = effects.step(
            thrust=engine.ctrl[:, :count],
            reaction_torque=engine.ctrl[:, count : 2 * count],
            speed_rad_s=self.rotors.speed_rad_s,
            position_world=engine.pos_enu,
            rotation_world_body=rotation_of_quat(engine.q_enu_flu),
            velocity_world=engine.vel_enu,
            rates_body=engine.rates_flu,
        )
        engine.force_enu[:] = self._drag_enu + force
        engine.torque_enu[:] = torque

    # Checkpoints

    @property
    def checkpoint_size(self) -> int:
        """Numbers in a checkpoint."""
        return self._count + (0 if self._battery is None else self._battery.checkpoint_size)

    def save(self, out: FloatArray, world: int) -> None:
        """Write one world's rotor speeds and battery into `out`, (checkpoint_size,)."""
        out[: self._count] = self.rotors.speed_rad_s[world]
        if self._battery is not None:
            out[self._count :] = self._battery.checkpoint()[world]

    def load(self, checkpoint: FloatArray) -> None:
        """Put all worlds into the state of one checkpoint, (checkpoint_size,)."""
        self.rotors.speed_rad_s[:] = checkpoint[: self._count]
        if self.effects is not None and self._battery is not None:
            self.effects.speed_scale = self._battery.load(checkpoint[self._count :])

    @property
    def _battery(self) -> Battery | None:
        return None if self.effects is None else self.effects.battery


def _finite(command: FloatArray, bad: npt.NDArray[np.int64]) -> FloatArray:
    finite = np.isfinite(command)
    if finite.all():
        return command
    bad += ~finite
    return np.where(finite, command, 0.0)
