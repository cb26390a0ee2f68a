"""`--mqtt` as a user meets it: whole runs, a broker that is mistreated, and the same flight all the same."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from mosquitto import DeafSubscriber, Ear, Mosquitto, needs_mosquitto, until

SIM = [sys.executable, "-m", "lav2_hil", "sim", "--no-session"]
INSTANCE = 200  # each test its own, from here on: they may run side by side


def start_sim(instance: int, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [*SIM, "--instance", str(instance), "--json", *arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,  # so that it can be killed with its autopilot
    )


def kill(process: subprocess.Popen[str]) -> None:
    """Kill a run and its autopilot; its publisher has a session of its own."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def finish(process: subprocess.Popen[str], timeout_s: float = 60) -> tuple[int, dict[str, Any], str]:
    """Exit code, summary and stderr."""
    try:
        output, said = process.communicate(timeout=timeout_s)
    finally:
        kill(process)
    assert "Traceback" not in said
    return process.returncode, json.loads(output) if output else {}, said


def publishers(port: int) -> list[int]:
    """Ids of the processes that publish to a broker at this port."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                words = (entry / "cmdline").read_bytes().split(b"\0")
            except OSError:
                continue  # it has ended
            if b"lav2_hil.mqtt.process" in words and str(port).encode() in words:
                found.append(int(entry.name))
    return found


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Mosquitto]:
    mosquitto = Mosquitto(tmp_path)
    mosquitto.start()
    yield mosquitto
    mosquitto.kill()


@pytest.fixture
def ear(broker: Mosquitto) -> Iterator[Ear]:
    listener = Ear(broker.port)
    yield listener
    listener.close()


@pytest.mark.slow
@pytest.mark.parametrize("host", ["127.0.0.1:9", "no-such-host.invalid"])
def test_a_run_without_a_broker_says_so_once_and_flies(host: str) -> None:
    code, summary, said = finish(start_sim(INSTANCE + 1, "--mqtt", host, "--speed", "0", "--duration", "5"))
    assert code == 1  # the mission was cut off
    assert summary["simulated_s"] == 5
    assert len(re.findall("WARNING: MQTT: ", said)) == 1
    assert f"the broker {host}" in said
    mqtt = summary["mqtt"]
    assert (mqtt["published"], mqtt["connects"], mqtt["connected"]) == (0, 0, False)
    assert mqtt["dropped"] > 0


@needs_mosquitto
@pytest.mark.slow
def test_a_signal_ends_run_and_publisher_and_a_frozen_broker_holds_up_neither(broker: Mosquitto, ear: Ear) -> None:
    for number, code, frozen in ((signal.SIGINT, 130, False), (signal.SIGTERM, 143, True)):
        process = start_sim(INSTANCE + 2, "--mission", "none", "--mqtt", broker.address)
        until(lambda: [heard for heard in ear.of("lav2/lav2/health") if heard.payload["link"] == "lockstep"])
        assert len(publishers(broker.port)) == 1
        if frozen:
            broker.pause()
        begun = time.monotonic()
        if number == signal.SIGINT:
            os.killpg(process.pid, number)  # as a terminal does
        else:
            process.send_signal(number)
        returned, summary, _ = finish(process)
        assert time.monotonic() - begun < 3.0
        assert returned == code
        assert summary["mqtt"]["connected"] is not frozen
        assert publishers(broker.port) == []
        if not frozen:
            until(lambda: ear.of("lav2/lav2/state")[-1].payload["state"] == "offline")
            ear.heard.clear()
    broker.resume()
    until(lambda: ear.of("lav2/lav2/state")[-1].payload["state"] == "lost")


@needs_mosquitto
@pytest.mark.slow
def test_a_killed_run_leaves_its_last_will_and_no_publisher(broker: Mosquitto, ear: Ear) -> None:
    process = start_sim(INSTANCE + 3, "--mqtt", broker.address, "--name", "one")
    until(lambda: ear.of("lav2/one/telemetry/attitude"))
    kill(process)
    until(lambda: ear.of("lav2/one/state")[-1].payload["state"] == "lost")
    until(lambda: publishers(broker.port) == [])
    process.communicate()


@needs_mosquitto
@pytest.mark.slow
def test_a_second_run_under_one_name_is_refused(broker: Mosquitto, ear: Ear) -> None:
    first = start_sim(INSTANCE + 4, "--mqtt", broker.address)
    until(lambda: ear.of("lav2/lav2/telemetry/attitude"))
    code, summary, said = finish(start_sim(INSTANCE + 5, "--mqtt", broker.address))
    assert (code, summary) == (69, {})
    assert said == (f"error: MQTT: another run publishes as 'lav2' to {broker.address}: give this run another --name\n")
    assert {heard.payload["state"] for heard in ear.of("lav2/lav2/state")} == {"online"}
    other = start_sim(INSTANCE + 5, "--mqtt", broker.address, "--name", "other", "--speed", "0", "--duration", "2")
    code, summary, _ = finish(other)
    assert summary["mqtt"]["connected"] is True
    first.send_signal(signal.SIGINT)
    code, summary, _ = finish(first)
    assert code == 130
    assert (summary["mqtt"]["connects"], summary["mqtt"]["dropped"]) == (1, 0)


# The same flight


@contextlib.contextmanager
def chaos(steps: Callable[[threading.Event], None]) -> Iterator[None]:
    done = threading.Event()
    thread = threading.Thread(target=steps, args=(done,))
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


def flight(instance: int, *arguments: str, timeout_s: float = 120) -> dict[str, Any]:
    _, summary, _ = finish(start_sim(instance, *arguments), timeout_s)
    return summary


@needs_mosquitto
@pytest.mark.slow
def test_the_flight_is_the_same_whatever_happens_to_the_broker(broker: Mosquitto) -> None:
    deaf = DeafSubscriber(broker.port)

    def mistreat(done: threading.Event) -> None:
        while not done.wait(0.7):
            broker.kill()
            if not done.wait(0.3):
                broker.start()

    alone = flight(INSTANCE + 6, "--speed", "0", "--duration", "12")
    with chaos(mistreat):
        disturbed = flight(INSTANCE + 7, "--speed", "3", "--duration", "12", "--mqtt", broker.address)
    deaf.close()
    assert alone["simulated_s"] == disturbed["simulated_s"] == 12
    assert disturbed["truth_sha256"] == alone["truth_sha256"]
    assert disturbed["mqtt"]["published"] > 0
    assert disturbed["mqtt"]["dropped"] > 0


@needs_mosquitto
@pytest.mark.long
def test_a_minute_of_chaos_ends_where_the_quiet_flight_ends(broker: Mosquitto) -> None:
    """Killed and restarted, standing still for longer than a keep-alive, with subscribers that never read."""
    ears: list[DeafSubscriber] = []

    def mistreat(done: threading.Event) -> None:
        while not done.is_set():
            ears.extend(DeafSubscriber(broker.port) for _ in range(3))
            done.wait(5)
            broker.kill()
            done.wait(3)
            broker.start()
            done.wait(5)
            broker.pause()
            done.wait(7)
            broker.resume()
            done.wait(4)

    alone = flight(INSTANCE + 8, "--speed", "0", timeout_s=900)
    with chaos(mistreat):
        disturbed = flight(INSTANCE + 9, "--speed", "0.9", "--mqtt", broker.address, timeout_s=900)
    for deaf in ears:
        deaf.close()
    print(disturbed["wall_s"], disturbed["mqtt"])
    assert disturbed["wall_s"] > 60
    assert disturbed["truth_sha256"] == alone["truth_sha256"]
    assert disturbed["problems"] == []
    assert disturbed["mqtt"]["connects"] >= 3
    assert disturbed["mqtt"]["published"] > 300
    assert disturbed["mqtt"]["dropped"] > 100
