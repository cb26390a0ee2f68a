"""The motors of a manipulator: torques as they are told, or the brake that keeps the arm put away."""

from __future__ import annotations

from typing import Protocol

import numpy as np
import numpy.typing as npt

from firmware_profiles.arm import ArmParams

FloatArray = npt.NDArray[np.float64]

BRAKE_RAD_S = 30.0
"""Natural frequency of a braked joint that carries all that hangs on it stretched out; folded, it is faster."""


class ArmBody(Protocol):
    """The arms of N worlds in a physics engine, as live views."""

    arm_angles: FloatArray
    """(N, J) joint angles [rad]."""
    arm_rates: FloatArray
    """(N, J) [rad/s]."""
    arm_torque: FloatArray
    """(N, J) what the motors are told [N m]; the physics keeps it within their limits."""


class ArmMotors:
    """The motors of N arms, J joints each.

    Args:
        params: of the arm.
        n: N.

    Attributes:
        stowed: (J,) joint angles of the arm that is put away [rad].
        bad_commands: (N, J) how often a motor was told a torque that is not finite, and was told 0 instead.
    """

    def __init__(self, params: ArmParams, n: int) -> None:
        self.stowed = np.array(params.stowed_rad)
        inertia = _inertia_stretched(params)
        self._stiffness = inertia * BRAKE_RAD_S**2
        self._damping = 2.0 * inertia * BRAKE_RAD_S
        self._limit = np.array([link.torque_limit_nm for link in params.links])
        self._told: FloatArray | None = None
        self.bad_commands = np.zeros((n, len(params.links)), dtype=np.int64)

    def take(self, torque_nm: FloatArray | None) -> None:
        """The torques of a tick, (N, J); None brakes: the joints are held where they are while the arm is put away."""
        if torque_nm is not None:
            finite = np.isfinite(torque_nm)
            if not finite.all():
                self.bad_commands += ~finite
                torque_nm = np.where(finite, torque_nm, 0.0)
        self._told = torque_nm

    def step(self, body: ArmBody) -> None:
        """Let the motors act for one physics step."""
        if self._told is not None:
            body.arm_torque[:] = self._told
            return
        torque = self._stiffness * (self.stowed - body.arm_angles) - self._damping * body.arm_rates
        body.arm_torque[:] = np.minimum(np.maximum(torque, -self._limit), self._limit)


def _inertia_stretched(params: ArmParams) -> FloatArray:
    """(J,) what each motor turns when all links behind it are stretched out, its own rotor included [kg m^2]."""
    moments = []
    for first, own in enumerate(params.links):
        moment, reach = own.rotor_inertia_kg_m2, 0.0
        for link in params.links[first:]:
            moment += link.mass_kg * (link.length_m**2 / 12.0 + (reach + link.length_m / 2.0) ** 2)
            reach += link.length_m
        moments.append(moment + params.tip_mass_kg * reach**2)
    return np.array(moments)
