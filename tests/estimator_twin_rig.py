"""Flies worlds of the real twin along a reference, on the truth or on the estimators' own states."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from estimator_rig import DATE, DT, Errors, Motion, Mutation, Reading, feed

from firmware_profiles.loader import load_profile
from firmware_profiles.profile import VehicleParams
from firmware_profiles.signals import ActuatorCommand, SensorSample
from lav2_hil.autopilot.estimator import Estimator
from twin.environment import Home
from twin.faults import FaultChange
from twin.frames import rotation_of_quat
from twin.twin import Twin
from twin.world_params import WorldParams

G = 9.80665

Watch = Callable[[float, int, Estimator, SensorSample], None]


class Pilot:
    """A geometric controller of position and yaw, NED and FRD, for N vehicles."""

    def __init__(self, vehicle) -> None:
        body, propeller = vehicle.body, vehicle.propeller
        self._mass, self._inertia = body.mass_kg, np.array(body.inertia_kg_m2)
        self._drag = np.array(body.linear_drag_n_s_m)
        ratio = propeller.torque_coefficient_nm_s2 / propeller.thrust_coefficient_n_s2
        rows = [(1.0, r.position_flu_m[1], r.position_flu_m[0], -r.spin_dir * ratio) for r in propeller.rotors]
        self._inverse = np.linalg.pinv(np.array(rows).T)
        self._thrust = propeller.thrust_coefficient_n_s2

    def speeds(self, pos, vel, q, rates, pos_ref, vel_ref, accel_ref, yaw) -> np.ndarray:
        accel = accel_ref + 2.5 * np.clip(pos_ref - pos, -2, 2) + 3.0 * (vel_ref - vel)
        force = self._mass * (accel - (0.0, 0.0, G))  # what the rotors must push, NED
        rotation = rotation_of_quat(q)
        down = -force / np.linalg.norm(force, axis=1)[:, None]
        ahead = np.stack((np.cos(yaw), np.sin(yaw), np.zeros_like(yaw)), axis=1)
        right = np.cross(down, ahead)
        right /= np.linalg.norm(right, axis=1)[:, None]
        wanted = np.stack((np.cross(right, down), right, down), axis=2)
        error = np.matmul(wanted.transpose(0, 2, 1), rotation)
        error = 0.5 * (error - error.transpose(0, 2, 1))
        vee = np.stack((error[:, 2, 1], error[:, 0, 2], error[:, 1, 0]), axis=1)
        torque = self._inertia * (-np.array((60.0, 60.0, 12.0)) * vee - (14.0, 14.0, 6.0) * rates)
        thrust = -np.sum(force * rotation[:, :, 2], axis=1)
        forces = np.concatenate((thrust[:, None], torque), axis=1) @ self._inverse.T
        return np.sqrt(np.maximum(forces, 0.0) / self._thrust)


def stack(motions: list[Motion]) -> tuple[np.ndarray, np.ndarray]:
    """References of N worlds: velocity (T, N, 3), yaw (T, N)."""
    return np.stack([m.vel for m in motions], axis=1), np.stack([m.yaw for m in motions], axis=1)


@dataclass
class Flight:
    estimators: list[Estimator]
    errors: list[Errors]
    seen: list[dict[str, float]]
    ready_s: list[float | None]
    arming: list[list[str]]
    heights: list[float] = field(default_factory=list)
    spike: float = 0.0


def fly(
    motions: list[Motion],
    *,
    profile: str | VehicleParams = "px4_iris",
    place: tuple[float, float, float] = (47.397742, 8.545594, 488.0),
    seed: int = 0,
    mutations: list[Mutation | None] | None = None,
    on_estimate: bool = False,
    off_s: float = math.inf,
    start_s: float = 3.0,
    changes: tuple[tuple[float, FaultChange], ...] = (),
    watch: Watch = lambda time_s, world, estimator, sample: None,
) -> Flight:
    """Stand until `start_s`, follow the reference, rotors off from `off_s`; a world stops being flown when it faults.

    Each world i carries the mutation i, and its own noise. Faults of the twin change at their times [s]; `watch` looks
    at each estimator after each tick.
    """
    vehicle = load_profile(profile).vehicle if isinstance(profile, str) else profile
    capture = vehicle.sensors.motion_capture
    n = len(motions)
    heading = math.degrees(float(motions[0].yaw[0]))
    params = WorldParams.of(vehicle, n)
    twin = Twin(vehicle, home=Home(*place, heading), date=DATE, seed=seed, params=params)
    pilot = Pilot(vehicle)
    vel_ref, yaw = stack(motions)
    pos_ref = np.cumsum(vel_ref, axis=0) * DT
    accel_ref = np.gradient(vel_ref, DT, axis=0)
    estimators = [Estimator(DT, None if capture is None else capture.delay_s) for _ in range(n)]
    flight = Flight(estimators, [Errors() for _ in range(n)], [{} for _ in range(n)], [None] * n, [[]] * n)
    rotors = len(vehicle.propeller.rotors)
    command = np.zeros((n, rotors))
    origin = [twin.truth(i).pos_ned for i in range(n)]
    for tick in range(len(vel_ref)):
        time_s = tick * DT
        for when_s, change in changes:
            if tick == round(when_s / DT):
                twin.fault(change)
        batch = twin.step(ActuatorCommand(command))
        flight.spike = max(flight.spike, float(np.abs(batch.accel_frd).max()))
        state = []
        for i, estimator in enumerate(estimators):
            sample = twin.sample_of(batch, (tick + 1) * twin.tick_us, i, truth=True)
            truth = sample.truth
            pressure = None if sample.baro is None else sample.baro.pressure_hpa
            reading = Reading(
                sample.time_us,
                sample.accel_frd,
                sample.gyro_frd,
                sample.mag_frd_gauss,
                pressure,
                sample.gps,
                truth.pos_ned,
                truth.vel_ned,
                truth.q_ned_frd,
            )
            if mutations is not None and mutations[i] is not None:
                reading = mutations[i](reading)
            feed(estimator, reading)
            if sample.motion_capture is not None:
                estimator.pose(sample.motion_capture)
            watch(time_s, i, estimator, sample)
            if estimator.ready:
                if flight.ready_s[i] is None:
                    flight.ready_s[i] = time_s
                if tick % 5 == 0:
                    # The twin counts from the ground, the estimator from where it stands.
                    flight.errors[i].add(
                        estimator, np.subtract(truth.pos_ned, origin[i]), truth.vel_ned, truth.q_ned_frd
                    )
                    for fault in estimator.faults:
                        flight.seen[i].setdefault(fault, time_s)
            if on_estimate and estimator.ready:
                s = estimator.state
                state.append((*s.pos_ned, *s.vel_ned, *s.q_ned_frd, *s.rates_frd))
            else:
                state.append((*truth.pos_ned, *truth.vel_ned, *truth.q_ned_frd, *truth.rates_frd))
        if time_s < start_s:
            flight.arming = [estimator.arming_faults() for estimator in estimators] if tick % 25 == 0 else flight.arming
            continue
        s = np.array(state)
        command = pilot.speeds(
            s[:, 0:3], s[:, 3:6], s[:, 6:10], s[:, 10:13], pos_ref[tick], vel_ref[tick], accel_ref[tick], yaw[tick]
        )
        grounded = [bool(flight.arming[i] or flight.seen[i] or not estimators[i].ready) for i in range(n)]
        if time_s >= off_s:
            command[:] = 0.0
        elif on_estimate:
            command[grounded] = 0.0
        if on_estimate and all(grounded):
            break
    flight.heights = [-twin.truth(i).pos_ned[2] for i in range(n)]
    return flight
