"""The autopilot as a board in HITL, sans-io: bytes of a serial line in, bytes out, on a clock of its own.

It does what PX4 does there, and not in SITL. Sensors count from when they arrive, whatever their stamps say. Controls
go out by the board's own clock and answer nothing; `flags` says no lockstep. Ordinary telemetry and the services for
ground stations share the line. HIL is a matter of the boot (SYS_HITL) and of the line's rate. A USB line stays silent
until it has seen a HEARTBEAT.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pymavlink.dialects.v20 import common

from bridge.codec import Decoder, Encoder, Message
from bridge.link_capacity import px4_data_rate
from firmware_profiles.hitl import SIMULATED_ON_BOARD, output_parameters
from firmware_profiles.profile import VehicleProfile
from lav2_hil.autopilot.autopilot import COMPONENT, Autopilot
from lav2_hil.autopilot.board_parameters import BoardParameters
from lav2_hil.autopilot.mission import Mission
from lav2_hil.autopilot.parameters import INT32, Parameter
from lav2_hil.autopilot.usb_start import UsbStart

CONTROLS_US = 5_000
"""PX4 sends controls at 200 Hz, if the line carries that many."""
IDLE_CONTROLS_US = 50_000
"""... and at 20 Hz before it has sensors."""
CONTROLS_BYTES = 210
"""Data rate that PX4 needs for each HIL_ACTUATOR_CONTROLS a second: it shares the line among all its streams."""
MIN_HIL_RATE = 5_000
"""Data rate [B/s] that a line must exceed before PX4 lets HIL on it."""
SILENCE_US = 1_000_000
"""Without sensors for so long in flight it gives up."""
BOOT_US = 1_500_000
"""From the start until it speaks."""
_DISARMED, _ARMED = 53, 181
"""HIL, stabilised, auto and custom mode; with the armed bit."""


class Board:
    """One board, over all its boots.

    Args:
        profile: the nominal vehicle.
        system: MAVLink system id.
        mission: what to do after the first boot, if anything.
        report: is given progress and results, as dictionaries that JSON can hold.
        baud: of the line; None for USB.
        sys_hitl: SYS_HITL at the first boot; at 1 its outputs are those of the vehicle, too, as of a prepared board.
        now_us: wall time of the first boot [us].

    Attributes:
        autopilot: of the present boot.
        boots: so far.
        parameters: kept over boots.
    """

    def __init__(
        self,
        profile: VehicleProfile,
        system: int,
        mission: Mission | None = None,
        report: Callable[[dict[str, Any]], None] = lambda _: None,
        baud: int | None = None,
        sys_hitl: int = 1,
        now_us: int = 0,
    ) -> None:
        self.parameters = BoardParameters(system)
        self.parameters.set("SYS_HITL", _wire(sys_hitl), INT32)
        if sys_hitl == 1:
            self.parameters.give_outputs(output_parameters(profile, SIMULATED_ON_BOARD))
        self._profile = profile
        self._system = system
        self._report = report
        self._usb = baud is None
        rate = px4_data_rate(baud)
        self._fast_enough = rate > MIN_HIL_RATE
        self._controls_us = max(CONTROLS_US, round(1e6 * CONTROLS_BYTES / rate))
        self.boots = 0
        self.boot(now_us, mission)

    def boot(self, now_us: int, mission: Mission | None = None) -> None:
        """Start anew, as after a reset: only the parameters are kept."""
        self.boots += 1
        self._hil = self.parameters["SYS_HITL"] >= 1
        base_mode = common.MAV_MODE_FLAG_AUTO_ENABLED | (common.MAV_MODE_FLAG_HIL_ENABLED if self._hil else 0)
        self.autopilot = Autopilot(
            *(self._profile, self._system, mission, self._report), parameters=self.parameters, base_mode=base_mode
        )
        self.parameters.boot()
        self._booted_us = now_us
        self._start = UsbStart() if self._usb else None
        self._decoder = Decoder()
        self._encoder = Encoder(self._system, COMPONENT)
        self._controls = [0.0] * 16
        self._controls_due_us = 0
        self._sensor_us: int | None = None
        self._ground_station = False
        self._reboot = False

    def time_us(self, now_us: int) -> int:
        """The board's clock: since its boot."""
        return now_us - self._booted_us

    def received(self, data: bytes, now_us: int) -> list[bytes]:
        """Take bytes; gives the answers."""
        time_us = self.time_us(now_us)
        if time_us < BOOT_US or (self._start is not None and not self._start.seen(data, time_us)):
            return []
        answers: list[bytes] = []
        for message in self._decoder.feed(data):
            answers += map(self._encoder.encode, self._message(message, time_us))
        self.autopilot.settle()
        if self._reboot:
            self.boot(now_us)
        return answers

    def tick(self, now_us: int) -> list[bytes]:
        """What the board says by its own clock; to be called every `CONTROLS_US` at least."""
        time_us = self.time_us(now_us)
        if time_us < BOOT_US or (self._start is not None and not self._start.done):
            return []
        self._watch_sensors(time_us)
        frames = []
        if self._hil and self._fast_enough and time_us >= self._controls_due_us:
            interval_us = self._controls_us if self._sensor_us is not None else IDLE_CONTROLS_US
            self._controls_due_us = max(self._controls_due_us + interval_us, time_us - interval_us)
            mode = _ARMED if self.autopilot.commander.armed else _DISARMED
            frames.append(common.MAVLink_hil_actuator_controls_message(time_us, self._controls, mode, 0))
        # PX4 sends texts to ground stations, and to nobody else.
        frames += [
            message
            for message in self.autopilot.broadcasts()
            if self._ground_station or message.get_type() != "STATUSTEXT"
        ]
        return [self._encoder.encode(message) for message in frames]

    def _message(self, message: Message, time_us: int) -> list[Message]:
        kind = message.get_type()
        if message.get_msgId() < 0 or kind == "BAD_DATA":
            return []
        if kind in ("HIL_SENSOR", "HIL_GPS", "ODOMETRY"):
            if self._hil and self._fast_enough:
                self._sense(message, kind, time_us)
            return []
        if kind == "HEARTBEAT":
            self._ground_station |= message.type == common.MAV_TYPE_GCS
            return []
        if kind == "COMMAND_LONG" and message.command == common.MAV_CMD_PREFLIGHT_REBOOT_SHUTDOWN:
            return self._asked_to_reboot(message)
        return self.autopilot.ground.handle(message)

    def _sense(self, message: Message, kind: str, time_us: int) -> None:
        if kind == "HIL_GPS":
            self.autopilot.gps(message)
            return
        if kind == "ODOMETRY":
            self.autopilot.odometry(message)
            return
        if self._sensor_us is not None:
            time_us = max(time_us, self._sensor_us + 1)  # two that came with one reading
        self._sensor_us = time_us
        controls = self.autopilot.sensor(message, time_us)
        if controls is not None:
            self._controls = controls

    def _watch_sensors(self, time_us: int) -> None:
        commander = self.autopilot.commander
        since_us = time_us if self._sensor_us is None else time_us - self._sensor_us
        if self._sensor_us is None or since_us > SILENCE_US:
            commander.time_us = time_us  # nobody else moves it
        if since_us > SILENCE_US and commander.armed:
            commander.disarm(force=True)
            self._controls = [0.0] * 16

    def _asked_to_reboot(self, message: Message) -> list[Message]:
        if getattr(message, "target_system", 0) not in (0, self._system):
            return []
        allowed = message.param1 == 1 and not self.autopilot.commander.armed
        self._reboot = allowed
        result = common.MAV_RESULT_ACCEPTED if allowed else common.MAV_RESULT_DENIED
        return [
            common.MAVLink_command_ack_message(
                message.command, result, 0, 0, message.get_srcSystem(), message.get_srcComponent()
            )
        ]


def _wire(value: int) -> float:
    return Parameter(INT32, value, value, value).wire_value()
