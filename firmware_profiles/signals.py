"""What crosses the boundaries between firmware, bridge and twin: plain frozen values.

Frames are PX4's: world NED, body FRD. Units are SI unless the name says otherwise. Time is integer
microseconds of simulated time.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

Vec3 = tuple[float, float, float]
Quat = tuple[float, float, float, float]

CHANNELS = 16
"""Number of channels in HIL_ACTUATOR_CONTROLS."""


@dataclass(frozen=True, slots=True)
class HilControls:
    """The newest HIL_ACTUATOR_CONTROLS as it came, and how far it may be trusted.

    Attributes:
        channels: the 16 raw controls, unchecked (any float, NaN included).
        armed: bit 128 of the message's mode.
        time_us: the flight controller's own stamp.
        age_us: simulated time since it arrived, at the moment of this report.
        stale: older than the session trusts; its values must not be used.
        termination_suspected: stale although it said armed: PX4 falls silent on flight termination.
    """

    channels: tuple[float, ...]
    armed: bool
    time_us: int
    age_us: int = 0
    stale: bool = False
    termination_suspected: bool = False


@dataclass(frozen=True, slots=True)
class ActuatorCommand:
    """What the twin's actuators are told.

    Attributes:
        rotor_speed: (N, R) rotor speed commands [rad/s].
        side_speed: (N, 2) speeds of the left and the right output shaft [rad/s], positive forward; None where the
            wheels stand still or there are none.
        tilt_angle: (N, 1) of the arms [rad], 0 in flight; None where they stay as they are or there are none.
        arm_torque_nm: (N, J) of the manipulator's joints; None where it is held put away or there is none.
    """

    rotor_speed: npt.NDArray[np.float64]
    side_speed: npt.NDArray[np.float64] | None = None
    tilt_angle: npt.NDArray[np.float64] | None = None
    arm_torque_nm: npt.NDArray[np.float64] | None = None


@dataclass(frozen=True, slots=True)
class BaroSample:
    """One barometer reading: static pressure [hPa], PX4's pressure altitude [m AMSL], temperature [degrees C]."""

    pressure_hpa: float
    pressure_alt_m: float
    temperature_c: float


@dataclass(frozen=True, slots=True)
class GpsFix:
    """One GNSS fix as a receiver reports it.

    Attributes:
        utc_us: UTC of the moment that was measured (not of delivery) [us since 1970].
        lat_deg, lon_deg: WGS-84 [degrees].
        alt_amsl_m: height above mean sea level [m].
        vel_ned: velocity [m/s].
        eph_m, epv_m: one-sigma accuracy, horizontal and vertical [m].
        satellites: number used.
        fix_type: 0 none, 2 two-dimensional, 3 three-dimensional.
    """

    utc_us: int
    lat_deg: float
    lon_deg: float
    alt_amsl_m: float
    vel_ned: Vec3
    eph_m: float
    epv_m: float
    satellites: int
    fix_type: int


@dataclass(frozen=True, slots=True)
class MotionCapturePose:
    """One pose as a motion capture system reports it.

    Attributes:
        measured_us: simulated time of the moment that was measured (not of delivery).
        pos_ned: of the body's origin, relative to home [m].
        q_ned_frd: unit quaternion that takes FRD body vectors to NED (w first).
        pos_variance_m2: of the position on each axis.
        attitude_variance_rad2: of the attitude about each body axis.
        reset_counter: counts the times when the system's frame has jumped.
        quality: 1 to 100 percent; 0 unknown, -1 when the system has lost the vehicle.
    """

    measured_us: int
    pos_ned: Vec3
    q_ned_frd: Quat
    pos_variance_m2: float
    attitude_variance_rad2: float
    reset_counter: int = 0
    quality: int = 100


@dataclass(frozen=True, slots=True)
class GroundTruth:
    """The state of the simulated vehicle, without noise.

    Attributes:
        q_ned_frd: takes FRD body vectors to NED (w first).
        rates_frd: angular velocity [rad/s].
        pos_ned: relative to home [m].
        vel_ned: [m/s].
        accel_frd: specific force [m/s^2].
        lat_deg, lon_deg, alt_amsl_m: the same position on the globe.
    """

    q_ned_frd: Quat
    rates_frd: Vec3
    pos_ned: Vec3
    vel_ned: Vec3
    accel_frd: Vec3
    lat_deg: float
    lon_deg: float
    alt_amsl_m: float


@dataclass(frozen=True, slots=True)
class SensorSample:
    """What the sensors of one vehicle deliver at one tick.

    A sensor that has no new reading at this tick is None: it must not be announced to the flight controller.

    Attributes:
        time_us: simulated time of the tick.
        accel_frd: specific force [m/s^2]; at rest, level: (0, 0, -9.81).
        gyro_frd: [rad/s].
        mag_frd_gauss: magnetic field [gauss].
        baro: barometer reading.
        gps: GNSS fix that is delivered at this tick.
        truth: the noise-free state at this tick, where it was asked for.
        motion_capture: pose that is delivered at this tick.
    """

    time_us: int
    accel_frd: Vec3 | None
    gyro_frd: Vec3 | None
    mag_frd_gauss: Vec3 | None
    baro: BaroSample | None
    gps: GpsFix | None
    truth: GroundTruth | None = None
    motion_capture: MotionCapturePose | None = None
