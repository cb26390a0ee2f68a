"""The reactive layer on arms in MuJoCo: it keeps what plain damped least squares does not."""

from __future__ import annotations

from dataclasses import dataclass, field
from importlib.resources import as_file, files

import mujoco
import numpy as np
import pytest
from mujoco.batch import Batch

from firmware_profiles.errors import UsageError
from twin.arms.distances import GeomDistances, geoms_named, pairs_between, self_pairs
from twin.control.task_space.avoidance import VelocityDamper
from twin.control.task_space.limits import JointLimits
from twin.control.task_space.reactive import ReactiveController
from twin.control.task_space.reactive_config import ReactiveConfig, ReactiveStatus
from twin.control.task_space.reactive_tasks import position_task

SAFETY_M, PERIOD_US = 0.02, 10_000
DT_S = PERIOD_US * 1e-6
SPHERE, BOX, CAPSULE = mujoco.mjtGeom.mjGEOM_SPHERE, mujoco.mjtGeom.mjGEOM_BOX, mujoco.mjtGeom.mjGEOM_CAPSULE
JOINTS = tuple(f"joint{i}" for i in range(1, 8))


def arm_with(*obstacles, moving=False, floating=False, stiff=False):
    """The arm of seven joints among obstacles, (type, position, size) each.

    moving: the obstacles slide along x. floating: the base flies. stiff: drives hold the joints where `ctrl` says.
    """
    with as_file(files("twin.arms") / "models" / "arm7.xml") as path:
        spec = mujoco.MjSpec.from_file(str(path))
    for number, (kind, position, size) in enumerate(obstacles):
        body = spec.worldbody.add_body(name=f"obstacle{number}", pos=position)
        body.add_geom(name=f"obstacle{number}", type=kind, size=size, mass=1.0)
        if moving:
            body.add_joint(name=f"slide{number}", type=mujoco.mjtJoint.mjJNT_SLIDE, axis=[1.0, 0.0, 0.0])
    if floating:
        spec.body("base").add_freejoint(name="root")
    for motor in spec.actuators if stiff else ():
        motor.ctrllimited = False
        motor.set_to_position(kp=20_000.0, kv=400.0)
    spec.option.gravity = [0.0, 0.0, 0.0]
    spec.option.timestep = 0.002
    spec.option.integrator = mujoco.mjtIntegrator.mjINT_IMPLICITFAST
    before, after = [0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0] if floating else [], [0.0] * len(obstacles) * moving
    for key in spec.keys:
        key.qpos, key.ctrl = [*before, *key.qpos, *after], key.qpos
    return spec.compile()


def at_home(model):
    data = mujoco.MjData(model)
    mujoco.mj_resetDataKeyframe(model, data, 0)
    mujoco.mj_forward(model, data)
    return data


def around(model):
    """All pairs that matter: the arm with itself, and everything that moves with what stands in its way."""
    pairs = self_pairs(model, ["*"])
    named = any(model.geom(g).name.startswith("obstacle") for g in range(model.ngeom))
    return pairs + (pairs_between(model, ["link*", "tool"], ["obstacle*"]) if named else [])


@dataclass
class Track:
    """What was seen at every step of a run."""

    closest_m: float = np.inf
    room_rad: float = np.inf
    error_m: float = np.inf
    statuses: set = field(default_factory=set)


class Arm:
    """An arm whose tip is drawn to a goal, with the reactive layer or by damped least squares alone."""

    def __init__(self, model, *, layer):
        self.model, self.data, self.layer = model, at_home(model), layer
        self.lower, self.upper = model.jnt_range[:7].T
        limits = JointLimits(self.lower, self.upper, velocity=2.0)
        damper = VelocityDamper(safety_m=SAFETY_M, influence_m=0.1, approach_m_s=0.4)
        self.controller = ReactiveController(ReactiveConfig(limits, damper, period_us=PERIOD_US), joints=7)
        self.distances = GeomDistances(model, self.data, around(model), JOINTS)
        self.track = Track()

    def velocities(self, goal, q):
        data, jacobian = self.data, np.zeros((3, self.model.nv))
        site = self.model.site("ee").id
        mujoco.mj_jacSite(self.model, data, jacobian, None, site)
        jacobian = jacobian[:, :7]
        error = goal - data.site_xpos[site]
        self.track.error_m = float(np.linalg.norm(error))
        task = position_task(jacobian[None], data.site_xpos[None, site], goal[None])
        if not self.layer:
            return jacobian.T @ np.linalg.solve(jacobian @ jacobian.T + 1e-4 * np.eye(3), task.velocity[0])
        result = self.controller.compute([task], q[None], distances=self.distances.read())
        self.track.statuses.add(int(result.status[0]))
        return result.velocities[0]

    def look(self):
        q = self.data.qpos[:7]
        self.track.closest_m = min(self.track.closest_m, self.distances.read().distance_m.min())
        self.track.room_rad = min(self.track.room_rad, (q - self.lower).min(), (self.upper - q).min())

    def draw(self, goal, steps=600):
        """Set the joints step by step, as perfect drives would."""
        for _ in range(steps):
            q = self.data.qpos[:7].copy()
            self.data.qpos[:7] = self.controller.next_positions(q[None], self.velocities(goal, q)[None])[0]
            if not self.layer:
                self.data.qpos[:7] = q + self.velocities(goal, q) * DT_S
            mujoco.mj_forward(self.model, self.data)
            self.look()
        self.velocities(goal, self.data.qpos[:7].copy())
        return self.track

    def drive(self, goal, steps=600):
        """Move by MuJoCo's dynamics, through drives that follow the layer's positions."""
        for _ in range(steps):
            q = self.data.ctrl.copy()
            self.data.ctrl[:] = q + self.velocities(goal, q) * DT_S
            for _ in range(5):
                mujoco.mj_step(self.model, self.data)
                mujoco.mj_forward(self.model, self.data)
                self.look()
        return self.track


TASKS = {  # obstacles, goal, and whether the goal can be reached
    "behind a sphere": ([(SPHERE, [0.45, 0.2, 0.42], [0.09, 0.0, 0.0])], (0.35, 0.5, 0.45), True),
    "behind a capsule": ([(CAPSULE, [0.5, -0.2, 0.45], [0.04, 0.3, 0.0])], (0.35, -0.5, 0.45), True),
    "behind a box, straight": ([(BOX, [0.5, 0.25, 0.3], [0.2, 0.04, 0.15])], (0.45, 0.45, 0.4), False),
    "inside a box": ([(BOX, [0.6, 0.0, 0.2], [0.2, 0.3, 0.05])], (0.55, 0.0, 0.2), False),
    "inside its own body": ([], (0.0, 0.05, 0.2), False),
}


@pytest.mark.parametrize("name", TASKS)
def test_the_safety_distance_is_kept_where_plain_least_squares_runs_through(name):
    obstacles, goal, reachable = TASKS[name]
    model = arm_with(*obstacles)
    kept = Arm(model, layer=True).draw(np.array(goal))
    assert kept.closest_m >= SAFETY_M - 1e-3
    assert kept.room_rad >= 0.0
    assert kept.statuses == {ReactiveStatus.OK}
    assert kept.closest_m < 0.05  # the goal did lead there
    assert (kept.error_m < 1e-3) == reachable
    without = Arm(model, layer=False).draw(np.array(goal))
    assert without.closest_m < 0.0
    assert without.error_m < 1e-3


def test_joint_limits_are_kept_where_plain_least_squares_passes_them():
    goal = np.array([-0.5, 0.1, 0.5])
    kept = Arm(arm_with(), layer=True).draw(goal)
    assert kept.room_rad >= 0.0
    assert kept.error_m < 1e-3
    assert Arm(arm_with(), layer=False).draw(goal).room_rad < -0.5


@pytest.mark.parametrize("name", ["behind a sphere", "inside a box"])
def test_what_is_kept_on_paper_is_kept_by_an_arm_with_mass(name):
    obstacles, goal, reachable = TASKS[name]
    kept = Arm(arm_with(*obstacles, stiff=True), layer=True).drive(np.array(goal), steps=500)
    assert kept.closest_m >= SAFETY_M - 1e-3
    assert kept.room_rad >= 0.0
    assert (kept.error_m < 2e-3) == reachable


def test_an_arm_makes_way_for_what_comes():
    model = arm_with((SPHERE, [0.9, 0.03, 0.42], [0.08, 0.0, 0.0]), moving=True)
    arm = Arm(model, layer=True)
    home = arm.data.site("ee").xpos.copy()
    for _ in range(250):
        q = arm.data.qpos[:7].copy()
        arm.data.qpos[:7] = q + arm.velocities(home, q) * DT_S
        arm.data.qvel[7] = -0.15
        arm.data.qpos[7] -= 0.15 * DT_S
        mujoco.mj_forward(model, arm.data)
        arm.look()
    assert arm.track.closest_m >= SAFETY_M - 1e-3
    assert arm.track.statuses == {ReactiveStatus.OK}
    assert arm.track.error_m > 0.03  # it was in the way


def moved_by(model, data, velocity, seconds):
    other = mujoco.MjData(model)
    other.qpos[:] = data.qpos
    mujoco.mj_integratePos(model, other.qpos, velocity, seconds)
    mujoco.mj_forward(model, other)
    return other


@pytest.mark.parametrize("floating", [False, True])
def test_gradients_and_rates_are_the_differences_of_distances(floating):
    obstacles = [(SPHERE, [0.4, 0.1, 0.6], [0.15, 0.0, 0.0]), (CAPSULE, [0.3, -0.3, 0.5], [0.1, 0.2, 0.0])]
    obstacles.append((BOX, [-0.3, 0.2, 0.6], [0.2, 0.1, 0.15]))
    model = arm_with(*obstacles, moving=True, floating=floating)
    rng, compared = np.random.default_rng(1), {True: 0, False: 0}
    pairs = around(model)
    pairs += [(b, a) for a, b in pairs]
    dofs = model.jnt_dofadr[[model.joint(name).id for name in JOINTS]]
    for _ in range(12):
        data = at_home(model)
        change = 0.5 * rng.normal(size=model.nv)
        change[: dofs[0]] *= 0.2  # the base stays near
        mujoco.mj_integratePos(model, data.qpos, change, 1.0)
        data.qvel[:] = rng.normal(size=model.nv)
        mujoco.mj_forward(model, data)
        now = GeomDistances(model, data, pairs, JOINTS, cutoff_m=2.0).read()
        speed = now.gradient[0] @ data.qvel[dofs] + now.rate_m_s[0]
        sides = [moved_by(model, data, data.qvel, s) for s in (-1e-5, 1e-5)]
        back, ahead = (GeomDistances(model, side, pairs, JOINTS, cutoff_m=2.0).read().distance_m[0] for side in sides)
        middle = now.distance_m[0]
        smooth = np.abs(ahead - 2.0 * middle + back) < 1e-8  # not where the closest points jump
        smooth &= (middle > 0.0) | (ahead != back)  # MuJoCo knows no depth beyond a capsule's radius
        np.testing.assert_allclose(speed[smooth], ((ahead - back) / 2e-5)[smooth], atol=2e-3)
        for apart in (True, False):
            compared[apart] += np.count_nonzero(smooth & ((middle > 0.0) == apart))
    assert min(compared.values()) > 20


def test_a_batch_is_measured_as_its_worlds_are():
    model = arm_with((SPHERE, [0.4, 0.1, 0.4], [0.1, 0.0, 0.0]), moving=True)
    batch = Batch(model, 4, 1)
    rng = np.random.default_rng(2)
    positions = np.array([at_home(model).qpos] * 4) + 0.2 * rng.normal(size=(4, model.nq))
    measured = GeomDistances(model, batch, around(model), JOINTS)
    batch.bind("qpos")[:], batch.bind("qvel")[:] = positions, rng.normal(size=(4, model.nv))
    batch.forward()
    worlds = [mujoco.MjData(model) for _ in range(4)]
    for data, qpos, qvel in zip(worlds, positions, batch.bind("qvel"), strict=True):
        data.qpos[:], data.qvel[:] = qpos, qvel
        mujoco.mj_forward(model, data)
    whole = measured.read()
    single = GeomDistances(model, worlds, around(model), JOINTS).read()
    assert np.isinf(whole.distance_m).any()
    assert np.count_nonzero(np.isfinite(whole.distance_m)) > 8
    for field_name in ("distance_m", "gradient", "rate_m_s"):
        np.testing.assert_array_equal(getattr(whole, field_name), getattr(single, field_name))


def test_pairs_are_those_that_may_run_into_each_other():
    model = arm_with((SPHERE, [0.9, 0.0, 0.5], [0.1, 0.0, 0.0]))
    names = {tuple(sorted(model.geom(g).name for g in pair)) for pair in self_pairs(model, ["base", "link*", "tool"])}
    assert ("link2", "tool") in names
    assert ("base", "link6") in names
    assert ("link1", "link2") not in names  # neighbours
    assert ("link7", "tool") not in names  # welded together
    between = pairs_between(model, ["base", "link*"], ["obstacle*"])
    assert {model.geom(a).name for a, _ in between} == {f"link{i}" for i in range(1, 8)}  # the base cannot move
    spec = mujoco.MjSpec.from_string(
        """<mujoco><worldbody><geom name="floor" type="plane" size="1 1 1"/>
        <body name="a"><joint/><geom name="a" size=".1"/><body name="b"><joint/><geom name="b" size=".1"/>
        <body name="c"><joint/><geom name="c" size=".1"/></body></body></body>
        <body name="d" mocap="true"><geom name="d" size=".1"/></body></worldbody></mujoco>"""
    )
    model = spec.compile()
    named = [(model.geom(a).name, model.geom(b).name) for a, b in self_pairs(model, ["a", "b", "c"])]
    assert named == [("a", "c")]
    assert len(pairs_between(model, ["floor"], ["d"])) == 1  # moved by hand
    spec.add_exclude(bodyname1="c", bodyname2="a")
    assert self_pairs(spec.compile(), ["?"]) == [(1, 4), (2, 4), (3, 4)]


def test_geoms_that_touch_in_a_point_have_a_direction():
    model = mujoco.MjModel.from_xml_string(
        """<mujoco><worldbody><geom name="still" size=".1"/><body pos=".2 0 0">
        <joint name="x" type="slide" axis="1 0 0"/><geom name="moves" size=".1"/></body></worldbody></mujoco>"""
    )
    data = mujoco.MjData(model)
    mujoco.mj_forward(model, data)
    now = GeomDistances(model, data, [(0, 1)], ["x"]).read()
    assert now.distance_m[0, 0] == pytest.approx(0.0, abs=1e-12)
    assert now.gradient[0, 0, 0] == pytest.approx(1.0)


def test_what_cannot_be_is_refused_with_a_reason():
    model = arm_with(floating=True)
    data = at_home(model)
    with pytest.raises(UsageError, match=r"no geom matches 'wall\*': there are base, link1"):
        geoms_named(model, ["wall*"])
    with pytest.raises(UsageError, match="no joint 'joint9'"):
        GeomDistances(model, data, [], ["joint9"])
    with pytest.raises(UsageError, match="joint 'root': expected a hinge or a slide"):
        GeomDistances(model, data, [], ["root"])
    with pytest.raises(UsageError, match="cutoff_m"):
        GeomDistances(model, data, [], JOINTS, cutoff_m=0.0)
