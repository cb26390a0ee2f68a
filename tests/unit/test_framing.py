"""A stream cut into frames: the pieces are the frames, however it came, and nothing is lost."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st
from pymavlink.dialects.v20 import common

from bridge.framing import FrameCutter, frame_length


def frames() -> list[bytes]:
    mav = common.MAVLink(None, srcSystem=1, srcComponent=1)
    message = common.MAVLink_heartbeat_message(2, 12, 81, 0, 3, 3)
    v1 = message.pack(mav, force_mavlink1=True)
    v2 = message.pack(mav)
    mav.signing.secret_key, mav.signing.sign_outgoing, mav.signing.link_id = bytes(32), True, 1
    return [v2, v1, message.pack(mav), common.MAVLink_ping_message(1, 2, 3, 4).pack(mav), v2]


@given(cuts=st.lists(st.integers(0, 200), max_size=20))
def test_the_pieces_are_the_frames(cuts: list[int]) -> None:
    sent = frames()
    stream = b"".join(sent)
    cutter = FrameCutter()
    edges = sorted({0, len(stream), *(min(cut, len(stream)) for cut in cuts)})
    pieces = [piece for start, end in pairwise(edges) for piece in cutter.feed(stream[start:end])]
    assert pieces == sent
    assert [frame_length(frame) for frame in sent] == [len(frame) for frame in sent]


@given(data=st.binary(max_size=600), cuts=st.lists(st.integers(0, 600), max_size=5))
def test_nothing_is_lost_but_a_frame_that_does_not_end(data: bytes, cuts: list[int]) -> None:
    cutter = FrameCutter()
    edges = sorted({0, len(data), *(min(cut, len(data)) for cut in cuts)})
    passed = b"".join(p for start, end in pairwise(edges) for p in cutter.feed(data[start:end]))
    assert data.startswith(passed)
    rest = data[len(passed) :]
    assert not rest or rest[0] in (0xFD, 0xFE)
    assert len(rest) < 293


def test_bytes_between_frames_are_a_piece_of_their_own() -> None:
    frame = frames()[0]
    assert FrameCutter().feed(b"noise" + frame + b"more" + frame) == [b"noise", frame, b"more", frame]


def test_the_beginning_of_a_frame_can_be_forgotten() -> None:
    frame = frames()[0]
    cutter = FrameCutter()
    assert cutter.feed(frame[:5]) == []
    cutter.clear()
    assert cutter.feed(frame) == [frame]
