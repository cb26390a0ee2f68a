"""Wall effect of each rotor: near a wall a rotor is pulled towards it and lifts a little more.

The empirical model of Ding et al. as the seed "dynamics" gives it, for a rotor that is near upright. With T0 the
vertical part of its force and d the clearance of the blade's tip in radii:
T_act = T + a1 b1^d |T0| e_d + a2 b2^d |T0| e_3, with e_d the direction to the wall. It applies where the force points
up; the formula itself would turn the vertical force of an inverted rotor round.
"""

from __future__ import annotations

from typing import Any


def wall_effect_increment(
    force_world: Any,
    *,
    xp: Any,
    clearance_m: Any,
    toward_wall: Any,
    blade_radius_m: Any,
    wall_pull_gain: Any,
    wall_pull_decay: Any,
    wall_lift_gain: Any,
    wall_lift_decay: Any,
) -> Any:
    """What the wall adds to each rotor's force; exactly nothing at an infinite clearance.

    Args:
        force_world: (N, R, 3) force of each rotor after the ground effect [N], world frame, z up.
        xp: array namespace.
        clearance_m: (N, R) from the blade's tip to the wall [m]; below 0 counts as 0.
        toward_wall: (N, R, 3) horizontal unit vectors, world frame.
        blade_radius_m: arrays that broadcast to (N, R), as all that follow [m].
        wall_pull_gain: a1.
        wall_pull_decay: b1, above 0 and below 1.
        wall_lift_gain: a2.
        wall_lift_decay: b2, above 0 and below 1.

    Returns:
        (N, R, 3) increments [N], world frame.
    """
    zero = xp.zeros_like(clearance_m)
    radii = xp.maximum(clearance_m, zero) / blade_radius_m
    vertical = xp.maximum(force_world[..., 2], zero)
    pull = wall_pull_gain * wall_pull_decay**radii * vertical
    lift = wall_lift_gain * wall_lift_decay**radii * vertical
    return pull[..., None] * toward_wall + xp.stack((zero, zero, lift), axis=-1)
