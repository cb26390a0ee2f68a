"""Parameter groups of the effects that are off until a vehicle asks for them: air near surfaces, battery."""

from __future__ import annotations

from itertools import pairwise
from typing import Annotated

import msgspec

from firmware_profiles.errors import ProfileError
from firmware_profiles.fields import Fraction, NonNegative, Params, Positive

_Decay = Annotated[float, msgspec.Meta(gt=0, lt=1)]


class AerodynamicsParams(Params, frozen=True):
    """Which effects of the air on the rotors are on, all off by default, and their coefficients.

    Ground effect (seed "dynamics"): a rotor's thrust grows by 1 / (1 - k (r / 4z)^2), k = `ground_effect_k`, at most by
    `max_ground_effect_gain`; k = 1 is Cheeseman and Bennett's helicopter, 0.171 an empirical value of small
    multirotors. Wall effect (Ding et al., in the same seed, fitted to a ducted rotor of 38 mm): with d, the clearance
    of the blade's tip in radii, a pull of a1 b1^d and a lift of 1 + a2 b2^d times the vertical thrust; a1, a2 are the
    `gain`s and b1, b2 the `decay`s. Motor (PX4-SITL_gazebo-classic gazebo_motor_model.cpp): thrust falls linearly to
    nothing at `max_relative_airspeed_m_s` along the rotor's axis; across it the rotor is dragged with
    `rotor_drag_n_s2_m` and rolled with `rolling_moment_n_s2` times rotor speed times airspeed; these are the Iris's.
    """

    ground_effect: bool = False
    wall_effect: bool = False
    motor_aerodynamics: bool = False
    ground_effect_k: NonNegative = 0.171
    max_ground_effect_gain: Annotated[float, msgspec.Meta(ge=1)] = 2.0
    wall_pull_gain: NonNegative = 0.21
    wall_pull_decay: _Decay = 0.34
    wall_lift_gain: NonNegative = 0.06
    wall_lift_decay: _Decay = 0.54
    max_relative_airspeed_m_s: Positive = 25.0
    rotor_drag_n_s2_m: NonNegative = 1.75e-4
    rolling_moment_n_s2: NonNegative = 1e-6


class BatteryParams(Params, frozen=True):
    """A battery: an open-circuit voltage that falls with its charge, behind a resistance.

    `open_circuit_v` are voltages at the states of charge `charge_points` (from 0, empty, to 1, full, rising), straight
    lines between them. `nominal_v` is the voltage at which the rotors turn as fast as they are told; at a lower one
    they turn slower in proportion, with a lag of `sag_time_constant_s` (capacitors and filters of the controllers;
    without it rotors that are slowed down relieve the battery at once, and both chatter with every physics step).
    `drive_efficiency` is mechanical over electrical power of motors and controllers; `idle_power_w` is what the rest
    draws.

    Raises:
        ProfileError: the points of the curve do not fit together.
    """

    charge_points: Annotated[tuple[Fraction, ...], msgspec.Meta(min_length=2, max_length=32)]
    open_circuit_v: Annotated[tuple[Positive, ...], msgspec.Meta(min_length=2, max_length=32)]
    internal_resistance_ohm: Positive
    capacity_ah: Positive
    nominal_v: Positive
    drive_efficiency: Annotated[float, msgspec.Meta(gt=0, le=1)]
    sag_time_constant_s: NonNegative = 0.05
    idle_power_w: NonNegative = 0.0
    initial_charge: Fraction = 1.0

    def __post_init__(self) -> None:
        points = self.charge_points
        if len(points) != len(self.open_circuit_v):
            raise ProfileError(
                f"battery.open_circuit_v: expected one voltage for each of the {len(points)} charge_points, "
                f"got {len(self.open_circuit_v)}"
            )
        if points[0] != 0.0 or points[-1] != 1.0 or any(b <= a for a, b in pairwise(points)):
            raise ProfileError(f"battery.charge_points: expected numbers that rise from 0 to 1, got {list(points)}")


class Px4AlignedParams(Params, frozen=True):
    """What the vehicle shares with PX4's parameters: `thrust_model_factor` is THR_MDL_FAC, f in f x^2 + (1 - f) x."""

    thrust_model_factor: Fraction = 0.0
