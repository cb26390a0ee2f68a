"""The adapter for an external MPC (OCS2, acados, any): plans come when they come, commands go at the control rate.

The MPC runs elsewhere and answers late, or not at all. Nothing here waits or reads a clock: times are given, in
microseconds. Plans belong to times, so one that took 30 ms is entered 30 ms after its state, not at its beginning.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from firmware_profiles.errors import UsageError
from twin.control.task_space.mpc_plan import JointPlan, JointState

FloatArray = npt.NDArray[np.float64]


class ExternalMpc(Protocol):
    """What an MPC has to be for `MpcAdapter`: two functions that return at once, whatever the solver does."""

    def send(self, state: JointState, reference: Any) -> None:
        """Hand over the newest state and what is wanted; an older pair that has not been begun is worth nothing."""

    def newest(self) -> JointPlan | None:
        """The newest plan that is done and was not given out yet; None if there is none."""


class CommandSource(IntEnum):
    """Where a world's command comes from."""

    PLAN = 0
    """The newest plan that may be used."""
    NO_PLAN = 1
    """The fallback: no plan has come, or none that had begun."""
    STALE = 2
    """The fallback: the plan is computed from a state that is too old."""
    ENDED = 3
    """The fallback: the plan's horizon is over."""


@dataclass(frozen=True, slots=True)
class JointCommand:
    """What the joints' controller is to do, (N, n) each, always finite.

    Attributes:
        positions: [rad].
        velocities: [rad/s].
        efforts: [N m], feed-forward; 0 where the plan has none.
        source: (N,) `CommandSource` as integers.
    """

    positions: FloatArray
    velocities: FloatArray
    efforts: FloatArray
    source: npt.NDArray[np.int8]


@dataclass(slots=True)
class MpcCounts:
    """What has become of the plans, since the start.

    Attributes:
        accepted: plans taken into use, or set aside until they begin.
        late: refused, because their state was too old or their horizon over when they came.
        out_of_order: refused, because a plan of a newer state is there, or their state is yet to come.
        unsolved: refused, because they are not finite in any world.
        fallback_steps: steps in which at least one world had the fallback.
    """

    accepted: int = 0
    late: int = 0
    out_of_order: int = 0
    unsolved: int = 0
    fallback_steps: int = 0


Fallback = Callable[[JointState, FloatArray], tuple[FloatArray, FloatArray]]
"""From the measured state and the last commanded positions (N, n) to positions and velocities (N, n)."""


class MpcAdapter:
    """Commands for N worlds from the plans of an external MPC.

    Without a plan that may be used, a world gets its fallback: by default it holds the position that was commanded
    last, at rest. A function in its place may be the reactive layer; where that gives something that is not a number,
    the world holds.

    Args:
        mpc: see `ExternalMpc`.
        posture: (N, n) what is held until a plan comes [rad].
        request_us: how often a state is sent to the MPC [us].
        max_age_us: how old the state may be that a plan in use was computed from [us].
        fallback: see `Fallback`; None holds.

    Attributes:
        counts: see `MpcCounts`.

    Raises:
        UsageError: no posture, or times that cannot be.
    """

    def __init__(
        self,
        mpc: ExternalMpc,
        posture: npt.ArrayLike,
        *,
        request_us: int,
        max_age_us: int,
        fallback: Fallback | None = None,
    ) -> None:
        held = np.array(posture, dtype=np.float64)
        if held.ndim != 2 or not held.size or not np.isfinite(held).all():
            raise UsageError(f"posture: expected (N, n) finite numbers, got {posture!r}")
        for name, value in (("request_us", request_us), ("max_age_us", max_age_us)):
            if value < 1:
                raise UsageError(f"{name}: expected at least 1, got {value}")
        self._mpc, self._fallback = mpc, fallback
        self._request_us, self._max_age_us = request_us, max_age_us
        self._posture = held
        self.reset()

    def reset(self) -> None:
        """Forget plans, counts and time, and hold the first posture again."""
        self.counts = MpcCounts()
        self._held = self._posture.copy()
        self._plans: list[JointPlan | None] = [None] * len(self._held)
        self._waiting: list[JointPlan] = []
        self._newest_us: int | None = None
        self._sent_us: int | None = None
        self._now_us: int | None = None

    def update(self, state: JointState, reference: Any) -> JointCommand:
        """One step: send what is due, take what has come, and give the command of this time.

        Args:
            state: measured now.
            reference: what the MPC is to do; it goes to the MPC as it is.

        Raises:
            UsageError: the state is of another shape, or older than the one before (then `reset`).
        """
        now = state.time_us
        for name, value in (("positions", state.positions), ("velocities", state.velocities)):
            if np.shape(value) != self._held.shape:
                raise UsageError(f"{name}: expected {self._held.shape}, got {np.shape(value)}")
        if self._now_us is not None and now < self._now_us:
            raise UsageError(f"time_us: {now} comes after {self._now_us}; reset the adapter when time starts anew")
        self._now_us = now
        if self._sent_us is None or now - self._sent_us >= self._request_us:
            self._mpc.send(state, reference)
            self._sent_us = now
        plan = self._mpc.newest()
        if plan is not None:
            self._receive(plan, now)
        self._begin(now)
        return self._command(state)

    def _receive(self, plan: JointPlan, now: int) -> None:
        expected = (self._held.shape[0], plan.times_us.size, self._held.shape[1])
        if plan.positions.shape != expected:
            raise UsageError(f"the MPC's plan: expected positions {expected}, got {plan.positions.shape}")
        counts = self.counts
        if now - plan.state_us > self._max_age_us or now > int(plan.times_us[-1]):
            counts.late += 1
        elif plan.state_us > now or (self._newest_us is not None and plan.state_us <= self._newest_us):
            counts.out_of_order += 1
        elif not plan.solved.any():
            counts.unsolved += 1
        else:
            counts.accepted += 1
            self._newest_us = plan.state_us
            self._waiting.append(plan)

    def _begin(self, now: int) -> None:
        """Take the plans into use that have begun; until then the one before is still the best there is."""
        for plan in self._waiting:
            if plan.times_us[0] <= now:
                for world in np.flatnonzero(plan.solved).tolist():
                    self._plans[world] = plan
        self._waiting = [
            plan for plan in self._waiting if plan.times_us[0] > now and now - plan.state_us <= self._max_age_us
        ]

    def _source(self, plan: JointPlan | None, now: int) -> CommandSource:
        if plan is None:
            return CommandSource.NO_PLAN
        if now - plan.state_us > self._max_age_us:
            return CommandSource.STALE
        return CommandSource.ENDED if now > int(plan.times_us[-1]) else CommandSource.PLAN

    def _command(self, state: JointState) -> JointCommand:
        now = state.time_us
        source = np.array([self._source(plan, now) for plan in self._plans], dtype=np.int8)
        positions, velocities, efforts = self._held.copy(), np.zeros_like(self._held), np.zeros_like(self._held)
        sampled: dict[int, tuple[FloatArray, FloatArray, FloatArray]] = {}
        for world in np.flatnonzero(source == CommandSource.PLAN).tolist():
            plan = self._plans[world]
            assert plan is not None
            if id(plan) not in sampled:  # mostly one plan for all worlds
                sampled[id(plan)] = plan.at(now)
            positions[world], velocities[world], efforts[world] = (part[world] for part in sampled[id(plan)])
        without = source != CommandSource.PLAN
        if without.any():
            self.counts.fallback_steps += 1
            if self._fallback is not None:
                wanted, speeds = self._fallback(state, self._held.copy())
                usable = without & np.isfinite(wanted).all(axis=1) & np.isfinite(speeds).all(axis=1)
                positions[usable], velocities[usable] = wanted[usable], speeds[usable]
        self._held = positions.copy()
        return JointCommand(positions, velocities, efforts, source)
