"""Between flight and drive: the autopilot's side of arms that tilt."""

from __future__ import annotations

from typing import Literal

from firmware_profiles.profile import TiltOutput
from firmware_profiles.tilt import TiltParams

Configuration = Literal["flight", "drive"]
SETTLE_S = 0.5
"""The arms follow their command a little later."""

_CONTROL: dict[Configuration, float] = {"flight": 0.0, "drive": 1.0}


class Transformation:
    """Which configuration the vehicle is in. Nothing on the wire says so: the autopilot goes by what it has commanded.

    Args:
        tilt: the arms; they are stretched out at the start.
        output: the channel that moves them.
        tick_s: time between two calls of `step` [s].

    Attributes:
        channel: of the 16 controls.
        control: on that channel now, 0 in flight and 1 to drive.
        configuration: "flight", "drive", or None while the arms are under way.
    """

    def __init__(self, tilt: TiltParams, output: TiltOutput, tick_s: float) -> None:
        self.channel = output.channel
        self.control = _CONTROL["flight"]
        self.configuration: Configuration | None = "flight"
        self._goal: Configuration = "flight"
        self._settling_s = 0.0
        self._tick_s = tick_s
        self._most = tilt.max_rate_rad_s / (output.range_rad[1] - output.range_rad[0]) * tick_s

    def begin(self, goal: Configuration) -> None:
        """Go there from the next `step` on."""
        if goal != self._goal:
            self._goal, self.configuration, self._settling_s = goal, None, 0.0

    def step(self) -> None:
        """Move on by a tick: only while armed, for else the arms do not move."""
        if self.configuration is not None:
            return
        left = _CONTROL[self._goal] - self.control
        if left:
            self.control += min(max(left, -self._most), self._most)
            return
        self._settling_s += self._tick_s
        if self._settling_s >= SETTLE_S:
            self.configuration = self._goal
