"""A session as a tlog: the frames of both directions in the order of the loop, as ground stations read them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from bridge.codec import Decoder
from bridge.tlog import pack_record
from lav2_hil.session.metadata import SessionClock
from lav2_hil.session.reader import Session
from lav2_hil.session.records import Kind


def export_tlog(session: Session, path: Path) -> dict[str, Any]:
    """Write all whole frames of a session, each at its wall-clock time; what was no frame is left out.

    Returns:
        The file in figures.
    """
    clock = SessionClock.of_header(msgspec.json.encode(session.header))
    decoder = Decoder(datagrams=session.header.session.datagrams)
    from_px4 = to_px4 = 0
    with path.open("wb") as file:
        for kind, loop_us, data in session.records:
            time_us = clock.wall_ns(loop_us) // 1000
            if kind is Kind.SENT or kind is Kind.GROUND:
                file.write(pack_record(time_us, data))
                to_px4 += 1
            elif kind is Kind.RECEIVED:
                for message in decoder.feed(data):
                    file.write(pack_record(time_us, bytes(message.get_msgbuf())))
                    from_px4 += 1
            elif kind is Kind.LINK_DOWN:
                decoder.forget_sequences()  # the rest of a frame does not come any more
    return {"frames_from_px4": from_px4, "frames_to_px4": to_px4, "bad_frames": decoder.stats.bad_frames}
