"""MAVLink as bytes in, messages out, and back; no input or output of its own.

pymavlink's generated dialect does the framing, the checksums and the fields; this adds what a link needs to know
about itself: sequence gaps, bad frames, and picking up again inside a damaged frame.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pymavlink.dialects.v20 import common

from bridge import extra_messages

extra_messages.register()

Message = Any
"""A pymavlink message: `get_type()`, `get_srcSystem()`, `get_msgbuf()` and its fields as attributes."""


@dataclass(slots=True)
class DecodeStats:
    """What the decoder has seen.

    Attributes:
        frames: whole frames with a good checksum, and frames of unknown messages (whose checksum cannot be told).
        bad_frames: frames with a bad checksum or length, and runs of bytes that are no frame.
        lost_frames: frames missing by their sequence numbers, over all senders.
    """

    frames: int = 0
    bad_frames: int = 0
    lost_frames: int = 0


class Decoder:
    """Bytes to messages, MAVLink 1 and 2.

    Args:
        datagrams: each `feed` is one datagram, so that no frame goes on in the next.
    """

    def __init__(self, *, datagrams: bool = False) -> None:
        self.stats = DecodeStats()
        self.listeners: list[Callable[[list[Message]], None]] = []
        """Told all good messages too, before whoever feeds handles them."""
        self._datagrams = datagrams
        self._sequences: dict[tuple[int, int], int] = {}
        # No good frame since a damaged one; until then a frame whose checksum cannot be told is not believed.
        self._searching = False
        self._damaged = 0  # bytes still to come of that damaged frame
        self._new_parser()

    def _new_parser(self) -> None:
        self._parser = common.MAVLink(None)
        self._parser.robust_parsing = True

    def feed(self, data: bytes) -> list[Message]:
        """All messages that are complete with these bytes, in order.

        A message of unknown id comes as pymavlink's `MAVLink_unknown` (but not right behind a damaged frame);
        `get_msgbuf()` of any message gives the frame as it came.
        """
        parser = self._parser
        messages = []
        message = parser.parse_char(data)
        while True:
            if message is None:
                if not self._datagrams or not parser.buf_len():
                    break
                rest = bytes(parser.buf[parser.buf_index :])  # a frame that ends with its datagram, not where it says
                parser.buf_index = len(parser.buf)
                self._bad_data(rest)
            elif message.get_type() == "BAD_DATA" or (self._searching and message.get_msgId() < 0):
                self._bad_data(bytes(message.data))
            else:
                self._searching = False
                self._damaged = 0
                self._count(message)
                messages.append(message)
            message = parser.parse_char(b"")
        if self._datagrams:
            self._searching = False
            self._damaged = 0
        # pymavlink keeps what it has parsed for as long as part of a frame is waiting.
        del parser.buf[: parser.buf_index]
        parser.buf_index = 0
        for hear in self.listeners:
            hear(messages)
        return messages

    def _bad_data(self, data: bytes) -> None:
        marked = data[0] in (common.PROTOCOL_MARKER_V1, common.PROTOCOL_MARKER_V2)
        if self._damaged <= 0:
            self.stats.bad_frames += marked or not self._searching
            self._damaged = len(data)
        self._searching = True
        if marked and len(data) > 1:
            # The marker or the length may be what is damaged: look for a frame right behind the marker.
            parser = self._parser
            if parser.buf_index:
                parser.buf_index -= len(data) - 1
            else:  # it was the last of the buffer, which pymavlink then throws away
                parser.buf = bytearray(data[1:])
            self._damaged -= 1
        else:
            self._damaged -= len(data)

    def _count(self, message: Message) -> None:
        self.stats.frames += 1
        if message.get_msgId() < 0:  # unknown: pymavlink keeps no header
            header = message.get_msgbuf()
            offset = 4 if header[0] == common.PROTOCOL_MARKER_V2 else 2
            sequence, sender = header[offset], (header[offset + 1], header[offset + 2])
        else:
            sequence, sender = message.get_seq(), (message.get_srcSystem(), message.get_srcComponent())
        last = self._sequences.get(sender)
        gap = 0 if last is None else (sequence - last - 1) & 0xFF
        # Half the circle or more is a frame that came late or twice, or a sender that started again.
        if gap < 128:
            self.stats.lost_frames += gap
            self._sequences[sender] = sequence

    def forget_sequences(self) -> None:
        """The peer starts anew: its next sequence numbers are no gap, and a frame cut by the loss is gone."""
        self._sequences.clear()
        self._searching = False
        self._damaged = 0
        self._new_parser()


class Encoder:
    """Messages to MAVLink 2 frames of one sender; counts the sequence.

    Args:
        system: system id.
        component: component id.
        sequence: number of the first frame.
    """

    def __init__(self, system: int, component: int, sequence: int = 0) -> None:
        self._mav = common.MAVLink(None, srcSystem=system, srcComponent=component)
        self._mav.seq = sequence

    @property
    def system(self) -> int:
        """The system id that frames are sent with."""
        return int(self._mav.srcSystem)

    @system.setter
    def system(self, value: int) -> None:
        self._mav.srcSystem = value

    def encode(self, message: Message) -> bytes:
        """One frame, ready to send."""
        mav = self._mav
        frame: bytes = message.pack(mav)
        mav.seq = (mav.seq + 1) & 0xFF
        return frame
