"""From an acceleration to where the thrust axis points and how much thrust, within tilt and thrust limits."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from twin.control.arrays import Arrays, checked
from twin.control.flight_params import FlightLimits


def limit_horizontal(vector: Any, horizontal: Any, least: Any, most: Any, *, xp: Any) -> Any:
    """(N, 3) world vectors with a horizontal part of at most `horizontal` (same direction), z within two bounds.

    Args:
        vector: (N, 3).
        horizontal: (N, 1), above 0.
        least: (N, 1) bound of z.
        most: (N, 1) bound of z.
        xp: array namespace.
    """
    x, y = vector[:, 0:1], vector[:, 1:2]
    scale = horizontal / xp.maximum(xp.hypot(x, y), horizontal)
    return xp.concat((x * scale, y * scale, xp.minimum(xp.maximum(vector[:, 2:3], least), most)), axis=1)


class ThrustVector:
    """The acceleration loop: m (a + g) as a thrust along the body's z axis.

    The horizontal part gives way to tilt; if the rotors cannot give all, the horizontal part gives way to the
    vertical one, which leaves it a share. Source: PX4 PositionControl::_accelerationControl and _velocityControl; PX4
    by default lets the direction depend on the horizontal acceleration alone, here the vertical one counts too, so
    that the acceleration is the one asked for.

    Args:
        limits: tilt and thrust.
        mass_kg: broadcasts to (N, 1).
        max_thrust_n: at full speed, likewise.
        gravity_m_s2: of the place.
        arrays: where the arrays live.
    """

    def __init__(
        self,
        limits: FlightLimits,
        mass_kg: npt.ArrayLike,
        max_thrust_n: npt.ArrayLike,
        gravity_m_s2: float,
        arrays: Arrays,
    ) -> None:
        checked("gravity_m_s2", gravity_m_s2, above=0.0)
        spread = arrays.spread
        self._xp = arrays.xp
        self._mass = spread("mass_kg", mass_kg, 1)
        self._gravity = spread("gravity_m_s2", gravity_m_s2, 1)
        most = spread("max_thrust_n", max_thrust_n, 1) / self._mass
        self._least_up = most * limits.thrust_share[0]
        self._most_squared = (most * limits.thrust_share[1]) ** 2
        self._kept = most * (limits.thrust_share[1] * limits.horizontal_share)
        self._slope = spread("tilt_rad", np.tan(np.asarray(limits.tilt_rad, dtype=np.float64)), 1)
        self._zero = arrays.zeros(1)
        self._tiny = self._zero + 1e-12

    def of_acceleration(self, acc: Any) -> tuple[tuple[Any, Any], Any, Any]:
        """Where to point and how hard to push.

        Args:
            acc: (N, 3) acceleration to reach, world [m/s^2].

        Returns:
            (roll, pitch) of the XYZ-intrinsic attitude, each (N, 1) [rad]; thrust (N, 1) [N]; the acceleration that
            this thrust at this attitude gives (N, 3) [m/s^2].
        """
        xp = self._xp
        minimum, maximum, hypot, sqrt = xp.minimum, xp.maximum, xp.hypot, xp.sqrt
        x, y, up = acc[:, 0:1], acc[:, 1:2], acc[:, 2:3] + self._gravity
        asked, squared = hypot(x, y), self._most_squared
        kept = minimum(asked, self._kept)
        up = minimum(maximum(up, self._least_up), sqrt(squared - kept * kept))
        room = minimum(sqrt(maximum(squared - up * up, self._zero)), up * self._slope)
        scale = room / maximum(maximum(asked, room), self._tiny)
        x, y = x * scale, y * scale
        to_side = hypot(y, up)
        thrust = self._mass * hypot(x, to_side)
        return (xp.atan2(-y, up), xp.atan2(x, to_side)), thrust, xp.concat((x, y, up - self._gravity), axis=1)
