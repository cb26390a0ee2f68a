"""Replay: a recording's inputs drive the session state machine and the twin again, by the recording's own clock.

It is the live loop that does it (`lav2_hil.loop.HilLoop`), with three differences: the time of an event is the recorded
one, a step is taken where the recording took one, and nobody sets a timer, as its events are recorded too.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bridge.session_io import Event, Notice
from bridge.sessions import Session as SessionMachine
from bridge.transport.base import LinkHandler, Transport
from firmware_profiles.errors import UsageError
from firmware_profiles.profile import VehicleProfile
from firmware_profiles.signals import SensorSample
from lav2_hil.loop import LINK_NOTICES, HilLoop
from lav2_hil.session.records import (
    APART,
    INPUTS,
    Kind,
    Record,
    event_of,
    fault_data,
    fault_of,
    notice_data,
    notice_of,
    pack_truth,
    record_of,
)
from lav2_hil.session.truth import TruthSample, TruthThinner, encode_truth
from twin.faults import FaultChange, check_change
from twin.twin import Twin, TwinDivergedError

if TYPE_CHECKING:
    from lav2_hil.session.reader import Session


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a replay gave, in the recording's own terms.

    Attributes:
        recorded: the records that were replayed.
        records: what a recorder would have written now: the same inputs, and what follows from them.
        sim_us: simulated time at each of `records`: the stamp of the newest HIL_SENSOR.
        stopped: why the replay could not go on to the recording's end; None when it could.
    """

    recorded: list[Record]
    records: list[Record]
    sim_us: list[int]
    stopped: str | None


def replay(
    session: Session,
    profile: VehicleProfile | None = None,
    *,
    pace: float = 0.0,
    sleep: Callable[[float], None] = time.sleep,
    clock: Callable[[], float] = time.monotonic,
) -> Outcome:
    """Feed a recording's inputs to a new session state machine and twin.

    Of an incomplete session it replays what is in front of its mark.

    Args:
        session: the recording.
        profile: to build the twin of; by default the recorded one.
        pace: recorded over present time between inputs; 0 is as fast as it goes.
        sleep: waits so many seconds, for `pace`.
        clock: present time in seconds, for `pace`.
    """
    recorded = _whole_turns(session)
    loop = ReplayLoop(session, recorded, profile)
    first_us = loop.next_us or 0
    started = clock()
    stopped = None
    try:
        while loop.next_us is not None:
            if pace:
                sleep(max(0.0, started + (loop.next_us - first_us) * 1e-6 / pace - clock()))
            loop.take()
    except (TwinDivergedError, AnotherCourseError) as error:
        stopped = str(error)
    written = loop.written
    if session.incomplete_from_us is None:
        written.finish()
    return Outcome(recorded, written.records, written.sim_us, stopped)


def _whole_turns(session: Session) -> list[Record]:
    """The records without the last words; of an incomplete session, those up to its mark without the last turn.

    A turn is an input from outside and all that follows from it: of the last one, some may be missing.
    """
    records = session.records
    end = next((i for i, record in enumerate(records) if record.kind in (Kind.LOST, Kind.END)), len(records))
    if session.incomplete_from_us is not None:
        end = next((i for i in reversed(range(end)) if _begins_turn(records[i])), 0)
    return [record for record in records[:end] if record.kind not in APART]


def _begins_turn(record: Record) -> bool:
    return record.kind in INPUTS and record.kind not in (Kind.SAMPLED, Kind.FAULT)


def _is_link_notice(record: Record) -> bool:
    return record.kind is Kind.NOTICE and notice_of(record.data).name in LINK_NOTICES


class AnotherCourseError(Exception):
    """The session does not take the course of the recording: the rest of its inputs belong to another run."""


class ReplayLoop(HilLoop):
    """The loop, with a recording in place of clock and link."""

    def __init__(self, recording: Session, records: Sequence[Record], profile: VehicleProfile | None) -> None:
        header = recording.header
        twin = header.make_twin(profile)
        session = header.make_session()
        self.written = _Tap(session, twin, TruthThinner(recording.truth_every), records)
        super().__init__(
            *(session, _NoLink(self._gave_up), twin, header.make_actuators(profile)),
            tap=self.written,
            companion=header.make_companion(profile),
        )
        self._inputs = [record for record in records if record.kind in INPUTS]
        self._vehicle = (profile or header.profile).vehicle
        self._place = 0
        self._record_us = 0

    @property
    def next_us(self) -> int | None:
        """Recorded time of the next input; None when there are no more."""
        return self._inputs[self._place].time_us if self._place < len(self._inputs) else None

    def take(self) -> None:
        """Take the next input, and do all that follows from it.

        Raises:
            AnotherCourseError: the recording goes on in a way that this session does not.
            TwinDivergedError: the physics broke down.
        """
        record = self._take()
        if record.kind in (Kind.SAMPLED, Kind.FAULT):
            raise AnotherCourseError("the twin was stepped here in the recording, and the session asks for no step now")
        if self._halted:
            raise AnotherCourseError("the session asks for a step of the twin that the recording did not take")
        self.feed(event_of(record))

    def _take(self) -> Record:
        record = self._inputs[self._place]
        self._place += 1
        self._record_us = record.time_us
        return record

    def _next_is(self, kind: Kind) -> bool:
        return self._place < len(self._inputs) and self._inputs[self._place].kind is kind

    def _now_us(self) -> int:
        return self._record_us

    def _may_step(self) -> bool:
        """Where a run was told to end, the last step that the session asked for was not taken."""
        while self._next_is(Kind.FAULT):
            self.change_fault(self._possible(fault_of(self._take().data)))
        if self._next_is(Kind.SAMPLED):
            self._take()
        else:
            self._halted = True
        return not self._halted

    def _possible(self, change: FaultChange) -> FaultChange:
        try:
            seen = self._vehicle.sensors.motion_capture is not None
            check_change(change, len(self._vehicle.rotors), motion_capture=seen)
        except UsageError as error:
            raise AnotherCourseError(str(error)) from None
        return change

    def _gave_up(self) -> None:
        """The session gave its peer up; the link says that it is gone before anything else happens, if it had one."""
        if self._next_is(Kind.LINK_DOWN):
            self.take()

    def _set_timer(self) -> None:
        pass


class _Tap:
    """Writes down what a recorder would have written.

    What the link said by itself is no outcome of the session: it is copied from where it stands in the recording.
    """

    def __init__(self, session: SessionMachine, twin: Twin, truth: TruthThinner, recorded: Sequence[Record]) -> None:
        self.records: list[Record] = []
        self.sim_us: list[int] = []
        self._session = session
        self._twin = twin
        self._truth = truth
        self._recorded = recorded
        self._now_us = 0
        self._copy_link_notices()

    def _add(self, record: Record) -> None:
        self.records.append(record)
        self.sim_us.append(self._session.time_us)
        self._copy_link_notices()

    def _copy_link_notices(self) -> None:
        place = len(self.records)
        if place < len(self._recorded) and _is_link_notice(self._recorded[place]):
            self._add(self._recorded[place])

    def _add_truth(self, sample: TruthSample | None) -> None:
        if sample is not None:
            self._add(Record(Kind.TRUTH, self._now_us, encode_truth(sample)))

    def event(self, event: Event, now_us: int) -> None:
        self._now_us = now_us
        self._add(record_of(event, now_us))

    def fault(self, change: FaultChange) -> None:
        self._add(Record(Kind.FAULT, self._now_us, fault_data(change)))

    def sent(self, frame: bytes) -> None:
        self._add(Record(Kind.SENT, self._now_us, frame))

    def noticed(self, notice: Notice) -> None:
        self._add(Record(Kind.NOTICE, self._now_us, notice_data(notice)))

    def stepped(self, sample: SensorSample) -> None:
        self._add_truth(self._truth.add(pack_truth(sample.time_us, self._twin.state().tobytes())))

    def flush(self, *, may_wait: bool) -> None:
        pass

    def finish(self) -> None:
        self._add_truth(self._truth.finish())


class _NoLink(Transport):
    """Takes every frame and has no peer."""

    def __init__(self, unpinned: Callable[[], None]) -> None:
        self.unpin = unpinned  # type: ignore[method-assign]

    async def open(self, handler: LinkHandler) -> None:
        pass

    def write(self, data: bytes) -> bool:
        return True

    async def close(self) -> None:
        pass
