"""The tilt's servo: it is told an angle, and its set-point goes there at a limited rate."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from firmware_profiles.tilt import DRIVE_ANGLE_RAD, TiltParams

FloatArray = npt.NDArray[np.float64]


class TiltServo:
    """The set-points of N servos.

    Args:
        params: of the arms.
        set_point_rad: (N, 1) live view of what the physics' servos are told; it is the only state.
        dt_s: length of a step [s].

    Attributes:
        bad_commands: (N, 1) how often a servo was given a command that is not finite, and stayed where it was.
    """

    def __init__(self, params: TiltParams, set_point_rad: FloatArray, dt_s: float) -> None:
        self._set_point = set_point_rad
        self._most = params.max_rate_rad_s * dt_s
        self._wanted = set_point_rad.copy()
        self.bad_commands = np.zeros(set_point_rad.shape, dtype=np.int64)

    def aim(self, command_rad: FloatArray | None) -> None:
        """Where to go from now on, (N, 1), brought within level and a quarter turn; None stays here."""
        if command_rad is None:
            self._wanted = self._set_point.copy()
            return
        finite = np.isfinite(command_rad)
        self.bad_commands += ~finite
        wanted = np.minimum(np.maximum(command_rad, 0.0), DRIVE_ANGLE_RAD)
        self._wanted = np.where(finite, wanted, self._set_point)

    def step(self) -> None:
        """Move the set-points on by one step."""
        change = np.minimum(np.maximum(self._wanted - self._set_point, -self._most), self._most)
        self._set_point += change
