"""The adapter for an external MPC, with a real one: double integrators under limits, solved as a quadratic program."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from firmware_profiles.errors import UsageError
from twin.control.task_space.limits import JointLimits
from twin.control.task_space.mpc import CommandSource, MpcAdapter
from twin.control.task_space.mpc_plan import JointPlan, JointState
from twin.control.task_space.qp import QpSolver
from twin.control.task_space.reactive import ReactiveController
from twin.control.task_space.reactive_config import ReactiveConfig, VelocityTask

STEP_US, KNOT_US, KNOTS = 5_000, 50_000, 20
MOST = 4.0  # rad/s^2


class IntegratorMpc:
    """Joint-space MPC of double integrators with bounded acceleration, constant from knot to knot.

    It answers `delay_us` after it was asked, as a process of its own would, and computes one thing at a time.
    """

    def __init__(self, n, joints, *, delay_us=0):
        self.n, self.joints, self.delay_us = n, joints, delay_us
        self.asked, self.busy_until, self.pending, self.alive = 0, 0, [], True
        h, steps = KNOT_US * 1e-6, np.arange(KNOTS + 1)
        after = steps[:, None] - np.arange(KNOTS) - 0.5  # knots from the middle of an interval to a knot
        self.position_of = np.where(after > 0, h * h * after, 0.0)
        self.velocity_of = np.where(after > 0, h, 0.0)
        self.times_s = steps * h
        self.cost = self.position_of.T @ self.position_of + 1e-5 * np.eye(KNOTS)
        self.solver = QpSolver()

    def send(self, state, reference):
        self.asked += 1
        self.now = state.time_us
        if not self.alive or state.time_us < self.busy_until:
            return
        self.busy_until = state.time_us + self.delay_us
        self.pending.append((self.busy_until, self.plan(state, reference)))

    def newest(self):
        done = [entry for entry in self.pending if entry[0] <= self.clock()]
        self.pending = [entry for entry in self.pending if entry not in done]
        return done[-1][1] if done else None

    def clock(self):
        return self.now

    def plan(self, state, reference):
        positions = np.zeros((self.n, KNOTS + 1, self.joints))
        velocities, efforts = np.zeros_like(positions), np.zeros_like(positions)
        for world, joint in np.ndindex(self.n, self.joints):
            q, v = state.positions[world, joint], state.velocities[world, joint]
            free = q + v * self.times_s
            ahead = reference(state.time_us + self.times_s * 1e6)
            slope = self.position_of.T @ (free - ahead)
            bound = np.full(KNOTS, MOST)
            u = self.solver.solve(self.cost, slope, -bound, bound, np.zeros((0, KNOTS)), np.zeros(0))
            positions[world, :, joint] = free + self.position_of @ u
            velocities[world, :, joint] = v + self.velocity_of @ u
            efforts[world, :, joint] = np.r_[u, u[-1]]
        times = state.time_us + np.arange(KNOTS + 1) * KNOT_US
        return JointPlan(state.time_us, times, positions, velocities, efforts)


class Link:
    """Plans put in by hand, to say exactly when which one comes."""

    def __init__(self):
        self.plans, self.sent = [], []

    def send(self, state, reference):
        self.sent.append((state.time_us, reference))

    def newest(self):
        return self.plans.pop(0) if self.plans else None


def at_rest(time_us, n=1, joints=2):
    return JointState(time_us, np.zeros((n, joints)), np.zeros((n, joints)))


def real_plan(state_us, target, n=1, joints=2, start_us=None):
    """The MPC's own plan from rest at 0 to a target; it may begin later than its state."""
    mpc = IntegratorMpc(n, joints)
    plan = mpc.plan(at_rest(state_us, n, joints), lambda times: np.full(times.shape, target))
    shift = 0 if start_us is None else start_us - state_us
    return JointPlan(state_us, plan.times_us + shift, plan.positions, plan.velocities, plan.efforts)


def follow(adapter, reference, *, seconds, n=1, joints=2, after_step=None):
    """Joints that do what is commanded, and until the next step keep their velocities."""
    q, v = np.zeros((n, joints)), np.zeros((n, joints))
    log = []
    for tick in range(round(seconds * 1e6 / STEP_US)):
        now = tick * STEP_US
        command = adapter.update(JointState(now, q, v), reference)
        assert np.isfinite(command.positions).all()
        log.append((now, command.positions, command.velocities, command.source))
        q, v = command.positions + command.velocities * STEP_US * 1e-6, command.velocities
        if after_step is not None:
            after_step(now)
    return log


def sine(times_us):
    return 0.3 * np.sin(2.0 * np.asarray(times_us) * 1e-6)


@pytest.mark.parametrize("delay_us", [0, 30_000])
def test_joints_follow_a_real_mpc_however_long_it_takes(delay_us):
    mpc = IntegratorMpc(2, 2, delay_us=delay_us)
    adapter = MpcAdapter(mpc, np.zeros((2, 2)), request_us=20_000, max_age_us=200_000)
    log = follow(adapter, sine, seconds=3.0, n=2)
    late = [entry for entry in log if entry[0] > 1_000_000]
    assert all(np.all(source == CommandSource.PLAN) for _, _, _, source in late)
    assert max(np.abs(q - sine(now)).max() for now, q, _, _ in late) < 0.01
    # A plan that is entered at its beginning instead of now would lead back to where its state was: no command jumps.
    speeds = [np.abs(b[1] - a[1]).max() / (STEP_US * 1e-6) for a, b in pairwise(late)]
    assert max(speeds) < 0.62  # the sine's own is 0.6
    assert adapter.counts.late == 0
    assert adapter.counts.accepted > 50


def test_between_its_times_a_plan_is_the_motion_it_was_computed_for():
    plan = real_plan(1_000, 0.7)
    for time_us in range(1_000, 1_000 + KNOTS * KNOT_US, 7_001):
        knot, rest = divmod(time_us - 1_000, KNOT_US)
        s, u = rest * 1e-6, plan.efforts[:, knot]
        positions, velocities, efforts = plan.at(time_us)
        expected = plan.positions[:, knot] + plan.velocities[:, knot] * s + 0.5 * u * s * s
        np.testing.assert_allclose(positions, expected, atol=1e-12)
        np.testing.assert_allclose(velocities, plan.velocities[:, knot] + u * s, atol=1e-12)
        np.testing.assert_array_equal(efforts, u)
    for knot, time_us in enumerate(plan.times_us.tolist()):
        np.testing.assert_allclose(plan.at(time_us)[0], plan.positions[:, knot], atol=1e-15)
        np.testing.assert_array_equal(plan.at(time_us)[2], plan.efforts[:, knot])
    assert np.abs(plan.efforts).max() > 1.0  # it moves


def test_an_mpc_that_is_too_slow_moves_nothing_and_is_counted():
    mpc = IntegratorMpc(1, 2, delay_us=300_000)
    posture = np.array([[0.4, -0.2]])
    adapter = MpcAdapter(mpc, posture, request_us=20_000, max_age_us=200_000)
    log = follow(adapter, sine, seconds=2.0)
    assert all(np.array_equal(q, posture) and not v.any() for _, q, v, _ in log)
    assert all(source[0] == CommandSource.NO_PLAN for *_, source in log)
    assert adapter.counts.late >= 5
    assert adapter.counts.accepted == 0
    assert adapter.counts.fallback_steps == len(log)


def test_a_solver_that_dies_leaves_the_last_command_at_rest():
    mpc = IntegratorMpc(1, 2)
    adapter = MpcAdapter(mpc, np.zeros((1, 2)), request_us=20_000, max_age_us=100_000)

    def die(now):
        mpc.alive = now < 500_000

    log = follow(adapter, sine, seconds=1.0, after_step=die)
    stale = [i for i, entry in enumerate(log) if entry[3][0] == CommandSource.STALE]
    assert stale == list(range(stale[0], len(log)))
    assert 580_000 <= log[stale[0]][0] <= 620_000  # the last plan lasts for its age
    held = log[stale[0] - 1][1]
    assert np.abs(held).max() > 0.1
    assert all(np.array_equal(log[i][1], held) and not log[i][2].any() for i in stale)


def test_a_horizon_that_is_over_is_not_gone_beyond():
    link = Link()
    adapter = MpcAdapter(link, np.zeros((1, 2)), request_us=1_000_000, max_age_us=10_000_000)
    link.plans = [real_plan(0, 0.5)]
    end = KNOTS * KNOT_US
    last = [adapter.update(at_rest(now), None) for now in (0, end)][-1]
    assert last.source[0] == CommandSource.PLAN
    after = adapter.update(at_rest(end + 1), None)
    assert after.source[0] == CommandSource.ENDED
    np.testing.assert_array_equal(after.positions, last.positions)
    link.plans = [real_plan(1_000, 0.5)]  # over when it comes
    adapter.update(at_rest(end + 2_000), None)
    assert adapter.counts.late == 1


def test_older_states_and_states_yet_to_come_are_refused():
    link = Link()
    adapter = MpcAdapter(link, np.zeros((1, 2)), request_us=5_000, max_age_us=500_000)
    link.plans = [real_plan(50_000, 0.5), real_plan(40_000, -0.5), real_plan(50_000, -0.5), real_plan(900_000, -0.5)]
    for now in (60_000, 65_000, 70_000, 75_000):
        command = adapter.update(at_rest(now), None)
    assert (adapter.counts.accepted, adapter.counts.out_of_order) == (1, 3)
    assert command.positions.min() > 0.0
    link.plans = [real_plan(70_000, -0.5)]
    assert adapter.update(at_rest(80_000), None).positions.max() < 0.0


def test_a_plan_that_begins_later_waits_and_does_not_starve():
    link = Link()
    adapter = MpcAdapter(link, np.zeros((1, 2)), request_us=5_000, max_age_us=500_000)
    sources = []
    for tick in range(20):  # each comes before the last has begun
        now = tick * 20_000
        link.plans = [real_plan(now, 0.5, start_us=now + 50_000)]
        sources.append(adapter.update(at_rest(now), None).source[0])
    assert sources == [CommandSource.NO_PLAN] * 3 + [CommandSource.PLAN] * 17
    assert adapter.counts.accepted == 20


def test_worlds_without_a_solution_keep_the_plan_they_had():
    link = Link()
    adapter = MpcAdapter(link, np.zeros((2, 2)), request_us=5_000, max_age_us=500_000)
    old, new, none = real_plan(0, 0.5, n=2), real_plan(10_000, -0.5, n=2), real_plan(20_000, -0.5, n=2)
    broken = new.velocities.copy()
    broken[1, 3, 0] = np.nan
    link.plans = [old, JointPlan(10_000, new.times_us, new.positions, broken, new.efforts)]
    adapter.update(at_rest(0, n=2), None)
    command = adapter.update(at_rest(100_000, n=2), None)
    np.testing.assert_array_equal(command.positions[0], new.at(100_000)[0][0])
    np.testing.assert_array_equal(command.positions[1], old.at(100_000)[0][1])
    link.plans = [JointPlan(20_000, none.times_us, none.positions * np.nan, none.velocities)]
    adapter.update(at_rest(105_000, n=2), None)
    assert (adapter.counts.accepted, adapter.counts.unsolved) == (2, 1)


def test_a_solver_may_use_its_memory_again():
    memory = real_plan(0, 0.5)
    positions = memory.positions.copy()
    plan = JointPlan(0, memory.times_us, positions, memory.velocities)
    positions[:] = 9.0
    np.testing.assert_array_equal(plan.positions, memory.positions)
    assert not plan.at(1_000)[2].any()  # no efforts


def reactive_fallback(goal):
    controller = ReactiveController(ReactiveConfig(JointLimits(-1.0, 1.0, velocity=0.5), period_us=STEP_US), joints=2)

    def fallback(state, held):
        task = VelocityTask(np.eye(2)[None], 2.0 * (goal - held))
        result = controller.compute([task], held)
        return controller.next_positions(held, result.velocities), result.velocities

    return fallback


def test_the_reactive_layer_takes_over_when_the_mpc_falls_silent():
    mpc = IntegratorMpc(1, 2)
    goal = np.array([[0.3, -0.3]])
    adapter = MpcAdapter(mpc, np.zeros((1, 2)), request_us=20_000, max_age_us=100_000, fallback=reactive_fallback(goal))

    def die(now):
        mpc.alive = now < 500_000

    log = follow(adapter, sine, seconds=5.0, after_step=die)
    assert log[-1][3][0] == CommandSource.STALE
    np.testing.assert_allclose(log[-1][1], goal, atol=1e-3)
    since = [entry for entry in log if entry[0] >= 500_000]
    steps = [np.abs(b[1] - a[1]).max() for a, b in pairwise(since)]
    assert max(steps) < 0.7 * STEP_US * 1e-6  # and the change of hands is no jump


def test_a_world_whose_fallback_fails_holds():
    adapter = MpcAdapter(
        Link(),
        np.full((2, 2), 0.2),
        request_us=5_000,
        max_age_us=100_000,
        fallback=lambda state, held: (state.positions + 0.1, state.velocities + 0.1),
    )
    measured = np.array([[0.2, 0.2], [np.nan, 0.2]])
    command = adapter.update(JointState(0, measured, np.zeros((2, 2))), None)
    np.testing.assert_allclose(command.positions, [[0.3, 0.3], [0.2, 0.2]])
    np.testing.assert_allclose(command.velocities, [[0.1, 0.1], [0.0, 0.0]])


def test_a_fallback_is_for_those_without_a_plan_only():
    link, plan = Link(), real_plan(0, 0.5, n=2)
    positions = plan.positions.copy()
    positions[1, 0, 0] = np.nan
    link.plans = [JointPlan(0, plan.times_us, positions, plan.velocities, plan.efforts)]
    adapter = MpcAdapter(
        link,
        np.zeros((2, 2)),
        request_us=5_000,
        max_age_us=500_000,
        fallback=lambda state, held: (held - 1.0, state.velocities - 1.0),
    )
    command = adapter.update(at_rest(100_000, n=2), None)
    assert command.source.tolist() == [CommandSource.PLAN, CommandSource.NO_PLAN]
    for given, planned, fallen_back in zip(
        (command.positions, command.velocities, command.efforts), plan.at(100_000), (-1.0, -1.0, 0.0), strict=True
    ):
        np.testing.assert_array_equal(given[0], planned[0])
        np.testing.assert_array_equal(given[1], np.full(2, fallen_back))


def test_states_are_sent_when_due_and_nothing_is_waited_for():
    link = Link()
    adapter = MpcAdapter(link, np.zeros((1, 2)), request_us=20_000, max_age_us=100_000)
    for tick in range(41):
        adapter.update(at_rest(tick * STEP_US), "there")
    assert link.sent == [(time_us, "there") for time_us in range(0, 200_001, 20_000)]


def test_time_does_not_go_back_without_a_reset():
    link = Link()
    adapter = MpcAdapter(link, np.zeros((1, 2)), request_us=20_000, max_age_us=1_000_000)
    link.plans = [real_plan(50_000, 0.5)]
    moved = adapter.update(at_rest(300_000), None)
    assert moved.positions.any()
    with pytest.raises(UsageError, match="reset the adapter"):
        adapter.update(at_rest(0), None)
    adapter.reset()
    command = adapter.update(at_rest(0), None)
    assert command.source[0] == CommandSource.NO_PLAN
    assert not command.positions.any()
    assert adapter.counts.accepted == 0
    assert link.sent[-1][0] == 0


PLAN = real_plan(0, 0.5)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: JointPlan(0, [0], PLAN.positions[:, :1], PLAN.velocities[:, :1]), "times_us: expected at least two"),
        (lambda: JointPlan(0, PLAN.times_us[::-1], PLAN.positions, PLAN.velocities), "times_us: expected"),
        (lambda: JointPlan(0, PLAN.times_us * 1e-6, PLAN.positions, PLAN.velocities), "times_us: expected"),
        (lambda: JointPlan(0, PLAN.times_us, PLAN.positions[:, 1:], PLAN.velocities), "positions: expected"),
        (lambda: JointPlan(0, PLAN.times_us, PLAN.positions, PLAN.velocities[..., :1]), "velocities: expected"),
        (lambda: MpcAdapter(Link(), np.zeros(2), request_us=1, max_age_us=1), "posture: expected"),
        (lambda: MpcAdapter(Link(), [[np.nan]], request_us=1, max_age_us=1), "posture: expected"),
        (lambda: MpcAdapter(Link(), [[0.0]], request_us=0, max_age_us=1), "request_us: expected"),
        (lambda: MpcAdapter(Link(), [[0.0]], request_us=1, max_age_us=1).update(at_rest(0), None), "positions: expec"),
    ],
)
def test_what_cannot_be_is_refused_with_a_reason(make, message):
    with pytest.raises(UsageError, match=message):
        make()


def test_a_plan_of_another_arm_is_refused():
    link = Link()
    link.plans = [real_plan(0, 0.5, joints=3)]
    with pytest.raises(UsageError, match="the MPC's plan"):
        MpcAdapter(link, np.zeros((1, 2)), request_us=1, max_age_us=1).update(at_rest(0), None)
