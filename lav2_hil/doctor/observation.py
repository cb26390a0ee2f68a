"""What the doctor has seen of a flight controller, as plain data for the rules."""

from __future__ import annotations

from dataclasses import dataclass, field

from pymavlink.dialects.v20 import common

from bridge.events import ArmingReport, Event
from bridge.statustext import Text
from firmware_profiles.hitl import SIMULATED_ON_BOARD, SIMULATED_ON_POSIX, function_names
from firmware_profiles.px4_params import Value

PARAMETERS = (
    *("SYS_HITL", "SYS_AUTOSTART", "COM_RC_IN_MODE", "NAV_DLL_ACT", "COM_DL_LOSS_T"),
    *("CBRK_SUPPLY_CHK", "CBRK_USB_CHK", "CBRK_IO_SAFETY", "COM_ARM_SDCARD", "COM_CPU_MAX"),
    *("CA_AIRFRAME", "CA_ROTOR_COUNT"),
)
"""What is asked for by name; a board need not have them all."""
OUTPUT_FUNCTIONS = function_names(SIMULATED_ON_BOARD, 16) + function_names(SIMULATED_ON_POSIX, 8)
"""What is asked for in HITL; PX4 that was built for a PC has the second ones."""
_MAIN_MODES = {1: 0, 2: 1, 3: 2, 5: 10, 6: 14, 7: 15}
_AUTO_MODES = {2: 17, 3: 4, 4: 3, 5: 5, 6: 18, 8: 19, 9: 20}


@dataclass(frozen=True, slots=True)
class SensorSeen:
    """One sensor as the board has it: in HIGHRES_IMU, a few times a second.

    Attributes:
        asked: how often it was looked at.
        updates: how often it was new then.
        values: how many different readings these were.
    """

    asked: int
    updates: int
    values: int


@dataclass(frozen=True, slots=True)
class GpsSeen:
    """GPS_RAW_INT: MAVLink's fix type; accuracies in metres, None where it is not known."""

    fix_type: int
    satellites: int
    eph_m: float | None
    epv_m: float | None


@dataclass(frozen=True, slots=True)
class OutputsSeen:
    """What the board tells of its outputs.

    Attributes:
        hil: HIL_ACTUATOR_CONTROLS that came; on a link of a ground station there are none.
        hil_rate_hz: their rate by the board's clock.
        servo: SERVO_OUTPUT_RAW that came.
        armed: HIL_ACTUATOR_CONTROLS that said so.
        armed_zero: of these, those whose 16 controls were 0.
    """

    hil: int = 0
    hil_rate_hz: float = 0.0
    servo: int = 0
    armed: int = 0
    armed_zero: int = 0


@dataclass(frozen=True, slots=True)
class Observation:
    """One look at a flight controller.

    Attributes:
        address: of the link.
        serial: whether that is a serial line, and its baud.
        baud: of the serial line.
        release: of PX4, as numbers; empty when it did not say.
        simulated: a PX4 that was built for a PC.
        seconds: how long was listened.
        base_mode, custom_mode, system_status: of the newest HEARTBEAT.
        parameters: by name, those that the board has.
        prearm_bit: SYS_STATUS's opinion of arming; None when it has none.
        uptime_s: since the board's boot.
        attitudes: ATTITUDEs that came.
        sensors: by group: accelerometer, gyroscope, magnetometer, barometer.
        gps: the newest; None when there is none.
        outputs: what became of them.
        report: the newest arming report (EVENT); None on PX4 1.12.
        lonely_report: one from before the doctor had said that it is a ground station.
        events: other events.
        texts: STATUSTEXTs.
        prearm_answer: MAV_RESULT of RUN_PREARM_CHECKS; None without an answer.
        field_gauss: strength of the measured magnetic field; None when there is none.
        field_there_gauss: and what the world magnetic model says for the GPS position.
        estimator_flags: of the newest ESTIMATOR_STATUS; None when there is none.
    """

    address: str = ""
    serial: bool = False
    baud: int = 0
    release: tuple[int, ...] = ()
    simulated: bool = False
    seconds: float = 0.0
    base_mode: int = 0
    custom_mode: int = 0
    system_status: int = 0
    parameters: dict[str, Value] = field(default_factory=dict)
    prearm_bit: bool | None = None
    uptime_s: float | None = None
    attitudes: int = 0
    sensors: dict[str, SensorSeen] = field(default_factory=dict)
    gps: GpsSeen | None = None
    outputs: OutputsSeen = OutputsSeen()
    report: ArmingReport | None = None
    lonely_report: ArmingReport | None = None
    events: tuple[Event, ...] = ()
    texts: tuple[Text, ...] = ()
    prearm_answer: int | None = None
    estimator_flags: int | None = None
    field_gauss: float | None = None
    field_there_gauss: float | None = None

    @property
    def armed(self) -> bool:
        """By HEARTBEAT."""
        return bool(self.base_mode & common.MAV_MODE_FLAG_SAFETY_ARMED)

    @property
    def in_hil(self) -> bool:
        """Whether the board has booted for HITL."""
        return bool(self.base_mode & common.MAV_MODE_FLAG_HIL_ENABLED)

    @property
    def is_board(self) -> bool:
        """Whether it is a flight controller's hardware: release 1.0.0 is the built-in autopilot."""
        return self.release >= (1, 1) and not self.simulated

    @property
    def mode_bit(self) -> int:
        """The present mode as `navigation_mode_group_t` counts it; 0 when it is none of those."""
        main, sub = self.custom_mode >> 16 & 0xFF, self.custom_mode >> 24 & 0xFF
        number = _AUTO_MODES.get(sub) if main == 4 else _MAIN_MODES.get(main)
        return 0 if number is None else 1 << number

    @property
    def can_arm(self) -> bool | None:
        """Whether PX4 would arm in the present mode, by its own words."""
        if self.report is None:
            return self.prearm_bit
        return bool(self.report.can_arm & self.mode_bit) if self.mode_bit else None
