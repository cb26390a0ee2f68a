"""Bytes to messages and back: what PX4 really sends, damaged and cut in every way."""

from __future__ import annotations

import json
import random
import struct
from pathlib import Path
from typing import Any

import pytest
from captures import ALL, HERE
from hypothesis import given, settings
from hypothesis import strategies as st
from pymavlink.dialects.v20 import common
from pymavlink.generator.mavcrc import x25crc

from bridge.codec import Decoder, Encoder
from bridge.extra_messages import EXTRA_MESSAGES, ExtraMessage
from bridge.tlog import read_tlog

EXTRA_FRAMES: dict[str, list[dict[str, Any]]] = json.loads(
    (Path(__file__).parents[1] / "data" / "extra_frames.json").read_text()
)
UNKNOWN_ID = 65_000
SIZES = {"uint8_t": 1, "uint16_t": 2, "int16_t": 2, "uint32_t": 4, "int32_t": 4, "float": 4, "uint64_t": 8}


def heartbeat(number: int = 0, system: int = 1) -> bytes:
    encoder = Encoder(system, 1, number % 256)
    return encoder.encode(common.MAVLink_heartbeat_message(2, 12, 81, number, 3, 3))


# A float whose bytes hold both frame markers, so that a search for the next frame meets false ones.
MARKERS = struct.unpack("<f", bytes((0xFD, 0xFE, 0x09, 0x3F)))[0]


def controls(stamp: int, sequence: int = 0, value: float = MARKERS) -> bytes:
    return Encoder(1, 1, sequence % 256).encode(
        common.MAVLink_hil_actuator_controls_message(stamp, [value] * 16, 129, 1)
    )


def unknown(sequence: int, payload: bytes = b"\x01\x02\x03", system: int = 1) -> bytes:
    header = struct.pack("<BBBBBB", len(payload), 0, 0, sequence, system, 1) + UNKNOWN_ID.to_bytes(3, "little")
    return b"\xfd" + header + payload + b"\xaa\xbb"


def stream_of(count: int, value: float = MARKERS) -> list[bytes]:
    return [controls(1000 + n, n, value) if n % 3 else heartbeat(n) for n in range(count)]


def frames_in(decoder: Decoder, data: bytes) -> list[bytes]:
    return [bytes(message.get_msgbuf()) for message in decoder.feed(data)]


# Messages that pymavlink's dialect lacks


def crc_extra_of(row: ExtraMessage) -> int:
    """From the definition, as https://mavlink.io/en/guide/serialization.html#crc_extra says."""
    fields = [(kind.partition("[")[0], name, int(kind.partition("[")[2][:-1] or 0)) for kind, name in row.fields]
    fields.sort(key=lambda field: -SIZES[field[0]])
    crc = x25crc()
    crc.accumulate_str(f"{row.name} ")
    for kind, name, length in fields:
        crc.accumulate_str(f"{kind} ")
        crc.accumulate_str(f"{name} ")
        if length:
            crc.accumulate([length])
    return int((crc.crc & 0xFF) ^ (crc.crc >> 8))


@pytest.mark.parametrize("row", EXTRA_MESSAGES, ids=lambda row: row.name)
def test_an_extra_message_is_what_px4_sends(row: ExtraMessage) -> None:
    assert crc_extra_of(row) == row.crc_extra
    assert EXTRA_FRAMES[row.name], "a captured frame of each"
    for example in EXTRA_FRAMES[row.name]:
        frame = bytes.fromhex(example["frame"])
        decoder = Decoder()
        (message,) = decoder.feed(frame)
        assert (message.get_msgId(), message.get_type()) == (row.id, row.name)
        fields = message.to_dict()
        assert fields.pop("mavpackettype") == row.name
        assert fields == example["fields"]
        assert list(fields) == [name for _, name in row.fields]
        again = Encoder(message.get_srcSystem(), message.get_srcComponent(), message.get_seq())
        assert again.encode(message) == frame
        assert (decoder.stats.frames, decoder.stats.bad_frames) == (1, 0)


def test_extra_messages_come_at_the_right_bytes() -> None:
    """Two whose values are known from elsewhere: event ids of PX4, 2000 for a temperature that is not measured."""
    events = {example["fields"]["id"] for example in EXTRA_FRAMES["EVENT"]}
    assert {18691879, 27825120} <= events
    (info,) = EXTRA_FRAMES["ESC_INFO"]
    (message,) = Decoder().feed(bytes.fromhex(info["frame"]))
    assert (message.count, message.info, message.temperature) == (4, 15, [2000] * 4)


@pytest.mark.parametrize("folder", [HERE, ALL], ids=["a few", "all"])
def test_every_captured_frame_is_known_and_good(folder: Path) -> None:
    paths = sorted(folder.glob("*.tlog"))
    if not paths:
        pytest.skip("no captures: set LAV2_SHARED")
    for path in paths:
        decoder = Decoder()
        records = read_tlog(path)[:3000]
        for record in records:
            (message,) = decoder.feed(record.frame)
            assert message.get_msgId() >= 0, f"{path.name}: {message}"
            assert bytes(message.get_msgbuf()) == record.frame
        assert (decoder.stats.frames, decoder.stats.bad_frames) == (len(records), 0)


def test_unknown_ids_come_byte_for_byte() -> None:
    frame = unknown(7, bytes(range(200)))
    v1 = b"\xfe" + bytes((3, 9, 1, 1, 193)) + b"abc\xaa\xbb"  # 193 is in no version of common.xml
    decoder = Decoder()
    stream = heartbeat(6) + frame + heartbeat(8) + v1 + heartbeat(10)
    assert b"".join(frames_in(decoder, stream)) == stream
    assert (decoder.stats.frames, decoder.stats.bad_frames, decoder.stats.lost_frames) == (5, 0, 0)


def test_both_versions_come_in_and_version_2_goes_out() -> None:
    message = common.MAVLink_hil_actuator_controls_message(5000, [0.25] * 16, 129, 1)
    v1 = message.pack(common.MAVLink(None, srcSystem=7, srcComponent=1), force_mavlink1=True)
    v2 = Encoder(7, 1).encode(message)
    assert (v1[0], v2[0], len(v2)) == (0xFE, 0xFD, 93)
    for frame in (v1, v2):
        (decoded,) = Decoder().feed(frame)
        assert (decoded.time_usec, decoded.controls, decoded.mode, decoded.flags) == (5000, [0.25] * 16, 129, 1)
        assert decoded.get_srcSystem() == 7


def test_the_encoder_counts_and_wraps() -> None:
    encoder = Encoder(1, 200, 254)
    frames = [encoder.encode(common.MAVLink_heartbeat_message(0, 8, 0, 0, 4, 3)) for _ in range(4)]
    assert [frame[4] for frame in frames] == [254, 255, 0, 1]
    encoder.system = 9
    assert encoder.encode(common.MAVLink_heartbeat_message(0, 8, 0, 0, 4, 3))[5] == 9


# Sequence numbers


def lost(*sequences: int) -> int:
    decoder = Decoder()
    for sequence in sequences:
        decoder.feed(heartbeat(sequence))
    return decoder.stats.lost_frames


@pytest.mark.parametrize(
    ("sequences", "missing"),
    [
        ((3, 4, 5), 0),
        ((3, 5, 9), 4),
        ((254, 255, 0, 1), 0),
        ((254, 1), 2),
        ((0,), 0),
        ((5, 5, 6), 0),  # twice
        ((5, 7, 6, 8), 1),  # out of order: one gap, seen when it opens
        ((0, 127), 126),
        ((100, 0, 1, 2), 0),  # started again
    ],
)
def test_gaps_in_the_sequence_are_counted(sequences: tuple[int, ...], missing: int) -> None:
    assert lost(*sequences) == missing


def test_each_sender_has_its_own_sequence() -> None:
    decoder = Decoder()
    decoder.feed(heartbeat(10, system=1) + heartbeat(50, system=2) + heartbeat(11, system=1) + heartbeat(53, system=2))
    assert decoder.stats.lost_frames == 2


def test_a_new_peer_starts_its_own_sequence() -> None:
    decoder = Decoder()
    decoder.feed(heartbeat(208) + heartbeat(209)[:9])
    decoder.forget_sequences()
    assert len(decoder.feed(heartbeat(0))) == 1, "the frame that was cut off is forgotten"
    assert (decoder.stats.lost_frames, decoder.stats.bad_frames) == (0, 0)


# Damage


QUIET = bytes(300)
"""What a damaged length claims may have to be disproved by what comes later."""


@pytest.mark.parametrize("value", [0.5, MARKERS], ids=["plain", "with markers inside"])
@pytest.mark.parametrize("flip", [0x01, 0x10, 0x80, 0xFF])
def test_a_flipped_byte_costs_its_own_frame_only(flip: int, value: float) -> None:
    """Any byte of any frame, the length and the marker too: the frames behind it are all there."""
    frames = stream_of(9, value)
    for victim in (0, 1, 4):
        good = frames[:victim] + frames[victim + 1 :]
        for position in range(len(frames[victim])):
            damaged = bytearray(frames[victim])
            damaged[position] ^= flip
            decoder = Decoder()
            found = frames_in(decoder, b"".join((*frames[:victim], damaged, *frames[victim + 1 :])))
            bad = decoder.stats.bad_frames
            found += frames_in(decoder, QUIET)
            assert [frame for frame in found if frame in good] == good, f"byte {position} of frame {victim}"
            if len(found) > len(good):
                assert 7 <= position <= 9, "only a damaged id goes unnoticed: nobody knows its checksum"
            elif value != MARKERS:
                assert bad == 1


def test_a_damaged_frame_counts_once_whatever_the_pieces() -> None:
    damaged = bytearray(controls(1, value=0.5))
    damaged[20] ^= 0xFF
    stream = heartbeat(0) + damaged + heartbeat(1) + damaged + damaged + heartbeat(2)
    whole, bytewise = Decoder(), Decoder()
    assert len(whole.feed(stream)) == 3
    assert whole.stats.bad_frames == 3
    for value in stream:
        bytewise.feed(bytes((value,)))
    assert bytewise.stats == whole.stats


def test_garbage_between_frames_counts_once() -> None:
    decoder = Decoder()
    assert len(decoder.feed(b"garbage\x00\xff" + heartbeat(0) + b"#" * 500 + heartbeat(1))) == 2
    assert decoder.stats.bad_frames == 2


def test_a_cut_datagram_ends_with_its_datagram() -> None:
    decoder = Decoder(datagrams=True)
    assert decoder.feed(controls(1)[:40]) == []
    assert decoder.stats.bad_frames == 1
    assert len(decoder.feed(controls(2))) == 1
    assert decoder.feed(b"") == []
    assert decoder.feed(b"\xfd") == []
    assert len(decoder.feed(controls(3) + heartbeat(4))) == 2, "several frames in one datagram are several frames"
    assert decoder.stats.bad_frames == 2


def test_a_datagram_is_searched_behind_a_damaged_frame() -> None:
    damaged = bytearray(heartbeat(0))
    damaged[1] = 0xF0  # a length far beyond the datagram
    decoder = Decoder(datagrams=True)
    assert [message.time_usec for message in decoder.feed(bytes(damaged) + controls(9))] == [9]
    assert decoder.stats.bad_frames == 1


def test_memory_does_not_grow_while_frames_are_cut() -> None:
    """Reads that always end inside a frame never leave pymavlink's buffer empty."""
    decoder = Decoder()
    frame = controls(1)
    decoder.feed(frame[:50])
    for _ in range(1000):
        assert len(decoder.feed(frame[50:] + frame[:50])) == 1
    assert len(decoder._parser.buf) < 2 * len(frame)


def test_garbage_of_markers_takes_no_time() -> None:
    decoder = Decoder()
    decoder.feed(b"\xfd" * 60_000)
    assert len(decoder.feed(bytes(300) + heartbeat(0))) == 1
    assert decoder.stats.bad_frames < 1000


FRAMES = [*stream_of(12), unknown(12, b"\xfd\xfe" * 20), heartbeat(13)]


@settings(deadline=None, derandomize=True)
@given(st.lists(st.integers(1, 200), min_size=1))
def test_any_split_gives_the_same_messages(sizes: list[int]) -> None:
    stream = b"".join(FRAMES)
    decoder = Decoder()
    found: list[bytes] = []
    position = 0
    for size in sizes:
        found += frames_in(decoder, stream[position : position + size])
        position += size
    found += frames_in(decoder, stream[position:])
    assert found == FRAMES
    assert (decoder.stats.frames, decoder.stats.bad_frames, decoder.stats.lost_frames) == (14, 0, 0)


MARKED = st.lists(st.sampled_from([0xFD, 0xFE, 0x00, 0x01, 0x09, 0x5D, 0xFF]), max_size=400).map(bytes)


@settings(deadline=None, derandomize=True)
@given(st.lists(st.one_of(st.binary(max_size=300), MARKED, st.sampled_from(FRAMES)), max_size=12), st.booleans())
def test_garbage_never_raises_and_is_got_over(pieces: list[bytes], datagrams: bool) -> None:
    decoder = Decoder(datagrams=datagrams)
    for piece in pieces:
        for message in decoder.feed(piece):
            assert message.get_type() != "BAD_DATA"
    # The longest frame that a marker in the garbage can pretend, and then a good one.
    decoder.feed(bytes(300))
    assert [message.time_usec for message in decoder.feed(controls(77))] == [77]


@settings(deadline=None, derandomize=True, max_examples=40)
@given(st.integers(0, 2**32))
def test_damage_here_and_there(seed: int) -> None:
    """Of a stream with a bit flipped now and then all frames without a flip come out, in order."""
    rng = random.Random(seed)
    stream, good = bytearray(), []
    for number in range(60):
        frame = bytearray(controls(number, number))
        if rng.random() < 0.2:
            frame[rng.randrange(10, len(frame))] ^= 1 << rng.randrange(8)
        else:
            good.append(bytes(frame))
        stream += frame
    decoder = Decoder()
    assert frames_in(decoder, bytes(stream) + QUIET) == good
