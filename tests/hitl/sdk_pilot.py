"""`lav2-hil run` with a ground station's client: MAVSDK arms, takes off and lands over the forwarder."""

from __future__ import annotations

import json
import math
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

mavsdk = pytest.importorskip("mavsdk")
from mavsdk.plugins.action import Action, ActionError  # noqa: E402
from mavsdk.plugins.telemetry import FlightMode, LandedState, Telemetry  # noqa: E402


def spare_instance() -> int:
    """One whose ports for SDKs are free, beyond those that other tests use."""
    for instance in range(40, 90):
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as own, socket.socket(type=socket.SOCK_DGRAM) as other:
            try:
                own.bind(("127.0.0.1", 14580 + instance))
                other.bind(("127.0.0.1", 14540 + instance))
            except OSError:
                continue
            return instance
    pytest.fail("no spare instance")


@contextmanager
def bridge(arguments: list[str]) -> Iterator[subprocess.Popen[str]]:
    """`lav2-hil run`, ended at the latest here."""
    command = [sys.executable, "-m", "lav2_hil", "run", "--json", *arguments]
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
    try:
        yield process
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGINT)
            process.communicate(timeout=20)


class Pilot:
    """MAVSDK at an SDK's port."""

    def __init__(self, port: int, bridge: subprocess.Popen[str]) -> None:
        self._bridge = bridge
        self.client = mavsdk.Mavsdk(
            mavsdk.Configuration.create_with_component_type(mavsdk.ComponentType.GROUND_STATION)
        )
        self.client.add_any_connection(f"udpin://127.0.0.1:{port}")
        system = self.client.first_autopilot(40.0)
        assert system is not None, "MAVSDK found no autopilot"
        self.system = system
        self.action, self.telemetry = Action(system), Telemetry(system)

    def waits(self, condition: Callable[[], bool], what: str, within_s: float = 60.0) -> None:
        deadline = time.monotonic() + within_s
        while not condition():
            assert time.monotonic() < deadline, f"{what}: {self.telemetry.position()}"
            assert self._bridge.poll() is None, "the bridge ended"
            time.sleep(0.05)

    def _arms(self) -> bool:
        """PX4 checks more than MAVSDK's health tells."""
        try:
            self.action.arm()
        except ActionError:
            return False
        return True

    def flies(self, height_m: float) -> None:
        """Arm, take off, hold, land."""
        telemetry = self.telemetry
        self.waits(telemetry.health_all_ok, "never healthy", 90.0)
        self.action.set_takeoff_altitude(height_m)
        self.waits(self._arms, "arming is denied", 60.0)
        self.waits(telemetry.armed, "never armed", 10.0)
        self.action.takeoff()
        self.waits(lambda: telemetry.landed_state() == LandedState.IN_AIR, "never in the air")
        self.waits(lambda: abs(telemetry.position().relative_altitude_m - height_m) < 0.5, "never up")
        self.waits(lambda: telemetry.flight_mode() == FlightMode.HOLD, "never on hold")
        assert math.isclose(telemetry.attitude_euler().roll_deg, 0.0, abs_tol=10.0)
        self.action.land()
        self.waits(lambda: not telemetry.armed(), "never disarmed")
        self.waits(lambda: telemetry.landed_state() == LandedState.ON_GROUND, "never landed")


def fly(arguments: list[str], instance: int) -> dict[str, Any]:
    with bridge(arguments) as process:
        pilot = Pilot(14540 + instance, process)
        try:
            assert pilot.system.get_system_id() == instance + 1
            pilot.flies(4.0)
        finally:
            pilot.client.destroy()
        process.send_signal(signal.SIGINT)
        stdout, _ = process.communicate(timeout=20)
    return dict(json.loads(stdout))
