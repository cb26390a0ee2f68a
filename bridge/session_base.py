"""What the HIL sessions of every kind share: events in and outputs out, and one flight controller on the link."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from bridge.codec import Decoder, Encoder, Message
from bridge.controls_tracker import ControlsTracker
from bridge.session_io import Event, Notice, Output, Send, StepTwin
from bridge.session_state import Phase, SessionStats
from firmware_profiles.signals import HilControls

FIRST_TIME_US = 1_000_000
"""The first stamp: PX4's estimator does not like 0."""
SIMULATOR_COMPONENT = 200
HEARTBEAT_US = 1_000_000
WARN_AGAIN_US = 10_000_000


class SessionBase:
    """A session with one flight controller over one link, sans-io.

    Args:
        period_us: simulated time between two steps of the twin.
        datagrams: the link may lose, repeat and reorder frames.
        system: system id to send with until the flight controller has shown its own.
    """

    _handlers: dict[type[Any], Callable[[Any, int], None]]

    def __init__(self, *, period_us: int, datagrams: bool, system: int) -> None:
        self.stats = SessionStats()
        self.decoder = Decoder(datagrams=datagrams)
        self.tracker = ControlsTracker(period_us)
        self.phase = Phase.WAITING
        self.paused = False
        self.time_us = FIRST_TIME_US - period_us
        """Simulated time: of the newest step."""
        self.wake_us: int | None = None
        """Wall time at which `TimerExpired` is wanted; None for never."""
        self.system: int | None = None
        """System id of the flight controller; None until it has spoken."""
        self._period_us = period_us
        self._encoder = Encoder(system, SIMULATOR_COMPONENT)
        self._out: list[Output] = []
        self._others: set[int] = set()
        self._awaiting_sample = False
        self._suspected = False

    def handle(self, event: Event, now_us: int) -> list[Output]:
        """Take one event at a wall time (monotonic, microseconds) and give what follows from it, in order."""
        out: list[Output] = []
        self._out = out
        self._handlers[type(event)](event, now_us)
        return out

    def _forget_steps(self) -> None:
        """A step that was asked for belongs to a flight controller that is gone."""
        self._awaiting_sample = False
        self._out[:] = [output for output in self._out if type(output) is not StepTwin]

    def _found(self, system: int) -> None:
        """This is the flight controller."""
        self.system = self._encoder.system = system
        self._notice(logging.INFO, "system_found", f"flight controller with system id {system}")

    def _speaks_for_it(self, system: int) -> bool:
        """Whether this is the flight controller that was found; another is told of once."""
        if system == self.system:
            return True
        if system not in self._others:
            self._others.add(system)
            self._notice(
                logging.WARNING, "other_system", f"system id {system} speaks on the link of {self.system}: ignored"
            )
        return False

    def _suspect_termination(self, controls: HilControls | None, who: str) -> None:
        """Say so once when the flight controller fell silent while armed."""
        if controls is not None and controls.termination_suspected and not self._suspected:
            self._suspected = True
            self._notice(
                logging.WARNING,
                "flight_termination_suspected",
                f"{who} fell silent while armed, as it does on flight termination: motors are stopped",
            )

    def _send(self, message: Message) -> None:
        self._out.append(Send(self._encoder.encode(message)))

    def _notice(self, level: int, name: str, text: str) -> None:
        self._out.append(Notice(level, name, text))
