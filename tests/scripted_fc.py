"""A flight controller of a few lines on a real TCP socket: greets as PX4 does and answers every HIL_SENSOR."""

from __future__ import annotations

import contextlib
import socket
import threading
import time

from pymavlink.dialects.v20 import common

from bridge.codec import Decoder, Encoder


class ScriptedFc(threading.Thread):
    """Connects to a simulator's TCP port, as PX4 does, and answers until it is stopped or the simulator leaves.

    Args:
        port: of the simulator, on 127.0.0.1.
        unanswered: how many HIL_SENSORs get no answer at first.
        armed: say so in every answer.
        controls: of the channels, the rest 0.
        system: system id.
    """

    def __init__(
        self,
        port: int,
        *,
        unanswered: int = 15,
        armed: bool = False,
        controls: tuple[float, ...] = (),
        system: int = 1,
    ) -> None:
        super().__init__(name="scripted flight controller", daemon=True)
        self.stamps: list[int] = []
        self.stop_after: int | None = None
        self._port = port
        self._unanswered = unanswered
        self._mode = 129 if armed else 1
        self._controls = [*controls, *[0.0] * (16 - len(controls))]
        self._encoder = Encoder(system, 1)
        self._stop_asked = threading.Event()

    def run(self) -> None:
        with self._connect() as sock:
            sock.sendall(
                self._encoder.encode(common.MAVLink_command_long_message(0, 0, 511, 0, 115, 5000, 0, 0, 0, 0, 0))
                + self._encoder.encode(common.MAVLink_heartbeat_message(0, 12, 0, 0, 0, 3))
            )
            decoder = Decoder()
            with contextlib.suppress(OSError):
                while not self._stop_asked.is_set():
                    data = sock.recv(4096)
                    if not data:
                        return
                    for message in decoder.feed(data):
                        if message.get_type() == "HIL_SENSOR":
                            self._answer(sock, message.time_usec)

    def _connect(self) -> socket.socket:
        """PX4 tries again every half millisecond; here it is a hundredth of a second."""
        for _ in range(1000):
            try:
                sock = socket.create_connection(("127.0.0.1", self._port))
            except OSError:
                time.sleep(0.01)
                continue
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            return sock
        raise RuntimeError(f"no simulator on port {self._port}")

    def _answer(self, sock: socket.socket, stamp: int) -> None:
        self.stamps.append(stamp)
        if len(self.stamps) > self._unanswered:
            sock.sendall(
                self._encoder.encode(common.MAVLink_hil_actuator_controls_message(stamp, self._controls, self._mode, 1))
            )

    def stop(self) -> None:
        """End, at the next frame."""
        self._stop_asked.set()
        self.join(10)


def spare_port() -> int:
    """A TCP port of 127.0.0.1 that nobody listens on."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])
