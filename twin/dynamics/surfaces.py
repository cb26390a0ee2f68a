"""Surfaces near the vehicle, each environment's in its own local world: how far every rotor is from them.

The ground is a horizontal plane, walls are vertical planes. Where several walls are near, a rotor feels the nearest one
(the seed leaves it open; the model was fitted to one wall, and a sum would count a corner twice).
"""

from __future__ import annotations

from typing import Any


def distance_to_ground(height_m: Any, thrust_up: Any, *, xp: Any) -> Any:
    """(N, R) distance from each hub to the ground against its thrust [m]: (p_z - z_g) / (t e_3).

    Args:
        height_m: (N, R) of the hubs above the ground [m].
        thrust_up: (N, R) vertical components of the unit vectors along the thrusts.
        xp: array namespace.

    Returns:
        Infinite where the rotor does not blow towards the ground; at or below 0 where its hub is in the ground.
    """
    down_wash = thrust_up > 0.0
    one = xp.zeros_like(thrust_up) + 1.0
    return xp.where(down_wash, height_m / xp.where(down_wash, thrust_up, one), one * float("inf"))


def clearance_to_walls(
    hub_world: Any, *, xp: Any, wall_point: Any, wall_normal: Any, blade_radius_m: Any
) -> tuple[Any, Any]:
    """Clearance of each rotor's blade tip to the nearest of W walls, and where that wall is.

    Args:
        hub_world: (N, R, 3) places of the hubs [m].
        xp: array namespace.
        wall_point: (N, W, 3) a point on each wall [m].
        wall_normal: (N, W, 3) horizontal unit vectors that point into the free space.
        blade_radius_m: (N, 1) or (N, R) [m].

    Returns:
        (N, R) distance of the hub along the normal less the blade's radius, at least 0 [m]; (N, R, 3) unit vectors
        toward the wall.
    """
    nearest: Any = None
    toward: Any = None
    for wall in range(wall_point.shape[1]):
        point, normal = wall_point[:, wall, None, :], wall_normal[:, wall, None, :]
        distance = xp.sum((hub_world - point) * normal, axis=-1)
        direction = xp.zeros_like(hub_world) - normal
        if nearest is None:
            nearest, toward = distance, direction
        else:
            closer = distance < nearest
            nearest, toward = xp.where(closer, distance, nearest), xp.where(closer[..., None], direction, toward)
    return xp.maximum(nearest - blade_radius_m, xp.zeros_like(nearest)), toward
