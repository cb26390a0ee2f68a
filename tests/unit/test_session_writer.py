"""The recorder's writer: what it does when the file takes no more, at whatever byte that happens."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import msgspec
import pytest
import session_files

from firmware_profiles.errors import DataError
from lav2_hil.session import mcap_file, writer
from lav2_hil.session.framing import FRAME, HEADER, take_frames
from lav2_hil.session.messages import message_of, record_of_message
from lav2_hil.session.reader import Session, read_session
from lav2_hil.session.records import Kind, Record
from lav2_hil.session.writer import SessionWriter, Status


class Disk:
    """`os.write` of one file on a disk of so many bytes, in blocks: of what is too much it takes a part."""

    def __init__(self, size: int, block: int) -> None:
        self.fd = -1
        self._size, self._block = size, block
        self._write = os.write

    def write(self, fd: int, data: bytes) -> int:
        if fd != self.fd:
            return self._write(fd, data)
        at = os.lseek(fd, 0, os.SEEK_CUR)
        room = self._size // self._block * self._block - at
        if room <= 0 and len(data):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return self._write(fd, bytes(data[:room]))


def written_on(disk: Disk, path: Path, made: list[Record], monkeypatch: pytest.MonkeyPatch) -> list[Status]:
    """What the writer said."""
    read, status = os.pipe()
    disk.fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL)
    with monkeypatch.context() as patch:
        patch.setattr(os, "write", disk.write)
        patch.setattr(mcap_file, "CHUNK_SIZE", 8 * 1024)
        session = SessionWriter(disk.fd, status)
        session.take(HEADER, session_files.STARTED_US, msgspec.json.encode(session_files.header()))
        for record in made:
            session.take(*record)
        session.finish()
    os.close(disk.fd)
    os.close(status)
    with os.fdopen(read) as said:
        return [msgspec.json.decode(line, type=Status) for line in said]


@pytest.fixture(scope="module")
def made() -> list[Record]:
    return session_files.records(200)


@pytest.mark.parametrize("block", [1, 512])
def test_a_full_disk_leaves_a_marked_session_that_is_whole_up_to_there(
    block: int, made: list[Record], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    full = session_files.as_read(made)
    (said,) = written_on(Disk(1 << 30, 1), tmp_path / "whole.mcap", made, monkeypatch)
    assert said == Status(ended=True)
    size = (tmp_path / "whole.mcap").stat().st_size
    marked = 0
    for number, room in enumerate([*range(6000, size, 797), *range(size - 60, size, 3)]):
        path = tmp_path / f"{number}.mcap"
        said = written_on(Disk(room, block), path, made, monkeypatch)
        assert [(status.failed, status.ended) for status in said] == [("No space left on device", False)]
        assert path.stat().st_size <= room
        if room < 11_000 and read_or_none(path) is None:
            continue  # not even the first chunk has come there
        session = read_session(path)
        *whole, last = session.records
        assert session.end is None
        assert session.damage is None, "it has its end"
        assert last.kind is Kind.LOST
        marked += 1
        assert whole == full[: len(whole)]
        assert session.incomplete_from_us == said[0].from_us == last.time_us
    assert marked > 20


def read_or_none(path: Path) -> Session | None:
    try:
        return read_session(path)
    except DataError:
        return None


def test_a_disk_that_takes_nothing_at_all(made: list[Record], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said = written_on(Disk(0, 1), tmp_path / "none.mcap", made, monkeypatch)
    assert [status.failed for status in said] == ["No space left on device"]
    assert (tmp_path / "none.mcap").read_bytes() == b""


def test_a_chunk_is_ended_when_its_oldest_message_is_a_second_old(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 100.0
    monkeypatch.setattr(writer.time, "monotonic", lambda: now)
    path = tmp_path / "slow.mcap"
    fd = os.open(path, os.O_RDWR | os.O_CREAT)
    with Path(os.devnull).open("wb") as status:
        session = SessionWriter(fd, status.fileno())
        session.take(HEADER, session_files.STARTED_US, msgspec.json.encode(session_files.header()))
        assert session.wait_s() is None
        before = path.stat().st_size
        session.take(Kind.SAMPLED, session_files.STARTED_US, b"")
        now += 0.9
        session.take(Kind.SAMPLED, session_files.STARTED_US, b"")
        session.end_chunk_if_due()
        assert session.wait_s() == pytest.approx(0.1)
        assert path.stat().st_size == before
        now += 0.1
        session.end_chunk_if_due()
        assert path.stat().st_size > before
        assert session.wait_s() is None
    os.close(fd)
    assert len(read_session(path).records) == 2


def test_frames_come_out_of_the_pipe_in_whatever_pieces() -> None:
    frames = [(1, -5, b""), (3, 2**40, b"x" * 300), (49, 7, b"{}")]
    stream = b"".join(FRAME.pack(kind, len(data), time_us) + data for kind, time_us, data in frames)
    for size in (1, 7, 13, 100, len(stream)):
        buffer, out = bytearray(), []
        for at in range(0, len(stream), size):
            buffer += stream[at : at + size]
            out += take_frames(buffer)
        assert out == frames
        assert not buffer


@pytest.mark.parametrize("record", [*session_files.records(1), Record(Kind.LOST, 1, b"")], ids=lambda r: r.kind.name)
def test_a_record_comes_back_from_its_message(record: Record) -> None:
    if record.kind is not Kind.TRUTH:  # which is thinned before
        channel, data = message_of(record, 1_000_000_123)
        assert record_of_message(channel.topic, data, record.time_us) == record


def test_a_topic_of_a_later_version_is_passed_over() -> None:
    assert record_of_message("/wind", b"", 1) is None


@pytest.mark.parametrize(
    ("topic", "data"),
    [
        ("/event", b'{"event":"moon"}'),
        ("/event", b""),
        ("/mavlink/from_px4", b"\5\0\0\0abc"),
        ("/truth", b"{}"),
        ("/notice", b"{}"),
    ],
)
def test_a_message_that_is_none_of_ours_is_refused(topic: str, data: bytes) -> None:
    with pytest.raises((ValueError, msgspec.MsgspecError)):
        record_of_message(topic, data, 1)
