"""The loop's side of the ground stations: hands frames over and takes frames back, and never waits for either.

What the flight controller says is given to a process of its own (`forwarder_process`), which knows the ground stations;
the HIL messages, most of the traffic, do not get as far as the pipe. What comes back goes to the flight controller in
portions: a part of the line's capacity, so that a flood from the ground does not cost a sensor its place.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

import msgspec
from pymavlink.dialects.v20 import common

from bridge.addresses import HIL_MESSAGES, addresses_of
from bridge.codec import Decoder, Message
from bridge.endpoint import Endpoint, Serial
from bridge.signing import LinkSigning, SigningKey
from bridge.timesync import asks_for_time
from bridge.transport.base import Transport
from lav2_hil.forwarder_pipe import FRAME, Report, Target, Task, decode_report, encode_task
from lav2_hil.mqtt.pipe import socket_pair

OPEN_RATE = 100_000
"""Bytes a second that a link without a baud rate is taken to carry: PX4's own figure for USB."""
SHARE, SHARE_WHEN_BUSY = 0.25, 0.05
"""Of what a line carries, for frames from the ground: while nothing waits to leave, and while sensors do."""
PORTION = 300
"""Bytes that may follow each other at once: one frame of the largest size."""
LOOK_AGAIN_S = 0.002
AT_ONCE = 8
"""Frames that are written before the loop has its turn."""
_COMMANDS = (common.MAVLINK_MSG_ID_COMMAND_LONG, common.MAVLINK_MSG_ID_COMMAND_INT)
BACKLOG = 64
"""Frames of the flight controller that are handed over in one message at most."""
END_S = 1.0
"""How long the forwarding process may take to end."""
OWN_LINK = 255
"""Link id in the signatures of what is answered here in the flight controller's name: apart from its own, whose clock
is another, so that neither makes the other's frames look old."""


class Share:
    """A part of a line's capacity: bytes that may be written by now.

    Args:
        rate: what the line carries [B/s].
        now_s: monotonic time.
    """

    def __init__(self, rate: float, now_s: float) -> None:
        self._rate = rate
        self._room = float(PORTION)
        self._then_s = now_s

    def has_room(self, length: int, now_s: float, *, busy: bool) -> bool:
        """Whether so many bytes may be written now; then they are taken off."""
        share = SHARE_WHEN_BUSY if busy else SHARE
        self._room = min(PORTION, self._room + share * self._rate * (now_s - self._then_s))
        self._then_s = now_s
        if self._room < length:
            return False
        self._room -= length
        return True


class GroundForwarder:
    """Forwards between one link and the ground stations.

    Args:
        targets: where ground stations are expected.
        endpoint, transport: the link to the flight controller.
        decoder: of that link: what it takes for good is forwarded.
        key: of MAVLink signing: what comes from the ground must be signed with it, and so is what is answered here.
        intercept: answers a command from the ground that the flight controller is not to get; None for any other.
        say: logs a line for the user.

    Attributes:
        subscribers: told each frame from the ground that went to the flight controller.
        lost: the process ended before the run.
    """

    def __init__(
        self,
        targets: Sequence[Target],
        endpoint: Endpoint,
        transport: Transport,
        decoder: Decoder,
        key: SigningKey | None,
        intercept: Callable[[Message], bytes | None],
        say: Callable[[int, str], None],
    ) -> None:
        self.subscribers: list[Callable[[bytes], None]] = []
        self.lost = False
        self._task = Task(tuple(targets), b"" if key is None else key.value)
        self._transport = transport
        self._signing = None if key is None else LinkSigning(key, OWN_LINK)
        self._intercept = intercept
        self._decoder = Decoder(datagrams=True)
        self._say = say
        self._share = Share(endpoint.baud / 10 if isinstance(endpoint, Serial) else OPEN_RATE, time.monotonic())
        self._report = Report()
        self._not_taken = self._from_board = self._to_board = self._not_written = self._answered = 0
        self._pending: list[bytes] = []
        self._held: bytes | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._ending = False
        decoder.listeners.append(self._heard_board)

    # From the flight controller

    def _heard_board(self, messages: list[Message]) -> None:
        """Called while the session handles these messages: noted now, and handed over when its answer has left."""
        for message in messages:
            # That our end of the link was asked for the time concerns nobody else.
            if message.get_msgId() not in HIL_MESSAGES and not asks_for_time(message):
                self._from_board += 1
                self._to_ground(bytes(message.get_msgbuf()))

    def _to_ground(self, frame: bytes) -> None:
        if not self._pending:
            asyncio.get_running_loop().call_soon(self._hand_over)
        self._pending.append(frame)

    def _hand_over(self) -> None:
        pending, self._pending = self._pending, []
        for start in range(0, len(pending), BACKLOG):
            frames = pending[start : start + BACKLOG]
            try:
                self._socket.send(b"".join(frames))
            except OSError:  # full, or the process is gone
                self._not_taken += len(frames)

    # From the ground

    def _readable(self) -> None:
        for _ in range(AT_ONCE):
            if self._held is None and not self._read():
                return
            if self._held is not None and not self._write():
                return

    def _read(self) -> bool:
        """Take one message of the process; False if there is none."""
        try:
            message = self._socket.recv(1 << 12)
        except BlockingIOError:
            return False
        except ConnectionError:
            message = b""
        if not message:
            self._gone()
            return False
        if message[:1] == FRAME:
            self._held = message[1:]
        else:
            self._take_report(message)
        return True

    def _write(self) -> bool:
        """Write the frame that is held, if it is its turn; else look again in a moment, and read nothing until then."""
        frame = self._held
        assert frame is not None
        if not self._share.has_room(len(frame), time.monotonic(), busy=self._transport.waiting() > 0):
            loop = asyncio.get_running_loop()
            loop.remove_reader(self._socket)
            self._timer = loop.call_later(LOOK_AGAIN_S, self._look_again)
            return False
        self._held = None
        if addresses_of(frame).message in _COMMANDS and self._answers(frame):
            self._answered += 1
        elif self._transport.pass_on(frame):
            self._to_board += 1
            for subscriber in self.subscribers:
                subscriber(frame)
        else:
            self._not_written += 1
        return True

    def _answers(self, frame: bytes) -> bool:
        for message in self._decoder.feed(frame):
            answer = self._intercept(message)
            if answer is not None:
                if self._signing is not None:
                    self._signing.check(frame)  # a ground station whose clock is ahead must not find the answer old
                    answer = self._signing.sign(answer)
                self._to_ground(answer)
                return True
        return False

    def _look_again(self) -> None:
        asyncio.get_running_loop().add_reader(self._socket, self._readable)
        self._readable()

    def _take_report(self, message: bytes) -> None:
        self._report = decode_report(message[1:])
        if self._report.text:
            self._say(logging.WARNING, f"ground: {self._report.text}")

    def _gone(self) -> None:
        asyncio.get_running_loop().remove_reader(self._socket)
        if not self._ending:
            self.lost = True
            self._say(logging.WARNING, "ground: the forwarding process ended: ground stations hear nothing any more")

    # The process

    async def __aenter__(self) -> None:
        """Start the process."""
        self._socket, theirs = socket_pair()
        with theirs:
            self._process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "lav2_hil.forwarder_process", str(theirs.fileno())),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.DEVNULL,
                pass_fds=(theirs.fileno(),),
                start_new_session=True,  # a Ctrl-C is for the run, which then ends this process in order
            )
        self._socket.send(encode_task(self._task))
        asyncio.get_running_loop().add_reader(self._socket, self._readable)

    async def __aexit__(self, *_: object) -> None:
        """Let the process end, for a moment; hear its last words."""
        self._ending = True
        if self._timer is not None:
            self._timer.cancel()
        asyncio.get_running_loop().remove_reader(self._socket)
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_WR)
        deadline = time.monotonic() + END_S
        while self._process.returncode is None and time.monotonic() < deadline:
            self._drain()  # it may be waiting for room to say its last words
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._process.wait(), 0.02)
        if self._process.returncode is None:
            self._process.kill()
            await self._process.wait()
        self._drain()
        self._socket.close()

    def _drain(self) -> None:
        """Hear what is left; frames do not go anywhere any more."""
        while not self.lost:
            try:
                message = self._socket.recv(1 << 12)
            except OSError:
                return
            if not message:
                return
            if message[:1] == FRAME:
                self._not_written += 1
            else:
                self._take_report(message)

    def summary(self) -> dict[str, Any]:
        """The counters; see `forwarder_pipe.Report`.

        `from_board` frames were heard and are no HIL messages, `not_taken` of them the process was too slow for;
        `written` frames from the ground went to the flight controller, `not_written` found no link,
        and `answered` were commands to the simulator.
        """
        report = msgspec.structs.asdict(self._report)
        del report["text"]
        own = {"from_board": self._from_board, "not_taken": self._not_taken}
        own |= {"written": self._to_board, "not_written": self._not_written, "answered": self._answered}
        return {"lost": self.lost} | own | report
