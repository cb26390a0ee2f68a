"""The face of a wall that looks towards the place where the vehicle starts."""

from __future__ import annotations

import math
from dataclasses import dataclass

from firmware_profiles.arm import WallParams
from firmware_profiles.errors import UsageError


@dataclass(frozen=True, slots=True)
class WallFace:
    """A vertical face.

    Attributes:
        north_m, east_m: its middle, relative to home.
        heading: into the wall, perpendicular to the face [rad from north].
    """

    north_m: float
    east_m: float
    heading: float

    @classmethod
    def of(cls, wall: WallParams) -> WallFace:
        """The face that is furthest in front of home, by its plane.

        Raises:
            UsageError: home is inside the wall.
        """
        east, north, _ = wall.centre_enu_m
        half_x, half_y, _ = wall.half_size_m
        faces = []
        for quarter, half in enumerate((half_x, half_y, half_x, half_y)):
            outwards = math.radians(90.0 - wall.yaw_deg) - quarter * math.pi / 2
            face = cls(
                north + half * math.cos(outwards),
                east + half * math.sin(outwards),
                math.remainder(outwards + math.pi, math.tau),
            )
            faces.append((face.before(0.0, 0.0), face))
        distance, face = max(faces, key=lambda item: item[0])
        if distance <= 0.0:
            raise UsageError(f"vehicle.environment.walls: home is inside the wall at {wall.centre_enu_m} (ENU)")
        return face

    def before(self, north_m: float, east_m: float) -> float:
        """How far a place is in front of the face [m]."""
        ahead = (self.north_m - north_m) * math.cos(self.heading) + (self.east_m - east_m) * math.sin(self.heading)
        return ahead

    def place(self, distance_m: float) -> tuple[float, float]:
        """North and east of the place so far in front of its middle [m]."""
        return (
            self.north_m - distance_m * math.cos(self.heading),
            self.east_m - distance_m * math.sin(self.heading),
        )
