"""Parameters of a small arm on the vehicle, and of the walls that it may touch."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Annotated

import msgspec

from firmware_profiles.fields import MassKg, NonNegative, Params, Positive, Vec3

_Angle = Annotated[float, msgspec.Meta(ge=-3.1416, le=3.1416)]


class ArmLinkParams(Params, frozen=True):
    """One link, a straight tube, and the motor of the joint at its inner end.

    The joint turns about the vehicle's y axis: at angle 0 the link goes on straight ahead from the one before, the
    first one along the vehicle's x axis, and a positive angle lowers its outer end. `mass_kg` is all of the link and of
    the motor that moves with it, spread evenly along it. `rotor_inertia_kg_m2` is the motor's, as seen at the joint
    behind its gear, and `damping_nm_s` the friction there. `stowed_rad` is its place while the arm is put away,
    `ready_rad` the one from which work begins.
    """

    length_m: Positive
    radius_m: Positive
    mass_kg: MassKg
    torque_limit_nm: Positive
    damping_nm_s: NonNegative
    rotor_inertia_kg_m2: Positive
    range_rad: tuple[_Angle, _Angle]
    stowed_rad: _Angle
    ready_rad: _Angle


class ArmParams(Params, frozen=True):
    """An arm of J links in the vehicle's x-z plane, and the rubber ball at its end, which feels the contact force.

    `mount_flu_m` is the first joint's place on the vehicle. The ball's contact is a spring, critically damped, with
    the time constant `tip_time_constant_s`.
    """

    mount_flu_m: Vec3
    links: Annotated[tuple[ArmLinkParams, ...], msgspec.Meta(min_length=1, max_length=6)]
    tip_radius_m: Positive
    tip_mass_kg: MassKg
    tip_friction: NonNegative
    tip_time_constant_s: Annotated[float, msgspec.Meta(ge=0.004, le=0.2)]

    @property
    def mass_kg(self) -> float:
        """Mass of all links and the ball [kg]."""
        return sum(link.mass_kg for link in self.links) + self.tip_mass_kg

    @property
    def stowed_rad(self) -> tuple[float, ...]:
        """The J joint angles while the arm is put away [rad]."""
        return tuple(link.stowed_rad for link in self.links)

    @property
    def ready_rad(self) -> tuple[float, ...]:
        """The J joint angles from which work begins [rad]."""
        return tuple(link.ready_rad for link in self.links)

    def tip_flu_m(self, angles_rad: Sequence[float]) -> Vec3:
        """Where the middle of the ball is on the vehicle, with these J joint angles [m]."""
        return self.ends_flu_m(angles_rad)[-1]

    def stowed_inertia_kg_m2(self) -> Vec3:
        """Moments of inertia about the vehicle's origin while the arm is put away: of even tubes, and the ball."""
        ends = self.ends_flu_m(self.stowed_rad)
        parts = [(self.tip_mass_kg, ends[-1])]
        for link, inner, outer in zip(self.links, ends[:-1], ends[1:], strict=True):
            middle = (0.5 * (inner[0] + outer[0]), 0.5 * (inner[1] + outer[1]), 0.5 * (inner[2] + outer[2]))
            # Simpson's rule: of an even rod, exact.
            parts += [(link.mass_kg / 6, inner), (link.mass_kg * 4 / 6, middle), (link.mass_kg / 6, outer)]
        about_x = sum(mass * (y * y + z * z) for mass, (_, y, z) in parts)
        about_y = sum(mass * (x * x + z * z) for mass, (x, _, z) in parts)
        about_z = sum(mass * (x * x + y * y) for mass, (x, y, _) in parts)
        return about_x, about_y, about_z

    def ends_flu_m(self, angles_rad: Sequence[float]) -> list[Vec3]:
        """Where the J links begin, and the last one ends, on the vehicle, with these joint angles [m]."""
        x, y, z = self.mount_flu_m
        ends, down = [(x, y, z)], 0.0
        for link, angle in zip(self.links, angles_rad, strict=True):
            down += angle
            x += link.length_m * math.cos(down)
            z -= link.length_m * math.sin(down)
            ends.append((x, y, z))
        return ends


class WallParams(Params, frozen=True):
    """A box that stands fixed in the world: its centre from where the vehicle starts, half of its size, its turn.

    At yaw 0 its sides face east, north and up; a positive yaw turns it counter-clockwise, seen from above.
    """

    centre_enu_m: Vec3
    half_size_m: tuple[Positive, Positive, Positive]
    yaw_deg: Annotated[float, msgspec.Meta(ge=-180, le=180)] = 0.0
    friction: NonNegative = 0.8

    def distance_m(self, east_m: float, north_m: float) -> float:
        """How far a place is from it horizontally; 0 inside [m]."""
        yaw = math.radians(self.yaw_deg)
        x, y = east_m - self.centre_enu_m[0], north_m - self.centre_enu_m[1]
        along = (x * math.cos(yaw) + y * math.sin(yaw), y * math.cos(yaw) - x * math.sin(yaw))
        return math.hypot(*(max(abs(a) - half, 0.0) for a, half in zip(along, self.half_size_m[:2], strict=True)))


def arm_faults(arm: ArmParams | None) -> Iterator[tuple[str, str]]:
    """What the types cannot say: a key and what is wrong there."""
    for index, link in enumerate(() if arm is None else arm.links):
        key, (low, high) = f"arm.links[{index}]", link.range_rad
        if low >= high:
            yield f"{key}.range_rad", f"expected [low, high] with low < high, got [{low:g}, {high:g}]"
        for name in ("stowed_rad", "ready_rad"):
            angle = getattr(link, name)
            if not low <= angle <= high:
                yield f"{key}.{name}", f"expected an angle in the joint's range, {low:g} to {high:g}, got {angle:g}"


def wall_faults(walls: tuple[WallParams, ...], footprint_m: float) -> Iterator[tuple[str, str]]:
    """The same of walls around a vehicle that reaches so far from where it starts."""
    for index, wall in enumerate(walls):
        distance = wall.distance_m(0.0, 0.0)
        if distance < footprint_m:
            yield (
                f"environment.walls[{index}].centre_enu_m",
                f"expected a wall at least {footprint_m:.2f} m away from where the vehicle starts, got {distance:.2f}",
            )
