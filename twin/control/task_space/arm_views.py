"""An arm's state as something else sees it: at another point of the end-effector, with some of the joints only."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from firmware_profiles.errors import UsageError
from twin.control.task_space.arm_state import ArmState
from twin.control.task_space.poses import compose, quat_apply_xyzw


def joints_by_name(patterns: Sequence[str], names: Sequence[str]) -> tuple[int, ...]:
    """Places of the names that are matched as a whole by a pattern, in the order of the names.

    Raises:
        UsageError: no pattern, one that is no regular expression, or one that matches no name.
    """
    if isinstance(patterns, str) or not patterns:
        raise UsageError(f"joint_names: expected a list of patterns, got {patterns!r}")
    found = set()
    for pattern in patterns:
        try:
            matched = {place for place, name in enumerate(names) if re.fullmatch(pattern, name)}
        except re.error as error:
            raise UsageError(f"joint_names: {pattern!r} is no regular expression: {error}") from None
        if not matched:
            raise UsageError(f"joint_names: {pattern!r} matches none; the arm has {', '.join(names)}")
        found |= matched
    return tuple(sorted(found))


def with_joints(state: ArmState, joints: Sequence[int], *, xp: Any) -> ArmState:
    """The arm with only these joints, by their places; the others are taken for such that do not move."""
    if tuple(joints) == tuple(range(len(state.joint_names))):
        return state
    places = xp.asarray(joints, device=getattr(state.joint_pos, "device", None))

    def taken(array: Any, axis: int) -> Any:
        return xp.take(array, places, axis=axis)

    return replace(
        state,
        joint_names=tuple(state.joint_names[place] for place in joints),
        joint_pos=taken(state.joint_pos, 1),
        joint_vel=taken(state.joint_vel, 1),
        joint_lower=taken(state.joint_lower, 0),
        joint_upper=taken(state.joint_upper, 0),
        default_joint_pos=taken(state.default_joint_pos, 0),
        mass_matrix=taken(taken(state.mass_matrix, 1), 2),
        gravity=taken(state.gravity, 1),
        jacobian=taken(state.jacobian, 2),
    )


def at_offset(state: ArmState, pos: Any, quat_xyzw: Any, *, xp: Any) -> ArmState:
    """The state of a frame that is fixed to the end-effector.

    Angular velocity and the Jacobian's angular rows stay, for they are those of the body, in the root's axes; so does
    the force.

    Args:
        state: of the end-effector.
        pos: (N, 3) the frame's origin in the end-effector's frame [m].
        quat_xyzw: (N, 4) frame to end-effector, unit.
        xp: array namespace.
    """
    lever = quat_apply_xyzw(state.ee_quat_xyzw, pos, xp=xp)
    ee_pos, ee_quat = compose(state.ee_pos, state.ee_quat_xyzw, pos, quat_xyzw, xp=xp)
    motion = xp.concat((state.ee_vel[:, :, None], state.jacobian), axis=2)  # both change alike
    linear, angular = motion[:, 0:3, :], motion[:, 3:6, :]
    motion = xp.concat((linear + xp.matmul(_crossed_with(lever, xp=xp), angular), angular), axis=1)
    return replace(
        state,
        ee_pos=ee_pos,
        ee_quat_xyzw=ee_quat,
        ee_vel=motion[:, :, 0],
        jacobian=motion[:, :, 1:],
    )


def _crossed_with(lever: Any, *, xp: Any) -> Any:
    """(N, 3, 3) that take w to w x lever."""
    x, y, z = lever[:, 0:1], lever[:, 1:2], lever[:, 2:3]
    nothing = xp.zeros_like(x)
    return xp.reshape(xp.concat((nothing, z, -y, -z, nothing, x, y, -x, nothing), axis=1), (-1, 3, 3))
