"""A session file written at once: the same inputs with today's outcome."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable
from pathlib import Path

import msgspec

from firmware_profiles.errors import OutputError
from lav2_hil.session.header import Header
from lav2_hil.session.mcap_file import McapFile
from lav2_hil.session.messages import CHANNELS, message_of
from lav2_hil.session.metadata import METADATA, SessionClock, header_metadata
from lav2_hil.session.records import Record


def write_session(path: Path, header: Header, truth_every: int, records: Iterable[Record]) -> None:
    """Put a whole session in the place of a file, or leave the file as it is.

    Args:
        path: of the file.
        header: of the session.
        truth_every: ticks for one TRUTH record.
        records: all of it, the last words too; the data of TRUTH are samples.

    Raises:
        OutputError: it cannot be written.
    """
    path = path.resolve()  # of a link, the file that it names
    text = msgspec.json.encode(header)
    clock = SessionClock.of_header(text)
    try:
        with tempfile.NamedTemporaryFile(dir=path.parent, prefix=f".{path.name}.", delete=False) as file:
            new = Path(file.name)
            try:
                new.chmod(path.stat().st_mode & 0o777)
                mcap = McapFile(file.fileno(), CHANNELS)
                mcap.start("lav2-hil", {METADATA: header_metadata(text, truth_every)})
                for record in records:
                    time_ns = clock.wall_ns(record.time_us)
                    channel, data = message_of(record, time_ns)
                    mcap.add(channel, time_ns, data)
                mcap.finish()
                new.replace(path)
            except BaseException:
                new.unlink(missing_ok=True)
                raise
    except OSError as error:
        raise OutputError(f"{path}: {error.strerror or error}") from None
