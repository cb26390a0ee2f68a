"""What HITL is to a PX4's parameters: those that a profile needs, those that change by themselves, real outputs.

The facts are those of PX4's rcS, of airframe 1001 and of the modules' parameter tables (1.12 and 1.17).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from fnmatch import fnmatchcase

from firmware_profiles.errors import ProfileError
from firmware_profiles.profile import VehicleProfile
from firmware_profiles.px4_params import Value

SIMULATED_ON_BOARD = "HIL_ACT"
"""Prefix of HITL's outputs on a board (`pwm_out_sim`); these move nothing."""
SIMULATED_ON_POSIX = "PWM_MAIN"
"""The same in a build for a PC. On a board outputs of this name are real."""

HITL_AIRFRAME = 1001
"""PX4's quadrotor for HITL; its geometry and outputs are overridden by what the profile says."""
NO_SUPPLY_CHECK = 894281
FIRST_MOTOR = 101
"""Output function of motor 1."""

CHANGES_BY_ITSELF = {
    "LND_FLIGHT_T_*": "total flight time, counted by PX4",
    "COM_FLIGHT_UUID": "number of the next flight, counted by PX4",
    "COM_MODE?_HASH": "which external mode had the place, kept by PX4",
    "EKF2_MAG_DECL": "declination at the last place, saved by the estimator",
    "ASPD_SCALE_?": "airspeed scale, learnt in flight",
    "SYS_PARAM_VER": "version of the parameters' meaning, kept by the start-up script",
    "STAT_*": "statistics",
}
"""Patterns of names that are never written and never count as a difference, and why."""

HITL_SIDE_EFFECTS = {
    "GPS_1_CONFIG": "the start-up script sets it to 0 in HITL: without it the vehicle has no GPS",
    "UAVCAN_ENABLE": "airframe 1001 sets it to 0",
    "CAL_*": "calibration: the simulated sensors take the places of the real ones",
}
"""Patterns of names that HITL changes beside those that were set, and why; restore puts them back."""

_FUNCTION = re.compile(r"(.+)_FUNC[0-9]+")
_NEVER_REAL = ("SIM_GZ_",)


def matches(name: str, patterns: Collection[str]) -> bool:
    """Whether a name is one of a table's."""
    return any(fnmatchcase(name, pattern) for pattern in patterns)


def real_functions(parameters: Mapping[str, Value], simulated: str) -> dict[str, int]:
    """The functions of a board's real outputs, by the parameter's name: all but those of the simulated prefix."""
    return {
        name: int(value)
        for name, value in parameters.items()
        if (match := _FUNCTION.fullmatch(name)) is not None
        and match[1] != simulated
        and not match[1].startswith(_NEVER_REAL)
    }


def output_functions(profile: VehicleProfile) -> dict[int, int]:
    """PX4's output function of each channel that the profile uses.

    Rotors are motors 101, 102 and so on, in the order of their channels. What else the profile's PX4 1.17 is started
    with (wheels as actuator sets, a rover's motors) stands beside them.
    """
    rotors = sorted(output.channel for output in profile.firmware.rotor_outputs)
    functions = {channel: FIRST_MOTOR + motor for motor, channel in enumerate(rotors)}
    for name, value in _started_with(profile, "1.17").items():
        if name.startswith(f"{SIMULATED_ON_POSIX}_FUNC"):
            functions[int(name.removeprefix(f"{SIMULATED_ON_POSIX}_FUNC")) - 1] = int(value)
    return functions


def output_parameters(profile: VehicleProfile, simulated: str) -> dict[str, int]:
    """`output_functions` as parameters, in the order of the channels, of HITL's outputs of this prefix."""
    functions = sorted(output_functions(profile).items())
    return {f"{simulated}_FUNC{channel + 1}": function for channel, function in functions}


def function_names(prefix: str, outputs: int) -> tuple[str, ...]:
    """The parameters that say what so many outputs of a prefix do."""
    return tuple(f"{prefix}_FUNC{number}" for number in range(1, outputs + 1))


def hitl_parameters(profile: VehicleProfile, simulated: str | None) -> dict[str, Value]:
    """What a board is given to fly a profile in HITL.

    Args:
        profile: the vehicle.
        simulated: prefix of the board's HITL outputs; None for a PX4 without control allocation (1.12), whose
            outputs and geometry are its airframe's mixer.

    Raises:
        ProfileError: no airframe for that PX4 is known.
    """
    rotors = profile.firmware.rotor_outputs
    parameters: dict[str, Value] = {"SYS_HITL": 1, "CBRK_SUPPLY_CHK": NO_SUPPLY_CHECK}
    if simulated is None:
        if not any(airframe.release == "1.12" for airframe in profile.firmware.px4):
            raise ProfileError(f"{profile.name} is not known to fly with this PX4, which has no control allocation")
        return parameters | {"SYS_AUTOSTART": HITL_AIRFRAME}
    parameters["SYS_AUTOSTART"] = HITL_AIRFRAME if rotors else _airframe(profile)
    parameters |= output_parameters(profile, simulated)
    if rotors:
        parameters |= _geometry(profile)
    return parameters | {
        name: value
        for name, value in _started_with(profile, "1.17").items()
        if not name.startswith(f"{SIMULATED_ON_POSIX}_")
    }


def _geometry(profile: VehicleProfile) -> dict[str, Value]:
    """CA_*: rotors in PX4's frame (FRD) from the centre of mass; KM is torque over thrust, positive if CCW."""
    propeller = profile.vehicle.flying_propeller()
    ratio = round(propeller.torque_coefficient_nm_s2 / propeller.thrust_coefficient_n_s2, 4)
    outputs = sorted(profile.firmware.rotor_outputs, key=lambda output: output.channel)
    parameters: dict[str, Value] = {"CA_AIRFRAME": 0, "CA_ROTOR_COUNT": len(outputs)}
    for motor, output in enumerate(outputs):
        rotor = propeller.rotors[output.rotor]
        x, y, _ = rotor.position_flu_m
        parameters[f"CA_ROTOR{motor}_PX"] = x
        parameters[f"CA_ROTOR{motor}_PY"] = -y
        parameters[f"CA_ROTOR{motor}_KM"] = -rotor.spin_dir * ratio
    return parameters


def _airframe(profile: VehicleProfile) -> int:
    for airframe in profile.firmware.px4:
        if airframe.release == "1.17":
            return airframe.sys_autostart
    raise ProfileError(f"{profile.name} is not known to drive with this PX4: its firmware.px4 has no release 1.17")


def _started_with(profile: VehicleProfile, release: str) -> dict[str, Value]:
    return next((dict(frame.params) for frame in profile.firmware.px4 if frame.release == release), {})
