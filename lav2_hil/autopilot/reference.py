"""A set-point that moves to its goal within limits of speed and acceleration, and then stands still."""

from __future__ import annotations

import math

Vec3 = tuple[float, float, float]


class Reference:
    """A point on a straight way to its goal, along a trapezoid of speed.

    Attributes:
        position: the set-point now [m].
        still_s: for how long it has stood still where it is [s].
    """

    def __init__(self, position: Vec3, *, acceleration_m_s2: float = 1.5) -> None:
        self.position = position
        self.still_s = 0.0
        self._goal = position
        self._speed_limit = 0.0
        self._speed = 0.0
        self._ahead: Vec3 = (0.0, 0.0, 0.0)
        self._acceleration = acceleration_m_s2

    def jump(self, position: Vec3) -> None:
        """Stand here at once."""
        if position != self.position:
            self.still_s = 0.0
        self.position = self._goal = position
        self._speed = 0.0

    def go(self, goal: Vec3, speed_m_s: float) -> None:
        """Start to move, or turn towards a new goal; what of the speed points there is kept."""
        self._goal = goal
        self._speed_limit = speed_m_s
        way, left = self._way()
        ahead = sum(was * part for was, part in zip(self._ahead, way, strict=True)) / left if left > 0.0 else 0.0
        self._speed = min(max(self._speed * ahead, 0.0), speed_m_s)

    @property
    def moving(self) -> bool:
        """Whether it is under way."""
        return self.position != self._goal

    def step(self, dt_s: float) -> None:
        """Move on by a time."""
        if not self.moving:
            self.still_s += dt_s
            return
        self.still_s = 0.0
        way, left = self._way()
        stopping = math.sqrt(2.0 * self._acceleration * left)
        self._speed = min(self._speed + self._acceleration * dt_s, self._speed_limit, stopping)
        moved = self._speed * dt_s
        if moved >= left or left < 1e-3:
            self.jump(self._goal)
            self.still_s = 0.0
            return
        x, y, z = (part / left for part in way)
        self._ahead = (x, y, z)
        north, east, down = self.position
        self.position = (north + moved * x, east + moved * y, down + moved * z)

    def _way(self) -> tuple[Vec3, float]:
        """To the goal, and how far it is."""
        (x, y, z), (a, b, c) = self.position, self._goal
        way = (a - x, b - y, c - z)
        return way, math.hypot(*way)
