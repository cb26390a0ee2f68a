"""An MCAP file as a session is written: chunk after chunk, whole at every moment up to its last chunk.

The library's records are put together here rather than by its `Writer`: that one takes three times as long for a
message, on a processor that the loop wants, and cannot go back to its last whole chunk when the disk is full.

There is no index, and that is on purpose. An index of messages costs 16 bytes for each, half as much again as the
compressed session; and Foxglove refuses chunks that are indexed while their messages are not ("Chunks without message
indexes are not currently supported", in @mcap/core). A file without any index it reads from beginning to end (up to
1 GiB), as the library does.
"""

from __future__ import annotations

import contextlib
import os
import struct
import zlib
from collections import deque
from collections.abc import Sequence
from typing import NamedTuple

import zstandard
from mcap.data_stream import RecordBuilder
from mcap.opcode import Opcode
from mcap.records import Channel as ChannelRecord
from mcap.records import Chunk, DataEnd, Footer, Header, McapRecord, Metadata, Schema

from lav2_hil.session.messages import Channel

MAGIC = b"\x89MCAP0\r\n"
CHUNK_SIZE = 64 * 1024
"""Bytes in a chunk, before compression; a single larger message has a chunk of its own."""
MESSAGE = struct.Struct("<BQHIQQ")
"""Opcode, length, channel, sequence, log time, publish time [ns]; the data follow."""
MESSAGE_HEAD = MESSAGE.size - 9
"""Bytes of it that its length counts."""


class _Whole(NamedTuple):
    """The file up to the end of a chunk: its size, its checksum, and the wall-clock time of its last message."""

    size: int
    crc: int
    time_ns: int | None
    messages: int


class McapFile:
    """Writes an MCAP file, one message after the other.

    Each message carries its number in the file as its sequence, so that a reader sees that one is missing.

    Args:
        fd: of an empty file.
        channels: what messages can be of.
    """

    def __init__(self, fd: int, channels: Sequence[Channel]) -> None:
        self._fd = fd
        self._ids = {channel.topic: number for number, channel in enumerate(channels, 1)}
        self._compressor = zstandard.ZstdCompressor(level=1)  # as small as with any level below 15, and the fastest
        self._preamble = b"".join(_channel_records(number, channel) for number, channel in enumerate(channels, 1))
        self._chunk = bytearray()
        self._first_ns = self._last_ns = 0
        self._sequence = 0
        self._whole: deque[_Whole] = deque([_Whole(0, 0, None, 0)], maxlen=2)

    @property
    def time_ns(self) -> int | None:
        """Wall-clock time of the last message on the file; None if there is none."""
        return self._whole[-1].time_ns

    @property
    def pending(self) -> int:
        """Bytes of messages that are not on the file yet."""
        return len(self._chunk)

    def start(self, library: str, metadata: dict[str, dict[str, str]]) -> None:
        """Write the beginning: who wrote it, and metadata by name.

        Raises:
            OSError: the file takes no more.
        """
        records: list[McapRecord] = [Header(profile="", library=library)]
        records += [Metadata(name, values) for name, values in metadata.items()]
        self._write(MAGIC + _bytes_of(*records), None, 0)

    def add(self, channel: Channel, time_ns: int, data: bytes) -> None:
        """Add a message.

        Raises:
            OSError: the file takes no more.
        """
        if self._chunk and len(self._chunk) + MESSAGE.size + len(data) > CHUNK_SIZE - len(self._preamble):
            self.end_chunk()
        if not self._chunk:
            self._first_ns = self._last_ns = time_ns
        self._first_ns, self._last_ns = min(self._first_ns, time_ns), max(self._last_ns, time_ns)
        length = MESSAGE_HEAD + len(data)
        self._chunk += MESSAGE.pack(Opcode.MESSAGE, length, self._ids[channel.topic], self._sequence, time_ns, time_ns)
        self._chunk += data
        self._sequence = (self._sequence + 1) & 0xFFFFFFFF

    def end_chunk(self) -> None:
        """Put the messages since the last chunk on the file.

        Raises:
            OSError: the file takes no more.
        """
        if not self._chunk:
            return
        # The channels go into the first chunk: a reader must know them before the messages, and a chunk has a checksum.
        content = bytes(self._chunk) if self._whole[-1].messages else self._preamble + self._chunk
        self._chunk.clear()
        chunk = Chunk(
            compression="zstd",
            data=self._compressor.compress(content),
            message_start_time=self._first_ns,
            message_end_time=self._last_ns,
            uncompressed_crc=zlib.crc32(content),
            uncompressed_size=len(content),
        )
        self._write(_bytes_of(chunk), self._last_ns, self._sequence)

    def finish(self) -> None:
        """Write what is left, and the end.

        Raises:
            OSError: the file takes no more.
        """
        self.end_chunk()
        self._write(end_of_file(self._whole[-1].crc), self.time_ns, self._sequence)

    def rescue(self, channel: Channel, time_ns: int, data: bytes) -> bool:
        """After an `OSError`: go back to the last whole chunk, and end the file there with one more message.

        If there is no room even for that, the last chunk makes room.

        Args:
            channel: of that message.
            time_ns: its wall-clock time if the file holds no message before it.
            data: of that message.

        Returns:
            Whether the file has its end; else it is like one that was cut.
        """
        choices = [whole for whole in reversed(self._whole) if whole.size]
        for whole in choices:
            self._go_back(whole)
            try:
                self.add(channel, time_ns if whole.time_ns is None else whole.time_ns, data)
                self.finish()
            except OSError:
                continue
            return True
        self._go_back(self._whole[0] if not choices else choices[0])
        return False

    def _go_back(self, whole: _Whole) -> None:
        with contextlib.suppress(OSError):  # what is left behind it is damage, which a reader sees
            os.ftruncate(self._fd, whole.size)
            os.lseek(self._fd, whole.size, os.SEEK_SET)
        self._whole.append(whole)
        self._chunk.clear()
        self._sequence = whole.messages

    def _write(self, data: bytes, time_ns: int | None, messages: int) -> None:
        view = memoryview(data)
        while view:
            view = view[os.write(self._fd, view) :]
        whole = self._whole[-1]
        self._whole.append(_Whole(whole.size + len(data), zlib.crc32(data, whole.crc), time_ns, messages))


def end_of_file(crc: int) -> bytes:
    """How a whole file ends.

    Args:
        crc: CRC-32 of everything before it.
    """
    # The footer's own checksum covers it up to there (MCAP specification, Footer).
    covered = _bytes_of(Footer(summary_start=0, summary_offset_start=0, summary_crc=0))[:-4]
    footer = Footer(summary_start=0, summary_offset_start=0, summary_crc=zlib.crc32(covered))
    return _bytes_of(DataEnd(crc), footer) + MAGIC


def _channel_records(number: int, channel: Channel) -> bytes:
    schema = Schema(id=number, name=channel.schema_name, encoding=channel.schema_encoding, data=channel.schema)
    record = ChannelRecord(
        id=number, topic=channel.topic, message_encoding=channel.encoding, metadata={}, schema_id=number
    )
    return _bytes_of(schema, record)


def _bytes_of(*records: McapRecord) -> bytes:
    builder = RecordBuilder()
    for record in records:
        record.write(builder)
    data: bytes = builder.end()  # type: ignore[no-untyped-call]
    return data
