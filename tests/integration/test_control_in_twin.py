"""FlightController and Mixer fly the twin, told the truth about its state: missions, many vehicles, disturbances."""

from __future__ import annotations

import math
from datetime import UTC, datetime

import numpy as np
import pytest

from firmware_profiles.loader import load_profile
from firmware_profiles.signals import ActuatorCommand
from twin.control.arrays import Arrays
from twin.control.flight import FlightController
from twin.control.flight_params import FlightLimits
from twin.control.mixer import Mixer
from twin.environment import Home
from twin.twin import Twin
from twin.world_params import WorldParams

pytestmark = pytest.mark.slow

HOME = Home(47.397742, 8.545594, 488.0, 90.0)  # nose to the east: yaw 0
DATE = datetime(2026, 7, 1, tzinfo=UTC)
TICK_S = 0.004


class Flight:
    """N worlds with a controller that knows the nominal vehicle."""

    def __init__(self, profile: str = "px4_iris", *, params=None, mode: str = "saturation", **options) -> None:
        self.vehicle = load_profile(profile).vehicle
        self.twin = Twin(self.vehicle, home=HOME, date=DATE, params=params)
        self.n = self.twin.n
        self.controller = FlightController.of(self.vehicle, TICK_S, outer_every=5, arrays=Arrays(self.n), **options)
        self.mixer = Mixer.of(self.vehicle, allocation_mode=mode, arrays=Arrays(self.n))
        self.yaw = np.zeros((self.n, 3))
        self.largest_tilt = 0.0
        self.largest_speed = np.zeros(3)

    def state(self) -> dict[str, np.ndarray]:
        engine = self.twin._engine
        return {
            "pos": engine.pos_enu.copy(),
            "vel": engine.vel_enu.copy(),
            "att_quat": engine.q_enu_flu[:, [1, 2, 3, 0]],
            "ang_vel": engine.rates_flu.copy(),
        }

    def fly(self, seconds: float, **target: np.ndarray) -> np.ndarray:
        """Hold a target; the positions at each tick (T, N, 3)."""
        path = []
        for _ in range(round(seconds / TICK_S)):
            state = self.state()
            wrench = self.controller.update({"att_euler": self.yaw} | target, state)
            self.twin.move(ActuatorCommand(self.mixer.allocate(wrench)))
            path.append(state["pos"])
            x, y = state["att_quat"][:, 0], state["att_quat"][:, 1]
            self.largest_tilt = max(self.largest_tilt, float(np.arccos(1 - 2 * (x * x + y * y)).max()))
            self.largest_speed = np.maximum(self.largest_speed, np.abs(state["vel"]).max(axis=0))
        return np.array(path)

    def at(self, x: float, y: float, z: float) -> np.ndarray:
        return np.tile([x, y, z], (self.n, 1))

    def heading(self) -> np.ndarray:
        q = self.twin._engine.q_enu_flu
        return np.arctan2(2 * (q[:, 0] * q[:, 3] + q[:, 1] * q[:, 2]), 1 - 2 * (q[:, 2] ** 2 + q[:, 3] ** 2))


def settled(path: np.ndarray, target: np.ndarray, within: float = 0.1) -> bool:
    """Whether the last second was spent at the target."""
    return bool((np.linalg.norm(path[-250:] - target, axis=2) < within).all())


def test_takeoff_square_and_yaw() -> None:
    flight = Flight()
    path = flight.fly(6, pos=flight.at(0, 0, 5))
    assert settled(path, flight.at(0, 0, 5))
    assert path[:, 0, 2].max() < 5.15
    assert np.abs(path[:, 0, :2]).max() < 0.02
    for x, y in ((4, 0), (4, 4), (0, 4), (0, 0)):
        path = flight.fly(6.5, pos=flight.at(x, y, 5))
        assert settled(path, flight.at(x, y, 5)), (x, y, path[-1])
        assert path[:, 0, :2].max() < 4.5
        assert path[:, 0, :2].min() > -0.5
        assert np.abs(path[:, 0, 2] - 5).max() < 0.1
    flight.yaw[:, 2] = math.pi / 2
    path = flight.fly(4, pos=flight.at(0, 0, 5))
    assert abs(flight.heading()[0] - math.pi / 2) < math.radians(1)
    assert np.linalg.norm(path - flight.at(0, 0, 5), axis=2).max() < 0.2
    flight.yaw[:, 2] = math.radians(-170)  # the shorter way is across 180 degrees
    before = flight.heading()[0]
    flight.fly(0.3, pos=flight.at(0, 0, 5))
    assert flight.heading()[0] > before
    flight.fly(4, pos=flight.at(0, 0, 5))
    assert abs(flight.heading()[0] - math.radians(-170)) < math.radians(1)


def test_limits_hold_on_a_long_leg() -> None:
    limits = FlightLimits(horizontal_speed_m_s=5.0, climb_m_s=2.0, sink_m_s=1.0, tilt_rad=math.radians(20))
    flight = Flight(limits=limits)
    flight.fly(10, pos=flight.at(0, 0, 15))
    assert 1.9 < flight.largest_speed[2] < 2.25
    flight.largest_speed[:] = 0
    flight.fly(10, pos=flight.at(30, 30, 5))
    assert 0.9 < flight.largest_speed[2] < 1.15
    assert 4.6 < math.hypot(*flight.largest_speed[:2]) < 5.3
    assert math.radians(15) < flight.largest_tilt < math.radians(25)


def test_sixteen_masses_at_once() -> None:
    vehicle = load_profile("px4_iris").vehicle
    factors = np.linspace(0.75, 1.3, 16)[:, None]
    params = WorldParams.of(vehicle, 16).with_values(
        mass_kg=vehicle.body.mass_kg * factors, inertia_kg_m2=np.asarray(vehicle.body.inertia_kg_m2) * factors
    )
    flight = Flight(params=params)  # tuned for the nominal one: the integral has to find the weight
    flight.fly(8, pos=flight.at(0, 0, 5))
    path = flight.fly(9, pos=flight.at(4, 2, 5))
    assert settled(path, flight.at(4, 2, 5)), np.abs(path[-250:] - flight.at(4, 2, 5)).max(axis=(0, 2))
    informed = Flight(params=params, mass_kg=params.mass_kg, inertia_kg_m2=params.inertia_kg_m2)
    path = informed.fly(6, pos=flight.at(0, 0, 5))
    assert settled(path, flight.at(0, 0, 5))
    spread = path[:, :, 2].max(axis=1) - path[:, :, 2].min(axis=1)
    assert spread.max() < 0.06, "told their masses, they fly alike"


def test_worlds_do_not_feel_each_other() -> None:
    vehicle = load_profile("px4_iris").vehicle
    masses = WorldParams.of(vehicle, 3).with_values(mass_kg=np.array([[1.4], [1.535], [1.7]]))
    together = Flight(params=masses).fly(2, pos=np.tile([2.0, 1.0, 5.0], (3, 1)))
    alone = Flight(params=WorldParams.of(vehicle, 1).with_values(mass_kg=1.7)).fly(2, pos=np.array([[2.0, 1.0, 5.0]]))
    np.testing.assert_allclose(together[:, 2], alone[:, 0], atol=1e-9)


@pytest.mark.parametrize(("profile", "mode"), [("px4_iris", "pinv"), ("px4_x500", "saturation")])
def test_recovers_from_a_push(profile: str, mode: str) -> None:
    flight = Flight(profile, mode=mode)
    flight.fly(6, pos=flight.at(0, 0, 5))
    engine = flight.twin._engine
    engine.vel_enu[0] += (2.0, -1.0, -1.0)
    engine.rates_flu[0] += (3.0, -4.0, 1.0)
    path = flight.fly(8, pos=flight.at(0, 0, 5))
    assert 0.5 < np.linalg.norm(path - flight.at(0, 0, 5), axis=2).max() < 2.0
    assert settled(path, flight.at(0, 0, 5))
    assert abs(flight.heading()[0]) < math.radians(1)


def test_comes_back_from_upside_down() -> None:
    flight = Flight()
    flight.fly(8, pos=flight.at(0, 0, 15))
    flight.twin._engine.q_enu_flu[0] = (0.0, 1.0, 0.0, 0.0)
    path = flight.fly(10, pos=flight.at(0, 0, 15))
    assert path[:, 0, 2].min() > 5
    assert settled(path, flight.at(0, 0, 15), within=0.3)


def test_velocity_with_yaw_rate_and_back_to_position() -> None:
    flight = Flight()
    flight.fly(6, pos=flight.at(0, 0, 5))
    flight.controller.select({"vel": True, "ang_vel": True})
    turn = np.array([[0.0, 0.0, 0.5]])
    flight.fly(3, vel=np.array([[2.0, -1.0, 0.5]]), ang_vel=turn)
    # Wind from the vehicle's own drag, whose direction in the world turns with it: hence the margin.
    np.testing.assert_allclose(flight.twin._engine.vel_enu, [[2.0, -1.0, 0.5]], atol=0.15)
    assert abs(flight.heading()[0] - 1.5) < 0.1
    flight.controller.select("cmd_pos")
    assert settled(flight.fly(6, pos=flight.at(3, 0, 5)), flight.at(3, 0, 5))


def test_attitude_and_rates_are_reached() -> None:
    flight = Flight()
    flight.fly(8, pos=flight.at(0, 0, 12))
    weight = np.array([[flight.vehicle.body.mass_kg * 9.80665]])
    flight.controller.select({"att_euler": True, "thrust": True})
    flight.yaw[:] = (0.2, -0.1, 0.5)
    flight.fly(1.0, thrust=weight)
    w, x, y, z = flight.twin._engine.q_enu_flu[0]
    # XYZ intrinsic: R = Rx Ry Rz, so its first row and last column hold the angles.
    assert abs(math.asin(2 * (x * z + w * y)) + 0.1) < 0.01
    assert abs(math.atan2(-2 * (y * z - w * x), 1 - 2 * (x * x + y * y)) - 0.2) < 0.01
    assert abs(math.atan2(-2 * (x * y - w * z), 1 - 2 * (y * y + z * z)) - 0.5) < 0.02
    flight.controller.select("cmd_ctbr")
    flight.fly(0.4, thrust=weight, ang_vel=np.array([[0.5, -0.4, 0.3]]))
    np.testing.assert_allclose(flight.twin._engine.rates_flu, [[0.5, -0.4, 0.3]], atol=0.06)
