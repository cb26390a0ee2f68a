"""What the loop's process and the forwarding process say to each other, over a pair of sockets as in `mqtt.pipe`.

To the forwarder: one `Task`, then frames of the flight controller, some in each message; the end of the run is the end
of the stream. Back: frames for the flight controller, one in each message, and now and then a `Report`.
"""

from __future__ import annotations

import msgspec

FRAME, REPORT = b"F", b"R"
"""What a message from the forwarder begins with."""


class Target(msgspec.Struct, frozen=True):
    """Where a ground station is expected.

    Attributes:
        host, port: numeric address that is spoken to from the start.
        own_port: to speak from; 0 for a spare one.
    """

    host: str
    port: int
    own_port: int = 0


class Task(msgspec.Struct, frozen=True):
    """What the forwarding process is to do; `key` is that of MAVLink signing, or empty."""

    targets: tuple[Target, ...]
    key: bytes


class Report(msgspec.Struct, frozen=True):
    """Counters of the forwarding process, and a line to log if there is one.

    Attributes:
        to_ground: datagrams that were sent, over all ground stations.
        to_board: frames that were handed to the loop.
        not_sent: datagrams that the system did not take, or that nobody listens for.
        dropped: frames from the ground that found no room.
        superseded: frames from the ground whose place a newer one took.
        bad: datagrams or frames from the ground that were damaged or no MAVLink.
        strangers: datagrams from another host than the ground station's.
        repeated, echoed, hil, nowhere: see `bridge.router.RouterStats`.
        unsigned, wrong, old: see `bridge.signing.SigningStats`.
    """

    to_ground: int = 0
    to_board: int = 0
    not_sent: int = 0
    dropped: int = 0
    superseded: int = 0
    bad: int = 0
    strangers: int = 0
    repeated: int = 0
    echoed: int = 0
    hil: int = 0
    nowhere: int = 0
    unsigned: int = 0
    wrong: int = 0
    old: int = 0
    text: str = ""


encode_task, decode_task = msgspec.msgpack.encode, msgspec.msgpack.Decoder(Task).decode
encode_report, decode_report = msgspec.msgpack.encode, msgspec.msgpack.Decoder(Report).decode
