"""`python -m lav2_hil.forwarder_process FD`: the ground stations' side, in a process of its own.

Whatever ground stations send, this process reads, checks and sorts it; the loop gets a few frames at a time, when it
wants them. The process ends when the loop's end of the pipe does.
"""

from __future__ import annotations

import contextlib
import dataclasses
import ipaddress
import os
import selectors
import socket
import sys
import time
from dataclasses import dataclass
from typing import Any

from bridge.codec import Decoder
from bridge.framing import FrameCutter
from bridge.ground_queue import GroundQueue
from bridge.router import BOARD, Router
from bridge.signing import LinkSigning, SigningKey, Verdict
from lav2_hil.forwarder_pipe import FRAME, REPORT, Report, Target, Task, decode_task, encode_report

REPORT_S = 0.5
AT_ONCE = 32
"""Datagrams that are read of one socket before the others have their turn."""
STATIONS = 8
"""So many ground stations are answered at one port, beside the one that is expected there."""
SILENT_S = 60.0
"""One of those that has been silent for so long makes room for another."""
PIPE_SIZE = 8192
"""Few frames wait where their order cannot be changed any more."""


@dataclass(slots=True)
class Station:
    """One ground station.

    Attributes:
        number: of its channel in the router.
        sock, address: where it is answered.
        expected: it is spoken to before it has spoken.
    """

    number: int
    sock: socket.socket
    address: Any
    expected: bool
    decoder: Decoder
    heard_s: float


class Forwarder:
    """Forwards until the loop's process ends or goes.

    Args:
        task: what to do.
        board: the pipe to the loop.
    """

    def __init__(self, task: Task, board: socket.socket) -> None:
        self._board = board
        self._router = Router()
        self._queue = GroundQueue()
        self._cutter = FrameCutter()
        self._signing = LinkSigning(SigningKey(task.key)) if task.key else None
        self._stations: dict[tuple[int, Any], Station] = {}
        self._by_number: dict[int, Station] = {}
        self._numbers = BOARD
        self._to_ground = self._to_board = self._not_sent = self._bad = self._strangers = 0
        self._reported = Report()
        self._texts: list[str] = []
        self._selector = selectors.DefaultSelector()
        self._board_events = selectors.EVENT_READ
        self._selector.register(board, self._board_events)
        for target in task.targets:
            self._open(target)

    def run(self) -> None:
        """Forward; ends with the run."""
        report_s = 0.0
        while True:
            for key, events in self._selector.select(REPORT_S):
                if key.fileobj is not self._board:
                    self._hear(key.fileobj, key.data)  # type: ignore[arg-type]
                elif events & selectors.EVENT_READ and not self._from_board():
                    self._board.settimeout(REPORT_S)  # the other side makes room for the last words
                    self._report()
                    return
            self._hand_over()
            if time.monotonic() >= report_s:
                report_s = time.monotonic() + REPORT_S
                self._report()

    # Ground stations

    def _open(self, target: Target) -> None:
        address = ipaddress.ip_address(target.host)
        sock = socket.socket(socket.AF_INET if address.version == 4 else socket.AF_INET6, socket.SOCK_DGRAM)
        sock.setblocking(False)
        # Nothing is open to the network but what speaks to a ground station there.
        own_host = str(target.host) if address.is_loopback else ""
        try:
            sock.bind((own_host, target.own_port))
        except OSError as error:
            sock.bind((own_host, 0))
            self._texts.append(
                f"port {target.own_port} is taken ({error.strerror}): port {target.port} is spoken to from "
                f"{sock.getsockname()[1]}, and who speaks first does not find it"
            )
        self._selector.register(sock, selectors.EVENT_READ, target.host)
        self._add(sock, (target.host, target.port), expected=True)

    def _add(self, sock: socket.socket, address: Any, *, expected: bool) -> Station:
        self._numbers += 1
        station = Station(self._numbers, sock, address, expected, Decoder(datagrams=True), time.monotonic())
        self._stations[sock.fileno(), address[:2]] = self._by_number[station.number] = station
        self._router.add(station.number)
        return station

    def _hear(self, sock: socket.socket, host: str) -> None:
        for _ in range(AT_ONCE):
            try:
                data, address = sock.recvfrom(65536)
            except BlockingIOError:
                return
            except OSError:  # nobody listens there at present
                continue
            station = self._station(sock, address, host)
            if station is None:
                self._strangers += 1
            else:
                self._take(station, data)

    def _station(self, sock: socket.socket, address: Any, host: str) -> Station | None:
        """Who has spoken; None if it is not to be listened to."""
        now = time.monotonic()
        station = self._stations.get((sock.fileno(), address[:2]))
        if station is None:
            if address[0] != host or not self._makes_room(sock, now):
                return None
            station = self._add(sock, address, expected=False)
        station.heard_s = now
        return station

    def _makes_room(self, sock: socket.socket, now: float) -> bool:
        others = [one for one in self._stations.values() if one.sock is sock and not one.expected]
        if len(others) < STATIONS:
            return True
        oldest = min(others, key=lambda station: station.heard_s)
        if now - oldest.heard_s < SILENT_S:
            return False
        del self._stations[sock.fileno(), oldest.address[:2]], self._by_number[oldest.number]
        self._router.remove(oldest.number)
        return True

    def _take(self, station: Station, data: bytes) -> None:
        bad = station.decoder.stats.bad_frames
        for message in station.decoder.feed(data):
            frame = bytes(message.get_msgbuf())
            if self._signing is None or self._signing.check(frame) is Verdict.GOOD:
                self._route(station.number, frame)
        self._bad += station.decoder.stats.bad_frames - bad

    def _route(self, channel: int, frame: bytes) -> None:
        for other in self._router.route(channel, frame, time.monotonic_ns() // 1000):
            if other == BOARD:
                self._queue.put(channel, frame)
                continue
            station = self._by_number[other]
            try:
                station.sock.sendto(frame, station.address)
                self._to_ground += 1
            except OSError:  # full, or an earlier datagram found nobody
                self._not_sent += 1

    # The loop

    def _from_board(self) -> bool:
        """Take what the loop says; False if it has ended."""
        for _ in range(AT_ONCE):
            try:
                data = self._board.recv(1 << 16)
            except BlockingIOError:
                return True
            except ConnectionError:
                return False
            if not data:
                return False
            for frame in self._cutter.feed(data):
                self._route(BOARD, frame)
        return True

    def _hand_over(self) -> None:
        """Give the loop what waits for it, as far as it takes it."""
        blocked = False
        while (frame := self._queue.first()) is not None:
            try:
                self._board.send(FRAME + frame)
            except BlockingIOError:
                blocked = True
                break
            except ConnectionError:
                break  # what is read next says so
            self._queue.pop()
            self._to_board += 1
        wanted = selectors.EVENT_READ | selectors.EVENT_WRITE if blocked else selectors.EVENT_READ
        if wanted != self._board_events:
            self._board_events = wanted
            self._selector.modify(self._board, wanted)

    def _report(self) -> None:
        text = self._texts[0] if self._texts else ""
        report = Report(
            to_ground=self._to_ground,
            to_board=self._to_board,
            not_sent=self._not_sent,
            dropped=self._queue.dropped,
            superseded=self._queue.superseded,
            bad=self._bad,
            strangers=self._strangers,
            text=text,
            **dataclasses.asdict(self._router.stats),
            **({} if self._signing is None else dataclasses.asdict(self._signing.stats)),
        )
        if report == self._reported:
            return
        with contextlib.suppress(OSError):  # it does not listen at present, or has gone
            self._board.send(REPORT + encode_report(report))
            self._reported = report
            del self._texts[:1]


def main() -> None:
    """Serve the loop at the other end of a file descriptor."""
    os.nice(10)  # the loop and the flight controller come first
    board = socket.socket(fileno=int(sys.argv[1]))
    board.setblocking(True)
    task = board.recv(1 << 16)
    board.setblocking(False)
    board.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, PIPE_SIZE)
    if task:
        Forwarder(decode_task(task), board).run()


if __name__ == "__main__":
    main()
