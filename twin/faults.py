"""What goes wrong with the vehicles of a twin on purpose: rotors and sensors, for as long as somebody says so.

A fault is told to a twin between two steps and holds from the next on. Nothing here costs anything before the first.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from firmware_profiles.errors import UsageError
from firmware_profiles.profile import VehicleParams
from firmware_profiles.signals import GpsFix, SensorSample
from twin.dynamics.rotor_faults import RotorFaults
from twin.environment import pressure_altitude_m
from twin.random_streams import StreamKey, TickNoise
from twin.sensors.faults import SensorFault
from twin.sensors.gnss import GnssBatch
from twin.sensors.motion_capture import MotionCaptureBatch

if TYPE_CHECKING:
    from twin.twin import SensorBatch

BoolArray = npt.NDArray[np.bool_]

ROTOR = "rotor"
ROTOR_KINDS = ("effectiveness", "stuck")
SENSOR_KINDS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "accel": ("stuck", "silent", "bias", "noise", "scale"),
        "gyro": ("stuck", "silent", "bias", "noise", "scale"),
        "mag": ("stuck", "silent", "bias", "noise", "scale"),
        "baro": ("stuck", "silent", "bias", "noise"),
        "gps": ("off", "nofix", "frozen", "jump", "noise"),
        "mocap": ("off", "frozen", "jump", "noise"),
    }
)
"""Sensors, and what may go wrong with each."""

LARGEST: Mapping[str, float] = MappingProxyType(
    {"accel": 1000.0, "gyro": 1000.0, "mag": 100.0, "baro": 2000.0, "gps": 100_000.0, "mocap": 100_000.0}
)
"""Of a bias, a jump and the standard deviation of noise: m/s^2, rad/s, gauss, hPa, m."""
LARGEST_SCALE = 100.0

_SENSOR_WORDS = {"off": "silent", "frozen": "stuck", "jump": "bias"}
"""Faults of what sees the vehicle from outside, by the names that all sensors share."""
_WIDTH = {"accel": (3, 3), "gyro": (3, 3), "mag": (3, 3), "baro": (3, 1), "gps": (6, 3), "mocap": (7, 3)}
"""Components of a reading, and how many of them are affected: the pressure, and the position."""
MOCAP = "mocap"
"""The one sensor that a vehicle may lack."""
_LEAST_PRESSURE_HPA = 1.0
VALUELESS = frozenset({"stuck", "silent", "off", "nofix", "frozen"})
"""Kinds that are so or are not."""
_NO_FIX = GpsFix(0, 0.0, 0.0, 0.0, (0.0, 0.0, 0.0), 655.0, 655.0, 0, 0)


@dataclass(frozen=True, slots=True)
class FaultChange:
    """A fault of a vehicle begins, changes or ends.

    Attributes:
        target: `rotor1` to `rotorR`, counted from 1 as PX4 counts motors; or a sensor of `SENSOR_KINDS`.
        kind: `effectiveness` (share of thrust and torque, 0..1) or `stuck` of a rotor; `SENSOR_KINDS` of a sensor.
        value: numbers in the units of `LARGEST`, one or one for each component, or of a `scale`; none where the kind
            has no value; None where the fault is over.
    """

    target: str
    kind: str
    value: tuple[float, ...] | None


class TwinFaults:
    """The faults of N worlds.

    Args:
        vehicle: the nominal vehicle.
        n: worlds.
        seed: of all noise.

    Attributes:
        rotors: what is wrong with them; None while nothing is.
        sensors: what is wrong with those with which something is, by their names.
    """

    def __init__(self, vehicle: VehicleParams, n: int, seed: int) -> None:
        self.rotors: RotorFaults | None = None
        self.sensors: dict[str, SensorFault] = {}
        self._n = n
        self._seed = seed
        self._rotor_count = len(vehicle.rotors)
        self._motion_capture = vehicle.sensors.motion_capture is not None
        imu = vehicle.sensors.imu
        self._limits = {"accel": imu.accel_limit_m_s2, "gyro": imu.gyro_limit_rad_s}

    def reset(self) -> None:
        """The worlds begin again, with what is wrong with them: a stuck sensor gets stuck at its next reading."""
        for sensor in self.sensors.values():
            sensor.reset()

    def change(self, change: FaultChange, worlds: BoolArray | None = None) -> None:
        """Let a fault begin, change or end in the worlds that are named, (N,); by default in all.

        Raises:
            UsageError: the vehicle has no such part, or that cannot go wrong with it.
        """
        check_change(change, self._rotor_count, motion_capture=self._motion_capture)
        chosen: BoolArray | slice = slice(None) if worlds is None else worlds
        if change.target in SENSOR_KINDS:
            self._change_sensor(change, chosen)
        else:
            self._change_rotor(change, chosen)

    def _change_rotor(self, change: FaultChange, worlds: BoolArray | slice) -> None:
        rotors = RotorFaults(self._n, self._rotor_count) if self.rotors is None else self.rotors
        number = int(change.target.removeprefix(ROTOR)) - 1
        if change.kind == "stuck":
            rotors.set_stuck(number, change.value is not None, worlds)
        else:
            rotors.set_effectiveness(number, 1.0 if change.value is None else change.value[0], worlds)
        self.rotors = rotors if rotors.any else None

    def _change_sensor(self, change: FaultChange, worlds: BoolArray | slice) -> None:
        name = change.target
        fault = self.sensors.get(name)
        if fault is None:
            noise = TickNoise(self._seed, StreamKey[f"{name.upper()}_FAULT"])
            upper = self._limits.get(name, math.inf)
            lower = _LEAST_PRESSURE_HPA if name == "baro" else -upper
            fault = SensorFault(self._n, *_WIDTH[name], noise, lower, upper)
        fault.set(_SENSOR_WORDS.get(change.kind, change.kind), change.value, worlds)
        if fault.any:
            self.sensors[name] = fault
        else:
            self.sensors.pop(name, None)

    def read(self, tick: int, batch: SensorBatch) -> SensorBatch:
        """What the sensors say at a tick instead of what they would; a reading that is None stays so."""
        said: dict[str, Any] = {}
        missing: dict[str, BoolArray] = {}
        for name, fault in self.sensors.items():
            for flag, key in (("silent", name), ("nofix", "fix")):
                worlds = fault.flagged(flag)
                if worlds is not None:
                    missing[key] = worlds
            field, read = _READ[name]
            reading = getattr(batch, field)
            if reading is not None:
                said[field] = read(fault, tick, reading)
        return dataclasses.replace(batch, missing=missing, **said)


def _read_vector(fault: SensorFault, tick: int, reading: Any) -> Any:
    return fault.read(tick, reading)


def _read_baro(fault: SensorFault, tick: int, reading: Any) -> Any:
    pressure, _, temperature = fault.read(tick, np.stack(reading, axis=1)).T
    return pressure, pressure_altitude_m(pressure), temperature


def _read_gps(fault: SensorFault, tick: int, reading: GnssBatch) -> GnssBatch:
    both = fault.read(tick, np.concatenate((reading.pos_ned, reading.vel_ned), axis=1))
    return dataclasses.replace(reading, pos_ned=both[:, :3], vel_ned=both[:, 3:])


def _read_mocap(fault: SensorFault, tick: int, reading: MotionCaptureBatch) -> MotionCaptureBatch:
    both = fault.read(tick, np.concatenate((reading.pos_ned, reading.q_ned_frd), axis=1))
    return dataclasses.replace(reading, pos_ned=both[:, :3], q_ned_frd=both[:, 3:])


_READ: dict[str, tuple[str, Callable[[SensorFault, int, Any], Any]]] = {
    "accel": ("accel_frd", _read_vector),
    "gyro": ("gyro_frd", _read_vector),
    "mag": ("mag_frd_gauss", _read_vector),
    "baro": ("baro", _read_baro),
    "gps": ("gnss", _read_gps),
    MOCAP: ("motion_capture", _read_mocap),
}


def without_missing(sample: SensorSample, missing: Mapping[str, BoolArray], world: int) -> SensorSample:
    """One world's sample without the readings that do not come there, and its fix without what only a fix can say."""
    gone: dict[str, Any] = {_SAMPLED_AS[name]: None for name, worlds in missing.items() if worlds[world]}
    if "fix" in gone:
        del gone["fix"]
        if sample.gps is not None:
            gone.setdefault("gps", dataclasses.replace(_NO_FIX, utc_us=sample.gps.utc_us))
    return dataclasses.replace(sample, **gone)


_SAMPLED_AS = {
    "accel": "accel_frd",
    "gyro": "gyro_frd",
    "mag": "mag_frd_gauss",
    "baro": "baro",
    "gps": "gps",
    "fix": "fix",
    MOCAP: "motion_capture",
}


def check_change(change: FaultChange, rotors: int, *, motion_capture: bool = False) -> None:
    """Whether a vehicle of so many rotors, which a motion capture system may see, can have a fault.

    Raises:
        UsageError: it has no such part, that cannot go wrong with it, or not so much; says what can.
    """
    target, kind, value = change.target, change.kind, change.value
    kinds = SENSOR_KINDS.get(target, ROTOR_KINDS)
    sensors = [name for name in SENSOR_KINDS if motion_capture or name != MOCAP]
    if target not in sensors and rotor_number(target) not in range(1, rotors + 1):
        raise UsageError(f"a fault of {target!r}: the vehicle has {', '.join((*_rotor_names(rotors), *sensors))}")
    if kind not in kinds:
        raise UsageError(f"a fault {kind!r} of {target}: possible are {', '.join(kinds)}")
    if value is None:
        return
    counts = counts_of(target, kind)
    if len(value) not in counts:
        raise UsageError(f"{kind} of {target}: expected {' or '.join(map(str, counts))} numbers, got {len(value)}")
    if not value:
        return
    lowest, highest = range_of(target, kind)
    if not all(lowest <= number <= highest for number in value):
        raise UsageError(f"{kind} of {target}: expected {lowest:g} to {highest:g}, got {', '.join(map(str, value))}")


def counts_of(target: str, kind: str) -> tuple[int, ...]:
    """How many numbers the value of a fault may have."""
    if kind in VALUELESS:
        return (0,)
    return (1,) if kind in ("effectiveness", "scale") or target == "baro" else (1, 3)


def range_of(target: str, kind: str) -> tuple[float, float]:
    """The smallest and the largest number that a fault with a value may have."""
    if kind == "effectiveness":
        return 0.0, 1.0
    if kind == "scale":
        return -LARGEST_SCALE, LARGEST_SCALE
    return (0.0 if kind == "noise" else -LARGEST[target]), LARGEST[target]


def rotor_number(target: str) -> int | None:
    """The number, from 1, in `rotor1`; None if that names no rotor."""
    digits = target.removeprefix(ROTOR)
    plain = target.startswith(ROTOR) and digits.isascii() and digits.isdecimal() and digits[0] != "0"
    return int(digits) if plain and len(digits) < 4 else None


def _rotor_names(rotors: int) -> list[str]:
    return [f"{ROTOR}1 to {ROTOR}{rotors}"] if rotors else ["no rotors"]
