"""What a run looks like: the live status line, the notices, and the summary at the end."""

from __future__ import annotations

import logging
import sys
import time
from collections import Counter
from typing import Any, TextIO

from bridge.session_io import Notice
from bridge.session_state import Phase
from bridge.sessions import Session
from bridge.transport.base import Transport
from firmware_profiles.signals import HilControls, SensorSample
from lav2_hil.doctor.hints import with_hint
from lav2_hil.gate import Gate
from lav2_hil.loop import HilLoop
from lav2_hil.settings import Settings
from twin.twin import Twin

logger = logging.getLogger("lav2_hil")

_LIVE_S = 0.25
_PLAIN_S = 10.0


class Monitor:
    """Listens to the loop; `refresh` is called now and then from outside.

    Args:
        settings: of the run.
        session, transport, twin, gate: what it reads.
        expected: names of notices that are part of this run and need not be shown.
        stream: where the status goes: one line that is written over on a terminal, a line now and then elsewhere.
    """

    def __init__(
        self,
        settings: Settings,
        session: Session,
        transport: Transport,
        twin: Twin,
        gate: Gate,
        expected: frozenset[str] = frozenset(),
        stream: TextIO | None = None,
    ) -> None:
        self._settings = settings
        self._session = session
        self._transport = transport
        self._twin = twin
        self._gate = gate
        self._expected = expected
        self._stream = stream if stream is not None else sys.stderr
        self._live = self._stream.isatty()
        self._notices: Counter[str] = Counter()
        self._armed = False
        self._steps = 0
        self._arm_count = 0
        self._max_height_m = 0.0
        self._started_s = time.monotonic()
        self._first_sensor_s: float | None = None
        self._last = (self._started_s, 0)
        self._width = 0

    @property
    def interval_s(self) -> float:
        """How often `refresh` should be called."""
        return _LIVE_S if self._live else _PLAIN_S

    # Listener

    def stepped(self, controls: HilControls | None, sample: SensorSample) -> None:
        """Follow arming and height."""
        self._steps += 1
        if self._first_sensor_s is None:
            self._first_sensor_s = time.monotonic()
        armed = controls is not None and controls.armed
        if armed != self._armed:
            self._armed = armed
            self._arm_count += armed
        height = self._twin.height_m
        if height > self._max_height_m:
            self._max_height_m = height

    def noticed(self, notice: Notice) -> None:
        """Log a notice, above the status line."""
        self._notices[notice.name] += 1
        self.clear()
        level = logging.DEBUG if notice.name in self._expected else notice.level
        logger.log(level, "%s", with_hint(notice))

    # Status line

    def refresh(self) -> None:
        """Write the status."""
        text = self._status()
        if self._live:
            self._stream.write(f"\r{text:<{self._width}}")
            self._width = len(text)
        else:
            self._stream.write(text + "\n")
        self._stream.flush()

    def clear(self) -> None:
        """Take the live line away, so that other text can be written."""
        if self._live and self._width:
            self._stream.write("\r" + " " * self._width + "\r")
            self._stream.flush()
            self._width = 0

    def _status(self) -> str:
        session = self._session
        if session.phase in (Phase.WAITING, Phase.CALLING):
            return f"{session.describe()} at {self._transport.address}"
        now, sensors = time.monotonic(), self._ticks()
        then, before = self._last
        self._last = (now, sensors)
        factor = (sensors - before) * 1e-6 * self._twin.tick_us / max(now - then, 1e-9)
        return (
            f"{session.describe()} | {self._twin.ticks * self._twin.tick_us * 1e-6:.1f} s | {factor:.2f} x | "
            f"{'ARMED' if self._armed else 'disarmed'} | {self._twin.height_m:.2f} m | {self._drops()} dropped"
        )

    def _ticks(self) -> int:
        """Ticks of simulated time; a board is not sent all of them."""
        return self._steps if self._settings.hitl else self._session.stats.sensors

    def _drops(self) -> int:
        decoded = self._session.decoder.stats
        return decoded.bad_frames + decoded.lost_frames + self._transport.dropped + self._session.stats.timeouts

    # Summary

    def summary(self, loop: HilLoop, ended_by: str) -> dict[str, Any]:
        """The run in figures; times in seconds, positions NED in metres."""
        session, settings = self._session, self._settings
        stats, decoded, tracker = session.stats, session.decoder.stats, session.tracker
        now = time.monotonic()
        simulated = self._ticks() * 1e-6 * self._twin.tick_us
        flown = now - self._first_sensor_s if self._first_sensor_s is not None else 0.0
        truth = self._twin.truth()
        return {
            "profile": settings.profile.name,
            "true_profile": None if settings.true_profile is None else settings.true_profile.name,
            "endpoint": self._transport.address,
            "seed": settings.seed,
            "ended_by": ended_by,
            "simulated_s": round(simulated, 6),
            "wall_s": round(now - self._started_s, 3),
            "real_time_factor": round(simulated / flown, 3) if flown else 0.0,
            "link": session.describe(),
            "connections": stats.connections,
            "sensors": stats.sensors,
            "replies": stats.replies,
            "reply_timeouts": stats.timeouts,
            "no_reply_expected": stats.not_expected,
            "late_replies": tracker.late,
            "duplicate_replies": tracker.duplicates,
            "reordered_replies": tracker.reordered,
            "frames_received": decoded.frames,
            "bad_frames": decoded.bad_frames,
            "lost_frames": decoded.lost_frames,
            "ticks_skipped": stats.skipped,
            "frames_not_sent": loop.frames_dropped,
            "times_armed": self._arm_count,
            "max_height_m": round(self._max_height_m, 3),
            "controls_not_finite": sum(self._gate.not_finite),
            "final_position_ned_m": [round(value, 3) for value in truth.pos_ned],
            "notices": dict(self._notices),
        }
