"""A recorded flight controller, played: gives the frames that it sent, in answer to the HIL_SENSORs it gets now."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable
from itertools import pairwise
from typing import NamedTuple

from pymavlink.dialects.v20 import common

from bridge.codec import Encoder, Message
from bridge.controls_tracker import LOCKSTEP
from bridge.recorded_link import CONTROLS, decoded
from bridge.tlog import TlogRecord

_GREETING = -1


class _Due(NamedTuple):
    """One recorded frame.

    Attributes:
        elapsed_us: how long after the first sensor it is due; None right after the frame before it.
        frame: as it was recorded.
        answer: the HIL_ACTUATOR_CONTROLS that it is, when its stamp is that of the sensor it answers.
        stamp_us: of the answer, after that of the first sensor.
    """

    elapsed_us: int | None
    frame: bytes
    answer: Message | None = None
    stamp_us: int = 0


class CapturePlayer:
    """Plays what a PX4 sent to its simulator; a PX4 that was started again is a new connection.

    Where the records hold the simulator's frames too, a frame is due when its place among the HIL_SENSORs has come
    again. Where they do not, a HIL_ACTUATOR_CONTROLS with the lockstep flag is due at its own time_usec, which was the
    simulator's, and a recording without that flag as it was recorded, by wall time from its first controls on. An
    answer in lockstep leaves with the stamp of the sensor that it answers now.

    Args:
        records: what was recorded; a damaged frame is left out.
        period_us: of the recorded HIL_SENSORs; where these are not at hand, the first carried it as its stamp.

    Attributes:
        wall_us: wall time at which the connection that is played began.
        silent_until_us: how long after its first sensor the recorded simulator was still sending, 0 if that is not
            known: a flight controller that fell silent is played to its end.
        stamp_step_us: greatest common divisor of the steps between the stamps of answers; 0 without any.
    """

    def __init__(self, records: Iterable[TlogRecord], period_us: int = 4000) -> None:
        self._connections = deque(_Connection(entries, period_us) for entries in _connections(records))
        self._queue: deque[_Due] = deque()
        self._first_us = 0
        self.wall_us = 0
        self.silent_until_us = 0
        self.stamp_step_us = math.gcd(*(connection.stamp_step_us for connection in self._connections))

    @property
    def longest_us(self) -> int:
        """Simulated time that the longest of the connections still to come takes, so far as it is known."""
        return max((connection.length_us for connection in self._connections), default=0)

    def connect(self) -> bool:
        """Begin the next recorded connection; False when there is none."""
        self._first_us = 0
        if not self._connections:
            return False
        connection = self._connections.popleft()
        self._queue = deque(connection.due)
        self.wall_us, self.silent_until_us = connection.wall_us, connection.silent_until_us
        return True

    @property
    def ended(self) -> bool:
        """Whether everything of this connection has been played."""
        return not self._queue

    def greeting(self) -> list[bytes]:
        """What the flight controller says before any sensor."""
        return self._take(_GREETING)

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
        answer, stamp_us = due.answer, self._first_us + due.stamp_us
        if answer is None or answer.time_usec == stamp_us:
            return due.frame
        encoder = Encoder(answer.get_srcSystem(), answer.get_srcComponent(), answer.get_seq())
        answer.time_usec = stamp_us
        return encoder.encode(answer)


_Entries = list[tuple[TlogRecord, Message]]


def _connections(records: Iterable[TlogRecord]) -> list[_Entries]:
    """The recorded frames, a list for each connection.

    PX4 asks for the truth once, with its first frame; and a simulator whose stamps go back after it had answers has met
    another flight controller, to which it may speak before that says anything.
    """
    connections: list[_Entries] = [[]]
    stamp_us, back_at, heard, answered = 0, None, False, False
    for entry in decoded(records):
        record, message = entry
        kind, connection = message.get_type(), connections[-1]
        new_at: int | None = None
        if record.to_px4:
            if kind == "HIL_SENSOR":
                if message.time_usec < stamp_us:
                    back_at = len(connection)
                    new_at = back_at if answered else None
                stamp_us = message.time_usec
        else:
            if kind == "COMMAND_LONG" and message.command == common.MAV_CMD_SET_MESSAGE_INTERVAL and heard:
                new_at = len(connection) if back_at is None else back_at
            back_at = None
        if new_at is not None:
            connections.append(connection[new_at:])
            del connection[new_at:]
            back_at, heard, answered = None, False, False
        connections[-1].append(entry)
        heard = heard or not record.to_px4
        answered = answered or kind == CONTROLS
    return [connection for connection in connections if connection]


class _Connection:
    """One connection, ready to be played."""

    def __init__(self, entries: _Entries, period_us: int) -> None:
        self.wall_us = entries[0][0].time_us
        self.silent_until_us = 0
        stamps = [m.time_usec for r, m in entries if r.to_px4 and m.get_type() == "HIL_SENSOR"]
        self._stamps = frozenset(stamps)
        if stamps:
            self._first_us = min(stamps)
            self.silent_until_us = max(stamps[-1] - self._first_us, 0)
            self.due = self._by_sensors(entries)
        else:
            self._first_us = period_us
            self.due = self._by_stamps(entries)
        answers = [due.stamp_us for due in self.due if due.answer is not None]
        self.stamp_step_us = math.gcd(*(later - earlier for earlier, later in pairwise(answers)))
        self.length_us = max((due.elapsed_us or 0 for due in self.due), default=0)
        self.length_us = max(self.length_us, self.silent_until_us)

    def _answer(self, elapsed_us: int | None, record: TlogRecord, message: Message) -> _Due:
        if message.get_type() != CONTROLS or not message.flags & LOCKSTEP:
            return _Due(elapsed_us, record.frame)
        if self._stamps and message.time_usec not in self._stamps:
            return _Due(elapsed_us, record.frame)  # a clock of its own
        return _Due(elapsed_us, record.frame, message, message.time_usec - self._first_us)

    def _by_sensors(self, entries: _Entries) -> list[_Due]:
        due, elapsed_us = [], _GREETING
        for record, message in entries:
            if not record.to_px4:
                due.append(self._answer(elapsed_us, record, message))
            elif message.get_type() == "HIL_SENSOR":
                elapsed_us = message.time_usec - self._first_us
        # The first datagram on UDP can be any sensor: what it made PX4 say is due no later than what came after it.
        for index in range(len(due) - 2, -1, -1):
            later_us = due[index + 1].elapsed_us
            assert later_us is not None
            due[index] = due[index]._replace(elapsed_us=min(due[index].elapsed_us or 0, later_us))
        return due

    def _by_stamps(self, entries: _Entries) -> list[_Due]:
        controls = [(r, m) for r, m in entries if m.get_type() == CONTROLS]
        start_us = controls[0][0].time_us if controls else self.wall_us
        in_lockstep = any(message.flags & LOCKSTEP for _, message in controls)
        dues = []
        for record, message in entries:
            due = self._answer(None, record, message)
            if due.answer is not None:
                due = due._replace(elapsed_us=due.stamp_us)
            elif not in_lockstep and record.time_us >= start_us:
                due = due._replace(elapsed_us=record.time_us - start_us)
            dues.append(due)
        return dues
