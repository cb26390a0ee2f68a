"""How well a vehicle's parameters are known: standard deviations, from which randomised worlds are drawn."""

from __future__ import annotations

from typing import Annotated

import msgspec

from firmware_profiles.fields import NonNegative, NonNegativeVec3, Params

SIGMAS = 3.0
"""No draw lies further from the nominal value than so many standard deviations."""

# Three of them never take a positive parameter to zero, and leave a tenth of it.
_Relative = Annotated[float, msgspec.Meta(ge=0, le=0.3)]


class UncertaintyParams(Params, frozen=True):
    """One standard deviation of each parameter, relative to its value (`_rel`) or in its unit; all nothing by default.

    `inertia_rel` and `drag_rel` hold for each axis by itself, `thrust_rel` and `torque_rel` for each rotor's
    coefficient, `time_constant_rel` for the rotors' rise and fall. `centre_of_mass_m` are the offsets along the body's
    axes (FLU). `rotor_delay_s` is how late the rotors follow, on top of the nominal vehicle's nothing: half a normal
    distribution. `battery_voltage_v` moves the whole open-circuit curve.
    """

    mass_rel: _Relative = 0.0
    inertia_rel: _Relative = 0.0
    centre_of_mass_m: NonNegativeVec3 = (0.0, 0.0, 0.0)
    thrust_rel: _Relative = 0.0
    torque_rel: _Relative = 0.0
    time_constant_rel: _Relative = 0.0
    drag_rel: _Relative = 0.0
    rotor_delay_s: Annotated[float, msgspec.Meta(ge=0, le=0.1)] = 0.0
    battery_voltage_v: NonNegative = 0.0
    battery_resistance_rel: _Relative = 0.0

    @property
    def nothing(self) -> bool:
        """Whether all parameters count as known exactly."""
        return self == UncertaintyParams()
