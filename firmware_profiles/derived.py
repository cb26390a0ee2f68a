"""What follows from a vehicle's parameters, in plain numbers: computed once, when a `VehicleParams` is made.

Sources: seed "dynamics" (which names what is derived); the propeller's similarity laws; PX4
src/lib/mixer_module/motor_params.c (thrust curve); facts of the allocation as in PX4's and Pegasus' rows (FLU).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from firmware_profiles.profile import RotorParams

RPM_PER_RAD_S = 30.0 / math.pi
_RAD_PER_REVOLUTION = 2.0 * math.pi


@dataclass(frozen=True, slots=True)
class DerivedParams:
    """Derived values of one vehicle.

    Attributes:
        hover_speed_rad_s: rotor speed whose thrust carries the weight [rad/s].
        hover_throttle: the normalised signal x of all motors at hover, f x^2 + (1 - f) x = m g / (R c_T w_max^2), with
            f = THR_MDL_FAC; above 1 where the rotors cannot carry the vehicle.
        max_thrust_n: of all rotors together [N].
        allocation_matrix: 4 rows of R: thrust [N] and moments about the FLU axes [N m] = matrix times squared rotor
            speeds [(rad/s)^2].
    """

    hover_speed_rad_s: float
    hover_throttle: float
    max_thrust_n: float
    allocation_matrix: tuple[tuple[float, ...], ...]

    @property
    def hover_rpm(self) -> float:
        """The hover speed in revolutions per minute, the default initial speed of the seed."""
        return self.hover_speed_rad_s * RPM_PER_RAD_S


def thrust_coefficient(thrust_number: float, blade_radius_m: float, air_density_kg_m3: float) -> float:
    """c_T [N/(rad/s)^2] of a propeller with T = C_T rho n^2 D^4, n in revolutions per second."""
    square = 4.0 * blade_radius_m * blade_radius_m
    return thrust_number * air_density_kg_m3 * square * square / (_RAD_PER_REVOLUTION * _RAD_PER_REVOLUTION)


def torque_coefficient(torque_number: float, blade_radius_m: float, air_density_kg_m3: float) -> float:
    """c_M [N m/(rad/s)^2] of a propeller with Q = C_Q rho n^2 D^5, n in revolutions per second."""
    return thrust_coefficient(torque_number, blade_radius_m, air_density_kg_m3) * 2.0 * blade_radius_m


def hover_throttle(weight_share: float, thrust_model_factor: float) -> float:
    """Signal x with f x^2 + (1 - f) x = weight_share, the weight over the largest thrust."""
    linear = 1.0 - thrust_model_factor
    below = linear + math.sqrt(linear * linear + 4.0 * thrust_model_factor * weight_share)
    if math.isinf(weight_share) or below == 0.0:
        return weight_share
    return 2.0 * weight_share / below


def allocation_matrix(
    rotors: Sequence[RotorParams], thrust_coefficient_n_s2: float, torque_coefficient_nm_s2: float
) -> tuple[tuple[float, ...], ...]:
    """Rows T = sum c_T w^2, tau_x = sum y c_T w^2, tau_y = -sum x c_T w^2, tau_z = sum d c_M w^2 (FLU, d = +1 CW)."""
    return (
        tuple(thrust_coefficient_n_s2 for _ in rotors),
        tuple(thrust_coefficient_n_s2 * rotor.position_flu_m[1] for rotor in rotors),
        tuple(-thrust_coefficient_n_s2 * rotor.position_flu_m[0] for rotor in rotors),
        tuple(torque_coefficient_nm_s2 * rotor.spin_dir for rotor in rotors),
    )


def derive(
    *,
    weight_n: float,
    rotors: Sequence[RotorParams],
    thrust_coefficient_n_s2: float,
    torque_coefficient_nm_s2: float,
    max_speed_rad_s: float,
    thrust_model_factor: float,
) -> DerivedParams:
    """All derived values; never an exception, whatever positive numbers come in (too large ones give infinity)."""
    per_square = len(rotors) * thrust_coefficient_n_s2
    largest = per_square * max_speed_rad_s * max_speed_rad_s
    return DerivedParams(
        hover_speed_rad_s=math.sqrt(_ratio(weight_n, per_square)),
        hover_throttle=hover_throttle(_ratio(weight_n, largest), thrust_model_factor),
        max_thrust_n=largest,
        allocation_matrix=allocation_matrix(rotors, thrust_coefficient_n_s2, torque_coefficient_nm_s2),
    )


def _ratio(a: float, b: float) -> float:
    return a / b if b else math.inf
