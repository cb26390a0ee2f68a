"""What a session is made of: a header, and records in the order in which things happened in the loop.

The session state machine and the twin are functions of their inputs, so the inputs are what a recording holds: every
event with its time, but not the sensor samples, which the twin computes again. Frames sent, truth and notices are
recorded to be compared with.
"""

from __future__ import annotations

import struct
from enum import IntEnum
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from bridge.session_io import (
    Event,
    LinkDown,
    LinkUp,
    Notice,
    Pause,
    Received,
    Refused,
    Resume,
    Sampled,
    SetSpeed,
    TimerExpired,
)
from firmware_profiles.signals import SensorSample

if TYPE_CHECKING:
    from twin.faults import FaultChange


class Kind(IntEnum):
    """What a record is; a number once given keeps its meaning."""

    LINK_UP = 1
    LINK_DOWN = 2
    RECEIVED = 3
    REFUSED = 4
    TIMER_EXPIRED = 5
    SAMPLED = 6
    PAUSE = 7
    RESUME = 8
    SET_SPEED = 9
    FAULT = 10
    SENT = 32
    TRUTH = 33
    NOTICE = 34
    SHADOW = 35
    GROUND = 36
    LOST = 48
    END = 49


class Record(NamedTuple):
    """One thing that happened.

    Attributes:
        kind: what; up to SET_SPEED an input of the session, FAULT one of the twin, from SENT on an outcome.
        time_us: the loop's monotonic clock, microseconds. Of FAULT, SENT, TRUTH and NOTICE: the time of the input they
            follow.
        data: LINK_UP peer, LINK_DOWN reason (UTF-8); RECEIVED bytes as they came; SET_SPEED float64; FAULT JSON of
            a `FaultChange`, which the twin is told before the step whose SAMPLED follows; SENT one frame;
            TRUTH `Truth`; NOTICE JSON of level, name, text; SHADOW JSON of bands, which a replay does not give again;
            GROUND one frame of a ground station that went to the flight controller, which a replay does not give again;
            LOST nothing; END JSON of the run's last words; else empty.
    """

    kind: Kind
    time_us: int
    data: bytes


APART = frozenset({Kind.SHADOW, Kind.GROUND})
"""What comes from other processes, and follows from nothing that is recorded."""
INPUTS = frozenset(kind for kind in Kind if kind < Kind.SENT)

_TRUTH = struct.Struct("<Q13d")
_SPEED = struct.Struct("<d")


class Truth(NamedTuple):
    """The true state of the live world after a step.

    Attributes:
        time_us: simulated time.
        state: position ENU [m], attitude ENU from FLU (w first), velocity ENU [m/s], rates FLU [rad/s], as
            `Twin.state` gives them.
    """

    time_us: int
    state: tuple[float, ...]


def pack_truth(time_us: int, state: bytes) -> bytes:
    """Truth as a record's data; `state` are 13 float64 of this machine (little-endian)."""
    return time_us.to_bytes(8, "little") + state


def unpack_truth(data: bytes) -> Truth:
    """The inverse of `pack_truth`."""
    time_us, *state = _TRUTH.unpack(data)
    return Truth(time_us, tuple(state))


def record_of(event: Event, time_us: int) -> Record:
    """An input of the session as a record; of `Sampled` only the time."""
    kind = type(event)
    if kind is Received:
        return Record(Kind.RECEIVED, time_us, event.data)  # type: ignore[union-attr]
    if isinstance(event, LinkUp):
        return Record(Kind.LINK_UP, time_us, event.peer.encode())
    if isinstance(event, LinkDown):
        return Record(Kind.LINK_DOWN, time_us, event.reason.encode())
    if isinstance(event, SetSpeed):
        return Record(Kind.SET_SPEED, time_us, _SPEED.pack(event.speed))
    return Record(_EMPTY[kind], time_us, b"")


def event_of(record: Record, sample: SensorSample | None = None) -> Event:
    """The inverse of `record_of`.

    Args:
        record: an input.
        sample: what the twin gave, of a SAMPLED record.
    """
    kind, data = record.kind, record.data
    if kind is Kind.RECEIVED:
        return Received(data)
    if kind is Kind.SAMPLED:
        assert sample is not None
        return Sampled(sample)
    if kind is Kind.LINK_UP:
        return LinkUp(data.decode())
    if kind is Kind.LINK_DOWN:
        return LinkDown(data.decode())
    if kind is Kind.SET_SPEED:
        return SetSpeed(*_SPEED.unpack(data))
    return _OF_EMPTY[kind]()


_EMPTY: dict[type[Event], Kind] = {
    TimerExpired: Kind.TIMER_EXPIRED,
    Sampled: Kind.SAMPLED,
    Refused: Kind.REFUSED,
    Pause: Kind.PAUSE,
    Resume: Kind.RESUME,
}
_OF_EMPTY: dict[Kind, type[TimerExpired | Refused | Pause | Resume]] = {
    Kind.TIMER_EXPIRED: TimerExpired,
    Kind.REFUSED: Refused,
    Kind.PAUSE: Pause,
    Kind.RESUME: Resume,
}


def notice_data(notice: Notice) -> bytes:
    """A notice as a record's data."""
    return msgspec.json.encode({"level": notice.level, "name": notice.name, "text": notice.text})


def notice_of(data: bytes) -> Notice:
    """The inverse of `notice_data`."""
    return Notice(**msgspec.json.decode(data))


def fault_data(change: FaultChange) -> bytes:
    """A change of the vehicle's faults as a record's data."""
    return msgspec.json.encode(change)


def fault_of(data: bytes) -> FaultChange:
    """The inverse of `fault_data`.

    Raises:
        msgspec.MsgspecError: it is none.
    """
    from twin.faults import FaultChange  # the recorder's process has no need of arrays

    return msgspec.json.decode(data, type=FaultChange)
