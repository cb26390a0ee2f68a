"""Parameters of a vehicle whose rotors become its wheels: one motor tilts the arms that carry both."""

from __future__ import annotations

import math
from typing import Annotated

import msgspec

from firmware_profiles.fields import MassKg, Moment, NonNegative, Params, Positive

DRIVE_ANGLE_RAD = math.pi / 2
"""Angle of the arms at which the vehicle stands on its wheels; it flies at 0."""
TiltAngle = Annotated[float, msgspec.Meta(ge=0, le=1.5708)]


class TiltParams(Params, frozen=True):
    """Two arms, mirror images, hinged along the body's x axis at (0, +-`hinge_y_m`, `hinge_z_m`) and moved together.

    At angle 0 they stretch out to the sides, and the rotors are where `propeller` says; at a quarter turn they hang
    down, and the wheels are where `ground_drive` says. Rotors and wheels turn about the same axes. An arm's mass is
    that of all but its wheels, `arm_centre_m` outwards from the hinge, its inertia about its own centre of mass with
    the arm stretched out.

    The motor is a position servo behind a gear, with its limits as seen at the hinge: it follows its command at
    `max_rate_rad_s`, with `servo_gain_nm_rad` times the error and up to `torque_limit_nm`.
    """

    hinge_y_m: Positive
    hinge_z_m: float
    arm_mass_kg: MassKg
    arm_centre_m: NonNegative
    arm_inertia_kg_m2: tuple[Moment, Moment, Moment]
    motor_inertia_kg_m2: Positive
    servo_gain_nm_rad: Positive
    servo_damping_nm_s: Positive
    torque_limit_nm: Positive
    max_rate_rad_s: Positive


def inertia_with_arms(
    body: tuple[float, float, float],
    tilt: TiltParams,
    *,
    wheel_mass_kg: float,
    wheel_radius_m: float,
    wheels_flu_m: list[tuple[float, float, float]],
) -> tuple[float, float, float]:
    """Moments of inertia in flight about the body's origin [kg m^2]: the body's, its arms' and its wheels'.

    Args:
        body: the body's own moments.
        tilt: the arms.
        wheel_mass_kg: of each wheel, a thin disc that lies flat.
        wheel_radius_m: the same.
        wheels_flu_m: where the wheels' centres are in flight.
    """
    flat = 0.25 * wheel_mass_kg * wheel_radius_m**2
    parts = [((0.0, 0.0, 0.0), 0.0, body)]
    for side in (1.0, -1.0):
        place = (0.0, side * (tilt.hinge_y_m + tilt.arm_centre_m), tilt.hinge_z_m)
        parts.append((place, tilt.arm_mass_kg, tilt.arm_inertia_kg_m2))
    parts += [(place, wheel_mass_kg, (flat, flat, 2.0 * flat)) for place in wheels_flu_m]
    about_x = sum(own[0] + mass * (y * y + z * z) for (_, y, z), mass, own in parts)
    about_y = sum(own[1] + mass * (x * x + z * z) for (x, _, z), mass, own in parts)
    about_z = sum(own[2] + mass * (x * x + y * y) for (x, y, _), mass, own in parts)
    return about_x, about_y, about_z
