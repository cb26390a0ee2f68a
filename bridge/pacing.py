"""When is the next tick due? Simulated time against the wall clock, without ever catching up in a burst."""

from __future__ import annotations

MAX_LAG_US = 100_000
"""Lag behind the wall clock that is made up for; more is let go, so that a stall costs time but no burst."""


class Pacer:
    """Maps simulated time to wall time at a speed; both in integer microseconds."""

    __slots__ = ("_max_lag_us", "_sim_us", "_speed", "_wall_us")

    def __init__(self) -> None:
        self.anchor(0, 0, 0.0)

    def anchor(self, wall_us: int, sim_us: int, speed: float, max_lag_us: int = MAX_LAG_US) -> None:
        """From here on, simulated time `sim_us` is wall time `wall_us`; speed 0 is as fast as it goes.

        A lag of more than `max_lag_us` is let go. Where no answer stands between two ticks, it has to be less than a
        period: then no two ticks are ever due at once.
        """
        self._wall_us, self._sim_us, self._speed, self._max_lag_us = wall_us, sim_us, speed, max_lag_us

    def due_us(self, sim_us: int, now_us: int) -> int:
        """The wall time at which simulated time `sim_us` is due; `now_us` at the latest when there is no pace."""
        if not self._speed:
            return now_us
        due = self._wall_us + int((sim_us - self._sim_us) / self._speed)
        if now_us - due > self._max_lag_us:
            self._wall_us, self._sim_us = now_us, sim_us
            return now_us
        return due
