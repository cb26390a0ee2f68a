"""VehicleParams as arrays over N worlds: what the dynamics take, and what randomisation and identification write."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from firmware_profiles.errors import UsageError
from firmware_profiles.profile import VehicleParams

FloatArray = npt.NDArray[np.float64]

_ABOVE_ZERO = frozenset(
    {
        "mass_kg",
        "inertia_kg_m2",
        "thrust_coefficient_n_s2",
        "torque_coefficient_nm_s2",
        "max_speed_rad_s",
        "max_rise_rad_s2",
        "max_fall_rad_s2",
    }
)


@dataclass(frozen=True, slots=True)
class WorldParams:
    """The parameters that may differ from world to world; scalars as (N, 1), vectors as (N, 3).

    Units are those of the fields of the same name in `firmware_profiles.profile`.
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

    @classmethod
    def of(cls, vehicle: VehicleParams, n: int) -> WorldParams:
        """N times the nominal vehicle."""
        values = {}
        for name in cls.__dataclass_fields__:
            group = vehicle.body if hasattr(vehicle.body, name) else vehicle.propeller
            values[name] = np.tile(np.atleast_1d(np.asarray(getattr(group, name), dtype=np.float64)), (n, 1))
        return cls(**values)

    def with_values(self, **values: npt.ArrayLike) -> WorldParams:
        """The same worlds with some parameters replaced; each value must broadcast to (N, 1) or (N, 3).

        Raises:
            UsageError: no such parameter, a shape that does not fit, or a value that no vehicle has.
        """
        arrays = {}
        for name, value in values.items():
            if name not in self.__dataclass_fields__:
                raise UsageError(f"unknown parameter {name!r}; allowed: {', '.join(self.__dataclass_fields__)}")
            shape = getattr(self, name).shape
            array = np.asarray(value, dtype=np.float64)
            try:
                array = np.broadcast_to(array, shape).copy()
            except ValueError:
                raise UsageError(f"{name}: expected a shape that fits {shape}, got {array.shape}") from None
            above_zero = name in _ABOVE_ZERO
            if not (np.isfinite(array).all() and (array > 0 if above_zero else array >= 0).all()):
                raise UsageError(f"{name}: expected finite values {'above' if above_zero else 'of at least'} 0")
            if name == "inertia_kg_m2" and (2 * array.max(axis=1) > array.sum(axis=1)).any():
                raise UsageError(f"{name}: no body has one moment larger than the other two together")
            arrays[name] = array
        return replace(self, **arrays)

    @property
    def n(self) -> int:
        """Number of worlds."""
        return int(self.mass_kg.shape[0])
