"""A vehicle profile: what the vehicle is (VehicleParams) and how its firmware drives it (FirmwareParams).

The types are decoded from TOML by `firmware_profiles.loader`; every field that has a unit carries it in its name.
Body frame here: FLU (x forward, y left, z up), origin at the centre of mass.
"""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

Positive = Annotated[float, msgspec.Meta(gt=0)]
NonNegative = Annotated[float, msgspec.Meta(ge=0)]
Vec3 = tuple[float, float, float]
PositiveVec3 = tuple[Positive, Positive, Positive]
NonNegativeVec3 = tuple[NonNegative, NonNegative, NonNegative]
RateHz = Annotated[float, msgspec.Meta(ge=0.01, le=2000)]
MassKg = Annotated[float, msgspec.Meta(ge=1e-6)]
Moment = Annotated[float, msgspec.Meta(ge=1e-12)]


class _Params(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Base of all parameter groups: immutable, and an unknown key is an error."""


class EnvironmentParams(_Params, frozen=True):
    """What surrounds the vehicle, and the step `sim_dt_us` at which actuators and physics advance.

    The other time step, that of controller and sensors, is the IMU's: `VehicleParams.step_dt_us`.
    """

    gravity_m_s2: Positive = 9.80665
    sim_dt_us: Annotated[int, msgspec.Meta(gt=0)] = 2000


class BodyParams(_Params, frozen=True):
    """The rigid body without its moving parts.

    `linear_drag_n_s_m` is the diagonal of C in F = -C v (body frame). The collision box is what touches the ground.
    """

    mass_kg: MassKg
    inertia_kg_m2: tuple[Moment, Moment, Moment]
    linear_drag_n_s_m: NonNegativeVec3
    collision_half_size_m: PositiveVec3
    collision_centre_flu_m: Vec3
    friction: NonNegative = 1.0


class RotorParams(_Params, frozen=True):
    """One rotor: where its hub is, and which way it turns (+1 clockwise seen from above, -1 counter-clockwise)."""

    position_flu_m: Vec3
    spin_dir: Literal[-1, 1]


class PropellerParams(_Params, frozen=True):
    """What all rotors of the vehicle share: f = c_T w^2, tau = d (c_M w^2 + J dw/dt), first-order speed response.

    `thrust_coefficient_n_s2` is c_T [N/(rad/s)^2], `torque_coefficient_nm_s2` is c_M [N m/(rad/s)^2].
    """

    thrust_coefficient_n_s2: Positive
    torque_coefficient_nm_s2: Positive
    motor_inertia_kg_m2: NonNegative
    max_speed_rad_s: Positive
    rise_time_constant_s: NonNegative
    fall_time_constant_s: NonNegative
    max_rise_rad_s2: Positive
    max_fall_rad_s2: Positive
    rotors: Annotated[tuple[RotorParams, ...], msgspec.Meta(min_length=1, max_length=16)]


class GroundDriveParams(_Params, frozen=True):
    """Wheels, a row on each side: one of each row is driven by a velocity servo, the others are coupled to it.

    `wheel_x_m` are the axles along the body, `wheel_y_m` is how far to either side they stand, `wheel_z_m` their
    height; `driven_axle` counts `wheel_x_m` from 0. The servo gives `servo_gain_nm_s` times the error of speed, up to
    `torque_limit_nm`; `gear_friction_nm` is dry friction, which holds a wheel that is told 0 on a slope. A side's speed
    is that of its output shaft, positive forward, which a wheel follows one to one. `allocation_width_m` is the B of
    v = v_0 -/+ B yaw rate / 2: what the controller must reckon with, more than the distance of the rows because wheels
    that turn on the spot skid.
    """

    wheel_x_m: Annotated[tuple[float, ...], msgspec.Meta(min_length=1, max_length=8)]
    wheel_y_m: Positive
    wheel_z_m: float
    driven_axle: Annotated[int, msgspec.Meta(ge=0)]
    wheel_radius_m: Positive
    wheel_width_m: Positive
    wheel_mass_kg: MassKg
    axle_inertia_kg_m2: Positive
    friction: NonNegative
    servo_gain_nm_s: Positive
    torque_limit_nm: Positive
    gear_friction_nm: NonNegative
    max_side_speed_rad_s: Positive
    allocation_width_m: Positive
    max_speed_m_s: Positive
    max_yaw_rate_rad_s: Positive


class ImuParams(_Params, frozen=True):
    """Accelerometer and gyroscope: white noise by density, bias as a random walk, clipping.

    The standard deviation of one sample at rate f is density * sqrt(f); the bias after a time t has the standard
    deviation walk * sqrt(t).
    """

    rate_hz: RateHz
    accel_noise_density_m_s2_sqrt_hz: NonNegative
    accel_bias_walk_m_s2_sqrt_s: NonNegative
    accel_limit_m_s2: Positive
    gyro_noise_density_rad_s_sqrt_hz: NonNegative
    gyro_bias_walk_rad_s_sqrt_s: NonNegative
    gyro_limit_rad_s: Positive


class BarometerParams(_Params, frozen=True):
    """White noise on each sample, and a drift (first-order Gauss-Markov: standard deviation and time constant)."""

    rate_hz: RateHz
    noise_hpa: NonNegative
    drift_hpa: NonNegative
    drift_time_constant_s: Positive


class MagnetometerParams(_Params, frozen=True):
    """White noise on each sample and axis."""

    rate_hz: RateHz
    noise_gauss: NonNegative


class GnssParams(_Params, frozen=True):
    """White noise and a drift (first-order Gauss-Markov) of position, white noise of velocity, delay of delivery.

    `eph_m`, `epv_m` and `satellites` are what the receiver claims.
    """

    rate_hz: RateHz
    delay_s: Annotated[float, msgspec.Meta(ge=0, le=2)]
    horizontal_noise_m: NonNegative
    vertical_noise_m: NonNegative
    horizontal_drift_m: NonNegative
    vertical_drift_m: NonNegative
    drift_time_constant_s: Positive
    velocity_noise_m_s: NonNegative
    eph_m: Positive
    epv_m: Positive
    satellites: Annotated[int, msgspec.Meta(ge=0, le=50)]


class SensorParams(_Params, frozen=True):
    """The sensors that the vehicle carries."""

    imu: ImuParams
    barometer: BarometerParams
    magnetometer: MagnetometerParams
    gnss: GnssParams


class VehicleParams(_Params, frozen=True):
    """One nominal vehicle: its physics and sensors. The per-world form is `twin.world_params.WorldParams`."""

    body: BodyParams
    propeller: PropellerParams
    sensors: SensorParams
    environment: EnvironmentParams = EnvironmentParams()
    ground_drive: GroundDriveParams | None = None

    @property
    def step_dt_us(self) -> int:
        """Time between two IMU samples, the tick of controller and sensors [us]."""
        return round(1e6 / self.sensors.imu.rate_hz)

    @property
    def total_mass_kg(self) -> float:
        """Mass of the body and its wheels [kg]."""
        drive = self.ground_drive
        return self.body.mass_kg + (0.0 if drive is None else 2 * len(drive.wheel_x_m) * drive.wheel_mass_kg)

    def hover_speed_rad_s(self) -> float:
        """Rotor speed at which the thrust of all rotors carries the weight [rad/s]: sqrt(m g / (R c_T))."""
        weight = self.total_mass_kg * self.environment.gravity_m_s2
        return float((weight / (len(self.propeller.rotors) * self.propeller.thrust_coefficient_n_s2)) ** 0.5)


class RotorOutput(_Params, frozen=True):
    """Which HIL channel drives which rotor: armed, control 0 gives the first speed and control 1 the second.

    Disarmed, the rotor is told to stand still. `rotor` counts `vehicle.propeller.rotors` from 0.
    """

    channel: Annotated[int, msgspec.Meta(ge=0, le=15)]
    rotor: Annotated[int, msgspec.Meta(ge=0)]
    speed_range_rad_s: tuple[NonNegative, Positive]


class WheelOutput(_Params, frozen=True):
    """Which HIL channel drives which side's wheels: control -1 to 1 gives minus to plus the full speed."""

    channel: Annotated[int, msgspec.Meta(ge=0, le=15)]
    side: Literal["left", "right"]
    full_speed_rad_s: Positive


class Px4Airframe(_Params, frozen=True):
    """How one PX4 release is started for this vehicle: SYS_AUTOSTART, PX4_SIM_MODEL and parameters to set."""

    release: Literal["1.12", "1.17"]
    sys_autostart: Annotated[int, msgspec.Meta(ge=0)]
    sim_model: str
    params: dict[str, int | float] = {}


class FirmwareParams(_Params, frozen=True):
    """The firmware's side: which channel drives what, and the PX4 releases that the vehicle is known to fly with."""

    rotor_outputs: tuple[RotorOutput, ...]
    wheel_outputs: tuple[WheelOutput, ...] = ()
    px4: tuple[Px4Airframe, ...] = ()


class VehicleProfile(_Params, frozen=True):
    """A vehicle and its firmware, as one file describes them."""

    name: str
    description: str
    vehicle: VehicleParams
    firmware: FirmwareParams
