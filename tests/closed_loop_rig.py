"""The controllers in the twin: many worlds that differ, noisy states, and what is measured of them.

The test (tests/integration/test_closed_loop.py) and the table in the documents (tools/closed_loop.py) both come from
here. Thresholds are fixed in `LIMITS`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import msgspec
import numpy as np

from firmware_profiles.loader import load_profile
from firmware_profiles.profile import VehicleParams
from firmware_profiles.signals import ActuatorCommand
from twin.control.adaptive import AdaptiveController
from twin.control.arrays import Arrays
from twin.control.base import ControllerBase
from twin.control.differential import DifferentialDriveController
from twin.control.flight import FlightController
from twin.control.flight_params import FlightGains
from twin.control.geometric import GeometricController
from twin.control.mixer import Mixer
from twin.control.pid import PidGains
from twin.control.stack import FlightStack
from twin.control.state_noise import AttitudeNoise, StateNoise
from twin.control.states import flight_state, ground_state
from twin.control.trajectory import Circle, Trajectory, only
from twin.control.utils import StepResponse, step_response
from twin.control.way_points import WayPointSequence
from twin.environment import Home
from twin.frames import heading_of_euler_xyz, quat_multiply, xyzw_of_wxyz
from twin.twin import Twin
from twin.world_params import WorldParams

HOME = Home(47.397742, 8.545594, 488.0, 90.0)  # nose to the east: yaw 0
DATE = datetime(2026, 7, 1, tzinfo=UTC)
HEIGHT_M = 5.0
CONTROLLERS = ("pid", "geometric", "adaptive")
PID_GAINS = FlightGains(
    position=(1.4, 1.4, 1.4),
    velocity=PidGains((2.6, 2.6, 5.0), (0.8, 0.8, 3.0), (0.1, 0.1, 0.0), integral_limit=(5.0, 5.0, 9.8), cutoff_hz=5.0),
)
"""Stiffer above the attitude than PX4's defaults, whose horizontal loops give way to drag by 0.3 m on the circle."""


@dataclass(frozen=True)
class Limits:
    """What all worlds must keep to."""

    hover_rms_m: float = 0.15
    circle_rms_m: float = 0.35
    upset_settled_s: float = 2.0
    upset_lost_m: float = 1.5


LIMITS = Limits()


def scattered(vehicle: VehicleParams, n: int, *, seed: int = 0, spread: float = 0.1, mass: float = 1.0) -> WorldParams:
    """Worlds whose mass, moments of inertia and thrust differ by up to `spread`, evenly; the first one is nominal.

    World i is the same whatever n. Where the third moment would be more than a body can have, it is that.
    """
    factors = np.array([np.random.default_rng([seed, world]).uniform(-1.0, 1.0, 5) for world in range(n)])
    factors[0] = 0.0
    factors = 1.0 + spread * factors
    inertia = np.asarray(vehicle.body.inertia_kg_m2) * factors[:, 1:4]
    inertia[:, 2] = np.minimum(inertia[:, 2], 0.999 * (inertia[:, 0] + inertia[:, 1]))
    propeller = vehicle.flying_propeller()
    return WorldParams.of(vehicle, n).with_values(
        mass_kg=vehicle.body.mass_kg * mass * factors[:, :1],
        inertia_kg_m2=inertia,
        thrust_coefficient_n_s2=propeller.thrust_coefficient_n_s2 * factors[:, 4:5],
    )


def controller_of(name: str, vehicle: VehicleParams, n: int) -> ControllerBase:
    """A controller that knows the nominal vehicle."""
    arrays, dt_s = Arrays(n), vehicle.step_dt_s
    makers: dict[str, Callable[[], ControllerBase]] = {
        "pid": lambda: FlightController.of(vehicle, dt_s, outer_every=5, gains=PID_GAINS, arrays=arrays),
        "geometric": lambda: GeometricController.of(vehicle, arrays=arrays),
        "adaptive": lambda: AdaptiveController.of(vehicle, dt_s=dt_s, arrays=arrays),
    }
    return makers[name]()


class Flight:
    """N worlds under one controller; what it is told is not the truth."""

    def __init__(
        self,
        name: str,
        n: int = 64,
        *,
        profile: str = "px4_iris",
        seed: int = 0,
        mass: float = 1.0,
        spread: float = 0.1,
        noisy: bool = True,
        drift: bool = True,
        mixer: str = "saturation",
    ) -> None:
        self.vehicle = vehicle = load_profile(profile).vehicle
        params = scattered(vehicle, n, seed=seed, spread=spread, mass=mass)
        self.twin = Twin(vehicle, home=HOME, date=DATE, params=params)
        self.n, self.dt_s = n, vehicle.step_dt_s
        self.controller = controller_of(name, vehicle, n)
        self.stack = FlightStack(self.controller, Mixer.of(vehicle, allocation_mode=mixer, arrays=Arrays(n)))
        sensors, attitude = vehicle.sensors, AttitudeNoise()
        if not drift:
            still = msgspec.structs.replace(sensors.gnss, horizontal_drift_m=0.0, vertical_drift_m=0.0)
            sensors = msgspec.structs.replace(sensors, gnss=still)
            attitude = AttitudeNoise(tilt_drift_rad=0.0, heading_drift_rad=0.0)
        noise = StateNoise(sensors, tick_us=vehicle.step_dt_us, seed=seed, worlds=range(n), attitude=attitude)
        self.noise = noise if noisy else None
        self.level = np.zeros((n, 3))

    def told(self) -> dict[str, Any]:
        """The state dictionary as the controller gets it."""
        states = self.twin.states()
        if self.noise is not None:
            states = self.noise.told(states)
        quat = xyzw_of_wxyz(states[:, 3:7], xp=np)
        return flight_state(states[:, 0:3], states[:, 7:10], quat, states[:, 10:13], xp=np)

    def fly(self, seconds: float, target_at: Callable[[float], dict[str, Any]]) -> np.ndarray:
        """The true states (T, N, 13) after each tick."""
        path = []
        for tick in range(round(seconds / self.dt_s)):
            speeds = self.stack.update(target_at(tick * self.dt_s), self.told())
            self.twin.move(ActuatorCommand(speeds))
            path.append(self.twin.states())
        return np.array(path)

    def hold(self, seconds: float, x: float = 0.0, y: float = 0.0, z: float = HEIGHT_M) -> np.ndarray:
        target = {"pos": np.tile((x, y, z), (self.n, 1)), "att_euler": self.level}
        return self.fly(seconds, lambda _: target)

    def take_off(self) -> None:
        """To where all experiments begin; the mask is left at position alone."""
        self.stack.select("cmd_pos")
        self.hold(8.0)

    def upset(self, angle_rad: float, seed: int = 1) -> None:
        """Tilt all worlds by an angle, each about a horizontal axis of its own."""
        heading = np.random.default_rng(seed).uniform(0.0, 2 * math.pi, self.n)
        sin, zero = math.sin(angle_rad / 2), np.zeros(self.n)
        turn = np.stack((zero + math.cos(angle_rad / 2), sin * np.cos(heading), sin * np.sin(heading), zero), axis=1)
        engine = self.twin._engine
        engine.q_enu_flu[:] = quat_multiply(turn, engine.q_enu_flu)


def rms(error: np.ndarray) -> np.ndarray:
    """(N,) root of the mean square length of errors (T, N, 3)."""
    return np.sqrt((error**2).sum(axis=2).mean(axis=0))


def tilt(states: np.ndarray) -> np.ndarray:
    """(T, N) angle of the thrust axis against the vertical."""
    up = 1.0 - 2.0 * (states[..., 4] ** 2 + states[..., 5] ** 2)
    return np.arccos(np.clip(up, -1.0, 1.0))


def hover(flight: Flight, seconds: float = 8.0) -> np.ndarray:
    """(N,) RMS distance from the place to hold."""
    return rms(flight.hold(seconds)[..., :3] - (0.0, 0.0, HEIGHT_M))


def follow(flight: Flight, path: Trajectory, settle_s: float, measure_s: float) -> np.ndarray:
    """(N,) RMS distance from a moving target, after it has been followed for a while; with feed-forward."""
    channels = ("pos", "vel", "acc", "att_euler")
    flight.stack.select(dict.fromkeys(channels, True))
    states = flight.fly(settle_s + measure_s, lambda time_s: only(path.target(time_s), channels))
    flight.stack.select("cmd_pos")
    skip = round(settle_s / flight.dt_s)
    wanted = np.array([path.target(tick * flight.dt_s)["pos"] for tick in range(skip + 1, len(states) + 1)])
    return rms(states[skip:, :, :3] - wanted)


def circle(flight: Flight, laps: float = 1.5) -> np.ndarray:
    """(N,) RMS distance on a circle of 2 m at 1.5 m/s, from the end of the first lap."""
    lap_s = 2 * math.pi * 2.0 / 1.5
    path = Circle((-2.0, 0.0, HEIGHT_M), 2.0, 1.5, arrays=Arrays(flight.n))
    return follow(flight, path, lap_s, (laps - 0.5) * lap_s)


@dataclass(frozen=True)
class Upset:
    """After a tilt of 30 degrees: when it is below 5 for good, and how much height is lost, each (N,)."""

    settled_s: np.ndarray
    lost_m: np.ndarray


def upset(flight: Flight) -> Upset:
    flight.hold(6.0)
    before = flight.twin.states()[:, 2]
    flight.upset(math.radians(30.0))
    states = flight.hold(4.0)
    beyond = tilt(states) >= math.radians(5.0)
    last = np.where(beyond.any(axis=0), len(beyond) - np.argmax(beyond[::-1], axis=0), 0)
    return Upset(last * flight.dt_s, np.maximum(before - states[..., 2].min(axis=0), 0.0))


@dataclass(frozen=True)
class Step:
    """One step of an inner loop, and the most that is allowed of its figures.

    Acceleration and velocity have drag against them, and masses and thrusts that the controller does not know: where
    no integral and no estimate knows better, their end is some way off.
    """

    mode: str
    text: str
    seconds: float
    delay_s: float
    overshoot: float
    final_error: float


STEPS = (
    Step("cmd_ctbr", "1 rad/s of roll rate", 0.6, 0.1, 0.35, 0.15),
    Step("cmd_ctatt", "15 degrees of roll", 1.2, 0.3, 0.2, 0.1),
    Step("cmd_vel", "2 m/s to the east", 5.0, 1.0, 0.2, 0.15),
    Step("cmd_acc", "1.5 m/s^2 to the east", 0.9, 0.5, 0.25, 0.4),
)


def respond(name: str, step: Step, n: int = 64) -> StepResponse:
    """The step responses of N worlds."""
    flight = Flight(name, n)
    flight.take_off()
    weight = np.full((n, 1), flight.vehicle.total_mass_kg * flight.vehicle.environment.gravity_m_s2)
    east, level = np.tile((1.0, 0.0, 0.0), (n, 1)), flight.level
    targets: dict[str, tuple[dict[str, Any], float]] = {
        "cmd_ctbr": ({"thrust": weight, "ang_vel": east}, 1.0),
        "cmd_ctatt": ({"thrust": weight, "att_euler": math.radians(15.0) * east}, math.radians(15.0)),
        "cmd_vel": ({"vel": 2.0 * east, "att_euler": level}, 2.0),
        "cmd_acc": ({"acc": 1.5 * east, "att_euler": level}, 1.5),
    }
    target, height = targets[step.mode]
    flight.stack.select(dict.fromkeys(target, True))
    before = flight.twin.states()
    states = np.concatenate((before[None], flight.fly(step.seconds, lambda _: target)))
    times = np.arange(len(states)) * flight.dt_s
    if step.mode == "cmd_ctbr":
        values = states[..., 10]
    elif step.mode == "cmd_ctatt":
        values = np.array([flight_state(*_parts(row), xp=np)["att_euler"][:, 0] for row in states])
    elif step.mode == "cmd_vel":
        values = states[..., 7]
    else:  # over a tenth of a second, for velocity is not acceleration
        window = round(0.1 / flight.dt_s)
        values = (states[window:, :, 7] - states[:-window, :, 7]) / (window * flight.dt_s)
        times = times[: len(values)]
    return step_response(times, values, 0.0, height)


def _parts(row: np.ndarray) -> tuple[np.ndarray, ...]:
    return row[:, 0:3], row[:, 7:10], xyzw_of_wxyz(row[:, 3:7], xp=np), row[:, 10:13]


@dataclass(frozen=True)
class Drive:
    """How a drive over way-points ended, each (N,)."""

    distance_m: np.ndarray
    heading_error_rad: np.ndarray
    points_reached: np.ndarray


def drive(profile: str, points: np.ndarray, final_heading_rad: float, seconds: float, n: int = 16) -> Drive:
    """N worlds drive over way-points and turn to a heading at the last one; states are noisy."""
    vehicle = load_profile(profile).vehicle
    ground = vehicle.ground_drive
    assert ground is not None
    twin = Twin(vehicle, home=HOME, date=DATE, params=WorldParams.of(vehicle, n))
    noise = StateNoise(vehicle.sensors, tick_us=vehicle.step_dt_us, seed=0, worlds=range(n))
    arrays = Arrays(n)
    controller = DifferentialDriveController(
        dt_s=vehicle.step_dt_s,
        width_m=ground.allocation_width_m,
        wheel_radius_m=ground.wheel_radius_m,
        max_speed_m_s=min(ground.max_speed_m_s, 1.0),
        max_yaw_rate_rad_s=min(ground.max_yaw_rate_rad_s, 1.2),
        leave_radius_m=0.75,
        control_mask={"pos": True, "att_euler": True},
        arrays=arrays,
    )
    sequence = WayPointSequence(points, 0.5, final_heading_rad, arrays)
    still = np.zeros((n, len(vehicle.rotors)))
    reached = np.zeros(n)
    for _ in range(round(seconds / vehicle.step_dt_s)):
        state = ground_state(*_parts(noise.told(twin.states())), xp=np)
        sides = controller.update(sequence.target(state["pos"]), state)
        twin.move(ActuatorCommand(still, sides))
        reached = sequence.index[:, 0]
    states = twin.states()
    truth = ground_state(*_parts(states), xp=np)
    heading = heading_of_euler_xyz(truth["att_euler"], xp=np)[:, 0]
    error = np.remainder(heading - final_heading_rad + math.pi, 2 * math.pi) - math.pi
    return Drive(np.linalg.norm(states[:, :2] - points[-1, :2], axis=1), error, reached)
