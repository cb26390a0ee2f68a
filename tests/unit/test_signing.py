"""MAVLink signing: pymavlink is the other side; forged, replayed and unsigned frames; the key's file."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from link_recorder import Recorder
from pymavlink.dialects.v20 import common

from bridge.codec import Decoder, Encoder
from bridge.endpoint import Memory
from bridge.framing import frame_length
from bridge.signing import NEW_STREAM_LATE, LinkSigning, SigningKey, SigningStats, Verdict, read_key, wall_clock
from bridge.transport.memory import MemoryTransport
from bridge.transport.signed import SignedTransport
from firmware_profiles.errors import DataError, Lav2HilError, NoInputError, UsageError
from lav2_hil.commands.options import settings_of

KEY = SigningKey(bytes(range(32)))
NOW = 3_000_000_000_000


class Peer:
    """pymavlink with its own signing."""

    def __init__(self, key: SigningKey = KEY, system: int = 1) -> None:
        self.mav = common.MAVLink(None, srcSystem=system, srcComponent=1)
        self.mav.robust_parsing = True
        self.mav.signing.secret_key = key.value
        self.mav.signing.sign_outgoing = True
        self.mav.signing.timestamp = NOW

    def frame(self) -> bytes:
        self.mav.seq = (self.mav.seq + 1) % 256
        return bytes(common.MAVLink_heartbeat_message(2, 12, 81, 0, 3, 3).pack(self.mav))


@pytest.fixture
def signing() -> LinkSigning:
    return LinkSigning(KEY, clock=lambda: NOW)


def test_pymavlink_takes_what_we_sign(signing: LinkSigning) -> None:
    peer, encoder = Peer(), Encoder(1, 200)
    stamps = []
    for message in (
        common.MAVLink_heartbeat_message(0, 8, 0, 0, 0, 3),
        common.MAVLink_hil_sensor_message(1_000_000, *[0.5] * 13, 0x1FFF),
        common.MAVLink_hil_gps_message(1, 3, *[0] * 11),  # with trailing zeros
    ):
        plain = encoder.encode(message)
        frame = signing.sign(plain)
        assert len(frame) == len(plain) + 13 == frame_length(frame)
        heard = peer.mav.parse_char(frame)
        assert heard.get_type() == message.get_type()
        assert heard._signed
        stamps.append(int.from_bytes(frame[-12:-6], "little"))
    assert stamps == [NOW, NOW + 1, NOW + 2], "one more each, though the clock stands"


def test_stamps_follow_the_clock_and_the_other_side(signing: LinkSigning) -> None:
    signing._clock = lambda: NOW + 500
    plain = Encoder(1, 200).encode(common.MAVLink_heartbeat_message(0, 8, 0, 0, 0, 3))
    assert int.from_bytes(signing.sign(plain)[-12:-6], "little") == NOW + 500
    peer = Peer()
    peer.mav.signing.timestamp = NOW + 900
    assert signing.check(peer.frame()) is Verdict.GOOD
    assert int.from_bytes(signing.sign(plain)[-12:-6], "little") == NOW + 901
    signing._clock = lambda: NOW - 10_000  # somebody sets the clock back
    assert int.from_bytes(signing.sign(plain)[-12:-6], "little") == NOW + 902


def test_we_take_what_pymavlink_signs(signing: LinkSigning) -> None:
    peer = Peer()
    assert [signing.check(peer.frame()) for _ in range(3)] == [Verdict.GOOD] * 3
    assert signing.stats == SigningStats()


def test_what_is_not_good_is_counted_by_reason(signing: LinkSigning) -> None:
    peer, stranger = Peer(), Peer(SigningKey(bytes(32)))
    first, second = peer.frame(), peer.frame()
    unsigned = Encoder(1, 1).encode(common.MAVLink_heartbeat_message(2, 12, 81, 0, 3, 3))
    version_1 = common.MAVLink_heartbeat_message(2, 12, 81, 0, 3, 3).pack(common.MAVLink(None, 1, 1), True)
    changed = bytearray(peer.frame())
    changed[10] ^= 1
    old = Peer()
    old.mav.signing.timestamp = NOW - NEW_STREAM_LATE - 1
    old.mav.srcComponent = 9
    assert signing.check(second) is Verdict.GOOD
    assert signing.check(first) is Verdict.OLD
    assert signing.check(second) is Verdict.OLD
    assert signing.check(unsigned) is Verdict.UNSIGNED
    assert signing.check(bytes(version_1)) is Verdict.UNSIGNED
    assert signing.check(stranger.frame()) is Verdict.WRONG
    assert signing.check(bytes(changed)) is Verdict.WRONG
    assert signing.check(old.frame()) is Verdict.OLD
    assert signing.stats == SigningStats(unsigned=2, wrong=2, old=3)


def test_a_forged_frame_does_not_shut_the_true_sender_out(signing: LinkSigning) -> None:
    forger = Peer(SigningKey(bytes(32)))
    forger.mav.signing.timestamp = NOW + 10**9
    peer = Peer()
    assert signing.check(peer.frame()) is Verdict.GOOD
    assert signing.check(forger.frame()) is Verdict.WRONG
    assert signing.check(peer.frame()) is Verdict.GOOD


def test_unknown_messages_need_a_signature_too(signing: LinkSigning) -> None:
    body = bytes((0xFD, 2, 1, 0, 0, 1, 1, 0xFE, 0xFF, 0x01, 1, 1, 0, 0, 0)) + NOW.to_bytes(6, "little")
    assert signing.check(body + bytes(6)) is Verdict.WRONG
    assert signing.check(body + signing._signature(body)) is Verdict.GOOD


def test_the_wall_clock_counts_from_2015() -> None:
    years = wall_clock() * 10e-6 / (365.25 * 86400)
    assert 11 < years < 60


async def test_a_signed_link() -> None:
    """Out: signed. In: the good frames unchanged, in order, however the stream is cut; the rest is counted."""
    here, there = MemoryTransport("signed"), MemoryTransport("signed")
    link = SignedTransport(here, KEY)
    link.signing._clock = lambda: NOW
    session, board = Recorder(), Recorder()
    await link.open(session)
    await there.open(board)
    await asyncio.sleep(0)
    assert link.address == str(Memory("signed"))
    peer = Peer()
    good = [peer.frame() for _ in range(4)]
    plain = Encoder(1, 1).encode(common.MAVLink_heartbeat_message(2, 12, 81, 0, 3, 3))
    damaged = good[2][:-1] + bytes((good[2][-1] ^ 1,))
    stream = good[0] + plain + good[1] + damaged + good[3]
    for at in range(0, len(stream), 7):
        there.write(stream[at : at + 7])
    await asyncio.sleep(0.01)
    assert session.received == good[0] + good[1] + good[3]
    assert link.summary() == {"unsigned": 1, "wrong": 1, "old": 0, "bad": 0}
    assert link.write(plain)
    assert link.pass_on(good[0])
    await asyncio.sleep(0.01)
    sent = board.received
    assert sent == sent[: len(plain) + 13] + good[0], "a ground station's frame is not touched"
    assert LinkSigning(KEY, clock=lambda: NOW).check(sent[: len(plain) + 13]) is Verdict.GOOD
    assert [message.get_type() for message in Decoder().feed(sent)] == ["HEARTBEAT", "HEARTBEAT"]
    await link.close()
    await there.close()


# The key


@pytest.mark.parametrize("content", [KEY.value, KEY.value.hex().encode(), KEY.value.hex().upper().encode() + b"\n"])
def test_a_key_file(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "key"
    path.write_bytes(content)
    path.chmod(0o600)
    assert read_key(path) == KEY
    settings = settings_of(
        *("lav2", Memory("t")), instance=0, home=None, date=None, speed=1.0, seed=0, duration=None, reply_timeout=None,
        fault_options=(), name=None, session_file=None, no_session=True, mqtt=None, shadows=None,
        true_profile_name=None, command="run", signing_key=path,
    )  # fmt: skip
    assert settings.signing_key == KEY
    for text in (repr(settings), str(read_key(path))):
        assert KEY.value.hex() not in text
        assert repr(KEY.value) not in text


@pytest.mark.parametrize(
    ("content", "mode", "error", "says"),
    [
        (b"abc", 0o600, DataError, "expected 32 bytes or 64 hexadecimal digits"),
        (KEY.value + b"\n", 0o600, DataError, "expected 32 bytes"),
        (b"zz" * 32, 0o600, DataError, "expected 32 bytes"),
        (KEY.value, 0o640, UsageError, "chmod 600"),
        (KEY.value, 0o604, UsageError, "chmod 600"),
        (None, 0o600, NoInputError, "No such file"),
    ],
)
def test_a_key_file_that_will_not_do(
    tmp_path: Path, content: bytes | None, mode: int, error: type[Lav2HilError], says: str
) -> None:
    path = tmp_path / "key"
    if content is not None:
        path.write_bytes(content)
        path.chmod(mode)
    with pytest.raises(error, match=says) as caught:
        read_key(path)
    assert "--signing-key" in str(caught.value)
    assert "\n" not in str(caught.value)
    if content is not None:
        assert content.decode("latin-1") not in str(caught.value)
