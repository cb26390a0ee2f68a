"""Truth as a session holds it: every few ticks a sample, with a digest of all ticks up to it.

The twin's state is compared at every tick without being written at every tick: a sample carries its own state in full
and a digest over the states of all ticks since the sample before. Recorder and replay both thin with `TruthThinner`,
so equal samples mean that every tick between them was equal, bit for bit.
"""

from __future__ import annotations

import hashlib
import math
from typing import NamedTuple

import msgspec

from lav2_hil.session.records import Truth, unpack_truth

TRUTH_EVERY = 5
"""Ticks for one sample: 50 Hz at 250 ticks a second."""


class TruthSample(NamedTuple):
    """A state, and a digest of all states since the sample before.

    Attributes:
        time_us: simulated time.
        state: as `Truth.state`: ENU and FLU, exactly as the twin had it.
        ticks: how many ticks the digest covers, this one included.
        digest: BLAKE2b of 8 bytes over times and states of those ticks, as hexadecimal digits.
    """

    time_us: int
    state: tuple[float, ...]
    ticks: int
    digest: str


class TruthThinner:
    """Makes samples of the truth of every tick.

    Args:
        every: ticks for one sample.
    """

    def __init__(self, every: int = TRUTH_EVERY) -> None:
        self._every = every
        self._pending: list[bytes] = []

    def add(self, packed: bytes) -> TruthSample | None:
        """Take the truth of the next tick, as `pack_truth` gives it; gives a sample when one is due."""
        self._pending.append(packed)
        return self.finish() if len(self._pending) == self._every else None

    def finish(self) -> TruthSample | None:
        """A sample of the ticks that have had none yet: the session's last, if there are any."""
        if not self._pending:
            return None
        ticks, digest = len(self._pending), hashlib.blake2b(b"".join(self._pending), digest_size=8).hexdigest()
        last: Truth = unpack_truth(self._pending[-1])
        self._pending.clear()
        return TruthSample(last.time_us, last.state, ticks, digest)


def encode_truth(sample: TruthSample) -> bytes:
    """A sample as JSON in PX4's frames, from which `decode_truth` gets every bit back.

    Position, velocity and rates only change places and signs on the way, which is exact. The attitude would not be:
    it is kept as it is, and roll, pitch and heading stand beside it for people.
    """
    east, north, up, w, x, y, z, v_east, v_north, v_up, forward, left, above = sample.state
    roll, pitch, yaw = _euler_flu_enu(w, x, y, z)
    return msgspec.json.encode(
        {
            "time_us": sample.time_us,
            "position_ned_m": (north, east, -up),
            "velocity_ned_m_s": (v_north, v_east, -v_up),
            "rates_frd_rad_s": (forward, -left, -above),
            "q_enu_flu": (w, x, y, z),
            "roll_deg": round(roll, 2),
            "pitch_deg": round(-pitch, 2),
            "heading_deg": round((90.0 - yaw) % 360.0, 2),
            "ticks": sample.ticks,
            "digest": sample.digest,
        }
    )


class _TruthMessage(msgspec.Struct):
    time_us: int
    position_ned_m: tuple[float, float, float]
    velocity_ned_m_s: tuple[float, float, float]
    rates_frd_rad_s: tuple[float, float, float]
    q_enu_flu: tuple[float, float, float, float]
    ticks: int
    digest: str


_DECODER = msgspec.json.Decoder(_TruthMessage)


def decode_truth(data: bytes) -> TruthSample:
    """The inverse of `encode_truth`.

    Raises:
        msgspec.DecodeError: something else.
    """
    message = _DECODER.decode(data)
    north, east, down = message.position_ned_m
    v_north, v_east, v_down = message.velocity_ned_m_s
    forward, right, below = message.rates_frd_rad_s
    state = (east, north, -down, *message.q_enu_flu, v_east, v_north, -v_down, forward, -right, -below)
    return TruthSample(message.time_us, state, message.ticks, message.digest)


def _euler_flu_enu(w: float, x: float, y: float, z: float) -> tuple[float, float, float]:
    """Roll, pitch, yaw (ZYX) in degrees; without NumPy, which the recorder's process has no other use for."""
    roll = math.atan2(2 * (w * x + y * z), 1 - 2 * (x * x + y * y))
    pitch = math.asin(max(-1.0, min(1.0, 2 * (w * y - z * x))))
    yaw = math.atan2(2 * (w * z + x * y), 1 - 2 * (y * y + z * z))
    return math.degrees(roll), math.degrees(pitch), math.degrees(yaw)
