"""Session files: what was written is read, by us and by anybody; what is none of ours is one clear line."""

from __future__ import annotations

import os
import struct
import zlib
from collections import Counter
from pathlib import Path

import mcap.stream_reader
import mcap.writer
import msgspec
import pytest
import session_files
from mcap.data_stream import RecordBuilder
from mcap.reader import make_reader
from mcap.records import Chunk, Metadata

from firmware_profiles.errors import DataError, NoInputError
from lav2_hil.session.header import FORMAT
from lav2_hil.session.mcap_file import CHUNK_SIZE, MAGIC, end_of_file
from lav2_hil.session.reader import LARGEST_RECORD, read_session
from lav2_hil.session.records import INPUTS, Kind, Record


@pytest.fixture(scope="module")
def written() -> list[Record]:
    return session_files.records()


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory, written: list[Record]) -> Path:
    path = tmp_path_factory.mktemp("session") / "whole.mcap"
    session_files.write(path, written)
    return path


def spoilt(tmp_path: Path, data: bytes) -> Path:
    path = tmp_path / "spoilt.mcap"
    path.write_bytes(data)
    return path


def chunks(path: Path) -> list[Chunk]:
    with path.open("rb") as file:
        return [
            record
            for record in mcap.stream_reader.StreamReader(file, emit_chunks=True, validate_crcs=True).records
            if isinstance(record, Chunk)
        ]


def test_everything_comes_back_in_order(whole: Path, written: list[Record]) -> None:
    session = read_session(whole)
    assert session.records == session_files.as_read(written)
    assert {record.kind for record in session.records} == set(Kind) - {Kind.LOST}
    assert (session.damage, session.incomplete_from_us, session.end) == (None, None, {"ended_by": "test"})
    assert session.truth_every == 5
    assert session.header == session_files.header()


def test_chunks_are_small_and_checked(whole: Path) -> None:
    found = chunks(whole)
    assert len(found) > 5
    assert all(chunk.uncompressed_size <= CHUNK_SIZE and chunk.uncompressed_crc for chunk in found)


def test_a_message_larger_than_a_chunk_has_one_of_its_own(tmp_path: Path) -> None:
    large = Record(Kind.RECEIVED, session_files.STARTED_US, os.urandom(3 * CHUNK_SIZE))
    small = Record(Kind.SAMPLED, session_files.STARTED_US, b"")
    path = tmp_path / "large.mcap"
    session_files.write(path, [small, large, small])
    assert read_session(path).records == [small, large, small]
    assert [chunk.uncompressed_size > CHUNK_SIZE for chunk in chunks(path)] == [False, True, False]


def test_any_mcap_reader_reads_it(whole: Path, written: list[Record]) -> None:
    """As Foxglove does: no chunk is indexed, so that it reads from the beginning to the end."""
    with whole.open("rb") as file:
        reader = make_reader(file, validate_crcs=True)
        assert reader.get_summary() is None
        found = [
            (channel.topic, channel.message_encoding, schema.encoding) for schema, channel, _ in reader.iter_messages()
        ]
    kinds = Counter(record.kind for record in session_files.as_read(written))
    events = sum(count for kind, count in kinds.items() if kind in INPUTS and kind is not Kind.RECEIVED)
    assert Counter(found) == {
        ("/mavlink/from_px4", "ros1", "ros1msg"): kinds[Kind.RECEIVED],
        ("/mavlink/to_px4", "ros1", "ros1msg"): kinds[Kind.SENT],
        ("/event", "json", "jsonschema"): events,
        ("/truth", "json", "jsonschema"): kinds[Kind.TRUTH],
        ("/notice", "json", "jsonschema"): 1,
        ("/shadow", "json", "jsonschema"): 1,
        ("/mavlink/from_ground", "ros1", "ros1msg"): 1,
        ("/end", "json", "jsonschema"): 1,
    }  # fmt: skip


def test_a_notice_is_a_foxglove_log(whole: Path) -> None:
    with whole.open("rb") as file:
        ((schema, _, message),) = make_reader(file).iter_messages(topics=["/notice"])
    log = msgspec.json.decode(message.data)
    stamp = log["timestamp"]
    assert (schema.name, log["level"], log["message"], log["name"]) == ("foxglove.Log", 3, 'says "ü"', "a_name")
    assert stamp["sec"] * 10**9 + stamp["nsec"] == message.log_time


def test_times_are_the_wall_clocks_of_the_start(whole: Path) -> None:
    with whole.open("rb") as file:
        first = next(make_reader(file).iter_messages())[2]
    assert first.log_time == first.publish_time == 1780317000_123_456_000


def test_a_newer_format_names_both_versions(tmp_path: Path) -> None:
    path = tmp_path / "newer.mcap"
    session_files.write(path, session_files.records(5), session_files.header(format=FORMAT + 41, lav2_hil="9.8.7"))
    with pytest.raises(DataError, match=rf"format {FORMAT + 41}, written by lav2-hil 9\.8\.7.* up to {FORMAT}"):
        read_session(path)


def test_what_is_no_session_is_one_line(tmp_path: Path, whole: Path) -> None:
    for data, words in (
        (b"", "empty"),
        (b"\0" * 5000, "not a session"),
        (b"hello, world", "not a session"),
        (MAGIC[:5], "not a session"),
        (MAGIC, "its header is not whole"),
        (whole.read_bytes()[:2000], "its header is not whole"),
    ):
        with pytest.raises(DataError, match=words):
            read_session(spoilt(tmp_path, data))


def test_what_cannot_be_read_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(NoInputError, match="it is a directory"):
        read_session(tmp_path)
    with pytest.raises(NoInputError, match="No such file"):
        read_session(tmp_path / "missing.mcap")
    with pytest.raises(NoInputError, match="null byte"):
        read_session(Path("a\0b"))
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(NoInputError, match="it is not a file"):
        read_session(tmp_path / "pipe")


def test_an_mcap_file_of_somebody_else(tmp_path: Path) -> None:
    path = tmp_path / "other.mcap"
    writer = mcap.writer.Writer(str(path))
    writer.start()
    channel = writer.register_channel("/a", "json", writer.register_schema("A", "jsonschema", b"{}"))
    writer.add_message(channel, 1, b"{}", 1)
    writer.finish()
    with pytest.raises(DataError, match="not a session that lav2-hil recorded"):
        read_session(path)


def of_records(*parts: object) -> bytes:
    builder = RecordBuilder()
    for part in parts:
        part.write(builder)  # type: ignore[attr-defined]
    data = MAGIC + builder.end()
    return data + end_of_file(zlib.crc32(data))


def metadata(**changes: str) -> Metadata:
    text = msgspec.json.encode(session_files.header())
    values = {"header": text.decode(), "crc32": f"{zlib.crc32(text):08x}", "truth_every": "5"} | changes
    return Metadata("lav2_hil.session", values)


@pytest.mark.parametrize(
    "changes", [{"crc32": "00000000"}, {"crc32": "x"}, {"truth_every": "often"}, {"header": "{}"}, {"header": "no"}]
)
def test_a_spoilt_header_is_one_line(changes: dict[str, str], tmp_path: Path) -> None:
    if "header" in changes:
        changes["crc32"] = f"{zlib.crc32(changes['header'].encode()):08x}"
    with pytest.raises(DataError, match="header"):
        read_session(spoilt(tmp_path, of_records(metadata(**changes))))


def bomb(declared: int, held: int) -> Chunk:
    import zstandard

    data = zstandard.ZstdCompressor().compress(bytes(held))
    return Chunk("zstd", data, 0, 0, 1, declared)


@pytest.mark.parametrize(
    "chunk",
    [
        bomb(LARGEST_RECORD + 1, LARGEST_RECORD + 1),
        bomb(100, LARGEST_RECORD + 1),
        bomb(2**63, 100),
        Chunk("", b"abc", 0, 0, 1, 3),
        Chunk("zstd", b"abc", 0, 0, 1, 3),
        Chunk("lz4", b"abc", 0, 0, 1, 3),
    ],
    ids=["large", "says little", "says much", "not compressed", "no zstd", "lz4"],
)
def test_a_hostile_chunk_is_refused_before_it_is_unpacked(chunk: Chunk, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"damaged at byte \d+"):
        read_session(spoilt(tmp_path, of_records(metadata(), chunk)))


def test_a_hostile_length_takes_no_memory(tmp_path: Path) -> None:
    for length in (2**31, 2**63 - 1, 2**64 - 1):
        data = of_records(metadata())[: -len(end_of_file(0))] + struct.pack("<BQ", 6, length)
        with pytest.raises(DataError, match="not whole"):
            read_session(spoilt(tmp_path, data + bytes(1000)))
    path = tmp_path / "sparse.mcap"
    path.write_bytes(of_records(metadata())[: -len(end_of_file(0))] + struct.pack("<BQ", 6, 2**33))
    os.truncate(path, 2**34)
    with pytest.raises(DataError, match="a record of 8589934592 bytes"):
        read_session(path)
