"""Worlds drawn from a vehicle's uncertainty: what the shadows of a flight are made of."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from firmware_profiles.uncertainty import SIGMAS, UncertaintyParams
from twin.random_streams import NoiseBlock, StreamKey
from twin.world_params import WorldParams

FloatArray = npt.NDArray[np.float64]


def randomize(nominal: WorldParams, uncertainty: UncertaintyParams, seed: int, rotors: int) -> WorldParams:
    """Draw the parameters of each of N worlds around those that it has.

    Each is normal, with the standard deviation of `uncertainty`; what would lie beyond `SIGMAS` of them is put there
    (three draws in a thousand). A standard deviation that is relative is at most 0.3, so what is positive stays so.
    World i draws the same numbers whatever the number of worlds.

    Args:
        nominal: N worlds, as `WorldParams.of` makes them.
        uncertainty: standard deviations.
        seed: of the draws.
        rotors: R; the coefficients of thrust and torque become (N, R).

    Raises:
        UsageError: the seed is negative.
    """
    draws = _Draws(seed, nominal.n, rotors)
    one = uncertainty
    # The order is part of what a seed means: new parameters go to the end.
    mass = nominal.mass_kg * draws.factor(one.mass_rel, 1)
    inertia = _possible(nominal.inertia_kg_m2 * draws.factor(one.inertia_rel, 3))
    centre = nominal.centre_of_mass_flu_m + np.array(one.centre_of_mass_m) * draws.normal(3)
    rise = nominal.rise_time_constant_s * draws.factor(one.time_constant_rel, 1)
    fall = nominal.fall_time_constant_s * draws.factor(one.time_constant_rel, 1)
    drag = draws.factor(one.drag_rel, 3)
    rotor_drag = draws.factor(one.drag_rel, 1)
    delay = nominal.rotor_delay_s + one.rotor_delay_s * np.abs(draws.normal(1))
    volts, resistance = one.battery_voltage_v * draws.normal(1), draws.factor(one.battery_resistance_rel, 1)
    thrust = nominal.thrust_coefficient_n_s2 * draws.factor(one.thrust_rel, rotors)
    torque = nominal.torque_coefficient_nm_s2 * draws.factor(one.torque_rel, rotors)
    changes: dict[str, Any] = {}
    if nominal.battery is not None:
        changes["battery"] = replace(
            nominal.battery,
            open_circuit_v=np.maximum(nominal.battery.open_circuit_v + volts, _LEAST_V),
            internal_resistance_ohm=nominal.battery.internal_resistance_ohm * resistance,
        )
    return replace(
        nominal,
        mass_kg=mass,
        inertia_kg_m2=inertia,
        centre_of_mass_flu_m=centre,
        rise_time_constant_s=rise,
        fall_time_constant_s=fall,
        linear_drag_n_s_m=nominal.linear_drag_n_s_m * drag,
        rotor_drag_n_s2_m=nominal.rotor_drag_n_s2_m * rotor_drag,
        rotor_delay_s=delay,
        thrust_coefficient_n_s2=thrust,
        torque_coefficient_nm_s2=torque,
        **changes,
    )


_LEAST_V = 0.1


class _Draws:
    """Standard normal numbers of each world, one after the other, none beyond `SIGMAS`."""

    def __init__(self, seed: int, worlds: int, rotors: int) -> None:
        width = 16 + 2 * rotors
        numbers = NoiseBlock(seed, range(worlds), StreamKey.PARAMETERS, width, block=1).next()
        self._numbers = np.minimum(np.maximum(numbers, -SIGMAS), SIGMAS)
        self._used = 0

    def normal(self, columns: int) -> FloatArray:
        """(N, columns) numbers."""
        first, self._used = self._used, self._used + columns
        numbers: FloatArray = self._numbers[:, first : self._used]
        return numbers

    def factor(self, relative_sigma: float, columns: int) -> FloatArray:
        """(N, columns) factors around 1."""
        return 1.0 + relative_sigma * self.normal(columns)


def _possible(inertia: FloatArray) -> FloatArray:
    """(N, 3) moments of inertia, the largest brought down to what the other two together allow."""
    total = inertia.sum(axis=1, keepdims=True)
    return np.asarray(np.minimum(inertia, total - inertia))
