"""The loop in virtual time, against a recorded flight controller instead of a link: nobody waits for a clock."""

from __future__ import annotations

import logging
from collections import Counter, deque
from typing import Any

from bridge.session_io import Notice, Received, TimerExpired
from bridge.transport.base import LinkHandler, Transport
from firmware_profiles.signals import HilControls, SensorSample
from lav2_hil.loop import HilLoop
from lav2_hil.session.header import Header

logger = logging.getLogger("lav2_hil")


class RecordedPeer(Transport):
    """A link whose other end has been recorded, and hears nothing.

    Attributes:
        said: frames under way, each with the virtual time at which it arrives.
    """

    def __init__(self) -> None:
        self.said: deque[tuple[int, bytes]] = deque()

    def write(self, data: bytes) -> bool:
        """Take a frame for sent."""
        return True

    async def open(self, handler: LinkHandler) -> None:
        """Nothing to open."""

    async def close(self) -> None:
        """Nothing to close."""


class VirtualLoop(HilLoop):
    """The loop of a session in virtual time.

    Args:
        header: of the session.
        peer: the recorded flight controller.

    Attributes:
        clock_us: the virtual time.
    """

    def __init__(self, header: Header, peer: RecordedPeer) -> None:
        self.twin = header.make_twin()
        self.clock_us = header.started_us
        self._peer = peer
        self._figures = _Figures()
        super().__init__(header.make_session(), peer, self.twin, header.make_actuators(), listeners=(self._figures,))

    def advance(self) -> None:
        """Let time pass until a frame arrives or the session wants to be woken."""
        said, wake_us = self._peer.said, self.session.wake_us
        if said and (wake_us is None or said[0][0] <= wake_us):
            arrives_us, frame = said.popleft()
            self.clock_us = max(self.clock_us, arrives_us)
            self.feed(Received(frame))
        else:
            assert wake_us is not None, "connected, it waits for an answer or for a tick"
            self.clock_us = max(self.clock_us, wake_us)
            self.feed(TimerExpired())

    def summary(self) -> dict[str, Any]:
        """The flight in figures."""
        stats, figures = self.session.stats, self._figures
        return {
            "connections": stats.connections,
            "frames": self.session.decoder.stats.frames,
            "bad_frames": self.session.decoder.stats.bad_frames,
            "simulated_s": round(figures.ticks * self.twin.tick_us * 1e-6, 6),
            "link": self.session.describe(),
            "replies": stats.replies,
            "reply_timeouts": stats.timeouts,
            "times_armed": figures.times_armed,
            "notices": dict(figures.notices),
        }

    def _now_us(self) -> int:
        return self.clock_us

    def _set_timer(self) -> None:
        pass


class _Figures:
    """Listens to the loop, and counts."""

    def __init__(self) -> None:
        self.ticks = 0
        self.times_armed = 0
        self.notices: Counter[str] = Counter()
        self._armed = False

    def stepped(self, controls: HilControls | None, sample: SensorSample) -> None:
        self.ticks += 1
        armed = controls is not None and controls.armed
        self.times_armed += armed and not self._armed
        self._armed = armed

    def noticed(self, notice: Notice) -> None:
        self.notices[notice.name] += 1
        logger.debug("%s", notice.text)
