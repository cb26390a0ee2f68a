"""The rules about firmware, HITL's set-up, its outputs and what stops them."""

from __future__ import annotations

from collections.abc import Mapping

from pymavlink.dialects.v20 import common

from bridge.events import Event
from firmware_profiles.hitl import FIRST_MOTOR, SIMULATED_ON_BOARD
from firmware_profiles.px4_params import Value
from lav2_hil.doctor.complaints import Cause, told
from lav2_hil.doctor.findings import Finding
from lav2_hil.doctor.observation import Observation

OLDEST = (1, 12)
FUNCTIONS_SINCE = (1, 13)
"""HIL_ACT_FUNCn and PWM_MAIN_FUNCn; before, mixer files said what an output does."""
ENOUGH_HZ = 100.0
SLOWEST_BAUD = 100_000
"""PX4 lets HIL on a line of more than 5,000 B/s, and counts a twentieth of the baud rate."""
_TERMINATION_MODE = 10


def firmware(seen: Observation) -> Finding | None:
    """Older than what HITL works with here."""
    if not (1, 1) <= seen.release < OLDEST:
        return None
    return Finding(
        Cause.FIRMWARE,
        "the firmware is too old",
        "install PX4 1.12 or newer",
        (f"PX4 {'.'.join(map(str, seen.release))}",),
    )


def hitl_off(seen: Observation) -> Finding | None:
    """SYS_HITL is not set, or was set after the boot."""
    value = seen.parameters.get("SYS_HITL")
    if value is None:
        return None
    evidence = (f"SYS_HITL is {value}", f"HEARTBEAT: {'in' if seen.in_hil else 'not in'} HIL")
    if value == 2:
        return Finding(
            Cause.HITL_OFF,
            "the board simulates a vehicle itself (SYS_HITL 2) and takes none from outside",
            "set SYS_HITL 1 and reboot: lav2-hil board prepare does both",
            evidence,
        )
    if value == 1 and not seen.in_hil:
        return Finding(
            Cause.HITL_OFF,
            "SYS_HITL is set and the board has not been rebooted since: it runs on its real sensors",
            "reboot the board and ask again",
            evidence,
        )
    if value <= 0 and (seen.serial or seen.is_board) and not seen.in_hil:
        return Finding(
            Cause.HITL_OFF,
            "HITL is off: the board runs on its real sensors and sends no controls",
            "set SYS_HITL 1 and reboot: lav2-hil board prepare does both, and board restore takes it back",
            evidence,
        )
    return None


def no_outputs(seen: Observation) -> Finding | None:
    """No controls, or zeros while armed."""
    if not seen.in_hil:
        return None
    outputs = seen.outputs
    every = {name: value for name, value in seen.parameters.items() if "_FUNC" in name}
    # A board has both, and its PWM_MAIN are real outputs.
    functions = {name: value for name, value in every.items() if name.startswith(SIMULATED_ON_BOARD)} or every
    evidence = []
    if seen.release >= FUNCTIONS_SINCE:
        if not functions:
            evidence.append("the board has no HIL_ACT_FUNC1: its firmware lacks pwm_out_sim")
        elif not any(functions.values()):
            evidence.append(f"{', '.join(functions)} are all 0: no output has a function")
        else:
            evidence += _unmapped(functions, seen.parameters)
    silent = seen.serial and not outputs.hil and seen.baud > SLOWEST_BAUD
    if silent:
        evidence.append(f"no HIL_ACTUATOR_CONTROLS in {seen.seconds:.0f} s")
    if outputs.armed and outputs.armed_zero == outputs.armed and not told(seen, Cause.KILL_SWITCH):
        evidence.append(f"{outputs.armed} HIL_ACTUATOR_CONTROLS while armed, all zero")
    if not evidence:
        return None
    return Finding(
        Cause.NO_OUTPUTS,
        "the board sends no controls, or not all",
        "set HIL_ACT_FUNC1.. (101.. motors, 201.. servos; board prepare does), reboot; where the board has no such "
        "parameter, use a firmware built with CONFIG_MODULES_SIMULATION_PWM_OUT_SIM",
        tuple(evidence),
    )


def _unmapped(functions: Mapping[str, Value], parameters: Mapping[str, Value]) -> list[str]:
    """The motors that a multirotor flies with and sends to no output."""
    if parameters.get("CA_AIRFRAME") != 0:
        return []
    motors = int(parameters.get("CA_ROTOR_COUNT", 0))
    lost = [motor for motor in range(1, motors + 1) if FIRST_MOTOR + motor - 1 not in functions.values()]
    if not lost:
        return []
    have = ", ".join(f"{name} = {value}" for name, value in functions.items() if value)
    return [f"no output for motor {', '.join(map(str, lost))} of {motors}: {have}"]


def slow_link(seen: Observation) -> Finding | None:
    """The line carries no HIL, or too few controls."""
    if not (seen.serial and seen.in_hil):
        return None
    outputs = seen.outputs
    if not outputs.hil and seen.baud <= SLOWEST_BAUD:
        evidence = f"no HIL_ACTUATOR_CONTROLS in {seen.seconds:.0f} s at {seen.baud} baud"
    elif outputs.hil > 1 and outputs.hil_rate_hz < ENOUGH_HZ:
        evidence = f"HIL_ACTUATOR_CONTROLS at {outputs.hil_rate_hz:.0f} Hz, {ENOUGH_HZ:g} Hz needed; PX4 makes 200"
    else:
        return None
    return Finding(
        Cause.SLOW_LINK, "the link is too slow for HITL", "use USB, or a serial line at 921600 baud", (evidence,)
    )


def flight_termination(seen: Observation) -> Finding | None:
    """It has given up, and stays so."""
    evidence = told(seen, Cause.FLIGHT_TERMINATION)
    ended = seen.system_status == common.MAV_STATE_FLIGHT_TERMINATION
    if not evidence and (not ended or _always_locked(seen) or _is_killed(seen)):
        return None
    if ended and not _always_locked(seen):
        evidence += ("HEARTBEAT: flight termination",)
    if seen.custom_mode >> 16 & 0xFF == _TERMINATION_MODE:
        evidence += ("mode: termination",)
    return Finding(
        Cause.FLIGHT_TERMINATION,
        "flight termination: PX4 has stopped its outputs for good",
        "reboot the flight controller (SITL: start PX4 again)",
        evidence,
    )


def kill_switch(seen: Observation) -> Finding | None:
    """Somebody holds the motors."""
    if not _is_killed(seen):
        return None
    engaged = tuple(f"EVENT: {event.text}" for event in _kill_events(seen))
    return Finding(
        Cause.KILL_SWITCH,
        "the kill switch is engaged: the outputs are held at zero",
        "release the kill switch on the RC or joystick; where none is engaged, reboot the flight controller",
        told(seen, Cause.KILL_SWITCH) + engaged or ("HEARTBEAT: outputs stopped (status 8), and not armed",),
    )


def _kill_events(seen: Observation) -> list[Event]:
    events = [event for event in seen.events if event.name.startswith("commander_kill_sw_")]
    return events[-1:] if events and events[-1].name == "commander_kill_sw_engaged" else []


def _is_killed(seen: Observation) -> bool:
    if told(seen, Cause.KILL_SWITCH) or _kill_events(seen):
        return True
    # PX4 1.12 has no word for a switch that was engaged before anybody listened. Termination needs an armed vehicle.
    stopped = seen.system_status == common.MAV_STATE_FLIGHT_TERMINATION and not seen.armed
    terminated = told(seen, Cause.FLIGHT_TERMINATION) or seen.custom_mode >> 16 & 0xFF == _TERMINATION_MODE
    return stopped and not terminated and not _always_locked(seen)


def _always_locked(seen: Observation) -> bool:
    """HITL's lockdown shows as termination in PX4 1.12."""
    return seen.in_hil and seen.release < FUNCTIONS_SINCE
