"""Both directions of a recorded link: which frame went which way, and in what order."""

from __future__ import annotations

from collections.abc import Iterable
from heapq import merge

from pymavlink.dialects.v20 import common

from bridge.codec import Decoder, Message
from bridge.tlog import TlogRecord

_OF_A_SIMULATOR = frozenset({"HIL_SENSOR", "HIL_GPS", "HIL_STATE_QUATERNION", "HIL_OPTICAL_FLOW", "HIL_RC_INPUTS_RAW"})

CONTROLS = "HIL_ACTUATOR_CONTROLS"

Sender = tuple[int, int]
"""System and component id."""


def decoded(records: Iterable[TlogRecord]) -> list[tuple[TlogRecord, Message]]:
    """Each record with its message; a damaged frame is left out."""
    decoder = Decoder(datagrams=True)  # each record is one frame
    return [(record, message) for record in records for message in decoder.feed(record.frame)]


def with_directions(records: Iterable[TlogRecord]) -> tuple[list[TlogRecord], int]:
    """The frames of simulator and flight controller, each marked with its direction.

    A simulator is whoever sends what only simulators send; a flight controller the system that sends
    HIL_ACTUATOR_CONTROLS, or without any of these whoever is no simulator.

    Returns:
        The records, and how many were left out: damaged, or of a third party such as a ground station.
    """
    all_records = list(records)
    messages = decoded(all_records)
    simulators = {_sender(record.frame) for record, message in messages if message.get_type() in _OF_A_SIMULATOR}
    systems = {_sender(record.frame)[0] for record, message in messages if message.get_type() == CONTROLS}
    found = []
    for record, _ in messages:
        sender = _sender(record.frame)
        if sender in simulators or not systems or sender[0] in systems:
            found.append(record._replace(to_px4=sender in simulators))
    return found, len(all_records) - len(found)


def merged(from_px4: Iterable[TlogRecord], to_px4: Iterable[TlogRecord]) -> list[TlogRecord]:
    """Two recordings of one link, one of each direction, in the order of their times."""
    sent = (record._replace(to_px4=True) for record in to_px4)
    return list(merge(from_px4, sent, key=lambda record: record.time_us))


def _sender(frame: bytes) -> Sender:
    at = 5 if frame[0] == common.PROTOCOL_MARKER_V2 else 3
    return frame[at], frame[at + 1]
