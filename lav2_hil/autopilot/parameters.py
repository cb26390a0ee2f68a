"""The autopilot's parameters, over MAVLink's parameter protocol as PX4 speaks it: INT32 bytewise in the float."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass

from pymavlink.dialects.v20 import common

INT32 = common.MAV_PARAM_TYPE_INT32
REAL32 = common.MAV_PARAM_TYPE_REAL32
_NO_INDEX = 65535


@dataclass(slots=True)
class Parameter:
    """One parameter: its type on the wire, its value and the range that it must be in."""

    kind: int
    value: float
    low: float
    high: float

    def wire_value(self) -> float:
        """The float that carries the value."""
        if self.kind == REAL32:
            return self.value
        (as_float,) = struct.unpack("<f", struct.pack("<i", int(self.value)))
        return float(as_float)


def value_of_wire(wire: float, kind: int) -> float:
    """The value that a float carries for a type."""
    if kind == REAL32:
        return wire
    (as_int,) = struct.unpack("<i", struct.pack("<f", wire))
    return float(as_int)


class Parameters:
    """A table of parameters, by name and by index.

    What is in it either has an effect or is what ground stations and SDKs look for (calibration ids).

    Args:
        system: MAVLink system id.
        more: further parameters, or others of the same names.
    """

    def __init__(self, system: int, more: Mapping[str, Parameter] | None = None) -> None:
        self._table: dict[str, Parameter] = {
            "CAL_ACC0_ID": Parameter(INT32, 1310988, 0, 2**24 - 1),
            "CAL_GYRO0_ID": Parameter(INT32, 1310988, 0, 2**24 - 1),
            "CAL_MAG0_ID": Parameter(INT32, 197388, 0, 2**24 - 1),
            "COM_DISARM_LAND": Parameter(REAL32, 2.0, -1.0, 20.0),
            "MAV_SYS_ID": Parameter(INT32, system, 1, 250),
            "MAV_TYPE": Parameter(INT32, common.MAV_TYPE_QUADROTOR, 0, 50),
            "MIS_TAKEOFF_ALT": Parameter(REAL32, 2.5, 0.5, 100.0),
            "MPC_LAND_SPEED": Parameter(REAL32, 0.5, 0.3, 2.0),
            "MPC_XY_CRUISE": Parameter(REAL32, 2.0, 0.5, 5.0),
            "MPC_Z_V_AUTO_DN": Parameter(REAL32, 1.0, 0.5, 2.0),
            "MPC_Z_V_AUTO_UP": Parameter(REAL32, 1.5, 0.5, 3.0),
            "SYS_AUTOSTART": Parameter(INT32, 0, 0, 999_999),
            "SYS_HITL": Parameter(INT32, 0, -1, 2),
        } | dict(more or {})
        self._names = sorted(self._table)

    def __getitem__(self, name: str) -> float:
        return self._table[name].value

    def __len__(self) -> int:
        return len(self._names)

    def index_of(self, name: str) -> int | None:
        """The place of a name in the list, or None."""
        return self._names.index(name) if name in self._names else None

    def set(self, name: str, wire: float, kind: int) -> bool:
        """Take a value from the wire; False when name, type or range does not fit, and then nothing changes."""
        parameter = self._table.get(name)
        if parameter is None or kind != parameter.kind:
            return False
        value = value_of_wire(wire, kind)
        if not parameter.low <= value <= parameter.high:
            return False
        parameter.value = value
        return True

    def message(self, index: int) -> common.MAVLink_param_value_message:
        """PARAM_VALUE of the parameter at an index."""
        return self._message(self._names[index], index)

    def named(self, name: str) -> common.MAVLink_param_value_message | None:
        """PARAM_VALUE of the parameter of a name, or None; one that is not listed has an index that is none."""
        if name not in self._table:
            return None
        index = self.index_of(name)
        return self._message(name, _NO_INDEX if index is None else index)

    def _message(self, name: str, index: int) -> common.MAVLink_param_value_message:
        parameter = self._table[name]
        return common.MAVLink_param_value_message(
            name.encode(), parameter.wire_value(), parameter.kind, len(self._names), index
        )
