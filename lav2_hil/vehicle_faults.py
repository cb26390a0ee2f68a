"""Faults of the vehicle as a user writes them: `--fault "rotor2 lost at=12s"`, `--fault "baro bias=1hPa for=5s"`.

All of their time is simulated time, for all of them happens in the twin. Rotors count from 1, as PX4 counts motors.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from firmware_profiles.errors import UsageError
from firmware_profiles.profile import VehicleProfile
from lav2_hil.fault_values import NotAllowedError, seconds, split_number
from twin.faults import MOCAP, ROTOR_KINDS, SENSOR_KINDS, VALUELESS, counts_of, range_of, rotor_number

LOST = "lost"
"""Of a rotor: an effectiveness of 0, in a word."""

_UNITS: Mapping[str, Mapping[str, float]] = MappingProxyType(
    {
        "accel": {"m/s2": 1.0, "g": 9.80665},
        "gyro": {"rad/s": 1.0, "deg/s": math.radians(1.0)},
        "mag": {"G": 1.0, "mG": 1e-3, "uT": 1e-2},
        "baro": {"hPa": 1.0, "Pa": 1e-2},
        "gps": {"m": 1.0, "km": 1e3},
        MOCAP: {"m": 1.0, "cm": 1e-2},
    }
)
"""Of biases, jumps and noise; the first of each is the twin's."""
_SHARE: Mapping[str, float] = MappingProxyType({"": 1.0, "%": 1e-2})
_PER_AXIS = "one, or three of them: x,y,z or north,east,down"


@dataclass(frozen=True, slots=True)
class VehicleFault:
    """One thing that goes wrong with the vehicle.

    Attributes:
        kind: `effectiveness` or `stuck` of a rotor; `twin.faults.SENSOR_KINDS` of a sensor.
        target: `rotor1`..., or a sensor.
        value: in the twin's units (`twin.faults.LARGEST`), one number or one for each component; none for a kind that
            has none.
        at_us: simulated time since the start of the run at which it begins, over all connections.
        for_us: simulated time after which it ends; None for never.
    """

    kind: str
    target: str
    value: tuple[float, ...] = ()
    at_us: int = 0
    for_us: int | None = None

    def __str__(self) -> str:
        begin = f" at={1e-6 * self.at_us:.12g}s" if self.at_us else ""
        end = "" if self.for_us is None else f" for={1e-6 * self.for_us:.12g}s"
        return f"{in_words(self.target, self.kind, self.value)}{begin}{end}"


def in_words(target: str, kind: str, value: tuple[float, ...]) -> str:
    """A fault as a user writes it, without its times."""
    unit = next(iter(_units(target, kind)))
    numbers = ",".join(f"{number:.12g}{unit}" for number in value)
    return f"{target} {kind}={numbers}" if value else f"{target} {kind}"


def is_vehicle(target: str) -> bool:
    """Whether a target is part of a vehicle: any rotor, or a sensor."""
    return target in SENSOR_KINDS or rotor_number(target) is not None


def kinds_of(target: str) -> tuple[str, ...]:
    """What may go wrong with a part, as a user says it."""
    return SENSOR_KINDS.get(target, (LOST, *ROTOR_KINDS))


def vehicle_fault(
    kind: str, target: str, value: object, begin: float | str, length: float | str | None
) -> VehicleFault:
    """A fault, checked.

    Args:
        kind: one of `kinds_of(target)`.
        target: of which `is_vehicle` holds.
        value: None, a text such as "1hPa" or "10m,0m,0m", a number in the twin's unit, or a list of either.
        begin: simulated time at which it begins.
        length: for how long; None for ever.

    Raises:
        NotAllowedError: a value or a time that cannot be.
    """
    numbers: tuple[float, ...] = ()
    if kind == LOST:
        _refuse_value(kind, value)
        kind, numbers = "effectiveness", (0.0,)
    elif kind in VALUELESS:
        _refuse_value(kind, value)
    else:
        numbers = _numbers(target, kind, value)
    for_us = None if length is None else round(1e6 * seconds("for", length))
    return VehicleFault(kind, target, numbers, round(1e6 * seconds("at", begin)), for_us)


def check_fits(fault: VehicleFault, profile: VehicleProfile) -> None:
    """Whether a vehicle has the part that is to fail.

    Raises:
        UsageError: it has not; says which it has.
    """
    count, number = len(profile.vehicle.rotors), rotor_number(fault.target)
    if number is not None and number > count:
        has = f"its rotors are rotor1 to rotor{count}" if count else "it has no rotors"
        raise UsageError(f"--fault: {profile.name} has no {fault.target}: {has}")
    if fault.target == MOCAP and profile.vehicle.sensors.motion_capture is None:
        raise UsageError(f"--fault: {profile.name} has no {MOCAP}: its profile has no vehicle.sensors.motion_capture")


def _refuse_value(kind: str, value: object) -> None:
    if value is not None:
        raise NotAllowedError(f"{kind}: expected no value")


def _units(target: str, kind: str) -> Mapping[str, float]:
    return _SHARE if kind in ("effectiveness", "scale") or target not in _UNITS else _UNITS[target]


def _numbers(target: str, kind: str, value: object) -> tuple[float, ...]:
    """The value's one or three numbers; those of a text without a unit have that of the last."""
    units = _units(target, kind)
    parts = value.split(",") if isinstance(value, str) else list(value) if isinstance(value, list) else [value]
    last = split_number(parts[-1])[1] if parts and isinstance(parts[-1], str) else ""
    numbers = tuple(_number(part, units, last) for part in parts)
    counts = counts_of(target, kind)
    lowest, highest = range_of(target, kind)
    if len(numbers) not in counts or not all(lowest <= number <= highest for number in numbers):
        raise NotAllowedError(f"{kind}: expected {_allowed(target, kind, units, counts)}")
    return numbers


def _number(part: object, units: Mapping[str, float], last_unit: str) -> float:
    if isinstance(part, bool) or not isinstance(part, str | int | float):
        return math.nan
    if not isinstance(part, str):
        return float(part)
    number, unit = split_number(part)
    return number * units.get(unit or last_unit, math.nan)


def _allowed(target: str, kind: str, units: Mapping[str, float], counts: tuple[int, ...]) -> str:
    lowest, highest = range_of(target, kind)
    if units is _SHARE:
        return f"a number from {lowest:g} to {highest:g}, or from {100 * lowest:g}% to {100 * highest:g}%"
    unit, *others = units
    form = f"a number with its unit, {unit}{''.join(f' or {other}' for other in others)}"
    of_axes = f"; {_PER_AXIS}" if 3 in counts else ""
    return f"{form}, from {lowest:g} to {highest:g} {unit}{of_axes}"
