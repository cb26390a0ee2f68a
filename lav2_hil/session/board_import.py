"""A recorded board, played: its time is the wall clock's, so each frame arrives when it arrived."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from bridge.controls_tracker import LOCKSTEP
from bridge.recorded_link import CONTROLS, decoded
from bridge.session_io import LinkUp
from bridge.tlog import TlogRecord
from firmware_profiles.errors import DataError
from lav2_hil.session.header import Header
from lav2_hil.session.virtual_loop import RecordedPeer, VirtualLoop

LONGEST_GAP_US = 600_000_000
"""Nobody records a board that says nothing for so long: its recorder's clock was set."""


def is_board(records: Sequence[TlogRecord]) -> bool:
    """Whether it was a flight controller with a clock of its own: it sends controls, and never in lockstep."""
    flags = [message.flags for record, message in decoded(records) if message.get_type() == CONTROLS]
    return bool(flags) and not any(flag & LOCKSTEP for flag in flags)


class BoardImportLoop(VirtualLoop):
    """The loop in virtual time, against a recorded board on a line that is there all the time.

    What the simulator sent meanwhile tells only how long the recording is.

    Args:
        header: of the session.
        records: in the order of their times.
        source: what the recording is called.

    Raises:
        DataError: its times have a gap.
    """

    def __init__(self, header: Header, records: Sequence[TlogRecord], source: str) -> None:
        peer = RecordedPeer()
        super().__init__(header, peer)
        for before, after in pairwise(record.time_us for record in records):
            if after - before > LONGEST_GAP_US:
                raise DataError(f"{source}: a gap of {1e-6 * (after - before):.0f} s in its times")
        begin_us = records[0].time_us
        at = [(self.clock_us + record.time_us - begin_us, record) for record in records]
        peer.said.extend((time_us, record.frame) for time_us, record in at if not record.to_px4)
        self._end_us = max(time_us for time_us, _ in at)

    def play(self) -> None:
        """Play it to its end."""
        self.feed(LinkUp("the recorded board"))
        while self._peer.said or self.clock_us < self._end_us:
            self.advance()
