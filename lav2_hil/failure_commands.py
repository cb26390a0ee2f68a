"""MAV_CMD_INJECT_FAILURE as faults of the twin: which there are, and what becomes of one request.

| type | sensor | GPS, motion capture | motor |
|---|---|---|---|
| OK | all its faults are over | likewise | likewise |
| OFF | silent | off | lost |
| STUCK | stuck | frozen | stuck |
| GARBAGE | noise | noise | unsupported |
| WRONG | bias | jump | unsupported |
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from pymavlink.dialects.v20 import common

from bridge.codec import Message
from bridge.inject_failure import FailureRequest, Result, ack_frame, decode
from lav2_hil.vehicle_faults import in_words
from twin.faults import MOCAP, ROTOR, ROTOR_KINDS, SENSOR_KINDS, FaultChange

Kinds = Mapping[int, tuple[str, tuple[float, ...]]]

_SENSORS: Mapping[int, str] = MappingProxyType(
    {
        common.FAILURE_UNIT_SENSOR_GYRO: "gyro",
        common.FAILURE_UNIT_SENSOR_ACCEL: "accel",
        common.FAILURE_UNIT_SENSOR_MAG: "mag",
        common.FAILURE_UNIT_SENSOR_BARO: "baro",
        common.FAILURE_UNIT_SENSOR_GPS: "gps",
        common.FAILURE_UNIT_SENSOR_VIO: MOCAP,
    }
)
GARBAGE: Mapping[str, tuple[float, ...]] = MappingProxyType(
    {"gyro": (5.0,), "accel": (50.0,), "mag": (1.0,), "baro": (50.0,), "gps": (100.0,), MOCAP: (1.0,)}
)
"""Standard deviation of what a sensor says that says garbage: rad/s, m/s^2, gauss, hPa, m, m."""
WRONG: Mapping[str, tuple[float, ...]] = MappingProxyType(
    {
        **{"gyro": (0.2,), "accel": (2.0,), "mag": (0.3,), "baro": (5.0,)},
        **{"gps": (100.0, 0.0, 0.0), MOCAP: (1.0, 0.0, 0.0)},
    }
)
"""By how much one is off that is wrong; a position, to the north."""
_MOTOR: Kinds = MappingProxyType(
    {common.FAILURE_TYPE_OFF: ("effectiveness", (0.0,)), common.FAILURE_TYPE_STUCK: ("stuck", ())}
)


def changes_of(
    request: FailureRequest, rotors: int, *, motion_capture: bool = False
) -> tuple[Result, tuple[FaultChange, ...]]:
    """What a request does to a vehicle of so many rotors, which a motion capture system may see.

    Returns:
        UNSUPPORTED for a unit or a type that is not simulated, DENIED for an instance that the vehicle does not have,
        both with nothing to change; else ACCEPTED, and the changes.
    """
    names: tuple[str, ...]
    if request.unit == common.FAILURE_UNIT_SYSTEM_MOTOR and rotors:
        kinds, names = _MOTOR, ROTOR_KINDS
        targets = [f"{ROTOR}{number}" for number in range(1, rotors + 1)]
    elif request.unit in _SENSORS and (motion_capture or _SENSORS[request.unit] != MOCAP):
        sensor = _SENSORS[request.unit]
        kinds, names, targets = _of_sensor(sensor), SENSOR_KINDS[sensor], [sensor]
    else:
        return Result.UNSUPPORTED, ()
    if request.kind != common.FAILURE_TYPE_OK and request.kind not in kinds:
        return Result.UNSUPPORTED, ()
    if not 0 <= request.instance <= len(targets):
        return Result.DENIED, ()
    if request.instance:
        targets = [targets[request.instance - 1]]
    if request.kind == common.FAILURE_TYPE_OK:
        return Result.ACCEPTED, tuple(FaultChange(target, name, None) for target in targets for name in names)
    return Result.ACCEPTED, tuple(FaultChange(target, *kinds[request.kind]) for target in targets)


def _of_sensor(sensor: str) -> Kinds:
    silent, stuck, bias = ("off", "frozen", "jump") if sensor in ("gps", MOCAP) else ("silent", "stuck", "bias")
    return {
        common.FAILURE_TYPE_OFF: (silent, ()),
        common.FAILURE_TYPE_STUCK: (stuck, ()),
        common.FAILURE_TYPE_GARBAGE: ("noise", GARBAGE[sensor]),
        common.FAILURE_TYPE_WRONG: (bias, WRONG[sensor]),
    }


class FailureCommands:
    """Takes the commands out of what ground stations say, does them, and answers each once.

    Args:
        rotors: how many the vehicle has.
        change: is told of what begins or ends, as `HilLoop.change_fault`.
        tell: is called with a line for each request.
        motion_capture: whether the vehicle is seen by such a system.
    """

    def __init__(
        self,
        rotors: int,
        change: Callable[[FaultChange], None],
        tell: Callable[[str], None],
        *,
        motion_capture: bool = False,
    ) -> None:
        self._rotors = rotors
        self._motion_capture = motion_capture
        self._change = change
        self._tell = tell
        self._sequence = 0

    def take(self, message: Message, system: int | None) -> bytes | None:
        """The answer to a message that is such a command, which then must go no further; None for any other.

        Args:
            message: from a ground station.
            system: id of the flight controller; None until it has shown one, and then nobody is asked.
        """
        request = None if system is None else decode(message, system)
        if request is None:
            return None
        result, changes = changes_of(request, self._rotors, motion_capture=self._motion_capture)
        for change in changes:
            self._change(change)
        self._tell(_line(request, result, changes))
        answer = ack_frame(request, result, self._sequence)
        self._sequence = (self._sequence + 1) & 0xFF
        return answer


def _line(request: FailureRequest, result: Result, changes: tuple[FaultChange, ...]) -> str:
    who = f"the ground station {request.from_system}/{request.from_component}"
    if result is not Result.ACCEPTED:
        asked = f"unit {request.unit}, type {request.kind}, instance {request.instance}"
        return f"fault: {who} asked for {asked}: {result.name.lower()}"
    begun = [in_words(change.target, change.kind, change.value) for change in changes if change.value is not None]
    if begun:
        return f"fault: {', '.join(begun)}, by {who}"
    return f"fault over: {', '.join(dict.fromkeys(change.target for change in changes))}, by {who}"
