"""Session files for tests: a short session that has everything in it, written by the recorder's own writer."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import numpy as np

from bridge.endpoint import parse_endpoint
from bridge.session_io import LinkDown, LinkUp, Notice, Pause, Received, Refused, Resume, SetSpeed, TimerExpired
from firmware_profiles.loader import load_profile
from lav2_hil.session.framing import HEADER
from lav2_hil.session.header import Header, make_header, session_params
from lav2_hil.session.records import Kind, Record, fault_data, notice_data, pack_truth, record_of
from lav2_hil.session.truth import TRUTH_EVERY, TruthThinner, encode_truth
from lav2_hil.session.writer import SessionWriter
from lav2_hil.settings import Settings
from twin.faults import FaultChange

STARTED_US = 5_000_000
STARTED_UTC = datetime(2026, 6, 1, 12, 30, 0, 123_456, UTC)


def header(**changes: object) -> Header:
    settings = Settings(profile=load_profile("lav2"), endpoint=parse_endpoint("tcpin:127.0.0.1:4560"), seed=7)
    params = session_params(settings, datagrams=False, speaks_first=False)
    made = make_header(
        settings,
        params,
        name="test",
        command="run",
        profile_source="lav2",
        endpoint="tcpin:127.0.0.1:4560",
        started_us=STARTED_US,
    )
    return msgspec.structs.replace(made, **{"started_utc": STARTED_UTC} | changes)


def truth_record(tick: int, time_us: int) -> Record:
    state = np.random.default_rng(tick).normal(size=13)
    return Record(Kind.TRUTH, time_us, pack_truth(4000 * tick, state.tobytes()))


def records(ticks: int = 1500) -> list[Record]:
    """Every kind of record, with frames that do not compress well."""
    made = [
        record_of(event, STARTED_US + number)
        for number, event in enumerate(
            (Refused(), LinkUp("127.0.0.1:1"), SetSpeed(0.1), Pause(), Resume(), TimerExpired(), LinkDown("it is über"))
        )
    ]
    made.append(Record(Kind.NOTICE, STARTED_US + 7, notice_data(Notice(30, "a_name", 'says "ü"'))))
    made.append(Record(Kind.SHADOW, STARTED_US + 8, b'{"time_us":8}'))
    made.append(Record(Kind.FAULT, STARTED_US + 9, fault_data(FaultChange("gps", "jump", (1 / 3, 0.0, -2.0)))))
    made.append(Record(Kind.GROUND, STARTED_US + 10, bytes(range(30))))
    for tick in range(1, ticks + 1):
        time_us = STARTED_US + 4000 * tick
        made.append(record_of(Received(os.urandom(40)), time_us))
        made.append(Record(Kind.SAMPLED, time_us + 100, b""))
        made.append(Record(Kind.SENT, time_us + 100, os.urandom(60)))
        made.append(truth_record(tick, time_us + 100))
    made.append(Record(Kind.END, STARTED_US + 4000 * (ticks + 1), b'{"ended_by":"test"}'))
    return made


def as_read(written: list[Record], every: int = TRUTH_EVERY) -> list[Record]:
    """What a reader gives of them: truth in samples."""
    thinner, out = TruthThinner(every), []
    for record in written:
        sample = None
        if record.kind is Kind.TRUTH:
            sample = thinner.add(record.data)
        elif record.kind is Kind.END:
            sample = thinner.finish()
        if sample is not None:
            out.append(Record(Kind.TRUTH, out[-1].time_us, encode_truth(sample)))
        if record.kind is not Kind.TRUTH:
            out.append(record)
    return out


def write(path: Path, made: list[Record], head: Header | None = None) -> None:
    """A session file."""
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL)
    status = os.open(os.devnull, os.O_WRONLY)
    try:
        writer = SessionWriter(fd, status)
        writer.take(HEADER, STARTED_US, msgspec.json.encode(header() if head is None else head))
        for record in made:
            writer.take(*record)
        writer.finish()
    finally:
        os.close(fd)
        os.close(status)
