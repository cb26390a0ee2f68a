"""The loop's side of MQTT.

It only puts messages into a socket pair that never waits: a broker that is down, slow or gone costs messages, which are
counted, and no tick.
"""

from __future__ import annotations

import asyncio
import logging
import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import msgspec

from firmware_profiles.errors import LinkUnavailableError
from lav2_hil.doctor.hints import with_hint
from lav2_hil.mqtt.payloads import Actuators, Attitude, Event, Health, Info, Payload, Position, Shadow
from lav2_hil.mqtt.pipe import END_OF_RUN, Status, decode_status, encode, socket_pair, waiting_in

if TYPE_CHECKING:
    from bridge.endpoint import TcpOut
    from bridge.session_io import Notice
    from bridge.sessions import Session
    from bridge.transport.base import Transport
    from firmware_profiles.signals import HilControls, SensorSample
    from twin.twin import Twin

TELEMETRY_S, HEALTH_S = 0.1, 1.0
"""Wall time between two messages of one topic."""
START_S, END_S = 2.5, 1.5
"""How long a run waits for the first word about the broker, and for the publishing process to end."""


class MqttListener:
    """The loop's side: hands messages to the publishing process, and never waits for it.

    Args:
        broker: where it is.
        vehicle: whose topics they are.
        info: what runs; made when the run begins.
        session, transport, twin: what is published of them.
        say: logs a line for the user.
    """

    def __init__(
        self,
        broker: TcpOut,
        vehicle: str,
        info: Callable[[], Info],
        session: Session,
        transport: Transport,
        twin: Twin,
        say: Callable[[int, str], None],
    ) -> None:
        self._broker, self._vehicle, self._info = broker, vehicle, info
        self._session, self._transport, self._twin, self._say = session, transport, twin, say
        self._status = Status()
        self._not_taken = 0
        self._t_us = 0
        self._due_s = 0.0
        self._last = (time.monotonic(), 0)
        self._settled = asyncio.Event()
        self._ending = False
        self._health_timer: asyncio.TimerHandle | None = None

    def stepped(self, controls: HilControls | None, sample: SensorSample) -> None:
        """Publish telemetry, if it is due."""
        t_us = self._t_us = sample.time_us
        now = time.monotonic()
        if now < self._due_s:
            return
        self._due_s = now + TELEMETRY_S
        truth = self._twin.truth()
        self.publish("telemetry/attitude", Attitude(t_us=t_us, q_wxyz=truth.q_ned_frd, rates_frd=truth.rates_frd))
        position = Position(
            t_us=t_us,
            lat_deg=truth.lat_deg,
            lon_deg=truth.lon_deg,
            alt_amsl_m=truth.alt_amsl_m,
            pos_ned=truth.pos_ned,
            vel_ned=truth.vel_ned,
        )
        self.publish("telemetry/position", position)
        if controls is not None:
            actuators = Actuators(t_us=t_us, armed=controls.armed, controls=controls.channels)
            self.publish("telemetry/actuators", actuators)

    def noticed(self, notice: Notice) -> None:
        """Publish a notice as an event."""
        level: Any = logging.getLevelName(notice.level).lower()
        self.publish("event", Event(t_us=self._t_us, name=notice.name, level=level, text=with_hint(notice)))

    def bands(self, bands: dict[str, Any]) -> None:
        """Publish where the vehicle is among its shadows."""
        self.publish("twin/shadow", Shadow(**bands))

    def publish(self, topic: str, payload: Payload) -> None:
        """Give a message of one of `TOPICS` to the publishing process, or count that it did not take it."""
        self._hand_over(topic, payload.t_us, msgspec.json.encode(payload))

    def _hand_over(self, topic: str, t_us: int, payload: bytes) -> None:
        try:
            self._socket.send(encode((topic, t_us, payload)))
        except OSError:  # full, or the process is gone
            self._not_taken += 1

    async def __aenter__(self) -> None:
        """Start the publishing process, and wait a little for what it says about the broker.

        Raises:
            LinkUnavailableError: another writer lives under this name.
        """
        self._socket, theirs = socket_pair()
        with theirs:
            arguments = (self._broker.host, str(self._broker.port), self._vehicle, str(theirs.fileno()))
            self._process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "lav2_hil.mqtt.process", *arguments),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.DEVNULL,
                pass_fds=(theirs.fileno(),),
                start_new_session=True,  # a Ctrl-C is for the run, which then ends this process in order
            )
        asyncio.get_running_loop().add_reader(self._socket, self._heard)
        self.publish("info", self._info())
        try:
            await asyncio.wait_for(self._settled.wait(), START_S)
        except TimeoutError:
            pass  # it will say how it goes on
        except asyncio.CancelledError:
            self._process.kill()
            raise
        if self._status.refused:
            await self._stop()
            raise LinkUnavailableError(f"MQTT: {self._status.text}: give this run another --name")
        self._publish_health()

    def _publish_health(self) -> None:
        self._health_timer = asyncio.get_running_loop().call_later(HEALTH_S, self._publish_health)
        session, decoded, status = self._session, self._session.decoder.stats, self.summary()
        now, sensors = time.monotonic(), session.stats.sensors
        (then, before), self._last = self._last, (now, sensors)
        health = Health(
            t_us=self._t_us,
            link=session.phase.value,
            link_text=session.describe(),
            rtf=round((sensors - before) * 1e-6 * self._twin.tick_us / max(now - then, 1e-9), 3),
            timeouts=session.stats.timeouts,
            drops=decoded.bad_frames + decoded.lost_frames + self._transport.dropped,
            mqtt_published=status["published"],
            mqtt_dropped=status["dropped"],
            mqtt_connects=status["connects"],
        )
        self.publish("health", health)

    def _heard(self) -> None:
        for message in waiting_in(self._socket):
            if message:
                self._status = decode_status(message)
                if self._status.text and (self._settled.is_set() or not self._status.refused):
                    self._say(self._status.level, f"MQTT: {self._status.text}")
            else:
                asyncio.get_running_loop().remove_reader(self._socket)
                if not (self._ending or self._status.refused):
                    self._status = msgspec.structs.replace(self._status, connected=False, text="")
                    self._say(logging.WARNING, "MQTT: the publishing process ended: nothing is published any more")
            self._settled.set()

    async def __aexit__(self, *_: object) -> None:
        """Publish how it ended, and stop."""
        assert self._health_timer is not None
        self._health_timer.cancel()
        self._publish_health()
        self._health_timer.cancel()
        await self._stop()

    async def _stop(self) -> None:
        """Let the publishing process say goodbye, for a moment; then end it."""
        self._ending = True
        self._hand_over("state", self._t_us, END_OF_RUN)
        try:
            await asyncio.wait_for(self._process.wait(), END_S)
        except TimeoutError:
            self._process.kill()
            await self._process.wait()
        self._heard()
        self._socket.close()

    def summary(self) -> dict[str, Any]:
        """The counters; `connected` as it was when the run ended."""
        status = self._status
        return {
            "published": status.published,
            "dropped": status.dropped + self._not_taken,
            "connects": status.connects,
            "connected": status.connected,
        }
