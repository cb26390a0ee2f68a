"""What is on a link where no PX4 answers, in one line with what to do about it."""

from __future__ import annotations

import re

from pymavlink.dialects.v20 import common

from bridge.codec import Message

_KEPT = 256
_NMEA = re.compile(rb"\$[A-Z]{2}[A-Z0-9]{3},[ -~]*\r?\n")
_NAMES = {
    common.MAV_AUTOPILOT_ARDUPILOTMEGA: "ArduPilot",
    common.MAV_AUTOPILOT_GENERIC: "a generic autopilot",
}


class Diagnosis:
    """Looks at what arrives until it is known.

    Attributes:
        problem: known for sure already, without waiting any longer.
    """

    def __init__(self) -> None:
        self.problem: str | None = None
        self._bytes = 0
        self._last = b""
        self._components: set[tuple[int, int]] = set()

    def data(self, data: bytes) -> None:
        """Take bytes as they came."""
        self._bytes += len(data)
        self._last = (self._last + data)[-_KEPT:]

    def heartbeat(self, beat: Message) -> None:
        """Take a HEARTBEAT of anybody."""
        if beat.autopilot == common.MAV_AUTOPILOT_PX4:
            return
        if beat.autopilot == common.MAV_AUTOPILOT_INVALID:
            self._components.add((beat.get_srcSystem(), beat.get_srcComponent()))
            return
        who = _NAMES.get(beat.autopilot, f"autopilot {beat.autopilot}")
        self.problem = f"the flight controller runs {who}, not PX4; lav2-hil needs PX4 1.12 or newer"

    def of_silence(self, waited_s: float, frames: int) -> str:
        """What to say after waiting in vain, with so many whole frames heard."""
        if self._components:
            who = ", ".join(f"{system}/{component}" for system, component in sorted(self._components))
            return f"no autopilot within {waited_s:g} s, only {who}; connect the flight controller itself"
        if frames:
            return f"MAVLink, but no HEARTBEAT of an autopilot within {waited_s:g} s; is this a telemetry mirror?"
        if _NMEA.search(self._last):
            return "the device sends NMEA: a GPS receiver, no flight controller; give the autopilot's port"
        if self._bytes:
            return (
                f"{self._bytes} bytes and no MAVLink among them within {waited_s:g} s; wrong baud rate, or no autopilot"
            )
        return (
            f"nothing heard within {waited_s:g} s; is the board powered, is this its MAVLink port, and has it "
            "SYS_USB_AUTO 1 or 2?"
        )
