"""Trajectories: functions of time that give target dictionaries; velocity and acceleration are true derivatives.

Each is made once for N worlds and asked with a time; `pos`, `vel`, `acc` and `att_euler` (the yaw) go to `cmd_pos` with
feed-forward, or leave out what an entry does not take with `only`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

from firmware_profiles.errors import UsageError
from twin.control.arrays import Arrays, checked

Target = dict[str, Any]


def only(target: Target, channels: Iterable[str]) -> Target:
    """The named channels of a target."""
    return {name: target[name] for name in channels}


class Trajectory(ABC):
    """A path in time for N worlds.

    Args:
        yaw_rad: third angle of `att_euler`; broadcasts to (N, 1). With `along` set it is added to the direction of the
            horizontal velocity, and to the last one where there is none.
        along: whether the nose follows the velocity.
        arrays: where the arrays live; by default NumPy, float64, one world.
    """

    def __init__(self, yaw_rad: npt.ArrayLike = 0.0, along: bool = False, arrays: Arrays | None = None) -> None:
        self._arrays = arrays = Arrays() if arrays is None else arrays
        self._xp, self._along = arrays.xp, along
        self._yaw = arrays.spread("yaw_rad", yaw_rad, 1)
        self._zero = arrays.zeros(1)

    def target(self, time_s: float) -> Target:
        """`pos`, `vel`, `acc` (N, 3) and `att_euler` (N, 3), of which the first two angles are 0, at a time [s]."""
        xp = self._xp
        pos, vel, acc = self._at(time_s)
        yaw = self._yaw
        if self._along:
            yaw = yaw + self._course(time_s, vel)
        return {"pos": pos, "vel": vel, "acc": acc, "att_euler": xp.concat((self._zero, self._zero, yaw), axis=1)}

    def _course(self, time_s: float, vel: Any) -> Any:
        del time_s  # a path that stops now and then knows better
        return self._xp.atan2(vel[:, 1:2], vel[:, 0:1])

    @abstractmethod
    def _at(self, time_s: float) -> tuple[Any, Any, Any]:
        """Position, velocity, acceleration (N, 3)."""


class Hold(Trajectory):
    """One place for ever.

    Args:
        pos: broadcasts to (N, 3) [m].
        options: those of `Trajectory`.
    """

    def __init__(self, pos: npt.ArrayLike, **options: Any) -> None:
        super().__init__(**options)
        self._pos, self._nothing = self._arrays.spread("pos", pos, 3), self._arrays.zeros(3)

    def _at(self, time_s: float) -> tuple[Any, Any, Any]:
        del time_s
        return self._pos, self._nothing, self._nothing


class Circle(Trajectory):
    """Round a level circle, counter-clockwise, from its easternmost point, at full speed from the first moment.

    Args:
        centre: broadcasts to (N, 3) [m].
        radius_m: broadcasts to (N, 1).
        speed_m_s: along the circle; negative goes clockwise.
        options: those of `Trajectory`.
    """

    def __init__(
        self, centre: npt.ArrayLike, radius_m: npt.ArrayLike, speed_m_s: npt.ArrayLike, **options: Any
    ) -> None:
        super().__init__(**options)
        checked("radius_m", radius_m, above=0.0)
        checked("speed_m_s", speed_m_s)
        spread = self._arrays.spread
        self._centre, self._radius = spread("centre", centre, 3), spread("radius_m", radius_m, 1)
        self._turn = spread("speed_m_s", speed_m_s, 1) / self._radius

    def _at(self, time_s: float) -> tuple[Any, Any, Any]:
        xp, turn, zero = self._xp, self._turn, self._zero
        angle = turn * time_s
        x, y = self._radius * xp.cos(angle), self._radius * xp.sin(angle)
        vel = xp.concat((-y * turn, x * turn, zero), axis=1)
        acc = xp.concat((-x * turn * turn, -y * turn * turn, zero), axis=1)
        return self._centre + xp.concat((x, y, zero), axis=1), vel, acc


class Lemniscate(Trajectory):
    """A figure of eight (Gerono's): x = a sin(w t), y = a sin(w t) cos(w t), about its crossing.

    Args:
        centre: of the crossing; broadcasts to (N, 3) [m].
        half_width_m: a; broadcasts to (N, 1).
        period_s: of one whole figure; likewise.
        options: those of `Trajectory`.
    """

    def __init__(
        self, centre: npt.ArrayLike, half_width_m: npt.ArrayLike, period_s: npt.ArrayLike, **options: Any
    ) -> None:
        super().__init__(**options)
        checked("half_width_m", half_width_m, above=0.0)
        checked("period_s", period_s, above=0.0)
        spread = self._arrays.spread
        self._centre, self._size = spread("centre", centre, 3), spread("half_width_m", half_width_m, 1)
        self._turn = 2.0 * np.pi / spread("period_s", period_s, 1)

    def _at(self, time_s: float) -> tuple[Any, Any, Any]:
        xp, w, a, zero = self._xp, self._turn, self._size, self._zero
        once, twice = w * time_s, 2.0 * w * time_s
        sin, cos, sin2, cos2 = xp.sin(once), xp.cos(once), xp.sin(twice), xp.cos(twice)
        pos = self._centre + xp.concat((a * sin, 0.5 * a * sin2, zero), axis=1)
        vel = xp.concat((a * w * cos, a * w * cos2, zero), axis=1)
        return pos, vel, xp.concat((-a * w * w * sin, -2.0 * a * w * w * sin2, zero), axis=1)


class WayPoints(Trajectory):
    """From point to point in straight lines, at rest at each (a polynomial of fifth degree: no jump of acceleration).

    Args:
        points: (K, 3) for all worlds or (K, N, 3) [m], at least one.
        speed_m_s: mean speed of a leg; its largest is 1.875 times that. One number.
        loop: whether the last point is followed by the first again, for ever.
        options: those of `Trajectory`.

    Raises:
        UsageError: points of another shape.
    """

    def __init__(self, points: npt.ArrayLike, speed_m_s: float, *, loop: bool = False, **options: Any) -> None:
        super().__init__(**options)
        checked("speed_m_s", speed_m_s, above=0.0)
        plain = np.asarray(points, dtype=np.float64)
        shape = (len(plain), self._arrays.n, 3) if plain.ndim else ()
        if plain.ndim == 2:
            plain = plain[:, None, :]
        if plain.ndim != 3 or not len(plain) or plain.shape[1] not in (1, self._arrays.n) or plain.shape[2] != 3:
            raise UsageError(f"points: expected (K, 3) or (K, N, 3) with N = {self._arrays.n}, got {np.shape(points)}")
        checked("points", plain)
        plain = np.broadcast_to(plain, shape)
        if loop:
            plain = np.concatenate((plain, plain[:1]))
        ways = np.diff(plain, axis=0)
        self._points = [self._arrays.array(point) for point in plain]
        self._ways = [self._arrays.array(way) for way in ways]
        # All worlds do a leg in the time that the longest one takes.
        durations = np.maximum(np.linalg.norm(ways, axis=2).max(axis=1, initial=0.0) / speed_m_s, 1e-3)
        self._ends = np.cumsum(durations)
        self._durations, self._loop, self._nothing = durations, loop, self._arrays.zeros(3)

    @property
    def duration_s(self) -> float:
        """Time from the first point to the last, or once round [s]."""
        return float(self._ends[-1]) if len(self._ends) else 0.0

    def _leg(self, time_s: float) -> tuple[int, float]:
        """Number of the leg, and the share of its time that has passed."""
        time_s = max(time_s, 0.0)
        if self._loop and self.duration_s:
            time_s %= self.duration_s
        leg = min(int(np.searchsorted(self._ends, time_s, side="right")), len(self._ends) - 1)
        before = self._ends[leg] - self._durations[leg]
        return leg, float(min((time_s - before) / self._durations[leg], 1.0))

    def _course(self, time_s: float, vel: Any) -> Any:
        del vel
        if not self._ways:
            return self._zero
        way = self._ways[self._leg(time_s)[0]]
        return self._xp.atan2(way[:, 1:2], way[:, 0:1])

    def _at(self, time_s: float) -> tuple[Any, Any, Any]:
        if not self._ways:
            return self._points[0], self._nothing, self._nothing
        leg, s = self._leg(time_s)
        t, way = float(self._durations[leg]), self._ways[leg]
        share = s**3 * (10.0 - 15.0 * s + 6.0 * s * s)
        speed = 30.0 * s * s * (1.0 - s) ** 2 / t
        acc = 60.0 * s * (1.0 - s) * (1.0 - 2.0 * s) / (t * t)
        return self._points[leg] + way * share, way * speed, way * acc


class Square(WayPoints):
    """Round a level square for ever, counter-clockwise from its south-west corner, at rest at each corner.

    Args:
        centre: broadcasts to (N, 3) [m].
        side_m: length of a side. One number.
        speed_m_s: mean speed along a side.
        options: those of `Trajectory`.
    """

    def __init__(self, centre: npt.ArrayLike, side_m: float, speed_m_s: float, **options: Any) -> None:
        checked("side_m", side_m, above=0.0)
        corners = 0.5 * side_m * np.array([[-1.0, -1.0, 0.0], [1.0, -1.0, 0.0], [1.0, 1.0, 0.0], [-1.0, 1.0, 0.0]])
        middle = np.asarray(centre, dtype=np.float64)
        if middle.ndim == 1:
            middle = middle[None, :]
        super().__init__(middle[None, :, :] + corners[:, None, :], speed_m_s, loop=True, **options)
