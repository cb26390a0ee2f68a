"""What the loop's process and the publishing process say to each other: whole messages over a socket pair."""

from __future__ import annotations

import contextlib
import socket

import msgspec


class Status(msgspec.Struct, frozen=True):
    """What the publishing process reports: its counters, and a line to log if there is one.

    Attributes:
        refused: another writer lives under this name, as `text` says.
        level: of `text`, as in `logging`.
    """

    published: int = 0
    dropped: int = 0
    connects: int = 0
    connected: bool = False
    refused: bool = False
    level: int = 0
    text: str = ""


END_OF_RUN = b""
"""As a message's payload: the run ends in order. Without it, it was killed."""

encode = msgspec.msgpack.encode
decode_message = msgspec.msgpack.Decoder(tuple[str, int, bytes]).decode
"""Topic, simulated time [us], payload."""
decode_status = msgspec.msgpack.Decoder(Status).decode


def socket_pair() -> tuple[socket.socket, socket.socket]:
    """Two ends that never wait, keep messages whole, and notice when the other is gone."""
    pair = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    for end in pair:
        end.setblocking(False)
    return pair


def waiting_in(end: socket.socket) -> list[bytes]:
    """What has arrived; the last is empty if the other side is gone."""
    messages: list[bytes] = []
    with contextlib.suppress(BlockingIOError):
        while not messages or messages[-1]:
            try:
                messages.append(end.recv(1 << 16))
            except ConnectionError:
                messages.append(b"")
    return messages
