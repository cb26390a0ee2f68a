"""What a session file begins with, and how its times are told: shared by writer and reader, without the heavy imports
of `lav2_hil.session.header`.
"""

from __future__ import annotations

import zlib
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

import msgspec

METADATA = "lav2_hil.session"
"""Name of the metadata record that holds the header."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


class _Start(msgspec.Struct):
    started_utc: datetime
    started_us: int


class SessionClock(NamedTuple):
    """The loop's monotonic clock [us] as wall-clock time since 1970 [ns], by a moment for which both are known.

    The wall clock is looked at once: that it is set during the run moves nothing.
    """

    started_ns: int
    started_us: int

    @classmethod
    def of_header(cls, header: bytes) -> SessionClock:
        """The clock of a session, of its header as JSON.

        Raises:
            msgspec.MsgspecError: it is none.
        """
        start = msgspec.json.decode(header, type=_Start)
        return cls((start.started_utc - _EPOCH) // _MICROSECOND * 1000, start.started_us)

    def wall_ns(self, time_us: int) -> int:
        """Wall-clock time."""
        return self.started_ns + 1000 * (time_us - self.started_us)

    def time_us(self, wall_ns: int) -> int:
        """The inverse of `wall_ns`."""
        return self.started_us + (wall_ns - self.started_ns) // 1000


def header_metadata(header: bytes, truth_every: int) -> dict[str, str]:
    """The metadata record's values. Only chunks have a checksum of their own in MCAP, so the header brings one."""
    return {"header": header.decode(), "crc32": f"{zlib.crc32(header):08x}", "truth_every": str(truth_every)}
