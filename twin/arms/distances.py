"""Distances of an arm from itself and from what stands around it, and how they change with the joints, from MuJoCo.

Which pairs are looked at is said with patterns of geom names:

* `self_pairs` are within one group. Those that cannot run into each other are left out: of one body or of bodies that
  are welded together, of neighbours in the tree, of bodies that the model excludes, and where the model's contact bits
  (contype, conaffinity) say that the two never touch.
* `pairs_between` are of one group and another. Here the names count and not the bits, so that a forbidden zone can be a
  geom that nothing touches; only pairs that cannot move against each other are left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from itertools import combinations, product
from typing import Any

import mujoco
import numpy as np
import numpy.typing as npt

from firmware_profiles.errors import UsageError
from twin.control.task_space.avoidance import Distances

FloatArray = npt.NDArray[np.float64]
GeomPair = tuple[int, int]

_TOUCHING_M = 1e-9
_READ = ("geom_xpos", "geom_xmat", "subtree_com", "cdof", "qvel")  # all that distances and Jacobians look at


def geoms_named(model: mujoco.MjModel, patterns: Sequence[str]) -> list[int]:
    """The geoms whose names match one of the patterns (`*` and `?`), in the model's order.

    Raises:
        UsageError: a pattern that matches none.
    """
    names = {geom: model.geom(geom).name for geom in range(model.ngeom)}
    for pattern in patterns:
        if not any(name and fnmatchcase(name, pattern) for name in names.values()):
            known = ", ".join(name for name in names.values() if name)
            raise UsageError(f"no geom matches {pattern!r}: there are {known or 'none with a name'}")
    return [g for g, name in names.items() if name and any(fnmatchcase(name, pattern) for pattern in patterns)]


def self_pairs(model: mujoco.MjModel, group: Sequence[str]) -> list[GeomPair]:
    """Pairs within a group that may run into each other.

    Raises:
        UsageError: a pattern that matches no geom.
    """
    excluded = {int(signature) for signature in model.exclude_signature}

    def may_touch(a: int, b: int) -> bool:
        body_a, body_b = sorted((int(model.geom_bodyid[a]), int(model.geom_bodyid[b])))
        weld_a, weld_b = int(model.body_weldid[body_a]), int(model.body_weldid[body_b])
        neighbours = weld_a == _parent(model, weld_b) or weld_b == _parent(model, weld_a)
        bits = model.geom_contype[a] & model.geom_conaffinity[b] | model.geom_contype[b] & model.geom_conaffinity[a]
        return weld_a != weld_b and not neighbours and bool(bits) and (body_a << 16) + body_b not in excluded

    return [pair for pair in combinations(geoms_named(model, group), 2) if may_touch(*pair)]


def pairs_between(model: mujoco.MjModel, group: Sequence[str], obstacles: Sequence[str]) -> list[GeomPair]:
    """Pairs of a geom of the group and one of the obstacles that can move against each other.

    Raises:
        UsageError: a pattern that matches no geom.
    """
    weld = model.body_weldid[model.geom_bodyid]
    pairs = product(geoms_named(model, group), geoms_named(model, obstacles))
    return [(a, b) for a, b in pairs if weld[a] != weld[b]]


class GeomDistances:
    """Measures K pairs of geoms in N worlds.

    The worlds must be current (`mj_forward`, or a step with a stage; see `twin.arms.state`); a batch only keeps current
    what was asked for before, so this is made before it is stepped. Two geoms that touch in
    just a point have no direction between them; that of their centres is taken. Once the axis of a capsule is inside a
    box, MuJoCo says no more than its radius, and the way out.

    Args:
        model: of the worlds.
        worlds: a `mujoco.batch.Batch` whose geoms have the model's sizes, a sequence of `MjData`, or a single one.
        pairs: (a, b) of geoms, see `self_pairs` and `pairs_between`.
        joints: the n joints that are commanded, hinges or slides, in the order of the controller.
        cutoff_m: a pair further apart is inf away; the avoidance's influence distance at least.

    Raises:
        UsageError: no such joint, a joint of another kind, or a cutoff that is not positive.
    """

    def __init__(
        self,
        model: mujoco.MjModel,
        worlds: Any,
        pairs: Sequence[GeomPair],
        joints: Sequence[str],
        *,
        cutoff_m: float = 0.2,
    ) -> None:
        if not 0.0 < cutoff_m < np.inf:
            raise UsageError(f"cutoff_m: expected a positive number, got {cutoff_m}")
        worlds = [worlds] if isinstance(worlds, mujoco.MjData) else worlds
        self._model, self._worlds, self._cutoff = model, worlds, cutoff_m
        self.pairs = tuple(pairs)
        self._dofs = np.array([_dof(model, name) for name in joints], dtype=np.intp)
        self._others = np.setdiff1d(np.arange(model.nv), self._dofs)
        self._batch: dict[str, FloatArray] | None = None
        if not isinstance(worlds, Sequence):
            self._batch = {name: worlds.bind(name) for name in _READ}
            self._scratch = mujoco.MjData(model)
        self._count = len(worlds) if self._batch is None else len(self._batch["qvel"])
        self._points = np.zeros(6)
        self._jacobian_a, self._jacobian_b = np.zeros((3, model.nv)), np.zeros((3, model.nv))

    def read(self) -> Distances:
        """Distances, their gradients, and their rates while the commanded joints rest, now.

        A rate comes from all other joints as they move now: of a floating base, of an obstacle. What is moved without
        joints (a mocap body) has no velocity in MuJoCo, and none here.
        """
        n, k = self._count, len(self.pairs)
        distance, rate = np.full((n, k), np.inf), np.zeros((n, k))
        gradient = np.zeros((n, k, self._dofs.size))
        for world, data in enumerate(self._each_world()):
            for pair, (a, b) in enumerate(self.pairs):
                measured = mujoco.mj_geomDistance(self._model, data, a, b, self._cutoff, self._points)
                if measured < self._cutoff:
                    row = self._row(data, a, b, measured)
                    distance[world, pair] = measured
                    gradient[world, pair] = row[self._dofs]
                    rate[world, pair] = row[self._others] @ data.qvel[self._others]
        return Distances(distance, gradient, rate)

    def _row(self, data: mujoco.MjData, a: int, b: int, distance: float) -> FloatArray:
        """(nv,) how the distance changes with all of MuJoCo's velocities."""
        model, on_a, on_b = self._model, self._points[:3], self._points[3:]
        away = (on_b - on_a) * (1.0 if distance > 0.0 else -1.0)
        length = float(np.linalg.norm(away))
        if length < _TOUCHING_M:
            away = data.geom_xpos[b] - data.geom_xpos[a]
            length = max(float(np.linalg.norm(away)), _TOUCHING_M)
        for jacobian, point, geom in ((self._jacobian_a, on_a, a), (self._jacobian_b, on_b, b)):
            mujoco.mj_jac(model, data, jacobian, None, point, model.geom_bodyid[geom])
        return np.asarray(away / length @ (self._jacobian_b - self._jacobian_a))

    def _each_world(self) -> Iterator[mujoco.MjData]:
        if self._batch is None:
            yield from self._worlds
            return
        for world in range(self._count):
            for name, values in self._batch.items():
                field = getattr(self._scratch, name)
                field[:] = values[world].reshape(field.shape)
            yield self._scratch


def _parent(model: mujoco.MjModel, weld: int) -> int:
    """What the bodies that a joint moves as one hang on."""
    return int(model.body_weldid[model.body_parentid[weld]])


def _dof(model: mujoco.MjModel, name: str) -> int:
    joint = mujoco.mj_name2id(model, mujoco.mjtObj.mjOBJ_JOINT, name)
    if joint < 0:
        known = ", ".join(model.joint(j).name for j in range(model.njnt))
        raise UsageError(f"no joint {name!r} in the model: it has {known or 'none'}")
    if int(model.jnt_type[joint]) not in (int(mujoco.mjtJoint.mjJNT_HINGE), int(mujoco.mjtJoint.mjJNT_SLIDE)):
        raise UsageError(f"joint {name!r}: expected a hinge or a slide")
    return int(model.jnt_dofadr[joint])
