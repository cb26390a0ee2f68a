"""The recorder's process: takes records from a pipe and puts them into the session file.

    python -m lav2_hil.session.writer <PIPE >FILE 2>STATUS

It ends when the pipe does, and only then: a signal for the run is none for it, so that the file of a run that was
killed is whole. What it has to say goes to STATUS as JSON, a line each: `failed` once if the file takes no more, else
`ended` at the end.
"""

from __future__ import annotations

import os
import select
import signal
import time

import msgspec

from lav2_hil.session.framing import HEADER, take_frames
from lav2_hil.session.mcap_file import McapFile
from lav2_hil.session.messages import CHANNELS, message_of
from lav2_hil.session.metadata import METADATA, SessionClock, header_metadata
from lav2_hil.session.records import Kind, Record
from lav2_hil.session.truth import TRUTH_EVERY, TruthThinner, encode_truth

PIPE, FILE, STATUS = 0, 1, 2
CHUNK_S = 1.0
"""No message is older when it gets into the file."""
_AT_ONCE = 1 << 20


class Status(msgspec.Struct, omit_defaults=True):
    """What the recorder's process says.

    Attributes:
        failed: why the file takes no more.
        from_us: the session is incomplete from this time on.
        ended: the file has its end.
    """

    failed: str | None = None
    from_us: int | None = None
    ended: bool = False


class SessionWriter:
    """Puts records into a session file; after a failure it takes them and does nothing.

    Args:
        fd: of an empty file.
        status: where to say what happens.
    """

    def __init__(self, fd: int, status: int) -> None:
        self._file = McapFile(fd, CHANNELS)
        self._status = status
        self._truth = TruthThinner(TRUTH_EVERY)
        self._clock = SessionClock(0, 0)
        self._last_us = 0
        self._failed = False
        self._chunk_due_s: float | None = None

    def take(self, kind: int, time_us: int, data: bytes) -> None:
        """Take one frame from the pipe."""
        if self._failed:
            return
        try:
            if kind == HEADER:
                self._start(data)
            else:
                self._record(Record(Kind(kind), time_us, data))
        except OSError as error:
            self._fail(error)

    def wait_s(self) -> float | None:
        """For how long nothing needs to be done."""
        return None if self._chunk_due_s is None else max(0.0, self._chunk_due_s - time.monotonic())

    def end_chunk_if_due(self) -> None:
        """End the chunk that has waited long enough."""
        if self._chunk_due_s is None or time.monotonic() < self._chunk_due_s or self._failed:
            return
        self._chunk_due_s = None
        try:
            self._file.end_chunk()
        except OSError as error:
            self._fail(error)

    def finish(self) -> None:
        """The pipe has ended."""
        if self._failed:
            return
        try:
            self._add_truth()
            self._file.finish()
        except OSError as error:
            self._fail(error)
        else:
            self._say(Status(ended=True))

    def _start(self, header: bytes) -> None:
        self._clock = SessionClock.of_header(header)
        self._file.start("lav2-hil", {METADATA: header_metadata(header, TRUTH_EVERY)})

    def _record(self, record: Record) -> None:
        kind, self._last_us, data = record
        if kind is Kind.TRUTH:
            sample = self._truth.add(data)
            if sample is not None:
                self._add(Record(kind, self._last_us, encode_truth(sample)))
            return
        if kind is Kind.END:
            self._add_truth()
        self._add(record)

    def _add_truth(self) -> None:
        """The ticks since the last sample."""
        sample = self._truth.finish()
        if sample is not None:
            self._add(Record(Kind.TRUTH, self._last_us, encode_truth(sample)))

    def _add(self, record: Record) -> None:
        time_ns = self._clock.wall_ns(record.time_us)
        channel, data = message_of(record, time_ns)
        pending = self._file.pending
        self._file.add(channel, time_ns, data)
        if not 0 < pending < self._file.pending:  # a new chunk
            self._chunk_due_s = time.monotonic() + CHUNK_S

    def _fail(self, error: OSError) -> None:
        self._failed = True
        self._chunk_due_s = None
        lost, data = message_of(Record(Kind.LOST, 0, b""), 0)
        self._file.rescue(lost, self._clock.wall_ns(self._last_us), data)
        time_ns = self._file.time_ns
        from_us = self._last_us if time_ns is None else self._clock.time_us(time_ns)
        self._say(Status(failed=error.strerror or str(error), from_us=from_us))

    def _say(self, status: Status) -> None:
        os.write(self._status, msgspec.json.encode(status) + b"\n")


def main() -> None:
    """Serve until the pipe ends."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGPIPE):
        signal.signal(number, signal.SIG_IGN)
    writer = SessionWriter(FILE, STATUS)
    buffer = bytearray()
    while True:
        if select.select([PIPE], [], [], writer.wait_s())[0]:
            data = os.read(PIPE, _AT_ONCE)
            if not data:
                break
            buffer += data
            for frame in take_frames(buffer):
                writer.take(*frame)
        writer.end_chunk_if_due()
    writer.finish()


if __name__ == "__main__":
    main()
