"""State dictionaries of the seed's table, from positions, velocities, quaternions and rates."""

from __future__ import annotations

from typing import Any

from twin.control.so3 import times, transposed
from twin.frames import euler_xyz_of_rotation, rotation_of_xyzw


def flight_state(pos: Any, vel: Any, att_quat: Any, ang_vel: Any, *, xp: Any) -> dict[str, Any]:
    """The whole flight state: `pos`, `vel`, `att_euler`, `att_quat`, `att_rotmat`, `ang_vel`.

    Args:
        pos: (N, 3) world [m].
        vel: (N, 3) world [m/s].
        att_quat: (N, 4) body to world, (x, y, z, w), unit.
        ang_vel: (N, 3) body [rad/s].
        xp: array namespace.
    """
    rotation = rotation_of_xyzw(att_quat, xp=xp)
    return {
        "pos": pos,
        "vel": vel,
        "att_euler": euler_xyz_of_rotation(rotation, xp=xp),
        "att_quat": att_quat,
        "att_rotmat": xp.reshape(rotation, (-1, 9)),
        "ang_vel": ang_vel,
    }


def ground_state(pos: Any, vel: Any, att_quat: Any, ang_vel: Any, *, xp: Any) -> dict[str, Any]:
    """The ground state, `pos`, `att_euler`, `vel_b`, `ang_vel`, from the same as `flight_state`."""
    rotation = rotation_of_xyzw(att_quat, xp=xp)
    return {
        "pos": pos,
        "att_euler": euler_xyz_of_rotation(rotation, xp=xp),
        "vel_b": times(transposed(rotation, xp=xp), vel, xp=xp),
        "ang_vel": ang_vel,
    }
