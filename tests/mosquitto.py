"""A real mosquitto on a spare loopback port, that can be killed, stopped and started again; and an ear at it."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import paho.mqtt.client as paho
import pytest

FOUND = shutil.which("mosquitto", path=os.pathsep.join((os.environ.get("PATH", ""), "/usr/sbin")))  # Debian's place
needs_mosquitto = pytest.mark.skipif(FOUND is None, reason="mosquitto is not installed: make services, or the package")


def spare_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port: int = taken.getsockname()[1]
        return port


class Mosquitto:
    """One broker; it forgets everything when it is killed."""

    def __init__(self, directory: Path) -> None:
        assert FOUND is not None
        self.port = spare_port()
        self._config = directory / "mosquitto.conf"
        self._config.write_text(
            f"listener {self.port} 127.0.0.1\nallow_anonymous true\npersistence false\nuser root\n", encoding="utf-8"
        )
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def start(self) -> None:
        self._process = subprocess.Popen(
            [str(FOUND), "-c", str(self._config)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        deadline = time.monotonic() + 10
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.port), timeout=1).close()
                return
            except OSError:
                assert time.monotonic() < deadline, "mosquitto does not start"
                time.sleep(0.02)

    def pause(self) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGCONT)

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None


class Heard(NamedTuple):
    topic: str
    payload: Any
    qos: int
    retain: bool


class Ear:
    """Subscribes to everything below a topic, and writes down what it hears."""

    def __init__(self, port: int, topic: str = "lav2/#") -> None:
        self.heard: list[Heard] = []
        self._client = paho.Client(paho.CallbackAPIVersion.VERSION2)
        self._client.on_message = self._message
        subscribed = threading.Event()
        self._client.on_subscribe = lambda *_: subscribed.set()
        self._client.connect("127.0.0.1", port)
        self._client.subscribe(topic, qos=2)
        self._client.loop_start()
        assert subscribed.wait(10)

    def _message(self, client: paho.Client, userdata: Any, message: paho.MQTTMessage) -> None:
        try:
            payload = json.loads(message.payload)
        except ValueError:
            payload = {}
        self.heard.append(Heard(message.topic, payload, message.qos, message.retain))

    def of(self, topic: str) -> list[Heard]:
        return [heard for heard in self.heard if heard.topic == topic]

    def close(self) -> None:
        self._client.disconnect()
        self._client.loop_stop()


class DeafSubscriber:
    """Subscribes to everything and never reads what comes."""

    def __init__(self, port: int) -> None:
        self._client = paho.Client(paho.CallbackAPIVersion.VERSION2)
        subscribed: list[bool] = []
        self._client.on_connect = lambda client, *_: client.subscribe("#", qos=2)
        self._client.on_subscribe = lambda *_: subscribed.append(True)
        self._client.connect("127.0.0.1", port, keepalive=600)
        deadline = time.monotonic() + 10
        while not subscribed:
            assert time.monotonic() < deadline
            self._client.loop(0.1)

    def close(self) -> None:
        sock = self._client.socket()
        assert sock is not None
        sock.close()


def publish(port: int, topic: str, payload: str, *, retain: bool = False) -> None:
    """Say one thing as somebody else."""
    client = paho.Client(paho.CallbackAPIVersion.VERSION2)
    client.connect("127.0.0.1", port)
    client.loop_start()
    client.publish(topic, payload, qos=1, retain=retain).wait_for_publish(10)
    client.disconnect()
    client.loop_stop()


def until(condition: Callable[[], Any], timeout_s: float = 15) -> Any:
    """Wait for something to be true, and give it."""
    deadline = time.monotonic() + timeout_s
    while not (value := condition()):
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.02)
    return value
