"""EVENT messages, by which PX4 1.13 and newer says why it will not arm; decoding, and the report they make together.

An event is a number that is made from its name, and arguments without names or gaps
(https://mavlink.io/en/services/events.html). PX4 numbers events in one sequence of 16 bits. A report is a summary of
the arming checks, an event for each check that fails, and a summary of health; it is whole when no number is missing
between the two. Where one is, the report is asked for again: that is shorter than asking for single events.
"""

from __future__ import annotations

import re
import struct
from dataclasses import dataclass

from bridge.codec import Message
from bridge.event_names import EVENTS

ARMING_SUMMARY, HEALTH_SUMMARY = "commander_arming_check_summary", "commander_health_summary"
AUTOPILOT = 1 << 24
"""The part of a number that says whose event it is."""
WARNING = 4
_ARGUMENT = re.compile(r"\{(\d+)(?::\.?(\d*)([^}]*))?\}")


def event_id(name: str) -> int:
    """The number of an autopilot's event: 24 bits of the name's FNV-1a hash, as PX4's `events::ID` makes it."""
    value = 0x811C9DC5
    for byte in name.encode():
        value = (value ^ byte) * 0x01000193 & 0xFFFFFFFF
    return AUTOPILOT | value & 0xFFFFFF


_NAMES = {event_id(name): name for name in EVENTS}


@dataclass(frozen=True, slots=True)
class Event:
    """One event.

    Attributes:
        name: of PX4; `event N` where the number is not known.
        text: for people, with the arguments in it.
        severity: MAV_SEVERITY, 0 (emergency) to 7 (debug); 8 is for machines.
        arguments: as far as the name is known.
        sequence: PX4's number, 0 to 65535.
        time_ms: since PX4's boot.
    """

    name: str
    text: str
    severity: int
    arguments: tuple[float, ...]
    sequence: int
    time_ms: int

    @property
    def is_check(self) -> bool:
        """Whether it is a check that failed."""
        return self.name.startswith("check_") and EVENTS.get(self.name, ("", ""))[1].startswith("IB")

    @property
    def modes(self) -> int:
        """Of a check: the modes that it is about, one bit each, as `navigation_mode_group_t`."""
        return int(self.arguments[0]) if self.is_check else 0


def decode_event(message: Message) -> Event:
    """The event in an EVENT message."""
    name = _NAMES.get(message.id, f"event {message.id}")
    text, types = EVENTS.get(name, (name, ""))
    arguments = struct.unpack_from(f"<{types}", bytes(message.arguments))
    severity = message.log_levels & 0xF
    return Event(name, _filled(text, arguments), severity, arguments, message.sequence, message.event_time_boot_ms)


def _filled(text: str, arguments: tuple[float, ...]) -> str:
    def shown(match: re.Match[str]) -> str:
        value = arguments[int(match[1]) - 1]
        return f"{value:.{match[2]}f}{match[3]}" if match[2] else f"{value:g}"

    return _ARGUMENT.sub(shown, text)


@dataclass(frozen=True, slots=True)
class ArmingReport:
    """What PX4 thinks of arming at one moment.

    Attributes:
        can_arm: the modes in which it would arm, one bit each.
        checks: those that fail, and those that are only told.
        whole: no event of it was lost.
    """

    can_arm: int
    checks: tuple[Event, ...]
    whole: bool


class EventReader:
    """Follows one PX4's events.

    Attributes:
        report: the newest one that has come to its end.
        reports: how many have.
        lost: events whose numbers were passed over.
    """

    def __init__(self) -> None:
        self.report: ArmingReport | None = None
        self.reports = 0
        self.lost = 0
        self._last: Event | None = None
        self._summary: Event | None = None
        self._checks: list[Event] = []
        self._lost_before = 0

    def take(self, event: Event) -> bool:
        """Take the next event; False when it was there before, or comes late."""
        last = self._last
        if last is not None:
            ahead = event.sequence - last.sequence & 0xFFFF
            if ahead == 0 or ahead >= 0x8000:
                if event.time_ms >= last.time_ms or (ahead == 0 and event == last):
                    return False
                self._summary = None  # PX4 has started again
            else:
                self.lost += ahead - 1
        self._last = event
        if event.name == ARMING_SUMMARY:
            self._summary, self._checks, self._lost_before = event, [], self.lost
        elif event.name == HEALTH_SUMMARY and self._summary is not None:
            whole = self.lost == self._lost_before
            self.report = ArmingReport(int(self._summary.arguments[3]), tuple(self._checks), whole)
            self.reports += 1
            self._summary = None
        elif event.is_check:
            self._checks.append(event)
        return True
