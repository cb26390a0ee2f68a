"""From a policy's output to the loop that it should enter: numbers in [-1, 1] to a target dictionary.

Source: seed "controllers" (LAV2), which names the module; the table of ranges is ours.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt

from firmware_profiles.errors import UsageError
from firmware_profiles.profile import GroundDriveParams, VehicleParams
from twin.control.arrays import Arrays, checked
from twin.control.flight_params import FlightLimits

WIDTHS = MappingProxyType(
    {"pos": 3, "vel": 3, "acc": 3, "vel_b": 3, "att_euler": 3, "att_quat": 4, "ang_vel": 3, "thrust": 1, "moment": 3}
)
"""Components of each channel; `rotor_speed` has as many as the vehicle has rotors."""


@dataclass(frozen=True, slots=True)
class ActionRange:
    """What one number of the action means.

    Attributes:
        channel: of the target dictionary.
        component: index within it.
        low, high: what -1 and 1 stand for, in the channel's unit; each broadcasts to (N, 1).

    Raises:
        UsageError: no such channel or component, or a range that is not finite.
    """

    channel: str
    component: int
    low: npt.ArrayLike
    high: npt.ArrayLike

    def __post_init__(self) -> None:
        if self.channel not in (*WIDTHS, "rotor_speed"):
            raise UsageError(f"channel: {self.channel!r}; allowed: {', '.join((*WIDTHS, 'rotor_speed'))}")
        if not 0 <= self.component < WIDTHS.get(self.channel, self.component + 1):
            raise UsageError(f"component: {self.channel} has {WIDTHS[self.channel]}, got {self.component}")
        checked("low", self.low)
        checked("high", self.high)


class ActionMapping:
    """Actions (N, A) to targets for N worlds.

    What no number of the action fills is 0. An action beyond [-1, 1] is brought back; one that is not a number counts
    as 0, the middle of its range, so that it spoils no state.

    Args:
        ranges: one for each number of the action.
        control_mask: the entry that the targets are for, as a controller takes it.
        arrays: where the arrays live; by default NumPy, float64, one world.

    Raises:
        UsageError: no range, or two for one component.
    """

    def __init__(
        self, ranges: tuple[ActionRange, ...], control_mask: str | Mapping[str, bool], arrays: Arrays | None = None
    ) -> None:
        arrays = Arrays() if arrays is None else arrays
        places = [(item.channel, item.component) for item in ranges]
        if not ranges or len(set(places)) != len(places):
            raise UsageError(f"ranges: expected at least one, and each component once, got {places}")
        self.control_mask, self.size = control_mask, len(ranges)
        self._xp, self._zero = arrays.xp, arrays.zeros(1)
        self._most = arrays.zeros(len(ranges)) + 1.0
        low = [arrays.spread("low", item.low, 1) for item in ranges]
        high = [arrays.spread("high", item.high, 1) for item in ranges]
        self._middle = arrays.xp.concat([0.5 * (a + b) for a, b in zip(low, high, strict=True)], axis=1)
        self._half = arrays.xp.concat([0.5 * (b - a) for a, b in zip(low, high, strict=True)], axis=1)
        self._columns: dict[str, list[int | None]] = {}
        for number, (channel, component) in enumerate(places):
            width = WIDTHS.get(channel, 1 + max(place[1] for place in places if place[0] == channel))
            self._columns.setdefault(channel, [None] * width)[component] = number

    def target(self, action: Any) -> dict[str, Any]:
        """The target dictionary of an action (N, A)."""
        xp = self._xp
        known = xp.where(xp.isnan(action), xp.zeros_like(action), action)
        values = self._middle + self._half * xp.minimum(xp.maximum(known, -self._most), self._most)
        return {
            channel: xp.concat(
                [self._zero if number is None else values[:, number : number + 1] for number in numbers], axis=1
            )
            for channel, numbers in self._columns.items()
        }


def flight_mapping(
    mode: str, vehicle: VehicleParams, limits: FlightLimits | None = None, arrays: Arrays | None = None
) -> ActionMapping:
    """The usual mapping for an entry of the flight controllers: ranges from the vehicle and the controller's limits.

    `cmd_vel`: velocity and yaw rate. `cmd_acc`: acceleration and yaw rate. `cmd_ctatt`: thrust, roll, pitch, yaw.
    `cmd_ctbr`: thrust and rates. `cmd_ctbm`: thrust and moments, up to those of half of the rotors against the others.
    `cmd_motor_speeds`: one number for each rotor.

    Raises:
        UsageError: no such entry.
    """
    limits = FlightLimits() if limits is None else limits
    propeller = vehicle.flying_propeller()
    most = propeller.max_speed_rad_s
    rotor_n, rotor_nm = propeller.thrust_coefficient_n_s2 * most**2, propeller.torque_coefficient_nm_s2 * most**2
    count = len(propeller.rotors)
    thrust = ActionRange("thrust", 0, 0.0, count * rotor_n)
    rates = np.broadcast_to(np.asarray(limits.rates_rad_s, dtype=np.float64), (1, 3))[0].tolist()
    turn = _symmetric("ang_vel", 2, rates[2])
    horizontal = (limits.horizontal_speed_m_s, limits.horizontal_acc_m_s2)
    sums = [0.5 * rotor_n * sum(abs(rotor.position_flu_m[axis]) for rotor in propeller.rotors) for axis in (1, 0)]
    moments = (*sums, 0.5 * rotor_nm * count)
    known: dict[str, tuple[ActionRange, ...]] = {
        "cmd_vel": (
            *(_symmetric("vel", axis, horizontal[0]) for axis in (0, 1)),
            ActionRange("vel", 2, np.negative(limits.sink_m_s), limits.climb_m_s),
            turn,
        ),
        "cmd_acc": (
            *(_symmetric("acc", axis, horizontal[1]) for axis in (0, 1)),
            ActionRange("acc", 2, np.negative(limits.down_acc_m_s2), limits.up_acc_m_s2),
            turn,
        ),
        "cmd_ctatt": (
            thrust,
            *(_symmetric("att_euler", axis, limits.tilt_rad) for axis in (0, 1)),
            _symmetric("att_euler", 2, np.pi),
        ),
        "cmd_ctbr": (thrust, *(_symmetric("ang_vel", axis, rates[axis]) for axis in range(3))),
        "cmd_ctbm": (thrust, *(_symmetric("moment", axis, moments[axis]) for axis in range(3))),
        "cmd_motor_speeds": tuple(ActionRange("rotor_speed", rotor, 0.0, most) for rotor in range(count)),
    }
    return _chosen(mode, known, arrays)


def drive_mapping(mode: str, drive: GroundDriveParams, arrays: Arrays | None = None) -> ActionMapping:
    """The usual mapping for the drive: forward speed, and heading (`cmd_ctatt`) or yaw rate (`cmd_ctbr`).

    Raises:
        UsageError: no such entry.
    """
    speed = _symmetric("vel_b", 0, drive.max_speed_m_s)
    known: dict[str, tuple[ActionRange, ...]] = {
        "cmd_ctatt": (speed, _symmetric("att_euler", 2, np.pi)),
        "cmd_ctbr": (speed, _symmetric("ang_vel", 2, drive.max_yaw_rate_rad_s)),
    }
    return _chosen(mode, known, arrays)


def _symmetric(channel: str, component: int, size: npt.ArrayLike) -> ActionRange:
    return ActionRange(channel, component, np.negative(size), size)


def _chosen(mode: str, known: dict[str, tuple[ActionRange, ...]], arrays: Arrays | None) -> ActionMapping:
    if mode not in known:
        raise UsageError(f"mode: {mode!r}; allowed: {', '.join(known)}")
    channels = {item.channel for item in known[mode]}
    return ActionMapping(known[mode], dict.fromkeys(channels, True), arrays)
