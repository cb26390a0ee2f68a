"""Sessions read from a file: all of a whole one, and of a damaged one all up to the damage."""

from __future__ import annotations

import errno
import io
import os
import stat
import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import msgspec
import zstandard
from mcap.data_stream import ReadDataStream
from mcap.exceptions import McapError
from mcap.opcode import Opcode
from mcap.records import Channel, Chunk, Message, Metadata
from mcap.stream_reader import breakup_chunk

from firmware_profiles.errors import DataError, NoInputError
from lav2_hil.session.header import FORMAT, Header
from lav2_hil.session.mcap_file import MAGIC, end_of_file
from lav2_hil.session.messages import record_of_message
from lav2_hil.session.metadata import METADATA, SessionClock
from lav2_hil.session.records import Kind, Record

LARGEST_RECORD = 16 << 20
"""Bytes. The recorder writes none of a tenth of this: a larger one is a damaged length."""

_RECORD = struct.Struct("<BQ")
_ERRORS = (McapError, ValueError, KeyError, struct.error, zstandard.ZstdError, msgspec.MsgspecError, OverflowError)
"""What the parts raise when they are given something else than they wrote."""


@dataclass(slots=True)
class Session:
    """One recorded run.

    Attributes:
        header: what it began with.
        truth_every: ticks for one TRUTH record.
        records: in the order in which things happened; the data of TRUTH are samples, see `lav2_hil.session.truth`.
        damage: what is wrong with the file, in a line: `records` ends there; None for a whole file.
        incomplete_from_us: from this time on records may be missing: the recorder lost some, or the end is missing.
        end: the run's last words; None if they are missing.
    """

    header: Header
    truth_every: int
    records: list[Record] = field(default_factory=list)
    damage: str | None = None
    incomplete_from_us: int | None = None
    end: dict[str, Any] | None = None


def read_session(path: Path) -> Session:
    """Read a session.

    Raises:
        NoInputError: there is no file that could be read.
        DataError: it is none of our sessions, of a newer version, or damaged so that nothing is left of it.
    """
    try:
        with open(path, "rb", opener=_open) as file:
            return _read(file, path)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise NoInputError(f"{path}: {reason}") from None


def _open(path: str, flags: int) -> int:
    fd = os.open(path, flags | os.O_NONBLOCK)  # or a pipe would be waited for
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        is_directory = stat.S_ISDIR(os.fstat(fd).st_mode)
        os.close(fd)
        raise OSError(errno.EINVAL, "it is a directory" if is_directory else "it is not a file")
    return fd


class _DamageError(Exception):
    """The file cannot be read on from here."""


class _McapRecord(NamedTuple):
    opcode: int
    at: int
    content: bytes


def _read(file: BinaryIO, path: Path) -> Session:
    size = os.fstat(file.fileno()).st_size
    if size == 0:
        raise DataError(f"{path}: the file is empty")
    if file.read(len(MAGIC)) != MAGIC:
        raise DataError(f"{path}: not a session: an MCAP file begins otherwise")
    records = _mcap_records(file, size)
    session, clock = _begin(records, path)
    try:
        for record in _messages(records, clock):
            session.records.append(record)
            if record.kind is Kind.END:
                session.end = _last_words(record.data)
        if not _ends_whole(file, size):
            raise _DamageError("the file's checksum is wrong, and none of its parts says where")
    except _DamageError as damage:
        last_us = session.records[-1].time_us if session.records else clock.started_us
        session.damage = f"{damage}; read up to there, {1e-6 * (last_us - clock.started_us):.3f} s"
        if not session.records:
            raise DataError(f"{path}: {damage}, and nothing is left before that") from None
    session.incomplete_from_us = _incomplete_from_us(session)
    return session


def _mcap_records(file: BinaryIO, size: int) -> Iterator[_McapRecord]:
    """The records of the file as they stand there, until its data end."""
    while True:
        at = file.tell()
        head = file.read(_RECORD.size)
        if len(head) < _RECORD.size:
            raise _DamageError(f"cut off at byte {size}: its end is missing")
        opcode, length = _RECORD.unpack(head)
        if opcode not in _KNOWN:
            raise _DamageError(f"damaged at byte {at}: no record begins there")
        if length > size - at - _RECORD.size:
            raise _DamageError(f"cut off at byte {size}, or damaged at byte {at}: the record there is not whole")
        if length > LARGEST_RECORD:
            raise _DamageError(f"damaged at byte {at}: a record of {length} bytes")
        yield _McapRecord(opcode, at, file.read(length))
        if opcode == Opcode.DATA_END:
            return


_KNOWN = frozenset(int(opcode) for opcode in Opcode)


def _begin(records: Iterator[_McapRecord], path: Path) -> tuple[Session, SessionClock]:
    """The header, which comes before all messages."""
    try:
        for opcode, _, content in records:
            if opcode == Opcode.METADATA:
                metadata = Metadata.read(ReadDataStream(io.BytesIO(content)))
                if metadata.name == METADATA:
                    return _header(metadata.metadata, path)
            elif opcode != Opcode.HEADER:
                break
    except _DamageError as damage:
        raise DataError(f"{path}: {damage}, and its header is not whole") from None
    except _ERRORS:
        raise DataError(f"{path}: its header is damaged") from None
    raise DataError(f"{path}: an MCAP file, but not a session that lav2-hil recorded")


class _Format(msgspec.Struct):
    format: int
    lav2_hil: str = "?"


def _header(metadata: dict[str, str], path: Path) -> tuple[Session, SessionClock]:
    text = metadata["header"].encode()
    if int(metadata["crc32"], 16) != zlib.crc32(text):
        raise DataError(f"{path}: its header is damaged")
    written = msgspec.json.decode(text, type=_Format)
    if written.format > FORMAT:
        raise DataError(
            f"{path}: format {written.format}, written by lav2-hil {written.lav2_hil}; this version reads formats up "
            f"to {FORMAT}: update lav2-hil"
        )
    try:
        header = msgspec.json.decode(text, type=Header)
    except msgspec.ValidationError as error:
        raise DataError(f"{path}: its header is not as format {FORMAT} wants it: {error}") from None
    return Session(header, int(metadata["truth_every"])), SessionClock.of_header(text)


def _messages(records: Iterator[_McapRecord], clock: SessionClock) -> Iterator[Record]:
    """The session's records out of the chunks."""
    topics: dict[int, str] = {}
    expected = 0
    for opcode, at, content in records:
        if opcode != Opcode.CHUNK:
            continue
        try:
            parts = _parts(content)
            for part in parts:
                if isinstance(part, Channel):
                    topics[part.id] = part.topic
                elif isinstance(part, Message):
                    if part.sequence != expected:
                        raise _DamageError(f"damaged in front of byte {at}: messages are missing")
                    expected = (expected + 1) & 0xFFFFFFFF
                    record = record_of_message(topics[part.channel_id], part.data, clock.time_us(part.log_time))
                    if record is not None:
                        yield record
        except _ERRORS as error:
            raise _DamageError(
                f"damaged at byte {at}: {' '.join(str(error).split()) or type(error).__name__}"
            ) from None


def _parts(content: bytes) -> list[Any]:
    chunk = Chunk.read(ReadDataStream(io.BytesIO(content)))
    if chunk.compression != "zstd":
        raise ValueError(f"compression {chunk.compression!r}")
    declared = zstandard.frame_content_size(chunk.data)
    if declared != chunk.uncompressed_size or not 0 < declared <= LARGEST_RECORD:
        raise ValueError(f"a chunk of {declared} bytes that should be {chunk.uncompressed_size}")
    if not chunk.uncompressed_crc:
        raise ValueError("a chunk without a checksum")
    return breakup_chunk(chunk, validate_crc=True)


def _last_words(data: bytes) -> dict[str, Any]:
    try:
        return msgspec.json.decode(data, type=dict[str, Any])
    except msgspec.MsgspecError as error:
        raise _DamageError(f"the run's last words are damaged: {error}") from None


def _ends_whole(file: BinaryIO, size: int) -> bool:
    """Whether the checksum of all bytes is right, and the end is the one that belongs to it."""
    end_size = len(end_of_file(0))
    file.seek(0)
    crc, left = 0, size - end_size
    while left > 0:
        block = file.read(min(left, 1 << 20))
        if not block:
            return False
        crc, left = zlib.crc32(block, crc), left - len(block)
    return file.read(end_size + 1) == end_of_file(crc)


def _incomplete_from_us(session: Session) -> int | None:
    for record in session.records:
        if record.kind is Kind.LOST:
            return record.time_us
    if session.end is None:
        return session.records[-1].time_us if session.records else session.header.started_us
    return None
