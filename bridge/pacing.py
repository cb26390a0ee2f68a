"""When is the next tick due? Simulated time against the wall clock, without ever catching up in a burst."""

from __future__ import annotations

MAX_LAG_US = 100_000
"""Lag behind the wall clock that is made up for; more is let go, so that a stall costs time but no burst."""


class Pacer:
    """Maps simulated time to wall time at a speed; both in integer microseconds."""

    __slots__ = ("_sim_us", "_speed", "_wall_us")

    def __init__(self) -> None:
        self._speed = 0.0
        self._wall_us = 0
        self._sim_us = 0

    def anchor(self, wall_us: int, sim_us: int, speed: float) -> None:
        """From here on, simulated time `sim_us` is wall time `wall_us`; speed 0 is as fast as it goes."""
        self._wall_us, self._sim_us, self._speed = wall_us, sim_us, speed

    def due_us(self, sim_us: int, now_us: int) -> int:
        """The wall time at which simulated time `sim_us` is due; `now_us` at the latest when there is no pace."""
        if not self._speed:
            return now_us
        due = self._wall_us + int((sim_us - self._sim_us) / self._speed)
        if now_us - due > MAX_LAG_US:
            self._wall_us, self._sim_us = now_us, sim_us
            return now_us
        return due
