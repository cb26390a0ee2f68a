"""Thrusters: thrust commands to thrusts, through a first-order response of the rotor's speed.

Source: Isaac Lab 3.0.0 isaaclab_contrib actuators (thruster.py), seed "thruster actuator"; facts in docs/models.md.
Different from it: a reset keeps the guard of k_f, so that no thrust becomes NaN; the state is not the array that is
handed out; "exact" is a third way of integrating.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from firmware_profiles.errors import UsageError
from twin.control.arrays import Arrays, checked
from twin.dynamics.base import DynamicsBase
from twin.dynamics.sampling import THRUSTER_STREAM, WorldSampler
from twin.dynamics.thruster_config import ThrusterCfg

SMALLEST_THRUST_CONST = 1e-6
"""What a k_f of 0 counts as: thrust is divided by it."""


@dataclass(slots=True)
class MultiRotorActions:
    """Thrusts for some thrusters.

    Attributes:
        thrusts: (N, M) [N].
        thruster_indices: which of the vehicle's they are for; None is all.
    """

    thrusts: Any
    thruster_indices: slice | Sequence[int] | None = None


def rate_of_lag(tau_s: Any, dt_s: float) -> Any:
    """The continuous mixing factor 1 / tau [1/s]: a lag of tau."""
    return 1.0 / tau_s


def rate_of_lag_and_step(tau_s: Any, dt_s: float) -> Any:
    """The discrete mixing factor 1 / (tau + dt) [1/s]: with Euler backward Euler, otherwise a lag of tau + dt."""
    return 1.0 / (tau_s + dt_s)


def euler_step(error: Any, *, xp: Any, mixing: Any, max_rate: Any, dt_s: float) -> Any:
    """Change of speed in a step [rps] under an error of speed [rps], by one explicit Euler step."""
    return _rate(error, xp, mixing, max_rate) * dt_s


def rk4_step(error: Any, *, xp: Any, mixing: Any, max_rate: Any, dt_s: float) -> Any:
    """The same by the classical Runge-Kutta method; the error shrinks by what the stage before gained.

    The first published release added that instead, which overshoots from dt = 0.69 tau on.
    """
    k1 = _rate(error, xp, mixing, max_rate)
    k2 = _rate(error - 0.5 * dt_s * k1, xp, mixing, max_rate)
    k3 = _rate(error - 0.5 * dt_s * k2, xp, mixing, max_rate)
    k4 = _rate(error - dt_s * k3, xp, mixing, max_rate)
    return (dt_s / 6.0) * (k1 + 2.0 * k2 + 2.0 * k3 + k4)


def exact_step(error: Any, *, xp: Any, mixing: Any, max_rate: Any, dt_s: float) -> Any:
    """The same solved: a ramp at the largest rate while the error is large, then an exponential."""
    size = xp.abs(error)
    ramp_s = xp.maximum(size - max_rate / mixing, xp.zeros_like(size)) / max_rate
    ramp_s = xp.minimum(ramp_s, xp.zeros_like(size) + dt_s)
    left = (size - ramp_s * max_rate) * xp.exp(-mixing * (dt_s - ramp_s))
    return xp.sign(error) * (size - left)


def _rate(error: Any, xp: Any, mixing: Any, max_rate: Any) -> Any:
    return xp.minimum(xp.maximum(mixing * error, -max_rate), max_rate)


_STEPS: dict[str, Callable[..., Any]] = {"euler": euler_step, "rk4": rk4_step, "exact": exact_step}


def thruster_step(
    command: Any,
    thrust: Any,
    *,
    xp: Any,
    tau_inc_s: Any,
    tau_dec_s: Any,
    thrust_const: Any,
    mixing_factor: Callable[[Any, float], Any],
    speed_step: Callable[..., Any],
    max_rate: Any,
    dt_s: float,
) -> Any:
    """One step of all thrusters, in any array namespace; all arrays (N, M).

    Args:
        command: thrust wanted [N], within the thrusters' range.
        thrust: present thrust [N].
        xp: array namespace.
        tau_inc_s: time constant of a growing thrust [s].
        tau_dec_s: of one that shrinks towards 0 [s]; from 0, or at the command, the other one holds.
        thrust_const: k_f [N/rps^2], above 0.
        mixing_factor: `rate_of_lag` or `rate_of_lag_and_step`.
        speed_step: `euler_step`, `rk4_step` or `exact_step`.
        max_rate: largest change of speed [rps/s].
        dt_s: length of the step [s].

    Returns:
        Thrusts after the step [N]; at least 0, as a speed has no sign here.
    """
    shrinking = xp.sign(thrust) * xp.sign(command - thrust) < 0
    mixing = mixing_factor(xp.where(shrinking, tau_dec_s, tau_inc_s), dt_s)
    zero = xp.zeros_like(thrust)
    speed = xp.sqrt(xp.maximum(thrust / thrust_const, zero))
    wanted = xp.sqrt(xp.maximum(command / thrust_const, zero))
    speed = speed + speed_step(wanted - speed, xp=xp, mixing=mixing, max_rate=max_rate, dt_s=dt_s)
    return thrust_const * speed * speed


class Thruster(DynamicsBase):
    """A group of M thrusters in N worlds, each with its own time constants and k_f, drawn at every reset.

    Args:
        cfg: of the group.
        thruster_names: their names.
        thruster_ids: which of the vehicle's thrusters they are; `slice(None)` is all of them.
        num_envs: number of worlds N.
        device: of the array library; None is its default.
        init_thruster_rps: initial rotor speed [rps], what broadcasts to (N, M).
        xp: array namespace.
        dtype: "float64" or "float32".
        seed: of the draws; a world's do not depend on the others.
        group: number of the group among the vehicle's; different groups draw independently.

    Attributes:
        tau_inc_s, tau_dec_s: (N, M) [s].
        thrust_const: (N, M) k_f [N/rps^2].
        curr_thrust: (N, M) the state [N].
        computed_thrust: (N, M) of the last step [N].
        applied_thrust: (N, M) the same within `thrust_range` [N].

    Raises:
        UsageError: shapes that do not fit, a negative initial speed or seed.
    """

    def __init__(
        self,
        cfg: ThrusterCfg,
        thruster_names: Sequence[str],
        thruster_ids: slice | Sequence[int],
        num_envs: int,
        device: Any,
        init_thruster_rps: npt.ArrayLike,
        *,
        xp: Any = np,
        dtype: str = "float64",
        seed: int = 0,
        group: int = 0,
    ) -> None:
        arrays = Arrays(num_envs, xp, dtype, device)
        super().__init__(arrays)
        self.cfg = cfg
        self.thruster_names = tuple(thruster_names)
        self.thruster_indices = thruster_ids if isinstance(thruster_ids, slice) else tuple(thruster_ids)
        count = len(self.thruster_names)
        if not count or (isinstance(self.thruster_indices, tuple) and len(self.thruster_indices) != count):
            raise UsageError(f"thruster_names: expected one name for each of {thruster_ids!r}, got {count}")
        checked("init_thruster_rps", init_thruster_rps, least=0.0)
        self._initial_rps = arrays.spread("init_thruster_rps", init_thruster_rps, count)
        self._low = arrays.spread("thrust_range", cfg.thrust_range[0], count)
        self._high = arrays.spread("thrust_range", cfg.thrust_range[1], count)
        self._max_rate = arrays.spread("max_thrust_rate", cfg.max_thrust_rate, count)
        self.mixing_factor_function = rate_of_lag_and_step if cfg.use_discrete_approximation else rate_of_lag
        self.speed_step_function = _STEPS[cfg.integration_scheme]
        self._sampler = WorldSampler(seed, (THRUSTER_STREAM, group), num_envs)
        zeros = arrays.zeros(count)
        self.tau_inc_s = self.tau_dec_s = self.thrust_const = zeros
        self.curr_thrust = self.computed_thrust = self.applied_thrust = zeros
        self.reset_idx()

    @property
    def num_thrusters(self) -> int:
        """Number of thrusters M."""
        return len(self.thruster_names)

    def compute(self, control_action: MultiRotorActions) -> MultiRotorActions:
        """Advance one step.

        Args:
            control_action: (N, M) thrusts wanted [N]; brought within `thrust_range`.

        Returns:
            The same object, its thrusts replaced by those applied.

        Raises:
            UsageError: the thrusts have another shape.
        """
        xp, command = self._xp, control_action.thrusts
        if tuple(command.shape) != (self.n, self.num_thrusters):
            raise UsageError(f"thrusts: expected {(self.n, self.num_thrusters)}, got {tuple(command.shape)}")
        self.curr_thrust = thruster_step(
            self._within_range(command),
            self.curr_thrust,
            xp=xp,
            tau_inc_s=self.tau_inc_s,
            tau_dec_s=self.tau_dec_s,
            thrust_const=self.thrust_const,
            mixing_factor=self.mixing_factor_function,
            speed_step=self.speed_step_function,
            max_rate=self._max_rate,
            dt_s=self.cfg.dt,
        )
        self.computed_thrust = self.curr_thrust
        self.applied_thrust = self._within_range(self.curr_thrust)
        control_action.thrusts = self.applied_thrust
        return control_action

    def reset(self, worlds: Any = None) -> None:
        """Draw the parameters of some worlds anew, and start them at their initial speed; see `DynamicsBase.reset`."""
        rows = self._rows(worlds)
        cfg, m = self.cfg, self.num_thrusters
        shares = self._sampler.uniform(3 * m, rows)
        ranges = (cfg.tau_inc_range, cfg.tau_dec_range, cfg.thrust_const_range)
        drawn = [low + (high - low) * shares[:, i * m : (i + 1) * m] for i, (low, high) in enumerate(ranges)]
        self._assign(rows, *drawn)

    def reset_idx(self, env_ids: Any = None) -> None:
        """The same, by the name that Isaac Lab gives it."""
        self.reset(env_ids)

    def set_parameters(
        self,
        *,
        tau_inc_s: npt.ArrayLike | None = None,
        tau_dec_s: npt.ArrayLike | None = None,
        thrust_const: npt.ArrayLike | None = None,
        worlds: Any = None,
    ) -> None:
        """Give parameters instead of drawing them (identification, replay); these worlds start anew.

        Args:
            tau_inc_s: what broadcasts to (N, M) [s]; None keeps what is. The others likewise.
            tau_dec_s: [s].
            thrust_const: [N/rps^2]; below 1e-6 it counts as 1e-6.
            worlds: see `DynamicsBase.reset`.

        Raises:
            UsageError: a value or a shape that cannot be.
        """
        given = {"tau_inc_s": tau_inc_s, "tau_dec_s": tau_dec_s, "thrust_const": thrust_const}
        for name, value in given.items():
            if value is not None:
                strict = name != "thrust_const" and not self.cfg.use_discrete_approximation
                checked(name, value, **({"above": 0.0} if strict else {"least": 0.0}))
        self._assign(self._rows(worlds), tau_inc_s, tau_dec_s, thrust_const)

    def _assign(self, rows: Any, tau_inc_s: Any, tau_dec_s: Any, thrust_const: Any) -> None:
        xp, spread, chosen = self._xp, self._arrays.spread, self._arrays.mask(rows)
        if thrust_const is not None:
            thrust_const = np.maximum(thrust_const, SMALLEST_THRUST_CONST)
        for name, value in (("tau_inc_s", tau_inc_s), ("tau_dec_s", tau_dec_s), ("thrust_const", thrust_const)):
            if value is not None:
                setattr(self, name, xp.where(chosen, spread(name, value, self.num_thrusters), getattr(self, name)))
        initial = self.thrust_const * self._initial_rps * self._initial_rps
        self.curr_thrust = xp.where(chosen, initial, self.curr_thrust)
        self.computed_thrust = self.curr_thrust
        self.applied_thrust = xp.where(chosen, self._within_range(initial), self.applied_thrust)

    def _within_range(self, thrust: Any) -> Any:
        return self._xp.minimum(self._xp.maximum(thrust, self._low), self._high)
