"""Channels to speeds and angles: the one place where the bridge's channels and the twin's actuators meet."""

from __future__ import annotations

import numpy as np

from firmware_profiles.profile import FirmwareParams
from firmware_profiles.signals import ActuatorCommand, HilControls
from lav2_hil.gate import MOTOR, TWO_WAY, Gate


class ActuatorMap:
    """The profile's actuator map behind the gate.

    A live channel with control u tells its rotor idle + (full - idle) u and its wheels full u [rad/s]; any other tells
    them 0. Arms are told first + (second - first) u [rad], and without a live channel to stay where they are.
    """

    def __init__(self, firmware: FirmwareParams) -> None:
        outputs = sorted(firmware.rotor_outputs, key=lambda output: output.rotor)
        wheels = sorted(firmware.wheel_outputs, key=lambda output: output.side)  # left, right
        tilt = firmware.tilt_output
        ranges = {output.channel: MOTOR for output in outputs} | {output.channel: TWO_WAY for output in wheels}
        self.gate = Gate(ranges if tilt is None else ranges | {tilt.channel: MOTOR})
        self._tilt = None if tilt is None else (tilt.channel, tilt.range_rad[0], tilt.range_rad[1] - tilt.range_rad[0])
        self._wheels = tuple((output.channel, output.full_speed_rad_s) for output in wheels)
        self._outputs = tuple(
            (output.channel, output.speed_range_rad_s[0], output.speed_range_rad_s[1] - output.speed_range_rad_s[0])
            for output in outputs
        )
        self._still = ActuatorCommand(np.zeros((1, len(outputs))))
        self._still.rotor_speed.flags.writeable = False  # handed out again and again

    def command(self, controls: HilControls | None) -> ActuatorCommand:
        """The command for one vehicle: rotor speeds (1, R), side speeds (1, 2) [rad/s], tilt angle (1, 1) [rad]."""
        if not self.gate.passes(controls):
            return self._still
        values, live = self.gate.clean(controls)
        speeds = [idle + span * values[channel] if live[channel] else 0.0 for channel, idle, span in self._outputs]
        sides = np.array(([full * values[channel] for channel, full in self._wheels],)) if self._wheels else None
        if self._tilt is None:
            return ActuatorCommand(np.array((speeds,)), sides)
        channel, flight, span = self._tilt
        return ActuatorCommand(
            np.array((speeds,)), sides, np.array(((flight + span * values[channel],),)) if live[channel] else None
        )
