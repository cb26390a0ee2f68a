"""Which HIL_ACTUATOR_CONTROLS count, to which HIL_SENSOR they answer, and how old they are."""

from __future__ import annotations

from enum import Enum

from bridge.codec import Message
from firmware_profiles.signals import HilControls

STALE_US = 200_000
"""Simulated time after which controls are no longer trusted (Gazebo's figure too)."""
BACKWARD_US = 1_000_000
"""A stamp this far behind the newest one is a clock that ran backward, not a frame that came out of order."""
ARMED = 128
"""MAV_MODE_FLAG_SAFETY_ARMED; the other bits of `mode` differ between SITL, HITL and releases."""
LOCKSTEP = 1
"""HIL_ACTUATOR_CONTROLS_FLAGS_LOCKSTEP."""


class Verdict(Enum):
    """What became of one HIL_ACTUATOR_CONTROLS."""

    FRESH = "answers the newest sensor"
    LATE = "answers an older sensor: the controls are new all the same"
    DUPLICATE = "seen already"
    REORDERED = "older than the controls at hand"
    BACKWARD = "the flight controller's clock ran backward"


class ControlsTracker:
    """Follows the flight controller's stamps.

    PX4 in lockstep echoes the time_usec of the newest HIL_SENSOR, so an answer says which sensor it answers. A flight
    controller with a clock of its own (no lockstep, HITL, a simple peer) does not: then any newer stamp answers the
    newest sensor. Which of the two it is, its first message tells.
    """

    def __init__(self, period_us: int) -> None:
        self._period_us = period_us
        self.duplicates = 0
        self.reordered = 0
        self.late = 0
        self.forget()

    def forget(self) -> None:
        """Another flight controller, or the same one after a restart: no controls, clock unknown."""
        self._first_sensor_us = 0
        self._newest_sensor_us = 0
        self._echoes: bool | None = None
        self._stamp_us: int | None = None
        self._arrived_us = 0
        self._channels: tuple[float, ...] = ()
        self.armed = False
        self.sensors_ago = 0
        self._disarmed_run = 0

    @property
    def just_disarmed(self) -> bool:
        """Armed before, and no more than two disarmed messages since: PX4's 1.17 rover says no more than that."""
        return 0 < self._disarmed_run <= 2

    @property
    def echoes(self) -> bool | None:
        """Whether answers carry the sensor's stamp; None before the first."""
        return self._echoes

    def sensor_sent(self, time_us: int) -> None:
        """A HIL_SENSOR left with this stamp."""
        if not self._first_sensor_us:
            self._first_sensor_us = time_us
        self._newest_sensor_us = time_us

    def received(self, message: Message) -> Verdict:
        """Judge a HIL_ACTUATOR_CONTROLS and, when it counts, take its controls.

        `sensors_ago` then says which sensor it answers: 0 the newest, 1 the one before.
        """
        stamp: int = message.time_usec
        newest = self._newest_sensor_us
        if self._echoes is None and newest:
            self._echoes = bool(message.flags & LOCKSTEP) and self._first_sensor_us <= stamp <= newest
        if self._echoes and stamp > newest:
            stamp = newest  # no sensor had that stamp; taken as it is, it would hide the answers to come
        if self._stamp_us is not None and stamp <= self._stamp_us:
            if stamp < self._stamp_us - BACKWARD_US and not self._echoes:
                return Verdict.BACKWARD
            if stamp or self._echoes:  # a stamp that is always 0 is no stamp
                if stamp == self._stamp_us:
                    self.duplicates += 1
                    return Verdict.DUPLICATE
                self.reordered += 1
                return Verdict.REORDERED
        self._stamp_us = stamp
        self._arrived_us = newest
        self._channels = tuple(message.controls)
        armed = bool(message.mode & ARMED)
        if self.armed and not armed:
            self._disarmed_run = 1
        elif self._disarmed_run:
            self._disarmed_run = 0 if armed else self._disarmed_run + 1
        self.armed = armed
        self.sensors_ago = max(0, (newest - stamp) // self._period_us) if self._echoes else 0
        if self.sensors_ago:
            self.late += 1
            return Verdict.LATE
        return Verdict.FRESH

    def controls_at(self, time_us: int) -> HilControls | None:
        """The newest controls as they stand at a simulated time; None before any came."""
        if self._stamp_us is None:
            return None
        age = time_us - self._arrived_us
        stale = age > STALE_US
        return HilControls(self._channels, self.armed, self._stamp_us, age, stale, stale and self.armed)
