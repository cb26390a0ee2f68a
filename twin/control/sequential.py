"""PX4's control allocation with sequential desaturation, in PX4's own normalised quantities.

Roll, pitch and thrust are mixed first; where an actuator is beyond its limits, thrust, then roll, then pitch are taken
back along their own columns; yaw comes last and gives way first. Source: PX4 src/lib/control_allocation
(ControlAllocationPseudoInverse, ControlAllocationSequentialDesaturation), restated; frames are PX4's: FRD, thrust along
z is negative.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from firmware_profiles.errors import UsageError
from twin.control.arrays import Arrays, checked

AIRMODES = (0, 1, 2)
"""MC_AIRMODE: disabled; roll and pitch; roll, pitch and yaw: what may raise the collective thrust."""

ROLL, PITCH, YAW, THRUST_Z = 0, 1, 2, 5
_WEAK = 0.2
"""An actuator that moves less than this along a column takes no part in desaturating along it."""
_SMALL = 1e-3
"""Entries of the mix below this are zero."""
_FLT_EPSILON = 1.1920929e-07
_YAW_MARGIN = 0.15
"""Yaw may exceed the upper limit by this share of the range, at the cost of thrust afterwards."""


def effectiveness_frd(positions_frd_m: npt.ArrayLike, moment_ratio: npt.ArrayLike) -> npt.NDArray[np.float64]:
    """(..., 6, R) moments and forces of R rotors that push up with unit thrust.

    Args:
        positions_frd_m: (..., R, 3) CA_ROTORi_PX, _PY, _PZ.
        moment_ratio: (R,) or (..., R) CA_ROTORi_KM: positive is counter-clockwise seen from above.
    """
    position = np.asarray(positions_frd_m, dtype=np.float64)
    x, y = position[..., 0], position[..., 1]
    nothing = np.zeros_like(x)
    rows = (-y, x, np.asarray(moment_ratio, dtype=np.float64) + nothing, nothing, nothing, nothing - 1.0)
    return np.stack(rows, axis=-2)


def normalised_mix(
    effectiveness: npt.ArrayLike, normalise_rpy: bool = True
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """The pseudo-inverse brought to PX4's normalised set-points.

    Args:
        effectiveness: (..., 6, R).
        normalise_rpy: whether the moments are normalised as well; PX4 does so for multirotors.

    Returns:
        The mix (..., R, 6), and the (..., 6) scales by which its columns were divided.
    """
    mix = np.linalg.pinv(np.asarray(effectiveness, dtype=np.float64))
    scale = np.ones((*mix.shape[:-2], 6))
    if normalise_rpy:
        used = np.abs(mix[..., :2]) > _SMALL
        half = np.maximum(used.sum(axis=-2), 1) / 2.0
        root = np.sqrt((mix[..., :2] ** 2).sum(axis=-2) / half)
        scale[..., :2] = np.where(used.any(axis=-2), root, 1.0).max(axis=-1, keepdims=True)
        scale[..., YAW] = mix[..., YAW].max(axis=-1)
    size = np.abs(mix[..., 3:])
    used = size > _FLT_EPSILON
    means = size.sum(axis=-2) / np.maximum(used.sum(axis=-2), 1)
    along_z = np.where(used[..., 2].any(axis=-1), means[..., 2], 1.0)[..., None]
    scale[..., 3:] = np.where(used.any(axis=-2), means, along_z)
    mix = mix / np.where(scale > _FLT_EPSILON, scale, 1.0)[..., None, :]
    return np.where(np.abs(mix) < _SMALL, 0.0, mix), scale


class _Column:
    """One column of the mix, and how far to go along it until no actuator is beyond its limits."""

    def __init__(self, mix: npt.NDArray[np.float64], index: int, arrays: Arrays) -> None:
        column = mix[..., index]
        strong = np.abs(column) >= _WEAK
        self._xp = arrays.xp
        self.direction = arrays.spread("mix", column, column.shape[-1])
        self._per_direction = arrays.spread(
            "mix", np.where(strong, 1.0 / np.where(strong, column, 1.0), 0.0), column.shape[-1]
        )

    def desaturate(self, actuator: Any, zero: Any, top: Any, *, forward_only: bool = False) -> Any:
        """The actuators moved along the column; once whole, then by half of what is left.

        Args:
            actuator: (N, R).
            zero: (N, R) lower limits.
            top: (N, R) upper limits.
            forward_only: whether a move against the column is refused; along the thrust column, forward is less thrust.
        """
        gain = self._gain(actuator, zero, top)
        moved = actuator + gain * self.direction
        moved = moved + 0.5 * self._gain(moved, zero, top) * self.direction
        return self._xp.where(gain < 0, actuator, moved) if forward_only else moved

    def _gain(self, actuator: Any, zero: Any, top: Any) -> Any:
        xp = self._xp
        beyond = xp.where(actuator > top, top - actuator, xp.where(actuator < zero, zero - actuator, zero))
        each = beyond * self._per_direction
        least, most = xp.min(each, axis=1, keepdims=True), xp.max(each, axis=1, keepdims=True)
        nothing = zero[:, 0:1]
        return xp.minimum(least, nothing) + xp.maximum(most, nothing)


class SequentialAllocation:
    """Normalised set-points to R actuators in [0, 1], for N worlds.

    Args:
        mix: (R, 6) or (N, R, 6), see `normalised_mix`.
        airmode: MC_AIRMODE.
        arrays: where the arrays live; by default NumPy, float64, one world.

    Raises:
        UsageError: a mix of another shape, or no such airmode.
    """

    def __init__(self, mix: npt.ArrayLike, airmode: int = 0, arrays: Arrays | None = None) -> None:
        arrays = Arrays() if arrays is None else arrays
        plain = np.asarray(mix, dtype=np.float64)
        if plain.ndim not in (2, 3) or plain.shape[-1] != 6:
            raise UsageError(f"mix: expected (R, 6) or (N, R, 6), got {plain.shape}")
        checked("mix", plain)
        if airmode not in AIRMODES:
            raise UsageError(f"airmode: {airmode!r}; allowed: {', '.join(map(str, AIRMODES))}")
        self.airmode = airmode
        rotors = plain.shape[-2]
        self._zero = arrays.zeros(rotors)
        self._one = self._zero + 1.0
        self._yaw_top = self._one + _YAW_MARGIN
        self._roll, self._pitch, self._yaw, self._thrust = (
            _Column(plain, index, arrays) for index in (ROLL, PITCH, YAW, THRUST_Z)
        )

    def allocate(self, control: Any) -> Any:
        """(N, 4) roll, pitch, yaw and thrust along z (up is negative) to actuators (N, R), not yet cut to [0, 1]."""
        zero, one, thrust = self._zero, self._one, self._thrust
        roll, pitch, yaw = self._roll, self._pitch, self._yaw
        turn = control[:, 2:3] * yaw.direction
        actuator = control[:, 0:1] * roll.direction + control[:, 1:2] * pitch.direction
        actuator = actuator + control[:, 3:4] * thrust.direction
        if self.airmode == 2:
            return yaw.desaturate(thrust.desaturate(actuator + turn, zero, one), zero, one)
        if self.airmode == 1:
            actuator = thrust.desaturate(actuator, zero, one)
        else:
            actuator = thrust.desaturate(actuator, zero, one, forward_only=True)
            actuator = roll.desaturate(actuator, zero, one)
            actuator = pitch.desaturate(actuator, zero, one)
        actuator = yaw.desaturate(actuator + turn, zero, self._yaw_top)
        return thrust.desaturate(actuator, zero, one, forward_only=True)
