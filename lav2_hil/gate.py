"""The gate: every actuator value passes it, on its way from the flight controller to the twin.

Nothing moves unless the flight controller says armed and still speaks; a value that is not a number stands still; what
is out of range is brought back (PX4 1.12 sends -0.1 and -1.2). And nothing real moves with the simulated flight: a
board whose own outputs carry its motors is refused. This module stays small: it is tested by mutation.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping

from firmware_profiles.errors import RefusedError
from firmware_profiles.signals import CHANNELS, HilControls

MOTOR = (0.0, 1.0)
"""Range of a channel that drives something turning one way, or tilts arms from one end to the other."""
TWO_WAY = (-1.0, 1.0)
"""Range of a servo, a wheel or a reversible motor."""
MOTOR_FUNCTIONS = range(101, 113)
"""PX4's output functions that are motors."""


class Gate:
    """Raw controls to safe ones.

    Args:
        ranges: what each driven channel may carry; channels that are not named here always give 0.

    Attributes:
        not_finite: how often each channel carried NaN or an infinity while armed.
    """

    def __init__(self, ranges: dict[int, tuple[float, float]]) -> None:
        self._ranges = tuple(ranges.items())
        self.not_finite = [0] * CHANNELS

    def passes(self, controls: HilControls | None) -> bool:
        """Whether anything may move at all: armed, and not stale."""
        return controls is not None and controls.armed and not controls.stale

    def clean(self, controls: HilControls | None) -> tuple[list[float], list[bool]]:
        """The controls that may be used.

        Returns:
            A value for each of the 16 channels, and whether that channel is live; one that is not live is 0 and must
            be treated as disarmed.
        """
        values, live = [0.0] * CHANNELS, [False] * CHANNELS
        if controls is None or not self.passes(controls):
            return values, live
        raw = controls.channels
        for channel, (low, high) in self._ranges:
            value = raw[channel]
            if math.isfinite(value):
                values[channel] = min(max(value, low), high)
                live[channel] = True
            else:
                self.not_finite[channel] += 1
        return values, live


def check_real_outputs(
    functions: Mapping[str, int] | None, driven: Collection[int], *, propellers_are_off: bool
) -> dict[str, int]:
    """Refuse HITL on a board whose real outputs would move: PX4 drives them on, with the simulated flight.

    Args:
        functions: what each real output of the board is told to do, by its parameter; None when it cannot be told.
        driven: functions that the vehicle uses beside motors (wheels on actuator sets).
        propellers_are_off: somebody has looked, and takes the responsibility.

    Returns:
        The outputs that will move.

    Raises:
        RefusedError: some will, or may, and nobody has looked.
    """
    moving = {
        name: function
        for name, function in (functions or {}).items()
        if function in MOTOR_FUNCTIONS or (function > 0 and function in driven)
    }
    if propellers_are_off or (functions is not None and not moving):
        return moving
    what = (
        "which motors are on this board's real outputs cannot be told"
        if functions is None
        else f"real outputs of this board move in HITL: {', '.join(f'{n} = {f}' for n, f in moving.items())}"
    )
    raise RefusedError(
        f"{what}; take the propellers off (wheels off the ground) and give --propellers-are-off, "
        "or set these outputs to 0"
    )
