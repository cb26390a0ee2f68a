"""The parameters of the autopilot as a board: PX4's names, enough of them to be one, and what PX4 does to them itself.

What a start-up script, a HITL boot and PX4's counters change is here, because whoever prepares a board and puts it back
has to live with it.
"""

from __future__ import annotations

from collections.abc import Mapping

from lav2_hil.autopilot.parameters import INT32, REAL32, Parameter, Parameters

_OUTPUTS = "HIL_ACT_FUNC"
_HITL_QUADROTOR = 1001
_SIMULATED_SENSOR = 1310988
_CALIBRATED = ("ACC", "GYRO", "MAG")


def _table() -> dict[str, float]:
    """Name and value; an int is INT32."""
    table: dict[str, float] = {
        "BAT1_CAPACITY": -1.0,
        "BAT1_N_CELLS": 4,
        "CA_AIRFRAME": 0,
        "CA_ROTOR_COUNT": 4,
        "CBRK_SUPPLY_CHK": 0,
        "COM_DISARM_PRFLT": 10.0,
        "COM_FLIGHT_UUID": 87,
        "COM_RC_IN_MODE": 3,
        "GPS_1_CONFIG": 201,
        "GPS_2_CONFIG": 0,
        "LND_FLIGHT_T_HI": 0,
        "LND_FLIGHT_T_LO": 1_294_967_295,
        "MPC_THR_HOVER": 0.5,
        "MPC_XY_VEL_MAX": 12.0,
        "NAV_DLL_ACT": 2,
        "SYS_AUTOCONFIG": 0,
        "SYS_FAILURE_EN": 0,
        "SYS_USB_AUTO": 2,
        "UAVCAN_ENABLE": 2,
    }
    for axis in ("ROLL", "PITCH", "YAW"):
        table |= {f"MC_{axis}RATE_{gain}": value for gain, value in (("P", 0.15), ("I", 0.2), ("D", 0.003))}
    for rotor in range(12):
        table |= {f"CA_ROTOR{rotor}_{axis}": 0.0 for axis in ("PX", "PY", "PZ", "AX", "AY")}
        table |= {f"CA_ROTOR{rotor}_AZ": -1.0, f"CA_ROTOR{rotor}_CT": 6.5, f"CA_ROTOR{rotor}_KM": 0.05}
    for output in range(1, 17):
        table[f"{_OUTPUTS}{output}"] = 0
    for side in ("MAIN", "AUX"):
        for output in range(1, 9):
            table |= {f"PWM_{side}_FUNC{output}": 0, f"PWM_{side}_DIS{output}": 900}
            table |= {f"PWM_{side}_MIN{output}": 1000, f"PWM_{side}_MAX{output}": 2000}
    for channel in range(1, 19):
        table |= {f"RC{channel}_{end}": value for end, value in (("MIN", 1000.0), ("TRIM", 1500.0), ("MAX", 2000.0))}
    for number in range(3):
        for sensor in _CALIBRATED:
            name = f"CAL_{sensor}{number}"
            table |= {f"{name}_ID": 4_325_386 + number, f"{name}_PRIO": 50, f"{name}_ROT": -1}
            table |= {f"{name}_{axis}OFF": 0.01 * (number + 1) for axis in "XYZ"}
    return table


def _parameter(value: float) -> Parameter:
    if isinstance(value, int):
        return Parameter(INT32, value, -(2**31), 2**31 - 1)
    return Parameter(REAL32, value, -1e30, 1e30)


class BoardParameters(Parameters):
    """A board's parameters, kept over its boots.

    HITL's outputs are there and listed only once HITL runs, as in PX4, which lists what is in use.
    """

    def __init__(self, system: int) -> None:
        super().__init__(system, {name: _parameter(value) for name, value in _table().items()})
        self._list(hitl=False)

    def give_outputs(self, functions: Mapping[str, int]) -> None:
        """Let HITL's outputs have these functions, by the parameter's name, as on a board that has been prepared."""
        for name, function in functions.items():
            self._put(name, function)

    def boot(self) -> None:
        """What PX4 and its start-up script change at a boot."""
        hitl = self["SYS_HITL"] >= 1
        self._list(hitl=hitl)
        self._put("COM_FLIGHT_UUID", self["COM_FLIGHT_UUID"] + 1)
        self._put("LND_FLIGHT_T_LO", self["LND_FLIGHT_T_LO"] + 1_000_000)
        if not hitl:
            return
        self._put("GPS_1_CONFIG", 0)
        if self["SYS_AUTOSTART"] == _HITL_QUADROTOR:
            self._put("UAVCAN_ENABLE", 0)
        for sensor in _CALIBRATED:
            self._put(f"CAL_{sensor}0_ID", _SIMULATED_SENSOR)
            self._put(f"CAL_{sensor}0_XOFF", 0.0)

    def values(self) -> dict[str, int | float]:
        """All of them, listed or not: an int is INT32."""
        return {
            name: int(parameter.value) if parameter.kind == INT32 else parameter.value
            for name, parameter in self._table.items()
        }

    def _put(self, name: str, value: float) -> None:
        self._table[name].value = value

    def _list(self, *, hitl: bool) -> None:
        self._names = sorted(name for name in self._table if hitl or not name.startswith(_OUTPUTS))
