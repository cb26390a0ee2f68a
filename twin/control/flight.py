"""The flight controller: position -> velocity -> acceleration -> attitude -> rates -> thrust and moments.

The upper three loops and the attitude target run each `outer_every`-th call, attitude and rates at each. Source: seed
"controllers" (LAV2); the laws are PX4's PositionControl, ControlMath, AttitudeControl and RateControl, with forces and
accelerations in place of normalised thrust and torque.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from firmware_profiles.errors import UsageError
from firmware_profiles.profile import VehicleParams
from twin.control.arrays import Arrays, checked
from twin.control.attitude import attitude_error, error_matrix_table
from twin.control.base import FLIGHT_ENTRIES, ControllerBase
from twin.control.flight_params import FlightGains, FlightLimits, flight_options
from twin.control.pid import Pid
from twin.control.thrust_curve import NormalisedThrust
from twin.control.thrust_vector import ThrustVector, limit_horizontal
from twin.frames import quat_of_euler_xyz


class FlightController(ControllerBase):
    """The cascade for N worlds.

    Entries (`control_mask`): `cmd_pos`, `cmd_vel`, `cmd_acc` take position, velocity or acceleration, and yaw: the
    third angle of `att_euler`, or, if the mask names `ang_vel` instead, the yaw rate in its third component. The
    targets of the loops below may be given besides; they are added (feed-forward). `cmd_ctatt` takes `thrust` with
    `att_quat` or `att_euler`, `cmd_ctbr` `thrust` with `ang_vel`, `cmd_ctbm` `thrust` with `moment`: the thrust goes to
    the mixer as it is. Rotor speeds enter below the mixer, see `stack`.

    States: `att_quat` and `ang_vel` at each call; at the outer calls `vel`, and for `cmd_pos` also `pos`.
    A world whose state is not finite gets a wrench that is not, until it is reset; the others do not notice.

    Args:
        dt_s: time between two calls of `update` [s].
        mass_kg, inertia_kg_m2: as numbers, or what broadcasts to (N, 1) and (N, 3).
        max_thrust_n: total thrust at full speed [N]; likewise (N, 1).
        gravity_m_s2: of the place.
        gains, limits: see `flight_params`.
        outer_every: the loops above attitude run at each so many-th call.
        control_mask: the entry.
        normalised_thrust: where the target's `thrust` is a signal in [0, 1] and not in newtons, what takes it there.
        arrays: where the arrays live; and of how many worlds; by default NumPy, float64, one world.

    Raises:
        UsageError: a parameter that cannot be.
    """

    entries = FLIGHT_ENTRIES

    def __init__(
        self,
        *,
        dt_s: float,
        mass_kg: npt.ArrayLike,
        inertia_kg_m2: npt.ArrayLike,
        max_thrust_n: npt.ArrayLike,
        gravity_m_s2: float = 9.80665,
        gains: FlightGains | None = None,
        limits: FlightLimits | None = None,
        outer_every: int = 1,
        control_mask: str | Mapping[str, bool] = "cmd_pos",
        normalised_thrust: NormalisedThrust | None = None,
        arrays: Arrays | None = None,
    ) -> None:
        gains = FlightGains() if gains is None else gains
        limits = FlightLimits() if limits is None else limits
        arrays = Arrays() if arrays is None else arrays
        n = arrays.n
        if outer_every < 1:
            raise UsageError(f"outer_every: expected at least 1, got {outer_every}")
        for name, value in (("mass_kg", mass_kg), ("inertia_kg_m2", inertia_kg_m2), ("max_thrust_n", max_thrust_n)):
            checked(name, value, above=0.0)
        self._xp, spread = arrays.xp, arrays.spread
        self._outer_every, self._calls_to_outer = outer_every, 0
        self._inertia = spread("inertia_kg_m2", inertia_kg_m2, 3)
        self._max_thrust = spread("max_thrust_n", max_thrust_n, 1)
        self._normalised_thrust = normalised_thrust
        self._vector = ThrustVector(limits, mass_kg, max_thrust_n, gravity_m_s2, arrays)

        self._position_gain = spread("position", gains.position, 3)
        self._velocity = Pid(gains.velocity, 3, dt_s * outer_every, arrays)
        velocity_gain = np.asarray(gains.velocity.kp, dtype=np.float64)
        self._per_velocity_gain = spread("velocity.kp", 1.0 / velocity_gain, 3)
        self._back = spread("velocity.kp", 2.0 / velocity_gain, 3)
        self._horizontal_speed = spread("horizontal_speed_m_s", limits.horizontal_speed_m_s, 1)
        self._climb, self._sink = spread("climb_m_s", limits.climb_m_s, 1), -spread("sink_m_s", limits.sink_m_s, 1)
        self._horizontal_acc = spread("horizontal_acc_m_s2", limits.horizontal_acc_m_s2, 1)
        self._up = spread("up_acc_m_s2", limits.up_acc_m_s2, 1)
        self._down = -spread("down_acc_m_s2", limits.down_acc_m_s2, 1)

        weight = np.broadcast_to(np.asarray(gains.yaw_weight, dtype=np.float64), (n, 1))
        attitude = np.broadcast_to(np.asarray(gains.attitude, dtype=np.float64), (n, 3)).copy()
        attitude[:, 2:] /= weight  # so that a small yaw error sees the gain itself, as in PX4
        self._attitude_gain = arrays.array(attitude)
        self._one, self._zero = arrays.zeros(1) + 1.0, arrays.zeros(1)
        self._yaw_weight, self._yaw_rest = arrays.array(weight), arrays.array(1.0 - weight)
        self._error_table = arrays.array(error_matrix_table())
        self._rates = Pid(gains.rates, 3, dt_s, arrays)
        self._most_rates = spread("rates_rad_s", limits.rates_rad_s, 3)
        self._least_rates = -self._most_rates

        self._no_moment = arrays.zeros(3)  # spreads one row of moments over the worlds
        self._thrust: Any = self._zero
        self._yaw_rate: Any = None
        self._error_matrix: Any = None
        super().__init__(control_mask)

    @classmethod
    def of(cls, vehicle: VehicleParams, dt_s: float, **options: Any) -> FlightController:
        """For a vehicle; `options` are the constructor's, and replace what the vehicle says."""
        return cls(dt_s=dt_s, **(flight_options(vehicle) | options))

    def _selected(self) -> None:
        mask = self.control_mask
        self._calls_to_outer = 0
        self._rates_given, self._attitude_given = self.mode == "cmd_ctbr", self.mode == "cmd_ctatt"
        self._moments_given = self.mode == "cmd_ctbm"
        self._quat_given = mask["att_quat"]
        self._yaw_given = mask["att_euler"]
        self._pos_given, self._vel_given, self._acc_given = mask["pos"], mask["vel"], mask["acc"]
        self._yaw_rate = None

    def reset(self, worlds: Any = None) -> None:
        """Forget integrals and derivatives of some worlds, or of all; the next call runs the outer loops."""
        self._velocity.reset(worlds)
        self._rates.reset(worlds)
        self._calls_to_outer = 0

    def update(self, target: Mapping[str, Any], state: Mapping[str, Any]) -> Any:
        """One tick.

        Args:
            target: what the control mask names, see `twin.control`, for N worlds or one row for all; read at the
                outer calls only, unless the entry takes a thrust.
            state: see the class.

        Returns:
            (N, 4): thrust along +z body [N], moments about the FLU axes [N m].

        Raises:
            UsageError: target or state lacks an entry.
        """
        xp = self._xp
        try:
            if self._moments_given:
                self._thrust = self._given_thrust(target)
                return xp.concat((self._thrust, target["moment"] + self._no_moment), axis=1)
            rates = state["ang_vel"]
            if self._rates_given:
                wanted = target["ang_vel"]
                self._thrust = self._given_thrust(target)
            else:
                quat = state["att_quat"]
                if self._attitude_given:
                    self._thrust = self._given_thrust(target)
                    self._aim(target["att_quat"] if self._quat_given else self._quat_of_target(target))
                elif self._calls_to_outer == 0:
                    self._outer(target, state)
                    self._calls_to_outer = self._outer_every
                self._calls_to_outer -= 1
                wanted = self._wanted_rates(quat)
        except KeyError as error:
            raise self._missing(error) from None
        wanted = xp.minimum(xp.maximum(wanted, self._least_rates), self._most_rates)
        moments = self._rates.update(wanted - rates, rates) * self._inertia
        return xp.concat((self._thrust, moments), axis=1)

    def _given_thrust(self, target: Mapping[str, Any]) -> Any:
        thrust, curve = target["thrust"], self._normalised_thrust
        if curve is not None:
            thrust = curve.newtons(thrust)
        return self._xp.minimum(self._xp.maximum(thrust, self._zero), self._max_thrust)

    def _quat_of_target(self, target: Mapping[str, Any]) -> Any:
        return quat_of_euler_xyz(target["att_euler"], xp=self._xp)

    def _aim(self, quat_target: Any) -> None:
        """Keep the attitude to reach, as the matrix that gives the error."""
        self._error_matrix = self._xp.reshape(self._xp.matmul(quat_target, self._error_table), (-1, 4, 4))

    def _wanted_rates(self, quat: Any) -> Any:
        xp = self._xp
        error = xp.matmul(quat[:, None, :], self._error_matrix)[:, 0, :]
        if self._yaw_rate is None:
            return attitude_error(error, self._yaw_weight, self._yaw_rest, self._one, xp=xp) * self._attitude_gain
        # A yaw rate is turned about the world's vertical, whatever the tilt; heading is left alone.
        tilt_only = attitude_error(error, self._zero, self._one, self._one, xp=xp) * self._attitude_gain
        x, y, z, w = quat[:, 0:1], quat[:, 1:2], quat[:, 2:3], quat[:, 3:4]
        up = xp.concat((2.0 * (x * z - w * y), 2.0 * (y * z + w * x), 1.0 - 2.0 * (x * x + y * y)), axis=1)
        return tilt_only + up * self._yaw_rate

    def _outer(self, target: Mapping[str, Any], state: Mapping[str, Any]) -> None:
        """Position, velocity and acceleration loops: attitude and thrust for the next ticks."""
        xp, velocity, vector = self._xp, self._velocity, self._vector
        if self._pos_given or self._vel_given:
            vel = state["vel"]
            if self._pos_given:
                wanted = self._position_gain * (target["pos"] - state["pos"])
                if self._vel_given:
                    wanted = wanted + target["vel"]
            else:
                wanted = target["vel"]
            error = limit_horizontal(wanted, self._horizontal_speed, self._sink, self._climb, xp=xp) - vel
            asked = velocity.proportional_derivative(error, vel)
            if self._acc_given:
                asked = asked + target["acc"]
            limited = limit_horizontal(asked, self._horizontal_acc, self._down, self._up, xp=xp)
            acc = limited + velocity.integral
            direction, self._thrust, achieved = vector.of_acceleration(acc)
            # What the limits cut off is not integrated; what the rotors cannot give takes the integral back (PX4).
            velocity.integrate(error - self._per_velocity_gain * (asked - limited) - self._back * (acc - achieved))
        else:
            asked = limit_horizontal(target["acc"], self._horizontal_acc, self._down, self._up, xp=xp)
            direction, self._thrust, _ = vector.of_acceleration(asked)
        if self._yaw_given:
            yaw = target["att_euler"][:, 2:3] + self._zero
        else:
            yaw, self._yaw_rate = self._zero, target["ang_vel"][:, 2:3]
        self._aim(quat_of_euler_xyz(xp.concat((*direction, yaw), axis=1), xp=xp))
