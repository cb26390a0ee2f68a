"""Rotors: speed commands to speeds, thrusts and reaction torques.

A first-order response with separate time constants for rise and fall, solved exactly over the step, then a limit on
the change of speed; f = c_T w^2; tau = d (c_M w^2 + J dw/dt), so a rotor that spins up pushes back harder.
Source: seed "dynamics" (LAV2); the filter is PX4-SITL_gazebo-classic's FirstOrderFilter, the motor's own inertia as in
muellerlab/xadapt_ctrl motor.py.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from firmware_profiles.derived import RPM_PER_RAD_S
from firmware_profiles.errors import UsageError
from twin.control.arrays import Arrays
from twin.dynamics.base import DynamicsBase
from twin.world_params import WorldParams

FloatArray = npt.NDArray[np.float64]
Response = Literal["exact", "euler"]


def rotor_step(
    target: Any,
    speed: Any,
    *,
    xp: Any,
    rise_gain: Any,
    fall_gain: Any,
    max_rise: Any,
    max_fall: Any,
    thrust_coefficient: Any,
    reaction_coefficient: Any,
    spin_up_coefficient: Any,
) -> tuple[Any, Any, Any]:
    """One step of all rotors, in any array namespace; a parameter may also be a plain number.

    Args:
        target: (N, R) commanded speeds [rad/s], within 0 and the largest speed: the new speed lies between old and
            target, so it needs no limit of its own.
        speed: (N, R) speeds before the step [rad/s].
        xp: the array namespace (numpy, torch, ...).
        rise_gain: (N, 1) share of the difference that a step removes when speeding up, 1 - exp(-dt / tau).
        fall_gain: (N, 1) the same when slowing down.
        max_rise: (N, 1) largest increase of speed in a step [rad/s].
        max_fall: (N, 1) minus the largest decrease [rad/s].
        thrust_coefficient: (N, 1) c_T [N/(rad/s)^2].
        reaction_coefficient: (N, R) d c_M [N m/(rad/s)^2].
        spin_up_coefficient: (N, R) d J / dt [N m/(rad/s)].

    Returns:
        Speeds after the step (N, R), thrusts along +z body [N] (N, R), torques about +z body [N m] (N, R).
    """
    # Not every namespace compares an array with a number, or chooses between two numbers in the array's precision.
    rise_gain, fall_gain, max_rise, max_fall = (
        xp.asarray(value, dtype=speed.dtype, device=speed.device) if isinstance(value, float | int) else value
        for value in (rise_gain, fall_gain, max_rise, max_fall)
    )
    return _step(
        target,
        speed,
        xp,
        rise_gain,
        fall_gain,
        max_rise,
        max_fall,
        thrust_coefficient,
        reaction_coefficient,
        spin_up_coefficient,
    )


def _step(
    target: Any,
    speed: Any,
    xp: Any,
    rise_gain: Any,
    fall_gain: Any,
    max_rise: Any,
    max_fall: Any,
    thrust_coefficient: Any,
    reaction_coefficient: Any,
    spin_up_coefficient: Any,
) -> tuple[Any, Any, Any]:
    """`rotor_step` of arrays only, which the live loop calls directly."""
    error = target - speed
    change = error * xp.where(error > 0, rise_gain, fall_gain)
    change = xp.minimum(xp.maximum(change, max_fall), max_rise)
    new = speed + change
    square = new * new
    return new, thrust_coefficient * square, reaction_coefficient * square + spin_up_coefficient * change


def exact_gain(dt_s: float, time_constant_s: FloatArray) -> FloatArray:
    """Share of a difference that a first-order lag removes in dt, exactly; 1 for a time constant of 0."""
    with np.errstate(divide="ignore", over="ignore"):
        return np.asarray(-np.expm1(-dt_s / time_constant_s))


def euler_gain(dt_s: float, time_constant_s: FloatArray) -> FloatArray:
    """The same as one explicit Euler step has it: dt / tau, at most 1."""
    with np.errstate(divide="ignore", over="ignore"):
        return np.asarray(np.minimum(dt_s / time_constant_s, 1.0))


_GAINS = {"exact": exact_gain, "euler": euler_gain}


class RotorDynamics(DynamicsBase):
    """`rotor_step` with its state and its parameters bound: the speeds of (N, R) rotors.

    `update` is the seed's interface, revolutions per minute in and one array out; `limit` and `step` are the same model
    in rad/s and into memory that is given, which the live loop uses.

    Args:
        params: parameters of the N worlds.
        spin_dir: of the R rotors, +1 clockwise seen from above, -1 counter-clockwise.
        dt_s: length of a step [s].
        response: "exact" solves the lag over the step, "euler" takes one explicit step.
        arrays: where the arrays live; by default NumPy, float64.

    Raises:
        UsageError: a spin direction, a step or a response that cannot be.
    """

    def __init__(
        self,
        params: WorldParams,
        spin_dir: npt.ArrayLike,
        dt_s: float,
        *,
        response: Response = "exact",
        arrays: Arrays | None = None,
    ) -> None:
        arrays = Arrays(params.n) if arrays is None else arrays
        super().__init__(arrays)
        if response not in _GAINS:
            raise UsageError(f"response: expected {' or '.join(map(repr, _GAINS))}, got {response!r}")
        if not 0.0 < dt_s < float("inf"):
            raise UsageError(f"dt_s: expected a finite step above 0, got {dt_s!r}")
        spin = np.asarray(spin_dir, dtype=np.float64)
        if spin.ndim != 1 or not np.isin(spin, (-1.0, 1.0)).all():
            raise UsageError(f"spin_dir: expected 1 (clockwise) and -1 for each rotor, got {spin.tolist()}")
        self.count = spin.shape[0]
        gain = _GAINS[response]
        coefficients = {
            "rise_gain": gain(dt_s, params.rise_time_constant_s),
            "fall_gain": gain(dt_s, params.fall_time_constant_s),
            "max_rise": params.max_rise_rad_s2 * dt_s,
            "max_fall": -params.max_fall_rad_s2 * dt_s,
            "thrust_coefficient": params.thrust_coefficient_n_s2,
            "reaction_coefficient": spin * params.torque_coefficient_nm_s2,
            "spin_up_coefficient": spin * params.motor_inertia_kg_m2 / dt_s,
        }
        # Spread out to (N, R) once: NumPy broadcasts at three times the price of equal shapes.
        spread = arrays.spread
        self._bound = {name: spread(name, value, self.count) for name, value in coefficients.items()} | {"xp": self._xp}
        self._max_speed = spread("max_speed_rad_s", params.max_speed_rad_s, self.count)
        self._zero = arrays.zeros(self.count)
        self.speed_rad_s: Any = arrays.zeros(self.count)
        """(N, R) present speeds [rad/s]."""

    @property
    def speed_rpm(self) -> Any:
        """(N, R) present speeds [RPM]."""
        return self.speed_rad_s * RPM_PER_RAD_S

    def reset(self, worlds: Any = None, speed_rpm: npt.ArrayLike = 0.0) -> None:
        """Rotors at rest, or at an initial speed, such as the vehicle's `derived.hover_rpm`.

        Args:
            worlds: see `DynamicsBase.reset`.
            speed_rpm: what broadcasts to (N, R) [RPM]; brought within 0 and the largest speed.
        """
        initial = self.limit(self._arrays.spread("speed_rpm", speed_rpm, self.count) / RPM_PER_RAD_S)
        self.speed_rad_s = self._xp.where(self._chosen(worlds), initial, self.speed_rad_s)

    def limit(self, command_rad_s: Any) -> Any:
        """(N, R) commands brought within 0 and the largest speed [rad/s]."""
        return self._xp.minimum(self._xp.maximum(command_rad_s, self._zero), self._max_speed)

    def step(self, target_rad_s: FloatArray, out: FloatArray) -> None:
        """Advance one step and write thrusts, then torques, into `out` (libraries whose arrays can be written to).

        Args:
            target_rad_s: (N, R) speed commands as `limit` gives them [rad/s].
            out: (N, 2R) or wider, its first columns filled with R thrusts [N] and R torques [N m].
        """
        r = self.count
        self.speed_rad_s, out[:, :r], out[:, r : 2 * r] = _step(target_rad_s, self.speed_rad_s, **self._bound)

    def update(self, command_rpm: Any) -> Any:
        """Advance one step.

        Args:
            command_rpm: (N, R) speed commands [RPM]; brought within 0 and the largest speed.

        Returns:
            (N, 2R): R thrusts along +z body [N], then R reaction torques about +z body [N m].
        """
        target = self.limit(command_rpm / RPM_PER_RAD_S)
        self.speed_rad_s, thrust, torque = _step(target, self.speed_rad_s, **self._bound)
        return self._xp.concat((thrust, torque), axis=1)
