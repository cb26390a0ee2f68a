"""The mixer: thrust and moments to rotor speeds.

In FLU, with rotor i at (x, y) and turning in direction d (+1 clockwise seen from above):
T = sum c_T w^2, tau_x = sum y c_T w^2, tau_y = -sum x c_T w^2, tau_z = sum d c_M w^2. The allocation is the
pseudo-inverse of that. Source: seed "controllers" (LAV2); the details of `saturation` are ours.
"""

from __future__ import annotations

import math
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from firmware_profiles.errors import UsageError
from firmware_profiles.profile import VehicleParams
from twin.control.arrays import Arrays, checked
from twin.control.sequential import PITCH, ROLL, THRUST_Z, YAW, SequentialAllocation, normalised_mix

AllocationMode = Literal["pinv", "saturation", "px4"]
ALLOCATION_MODES: tuple[AllocationMode, ...] = ("pinv", "saturation", "px4")

RPM_PER_RAD_S = 30.0 / math.pi


class Mixer:
    """Allocation of N wrenches to R rotors.

    `pinv`: squared speeds from the pseudo-inverse, cut to what the rotors can do. `saturation`: roll and pitch first,
    about the mean squared speed; they are scaled down together until all rotors can follow, so thrust stays and so
    does the direction of the moment; then as much of the yaw moment as fits. Both give the same where both the whole
    and the whole without yaw fit. `px4`: PX4's sequential desaturation (`sequential`) of the squared speeds; the same
    again where all fits, but for PX4's habit of taking entries of the mix below a thousandth for zero.

    Args:
        rotor_xy_m: (R, 2) hubs from the centre of mass, FLU; or (N, R, 2).
        spin_dir: (R,) +1 clockwise seen from above, -1 counter-clockwise.
        thrust_coefficient_n_s2: c_T; a number, or what broadcasts to (N, 1). The others likewise.
        torque_coefficient_nm_s2: c_M.
        max_speed_rad_s: largest speed.
        allocation_mode: see above.
        airmode: of `px4`, MC_AIRMODE.
        arrays: where the arrays live; by default NumPy, float64, one world.

    Attributes:
        allocation_mode: as given.
        rotors: their number R.

    Raises:
        UsageError: a parameter that cannot be, or rotors that cannot give all of thrust, roll, pitch and yaw.
    """

    def __init__(
        self,
        *,
        rotor_xy_m: npt.ArrayLike,
        spin_dir: npt.ArrayLike,
        thrust_coefficient_n_s2: npt.ArrayLike,
        torque_coefficient_nm_s2: npt.ArrayLike,
        max_speed_rad_s: npt.ArrayLike,
        allocation_mode: AllocationMode = "pinv",
        airmode: int = 0,
        arrays: Arrays | None = None,
    ) -> None:
        arrays = Arrays() if arrays is None else arrays
        if allocation_mode not in ALLOCATION_MODES:
            raise UsageError(f"allocation_mode: {allocation_mode!r}; allowed: {', '.join(ALLOCATION_MODES)}")
        for name, value in (
            ("thrust_coefficient_n_s2", thrust_coefficient_n_s2),
            ("torque_coefficient_nm_s2", torque_coefficient_nm_s2),
            ("max_speed_rad_s", max_speed_rad_s),
        ):
            checked(name, value, above=0.0)
        forward = _effectiveness(rotor_xy_m, spin_dir, thrust_coefficient_n_s2, torque_coefficient_nm_s2)
        self.allocation_mode = allocation_mode
        self.rotors = rotors = forward.shape[-1]
        self._xp = arrays.xp
        if forward.ndim == 3 and forward.shape[0] == 1:
            forward = forward[0]
        backward = np.swapaxes(_inverse(forward), -1, -2)  # (..., 4, R): u = wrench @ this
        self._forward = arrays.array(np.swapaxes(forward, -1, -2))
        self._per_world = backward.ndim == 3
        if self._per_world and backward.shape[0] != arrays.n:
            raise UsageError(f"rotors: parameters of {backward.shape[0]} worlds, expected {arrays.n}")
        most = np.asarray(max_speed_rad_s, dtype=np.float64) ** 2
        self._most = arrays.spread("max_speed_rad_s", most, rotors)
        self._top_speed = arrays.spread("max_speed_rad_s", max_speed_rad_s, rotors)
        self._zero, self._none, self._one = arrays.zeros(rotors), arrays.zeros(1), arrays.zeros(1) + 1.0
        # A rotor at its limit leaves no room; but what is only a rounding error must not count as a wish for more.
        slack = self._most * (4.0 * float(arrays.xp.finfo(self._most.dtype).eps))
        self._slack, self._most_and_slack, self._tiny = slack, self._most + slack, self._most * 1e-30
        if allocation_mode == "saturation":
            level, yaw = backward.copy(), np.zeros_like(backward)
            level[..., 3, :] = 0.0
            yaw[..., 3, :] = backward[..., 3, :]
            mean = np.broadcast_to(level.mean(axis=-1, keepdims=True), level.shape)
            backward = np.concatenate((mean, level - mean, yaw), axis=-1)
        self._backward = arrays.array(backward)
        self._sequential: tuple[SequentialAllocation, Any] | None = None
        if allocation_mode == "px4":
            mix, normalise = _px4_mix(forward, np.asarray(thrust_coefficient_n_s2, dtype=np.float64), most)
            self._sequential = SequentialAllocation(mix, airmode, arrays), arrays.spread("rotors", normalise, 4)

    @classmethod
    def of(cls, vehicle: VehicleParams, **options: Any) -> Mixer:
        """For a vehicle; `options` are the constructor's, and replace what the vehicle says."""
        propeller = vehicle.flying_propeller()
        known: dict[str, Any] = {
            "rotor_xy_m": [rotor.position_flu_m[:2] for rotor in propeller.rotors],
            "spin_dir": [rotor.spin_dir for rotor in propeller.rotors],
            "thrust_coefficient_n_s2": propeller.thrust_coefficient_n_s2,
            "torque_coefficient_nm_s2": propeller.torque_coefficient_nm_s2,
            "max_speed_rad_s": propeller.max_speed_rad_s,
        }
        return cls(**(known | options))

    def allocate(self, wrench: Any) -> Any:
        """Rotor speeds (N, R) [rad/s] for wrenches (N, 4): thrust [N], moments about the FLU axes [N m]."""
        xp, most = self._xp, self._most
        if self._sequential is not None:
            allocation, normalise = self._sequential
            squared = allocation.allocate(xp.concat((wrench[:, 1:4], wrench[:, 0:1]), axis=1) * normalise) * most
            return xp.sqrt(xp.minimum(xp.maximum(squared, self._zero), most))
        squared = self._times(wrench, self._backward)
        if self.allocation_mode == "saturation":
            r = self.rotors
            parts, level = squared, squared[:, :r] + squared[:, r : 2 * r]
            squared = level + squared[:, 2 * r :]
            low, high = xp.minimum(level, squared), xp.maximum(level, squared)
            # Mostly everything fits, and nothing need be given up. Both must: where yaw happens to make room for roll,
            # roll is trimmed all the same, whatever the other worlds of the batch do.
            if not bool(xp.all((low >= self._zero) & (high <= most))):
                squared = self._saturated(parts)
        return xp.sqrt(xp.minimum(xp.maximum(squared, self._zero), most))

    def allocate_rpm(self, wrench: Any) -> Any:
        """The same in revolutions per minute, as the seeds have it."""
        return self.allocate(wrench) * RPM_PER_RAD_S

    def within(self, speed_rad_s: Any) -> Any:
        """Rotor speeds (N, R) [rad/s], or one row for all, brought within their limits."""
        xp = self._xp
        return xp.minimum(xp.maximum(speed_rad_s, self._zero), self._top_speed)

    def wrench_of(self, speed_rad_s: Any) -> Any:
        """Wrenches (N, 4) that the rotors give at steady speeds (N, R) [rad/s]: what of a demand was met."""
        return self._times(speed_rad_s * speed_rad_s, self._forward)

    def _times(self, rows: Any, matrix: Any) -> Any:
        if self._per_world:
            return self._xp.matmul(rows[:, None, :], matrix)[:, 0, :]
        return self._xp.matmul(rows, matrix)

    def _saturated(self, parts: Any) -> Any:
        """(N, 3R) mean, deviation for roll and pitch, and yaw part of the squared speeds, to those that fit."""
        xp, most, zero, r = self._xp, self._most, self._zero, self.rotors
        mean = xp.minimum(xp.maximum(parts[:, :r], zero), most)
        deviation, yaw = parts[:, r : 2 * r], parts[:, 2 * r :]
        level = mean + deviation * self._share(mean, deviation)
        return level + yaw * self._share(level, yaw)

    def _share(self, base: Any, part: Any) -> Any:
        """(N, 1) the largest share of `part` that can be added to `base` without leaving 0 to most, at most 1."""
        xp = self._xp
        part = xp.copysign(xp.maximum(abs(part), self._tiny), part)
        # Of the shares at which a rotor reaches its two limits, the one ahead is not negative.
        each = xp.maximum((self._most_and_slack - base) / part, -(base + self._slack) / part)
        share = self._one
        for rotor in range(self.rotors):  # NumPy's reductions take far longer than this
            share = xp.minimum(share, each[:, rotor : rotor + 1])
        return xp.maximum(share, self._none)


def _effectiveness(
    rotor_xy_m: npt.ArrayLike, spin_dir: npt.ArrayLike, thrust_coefficient: npt.ArrayLike, torque: npt.ArrayLike
) -> npt.NDArray[np.float64]:
    """(4, R) or (N, 4, R) that takes squared speeds to wrenches."""
    xy, spin = np.asarray(rotor_xy_m, dtype=np.float64), np.asarray(spin_dir, dtype=np.float64)
    if xy.ndim not in (2, 3) or xy.shape[-1] != 2 or spin.shape != xy.shape[-2:-1]:
        raise UsageError(f"rotor_xy_m, spin_dir: expected (R, 2) and (R,), got {xy.shape} and {spin.shape}")
    if not np.isin(spin, (-1.0, 1.0)).all():
        raise UsageError(f"spin_dir: expected 1 (clockwise) and -1, got {spin.tolist()}")
    checked("rotor_xy_m", xy)
    c_t, c_m = (np.asarray(value, dtype=np.float64) for value in (thrust_coefficient, torque))
    x, y = xy[..., 0], xy[..., 1]
    rows = np.broadcast_arrays(c_t + 0.0 * x, c_t * y, -c_t * x, c_m * spin + 0.0 * x)
    return np.stack(rows, axis=-2)


def _px4_mix(
    forward: npt.NDArray[np.float64], thrust_coefficient: npt.NDArray[np.float64], most: npt.NDArray[np.float64]
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """PX4's mix (..., R, 6), and (..., 4) what takes (roll, pitch, yaw, thrust) in SI and FLU to its set-points."""
    c_t = thrust_coefficient[..., None] if thrust_coefficient.ndim else thrust_coefficient
    thrust, roll, pitch, yaw = np.moveaxis(forward / c_t, -2, 0)
    nothing = np.zeros_like(thrust)
    mix, scale = normalised_mix(np.stack((roll, -pitch, -yaw, nothing, nothing, -thrust), axis=-2))
    signs = np.array([1.0, -1.0, -1.0, -1.0])
    return mix, scale[..., [ROLL, PITCH, YAW, THRUST_Z]] * signs / (thrust_coefficient * most)


def _inverse(forward: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """(..., R, 4) pseudo-inverse; rows are brought to one size first, for thrust and yaw differ by a hundred."""
    size = np.linalg.norm(forward, axis=-1, keepdims=True)
    scaled = forward / np.where(size > 0.0, size, 1.0)
    if (np.linalg.matrix_rank(scaled) < 4).any():
        raise UsageError("rotors: their places and directions do not give all of thrust, roll, pitch and yaw")
    return np.asarray(np.linalg.pinv(scaled) / np.swapaxes(size, -1, -2))
