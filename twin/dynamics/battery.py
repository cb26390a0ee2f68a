"""A battery: an open-circuit voltage that falls with its charge, behind a resistance; its sag slows the rotors.

The load takes a power P = I (U - R I), so I = 2 P / (U + sqrt(U^2 - 4 R P)); more than U^2 / 4R no battery gives: its
voltage is then U / 2. The simplest equivalent circuit (Plett, Battery Management Systems I, 2015), without slow
branches. The rotors follow the voltage because a motor's speed does.
"""

from __future__ import annotations

from typing import Any

from firmware_profiles.errors import UsageError
from twin.control.arrays import Arrays
from twin.dynamics.base import DynamicsBase
from twin.dynamics.rotor import exact_gain
from twin.world_params import BatteryWorlds

SECONDS_PER_HOUR = 3600.0


def open_circuit_voltage(charge: Any, *, xp: Any, charge_points: Any, open_circuit_v: Any) -> Any:
    """(N, 1) voltage without load [V] at (N, 1) states of charge: lines between (N, K) points, flat outside."""
    width = charge_points[:, 1:] - charge_points[:, :-1]
    rise = open_circuit_v[:, 1:] - open_circuit_v[:, :-1]
    share = (charge - charge_points[:, :-1]) / width
    share = xp.minimum(xp.maximum(share, xp.zeros_like(share)), xp.zeros_like(share) + 1.0)
    return open_circuit_v[:, :1] + xp.sum(rise * share, axis=1, keepdims=True)


def battery_current(power_w: Any, open_circuit_v: Any, *, xp: Any, internal_resistance_ohm: Any) -> Any:
    """(N, 1) current [A] under (N, 1) power [W], at most the battery's largest; resistance above 0."""
    largest = open_circuit_v * open_circuit_v / (4.0 * internal_resistance_ohm)
    power = xp.minimum(power_w, largest)
    square = xp.maximum(open_circuit_v * open_circuit_v - 4.0 * internal_resistance_ohm * power, xp.zeros_like(power))
    return 2.0 * power / (open_circuit_v + xp.sqrt(square))


def shaft_power(speed_rad_s: Any, reaction_torque: Any, spin_dir: Any, *, xp: Any) -> Any:
    """(N, 1) mechanical power of all rotors [W].

    Args:
        speed_rad_s: (N, R).
        reaction_torque: (N, R) on the body about +z [N m], as `RotorDynamics` gives it.
        spin_dir: (R,) or (N, R), +1 clockwise seen from above: the torque on the rotor has the sign of its reaction.
        xp: array namespace.

    Returns:
        A rotor that is braked gives nothing back.
    """
    each = speed_rad_s * reaction_torque * spin_dir
    return xp.sum(xp.maximum(each, xp.zeros_like(each)), axis=1, keepdims=True)


class Battery(DynamicsBase):
    """The batteries of N worlds.

    Args:
        params: of the N worlds; None is a vehicle without one.
        dt_s: length of a step [s].
        arrays: where the arrays live; by default NumPy, float64.

    Attributes:
        charge: (N, 1) state of charge, 0 to 1.
        voltage_v: (N, 1) at the terminals in the last step [V].
        current_a: (N, 1) in the last step [A].

    Raises:
        UsageError: the vehicle has none.
    """

    def __init__(self, params: BatteryWorlds | None, dt_s: float, *, arrays: Arrays | None = None) -> None:
        if params is None:
            raise UsageError("battery: the vehicle's parameters have none")
        n, points = params.charge_points.shape
        arrays = Arrays(n) if arrays is None else arrays
        super().__init__(arrays)
        spread = arrays.spread
        self._curve = {
            name: spread(name, getattr(params, name), points) for name in ("charge_points", "open_circuit_v")
        }
        self._resistance = spread("internal_resistance_ohm", params.internal_resistance_ohm, 1)
        self._charge_per_ampere = dt_s / (SECONDS_PER_HOUR * spread("capacity_ah", params.capacity_ah, 1))
        self._nominal_v = spread("nominal_v", params.nominal_v, 1)
        self._per_efficiency = 1.0 / spread("drive_efficiency", params.drive_efficiency, 1)
        self._idle_w = spread("idle_power_w", params.idle_power_w, 1)
        self._initial = spread("initial_charge", params.initial_charge, 1)
        self._sag_gain = spread("sag_time_constant_s", exact_gain(dt_s, params.sag_time_constant_s), 1)
        self._zero = arrays.zeros(1)
        self._one = self._zero + 1.0
        self.charge = self._initial
        self.current_a = self._zero
        self.voltage_v = self._open_circuit()
        self._felt_v = self.voltage_v

    def reset(self, worlds: Any = None) -> None:
        """The initial charge, and no load; see `DynamicsBase.reset`."""
        where, chosen = self._xp.where, self._chosen(worlds)
        self.charge = where(chosen, self._initial, self.charge)
        self.current_a = where(chosen, self._zero, self.current_a)
        self.voltage_v = where(chosen, self._open_circuit(), self.voltage_v)
        self._felt_v = where(chosen, self.voltage_v, self._felt_v)

    def step(self, shaft_power_w: Any) -> Any:
        """Advance one step under a load.

        Args:
            shaft_power_w: (N, 1) mechanical power of the rotors [W], see `shaft_power`.

        Returns:
            (N, 1) what the speed commands are to be multiplied with: terminal voltage, seen through its lag, over
            nominal voltage, at most 1, for above the nominal voltage the controllers give what they are told.
        """
        xp, open_circuit = self._xp, self._open_circuit()
        power = shaft_power_w * self._per_efficiency + self._idle_w
        current = battery_current(power, open_circuit, xp=xp, internal_resistance_ohm=self._resistance)
        self.current_a = current
        self.voltage_v = open_circuit - self._resistance * current
        self.charge = xp.maximum(self.charge - self._charge_per_ampere * current, self._zero)
        self._felt_v = self._felt_v + self._sag_gain * (self.voltage_v - self._felt_v)
        return self._speed_scale()

    checkpoint_size = 2
    """Numbers that a world's battery goes on from."""

    def checkpoint(self) -> Any:
        """(N, 2) charge [1] and the voltage that the rotors feel [V]."""
        return self._xp.concat((self.charge, self._felt_v), axis=1)

    def load(self, checkpoint: Any) -> Any:
        """Put all N batteries into the state of one checkpoint, (2,); gives what `step` would, (N, 1)."""
        self.charge = self._zero + checkpoint[0]
        self._felt_v = self._zero + checkpoint[1]
        return self._speed_scale()

    def _speed_scale(self) -> Any:
        return self._xp.minimum(self._felt_v / self._nominal_v, self._one)

    def _open_circuit(self) -> Any:
        return open_circuit_voltage(self.charge, xp=self._xp, **self._curve)
