"""The twin: N worlds of one vehicle, from actuator commands to sensor readings.

One tick: rotors and drag act on the body for each physics step, then the sensors look. The twin reads no clock: a tick
is `VehicleParams.step_dt_us` of simulated time, counted in whole ticks from the reset.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from firmware_profiles.errors import Lav2HilError, UsageError
from firmware_profiles.profile import VehicleParams
from firmware_profiles.signals import ActuatorCommand, BaroSample, GpsFix, GroundTruth, SensorSample
from twin.actuation import Actuation
from twin.dynamics.arm_motors import ArmMotors
from twin.dynamics.rotor_effects import RotorEffects
from twin.engine.mujoco_cpu import MujocoCpu
from twin.environment import Home, LocalFrame, magnetic_field_ned_gauss
from twin.faults import FaultChange, TwinFaults, without_missing
from twin.frames import (
    FRD_OF_FLU,
    ned_of_enu,
    q_enu_flu_of_heading,
    q_ned_frd_of_enu_flu,
    rotation_of_quat,
    vec3,
)
from twin.sensors.barometer import Barometer
from twin.sensors.gnss import Gnss, GnssBatch
from twin.sensors.imu import Imu
from twin.sensors.magnetometer import Magnetometer
from twin.sensors.motion_capture import MotionCapture, MotionCaptureBatch
from twin.vehicle_model import build_model
from twin.world_params import WorldParams

if TYPE_CHECKING:
    from twin.arms.state import ArmReader
    from twin.control.task_space.arm_state import ArmState

FloatArray = npt.NDArray[np.float64]


class TwinDivergedError(Lav2HilError):
    """The physics of a world broke down; names the world and the time."""


@dataclass(frozen=True, slots=True)
class SensorBatch:
    """The readings of all N worlds at one tick; a sensor that has no new one is None.

    Attributes:
        accel_frd, gyro_frd: (N, 3) [m/s^2], [rad/s].
        mag_frd_gauss: (N, 3) [gauss].
        baro: pressure [hPa], pressure altitude [m], temperature [degrees C], each (N,).
        gnss: the fix that is delivered.
        missing: of each sensor that a fault silences, in which worlds, (N,); of `fix`, where the receiver has none.
            None while no sensor has a fault.
        motion_capture: the pose that is delivered; None, too, where nobody sees the vehicle.
    """

    accel_frd: FloatArray
    gyro_frd: FloatArray
    mag_frd_gauss: FloatArray | None
    baro: tuple[FloatArray, FloatArray, FloatArray] | None
    gnss: GnssBatch | None
    missing: Mapping[str, npt.NDArray[np.bool_]] | None = None
    motion_capture: MotionCaptureBatch | None = None


class Twin:
    """N worlds of a vehicle standing on flat ground at home.

    Args:
        vehicle: the nominal vehicle.
        home: where it starts, and where its nose points.
        date: UTC at tick 0.
        seed: of all noise; world i sees the same noise whatever the number of worlds.
        params: parameters of the worlds; by default one nominal vehicle.
        threads: of the physics engine; 1 steps in the caller's thread.

    Attributes:
        ticks: since the reset.
        bad_commands: (N, R) how often each rotor was given a command that is not finite, and was told 0 instead.
        bad_side_commands: (N, 2) the same of the wheels of the left and the right side.
        bad_arm_torques: (N, J) the same of the motors of a manipulator; (N, 0) without one.
    """

    def __init__(
        self,
        vehicle: VehicleParams,
        *,
        home: Home,
        date: datetime,
        seed: int = 0,
        params: WorldParams | None = None,
        threads: int = 1,
    ) -> None:
        params = WorldParams.of(vehicle, 1) if params is None else params
        n = params.n
        self.n = n
        self.ticks = 0
        self.tick_us = vehicle.step_dt_us
        self._gnss_params = vehicle.sensors.gnss
        self._date_us = round(date.timestamp() * 1e6)
        self._substeps = self.tick_us // vehicle.environment.sim_dt_us
        self._middle = self._substeps // 2
        self._tick_s = 1e-6 * self.tick_us
        self._gravity_up = np.array([0.0, 0.0, vehicle.environment.gravity_m_s2])
        self._frame = LocalFrame(home.lat_deg, home.lon_deg, home.alt_amsl_m)
        self._home_alt = home.alt_amsl_m
        field_ned = magnetic_field_ned_gauss(home.lat_deg, home.lon_deg, home.alt_amsl_m, date)
        self._field_enu = ned_of_enu(field_ned)
        model = build_model(vehicle, centre_may_move=bool(params.centre_of_mass_flu_m.any()))
        arm = None if vehicle.arm is None else ArmMotors(vehicle.arm, n)
        self._engine = MujocoCpu(model, params, q_enu_flu_of_heading(home.heading_deg), threads, arm)
        self._actuation = Actuation(vehicle, params, self._engine, seed, arm)
        self.bad_commands = self._actuation.bad_commands
        self.bad_side_commands = self._actuation.bad_side_commands
        self._has_arm = arm is not None
        self.bad_arm_torques = np.zeros((n, 0), dtype=np.int64) if arm is None else arm.bad_commands
        self._arm_reader: ArmReader | None = None
        sensors, worlds, tick_us = vehicle.sensors, range(n), self.tick_us
        self._imu = Imu(sensors.imu, tick_us=tick_us, seed=seed, worlds=worlds)
        self._barometer = Barometer(sensors.barometer, tick_us=tick_us, seed=seed, worlds=worlds)
        self._magnetometer = Magnetometer(sensors.magnetometer, tick_us=tick_us, seed=seed, worlds=worlds)
        self._nothing = np.zeros((n, 3))
        self._gnss = Gnss(sensors.gnss, tick_us=tick_us, seed=seed, worlds=worlds)
        self._motion_capture = None
        if sensors.motion_capture is not None:
            self._motion_capture = MotionCapture(sensors.motion_capture, tick_us=tick_us, seed=seed, worlds=worlds)
        self._faults = TwinFaults(vehicle, n, seed)
        self.reset()

    def reset(self) -> None:
        """All worlds back at tick 0: at rest at home, rotors standing, noise from its beginning. Faults stay."""
        self.ticks = 0
        self._engine.reset()
        if self._has_arm:
            self._engine.look()
        self._actuation.reset()
        for sensor in (self._imu, self._barometer, self._magnetometer, self._gnss):
            sensor.reset()
        if self._motion_capture is not None:
            self._motion_capture.reset()
        self._faults.reset()
        self._specific_force_flu = np.tile(self._gravity_up, (self.n, 1))
        self._rates_flu = np.zeros((self.n, 3))

    def fault(self, change: FaultChange, worlds: npt.NDArray[np.bool_] | None = None) -> None:
        """Let a fault begin, change or end from the next `move` on, in the worlds that are named, (N,), or in all.

        Raises:
            UsageError: the vehicle has no such part, or that cannot go wrong with it.
        """
        self._faults.change(change, worlds)
        self._actuation.rotor_faults = self._faults.rotors

    def step(self, command: ActuatorCommand) -> SensorBatch:
        """Advance all worlds by one tick and read their sensors: `move`, then `sense`."""
        self.move(command)
        return self.sense()

    def move(self, command: ActuatorCommand) -> None:
        """Advance all worlds by one tick.

        A command that is not finite counts as 0 for that rotor of that world: it never reaches the physics. Arms stay
        where they are.

        Raises:
            TwinDivergedError: the state of a world became non-finite.
        """
        engine, actuation = self._engine, self._actuation
        vel_before = engine.vel_enu.copy()
        rates_before = engine.rates_flu.copy()
        actuation.begin(command)
        for substep in range(self._substeps):
            actuation.step()
            engine.step()
            if substep == self._middle:
                rotation = engine.rotation_before_step.copy()
        diverged = engine.unstable_worlds()
        if diverged:
            world, reason = next(iter(diverged.items()))
            raise TwinDivergedError(f"the physics of world {world} broke down at tick {self.ticks + 1}: {reason}")
        self.ticks += 1
        # What an IMU integrates over the tick: the mean specific force, seen from the attitude in its middle.
        specific_force_enu = (engine.vel_enu - vel_before) / self._tick_s + self._gravity_up
        self._specific_force_flu = np.matmul(specific_force_enu[:, None, :], rotation)[:, 0, :]
        self._rates_flu = 0.5 * (engine.rates_flu + rates_before)
        if self._has_arm:
            engine.look()

    def sense(self) -> SensorBatch:
        """What the sensors of all worlds read now; once a tick, after `move`."""
        engine, tick = self._engine, self.ticks
        accel, gyro = self._imu.sample(self._specific_force_flu * FRD_OF_FLU, self._rates_flu * FRD_OF_FLU)
        mag = None
        if self._magnetometer.due(tick):
            field_flu = np.matmul(self._field_enu, rotation_of_quat(engine.q_enu_flu))
            mag = self._magnetometer.sample(tick, field_flu * FRD_OF_FLU)
        baro = self._barometer.sample(tick, self._home_alt + engine.pos_enu[:, 2])
        pos_ned, vel_ned = self._nothing, self._nothing
        if self._gnss.due(tick):
            pos_ned, vel_ned = ned_of_enu(engine.pos_enu), ned_of_enu(engine.vel_enu)
        gnss = self._gnss.sample(tick, pos_ned, vel_ned)
        batch = SensorBatch(accel, gyro, mag, baro, gnss, motion_capture=self._seen_by_cameras())
        return self._faults.read(tick, batch) if self._faults.sensors else batch

    def _seen_by_cameras(self) -> MotionCaptureBatch | None:
        sensor, engine, tick = self._motion_capture, self._engine, self.ticks
        if sensor is None:
            return None
        pos_ned = q_ned_frd = self._nothing
        if sensor.due(tick):
            pos_ned, q_ned_frd = ned_of_enu(engine.pos_enu), q_ned_frd_of_enu_flu(engine.q_enu_flu)
        return sensor.sample(tick, pos_ned, q_ned_frd)

    def sample_of(self, batch: SensorBatch, time_us: int, world: int = 0, *, truth: bool = False) -> SensorSample:
        """One world's readings as the values that go to a flight controller."""
        mag, baro, gnss = batch.mag_frd_gauss, batch.baro, batch.gnss
        sample = SensorSample(
            time_us,
            vec3(batch.accel_frd[world]),
            vec3(batch.gyro_frd[world]),
            None if mag is None else vec3(mag[world]),
            None if baro is None else BaroSample(*(float(column[world]) for column in baro)),
            None if gnss is None else self._fix(gnss, world),
            self.truth(world) if truth else None,
            None if batch.motion_capture is None else batch.motion_capture.pose(time_us, world),
        )
        return sample if batch.missing is None else without_missing(sample, batch.missing, world)

    def _fix(self, gnss: GnssBatch, world: int) -> GpsFix:
        params = self._gnss_params
        lat, lon, alt = self._frame.to_geodetic(gnss.pos_ned[world : world + 1])
        return GpsFix(
            utc_us=self._date_us + gnss.measured_tick * self.tick_us,
            lat_deg=float(lat[0]),
            lon_deg=float(lon[0]),
            alt_amsl_m=float(alt[0]),
            vel_ned=vec3(gnss.vel_ned[world]),
            eph_m=params.eph_m,
            epv_m=params.epv_m,
            satellites=params.satellites,
            fix_type=3,
        )

    def state(self, world: int = 0) -> FloatArray:
        """(13,) position ENU [m], attitude ENU from FLU (w first), velocity ENU [m/s], rates FLU [rad/s]: a copy."""
        engine = self._engine
        return np.concatenate(
            (engine.pos_enu[world], engine.q_enu_flu[world], engine.vel_enu[world], engine.rates_flu[world])
        )

    def states(self) -> FloatArray:
        """(N, 13) the same of all worlds."""
        engine = self._engine
        return np.concatenate((engine.pos_enu, engine.q_enu_flu, engine.vel_enu, engine.rates_flu), axis=1)

    @property
    def checkpoint_size(self) -> int:
        """Numbers in a checkpoint: `save` writes them, `load` takes them."""
        return int(self._engine.checkpoint_size + self._actuation.checkpoint_size)

    def save(self, out: FloatArray, world: int = 0) -> None:
        """Write all that the motion of one world goes on from into `out`, (checkpoint_size,): bodies, wheels, rotors.

        Sensors are not in it, nor are rotor commands that are still on their way in worlds with a delay.
        """
        size = self._engine.checkpoint_size
        self._engine.save(out[:size], world)
        self._actuation.save(out[size:], world)

    def load(self, checkpoint: FloatArray) -> None:
        """Put all worlds into the state that one checkpoint holds, (checkpoint_size,), of a twin of the same bodies.

        They go on from there each with its own parameters; the checkpoint's twin, to the bit, if these are its own.
        """
        size = self._engine.checkpoint_size
        self._engine.load(checkpoint[:size])
        if self._has_arm:
            self._engine.look()
        self._actuation.load(checkpoint[size:])

    def truth(self, world: int = 0) -> GroundTruth:
        """The noise-free state of one world."""
        engine = self._engine
        pos_ned = ned_of_enu(engine.pos_enu[world])
        lat, lon, alt = self._frame.to_geodetic(pos_ned[None, :])
        w, x, y, z = q_ned_frd_of_enu_flu(engine.q_enu_flu[world]).tolist()
        return GroundTruth(
            q_ned_frd=(w, x, y, z),
            rates_frd=vec3(engine.rates_flu[world] * FRD_OF_FLU),
            pos_ned=vec3(pos_ned),
            vel_ned=vec3(ned_of_enu(engine.vel_enu[world])),
            accel_frd=vec3(self._specific_force_flu[world] * FRD_OF_FLU),
            lat_deg=float(lat[0]),
            lon_deg=float(lon[0]),
            alt_amsl_m=float(alt[0]),
        )

    def arm_state(self) -> ArmState:
        """The manipulators of all worlds now, in the frame of the vehicle's body (FLU).

        Raises:
            UsageError: the vehicle has none.
        """
        if not self._has_arm:
            raise UsageError("the vehicle has no arm: its profile has no vehicle.arm")
        if self._arm_reader is None:
            self._arm_reader = self._engine.arm_reader()
            self._engine.look()
        return self._arm_reader.read()

    @property
    def tip_force_enu(self) -> FloatArray:
        """(N, 3) what the tips of the manipulators exert on all that they touch [N], a copy; (N, 0) without any."""
        return self._engine.tip_force_enu.copy()

    @property
    def effects(self) -> RotorEffects | None:
        """What battery and air do to the rotors; None if the vehicle's profile asks for nothing of that."""
        return self._actuation.effects

    @property
    def height_m(self) -> float:
        """Height of world 0 above where it stands at the start [m]."""
        return float(self._engine.pos_enu[0, 2] - self._engine.start_height_m[0])
