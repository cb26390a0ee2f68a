"""Motion without physics, and what ideal sensors with noise say of it, for the estimator's tests."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime

import numpy as np

from firmware_profiles.signals import GpsFix
from lav2_hil.autopilot.estimator import Estimator
from twin.environment import LocalFrame, magnetic_field_ned_gauss, pressure_altitude_m, pressure_hpa_at
from twin.frames import euler_zyx_of_quat, quat_multiply, rotation_of_quat

G = 9.80665
DATE = datetime(2026, 6, 1, 12, tzinfo=UTC)
ZURICH, SYDNEY, TROMSO = (47.397742, 8.545594, 488.0), (-33.86, 151.2, 20.0), (69.65, 18.96, 100.0)
DT_US = 4000
DT = 1e-6 * DT_US


@dataclass(frozen=True)
class Reading:
    """All that arrives at a tick, and the truth."""

    time_us: int
    accel: tuple[float, float, float]
    gyro: tuple[float, float, float]
    mag: tuple[float, float, float] | None
    pressure_hpa: float | None
    fix: GpsFix | None
    pos: np.ndarray
    vel: np.ndarray
    q: np.ndarray


Mutation = Callable[[Reading], Reading]


def quat_of_euler(roll: np.ndarray, pitch: np.ndarray, yaw: np.ndarray) -> np.ndarray:
    zero = np.zeros_like(roll)
    qx = np.stack((np.cos(roll / 2), np.sin(roll / 2), zero, zero), axis=-1)
    qy = np.stack((np.cos(pitch / 2), zero, np.sin(pitch / 2), zero), axis=-1)
    qz = np.stack((np.cos(yaw / 2), zero, zero, np.sin(yaw / 2)), axis=-1)
    return quat_multiply(quat_multiply(qz, qy), qx)


@dataclass
class Motion:
    """Velocity (T, 3) NED and heading (T,) at every tick; attitude that of a multirotor with drag, or level."""

    vel: np.ndarray
    yaw: np.ndarray
    drag_per_kg: float = 0.2
    level: bool = False
    tilt: tuple[float, float] = (0.0, 0.0)

    def attitude(self) -> np.ndarray:
        if self.level:
            one = np.ones_like(self.yaw)
            return quat_of_euler(self.tilt[0] * one, self.tilt[1] * one, self.yaw)
        accel = np.gradient(self.vel, DT, axis=0)
        across = accel + self.drag_per_kg * self.vel * (1, 1, 0)
        up = across - (0.0, 0.0, G)
        up = -up / np.linalg.norm(up, axis=1)[:, None]  # body z, down
        c, s = np.cos(self.yaw), np.sin(self.yaw)
        x, y = c * up[:, 0] + s * up[:, 1], -s * up[:, 0] + c * up[:, 1]
        return quat_of_euler(-np.arcsin(y), np.arctan2(x, up[:, 2]), self.yaw)


def ramp(times: list[float], values: list[float], rise_s: float = 0.6) -> np.ndarray:
    """Values held from each time on, with smooth (cosine) passages of `rise_s`; the last time ends it."""
    t = np.arange(round(times[-1] / DT)) * DT
    out = np.full(t.shape, values[0])
    for start, before, after in zip(times[1:-1], values[:-1], values[1:], strict=True):
        s = np.clip((t - start) / rise_s, 0.0, 1.0)
        out += (after - before) * 0.5 * (1.0 - np.cos(np.pi * s))
    return out


def readings(
    motion: Motion,
    place: tuple[float, float, float] = ZURICH,
    seed: int = 0,
    field_ned: np.ndarray | None = None,
    noise: float = 1.0,
    shake: np.ndarray | None = None,
) -> Iterator[Reading]:
    """What the sensors of the shipped profiles say: IMU 250 Hz, magnetometer and barometer 50 Hz, GNSS 10 Hz."""
    rng = np.random.default_rng(seed)
    vel = motion.vel if shake is None else motion.vel + shake
    pos = np.concatenate((np.zeros((1, 3)), np.cumsum(0.5 * DT * (vel[1:] + vel[:-1]), axis=0)))
    q = motion.attitude()
    frame = LocalFrame(*place)
    field = magnetic_field_ned_gauss(*place, DATE) if field_ned is None else field_ned
    middle = q[1:] + q[:-1]
    middle /= np.linalg.norm(middle, axis=1)[:, None]
    force = np.matmul((np.diff(vel, axis=0) / DT - (0, 0, G))[:, None, :], rotation_of_quat(middle))[:, 0]
    turn = quat_multiply(q[:-1] * (1, -1, -1, -1), q[1:])
    turn = np.where(turn[:, :1] < 0, -turn, turn)
    rates = 2.0 * turn[:, 1:] / DT
    angle = np.linalg.norm(turn[:, 1:], axis=1, keepdims=True)
    rates *= np.where(angle > 1e-9, np.arcsin(np.minimum(angle, 1)) / np.maximum(angle, 1e-9), 1.0)
    n = len(force)
    accel = force + noise * rng.normal(0.0, 0.02, (n, 3))
    gyro = rates + noise * rng.normal(0.0, 0.002, (n, 3)) + rng.normal(0.0, 0.001, 3) * noise
    mag = np.matmul(field, rotation_of_quat(q[1:])) + noise * rng.normal(0.0, 0.001, (n, 3))
    hpa = pressure_hpa_at(place[2] - pos[1:, 2]) + noise * rng.normal(0.0, 0.02, n)
    late = 3
    gps_pos = pos[1:] + noise * rng.normal(0.0, 1.0, (n, 3)) * (0.02, 0.02, 0.03)
    gps_vel = vel[1:] + noise * rng.normal(0.0, 0.02, (n, 3))
    utc0 = round(DATE.timestamp() * 1e6)
    for k in range(n):
        fix = None
        if k >= late and (k - late) % 25 == 0:
            lat, lon, alt = frame.to_geodetic(gps_pos[k - late : k - late + 1])
            fix = GpsFix(
                utc0 + (k - late) * DT_US,
                float(lat[0]),
                float(lon[0]),
                float(alt[0]),
                tuple(gps_vel[k - late].tolist()),
                0.3,
                0.4,
                12,
                3,
            )
        slow = k % 5 == 0
        yield Reading(
            (k + 1) * DT_US,
            tuple(accel[k].tolist()),
            tuple(gyro[k].tolist()),
            tuple(mag[k].tolist()) if slow else None,
            float(hpa[k]) if slow else None,
            fix,
            pos[k + 1],
            vel[k + 1],
            q[k + 1],
        )


def feed(estimator: Estimator, reading: Reading) -> None:
    estimator.imu(reading.time_us, reading.accel, reading.gyro)
    if reading.pressure_hpa is not None:
        estimator.baro(reading.pressure_hpa)
    if reading.mag is not None:
        estimator.mag(reading.mag)
    if reading.fix is not None:
        estimator.gps(reading.fix)


@dataclass
class Errors:
    """Largest differences from the truth: position [m], velocity [m/s], tilt and heading [degrees]."""

    pos: float = 0.0
    vel: float = 0.0
    tilt: float = 0.0
    heading: float = 0.0

    def add(self, estimator: Estimator, pos: np.ndarray, vel: np.ndarray, q: np.ndarray) -> None:
        state = estimator.state
        self.pos = max(self.pos, float(np.linalg.norm(np.subtract(state.pos_ned, pos))))
        self.vel = max(self.vel, float(np.linalg.norm(np.subtract(state.vel_ned, vel))))
        error = quat_multiply(np.array(state.q_ned_frd), np.asarray(q) * (1, -1, -1, -1))
        self.tilt = max(self.tilt, math.degrees(2.0 * math.hypot(error[1], error[2])))
        self.heading = max(self.heading, math.degrees(2.0 * abs(math.asin(max(-1, min(1, float(error[3])))))))

    def assert_small(self) -> None:
        assert self.pos < 0.5, self
        assert self.vel < 0.2, self
        assert self.tilt < 2.0, self
        assert self.heading < 3.0, self


@dataclass
class Result:
    """How a flight went."""

    estimator: Estimator
    errors: Errors
    seen: dict[str, float]
    """Faults and when each was first there [s]."""
    ready_s: float | None


def run(stream: Iterator[Reading], mutate: Mutation | None = None) -> Result:
    """Feed a whole stream."""
    estimator, errors, seen, ready_s = Estimator(DT), Errors(), {}, None
    for reading in stream:
        feed(estimator, mutate(reading) if mutate is not None else reading)
        if estimator.ready:
            if ready_s is None:
                ready_s = 1e-6 * reading.time_us
            if reading.time_us % (5 * DT_US) == 0:
                errors.add(estimator, reading.pos, reading.vel, reading.q)
                for fault in estimator.faults:
                    seen.setdefault(fault, 1e-6 * reading.time_us)
    return Result(estimator, errors, seen, ready_s)


def rest(seconds: float, heading_deg: float = 0.0, tilt: tuple[float, float] = (0.0, 0.0)) -> Motion:
    n = round(seconds / DT)
    return Motion(np.zeros((n, 3)), np.full(n, math.radians(heading_deg)), level=True, tilt=tilt)


def square_flight(speed: float = 2.0, heading_deg: float = 0.0, yaw_turns: bool = False, drag: float = 0.2) -> Motion:
    """Three seconds on the ground, climb to 3 m, a square, descent."""
    legs = [0.0, 3.0, 8.0, 11.0, 14.0, 17.0, 20.0, 25.0]
    north = ramp(legs, [0.0, 0.0, speed, 0.0, -speed, 0.0, 0.0])
    east = ramp(legs, [0.0, 0.0, 0.0, speed, 0.0, -speed, 0.0])
    down = ramp([0.0, 3.0, 6.0, 21.0, 24.0, 25.0], [0.0, -1.0, 0.0, 1.0, 0.0])
    turns = [0.0, 9.0, 12.0, 15.0, 25.0]
    yaw = math.radians(heading_deg) + ramp(turns, [0.0, 1.5, -1.2, 2.5] if yaw_turns else [0.0] * 4, 1.0)
    return Motion(np.stack((north, east, down), axis=1), yaw, drag_per_kg=drag)


def fast_flight(heading_deg: float = 0.0) -> Motion:
    """A climb, then figures at 3 m/s with tilts of 30 degrees and 90 deg/s of yaw."""
    t = np.arange(round(30.0 / DT)) * DT
    on = 0.5 * (1.0 - np.cos(np.pi * np.clip((t - 6.0) / 2.0, 0.0, 1.0)))
    north, east = 3.0 * on * np.sin(1.8 * (t - 6.0)), 3.0 * on * np.sin(1.3 * (t - 6.0) + 0.5)
    down = ramp([0.0, 3.0, 5.0, 30.0], [0.0, -1.5, 0.0])
    yaw = math.radians(heading_deg) + on * (math.pi / 2) / 0.7 * np.sin(0.7 * (t - 6.0))
    return Motion(np.stack((north, east, down), axis=1), yaw)


def drive(heading_deg: float = 0.0, seed: int = 0, arcs: int = 2, lateral: float = 0.6) -> Motion:
    """A rover: start to 1.5 m/s, arcs of 1.5 s with `lateral` m/s^2, stop."""
    t = np.arange(round(20.0 / DT)) * DT
    speed = ramp([0.0, 4.0, 17.0, 20.0], [0.0, 1.5, 0.0], 1.0)
    marks, values = [0.0], [0.0]
    for k in range(arcs):
        marks += [6.0 + 5.0 * k, 7.5 + 5.0 * k]
        values += [lateral / 1.5 * (1 if k % 2 == 0 else -1), 0.0]
    rate = ramp([*marks, 20.0], values, 0.1)
    yaw = math.radians(heading_deg) + np.cumsum(rate) * DT
    vel = np.stack((speed * np.cos(yaw), speed * np.sin(yaw), np.zeros_like(t)), axis=1)
    return Motion(vel, yaw, level=True)


def flipped(name: str, axis: int = 0, home_alt: float = ZURICH[2]) -> Mutation:
    """One sensor axis turned round; `baro` is turned round about the home altitude."""
    sign = np.ones(3)
    sign[axis] = -1.0

    def flip(value: tuple[float, float, float]) -> tuple[float, float, float]:
        return tuple((np.array(value) * sign).tolist())

    def mutate(r: Reading) -> Reading:
        if name == "accel":
            return replace(r, accel=flip(r.accel))
        if name == "gyro":
            return replace(r, gyro=flip(r.gyro))
        if name == "mag":
            return r if r.mag is None else replace(r, mag=flip(r.mag))
        if name == "gps":
            return r if r.fix is None else replace(r, fix=replace(r.fix, vel_ned=flip(r.fix.vel_ned)))
        if r.pressure_hpa is None:
            return r
        return replace(r, pressure_hpa=float(pressure_hpa_at(2 * home_alt - pressure_altitude_m(r.pressure_hpa))))

    return mutate


def euler_deg(q: tuple[float, ...]) -> np.ndarray:
    return np.degrees(euler_zyx_of_quat(np.array(q)))
