"""A client that knows nothing of this project flies the autopilot: MAVSDK, over the SDK's port, as it flies PX4."""

from __future__ import annotations

import json
import math
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest

mavsdk = pytest.importorskip("mavsdk")
from mavsdk.plugins.action import Action, ActionError  # noqa: E402
from mavsdk.plugins.offboard import Offboard, OffboardError, PositionNedYaw  # noqa: E402
from mavsdk.plugins.telemetry import FlightMode, LandedState, Telemetry  # noqa: E402

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]
M_PER_DEG = 111_194.9


@dataclass
class Pilot:
    """One vehicle, seen through MAVSDK."""

    system: Any
    action: Any
    telemetry: Any
    simulation: subprocess.Popen[str]

    def waits(self, condition: Callable[[], bool], what: str, within_s: float = 60.0) -> None:
        deadline = time.monotonic() + within_s
        while not condition():
            assert time.monotonic() < deadline, f"{what}: {self.telemetry.position()}"
            assert self.simulation.poll() is None
            time.sleep(0.05)

    @property
    def height_m(self) -> float:
        return self.telemetry.position().relative_altitude_m

    def is_ready(self) -> None:
        self.waits(self.telemetry.health_all_ok, "never healthy")

    def climbs(self, height_m: float) -> None:
        self.action.set_takeoff_altitude(height_m)
        assert self.action.get_takeoff_altitude() == pytest.approx(height_m)
        self.action.arm()
        self.waits(self.telemetry.armed, "never armed", 10.0)
        self.action.takeoff()
        self.waits(lambda: self.telemetry.landed_state() == LandedState.IN_AIR, "never in the air")
        self.waits(lambda: self.telemetry.flight_mode() == FlightMode.HOLD, "never on hold")
        self.waits(lambda: abs(self.height_m - height_m) < 0.3, "never up")

    def lands(self) -> None:
        self.action.land()
        self.waits(lambda: not self.telemetry.armed(), "never disarmed")
        self.waits(lambda: self.telemetry.landed_state() == LandedState.ON_GROUND, "never landed")
        assert self.height_m == pytest.approx(0.0, abs=0.5)

    def summary(self) -> dict[str, Any]:
        self.simulation.send_signal(signal.SIGINT)
        stdout, _ = self.simulation.communicate(timeout=15)
        return json.loads(stdout)


def is_spare(instance: int) -> bool:
    kinds = [(socket.SOCK_STREAM, 4560)] + [(socket.SOCK_DGRAM, port) for port in (18570, 14580, 14540)]
    for kind, port in kinds:
        with socket.socket(socket.AF_INET, kind) as sock:
            try:
                sock.bind(("127.0.0.1", port + instance))
            except OSError:
                return False
    return True


def spare_instances(count: int) -> list[int]:
    """From 1 to 9; each test worker begins elsewhere, so that two do not choose the same."""
    first = 3 * int(os.environ.get("PYTEST_XDIST_WORKER", "gw0")[2:])
    spare = [instance for instance in (1 + (first + k) % 9 for k in range(9)) if is_spare(instance)][:count]
    if len(spare) < count:
        pytest.fail("the ports of instances 1 to 9 are taken")
    return spare


@pytest.fixture
def pilot_of() -> Iterator[Callable[[int], Pilot]]:
    """Starts a simulation and connects to it."""
    simulations: list[subprocess.Popen[str]] = []
    clients: list[Any] = []

    def make(instance: int) -> Pilot:
        command = [sys.executable, "-m", "lav2_hil", "sim", "--mission", "none", "--speed", "0", "--json"]
        simulation = subprocess.Popen(
            [*command, "--no-session", "--instance", str(instance)],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            stdin=subprocess.DEVNULL,
            text=True,
        )
        simulations.append(simulation)
        client = mavsdk.Mavsdk(mavsdk.Configuration.create_with_component_type(mavsdk.ComponentType.GROUND_STATION))
        clients.append(client)
        client.add_any_connection(f"udpin://127.0.0.1:{14540 + instance}")
        system = client.first_autopilot(30.0)
        assert system is not None, "MAVSDK found no autopilot"
        assert system.get_system_id() == instance + 1
        return Pilot(system, Action(system), Telemetry(system), simulation)

    yield make
    for client in clients:
        client.destroy()
    for simulation in simulations:
        if simulation.poll() is None:
            simulation.terminate()  # and the simulation ends its autopilot
        simulation.communicate(timeout=15)


def test_a_flight(pilot_of: Callable[[int], Pilot]) -> None:
    pilot = pilot_of(*spare_instances(1))
    pilot.is_ready()
    home = pilot.telemetry.home()
    assert (home.latitude_deg, home.longitude_deg) == pytest.approx((47.397742, 8.545594), abs=1e-4)
    pilot.climbs(4.0)

    here = pilot.telemetry.position()
    goal = here.latitude_deg + 5.0 / M_PER_DEG
    pilot.action.goto_location(goal, here.longitude_deg, here.absolute_altitude_m + 2.0, 90.0)
    pilot.waits(
        lambda: abs(pilot.telemetry.position().latitude_deg - goal) * M_PER_DEG < 0.3 and pilot.height_m > 5.6,
        "never got there",
    )
    pilot.waits(lambda: abs(pilot.telemetry.heading().heading_deg - 90.0) < 5.0, "never turned east")
    with pytest.raises(ActionError):
        pilot.action.disarm()
    assert pilot.telemetry.armed()
    pilot.lands()

    summary = pilot.summary()
    assert summary["times_armed"] == 1
    assert summary["max_height_m"] == pytest.approx(6.0, abs=0.5)
    assert summary["final_position_ned_m"][0] == pytest.approx(5.0, abs=0.7)
    assert summary["reply_timeouts"] == 0


def test_offboard_from_the_ground(pilot_of: Callable[[int], Pilot]) -> None:
    """As MAVSDK's own example does: arm, stream a position, start."""
    pilot = pilot_of(*spare_instances(1))
    pilot.is_ready()
    offboard = Offboard(pilot.system)
    pilot.action.arm()
    with pytest.raises(OffboardError):
        offboard.start()
    offboard.set_position_ned(PositionNedYaw(3.0, -2.0, -4.0, 45.0))
    offboard.start()

    def there() -> bool:
        here = pilot.telemetry.position_velocity_ned().position
        return math.dist((here.north_m, here.east_m, here.down_m), (3.0, -2.0, -4.0)) < 0.3

    pilot.waits(there, "never got there", 30.0)
    pilot.waits(lambda: abs(pilot.telemetry.heading().heading_deg - 45.0) < 5.0, "never turned north-east")
    assert pilot.telemetry.flight_mode() == FlightMode.OFFBOARD
    offboard.stop()
    pilot.waits(lambda: pilot.telemetry.flight_mode() == FlightMode.HOLD, "never on hold")
    pilot.lands()
    assert pilot.summary()["times_armed"] == 1


def test_two_vehicles_at_once(pilot_of: Callable[[int], Pilot]) -> None:
    """Each goes its own way, by its instance's ports and system id."""
    pilots = [pilot_of(instance) for instance in spare_instances(2)]
    for pilot in pilots:
        pilot.is_ready()
    for pilot, height in zip(pilots, (3.0, 6.0), strict=True):
        pilot.climbs(height)
    assert pilots[0].height_m == pytest.approx(3.0, abs=0.5)
    for pilot in pilots:
        pilot.lands()
    highest = [pilot.summary()["max_height_m"] for pilot in pilots]
    assert highest == pytest.approx([3.0, 6.0], abs=0.5)
