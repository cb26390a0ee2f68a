"""Gains and limits of the flight controller: PX4's defaults, in physical units.

PX4's rate loop puts out a share of the largest torque; ours puts out an angular acceleration, so that the same gains
fit a vehicle of any inertia. The defaults are what PX4's (MC_ROLLRATE_P 0.15, I 0.2, D 0.003; MC_YAWRATE_P 0.2, I 0.1)
do to its Iris at hover, where the full torque gives 191 rad/s^2 about roll and pitch and 41 rad/s^2 about yaw:
one unit of roll adds 0.7071 dF to each rotor, at 0.21 m on the mean, dF/du = 2 c_T w 1000 rad/s = 9.38 N.

The other numbers: PX4 v1.17 src/modules/mc_pos_control, mc_att_control, mc_rate_control (*_params.c).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy.typing as npt

from firmware_profiles.errors import UsageError
from firmware_profiles.profile import VehicleParams
from twin.control.arrays import checked
from twin.control.pid import PidGains

_TILT = math.radians(45.0)
_RATES = (math.radians(220.0), math.radians(220.0), math.radians(200.0))


def _velocity() -> PidGains:
    return PidGains((1.8, 1.8, 4.0), (0.4, 0.4, 2.0), (0.2, 0.2, 0.0), integral_limit=(5.0, 5.0, 9.8), cutoff_hz=5.0)


def _rates() -> PidGains:
    return PidGains(
        (28.0, 28.0, 8.0), (38.0, 38.0, 4.0), (0.57, 0.57, 0.0), integral_limit=(57.0, 57.0, 12.0), cutoff_hz=30.0
    )


@dataclass(frozen=True, slots=True)
class FlightGains:
    """Gains of the cascade; each a number or what broadcasts over the worlds.

    Attributes:
        position: (3,) [1/s], MPC_XY_P and MPC_Z_P.
        velocity: to acceleration [m/s^2 per m/s], MPC_XY_VEL_*_ACC, MPC_Z_VEL_*_ACC, MPC_VELD_LP; the limit of the
            vertical integral is PX4's, that of the horizontal one ours.
        attitude: (3,) [1/s], MC_ROLL_P, MC_PITCH_P, MC_YAW_P.
        yaw_weight: share of a yaw error that is corrected at once with the tilt, MC_YAW_WEIGHT.
        rates: to angular acceleration [rad/s^2 per rad/s], see above; limits are MC_RR_INT_LIM and so on, the
            cut-off IMU_DGYRO_CUTOFF.

    Raises:
        UsageError: a value outside of its range.
    """

    position: npt.ArrayLike = (0.95, 0.95, 1.0)
    velocity: PidGains = field(default_factory=_velocity)
    attitude: npt.ArrayLike = (6.5, 6.5, 2.8)
    yaw_weight: npt.ArrayLike = 0.4
    rates: PidGains = field(default_factory=_rates)

    def __post_init__(self) -> None:
        checked("position", self.position, least=0.0)
        checked("velocity.kp", self.velocity.kp, above=0.0)
        checked("attitude", self.attitude, least=0.0)
        checked("yaw_weight", self.yaw_weight, above=0.0, most=1.0)


@dataclass(frozen=True, slots=True)
class FlightLimits:
    """What the cascade may ask for; each a number or what broadcasts over the worlds.

    Attributes:
        horizontal_speed_m_s: MPC_XY_VEL_MAX.
        climb_m_s, sink_m_s: MPC_Z_VEL_MAX_UP, MPC_Z_VEL_MAX_DN.
        horizontal_acc_m_s2, up_acc_m_s2, down_acc_m_s2: MPC_ACC_HOR_MAX, MPC_ACC_UP_MAX, MPC_ACC_DOWN_MAX. They bound
            what the vehicle is to accelerate with; the velocity loop's integral, which stands for forces that the
            controller does not know (wind, another mass), comes on top.
        tilt_rad: of the thrust axis against the vertical, MPC_TILTMAX_AIR.
        rates_rad_s: (3,) MC_ROLLRATE_MAX, MC_PITCHRATE_MAX, MC_YAWRATE_MAX.
        thrust_share: least and largest thrust that the acceleration loop asks for, as shares of the largest thrust,
            MPC_THR_MIN and MPC_THR_MAX.
        horizontal_share: what is kept for the horizontal when the vertical wants all thrust, MPC_THR_XY_MARG.

    Raises:
        UsageError: a value outside of its range.
    """

    horizontal_speed_m_s: npt.ArrayLike = 12.0
    climb_m_s: npt.ArrayLike = 3.0
    sink_m_s: npt.ArrayLike = 1.5
    horizontal_acc_m_s2: npt.ArrayLike = 5.0
    up_acc_m_s2: npt.ArrayLike = 4.0
    down_acc_m_s2: npt.ArrayLike = 3.0
    tilt_rad: npt.ArrayLike = _TILT
    rates_rad_s: npt.ArrayLike = _RATES
    thrust_share: tuple[float, float] = (0.12, 1.0)
    horizontal_share: float = 0.3

    def __post_init__(self) -> None:
        for name in ("horizontal_speed_m_s", "climb_m_s", "sink_m_s", "horizontal_acc_m_s2", "up_acc_m_s2"):
            checked(name, getattr(self, name), above=0.0)
        checked("down_acc_m_s2", self.down_acc_m_s2, above=0.0)
        checked("tilt_rad", self.tilt_rad, above=0.0, most=math.radians(89.0))
        checked("rates_rad_s", self.rates_rad_s, above=0.0)
        checked("thrust_share", self.thrust_share, above=0.0, most=1.0)
        checked("horizontal_share", self.horizontal_share, least=0.0, most=1.0)
        if self.thrust_share[0] >= self.thrust_share[1]:
            raise UsageError(f"thrust_share: expected the least before the largest, got {self.thrust_share}")


def flight_options(vehicle: VehicleParams) -> dict[str, Any]:
    """What a flight controller is told of a vehicle: mass, inertia, largest thrust, and gravity."""
    propeller = vehicle.flying_propeller()
    per_rotor = propeller.thrust_coefficient_n_s2 * propeller.max_speed_rad_s**2
    return {
        "mass_kg": vehicle.total_mass_kg,
        "inertia_kg_m2": vehicle.flight_inertia_kg_m2,
        "max_thrust_n": len(propeller.rotors) * per_rotor,
        "gravity_m_s2": vehicle.environment.gravity_m_s2,
    }
