"""The reactive layer: the program's optimum, the limits, the distances, and what happens when they contradict."""

from __future__ import annotations

import sys
from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import linprog, minimize, nnls

from firmware_profiles.errors import UsageError
from twin.control.task_space.avoidance import Distances, VelocityDamper
from twin.control.task_space.limits import JointLimits, VelocityBounds
from twin.control.task_space.poses import moved_by
from twin.control.task_space.qp import QpSolver
from twin.control.task_space.reactive import ReactiveController
from twin.control.task_space.reactive_config import ReactiveConfig, ReactiveStatus, VelocityTask
from twin.control.task_space.reactive_tasks import pose_task, position_task

DT_S = 0.01
WIDE = JointLimits(lower=-np.inf, upper=np.inf)


def program(rng, *, n=7, contradictory=False):
    """Like the layer's own: a task of fewer rows than joints, bounds around 0, rows that mostly leave 0 allowed."""
    rows = int(rng.integers(1, 25))
    task = rng.normal(size=(int(rng.integers(1, n + 1)), n))
    hessian = task.T @ task + 10.0 ** rng.uniform(-6.0, -1.0) * np.eye(n)
    gradient = -3.0 * task.T @ rng.normal(size=len(task))
    constraints = rng.normal(size=(rows, n))
    least = -0.1 * np.abs(rng.normal(size=rows))
    if contradictory:
        constraints[0], least[0] = 0.0, 0.3
        least[1:] += rng.uniform(0.0, 1.0)
    lower, upper = -rng.uniform(0.1, 1.0, n), rng.uniform(0.1, 1.0, n)
    return hessian, gradient, lower, upper, constraints, least


def multipliers_missing(hessian, gradient, lower, upper, rows, least, x):
    """How far x is from the conditions of Karush, Kuhn and Tucker: what no sum of the active normals makes up."""
    normals = [row for row, a in zip(rows, rows @ x - least, strict=True) if a < 1e-6]
    normals += [axis for axis, a in zip(np.eye(x.size), x - lower, strict=True) if a < 1e-6]
    normals += [-axis for axis, a in zip(np.eye(x.size), upper - x, strict=True) if a < 1e-6]
    slope = hessian @ x + gradient
    return nnls(np.array(normals).T, slope)[1] if normals else np.linalg.norm(slope)


def test_solutions_meet_the_conditions_of_an_optimum():
    rng, solver = np.random.default_rng(1), QpSolver()
    bound = 0
    for _ in range(300):
        hessian, gradient, lower, upper, rows, least = problem = program(rng)
        x = solver.solve(*problem)
        assert x is not None
        assert min((rows @ x - least).min(), (x - lower).min(), (upper - x).min()) > -1e-7
        assert multipliers_missing(*problem, x) < 1e-6
        bound += multipliers_missing(hessian, gradient, -np.inf, np.inf, rows, least - 1e9, x) > 1e-3
    assert bound > 250  # the constraints did something


def test_solutions_are_scipys():
    rng, solver = np.random.default_rng(2), QpSolver()
    for _ in range(25):
        hessian, gradient, lower, upper, rows, least = problem = program(rng, n=4)
        found = minimize(
            lambda x, h=hessian, g=gradient: 0.5 * x @ h @ x + g @ x,
            np.zeros(4),
            jac=lambda x, h=hessian, g=gradient: h @ x + g,
            bounds=list(zip(lower, upper, strict=True)),
            constraints={"type": "ineq", "fun": lambda x, a=rows, b=least: a @ x - b, "jac": lambda x, a=rows: a},
            method="SLSQP",
            options={"ftol": 1e-14, "maxiter": 500},
        )
        x = solver.solve(*problem)
        assert 0.5 * x @ hessian @ x + gradient @ x == pytest.approx(found.fun, abs=1e-6)


def test_no_solution_is_said_exactly_where_there_is_none():
    rng, solver = np.random.default_rng(3), QpSolver()
    answers = set()
    for _ in range(300):
        hessian, gradient, lower, upper, rows, least = program(rng)
        least = least + 0.2
        known = linprog(np.zeros(7), A_ub=-rows, b_ub=-least, bounds=list(zip(lower, upper, strict=True)))
        feasible = known.status == 0
        assert (solver.solve(hessian, gradient, lower, upper, rows, least) is not None) == feasible
        answers.add(feasible)
    assert answers == {True, False}


def test_the_least_violation_is_scipys():
    rng, solver = np.random.default_rng(4), QpSolver()
    for _ in range(60):
        problem = program(rng, contradictory=True)
        lower, upper, rows, least = problem[2:]
        assert solver.solve(*problem) is None
        x = solver.solve_least_violation(*problem)

        def squares(x, a=rows, b=least):
            missing = np.maximum(b - a @ x, 0.0)
            return 0.5 * missing @ missing, -a.T @ missing

        bounds = list(zip(lower, upper, strict=True))
        found = minimize(squares, np.zeros(7), jac=True, bounds=bounds, options={"ftol": 1e-15, "gtol": 1e-10})
        assert squares(x)[0] == pytest.approx(found.fun, abs=1e-5)
        assert np.all(x > lower - 1e-7)
        assert np.all(x < upper + 1e-7)


def test_bounds_that_contradict_each_other_have_no_answer_at_all():
    problem = (np.eye(2), np.ones(2), np.ones(2), -np.ones(2), np.zeros((0, 2)), np.zeros(0))
    assert QpSolver().solve(*problem) is None
    assert QpSolver().solve_least_violation(*problem) is None


def test_a_missing_solver_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "daqp", None)
    with pytest.raises(UsageError, match=r"lav2-hil\[reactive\]"):
        ReactiveController(ReactiveConfig(limits=WIDE), joints=7)


def arm(rng, n=1, joints=7):
    """A task for N worlds that none of the limits below allows as it is."""
    return VelocityTask(rng.normal(size=(n, 6, joints)), 2.0 * rng.normal(size=(n, 6)))


def test_without_constraints_it_is_damped_least_squares():
    rng = np.random.default_rng(5)
    weight = rng.uniform(0.2, 3.0, (4, 6))
    task = replace(arm(rng, n=4), weight=weight)
    controller = ReactiveController(ReactiveConfig(limits=WIDE, damping=1e-3), joints=7, n=4)
    result = controller.compute([task], np.zeros((4, 7)))
    j = task.jacobian
    square = j @ j.swapaxes(1, 2) + 1e-3 * np.eye(6) / weight[:, :, None]
    expected = (j.swapaxes(1, 2) @ np.linalg.solve(square, task.velocity[:, :, None]))[:, :, 0]
    np.testing.assert_allclose(result.velocities, expected, atol=1e-7)
    assert np.all(result.status == ReactiveStatus.OK)


def test_weights_drop_axes_and_the_posture_takes_the_null_space():
    rng = np.random.default_rng(6)
    task = replace(arm(rng), weight=(1.0, 1.0, 1.0, 0.0, 0.0, 0.0))
    config = ReactiveConfig(limits=WIDE, damping=1e-9, posture_weight=1e-6, posture_gain=2.0)
    controller = ReactiveController(config, joints=7)
    posture = rng.normal(size=(1, 7))
    result = controller.compute([task], np.zeros((1, 7)), posture=posture).velocities[0]
    j, velocity = task.jacobian[0, :3], task.velocity[0, :3]
    np.testing.assert_allclose(j @ result, velocity, atol=1e-4)
    free = np.eye(7) - np.linalg.pinv(j) @ j
    np.testing.assert_allclose(free @ result, free @ (2.0 * posture[0]), atol=2e-2)


LIMITS = JointLimits(lower=-1.0, upper=1.0, velocity=0.8, acceleration=6.0)


def test_every_limit_holds_while_a_task_pushes_against_them():
    rng = np.random.default_rng(7)
    n = 16
    config = ReactiveConfig(limits=LIMITS, period_us=10_000)
    controller = ReactiveController(config, joints=7, n=n)
    q, last = rng.uniform(-0.9, 0.9, (n, 7)), np.zeros((n, 7))
    at_limit = at_speed = at_acceleration = 0
    for step in range(300):
        if step % 60 == 0:
            task = arm(rng, n)
        result = controller.compute([task], q, last_velocities=last)
        assert np.all(result.status == ReactiveStatus.OK)
        change = np.abs(result.velocities - last)
        assert np.all(np.abs(result.velocities) <= 0.8)
        assert np.all(change <= 6.0 * DT_S + 1e-9)
        q, last = controller.next_positions(q, result.velocities), result.velocities
        assert np.all(np.abs(q) <= 1.0)
        at_limit += np.count_nonzero(np.abs(q) > 1.0 - 1e-4)
        at_speed += np.count_nonzero(np.abs(last) > 0.8 - 1e-6)
        at_acceleration += np.count_nonzero(change > 6.0 * DT_S - 1e-6)
    assert min(at_limit, at_speed, at_acceleration) > 100  # each of them was met


@pytest.mark.parametrize("gain", [0.05, 0.5, 1.0])
def test_a_joint_at_its_fastest_still_stops_at_its_limit(gain):
    rng = np.random.default_rng(8)
    acceleration = rng.uniform(0.5, 40.0, (1, 200))
    limits = JointLimits(lower=-2.0, upper=1.0, velocity=3.0, acceleration=acceleration, gain=gain)
    bounds = VelocityBounds(limits, 1, 200, DT_S)
    q, v = rng.uniform(-1.9, 0.9, (1, 200)), np.zeros((1, 200))
    for _ in range(4000):
        lower, upper, gave_way = bounds.bounds(q, v)
        assert not gave_way.any()
        assert np.all(lower <= upper)
        assert np.all(np.abs(upper - v) <= acceleration * DT_S + 1e-9)
        v = upper
        q = q + v * DT_S
        assert np.all(q <= 1.0 + 1e-12)
    np.testing.assert_allclose(q, 1.0, atol=2e-4)


def test_the_braking_way_is_the_sum_of_its_steps():
    limits = JointLimits(lower=-1.0, upper=1.0, acceleration=5.0, gain=1.0)
    bounds = VelocityBounds(limits, 1, 1, DT_S)
    for room in (1e-6, 4e-4, 5e-4, 0.01, 0.3, 1.7):
        # as fast as it likes before, so that only position counts; then full braking
        speed = min(bounds._braking(np.array([[room]]))[0, 0], room / DT_S)
        way = sum(max(speed - k * 5.0 * DT_S, 0.0) * DT_S for k in range(200))
        assert way == pytest.approx(room, rel=1e-9)


def test_a_joint_too_fast_for_its_limit_brakes_harder_than_allowed_and_says_so():
    limits = JointLimits(lower=-1.0, upper=1.0, velocity=5.0, acceleration=1.0, gain=1.0)
    controller = ReactiveController(ReactiveConfig(limits=limits), joints=2)
    result = controller.compute([], np.array([[0.99, 0.0]]), last_velocities=np.array([[3.0, 0.0]]))
    assert result.status[0] == ReactiveStatus.LEAST_VIOLATION
    after = controller.next_positions(np.array([[0.99, 0.0]]), result.velocities)
    assert after[0, 0] <= 1.0


def test_a_joint_beyond_its_limit_comes_back_within_velocity_and_acceleration():
    limits = JointLimits(lower=-1.0, upper=1.0, velocity=0.5, acceleration=2.0)
    controller = ReactiveController(ReactiveConfig(limits=limits), joints=1)
    q, last = np.array([[1.3]]), np.array([[0.3]])
    task = VelocityTask(np.ones((1, 1, 1)), np.ones((1, 1)))  # still pushing outwards
    for _ in range(200):
        result = controller.compute([task], q, last_velocities=last)
        assert result.status[0] == ReactiveStatus.OK
        assert abs(result.velocities[0, 0] - last[0, 0]) <= 2.0 * DT_S + 1e-9
        assert abs(result.velocities[0, 0]) <= 0.5
        q, last = controller.next_positions(q, result.velocities), result.velocities
    assert q[0, 0] == pytest.approx(1.0, abs=1e-3)


def towards_a_wall(controller, q, obstacle, rate=0.0):
    """One joint that slides towards an obstacle at `obstacle`, wanted far behind it."""
    task = VelocityTask(np.ones((1, 1, 1)), np.full((1, 1), 2.0))
    measured = Distances(np.array([[obstacle - q]]), -np.ones((1, 1, 1)), np.array([[rate]]))
    return controller.compute([task], np.array([[q]]), distances=measured)


def test_the_damper_slows_down_to_the_safety_distance_and_no_further():
    damper = VelocityDamper(safety_m=0.05, influence_m=0.2, approach_m_s=0.6)
    controller = ReactiveController(ReactiveConfig(limits=WIDE, avoidance=damper), joints=1)
    q = 0.0
    for _ in range(400):
        velocity = towards_a_wall(controller, q, 1.0).velocities[0, 0]
        room = 1.0 - q - 0.05
        allowed = 0.6 * room / 0.15 if 1.0 - q < 0.2 else 2.0
        assert velocity == pytest.approx(min(allowed, 2.0), rel=1e-3)
        q += velocity * DT_S
        assert 1.0 - q >= 0.05 - 1e-12
    assert 1.0 - q == pytest.approx(0.05, abs=1e-4)


def test_below_the_safety_distance_it_backs_off_not_faster_than_it_came():
    damper = VelocityDamper(safety_m=0.05, influence_m=0.1, approach_m_s=0.3)
    controller = ReactiveController(ReactiveConfig(limits=WIDE, avoidance=damper), joints=1)
    assert towards_a_wall(controller, 0.96, 1.0).velocities[0, 0] == pytest.approx(-0.3 * 0.01 / 0.05)
    assert towards_a_wall(controller, 1.5, 1.0).velocities[0, 0] == pytest.approx(-0.3)


def test_an_obstacle_that_comes_is_made_way_for():
    damper = VelocityDamper(safety_m=0.05, influence_m=0.2, approach_m_s=0.6)
    controller = ReactiveController(ReactiveConfig(limits=WIDE, avoidance=damper), joints=1)
    q, obstacle = 0.0, 1.0
    for _ in range(300):
        q += towards_a_wall(controller, q, obstacle, rate=-0.4).velocities[0, 0] * DT_S
        obstacle -= 0.4 * DT_S
        assert obstacle - q >= 0.05 - 1e-9
    assert q < 0.0


def test_of_contradicting_distances_each_gives_way_by_half():
    damper = VelocityDamper(safety_m=0.1, influence_m=0.2, approach_m_s=0.5)
    controller = ReactiveController(ReactiveConfig(limits=WIDE, avoidance=damper), joints=1)
    between = Distances(np.full((1, 2), 0.06), np.array([[[1.0], [-1.0]]]))
    result = controller.compute([], np.zeros((1, 1)), distances=between)
    assert result.status[0] == ReactiveStatus.LEAST_VIOLATION
    assert result.velocities[0, 0] == pytest.approx(0.0, abs=1e-6)
    assert result.violation_m_s[0] == pytest.approx(0.5 * 0.04 / 0.1, rel=1e-5)


def test_distances_give_way_to_what_the_joints_can_do():
    damper = VelocityDamper(safety_m=0.1, influence_m=0.2, approach_m_s=0.5)
    limits = JointLimits(lower=-1.0, upper=1.0, velocity=0.2)
    controller = ReactiveController(ReactiveConfig(limits=limits, avoidance=damper), joints=1)
    result = towards_a_wall(controller, 0.0, 0.0)
    assert result.velocities[0, 0] == pytest.approx(-0.2)
    assert result.status[0] == ReactiveStatus.LEAST_VIOLATION
    assert result.violation_m_s[0] == pytest.approx(0.3)


def full_input(n=5, k=6, seed=9):
    rng = np.random.default_rng(seed)
    return {
        "jacobian": rng.normal(size=(n, 6, 7)),
        "velocity": rng.normal(size=(n, 6)),
        "positions": rng.uniform(-0.9, 0.9, (n, 7)),
        "last_velocities": rng.uniform(-0.05, 0.05, (n, 7)),
        "posture": rng.uniform(-0.5, 0.5, (n, 7)),
        "distance": rng.uniform(0.03, 0.2, (n, k)),
        "gradient": rng.normal(size=(n, k, 7)),
        "rate": 0.01 * rng.normal(size=(n, k)),
    }


def compute(given):
    n = len(given["positions"])
    controller = ReactiveController(ReactiveConfig(limits=LIMITS), joints=7, n=n)
    return controller.compute(
        [VelocityTask(given["jacobian"], given["velocity"])],
        given["positions"],
        last_velocities=given["last_velocities"],
        posture=given["posture"],
        distances=Distances(given["distance"], given["gradient"], given["rate"]),
    )


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, 1e300])
@pytest.mark.parametrize("name", sorted(full_input()))
def test_a_world_with_bad_input_stands_still_and_no_other_feels_it(name, bad):
    given = full_input()
    given["distance"][2, 0] = 0.04  # close: its gradient counts
    before = compute(given)
    given[name][2].flat[0] = bad
    after = compute(given)
    others = [0, 1, 3, 4]
    np.testing.assert_array_equal(after.velocities[others], before.velocities[others])
    np.testing.assert_array_equal(after.status[others], before.status[others])
    assert np.isfinite(after.velocities).all()
    assert np.isfinite(after.violation_m_s).all()
    if not (name == "distance" and bad > 0):  # inf away is a distance
        assert after.status[2] == ReactiveStatus.BAD_INPUT
        assert not after.velocities[2].any()
        assert after.violation_m_s[2] == 0.0


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_bad_positions_of_joints_without_limits_are_found_too(bad):
    limits = JointLimits(-np.inf, np.inf, acceleration=1.0)
    controller = ReactiveController(ReactiveConfig(limits=limits), joints=2, n=2)
    positions = np.array([[0.0, bad], [0.0, 0.0]])
    result = controller.compute([], positions, last_velocities=np.zeros((2, 2)))
    assert result.status.tolist() == [ReactiveStatus.BAD_INPUT, ReactiveStatus.OK]
    assert not result.velocities.any()


def test_what_is_far_away_is_not_looked_at():
    given = full_input()
    given["distance"][:, 0] = np.inf
    given["gradient"][:, 0] = np.nan
    assert not np.any(compute(given).status == ReactiveStatus.BAD_INPUT)


def test_a_world_does_not_know_how_many_there_are():
    given = full_input(n=6)
    together = compute(given)
    for world in range(6):
        alone = compute({name: value[world : world + 1] for name, value in given.items()})
        np.testing.assert_array_equal(alone.velocities[0], together.velocities[world])
        assert alone.status[0] == together.status[world]


def test_input_is_left_as_it_is():
    given = full_input()
    kept = {name: value.copy() for name, value in given.items()}
    compute(given)
    for name, value in given.items():
        np.testing.assert_array_equal(value, kept[name])


def test_rounding_takes_no_joint_over_its_limit():
    controller = ReactiveController(ReactiveConfig(limits=JointLimits(-0.3, 0.3, gain=1.0)), joints=1)
    for q in np.linspace(-0.29, 0.29, 400):
        velocity = np.array([[(0.3 - q) / DT_S * (1.0 + 1e-15)]])
        assert controller.next_positions([[q]], velocity)[0, 0] <= 0.3


def poses(rng, n):
    quat = rng.normal(size=(n, 4))
    return rng.normal(size=(n, 3)), quat / np.linalg.norm(quat, axis=1, keepdims=True)


def test_pose_tasks_lead_to_their_poses_straight_and_not_too_fast():
    rng = np.random.default_rng(10)
    n, jacobian = 8, np.tile(np.eye(6), (8, 1, 1))  # a body that flies as it likes
    (pos, quat), (pos_des, quat_des) = poses(rng, n), poses(rng, n)
    start = pos
    controller = ReactiveController(ReactiveConfig(limits=WIDE, damping=1e-9), joints=6, n=n)
    fastest = np.zeros(2)
    for _ in range(1500):
        task = pose_task(jacobian, pos, quat, pos_des, -3.0 * quat_des, max_linear_m_s=0.4, max_angular_rad_s=0.9)
        velocity = controller.compute([task], np.zeros((n, 6))).velocities
        fastest = np.maximum(fastest, [np.linalg.norm(part, axis=1).max() for part in np.split(velocity, 2, axis=1)])
        pos, quat = moved_by(pos, quat, velocity * DT_S, xp=np)
        np.testing.assert_allclose(np.cross(pos - start, pos_des - start), 0.0, atol=1e-6)
    np.testing.assert_allclose(fastest, (0.4, 0.9), rtol=1e-6)
    np.testing.assert_allclose(pos, pos_des, atol=1e-4)
    np.testing.assert_allclose(np.abs(np.sum(quat * quat_des, axis=1)), 1.0, atol=1e-7)


def test_a_position_task_is_the_linear_half_of_a_pose_task():
    rng = np.random.default_rng(11)
    jacobian, (pos, quat), (pos_des, quat_des) = rng.normal(size=(3, 6, 7)), poses(rng, 3), poses(rng, 3)
    half, whole = position_task(jacobian, pos, pos_des), pose_task(jacobian, pos, quat, pos_des, quat_des)
    np.testing.assert_array_equal(half.velocity, whole.velocity[:, :3])
    np.testing.assert_array_equal(half.jacobian, jacobian[:, :3])


def test_no_attitude_is_the_present_one_and_nan_is_a_fault_of_its_world():
    rng = np.random.default_rng(12)
    jacobian, (pos, quat), (pos_des, quat_des) = rng.normal(size=(3, 6, 7)), poses(rng, 3), poses(rng, 3)
    quat_des[0] = 0.0
    quat_des[1, 2] = np.nan
    task = pose_task(jacobian, pos, quat, pos_des, quat_des)
    np.testing.assert_allclose(task.velocity[0, 3:], 0.0, atol=1e-12)
    result = ReactiveController(ReactiveConfig(WIDE), joints=7, n=3).compute([task], np.zeros((3, 7)))
    assert result.status.tolist() == [ReactiveStatus.OK, ReactiveStatus.BAD_INPUT, ReactiveStatus.OK]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: JointLimits(1.0, 1.0), "upper: expected above lower"),
        (lambda: JointLimits([0.0, 0.0], [1.0, 1.0, 1.0]), "lower, upper: shapes"),
        (lambda: JointLimits(np.nan, 1.0), "lower: expected"),
        (lambda: JointLimits(-1.0, 1.0, velocity=0.0), "velocity: expected"),
        (lambda: JointLimits(-1.0, 1.0, acceleration=-1.0), "acceleration: expected"),
        (lambda: JointLimits(-1.0, 1.0, gain=1.5), "gain: expected"),
        (lambda: VelocityDamper(safety_m=0.1, influence_m=0.1), "influence_m: expected above safety_m"),
        (lambda: VelocityDamper(approach_m_s=0.0), "approach_m_s: expected"),
        (lambda: ReactiveConfig(WIDE, VelocityDamper(0.02, 0.03, 2.0)), "approach_m_s: expected at most 1 "),
        (lambda: ReactiveConfig(WIDE, damping=0.0), "damping: expected"),
        (lambda: ReactiveConfig(WIDE, period_us=0), "period_us: expected"),
        (lambda: VelocityTask(np.zeros((1, 6, 7)), np.zeros((1, 5))), "jacobian: expected"),
        (lambda: VelocityTask(np.zeros((1, 6, 7)), np.zeros((1, 6)), weight=(1.0, 2.0)), "weight: expected a shape"),
        (lambda: position_task(np.zeros((1, 6, 7)), np.zeros((1, 3)), np.zeros((1, 3)), gain=0.0), "gain: expected"),
        (lambda: Distances(np.zeros((1, 3)), np.zeros((1, 2, 7))), "gradient: expected"),
        (lambda: Distances(np.zeros((1, 3)), np.zeros((1, 3, 7)), np.zeros((1, 2))), "rate_m_s: expected"),
        (lambda: ReactiveController(ReactiveConfig(WIDE), joints=7, n=0), "n, joints: expected"),
        (lambda: ReactiveController(ReactiveConfig(JointLimits([-1.0] * 6, 1.0)), joints=7), "lower: expected a shape"),
        (lambda: ReactiveController(ReactiveConfig(LIMITS), joints=7).compute([], np.zeros((1, 7))), "last_velocities"),
        (lambda: ReactiveController(ReactiveConfig(WIDE), joints=7).compute([], np.zeros(7)), "positions: expected"),
    ],
)
def test_what_cannot_be_is_refused_with_a_reason(make, message):
    with pytest.raises(UsageError, match=message):
        make()
