"""A vehicle profile: what the vehicle is (VehicleParams) and how its firmware drives it (FirmwareParams).

The types are decoded from TOML by `firmware_profiles.loader`; every field that has a unit carries it in its name.
Body frame here: FLU (x forward, y left, z up), origin at the centre of mass.
"""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from firmware_profiles.arm import ArmParams, WallParams
from firmware_profiles.derived import DerivedParams, derive, thrust_coefficient, torque_coefficient
from firmware_profiles.effects import AerodynamicsParams, BatteryParams, Px4AlignedParams
from firmware_profiles.errors import ProfileError
from firmware_profiles.fields import (
    DelayS,
    MassKg,
    Moment,
    NonNegative,
    NonNegativeVec3,
    Params,
    Positive,
    PositiveVec3,
    RateHz,
    Vec3,
)
from firmware_profiles.motion_capture import MotionCaptureParams
from firmware_profiles.tilt import TiltAngle, TiltParams, inertia_with_arms
from firmware_profiles.uncertainty import UncertaintyParams


class EnvironmentParams(Params, frozen=True):
    """What surrounds the vehicle, and the step `sim_dt_us` at which actuators and physics advance.

    The other time step, that of controller and sensors, is the IMU's: `VehicleParams.step_dt_us`. The density is that
    of the standard atmosphere at sea level; it gives a propeller's coefficients where they are not given themselves.
    `walls` stand there beside the ground.
    """

    gravity_m_s2: Positive = 9.80665
    air_density_kg_m3: Positive = 1.225
    sim_dt_us: Annotated[int, msgspec.Meta(gt=0)] = 2000
    walls: tuple[WallParams, ...] = ()


class BodyParams(Params, frozen=True):
    """The rigid body without its moving parts.

    `linear_drag_n_s_m` is the diagonal of C in F = -C v (body frame). The collision box is what touches the ground.
    """

    mass_kg: MassKg
    inertia_kg_m2: tuple[Moment, Moment, Moment]
    linear_drag_n_s_m: NonNegativeVec3
    collision_half_size_m: PositiveVec3
    collision_centre_flu_m: Vec3
    friction: NonNegative = 1.0


class RotorParams(Params, frozen=True):
    """One rotor: where its hub is, and which way it turns (+1 clockwise seen from above, -1 counter-clockwise)."""

    position_flu_m: Vec3
    spin_dir: Literal[-1, 1]


class PropellerParams(Params, frozen=True, kw_only=True):
    """What all rotors of the vehicle share: f = c_T w^2, tau = d (c_M w^2 + J dw/dt), first-order speed response.

    `thrust_coefficient_n_s2` is c_T [N/(rad/s)^2], `torque_coefficient_nm_s2` is c_M [N m/(rad/s)^2]. Instead of either
    its dimensionless number may be given: C_T of T = C_T rho n^2 D^4, C_Q of Q = C_Q rho n^2 D^5, with D twice the
    blade's radius; where it is, the vehicle's coefficient follows from it.
    """

    # 0 stands for "not given": msgspec does not check a default, and from outside only a positive value comes in.
    thrust_coefficient_n_s2: Positive = 0.0
    torque_coefficient_nm_s2: Positive = 0.0
    thrust_number: Positive | None = None
    torque_number: Positive | None = None
    blade_radius_m: Positive
    motor_inertia_kg_m2: NonNegative
    max_speed_rad_s: Positive
    rise_time_constant_s: NonNegative
    fall_time_constant_s: NonNegative
    max_rise_rad_s2: Positive
    max_fall_rad_s2: Positive
    rotors: Annotated[tuple[RotorParams, ...], msgspec.Meta(min_length=1, max_length=16)]

    def with_coefficients(self, air_density_kg_m3: float) -> PropellerParams:
        """The same with both coefficients given and no numbers.

        Raises:
            ProfileError: a coefficient and its number are both missing, or do not give a usable value.
        """
        thrust, torque = self.thrust_coefficient_n_s2, self.torque_coefficient_nm_s2
        if self.thrust_number is not None:
            thrust = thrust_coefficient(self.thrust_number, self.blade_radius_m, air_density_kg_m3)
        if self.torque_number is not None:
            torque = torque_coefficient(self.torque_number, self.blade_radius_m, air_density_kg_m3)
        for kind, value, number in (("thrust", thrust, self.thrust_number), ("torque", torque, self.torque_number)):
            field = f"{kind}_coefficient_{'n' if kind == 'thrust' else 'nm'}_s2"
            if number is None and not value:
                raise ProfileError(f"propeller.{field}: missing; expected it, or {kind}_number")
            if not 0.0 < value < float("inf"):
                raise ProfileError(
                    f"propeller.{kind}_number: expected one that gives a finite coefficient above 0, got {number!r}"
                )
        return msgspec.structs.replace(
            self,
            thrust_coefficient_n_s2=thrust,
            torque_coefficient_nm_s2=torque,
            thrust_number=None,
            torque_number=None,
        )


class CasterParams(Params, frozen=True):
    """A ball that carries the vehicle and slides without friction, part of the body's mass; where its centre is."""

    position_flu_m: Vec3
    radius_m: Positive


class GroundDriveParams(Params, frozen=True):
    """Wheels, a row on each side: one of each row is driven by a velocity servo, the others are coupled to it.

    `wheel_x_m` are the axles along the body, `wheel_y_m` is how far to either side they stand, `wheel_z_m` their
    height; `driven_axle` counts `wheel_x_m` from 0. The servo gives `servo_gain_nm_s` times the error of speed, up to
    `torque_limit_nm`; `gear_friction_nm` is dry friction, which holds a wheel that is told 0 on a slope. A side's speed
    is that of its output shaft, positive forward, which a wheel follows one to one. `allocation_width_m` is the B of
    v = v_0 -/+ B yaw rate / 2: what the controller must reckon with, more than the distance of the rows because wheels
    that turn on the spot skid.

    `casters` hold up a vehicle that does not stand on its wheels alone. The last three are what a log of the real drive
    shows beside the controller, and are nothing by default:
    `yaw_allocation_scale` multiplies the difference of the sides; each side's speed is reached times its `side_gain`
    after its `command_delay_s` (left, right).
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
    casters: tuple[CasterParams, ...] = ()
    yaw_allocation_scale: Positive = 1.0
    side_gain: tuple[Positive, Positive] = (1.0, 1.0)
    command_delay_s: tuple[DelayS, DelayS] = (0.0, 0.0)


class ImuParams(Params, frozen=True):
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


class BarometerParams(Params, frozen=True):
    """White noise on each sample, and a drift (first-order Gauss-Markov: standard deviation and time constant)."""

    rate_hz: RateHz
    noise_hpa: NonNegative
    drift_hpa: NonNegative
    drift_time_constant_s: Positive


class MagnetometerParams(Params, frozen=True):
    """White noise on each sample and axis."""

    rate_hz: RateHz
    noise_gauss: NonNegative


class GnssParams(Params, frozen=True):
    """White noise and a drift (first-order Gauss-Markov) of position, white noise of velocity, delay of delivery.

    `eph_m`, `epv_m` and `satellites` are what the receiver claims.
    """

    rate_hz: RateHz
    delay_s: DelayS
    horizontal_noise_m: NonNegative
    vertical_noise_m: NonNegative
    horizontal_drift_m: NonNegative
    vertical_drift_m: NonNegative
    drift_time_constant_s: Positive
    velocity_noise_m_s: NonNegative
    eph_m: Positive
    epv_m: Positive
    satellites: Annotated[int, msgspec.Meta(ge=0, le=50)]


class SensorParams(Params, frozen=True):
    """The sensors that the vehicle carries, and the cameras of a motion capture system where it flies among some."""

    imu: ImuParams
    barometer: BarometerParams
    magnetometer: MagnetometerParams
    gnss: GnssParams
    motion_capture: MotionCaptureParams | None = None


class VehicleParams(Params, frozen=True, dict=True):
    """One nominal vehicle: its physics and sensors. The per-world form is `twin.world_params.WorldParams`.

    The groups are the seed's (environment, body, propeller, ground drive, aligned with PX4), with sensors, the air's
    effects on the rotors and a battery beside them. What follows from them is computed when the vehicle is made.
    A vehicle without a propeller only drives: R = 0, and no speed of its rotors carries it (infinity).

    Raises:
        ProfileError: the propeller's coefficients neither are given nor follow from its numbers.
    """

    body: BodyParams
    sensors: SensorParams
    propeller: PropellerParams | None = None
    environment: EnvironmentParams = EnvironmentParams()
    ground_drive: GroundDriveParams | None = None
    tilt: TiltParams | None = None
    arm: ArmParams | None = None
    aerodynamics: AerodynamicsParams = AerodynamicsParams()
    battery: BatteryParams | None = None
    px4: Px4AlignedParams = Px4AlignedParams()

    def __post_init__(self) -> None:
        propeller = self.propeller
        if propeller is not None:
            propeller = propeller.with_coefficients(self.environment.air_density_kg_m3)
            msgspec.structs.force_setattr(self, "propeller", propeller)
        derived = derive(
            weight_n=self.total_mass_kg * self.environment.gravity_m_s2,
            rotors=self.rotors,
            thrust_coefficient_n_s2=0.0 if propeller is None else propeller.thrust_coefficient_n_s2,
            torque_coefficient_nm_s2=0.0 if propeller is None else propeller.torque_coefficient_nm_s2,
            max_speed_rad_s=0.0 if propeller is None else propeller.max_speed_rad_s,
            thrust_model_factor=self.px4.thrust_model_factor,
        )
        # Not a field: a file must not give it, and two vehicles with the same fields are the same.
        msgspec.structs.force_setattr(self, "_derived", derived)

    def __copy__(self) -> VehicleParams:
        return self  # it never changes; msgspec's copy would leave out what was derived

    @property
    def derived(self) -> DerivedParams:
        """Hover speed, hover throttle, largest thrust and allocation matrix."""
        derived: DerivedParams = self.__dict__["_derived"]
        return derived

    @property
    def rotors(self) -> tuple[RotorParams, ...]:
        """The R rotors; none on a vehicle that only drives."""
        return () if self.propeller is None else self.propeller.rotors

    def flying_propeller(self) -> PropellerParams:
        """The propeller, for what cannot do without.

        Raises:
            ProfileError: the vehicle has no rotors.
        """
        if self.propeller is None:
            raise ProfileError("the vehicle has no rotors: its profile has no vehicle.propeller")
        return self.propeller

    @property
    def spin_dir(self) -> tuple[int, ...]:
        """Of the R rotors: +1 clockwise seen from above, -1 counter-clockwise."""
        return tuple(rotor.spin_dir for rotor in self.rotors)

    @property
    def sim_dt_s(self) -> float:
        """Step of actuators and physics [s]."""
        return 1e-6 * self.environment.sim_dt_us

    @property
    def step_dt_us(self) -> int:
        """Time between two IMU samples, the tick of controller and sensors [us]."""
        return round(1e6 / self.sensors.imu.rate_hz)

    @property
    def step_dt_s(self) -> float:
        """The same [s]."""
        return 1e-6 * self.step_dt_us

    @property
    def total_mass_kg(self) -> float:
        """Mass of the body, its wheels and its arms [kg]."""
        drive, tilt, arm = self.ground_drive, self.tilt, self.arm
        wheels = 0.0 if drive is None else 2 * len(drive.wheel_x_m) * drive.wheel_mass_kg
        tilting = 0.0 if tilt is None else 2 * tilt.arm_mass_kg
        return self.body.mass_kg + wheels + tilting + (0.0 if arm is None else arm.mass_kg)

    @property
    def flight_inertia_kg_m2(self) -> tuple[float, float, float]:
        """What a flight controller reckons with: the body's moments of inertia, and those of arms that it carries."""
        drive, tilt, arm = self.ground_drive, self.tilt, self.arm
        if arm is not None:
            x, y, z = (a + b for a, b in zip(self.body.inertia_kg_m2, arm.stowed_inertia_kg_m2(), strict=True))
            return x, y, z
        if drive is None or tilt is None:
            return self.body.inertia_kg_m2
        outwards = tilt.hinge_z_m - drive.wheel_z_m
        height = tilt.hinge_z_m + drive.wheel_y_m - tilt.hinge_y_m
        return inertia_with_arms(
            self.body.inertia_kg_m2,
            tilt,
            wheel_mass_kg=drive.wheel_mass_kg,
            wheel_radius_m=drive.wheel_radius_m,
            wheels_flu_m=[(x, s * (tilt.hinge_y_m + outwards), height) for x in drive.wheel_x_m for s in (1.0, -1.0)],
        )

    def hover_speed_rad_s(self) -> float:
        """Rotor speed at which the thrust of all rotors carries the weight [rad/s]: sqrt(m g / (R c_T))."""
        return self.derived.hover_speed_rad_s


class RotorOutput(Params, frozen=True):
    """Which HIL channel drives which rotor: armed, control 0 gives the first speed and control 1 the second.

    Disarmed, the rotor is told to stand still. `rotor` counts `vehicle.propeller.rotors` from 0.
    """

    channel: Annotated[int, msgspec.Meta(ge=0, le=15)]
    rotor: Annotated[int, msgspec.Meta(ge=0)]
    speed_range_rad_s: tuple[NonNegative, Positive]


class WheelOutput(Params, frozen=True):
    """Which HIL channel drives which side's wheels: control -1 to 1 gives minus to plus the full speed."""

    channel: Annotated[int, msgspec.Meta(ge=0, le=15)]
    side: Literal["left", "right"]
    full_speed_rad_s: Positive


class TiltOutput(Params, frozen=True):
    """Which HIL channel tilts the arms: armed, control 0 gives the first angle and control 1 the second [rad].

    Disarmed, the arms stay where they are. PX4 leaves a channel that nobody has set at 0, so 0 should be flight.
    """

    channel: Annotated[int, msgspec.Meta(ge=0, le=15)]
    range_rad: tuple[TiltAngle, TiltAngle]


class Px4Airframe(Params, frozen=True):
    """How one PX4 release is started for this vehicle: SYS_AUTOSTART, PX4_SIM_MODEL and parameters to set."""

    release: Literal["1.12", "1.17"]
    sys_autostart: Annotated[int, msgspec.Meta(ge=0)]
    sim_model: str
    params: dict[str, int | float] = msgspec.field(default_factory=dict)


class FirmwareParams(Params, frozen=True):
    """The firmware's side: which channel drives what, and the PX4 releases that the vehicle is known to fly with."""

    rotor_outputs: tuple[RotorOutput, ...] = ()
    wheel_outputs: tuple[WheelOutput, ...] = ()
    tilt_output: TiltOutput | None = None
    px4: tuple[Px4Airframe, ...] = ()


class VehicleProfile(Params, frozen=True):
    """A vehicle and its firmware, as one file describes them."""

    name: str
    description: str
    vehicle: VehicleParams
    firmware: FirmwareParams
    uncertainty: UncertaintyParams = UncertaintyParams()
