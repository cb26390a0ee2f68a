"""VehicleParams as arrays over N worlds: what the dynamics take, and what randomisation and identification write."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from firmware_profiles.errors import UsageError
from firmware_profiles.profile import VehicleParams

FloatArray = npt.NDArray[np.float64]

_MAY_BE_ZERO = frozenset(
    {
        "linear_drag_n_s_m",
        "motor_inertia_kg_m2",
        "rise_time_constant_s",
        "fall_time_constant_s",
        "ground_effect_k",
        "wall_pull_gain",
        "wall_lift_gain",
        "rotor_drag_n_s2_m",
        "rolling_moment_n_s2",
        "command_delay_s",
        "charge_points",
        "sag_time_constant_s",
        "idle_power_w",
        "initial_charge",
        "rotor_delay_s",
    }
)
_ANY_SIGN = frozenset({"rotor_position_flu_m", "centre_of_mass_flu_m"})
_NOMINAL: dict[str, npt.ArrayLike] = {"centre_of_mass_flu_m": (0.0, 0.0, 0.0), "rotor_delay_s": 0.0}
"""Of what a vehicle's parameters do not speak of, and worlds may differ in."""
_AT_LEAST_ONE = frozenset({"max_ground_effect_gain"})
_AT_MOST_ONE = frozenset({"wall_pull_decay", "wall_lift_decay", "charge_points", "drive_efficiency", "initial_charge"})


@dataclass(frozen=True, slots=True)
class GroundDriveWorlds:
    """The ground drive's parameters of N worlds; two columns are left and right."""

    max_side_speed_rad_s: FloatArray
    yaw_allocation_scale: FloatArray
    side_gain: FloatArray
    command_delay_s: FloatArray


@dataclass(frozen=True, slots=True)
class BatteryWorlds:
    """The battery's parameters of N worlds; `charge_points` and `open_circuit_v` have a column for each point."""

    charge_points: FloatArray
    open_circuit_v: FloatArray
    internal_resistance_ohm: FloatArray
    capacity_ah: FloatArray
    nominal_v: FloatArray
    drive_efficiency: FloatArray
    sag_time_constant_s: FloatArray
    idle_power_w: FloatArray
    initial_charge: FloatArray


@dataclass(frozen=True, slots=True)
class WorldParams:
    """The parameters that may differ from world to world; scalars as (N, 1), vectors as (N, 3), hubs as (N, R, 3).

    Those of a propeller that the vehicle has not are (N, 0).

    Units are those of the fields of the same name in `firmware_profiles.profile` and `.effects`. `ground_drive` and
    `battery` are None for a vehicle without one. `centre_of_mass_flu_m` (N, 3) is where the body's centre of mass is
    off the nominal one, and `rotor_delay_s` how late the rotors follow their commands, in whole physics steps: nothing,
    both, in the nominal vehicle. Coefficients and time constants of the rotors may be (N, R), one for each rotor.
    """

    mass_kg: FloatArray
    inertia_kg_m2: FloatArray
    linear_drag_n_s_m: FloatArray
    thrust_coefficient_n_s2: FloatArray
    torque_coefficient_nm_s2: FloatArray
    motor_inertia_kg_m2: FloatArray
    max_speed_rad_s: FloatArray
    rise_time_constant_s: FloatArray
    fall_time_constant_s: FloatArray
    max_rise_rad_s2: FloatArray
    max_fall_rad_s2: FloatArray
    blade_radius_m: FloatArray
    rotor_position_flu_m: FloatArray
    ground_effect_k: FloatArray
    max_ground_effect_gain: FloatArray
    wall_pull_gain: FloatArray
    wall_pull_decay: FloatArray
    wall_lift_gain: FloatArray
    wall_lift_decay: FloatArray
    max_relative_airspeed_m_s: FloatArray
    rotor_drag_n_s2_m: FloatArray
    rolling_moment_n_s2: FloatArray
    centre_of_mass_flu_m: FloatArray
    rotor_delay_s: FloatArray
    ground_drive: GroundDriveWorlds | None = None
    battery: BatteryWorlds | None = None

    @classmethod
    def of(cls, vehicle: VehicleParams, n: int) -> Self:
        """N times the nominal vehicle."""
        values: dict[str, Any] = {name: _tiled(nominal, n) for name, nominal in _NOMINAL.items()}
        groups = (vehicle.body, vehicle.propeller, vehicle.aerodynamics)
        for name in set(_arrays(cls)) - set(_NOMINAL):
            if name == "rotor_position_flu_m":
                hubs = np.array([rotor.position_flu_m for rotor in vehicle.rotors], dtype=np.float64)
                values[name] = _tiled(hubs.reshape(-1, 3), n)
            else:
                values[name] = _tiled(next((getattr(group, name) for group in groups if hasattr(group, name)), ()), n)
        drive, battery = vehicle.ground_drive, vehicle.battery
        if drive is not None:
            names = _arrays(GroundDriveWorlds)
            values["ground_drive"] = GroundDriveWorlds(**{name: _tiled(getattr(drive, name), n) for name in names})
        if battery is not None:
            names = _arrays(BatteryWorlds)
            values["battery"] = BatteryWorlds(**{name: _tiled(getattr(battery, name), n) for name in names})
        return cls(**values)

    def with_values(self, **values: npt.ArrayLike) -> WorldParams:
        """The same worlds with some parameters replaced, those of ground drive and battery too.

        Args:
            values: each must broadcast to the parameter's shape: (N, 1), (N, 2), (N, 3), ...

        Raises:
            UsageError: no such parameter, a shape that does not fit, or a value that no vehicle has.
        """
        groups: dict[str, Any] = {"": self, "ground_drive": self.ground_drive, "battery": self.battery}
        owners = {name: key for key, group in groups.items() if group is not None for name in _arrays(type(group))}
        changes: dict[str, dict[str, Any]] = {key: {} for key in groups}
        for name, value in values.items():
            if name not in owners:
                raise UsageError(f"unknown parameter {name!r}; allowed: {', '.join(owners)}")
            owner = owners[name]
            changes[owner][name] = _checked(name, value, getattr(groups[owner], name).shape)
        nested = {key: replace(groups[key], **changes[key]) for key in ("ground_drive", "battery") if changes[key]}
        battery = nested.get("battery")
        if battery is not None and (np.diff(battery.charge_points, axis=1) <= 0).any():
            raise UsageError("charge_points: expected numbers that rise from 0 to 1")
        return replace(self, **changes[""], **nested)

    @property
    def n(self) -> int:
        """Number of worlds."""
        return int(self.mass_kg.shape[0])


def _arrays(kind: Any) -> list[str]:
    return [field.name for field in fields(kind) if field.name not in ("ground_drive", "battery")]


def _tiled(value: npt.ArrayLike, n: int) -> FloatArray:
    array = np.atleast_1d(np.asarray(value, dtype=np.float64))
    return np.tile(array, (n,) + (1,) * array.ndim)


def _checked(name: str, value: npt.ArrayLike, shape: tuple[int, ...]) -> FloatArray:
    array = np.asarray(value, dtype=np.float64)
    try:
        array = np.broadcast_to(array, shape).copy()
    except ValueError:
        raise UsageError(f"{name}: expected a shape that fits {shape}, got {array.shape}") from None
    if name in _ANY_SIGN:
        fits, wanted = np.isfinite(array), "finite values"
    elif name in _AT_LEAST_ONE:
        fits, wanted = array >= 1, "finite values of at least 1"
    elif name in _MAY_BE_ZERO:
        fits, wanted = array >= 0, "finite values of at least 0"
    else:
        fits, wanted = array > 0, "finite values above 0"
    if name in _AT_MOST_ONE:
        fits, wanted = fits & (array <= 1), f"{wanted} and at most 1"
    if not (np.isfinite(array) & fits).all():
        raise UsageError(f"{name}: expected {wanted}")
    if name == "inertia_kg_m2" and (2 * array.max(axis=1) > array.sum(axis=1)).any():
        raise UsageError(f"{name}: no body has one moment larger than the other two together")
    return array
