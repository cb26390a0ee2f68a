"""The autopilot's process against the real bridge process: it may die, freeze or come back, and the bridge says so."""

from __future__ import annotations

import json
import os
import queue
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from pymavlink.dialects.v20 import common
from scripted_fc import ScriptedFc, spare_port

from bridge.codec import Decoder, Encoder, Message

AUTOPILOT = [sys.executable, "-m", "lav2_hil.autopilot"]
BRIDGE = [sys.executable, "-m", "lav2_hil", "run", "--no-session", "--profile", "lav2"]


class Process:
    """A process with its output read as it comes."""

    def __init__(self, *arguments: str) -> None:
        self.popen = subprocess.Popen(
            arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True
        )
        self.lines: dict[str, list[str]] = {"stdout": [], "stderr": []}
        self._new: queue.Queue[None] = queue.Queue()
        self._readers = [
            threading.Thread(target=self._read, args=(name, stream), daemon=True)
            for name, stream in (("stdout", self.popen.stdout), ("stderr", self.popen.stderr))
        ]
        for reader in self._readers:
            reader.start()

    def _read(self, name: str, stream: Any) -> None:
        with stream:
            for line in stream:
                self.lines[name].append(line)
                self._new.put(None)

    def says(self, text: str, stream: str = "stderr", times: int = 1, within_s: float = 30.0) -> None:
        """Wait until it has said something so many times."""
        deadline = time.monotonic() + within_s
        while sum(text in line for line in self.lines[stream]) < times:
            left = deadline - time.monotonic()
            assert left > 0, f"never said {text!r}: {self.lines}"
            try:
                self._new.get(timeout=min(left, 0.2))
            except queue.Empty:
                continue

    def end(self, number: signal.Signals = signal.SIGKILL) -> str:
        """End it with a signal, if it still runs; gives its stdout."""
        if self.popen.poll() is None:
            self.popen.send_signal(signal.SIGCONT)
            self.popen.send_signal(number)
        self.popen.wait(10)
        for reader in self._readers:
            reader.join(10)
        return "".join(self.lines["stdout"])


Start = Callable[..., Process]


@pytest.fixture
def start() -> Iterator[Start]:
    started: list[Process] = []

    def starts(*arguments: str) -> Process:
        started.append(Process(*arguments))
        return started[-1]

    yield starts
    for process in started:
        process.end()


def spare_instance() -> int:
    """An instance whose UDP ports nobody has; each test worker looks among its own."""
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0")[2:])
    for instance in range(200 + 10 * (worker % 4), 240):
        try:
            for port in (18570 + instance, 14580 + instance, 14540 + instance):
                with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
                    sock.bind(("127.0.0.1", port))
        except OSError:
            continue
        return instance
    raise AssertionError("no spare instance")


def bridge_on(port: int, *more: str) -> list[str]:
    return [*BRIDGE, "--endpoint", f"tcpin:127.0.0.1:{port}", "--json", "--speed", "0", *more]


def autopilot_on(port: int, instance: int, *more: str) -> list[str]:
    simulator = ["--simulator", f"tcp:127.0.0.1:{port}", "--instance", str(instance)]
    return [*AUTOPILOT, "--profile", "lav2", *simulator, *more]


# In flight


@pytest.mark.slow
def test_an_autopilot_that_dies_in_flight_is_reported_and_the_next_one_flies(start: Start) -> None:
    port, instance = spare_port(), spare_instance()
    bridge = start(*bridge_on(port))
    for life in (1, 2):
        autopilot = start(*autopilot_on(port, instance, "--mission", "demo"))
        autopilot.says("fly to", "stdout")
        autopilot.end(signal.SIGKILL)
        bridge.says("The flight controller is gone", times=life, within_s=5.0)
    summary = json.loads(bridge.end(signal.SIGINT))
    assert bridge.popen.returncode == 130
    assert summary["notices"]["peer_lost"] == 2
    assert summary["notices"]["peer_connected"] == summary["connections"] == 2
    assert summary["times_armed"] == 2
    assert summary["max_height_m"] > 4.0
    assert summary["bad_frames"] == 0


@pytest.mark.slow
def test_an_autopilot_that_freezes_in_flight_is_reported_and_taken_back(start: Start) -> None:
    port, instance = spare_port(), spare_instance()
    bridge = start(*bridge_on(port))
    autopilot = start(*autopilot_on(port, instance, "--mission", "demo"))
    autopilot.says("fly to", "stdout")
    autopilot.popen.send_signal(signal.SIGSTOP)
    bridge.says("no reply within 500 ms", within_s=2.0)
    time.sleep(2.5)
    assert not any("answers again" in line or "is gone" in line for line in bridge.lines["stderr"])
    autopilot.popen.send_signal(signal.SIGCONT)
    bridge.says("PX4 answers again", within_s=5.0)
    autopilot.says('"mission": "failed"', "stdout")  # it fell from the sky meanwhile, and knows
    autopilot.popen.wait(10)
    bridge.says("The flight controller is gone", within_s=5.0)
    summary = json.loads(bridge.end(signal.SIGINT))
    assert summary["notices"]["reply_timeout"] >= 1
    assert summary["notices"]["reply_again"] >= 1
    assert summary["notices"]["peer_lost"] == summary["connections"] == 1
    assert summary["reply_timeouts"] >= 1
    assert summary["final_position_ned_m"][2] > -1.0


@pytest.mark.slow
def test_an_autopilot_outlives_its_simulator(start: Start) -> None:
    port, instance = spare_port(), spare_instance()
    autopilot = start(*autopilot_on(port, instance))
    for _ in range(2):
        bridge = start(*bridge_on(port, "--duration", "3"))
        bridge.popen.wait(30)
        summary = json.loads(bridge.end())
        assert (summary["connections"], summary["reply_timeouts"], summary["simulated_s"]) == (1, 0, 3.0)
        assert summary["replies"] >= summary["sensors"] - summary["no_reply_expected"] - 1
    assert autopilot.popen.poll() is None
    assert autopilot.lines["stderr"] == []


# Starting


@pytest.mark.parametrize(
    ("arguments", "code", "names"),
    [
        (["--profile", "lav2", "--mission", "no_such"], 2, "demo"),
        (["--profile", "no_such"], 78, "px4_iris"),
        (["--profile", "lav2", "--simulator", "bluetooth:7"], 2, "tcpin:HOST:PORT"),
        (["--profile", "lav2", "--instance", "250"], 2, "--instance"),
        ([], 2, "--profile"),
        (["--profile", "lav2", "--fly", "now"], 2, "--fly"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_bad_arguments_are_one_line_and_an_exit_code(arguments: list[str], code: int, names: str) -> None:
    result = subprocess.run([*AUTOPILOT, *arguments], capture_output=True, text=True, timeout=30, check=False)
    assert result.returncode == code
    assert result.stdout == ""
    assert len(result.stderr.splitlines()) == 1
    assert result.stderr.startswith("autopilot: error: ")
    assert names in result.stderr


def test_ctrl_c_ends_it_quietly(start: Start) -> None:
    instance = spare_instance()
    with Station(instance) as station:
        autopilot = start(*autopilot_on(spare_port(), instance))
        station.ask(common.MAVLink_ping_message(1, 1, 0, 0), "PING")
        autopilot.end(signal.SIGINT)
    assert autopilot.popen.returncode == 130
    assert autopilot.lines == {"stdout": [], "stderr": []}


def test_a_busy_ground_port_is_a_warning(start: Start) -> None:
    port, instance = spare_port(), spare_instance()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as holder:
        holder.bind(("127.0.0.1", 18570 + instance))
        bridge = start(*bridge_on(port, "--duration", "1"))
        autopilot = start(*autopilot_on(port, instance))
        autopilot.says(f"no ground link from port {18570 + instance}")
        bridge.popen.wait(30)
    assert json.loads(bridge.end())["replies"] > 100
    assert len(autopilot.lines["stderr"]) == 1


# Ground stations


class Station:
    """A scripted ground station.

    Args:
        instance: of the autopilot it speaks to.
        own: its port; 0 is a spare one, from which it must speak first.
        other: the autopilot's port, without the instance.
    """

    def __init__(self, instance: int, own: int = 0, other: int = 18570) -> None:
        self._sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._sock.bind(("127.0.0.1", own))
        self._sock.settimeout(0.2)
        self._peer = ("127.0.0.1", other + instance)
        self._encoder, self._decoder = Encoder(255, 190), Decoder(datagrams=True)
        self.heard: list[Message] = []

    def __enter__(self) -> Station:
        return self

    def __exit__(self, *_: object) -> None:
        self._sock.close()

    def hears(self, kind: str, within_s: float = 30.0, again: Message | None = None) -> Message:
        """The next message of a kind; `again` is sent five times a second until then."""
        deadline = time.monotonic() + within_s
        while time.monotonic() < deadline:
            if again is not None:
                self._sock.sendto(self._encoder.encode(again), self._peer)
            try:
                data, address = self._sock.recvfrom(4096)
            except TimeoutError:
                continue
            if address == self._peer:  # other autopilots may call the same ground station
                self.heard += (messages := self._decoder.feed(data))
                for message in messages:
                    if message.get_type() == kind:
                        return message
        raise AssertionError(f"no {kind}")

    def ask(self, message: Message, kind: str) -> Message:
        """Ask until there is an answer; the process may not be there yet."""
        return self.hears(kind, again=message)

    def tell(self, message: Message) -> None:
        self._sock.sendto(self._encoder.encode(message), self._peer)


def test_a_ground_station_on_14550_is_found_and_answered(start: Start) -> None:
    port, instance = spare_port(), spare_instance()
    system = instance + 1
    try:
        station = Station(instance, own=14550)
    except OSError:
        pytest.skip("another ground station has port 14550")
    with station:
        start(*bridge_on(port))
        autopilot = start(*autopilot_on(port, instance))
        heartbeat = station.hears("HEARTBEAT")
        assert (heartbeat.get_srcSystem(), heartbeat.get_srcComponent()) == (system, 1)
        assert (heartbeat.autopilot, heartbeat.base_mode & 128) == (12, 0)
        station.tell(common.MAVLink_param_request_list_message(system, 1))
        count = station.hears("PARAM_VALUE").param_count
        for _ in range(count - 1):
            station.hears("PARAM_VALUE")
        assert {m.param_index for m in station.heard if m.get_type() == "PARAM_VALUE"} == set(range(count))
        while not station.hears("SYS_STATUS").onboard_control_sensors_health & common.MAV_SYS_STATUS_PREARM_CHECK:
            continue
        arm = common.MAVLink_command_long_message(system, 1, 400, 0, 1, 0, 0, 0, 0, 0, 0)
        station.tell(arm)
        assert station.hears("COMMAND_ACK").result == 0
        while not station.hears("HEARTBEAT").base_mode & 128:
            continue
        assert autopilot.lines == {"stdout": [], "stderr": []}


def test_it_refuses_to_arm_with_a_reason_and_survives_noise(start: Start) -> None:
    """No simulator is there: there are no sensors, and it says so, on the SDK's link as well."""
    instance = spare_instance()
    start(*autopilot_on(spare_port(), instance))
    arm = common.MAVLink_command_long_message(instance + 1, 1, 400, 0, 1, 0, 0, 0, 0, 0, 0)
    with Station(instance, other=14580) as station:
        station._sock.sendto(b"\xfd\xff\x00 no MAVLink", station._peer)
        assert station.ask(arm, "COMMAND_ACK").result == 1
        assert station.hears("STATUSTEXT").text == "Arming denied: no sensors yet"


def test_the_bridge_ignores_it_while_somebody_else_flies(start: Start) -> None:
    port, instance = spare_port(), spare_instance()
    bridge = start(*bridge_on(port))
    fc = ScriptedFc(port)
    fc.start()
    bridge.says("is there")
    start(*autopilot_on(port, instance))
    bridge.says("also wants to be the flight controller: ignored")
    fc.stop()
    assert json.loads(bridge.end(signal.SIGINT))["notices"]["peer_ignored"] == 1
