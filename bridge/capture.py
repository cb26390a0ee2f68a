"""A recorded flight controller, played: gives the frames that it sent, in answer to the HIL_SENSORs it gets now."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from pymavlink.dialects.v20 import common

from bridge.codec import Decoder, Encoder, Message
from bridge.controls_tracker import LOCKSTEP
from bridge.tlog import TlogRecord


class _Due(NamedTuple):
    """One recorded frame.

    Attributes:
        elapsed_us: how long after the first sensor it is due; None right after the frame before it.
        frame: as it was recorded.
        answer: the HIL_ACTUATOR_CONTROLS that it is, when its stamp is that of the sensor it answers.
    """

    elapsed_us: int | None
    frame: bytes
    answer: Message | None = None


class CapturePlayer:
    """Plays what a PX4 sent to its simulator; a PX4 that was started again is a new connection.

    A HIL_ACTUATOR_CONTROLS with the lockstep flag is due at its own time_usec, which was the recorded simulator's, and
    leaves with the stamp of the sensor that it answers now. A recording without that flag is due as it was recorded.

    Args:
        records: what was recorded; a damaged frame is left out.
        period_us: of the recorded HIL_SENSORs; the first carried it as its stamp.
    """

    def __init__(self, records: Iterable[TlogRecord], period_us: int = 4000) -> None:
        self._connections = deque(_connections(records, period_us))
        self._queue: deque[_Due] = deque()
        self._first_us = 0

    def connect(self) -> bool:
        """Begin the next recorded connection; False when there is none."""
        self._first_us = 0
        if not self._connections:
            return False
        self._queue = deque(self._connections.popleft())
        return True

    @property
    def ended(self) -> bool:
        """Whether everything of this connection has been played."""
        return not self._queue

    def greeting(self) -> list[bytes]:
        """What the flight controller says before any sensor."""
        return self._take(-1)

    def sensor(self, time_us: int) -> list[bytes]:
        """What it says once a HIL_SENSOR with this stamp has arrived."""
        if not self._first_us:
            self._first_us = time_us
        return self._take(time_us - self._first_us)

    def _take(self, elapsed_us: int) -> list[bytes]:
        frames = []
        queue = self._queue
        while queue and (queue[0].elapsed_us is None or queue[0].elapsed_us <= elapsed_us):
            frames.append(self._stamped(queue.popleft()))
        return frames

    def _stamped(self, due: _Due) -> bytes:
        answer = due.answer
        if answer is None or due.elapsed_us is None:
            return due.frame
        encoder = Encoder(answer.get_srcSystem(), answer.get_srcComponent(), answer.get_seq())
        answer.time_usec = self._first_us + due.elapsed_us
        return encoder.encode(answer)


def _connections(records: Iterable[TlogRecord], period_us: int) -> Iterator[list[_Due]]:
    """The recorded frames, one list for each connection."""
    decoder = Decoder(datagrams=True)  # each record is one frame
    connection: list[_Due] = []
    wall_us: int | None = None  # of the first controls, when the recording has a clock of its own
    for record in records:
        for message in decoder.feed(record.frame):
            kind = message.get_type()
            if kind == "COMMAND_LONG" and message.command == common.MAV_CMD_SET_MESSAGE_INTERVAL and connection:
                yield connection
                connection, wall_us = [], None
            controls = kind == "HIL_ACTUATOR_CONTROLS"
            if controls and message.flags & LOCKSTEP:
                connection.append(_Due(message.time_usec - period_us, record.frame, message))
                continue
            if controls and wall_us is None:
                wall_us = record.time_us
            connection.append(_Due(None if wall_us is None else record.time_us - wall_us, record.frame))
    if connection:
        yield connection
