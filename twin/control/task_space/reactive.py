"""The reactive layer: follow a task as well as the joints' limits, the arm itself and obstacles allow.

It does the job that Isaac Lab gives to RMPFlow and to an MPC's collision costs, as mink does it: a quadratic program
over the joint velocities of one step, with what must not happen as constraints and not as a price,

    minimise  sum_t |W_t^1/2 (J_t qd - v_t)|^2 + w_p |qd - k_p (q_p - q)|^2 + damping |qd|^2
    subject to  lower <= qd <= upper            (`limits`: position, velocity, acceleration)
                D_k qd >= least_k               (`avoidance`: every pair that is closer than its influence distance)

Being local it can get stuck: straight behind an obstacle that it would have to go around, it stops at the safety
distance. A way around is a planner's or an MPC's (`mpc`).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from firmware_profiles.errors import UsageError
from twin.control.task_space.avoidance import Distances
from twin.control.task_space.limits import VelocityBounds
from twin.control.task_space.qp import QpSolver
from twin.control.task_space.reactive_config import ReactiveConfig, ReactiveResult, ReactiveStatus, VelocityTask

FloatArray = npt.NDArray[np.float64]
BoolArray = npt.NDArray[np.bool_]

_TOLERANCE_M_S = 1e-6  # the solver's own
_HUGE = 1e12  # no number of an arm in SI units; larger ones are no input, and would overflow in the solver


class ReactiveController:
    """Joint velocities for N worlds of n joints; keeps nothing between the steps.

    Where the constraints contradict each other (an obstacle moves in, the arm starts too close, the acceleration does
    not suffice), limits of position and velocity hold, the acceleration gives way only to a position limit, and the
    distances give way by the least sum of squares; the task does what is left to do. NumPy only: the solver is.

    Args:
        config: see `ReactiveConfig`.
        joints: n.
        n: number of worlds, N.

    Raises:
        UsageError: limits that do not fit, or the solver is not installed.
    """

    def __init__(self, config: ReactiveConfig, joints: int, n: int = 1) -> None:
        if n < 1 or joints < 1:
            raise UsageError(f"n, joints: expected at least one world and one joint, got {n} and {joints}")
        self.config = config
        self.n, self.joints = n, joints
        self._limits = VelocityBounds(config.limits, n, joints, config.dt_s)
        self._solver = QpSolver()

    def compute(
        self,
        tasks: Sequence[VelocityTask],
        positions: npt.ArrayLike,
        *,
        last_velocities: npt.ArrayLike | None = None,
        distances: Distances | None = None,
        posture: npt.ArrayLike | None = None,
    ) -> ReactiveResult:
        """One step.

        Args:
            tasks: what is wanted; may be empty.
            positions: (N, n) of the joints [rad].
            last_velocities: (N, n) what was commanded the step before; needed where the acceleration has a limit.
            distances: what is measured; None is nothing to run into.
            posture: (N, n) joint positions for the null space; None is none.

        Raises:
            UsageError: a shape that does not fit, or `last_velocities` is missing.
        """
        q = self._joint_array("positions", positions)
        if self._limits.needs_last and last_velocities is None:
            raise UsageError("last_velocities: needed, for the limits have an acceleration")
        last = None if last_velocities is None else self._joint_array("last_velocities", last_velocities)
        rest = None if posture is None else self._joint_array("posture", posture)
        with np.errstate(over="ignore", invalid="ignore"):  # what comes out of it is looked at
            hessian, gradient = self._cost(tasks, q, rest)
        good = _sane(hessian, (1, 2)) & _sane(gradient, (1,)) & _sane(q, (1,))
        if last is not None:
            good &= _sane(last, (1,))
        rows, least, near = self._distance_rows(distances, good)
        with np.errstate(over="ignore", invalid="ignore"):  # of the worlds that are no good
            lower, upper, gave_way = self._limits.bounds(q, last)
        status = np.where(gave_way, ReactiveStatus.LEAST_VIOLATION, ReactiveStatus.OK).astype(np.int8)
        status[~good] = ReactiveStatus.BAD_INPUT
        velocities = np.zeros((self.n, self.joints))
        for i in np.flatnonzero(good).tolist():
            program = (hessian[i], gradient[i], lower[i], upper[i], rows[i, near[i]], least[i, near[i]])
            x = self._solver.solve(*program)
            if x is None:
                x, status[i] = self._solver.solve_least_violation(*program), ReactiveStatus.LEAST_VIOLATION
            if x is None:
                status[i] = ReactiveStatus.NO_SOLUTION
            else:
                velocities[i] = np.clip(x, lower[i], upper[i])  # what the solver leaves of its tolerance
        missing = np.where(near, least - (rows @ velocities[:, :, None])[:, :, 0], 0.0)
        violation = np.max(missing, axis=1, initial=0.0)
        status[(violation > _TOLERANCE_M_S) & (status == ReactiveStatus.OK)] = ReactiveStatus.LEAST_VIOLATION
        return ReactiveResult(velocities, status, np.where(violation > _TOLERANCE_M_S, violation, 0.0))

    def next_positions(self, positions: npt.ArrayLike, velocities: npt.ArrayLike) -> FloatArray:
        """(N, n) where the joints are after the step: the set-point for a position controller.

        Rounding takes no joint over its limit; one that is not a number stays so, for only the caller knows where
        that arm is.
        """
        q = self._joint_array("positions", positions)
        after = q + self._joint_array("velocities", velocities) * self.config.dt_s
        return np.clip(after, np.minimum(q, self._limits.lower), np.maximum(q, self._limits.upper))

    def _joint_array(self, name: str, value: npt.ArrayLike) -> FloatArray:
        array = np.asarray(value, dtype=np.float64)
        if array.shape != (self.n, self.joints):
            raise UsageError(f"{name}: expected {(self.n, self.joints)}, got {array.shape}")
        return array

    def _cost(
        self, tasks: Sequence[VelocityTask], q: FloatArray, posture: FloatArray | None
    ) -> tuple[FloatArray, FloatArray]:
        """(N, n, n) and (N, n): Hessian and gradient at zero velocity."""
        config, n, joints = self.config, self.n, self.joints
        hessian = np.broadcast_to(np.eye(joints) * config.damping, (n, joints, joints)).copy()
        gradient = np.zeros((n, joints))
        for task in tasks:
            jacobian = np.asarray(task.jacobian, dtype=np.float64)
            if jacobian.shape[0] != n or jacobian.shape[2] != joints:
                raise UsageError(f"jacobian: expected {(n, 'm', joints)}, got {jacobian.shape}")
            root = np.sqrt(np.broadcast_to(np.asarray(task.weight, dtype=np.float64), jacobian.shape[:2]))[:, :, None]
            weighted = root * jacobian
            across = weighted.swapaxes(1, 2)
            hessian += across @ weighted
            gradient -= (across @ (root * np.asarray(task.velocity, dtype=np.float64)[:, :, None]))[:, :, 0]
        if posture is not None:
            hessian += np.eye(joints) * config.posture_weight
            gradient -= config.posture_weight * config.posture_gain * (posture - q)
        return hessian, gradient

    def _distance_rows(self, distances: Distances | None, good: BoolArray) -> tuple[FloatArray, FloatArray, BoolArray]:
        """(N, K, n) gradients, (N, K) what they must give, (N, K) where; worlds that are no good leave `good`."""
        if distances is None:
            nothing = np.zeros((self.n, 0))
            return np.zeros((self.n, 0, self.joints)), nothing, nothing > 0.0
        distance = np.asarray(distances.distance_m, dtype=np.float64)
        gradient = np.asarray(distances.gradient, dtype=np.float64)
        if gradient.shape != (self.n, distance.shape[1], self.joints):
            raise UsageError(f"gradient: expected {(self.n, distance.shape[1], self.joints)}, got {gradient.shape}")
        least, near = self.config.avoidance.least_rate(distances)
        known = _sane(gradient, (2,)) & _sane(least, ()) & _sane(distance, ())
        good &= ((near & known) | (~near & ~np.isnan(distance))).all(axis=1)
        near &= good[:, None]
        return np.where(near[:, :, None], gradient, 0.0), np.where(near, least, 0.0), near


def _sane(values: FloatArray, axes: tuple[int, ...]) -> BoolArray:
    """Where all values along the axes are numbers that an arm can have."""
    return np.asarray(np.all(np.abs(values) < _HUGE, axis=axes))
