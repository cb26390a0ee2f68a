"""`lav2-hil run` with a ground station's client: MAVSDK flies, lands and breaks a motor over the forwarder."""

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
from mavsdk.plugins.failure import Failure, FailureError, FailureResult, FailureType, FailureUnit  # noqa: E402
from mavsdk.plugins.mavlink_direct import MavlinkDirect  # noqa: E402
from mavsdk.plugins.param import Param  # noqa: E402
from mavsdk.plugins.telemetry import FlightMode, LandedState, Telemetry  # noqa: E402

INJECT_FAILURE = 420


def spare_instance() -> int:
    """One whose ports for SDKs are free, beyond those that other tests use."""
    for instance in range(50, 90):
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
        self.param, self.failure = Param(system), Failure(system)
        self.answers: list[dict[str, Any]] = []
        self.texts: list[str] = []
        self._direct = MavlinkDirect(system)
        self._direct.subscribe_message("COMMAND_ACK", self._answered)
        self.telemetry.subscribe_status_text(lambda text, _: self.texts.append(text.text))

    def _answered(self, message: Any, _: Any) -> None:
        """COMMAND_ACK, and who says it."""
        fields = json.loads(message.fields_json)
        if fields["command"] == INJECT_FAILURE:
            self.answers.append(fields | {"system": message.system_id, "component": message.component_id})

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
        """Take off, land."""
        telemetry = self.telemetry
        self.takes_off(height_m)
        assert math.isclose(telemetry.attitude_euler().roll_deg, 0.0, abs_tol=10.0)
        self.action.land()
        self.waits(lambda: not telemetry.armed(), "never disarmed")
        self.waits(lambda: telemetry.landed_state() == LandedState.ON_GROUND, "never landed")

    def takes_off(self, height_m: float) -> None:
        """Arm, take off, hold."""
        telemetry = self.telemetry
        self.waits(telemetry.health_all_ok, "never healthy", 90.0)
        self.action.set_takeoff_altitude(height_m)
        self.waits(self._arms, "arming is denied", 60.0)
        self.waits(telemetry.armed, "never armed", 10.0)
        self.action.takeoff()
        self.waits(lambda: telemetry.landed_state() == LandedState.IN_AIR, "never in the air")
        self.waits(lambda: abs(telemetry.position().relative_altitude_m - height_m) < 0.5, "never up")
        self.waits(lambda: telemetry.flight_mode() == FlightMode.HOLD, "never on hold")

    def asks_for_failure(self, unit: FailureUnit, instance: int) -> FailureResult:
        """What MAVSDK makes of a request to switch something off."""
        try:
            return FailureResult(self.failure.inject(unit, FailureType.OFF, instance))
        except FailureError as error:
            return FailureResult(error.result)

    def loses_a_motor(self, number: int) -> None:
        """In the air: requests that are none of the vehicle's, then the motor; the vehicle tips over.

        While the autopilot's SYS_FAILURE_EN is 0, MAVSDK itself refuses: nothing leaves it.
        """
        motor = FailureUnit.SYSTEM_MOTOR
        assert self.asks_for_failure(motor, number) is FailureResult.DISABLED
        self.param.set_param_int("SYS_FAILURE_EN", 1)
        self.failure.destroy()
        self.failure = Failure(self.system)  # one asks for the parameter once, when it is made
        asked = [(FailureUnit.SYSTEM_BATTERY, 0, FailureResult.UNSUPPORTED, 3)]
        asked += [(motor, 17, FailureResult.DENIED, 2), (motor, number, FailureResult.SUCCESS, 0)]
        for unit, instance, result, _ in asked:
            assert self.asks_for_failure(unit, instance) is result
        self.waits(self._lies_on_its_side, "never tipped over", 10.0)
        time.sleep(3.0)  # it falls, and a second answer would have come
        autopilot = {"system": self.system.get_system_id(), "component": 1}
        answers = [{"result": answer["result"]} | {key: answer[key] for key in autopilot} for answer in self.answers]
        assert answers == [{"result": wire} | autopilot for *_, wire in asked]

    def _lies_on_its_side(self) -> bool:
        attitude = self.telemetry.attitude_euler()
        roll, pitch = math.radians(attitude.roll_deg), math.radians(attitude.pitch_deg)
        return math.cos(roll) * math.cos(pitch) < 0.5


def fly(arguments: list[str], instance: int, motor: int) -> tuple[dict[str, Any], list[str]]:
    """Fly and land, fly again and lose a motor; the summary, and what the autopilot said."""
    with bridge(arguments) as process:
        pilot = Pilot(14540 + instance, process)
        try:
            assert pilot.system.get_system_id() == instance + 1
            pilot.flies(4.0)
            pilot.takes_off(4.0)
            pilot.loses_a_motor(motor)
        finally:
            pilot.client.destroy()
        process.send_signal(signal.SIGINT)
        stdout, _ = process.communicate(timeout=20)
    return json.loads(stdout), pilot.texts
