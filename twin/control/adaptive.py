"""The adaptive controller: the geometric law, told by an L1 estimate what else pushes and turns the vehicle.

The estimated force is met by thrust and attitude, the moment by the moment. Source: as in `l1`; there only what the
thrust axis can meet at once is compensated, here the sideward part as well, through the attitude to reach.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from firmware_profiles.profile import VehicleParams
from twin.control.flight_params import flight_options
from twin.control.geometric import GeometricController
from twin.control.l1 import L1Estimate, L1Gains
from twin.control.so3 import column, cross
from twin.frames import rotation_of_xyzw


class AdaptiveController(GeometricController):
    """`GeometricController` with the L1 augmentation, for N worlds.

    States: `vel`, `att_quat` and `ang_vel` in every entry, for the estimate never rests.

    Args:
        dt_s: time between two calls of `update` [s].
        l1: see `L1Gains`.
        options: those of `GeometricController`.

    Raises:
        UsageError: a parameter that cannot be.
    """

    def __init__(self, *, dt_s: float, l1: L1Gains | None = None, **options: Any) -> None:
        super().__init__(**options)
        self._estimate = L1Estimate(L1Gains() if l1 is None else l1, dt_s, self._arrays)
        self._given: Any = self._arrays.zeros(4)

    @classmethod
    def of(cls, vehicle: VehicleParams, **options: Any) -> AdaptiveController:
        """For a vehicle; `options` are the constructor's, and replace what the vehicle says."""
        return cls(**(flight_options(vehicle) | options))

    @property
    def disturbance(self) -> Any:
        """(N, 6) the estimate: acceleration, world [m/s^2]; angular acceleration, body [rad/s^2]."""
        return self._estimate.missing

    def reset(self, worlds: Any = None) -> None:
        """Forget the estimates of some worlds, or of all."""
        self._estimate.reset(worlds)

    def applied(self, wrench: Any) -> None:
        """Say what wrench (N, 4) the rotors could give of the last one; else it is taken to have been given."""
        self._given = wrench

    def update(self, target: Mapping[str, Any], state: Mapping[str, Any]) -> Any:
        """One tick; see `FlightController.update`."""
        xp = self._xp
        try:
            rates = state["ang_vel"]
            measured = xp.concat((state["vel"], rates), axis=1)
            missing = self._estimate.update(measured, self._of_nominal(state["att_quat"], rates))
            self._given = wrench = self._law(target, state, missing[:, 0:3], missing[:, 3:6])
        except KeyError as error:
            raise self._missing(error) from None
        return wrench

    def _of_nominal(self, quat: Any, rates: Any) -> Any:
        """(N, 6) accelerations of the nominal vehicle by the wrench that was given."""
        xp, given = self._xp, self._given
        up = column(rotation_of_xyzw(quat, xp=xp), 2)
        turning = given[:, 1:4] - cross(rates, self._inertia * rates, xp=xp)
        return xp.concat((given[:, 0:1] / self._mass * up - self._gravity, turning / self._inertia), axis=1)
