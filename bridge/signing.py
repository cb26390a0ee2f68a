"""MAVLink 2 signing (https://mavlink.io/en/guide/message_signing.html): a key that both ends of a link know.

Frames are signed and checked by their bytes, beside the codec. pymavlink's own check is not used: it lets unknown
messages through unchecked, and it remembers the time of a forged frame, which then shuts the true sender out.
"""

from __future__ import annotations

import hashlib
import hmac
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path

from pymavlink.dialects.v20 import common

from firmware_profiles.errors import DataError, NoInputError, UsageError

KEY_BYTES = 32
EPOCH_S = 1_420_070_400
"""Timestamps count from 1 January 2015, UTC, in units of 10 us."""
UNIT_US = 10
NEW_STREAM_LATE = 60_000_000 // UNIT_US
"""The first frame of a sender may be so much older than the newest that is known: a minute."""
SIGNATURE_BYTES = 13
_LAST = (1 << 48) - 1


@dataclass(frozen=True, slots=True)
class SigningKey:
    """A secret key, which is shown nowhere."""

    value: bytes = field(repr=False)


def read_key(path: Path) -> SigningKey:
    """The key in a file: 32 bytes, or 64 hexadecimal digits.

    Raises:
        NoInputError: the file cannot be read.
        UsageError: others than its owner may read it.
        DataError: it holds something else.
    """
    try:
        with path.open("rb") as file:
            mode = path.stat().st_mode
            data = file.read(4 * KEY_BYTES)
    except (OSError, ValueError) as error:
        raise NoInputError(f"--signing-key {path}: {getattr(error, 'strerror', None) or error}") from None
    if mode & 0o077:
        raise UsageError(f"--signing-key {path}: others than its owner may use it; chmod 600 it")
    if len(data) != KEY_BYTES:
        try:
            data = bytes.fromhex(data.decode("ascii").strip())
        except ValueError:
            data = b""
    if len(data) != KEY_BYTES:
        raise DataError(f"--signing-key {path}: expected {KEY_BYTES} bytes or {2 * KEY_BYTES} hexadecimal digits")
    return SigningKey(data)


class Verdict(Enum):
    """What a signature is worth."""

    GOOD = "good"
    UNSIGNED = "unsigned"
    WRONG = "wrong"
    OLD = "old"


@dataclass(slots=True)
class SigningStats:
    """Frames that were dropped: without a signature, with a wrong one, with one that was used before."""

    unsigned: int = 0
    wrong: int = 0
    old: int = 0


def wall_clock() -> int:
    """UTC as a timestamp."""
    return int((time.time() - EPOCH_S) * 1e6) // UNIT_US


class LinkSigning:
    """Signs what leaves by one link, and checks what comes by it.

    Timestamps grow with each frame and never run behind the wall clock or what a good frame of the other side has
    shown. None is stored: a computer whose clock was set back since the last run is brought forward by the first good
    frame that it hears.

    Args:
        key: the secret.
        link: number of the link, which tells frames of one sender by several links apart.
        clock: the time as a timestamp.
    """

    def __init__(self, key: SigningKey, link: int = 0, clock: Callable[[], int] = wall_clock) -> None:
        self.stats = SigningStats()
        self._key = key.value
        self._link = link
        self._clock = clock
        self._newest = 0
        self._streams: dict[tuple[int, int, int], int] = {}

    def sign(self, frame: bytes) -> bytes:
        """A MAVLink 2 frame of the dialect, signed anew; 13 bytes longer than it is without."""
        end = 10 + frame[1]
        body = bytearray(frame[:end])
        body[2] |= common.MAVLINK_IFLAG_SIGNED
        crc = common.x25crc(body[1:])
        crc.accumulate(bytes((common.mavlink_map[int.from_bytes(body[7:10], "little")].crc_extra,)))
        self._newest = min(max(self._newest + 1, self._clock()), _LAST)
        body += crc.crc.to_bytes(2, "little") + bytes((self._link,)) + self._newest.to_bytes(6, "little")
        return bytes(body + self._signature(body))

    def check(self, frame: bytes) -> Verdict:
        """What the signature of a frame is worth; whatever is not `GOOD` is counted, and is to be dropped."""
        verdict = self._check(frame)
        if verdict is Verdict.UNSIGNED:
            self.stats.unsigned += 1
        elif verdict is Verdict.WRONG:
            self.stats.wrong += 1
        elif verdict is Verdict.OLD:
            self.stats.old += 1
        return verdict

    def _check(self, frame: bytes) -> Verdict:
        if frame[0] != common.PROTOCOL_MARKER_V2 or not frame[2] & common.MAVLINK_IFLAG_SIGNED:
            return Verdict.UNSIGNED
        if not hmac.compare_digest(self._signature(frame[:-6]), bytes(frame[-6:])):
            return Verdict.WRONG
        stamp = int.from_bytes(frame[-12:-6], "little")
        stream = (frame[-13], frame[5], frame[6])
        last = self._streams.get(stream)
        if stamp <= last if last is not None else stamp + NEW_STREAM_LATE < max(self._newest, self._clock()):
            return Verdict.OLD
        self._streams[stream] = stamp
        self._newest = max(self._newest, stamp)
        return Verdict.GOOD

    def _signature(self, signed: bytes | bytearray) -> bytes:
        return hashlib.sha256(self._key + signed).digest()[:6]
