"""What lies between the commanded speeds of the two sides and the servos that follow them.

GroundDriveActuatorAdapter is the seed's ("dynamics", LAV2): effects that a log of the real drive shows beside the
controller. In this order: the difference of the sides is scaled; both are brought within the side limit; each is
delayed on its own; each is multiplied with its gain. The order and what a fraction of a step of delay means (a line
between two commands) are ours: the seed leaves them open.
"""

from __future__ import annotations

import math
from collections import deque
from typing import Any

import numpy as np

from firmware_profiles.errors import UsageError
from twin.control.arrays import Arrays, checked
from twin.dynamics.base import DynamicsBase
from twin.dynamics.sampling import GROUND_DRIVE_STREAM, WorldSampler
from twin.world_params import GroundDriveWorlds

_WHOLE_STEP = 1e-9  # a delay of 3.0000000001 steps is three steps, and costs no line between two commands


def side_targets(target: Any, *, xp: Any, yaw_allocation_scale: Any, max_side_speed_rad_s: Any) -> Any:
    """Speeds of the two sides with their difference scaled, and within the limit.

    A side that would be too fast shifts both alike, so that the difference, which turns the vehicle, stays, and the
    common speed pays for it (as PX4's differential rover does).

    Args:
        target: (N, 2) left and right [rad/s].
        xp: array namespace.
        yaw_allocation_scale: (N, 1) factor of the difference.
        max_side_speed_rad_s: (N, 1).

    Returns:
        (N, 2) [rad/s].
    """
    left, right = target[:, :1], target[:, 1:]
    half = _within((right - left) * 0.5 * yaw_allocation_scale, max_side_speed_rad_s, xp)
    centre = _within((right + left) * 0.5, max_side_speed_rad_s - xp.abs(half), xp)
    return xp.concat((centre - half, centre + half), axis=1)


def _within(value: Any, limit: Any, xp: Any) -> Any:
    return xp.minimum(xp.maximum(value, -limit), limit)


class GroundDriveActuatorAdapter(DynamicsBase):
    """The adapter of N worlds; every `step` is one physics step.

    Args:
        params: of the N worlds; None is a vehicle without a ground drive.
        dt_s: length of a physics step [s].
        seed: of `randomize`.
        arrays: where the arrays live; by default NumPy, float64.

    Attributes:
        yaw_allocation_scale: (N, 1) present factors of the difference.
        side_gain: (N, 2) present gains of left and right.

    Raises:
        UsageError: the vehicle has no ground drive, or a parameter cannot be.
    """

    def __init__(
        self, params: GroundDriveWorlds | None, dt_s: float, *, seed: int = 0, arrays: Arrays | None = None
    ) -> None:
        if params is None:
            raise UsageError("ground_drive: the vehicle's parameters have none")
        n = params.max_side_speed_rad_s.shape[0]
        arrays = Arrays(n) if arrays is None else arrays
        super().__init__(arrays)
        checked("dt_s", dt_s, above=0.0)
        self._limit = arrays.spread("max_side_speed_rad_s", params.max_side_speed_rad_s, 1)
        self._nominal_scale, self._nominal_gain = params.yaw_allocation_scale, params.side_gain
        self.yaw_allocation_scale = arrays.spread("yaw_allocation_scale", params.yaw_allocation_scale, 1)
        self.side_gain = arrays.spread("side_gain", params.side_gain, 2)
        self._taps = self._taps_of(params.command_delay_s / dt_s)
        self._sampler = WorldSampler(seed, (GROUND_DRIVE_STREAM,), n)
        self._still = arrays.zeros(2)
        self._past = deque([self._still] * (1 + self._taps[-1][0]), maxlen=1 + self._taps[-1][0])
        """Commands, the newest first."""

    @classmethod
    def needed(cls, params: GroundDriveWorlds | None) -> bool:
        """Whether these parameters change anything that is within the side limit."""
        return params is not None and bool(
            (params.yaw_allocation_scale != 1).any()
            or (params.side_gain != 1).any()
            or (params.command_delay_s != 0).any()
        )

    def reset(self, worlds: Any = None) -> None:
        """Both sides standing, no command under way; what `randomize` drew stays. See `DynamicsBase.reset`."""
        chosen, where = self._chosen(worlds), self._xp.where
        for index, command in enumerate(self._past):
            self._past[index] = where(chosen, self._still, command)

    def randomize(
        self,
        worlds: Any = None,
        *,
        yaw_scale_range: tuple[float, float] = (1.0, 1.0),
        gain_range: tuple[float, float] = (1.0, 1.0),
    ) -> None:
        """Draw the yaw scale and the two gains of some worlds, uniformly, relative to the nominal vehicle.

        Args:
            worlds: see `DynamicsBase.reset`.
            yaw_scale_range: smallest and largest factor of the nominal scale.
            gain_range: of the nominal gains; left and right are drawn each for itself.

        Raises:
            UsageError: a range that is not (smallest, largest) above 0, or no such world.
        """
        for name, (low, high) in (("yaw_scale_range", yaw_scale_range), ("gain_range", gain_range)):
            checked(name, (low, high), above=0.0)
            if low > high:
                raise UsageError(f"{name}: expected smallest <= largest, got ({low:g}, {high:g})")
        rows = self._rows(worlds)
        chosen, where, spread = self._arrays.mask(rows), self._xp.where, self._arrays.spread
        shares = self._sampler.uniform(3, rows)
        scale = yaw_scale_range[0] + (yaw_scale_range[1] - yaw_scale_range[0]) * shares[:, :1]
        gain = gain_range[0] + (gain_range[1] - gain_range[0]) * shares[:, 1:]
        drawn_scale = spread("yaw_allocation_scale", self._nominal_scale * scale, 1)
        drawn_gain = spread("side_gain", self._nominal_gain * gain, 2)
        self.yaw_allocation_scale = where(chosen, drawn_scale, self.yaw_allocation_scale)
        self.side_gain = where(chosen, drawn_gain, self.side_gain)

    def step(self, target: Any) -> Any:
        """Advance one physics step.

        Args:
            target: (N, 2) ideal speeds of the left and the right output shaft [rad/s].

        Returns:
            (N, 2) speeds for the servos [rad/s].
        """
        sides = side_targets(
            target,
            xp=self._xp,
            yaw_allocation_scale=self.yaw_allocation_scale,
            max_side_speed_rad_s=self._limit,
        )
        self._past.appendleft(sides)
        lag, weight = self._taps[0]
        delayed = self._past[lag] * weight
        for lag, weight in self._taps[1:]:
            delayed = delayed + self._past[lag] * weight
        return delayed * self.side_gain

    def _taps_of(self, steps: Any) -> list[tuple[int, Any]]:
        """(steps ago, (N, 2) share) of all commands that a delay reaches: whole steps, and lines between them."""
        whole = np.round(steps)
        steps = np.where(abs(steps - whole) < _WHOLE_STEP, whole, steps)
        taps = []
        for lag in range(math.floor(steps.min()), math.ceil(steps.max()) + 1):
            share = np.maximum(0.0, 1.0 - abs(steps - lag))
            if share.any():
                taps.append((lag, self._arrays.spread("command_delay_s", share, 2)))
        return taps
