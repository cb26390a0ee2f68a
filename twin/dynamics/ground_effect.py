"""Ground effect of each rotor: near a surface below it a rotor gives more thrust.

T_pre / T_ge = 1 - k (r / 4z)^2 (seed "dynamics"; k = 1 is Cheeseman and Bennett, 1955). Below the pole at
z = r sqrt(k) / 4 the formula is negative, which means nothing: there, and wherever it would give more, the largest gain
holds.
"""

from __future__ import annotations

from typing import Any

NEAREST_RADII = 1e-6
"""A distance in radii that is as good as none: nearer ones count as this, so that nothing overflows."""


def ground_effect_share(
    distance_m: Any, *, xp: Any, blade_radius_m: Any, ground_effect_k: Any, max_ground_effect_gain: Any
) -> Any:
    """What the ground adds to a rotor's thrust, as a share of it: the gain less 1, never rising with distance.

    Args:
        distance_m: (N, R) from the hub to the ground, against the thrust [m]; infinite is no ground, exactly 0; at or
            below 0 the rotor is in the ground: the largest gain.
        xp: array namespace.
        blade_radius_m: arrays that broadcast to (N, R), as the next two: r [m].
        ground_effect_k: k, at least 0.
        max_ground_effect_gain: at least 1.

    Returns:
        (N, R) shares, from 0 to the largest gain less 1.
    """
    zero = xp.zeros_like(distance_m)
    one = zero + 1.0
    below = distance_m <= zero
    ratio = blade_radius_m / (4.0 * xp.maximum(distance_m, NEAREST_RADII * blade_radius_m))
    lost = ground_effect_k * ratio * ratio
    # Not min(1 / (1 - lost), largest): that is negative between the ground and the pole.
    capped = below | ((one - lost) * max_ground_effect_gain <= one)
    # 1 / (1 - lost) - 1, without the difference of two near numbers.
    return xp.where(capped, max_ground_effect_gain - one, lost / xp.where(capped, one, one - lost))


def ground_effect_gain(distance_m: Any, *, xp: Any, **parameters: Any) -> Any:
    """(N, R) thrust near the ground over that far from it, 1 to the largest gain; see `ground_effect_share`."""
    return ground_effect_share(distance_m, xp=xp, **parameters) + 1.0
