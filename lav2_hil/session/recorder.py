"""The recorder's end in the loop: records go into a buffer, and the buffer to a process that writes the file.

What the loop pays for a record is to pack it. Compression and the disk are the other process's business; it outlives
this one, so that the file of a run that was killed has its end.
"""

from __future__ import annotations

import contextlib
import fcntl
import logging
import os
import select
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from bridge.session_io import Event, Notice
from firmware_profiles.signals import SensorSample
from lav2_hil.session.framing import FRAME, HEADER
from lav2_hil.session.header import Header
from lav2_hil.session.records import Kind, fault_data, notice_data, pack_truth, record_of
from lav2_hil.session.writer import Status
from twin.faults import FaultChange
from twin.twin import Twin

BATCH = 8 * 1024
BATCH_US = 100_000
"""The buffer is handed over when it holds so many bytes, or so long after the last time."""
PIPE_SIZE = 1 << 20
BUFFER_LIMIT = 4 << 20
"""What is kept in real time while the writer is busy: beyond that records are dropped."""
PATIENCE_S = 10.0
"""A writer that takes nothing for so long is given up."""


class SessionRecorder:
    """Writes a session down; is the loop's tap.

    Args:
        path: of the file, as it is shown.
        fd: of the file, new and empty; it is the recorder's from here on.
        header: of the session.
        twin: whose truth is recorded.
        failed: told once if the recording ends before the run.
    """

    def __init__(self, path: Path, fd: int, header: Header, twin: Twin, failed: Callable[[Notice], None]) -> None:
        self._path = path
        self._twin = twin
        self._failed = failed
        self._started_us = self._now_us = self._handed_over_us = header.started_us
        self._buffer = bytearray()
        self._recording = True
        self._dropping = False
        self._dropped = 0
        self._incomplete_from_us: int | None = None
        self._reason: str | None = None
        self._said = b""
        read_end, self._pipe = os.pipe()
        status, write_status = os.pipe()
        self._status = status
        command = [sys.executable, "-m", "lav2_hil.session.writer"]
        self._process = subprocess.Popen(
            command, stdin=read_end, stdout=fd, stderr=write_status, start_new_session=True
        )
        for end in (read_end, write_status, fd):
            os.close(end)
        os.set_blocking(self._pipe, False)
        os.set_blocking(self._status, False)
        with contextlib.suppress(OSError):  # more than this system lets us have
            fcntl.fcntl(self._pipe, fcntl.F_SETPIPE_SZ, PIPE_SIZE)
        self._append(HEADER, header.started_us, msgspec.json.encode(header))
        self._hand_over(may_wait=True)

    # The tap

    def event(self, event: Event, now_us: int) -> None:
        """Write an input of the session down."""
        self._now_us = now_us
        self._append(*record_of(event, now_us))

    def fault(self, change: FaultChange) -> None:
        """Write a change of the vehicle's faults down."""
        self._append(Kind.FAULT, self._now_us, fault_data(change))

    def sent(self, frame: bytes) -> None:
        """Write a frame down."""
        self._append(Kind.SENT, self._now_us, frame)

    def noticed(self, notice: Notice) -> None:
        """Write a notice down."""
        self._append(Kind.NOTICE, self._now_us, notice_data(notice))

    def stepped(self, sample: SensorSample) -> None:
        """Write the truth after a step down."""
        self._append(Kind.TRUTH, self._now_us, pack_truth(sample.time_us, self._twin.state().tobytes()))

    def bands(self, bands: dict[str, Any]) -> None:
        """Write down where the vehicle is among its shadows."""
        self._append(Kind.SHADOW, self._now_us, msgspec.json.encode(bands))

    def ground(self, frame: bytes) -> None:
        """Write down a frame of a ground station that went to the flight controller."""
        self._append(Kind.GROUND, self._now_us, frame)

    def flush(self, *, may_wait: bool) -> None:
        """Hand over what has come together, if that is enough or old enough."""
        if len(self._buffer) >= BATCH or self._now_us - self._handed_over_us >= BATCH_US:
            self._hand_over(may_wait=may_wait)

    # From outside the loop

    def tend(self) -> None:
        """To be called now and then: hands over what an idle loop leaves, and hears what the writer says."""
        if self._recording:
            self._hand_over(may_wait=False)
        if self._recording and self._process.poll() is not None:
            self._writer_ended()
        if self._recording:
            self._listen()

    def close(self, last_words: dict[str, Any]) -> None:
        """End the session, and wait until the file is whole.

        Args:
            last_words: of the run, for people.
        """
        if self._recording:
            self._dropping = False
            self._append(Kind.END, self._now_us, msgspec.json.encode(last_words))
            self._hand_over(may_wait=True)
        self._end_pipe()
        if self._process.poll() is None and not _ends(self._process.pid):
            self._process.kill()
        self._process.wait()
        if self._recording:
            self._writer_ended()
        os.close(self._status)

    def discard(self) -> None:
        """Take the file away again, after `close`."""
        self._path.unlink(missing_ok=True)

    def summary(self) -> dict[str, Any]:
        """The recording in figures, after `close`; `incomplete_from_s` counts from the start of the session."""
        from_us = self._incomplete_from_us
        return {
            "file": str(self._path),
            "bytes": self._path.stat().st_size if self._path.exists() else 0,
            "complete": from_us is None,
            "incomplete_from_s": None if from_us is None else round(1e-6 * (from_us - self._started_us), 6),
            "reason": self._reason,
            "dropped_records": self._dropped,
        }

    # The buffer

    def _append(self, kind: int, time_us: int, data: bytes) -> None:
        if self._dropping or not self._recording:
            self._dropped += 1
            return
        self._buffer += FRAME.pack(kind, len(data), time_us)
        self._buffer += data

    def _hand_over(self, *, may_wait: bool) -> None:
        self._handed_over_us = self._now_us
        while self._buffer and self._recording:
            try:
                del self._buffer[: os.write(self._pipe, self._buffer)]
            except BlockingIOError:
                if not may_wait:
                    break
                if not _takes_more(self._pipe):
                    self._give_up(f"its writer took nothing for {PATIENCE_S:g} s", self._now_us)
            except BrokenPipeError:
                self._writer_ended()
        if len(self._buffer) > BUFFER_LIMIT:
            self._drop()
        elif len(self._buffer) < BUFFER_LIMIT // 2:
            self._dropping = False

    def _drop(self) -> None:
        """In real time the loop goes on: what comes now is lost until there is room again."""
        if self._dropping:
            return
        self._append(Kind.LOST, self._now_us, b"")
        self._dropping = True
        if self._incomplete_from_us is None:
            self._mark("session_incomplete", "its writer did not keep up", self._now_us)

    # The writer

    def _listen(self) -> bool:
        """Hear what the writer says; gives whether it said that the file has its end."""
        with contextlib.suppress(BlockingIOError):
            while said := os.read(self._status, 4096):
                self._said += said
        *lines, self._said = self._said.split(b"\n")
        for line in lines:
            with contextlib.suppress(msgspec.MsgspecError):  # an interpreter that breaks down has other last words
                status = msgspec.json.decode(line, type=Status)
                if status.failed is not None and self._recording:
                    self._give_up(status.failed, self._started_us if status.from_us is None else status.from_us)
                return status.ended
        return False

    def _writer_ended(self) -> None:
        code = self._process.wait()
        if not self._listen() and self._recording:
            self._give_up(f"its writer ended with exit code {code}", self._now_us)

    def _give_up(self, reason: str, from_us: int) -> None:
        """The recording ends here; the run goes on."""
        self._recording = False
        self._buffer.clear()
        self._end_pipe()
        self._mark("session_failed", reason, from_us)

    def _mark(self, name: str, reason: str, from_us: int) -> None:
        if self._incomplete_from_us is None or from_us < self._incomplete_from_us:
            self._incomplete_from_us, self._reason = from_us, reason
        after_s = 1e-6 * (from_us - self._started_us)
        text = f"the session {self._path} is incomplete from {after_s:.1f} s on: {reason}; the run goes on"
        self._failed(Notice(logging.ERROR, name, text))

    def _end_pipe(self) -> None:
        if self._pipe >= 0:
            os.close(self._pipe)
            self._pipe = -1


def _takes_more(pipe: int) -> bool:
    """Wait until a pipe takes more; False if it does not for too long."""
    return _ready(pipe, select.POLLOUT)


def _ends(child: int) -> bool:
    """Wait until a child process has ended; False if it does not for too long."""
    fd = os.pidfd_open(child)
    try:
        return _ready(fd, select.POLLIN)
    finally:
        os.close(fd)


def _ready(fd: int, event: int) -> bool:
    poll = select.poll()
    poll.register(fd, event)
    return bool(poll.poll(1000 * PATIENCE_S))
