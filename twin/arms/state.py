"""What a controller of an arm takes, read from MuJoCo: the one place that knows how MuJoCo stores it.

All worlds at once and without a call per world: what MuJoCo has after a step (`cdof`, `cvel`, `M`) is turned into
Jacobians, velocities and matrices by array code. Frames and signs:

* Everything is in the frame of the *root*, the arm's base body, wherever that is and however it moves. Velocities are
  relative to it, the turning of the root included, so that they are the rates of the poses in that frame. (Isaac Lab
  takes the difference of the two linear velocities; with a root that turns that is another thing.)
* Only the arm's joints are told: the rows and columns that a floating base, rotors or other arms have in MuJoCo are
  left out. The mass matrix is thus that of an arm whose base is held; what the base does in answer is not in it.
* `gravity` is what the joints must apply to hold the arm up, so it is added to efforts.
* `ee_force` is what the tool exerts on its surroundings, as a commanded force is: pressing on a wall with a command of
  10 N along z reads 10 N along z. It is the sum of all contacts at the tool in the last physics step, friction too.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import mujoco
import numpy as np
import numpy.typing as npt

from firmware_profiles.errors import UsageError
from twin.arms.model import EE_FORCE_SENSOR, EE_SITE, ROOT_BODY
from twin.control.task_space.arm_state import ArmState
from twin.frames import xyzw_of_rotation

FloatArray = npt.NDArray[np.float64]

_ONE_DEGREE_OF_FREEDOM = (mujoco.mjtJoint.mjJNT_HINGE, mujoco.mjtJoint.mjJNT_SLIDE)
_NEXT, _LAST = np.array([1, 2, 0]), np.array([2, 0, 1])
_FIELDS = ("qpos", "qvel", "xpos", "xmat", "site_xpos", "site_xmat", "subtree_com", "cdof", "cvel", "M", "qfrc_bias")


class ArmReader:
    """Reads `ArmState` of N worlds.

    The worlds must be current: `Batch.step(stage=mjSTAGE_VEL)` or `Batch.forward()`, of one world `mj_forward`. A step
    without a stage leaves joint positions and velocities new, and all else as it was before. A `Batch` fills what is
    read here from the first call on that comes after the reader was made.

    Args:
        model: of the worlds.
        worlds: a `mujoco.batch.Batch`, with whatever model fields of its own already expanded, or one `MjData`.
        root: body in whose frame everything is told.
        site: the end effector.
        joints: of the arm, hinges or slides, in the order wanted; by default those between root and site.
        force_sensor: a contact sensor with the tool as `subtree1` and the force alone as its data, `netforce`; None
            is an arm that feels nothing.
        home: name of the keyframe with the default joint positions; the model's zero if there is none.

    Raises:
        UsageError: no such name in the model, or a joint or a sensor of another kind.
    """

    def __init__(
        self,
        model: mujoco.MjModel,
        worlds: Any,
        *,
        root: str = ROOT_BODY,
        site: str = EE_SITE,
        joints: Sequence[str] | None = None,
        force_sensor: str | None = EE_FORCE_SENSOR,
        home: str = "home",
    ) -> None:
        self._model = model
        self._root = _id(model, mujoco.mjtObj.mjOBJ_BODY, root)
        self._site = _id(model, mujoco.mjtObj.mjOBJ_SITE, site)
        self._ee_body = int(model.site_bodyid[self._site])
        chain = _chain(model, self._ee_body, self._root)
        if joints is None:
            joints = [model.joint(j).name for body in chain for j in _joints_of(model, body)]
        ids = [_id(model, mujoco.mjtObj.mjOBJ_JOINT, name) for name in joints]
        for joint, name in zip(ids, joints, strict=True):
            if mujoco.mjtJoint(model.jnt_type[joint]) not in _ONE_DEGREE_OF_FREEDOM:
                raise UsageError(f"joint {name!r}: an arm's joints are hinges and slides")
        if not ids:
            raise UsageError(f"no joint between root {root!r} and site {site!r}")
        self.joint_names = tuple(joints)
        self._qpos, self._dofs = model.jnt_qposadr[ids], model.jnt_dofadr[ids]
        limited = model.jnt_limited[ids].astype(bool)
        self.joint_lower: FloatArray = np.where(limited, model.jnt_range[ids, 0], -np.inf)
        self.joint_upper: FloatArray = np.where(limited, model.jnt_range[ids, 1], np.inf)
        key = mujoco.mj_name2id(model, mujoco.mjtObj.mjOBJ_KEY, home)
        self.default_joint_pos: FloatArray = (model.qpos0 if key < 0 else model.key_qpos[key])[self._qpos].copy()
        self._moves_ee = np.array([model.jnt_bodyid[joint] in chain for joint in ids], dtype=np.float64)[:, None]
        self._dof_bodies = model.dof_bodyid[self._dofs]
        self._tree = model.body_rootid[self._ee_body]  # the root's as well, as the end effector hangs on it
        self._mass_source, self._mass_mask = _dense_block(model, self._dofs)
        self._force = None if force_sensor is None else _force_address(model, force_sensor)
        self._filled = False
        single = isinstance(worlds, mujoco.MjData)
        self._now: dict[str, FloatArray] = {
            name: getattr(worlds, name)[None] if single else worlds.bind(name) for name in (*_FIELDS, "sensordata")
        }
        self._gravity: FloatArray = model.opt.gravity
        self._subtree_mass: FloatArray = model.body_subtreemass[None, self._dof_bodies]
        if not single:
            own = worlds.expanded("opt.gravity")
            self._gravity = self._gravity if own is None else own[:, None]
            own = worlds.expanded("body_subtreemass")
            self._subtree_mass = self._subtree_mass if own is None else own[:, self._dof_bodies]

    def read(self) -> ArmState:
        """The state now. Its arrays are copies and stay as they are; its `body_pose` tells what is when it is asked.

        Raises:
            UsageError: the worlds have not been computed since the reader was made.
        """
        now = self._now
        if not self._filled:
            self._filled = bool(now["xmat"][:, self._root].any(axis=1).all())
            if not self._filled:
                raise UsageError("nothing to read yet: step or forward all worlds once after making the reader")
        to_root = self._rotation(self._root)  # row vectors times this are in the root frame
        root_pos, ee_pos = now["xpos"][:, self._root], now["site_xpos"][:, self._site]
        ee_rotation = now["site_xmat"][:, self._site].reshape(-1, 3, 3)
        lever = ee_pos - root_pos
        # Spatial vectors of MuJoCo: (angular, linear) in world axes, at the centre of mass of the whole kinematic tree.
        centre = now["subtree_com"][:, self._tree]
        axes = now["cdof"][:, self._dofs]
        turning, moving = axes[..., :3], axes[..., 3:]
        at_ee = moving + _cross(turning, (ee_pos - centre)[:, None])
        jacobian = np.concatenate((at_ee @ to_root, turning @ to_root), axis=2) * self._moves_ee
        ee_linear, ee_angular = self._velocity(self._ee_body, ee_pos - centre)
        root_linear, root_angular = self._velocity(self._root, root_pos - centre)
        linear = ee_linear - root_linear - _cross(root_angular, lever)
        velocity = np.stack((linear, ee_angular - root_angular), axis=1) @ to_root
        force = np.zeros_like(lever)
        if self._force is not None:
            force = now["sensordata"][:, self._force : self._force + 3]
        return ArmState(
            joint_names=self.joint_names,
            joint_pos=now["qpos"][:, self._qpos],
            joint_vel=now["qvel"][:, self._dofs],
            joint_lower=self.joint_lower,
            joint_upper=self.joint_upper,
            default_joint_pos=self.default_joint_pos,
            mass_matrix=now["M"][:, self._mass_source] * self._mass_mask,
            gravity=self._weight(turning, moving, centre),
            ee_pos=_times(lever, to_root),
            ee_quat_xyzw=xyzw_of_rotation(np.swapaxes(to_root, 1, 2) @ ee_rotation, xp=np),
            ee_vel=velocity.reshape(-1, 6),
            jacobian=np.swapaxes(jacobian, 1, 2),
            ee_force=_times(force, to_root),
            body_pose=self.body_pose,
        )

    def bias(self) -> FloatArray:
        """(N, n) all that the joints must apply for no acceleration: gravity, Coriolis and centrifugal [N m or N]."""
        return self._now["qfrc_bias"][:, self._dofs]

    def body_pose(self, name: str) -> tuple[FloatArray, FloatArray]:
        """Pose of a body now, in the root frame: (N, 3) position [m] and (N, 4) quaternion, xyzw.

        Raises:
            UsageError: no such body.
        """
        body = _id(self._model, mujoco.mjtObj.mjOBJ_BODY, name)
        to_root = self._rotation(self._root)
        position = self._now["xpos"][:, body] - self._now["xpos"][:, self._root]
        rotation = np.swapaxes(to_root, 1, 2) @ self._rotation(body)
        return _times(position, to_root), xyzw_of_rotation(rotation, xp=np)

    def _rotation(self, body: int) -> FloatArray:
        """(N, 3, 3) world from body."""
        return self._now["xmat"][:, body].reshape(-1, 3, 3)

    def _velocity(self, body: int, lever: FloatArray) -> tuple[FloatArray, FloatArray]:
        """(N, 3) velocity of a body at a point, given from the tree's centre of mass, and (N, 3) its rate, world."""
        spatial = self._now["cvel"][:, body]
        rate = spatial[:, :3]
        return spatial[:, 3:] + _cross(rate, lever), rate

    def _weight(self, turning: FloatArray, moving: FloatArray, centre: FloatArray) -> FloatArray:
        """(N, n) what holds up all that each joint carries, by the centre of mass of what it carries.

        MuJoCo's own `qfrc_bias` is this only at rest.
        """
        carried = self._now["subtree_com"][:, self._dof_bodies]
        at_carried = moving + _cross(turning, carried - centre[:, None])
        return np.asarray(-self._subtree_mass * np.sum(at_carried * self._gravity, axis=2))


def _cross(a: FloatArray, b: FloatArray) -> FloatArray:
    """(..., 3) as numpy.cross, in a third of its time for few worlds."""
    return a[..., _NEXT] * b[..., _LAST] - a[..., _LAST] * b[..., _NEXT]


def _times(vector: FloatArray, matrix: FloatArray) -> FloatArray:
    """(N, 3) row vectors times (N, 3, 3)."""
    return (vector[:, None] @ matrix)[:, 0]


def _id(model: mujoco.MjModel, kind: mujoco.mjtObj, name: str) -> int:
    found = int(mujoco.mj_name2id(model, kind, name))
    if found < 0:
        what = kind.name.removeprefix("mjOBJ_").lower()
        count = {"body": model.nbody, "site": model.nsite, "joint": model.njnt, "sensor": model.nsensor}[what]
        known = [mujoco.mj_id2name(model, kind, i) or f"number {i}, without a name" for i in range(count)]
        raise UsageError(f"no {what} {name!r} in the model: it has {', '.join(known) or 'none'}")
    return found


def _chain(model: mujoco.MjModel, body: int, root: int) -> list[int]:
    """The bodies behind the root up to and with this one, the root's neighbour first."""
    chain: list[int] = []
    while body not in (root, 0):
        chain.insert(0, body)
        body = int(model.body_parentid[body])
    if body != root:
        raise UsageError(f"the end effector does not hang on body {model.body(root).name!r}")
    return chain


def _joints_of(model: mujoco.MjModel, body: int) -> range:
    first = int(model.body_jntadr[body])
    return range(first, first + int(model.body_jntnum[body]))


def _dense_block(model: mujoco.MjModel, dofs: npt.NDArray[np.int32]) -> tuple[npt.NDArray[np.intp], FloatArray]:
    """Where the arm's block (n, n) is in MuJoCo's sparse mass matrix, and (n, n) whether it is there (1 or 0)."""
    place = np.full((model.nv, model.nv), -1, dtype=np.intp)
    for row in range(model.nv):  # only the lower half is stored
        start = model.M_rowadr[row]
        for index in range(start, start + model.M_rownnz[row]):
            column = model.M_colind[index]
            place[row, column] = place[column, row] = index
    block = place[np.ix_(dofs, dofs)]
    return np.maximum(block, 0), (block >= 0).astype(np.float64)


def _force_address(model: mujoco.MjModel, name: str) -> int:
    sensor = _id(model, mujoco.mjtObj.mjOBJ_SENSOR, name)
    if mujoco.mjtSensor(model.sensor_type[sensor]) != mujoco.mjtSensor.mjSENS_CONTACT or model.sensor_dim[sensor] != 3:
        raise UsageError(f"sensor {name!r}: expected a contact sensor of three numbers, with netforce and force alone")
    return int(model.sensor_adr[sensor])
