"""What controllers of an arm are told of it: arrays for N arms at one moment, wherever they were read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class ArmState:
    """N arms of n joints now. Poses, velocities, Jacobian and force are in the frame of the root, the arm's base body.

    Arrays are of the caller's library; controllers do not write to them.

    Attributes:
        joint_names: n, in the order of all that follows.
        joint_pos: (N, n) [rad or m].
        joint_vel: (N, n) [rad/s or m/s].
        joint_lower: (n,) limits [rad or m]; minus infinity is none.
        joint_upper: likewise; infinity is none.
        default_joint_pos: (n,) where the joints are to begin with [rad or m].
        mass_matrix: (N, n, n) joint-space inertia [kg m^2 or kg].
        gravity: (N, n) efforts that carry the arm's weight [N m or N].
        ee_pos: (N, 3) end-effector [m].
        ee_quat_xyzw: (N, 4) end-effector to root, unit.
        ee_vel: (N, 6) linear [m/s] and angular velocity [rad/s] of the end-effector relative to the root.
        jacobian: (N, 6, n) from joint velocities to `ee_vel`.
        ee_force: (N, 3) what the end-effector exerts on its surroundings [N]; zero where nothing measures it.
        body_pose: of a body's name, its position (N, 3) [m] and quaternion (N, 4), xyzw; the source of the state says
            of what moment, and what it does with a name that it does not know.
    """

    joint_names: tuple[str, ...]
    joint_pos: Any
    joint_vel: Any
    joint_lower: Any
    joint_upper: Any
    default_joint_pos: Any
    mass_matrix: Any
    gravity: Any
    ee_pos: Any
    ee_quat_xyzw: Any
    ee_vel: Any
    jacobian: Any
    ee_force: Any
    body_pose: Callable[[str], tuple[Any, Any]]
