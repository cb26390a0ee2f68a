"""Which channel a frame goes to, by the rules of the MAVLink guide; a table, without input or output of its own.

The rules (https://mavlink.io/en/guide/routing.html): what is for everybody goes to all channels but its own; what is
for somebody goes where that somebody has been heard; nothing goes back to where it came from. Frames are not changed.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from pymavlink.dialects.v20 import common

from bridge.addresses import HIL_MESSAGES, addresses_of, is_autopilot

BOARD = 0
"""The channel of the flight controller; all others are ground channels."""
REPEAT_US = 250_000
"""The same frame again within this is the same frame: it went round through somebody else who forwards. A sender's
sequence numbers come round after 256 frames, so what comes later may be meant."""
REPEATS = 4096
"""So many frames are remembered at most."""


@dataclass(slots=True)
class RouterStats:
    """Frames that were not passed on, by reason.

    Attributes:
        repeated: the same frame was there already.
        echoed: it says that it is from the flight controller, and comes from the ground.
        hil: a HIL message between ground and flight controller.
        nowhere: for somebody whom nobody has heard, or there is no other channel.
    """

    repeated: int = 0
    echoed: int = 0
    hil: int = 0
    nowhere: int = 0


class Router:
    """A routing table over channels, which are numbers; `BOARD` is there from the start."""

    def __init__(self) -> None:
        self.stats = RouterStats()
        self._heard: dict[int, set[tuple[int, int]]] = {BOARD: set()}
        self._autopilots: set[tuple[int, int]] = set()
        self._recent: dict[bytes, int] = {}
        self._order: deque[bytes] = deque()

    def add(self, channel: int) -> None:
        """A ground channel is there."""
        self._heard[channel] = set()

    def remove(self, channel: int) -> None:
        """A ground channel is gone, and who was heard on it."""
        del self._heard[channel]

    def route(self, channel: int, frame: bytes, now_us: int) -> list[int]:
        """Where a frame goes.

        Args:
            channel: it came from.
            frame: one whole frame with a good checksum.
            now_us: monotonic time [us].
        """
        stats, heard = self.stats, self._heard
        if self._is_repeated(frame, now_us):
            stats.repeated += 1
            return []
        message, system, component, target_system, target_component = addresses_of(frame)
        sender = (system, component)
        if channel != BOARD and sender in self._autopilots:
            stats.echoed += 1
            return []
        if channel == BOARD and message == common.MAVLINK_MSG_ID_HEARTBEAT and is_autopilot(frame):
            # A board may also pass on what ground stations say on its other links: those are no autopilots.
            self._autopilots.add(sender)
        heard[channel].add(sender)
        if message in HIL_MESSAGES:
            # Between two ground stations neither, for they would have it from a flight controller.
            stats.hil += 1
            return []
        # A board that has not spoken yet looks for HEARTBEATs of its simulator among the first bytes that it gets.
        others = [other for other in heard if other != channel and (other != BOARD or heard[BOARD])]
        if target_system:
            others = self._who_heard(others, target_system, target_component, channel)
        stats.nowhere += not others
        return others

    def _who_heard(self, others: list[int], system: int, component: int, channel: int) -> list[int]:
        heard = self._heard
        if component:
            exactly = (system, component)
            found = [other for other in others if exactly in heard[other]]
            if found or exactly in heard[channel]:
                return found
        # A component that has not spoken yet is behind its system, which may know it.
        return [other for other in others if any(known == system for known, _ in heard[other])]

    def _is_repeated(self, frame: bytes, now_us: int) -> bool:
        recent, order = self._recent, self._order
        while order and (len(order) > REPEATS or now_us - recent[order[0]] > REPEAT_US):
            del recent[order.popleft()]
        if frame in recent:
            return True
        recent[frame] = now_us
        order.append(frame)
        return False
