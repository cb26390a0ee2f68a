"""Multirotor: groups of thrusters, and the wrench that they make together.

Source: Isaac Lab 3.0.0 isaaclab_contrib assets (multirotor.py, multirotor_cfg.py), seed "thruster actuator". Different
from it: initial speeds become thrusts as k_f s^2 (there a reset makes 200 rps a target of 200 N); directions are
counted against the thrusters that the names match, not against the expressions; no simulator is written to.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from firmware_profiles.errors import UsageError
from twin.control.arrays import Arrays, checked
from twin.dynamics.base import DynamicsBase
from twin.dynamics.thruster import SMALLEST_THRUST_CONST, MultiRotorActions, Thruster
from twin.dynamics.thruster_config import ThrusterCfg, check_expression

WRENCH_ROWS = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class MultirotorCfg:
    """Thrusters of a vehicle.

    Attributes:
        actuators: a name and a ThrusterCfg for each group.
        allocation_matrix: 6 rows of n: force [N] and torque [N m], body frame (x, y, z each), per newton of thrust; the
            columns are in the order of `Multirotor.thruster_names`. See `allocation_matrix`.
        rotor_directions: 1 or -1 for each thruster, or None; only checked.
        initial_rps: initial rotor speeds [rps] by regular expression; each thruster's whole name matches just one.

    Raises:
        UsageError: a value that cannot be; names the field and what is allowed.
    """

    actuators: Mapping[str, ThrusterCfg]
    allocation_matrix: Sequence[Sequence[float]]
    rotor_directions: Sequence[int] | None = None
    initial_rps: Mapping[str, float] = field(default_factory=lambda: {".*": 100.0})

    def __post_init__(self) -> None:
        if not self.actuators:
            raise UsageError("actuators: expected at least one group of thrusters")
        for name, group in self.actuators.items():
            if not isinstance(group, ThrusterCfg):
                raise UsageError(f"actuators: {name!r}: expected a ThrusterCfg (no joints), got {type(group).__name__}")
        rows = [len(row) for row in self.allocation_matrix]
        if len(rows) != WRENCH_ROWS or len(set(rows)) != 1:
            raise UsageError(f"allocation_matrix: expected {WRENCH_ROWS} rows of one length, got lengths {rows}")
        checked("allocation_matrix", self.allocation_matrix)
        if self.rotor_directions is not None and not set(self.rotor_directions) <= {-1, 1}:
            raise UsageError(f"rotor_directions: expected 1 and -1, got {list(self.rotor_directions)}")
        for expression, rps in self.initial_rps.items():
            check_expression("initial_rps", expression)
            checked(f"initial_rps[{expression!r}]", rps, least=0.0)


def allocation_matrix(
    position_flu_m: npt.ArrayLike, spin_dir: npt.ArrayLike, torque_to_thrust_ratio: float
) -> npt.NDArray[np.float64]:
    """(6, R) allocation of rotors that push along +z: F_z = sum f, torque r x f and, about z, ratio d f.

    Args:
        position_flu_m: (R, 3) hubs from the centre of mass.
        spin_dir: (R,) +1 clockwise seen from above, whose reaction is about +z. (Isaac Lab calls that direction -1 and
            its formula, taken at its word, gives it the opposite torque.)
        torque_to_thrust_ratio: reaction torque over thrust [m], c_M / c_T.
    """
    position, spin = np.asarray(position_flu_m, dtype=np.float64), np.asarray(spin_dir, dtype=np.float64)
    none = np.zeros(spin.shape[0])
    return np.stack((none, none, none + 1.0, position[:, 1], -position[:, 0], torque_to_thrust_ratio * spin))


class Multirotor(DynamicsBase):
    """The thrusters of N vehicles.

    Args:
        cfg: of the vehicle.
        body_names: names of its bodies, among which the expressions choose.
        num_envs: number of worlds N.
        device: of the array library; None is its default.
        xp: array namespace.
        dtype: "float64" or "float32".
        seed: of the draws.

    Attributes:
        actuators: the groups by name.
        thruster_names: names of all n thrusters, group by group: the order of all columns.
        thrust_target: (N, n) thrusts wanted [N].
        computed_thrust, applied_thrust: (N, n) of the last step [N].

    Raises:
        UsageError: expressions that match nothing or the same body twice, numbers of columns or directions that do not
            fit, an initial thrust that k_f's range can bring out of the thrust range.
    """

    def __init__(
        self,
        cfg: MultirotorCfg,
        body_names: Sequence[str],
        num_envs: int,
        device: Any = None,
        *,
        xp: Any = np,
        dtype: str = "float64",
        seed: int = 0,
    ) -> None:
        super().__init__(Arrays(num_envs, xp, dtype, device))
        groups = {
            name: _matching(f"actuators: {name!r}: thruster_names_expr", group.thruster_names_expr, body_names)
            for name, group in cfg.actuators.items()
        }
        self.thruster_names = tuple(name for names in groups.values() for name in names)
        n = self.num_thrusters
        if len(set(self.thruster_names)) != n:
            raise UsageError(f"actuators: a body belongs to two groups: {', '.join(self.thruster_names)}")
        columns = len(cfg.allocation_matrix[0])
        if columns != n:
            raise UsageError(f"allocation_matrix: expected a column for each of the {n} thrusters, got {columns}")
        if cfg.rotor_directions is not None and len(cfg.rotor_directions) != n:
            raise UsageError(
                f"rotor_directions: expected one for each of the {n} thrusters, got {len(cfg.rotor_directions)}"
            )
        rps = _initial_speeds(cfg.initial_rps, self.thruster_names)
        self.actuators: dict[str, Thruster] = {}
        start = 0
        for number, (name, names) in enumerate(groups.items()):
            ids = slice(None) if len(groups) == 1 else slice(start, start + len(names))
            group = cfg.actuators[name]
            _check_initial(name, group, rps[ids])
            self.actuators[name] = Thruster(
                group, names, ids, num_envs, device, rps[ids], xp=xp, dtype=dtype, seed=seed, group=number
            )
            start += len(names)
        self._to_wrench = self._arrays.array(np.asarray(cfg.allocation_matrix, dtype=np.float64).T)
        self.thrust_target = self._joined("curr_thrust")
        self.computed_thrust, self.applied_thrust = self.thrust_target, self._joined("applied_thrust")

    @property
    def num_thrusters(self) -> int:
        """Number of thrusters n."""
        return len(self.thruster_names)

    def set_thrust_target(self, target: Any, thruster_ids: Any = None, env_ids: Any = None) -> None:
        """Thrusts wanted from now on, of all or of some thrusters and worlds; the others keep theirs.

        Args:
            target: what broadcasts to (worlds, thrusters) as they are named [N].
            thruster_ids: indices, slice or mask; None is all.
            env_ids: the same of worlds.

        Raises:
            UsageError: no such thruster or world, or a shape that does not fit.
        """
        xp, n = self._xp, self.num_thrusters
        rows, columns = _places("env_ids", env_ids, self.n), _places("thruster_ids", thruster_ids, n)
        try:
            target = xp.broadcast_to(target, (rows.size, columns.size))
        except (ValueError, RuntimeError):
            raise UsageError(
                f"target: expected what broadcasts to {(rows.size, columns.size)}, got {tuple(target.shape)}"
            ) from None
        if not target.shape[0] * target.shape[1]:
            return
        for axis, places, size in ((0, rows, self.n), (1, columns, n)):
            source = np.zeros(size, dtype=np.int64)
            source[places] = np.arange(places.size)
            target = xp.take(target, xp.asarray(source, device=self._arrays.device), axis=axis)
        chosen = np.zeros((self.n, n), dtype=bool)
        chosen[np.ix_(rows, columns)] = True
        self.thrust_target = xp.where(xp.asarray(chosen, device=self._arrays.device), target, self.thrust_target)

    def step(self, actions: MultiRotorActions | None = None) -> Any:
        """Advance all groups one step.

        Args:
            actions: thrusts wanted, as `set_thrust_target` takes them; None keeps those that are set.

        Returns:
            (N, 6) force [N] and torque [N m], body frame.
        """
        if actions is not None:
            self.set_thrust_target(actions.thrusts, actions.thruster_indices)
        for group in self.actuators.values():
            group.compute(MultiRotorActions(self.thrust_target[:, group.thruster_indices], group.thruster_indices))
        self.computed_thrust = self._joined("computed_thrust")
        self.applied_thrust = self._joined("applied_thrust")
        return self.combined_wrench()

    def combined_wrench(self) -> Any:
        """(N, 6) wrench of the thrusts that are applied now: force [N], torque [N m], body frame."""
        return self._xp.matmul(self.applied_thrust, self._to_wrench)

    def reset(self, worlds: Any = None) -> None:
        """Draw thrusters anew, at their initial speeds, and want the thrust of these. See `DynamicsBase.reset`."""
        for group in self.actuators.values():
            group.reset(worlds)
        initial = self._joined("curr_thrust")
        self.thrust_target = self._xp.where(self._chosen(worlds), initial, self.thrust_target)
        self.computed_thrust, self.applied_thrust = initial, self._joined("applied_thrust")

    def _joined(self, name: str) -> Any:
        return self._xp.concat([getattr(group, name) for group in self.actuators.values()], axis=1)


def _matching(field_name: str, expressions: Sequence[str], names: Sequence[str]) -> list[str]:
    """The names that match an expression as a whole, in their own order."""
    for expression in expressions:
        if not any(re.fullmatch(expression, name) for name in names):
            raise UsageError(f"{field_name}: {expression!r} matches none of {', '.join(names)}")
    return [name for name in names if any(re.fullmatch(expression, name) for expression in expressions)]


def _initial_speeds(by_expression: Mapping[str, float], names: Sequence[str]) -> npt.NDArray[np.float64]:
    for expression in by_expression:
        _matching("initial_rps", [expression], names)
    speeds = []
    for name in names:
        found = [rps for expression, rps in by_expression.items() if re.fullmatch(expression, name)]
        if len(found) != 1:
            raise UsageError(f"initial_rps: expected one expression for {name!r}, {len(found)} match")
        speeds.append(found[0])
    return np.asarray(speeds, dtype=np.float64)


def _check_initial(name: str, group: ThrusterCfg, rps: npt.NDArray[np.float64]) -> None:
    low, high = group.thrust_range
    for speed in rps.tolist():
        thrusts = [max(k, SMALLEST_THRUST_CONST) * speed * speed for k in group.thrust_const_range]
        if thrusts[0] < low or thrusts[1] > high:
            raise UsageError(
                f"initial_rps: actuators: {name!r}: {speed:g} rps gives thrusts from {thrusts[0]:g} to {thrusts[1]:g} "
                f"N; allowed by thrust_range: {low:g} to {high:g} N"
            )


def _places(field_name: str, chosen: Any, size: int) -> npt.NDArray[np.int64]:
    """Numbers of what was chosen, in the order in which it was."""
    every = np.arange(size)
    if chosen is None or isinstance(chosen, slice):
        return every if chosen is None else every[chosen]
    plain = np.atleast_1d(np.asarray(chosen.tolist() if hasattr(chosen, "tolist") else chosen))
    try:
        return every[plain] if plain.size else every[:0]
    except IndexError as error:
        raise UsageError(f"{field_name}: there are {size}: {error}") from None
