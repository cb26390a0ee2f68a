"""The publishing process: the loop's process on one side, the broker on the other. The one file that knows aiomqtt.

Of what it has not published yet it keeps the newest of each topic, and a number of events. It connects again for ever,
and it shares its topics with no other writer.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import random
import secrets
import socket
import sys
from collections import deque
from datetime import UTC, datetime
from typing import Literal

import aiomqtt
import msgspec

from lav2_hil.mqtt.payloads import TOPICS, State
from lav2_hil.mqtt.pipe import END_OF_RUN, Status, decode_message, encode, waiting_in

ALIVE_S = 1.5
"""A writer that renews its health within this lives; it does so once a second."""
LAST_WORDS_S = 1.0
"""How long to go on publishing when the run has ended."""
EVENTS = 100
"""So many events wait for a broker that is away; of every other topic, the newest message."""
TIMEOUT_S, KEEPALIVE_S = 10, 10
"""For one answer of the broker; for a sign of life, after one and a half of which it tells the last will."""

_decode_state = msgspec.json.Decoder(State).decode


class _RefusedError(Exception):
    """Another writer lives under this name."""


class Publisher:
    """Publishes until the loop's process ends or goes, and then ends this process.

    Args:
        host, port: of the broker.
        vehicle: whose topics they are.
        sock: to the loop's process.
    """

    def __init__(self, host: str, port: int, vehicle: str, sock: socket.socket) -> None:
        self._host, self._port, self._vehicle, self._socket = host, port, vehicle, sock
        self._writer = secrets.token_hex(8)
        self._started_utc = datetime.now(UTC)
        self._t_us = 0
        self._each: deque[tuple[str, bytes]] = deque(maxlen=EVENTS)
        self._latest: dict[str, bytes] = {}
        self._retained: dict[str, bytes] = {}
        self._accepted = self._published = self._in_flight = self._connects = 0
        self._connected = self._complained = self._refused = False
        self._wake, self._ended = asyncio.Event(), asyncio.Event()

    async def run(self) -> None:
        """Publish, whatever the broker does."""
        asyncio.get_running_loop().add_reader(self._socket, self._heard)
        attempt = 0
        while not self._ended.is_set():
            try:
                async with self._client() as client:
                    await self._claim(client)
                    attempt = 0
                    await self._serve(client)
                break
            except aiomqtt.MqttError as error:
                self._complain(str(error))
            except _RefusedError as refused:
                self._refused = True
                self._finish(logging.WARNING, str(refused))
            with contextlib.suppress(TimeoutError):  # jitter: those who lost one broker must not all come back at once
                await asyncio.wait_for(self._ended.wait(), random.uniform(0.0, 1.5 ** min(attempt, 6)))
            attempt += 1
        self._finish()

    # The loop's process

    def _heard(self) -> None:
        for message in waiting_in(self._socket):
            if not message:
                os._exit(1)  # the run was killed: without a goodbye, the broker tells the last will
            topic, self._t_us, payload = decode_message(message)
            if payload == END_OF_RUN:
                self._ended.set()
                self._wake.set()
                asyncio.get_running_loop().call_later(LAST_WORDS_S, self._cut_off)
            else:
                self._put(topic, payload)
                if topic == "health":
                    self._report()

    def _put(self, topic: str, payload: bytes) -> None:
        self._accepted += 1
        if TOPICS[topic].each:
            self._each.append((topic, payload))
        else:
            self._latest[topic] = payload
        if TOPICS[topic].retain:
            self._retained[topic] = payload
        self._wake.set()

    def _report(self, level: int = 0, text: str = "") -> None:
        waiting = len(self._each) + len(self._latest) + self._in_flight
        status = Status(
            published=self._published,
            dropped=self._accepted - self._published - waiting,
            connects=self._connects,
            connected=self._connected,
            refused=self._refused,
            level=level,
            text=text,
        )
        with contextlib.suppress(OSError):  # it does not listen, or has gone
            self._socket.send(encode(status))

    def _complain(self, reason: str) -> None:
        """Say once that the broker is away."""
        what = "is gone" if self._connected else "does not answer"
        self._connected = False
        if not self._complained:
            self._complained = True
            self._report(logging.WARNING, f"the broker {self._host}:{self._port} {what} ({reason}): trying again")

    def _cut_off(self) -> None:
        self._connected = False
        self._finish()

    def _finish(self, level: int = 0, text: str = "") -> None:
        """End the process; what was not published by now is dropped."""
        self._each.clear()
        self._latest.clear()
        self._in_flight = 0
        self._report(level, text)
        os._exit(0)  # a connect that hangs in its thread must not hold the end up

    # The broker

    def _topic(self, name: str) -> str:
        return f"lav2/{self._vehicle}/{name}"

    def _state(self, state: Literal["online", "offline", "lost"]) -> bytes:
        return msgspec.json.encode(
            State(t_us=self._t_us, state=state, writer=self._writer, started_utc=self._started_utc)
        )

    def _client(self) -> aiomqtt.Client:
        will = aiomqtt.Will(self._topic("state"), self._state("lost"), qos=1, retain=True)
        return aiomqtt.Client(
            self._host,
            self._port,
            identifier=f"lav2-hil-{self._writer}",  # not the vehicle: a broker throws out whoever has the same one
            will=will,
            timeout=TIMEOUT_S,
            keepalive=KEEPALIVE_S,
            max_queued_incoming_messages=EVENTS,
        )

    async def _claim(self, client: aiomqtt.Client) -> None:
        """Make sure that no other writer lives under this name, or at least, once this one has published, no older one.

        Raises:
            _RefusedError: one does.
        """
        await client.subscribe(self._topic("state"), qos=1)
        await client.subscribe(self._topic("health"))  # answered after the retained state was sent
        other = False
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(ALIVE_S):
                while other or len(client.messages):
                    message = await anext(client.messages)
                    if message.topic.value == self._topic("state"):
                        state = _online_in(message)
                        other = state is not None and (self._is_older(state) or not self._connects)
                    elif other and not message.retain:
                        raise self._refusal()
        await client.unsubscribe(self._topic("health"))

    def _is_older(self, other: State) -> bool:
        return (other.started_utc, other.writer) < (self._started_utc, self._writer)

    def _refusal(self) -> _RefusedError:
        return _RefusedError(f"another run publishes as {self._vehicle!r} to {self._host}:{self._port}")

    async def _serve(self, client: aiomqtt.Client) -> None:
        """Publish until the end of the run, and say goodbye."""
        self._connects += 1
        self._connected, self._complained = True, False
        self._report(logging.INFO, f"publishing as {self._vehicle!r} to {self._host}:{self._port}")
        for topic, payload in self._retained.items():  # it may be another broker, or have forgotten
            if topic not in self._latest:
                self._put(topic, payload)
        self._put("state", self._state("online"))
        try:
            async with asyncio.TaskGroup() as tasks:
                watch = tasks.create_task(self._watch(client), name="other writers")
                await self._publish_all(client)
                watch.cancel()
        except ExceptionGroup as errors:
            raise errors.exceptions[0] from None
        await client.publish(self._topic("state"), self._state("offline"), qos=1, retain=True)
        self._accepted += 1
        self._published += 1

    async def _publish_all(self, client: aiomqtt.Client) -> None:
        while True:
            while not (self._each or self._latest):
                if self._ended.is_set():
                    return
                self._wake.clear()
                await self._wake.wait()
            if self._each:
                name, payload = self._each.popleft()
            else:
                name = next(iter(self._latest))
                payload = self._latest.pop(name)
            topic = TOPICS[name]
            self._in_flight = 1
            try:
                await client.publish(self._topic(name), payload, topic.qos, topic.retain)
            except (aiomqtt.MqttError, asyncio.CancelledError):
                if topic.each and len(self._each) < EVENTS:
                    self._each.appendleft((name, payload))
                raise
            finally:
                self._in_flight = 0
            self._published += 1

    async def _watch(self, client: aiomqtt.Client) -> None:
        """Keep the retained state true: a last will may come late, and another writer may have come unseen.

        Raises:
            _RefusedError: an older writer lives under this name.
            aiomqtt.MqttError: the connection is gone.
        """
        async for message in client.messages:
            if message.topic.value != self._topic("state") or self._ended.is_set():
                continue
            state = _online_in(message)
            if state is not None and self._is_older(state):
                raise self._refusal()
            if state is None or state.writer != self._writer:
                self._put("state", self._state("online"))


def _online_in(message: aiomqtt.Message) -> State | None:
    """The state in a message, if it is one and says online."""
    try:
        state = _decode_state(message.payload)
    except msgspec.MsgspecError:
        return None
    return state if state.state == "online" else None


def main() -> None:
    """`python -m lav2_hil.mqtt.process HOST PORT VEHICLE FD`, as the listener starts it."""
    host, port, vehicle, fd = sys.argv[1:]
    os.nice(10)  # the loop and the flight controller come first
    logging.getLogger("mqtt").addHandler(logging.NullHandler())  # what matters is reported
    asyncio.run(_run(host, int(port), vehicle, socket.socket(fileno=int(fd))))


async def _run(host: str, port: int, vehicle: str, sock: socket.socket) -> None:
    await Publisher(host, port, vehicle, sock).run()


if __name__ == "__main__":
    main()
