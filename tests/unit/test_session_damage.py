"""Damaged session files: all that is sure is read, with a reason, and never a traceback."""

from __future__ import annotations

import random
import re
import struct
from pathlib import Path

import mcap.stream_reader
import mcap.writer
import pytest
import session_files
from hypothesis import given, settings
from hypothesis import strategies as st
from mcap.records import Chunk

from firmware_profiles.errors import DataError, NoInputError
from lav2_hil.session import mcap_file
from lav2_hil.session.mcap_file import MAGIC
from lav2_hil.session.reader import Session, read_session
from lav2_hil.session.records import Record


@pytest.fixture(scope="module")
def written() -> list[Record]:
    return session_files.records()


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory, written: list[Record]) -> Path:
    path = tmp_path_factory.mktemp("session") / "whole.mcap"
    session_files.write(path, written)
    return path


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of small chunks: quick to read, for tests that read it often."""
    path = tmp_path_factory.mktemp("session") / "small.mcap"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(mcap_file, "CHUNK_SIZE", 8 * 1024)
        session_files.write(path, session_files.records(100))
    assert len(chunks(path)) > 4
    return path


@pytest.fixture(scope="module")
def longer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of many chunks, so that a tenth of it has some."""
    path = tmp_path_factory.mktemp("session") / "longer.mcap"
    session_files.write(path, session_files.records(6000))
    return path


def spoilt(tmp_path: Path, data: bytes) -> Path:
    path = tmp_path / "spoilt.mcap"
    path.write_bytes(data)
    return path


def reading(path: Path) -> Session | None:
    """The session, or None for an error; of an error the message must be one clear line that names the file."""
    try:
        return read_session(path)
    except (DataError, NoInputError) as error:
        message = str(error)
    assert message.startswith(f"{path}: ")
    assert "\n" not in message
    return None


def chunks(path: Path) -> list[Chunk]:
    with path.open("rb") as file:
        return [
            record
            for record in mcap.stream_reader.StreamReader(file, emit_chunks=True, validate_crcs=True).records
            if isinstance(record, Chunk)
        ]


@pytest.mark.parametrize("percent", range(10, 100, 10))
def test_cut_at_every_tenth(percent: int, longer: Path, tmp_path: Path) -> None:
    data, a_chunk = longer.read_bytes(), 0.035
    session = read_session(spoilt(tmp_path, data[: len(data) * percent // 100]))
    full = read_session(longer).records
    assert percent / 100 - a_chunk < len(session.records) / len(full) < percent / 100 + 0.01
    assert session.records == full[: len(session.records)]
    assert session.damage is not None
    assert "cut off at byte" in session.damage
    assert session.end is None
    assert session.incomplete_from_us == session.records[-1].time_us


def test_cut_anywhere_gives_a_beginning_or_a_line(small: Path, tmp_path: Path) -> None:
    data, full = small.read_bytes(), read_session(small).records
    choose = random.Random(1)
    cuts = [choose.randrange(len(data)) for _ in range(60)] + list(range(40)) + [len(data) - n for n in range(1, 60)]
    for cut in cuts:
        session = reading(spoilt(tmp_path, data[:cut]))
        if session is not None:
            assert session.damage
            assert session.records == full[: len(session.records)]
            assert session.records


def test_a_flipped_bit_anywhere_is_seen(small: Path, tmp_path: Path) -> None:
    data, full = small.read_bytes(), read_session(small).records
    choose = random.Random(2)
    places = (
        [choose.randrange(len(data)) for _ in range(150)] + list(range(len(data) - 60, len(data))) + list(range(30))
    )
    for place in places:
        for bit in (0, choose.randrange(1, 8)):
            flipped = bytearray(data)
            flipped[place] ^= 1 << bit
            session = reading(spoilt(tmp_path, bytes(flipped)))
            if session is not None:
                assert session.damage, f"bit {bit} of byte {place}"
                assert session.records == full[: len(session.records)]


def test_every_bit_between_two_chunks_is_seen(small: Path, tmp_path: Path) -> None:
    """A chunk's head has no checksum of its own: a chunk that is passed over must be missed."""
    data, full = small.read_bytes(), read_session(small).records
    starts, at = [], len(MAGIC)
    while at < len(data) - 60:
        opcode, size = struct.unpack_from("<BQ", data, at)
        if opcode == 6:
            starts.append(at)
        at += 9 + size
    for start in (starts[2], starts[-1]):
        for place in range(start, start + 9 + 45, 1 if start == starts[2] else 5):
            for bit in range(8):
                flipped = bytearray(data)
                flipped[place] ^= 1 << bit
                session = reading(spoilt(tmp_path, bytes(flipped)))
                if session is not None:
                    assert session.damage, f"bit {bit} of byte {place - start} of a chunk"
                    assert session.records == full[: len(session.records)]


@pytest.mark.parametrize("from_percent", [0, 30, 60, 99])
def test_filled_with_zeros(from_percent: int, whole: Path, tmp_path: Path) -> None:
    data = whole.read_bytes()
    keep = len(data) * from_percent // 100
    session = reading(spoilt(tmp_path, data[:keep] + bytes(len(data) - keep)))
    if from_percent == 0:
        assert session is None
    else:
        assert session is not None
        assert session.damage
        assert session.records == read_session(whole).records[: len(session.records)]
        assert session.records


def test_a_hole_of_zeros_between_chunks(whole: Path, tmp_path: Path) -> None:
    data = bytearray(whole.read_bytes())
    data[len(data) // 2 : len(data) // 2 + 4096] = bytes(4096)
    session = read_session(spoilt(tmp_path, bytes(data)))
    assert "damaged at byte" in str(session.damage)
    assert 0 < len(session.records) < len(read_session(whole).records) // 2 + 1


def test_bytes_behind_the_end_are_seen(whole: Path, tmp_path: Path) -> None:
    session = read_session(spoilt(tmp_path, whole.read_bytes() + b"\0"))
    assert session.damage
    assert session.records == read_session(whole).records


def test_a_damage_line_tells_where(whole: Path, tmp_path: Path) -> None:
    data = whole.read_bytes()
    session = read_session(spoilt(tmp_path, data[: len(data) // 2]))
    found = re.fullmatch(r"cut off at byte (\d+), .*; read up to there, (\d\.\d+) s", str(session.damage))
    assert found
    assert int(found[1]) == len(data) // 2
    assert float(found[2]) == pytest.approx(1e-6 * (session.records[-1].time_us - session_files.STARTED_US), abs=1e-3)


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_no_change_of_any_kind_ends_in_a_traceback(whole: Path, tmp_path_factory: pytest.TempPathFactory, data) -> None:
    content = bytearray(whole.read_bytes())
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(content) - 1))
        match data.draw(st.sampled_from(["put", "cut", "insert"])):
            case "put":
                new = data.draw(st.binary(min_size=1, max_size=20))
                content[at : at + len(new)] = new
            case "cut":
                del content[at : at + data.draw(st.integers(1, 5000))]
            case "insert":
                content[at:at] = data.draw(st.binary(min_size=1, max_size=20))
        content = content or bytearray(b"x")
    session = reading(spoilt(tmp_path_factory.mktemp("fuzz"), bytes(content)))
    if session is not None and session.damage is None:
        assert bytes(content) == whole.read_bytes()
