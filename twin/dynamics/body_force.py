"""Drag of the body, and a force from outside: F = -C v + R_bw F_ext, in the body's frame. Source: seed "dynamics"."""

from __future__ import annotations

from typing import Any


def to_body(vectors_world: Any, rotation_world_body: Any) -> Any:
    """(N, 3) or (N, K, 3) vectors from the world's frame to the body's; rotations (N, 3, 3), v_world = R v_body.

    Written out, because batches of tiny matrix products take Torch and NumPy several times as long.
    """
    rows = rotation_world_body if vectors_world.ndim == 2 else rotation_world_body[:, None, :, :]
    x, y, z = (vectors_world[..., i : i + 1] * rows[..., i, :] for i in range(3))
    return x + y + z


def to_world(vectors_body: Any, rotation_world_body: Any) -> Any:
    """(N, 3) or (N, K, 3) vectors from the body's frame to the world's; see `to_body`."""
    columns = rotation_world_body if vectors_body.ndim == 2 else rotation_world_body[:, None, :, :]
    x, y, z = (vectors_body[..., i : i + 1] * columns[..., i] for i in range(3))
    return x + y + z


def vertical_of(vectors_body: Any, rotation_world_body: Any) -> Any:
    """(N, K) vertical components in the world of (N, K, 3) vectors of the body's frame; the last of `to_world`."""
    row = rotation_world_body[:, 2, :]
    x, y, z = (vectors_body[..., i] * row[:, i : i + 1] for i in range(3))
    return x + y + z


def body_drag(velocity_body: Any, *, linear_drag_n_s_m: Any) -> Any:
    """(N, 3) drag force [N], body frame.

    Args:
        velocity_body: (N, 3) velocity of the body [m/s], body frame. In wind: that relative to the air.
        linear_drag_n_s_m: (N, 3) diagonal of C [N s/m].
    """
    return -linear_drag_n_s_m * velocity_body
