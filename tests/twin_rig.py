"""Twins for tests: made in one line, put into any state through the engine, told rotor speeds."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from firmware_profiles.loader import load_profile
from firmware_profiles.profile import VehicleParams
from firmware_profiles.signals import ActuatorCommand
from twin.environment import Home
from twin.twin import SensorBatch, Twin
from twin.world_params import WorldParams

DATE = datetime(2026, 6, 1, tzinfo=UTC)
ZURICH = Home(47.397742, 8.545594, 488.0)
G = 9.80665

replace = msgspec.structs.replace


def vehicle(name: str = "px4_iris") -> VehicleParams:
    return load_profile(name).vehicle


def twin_of(
    name: str | VehicleParams = "px4_iris",
    n: int = 1,
    *,
    home: Home = ZURICH,
    seed: int = 0,
    threads: int = 1,
    **values: Any,
) -> Twin:
    """N worlds at Zurich; `values` are parameters of the worlds."""
    params = vehicle(name) if isinstance(name, str) else name
    worlds = WorldParams.of(params, n).with_values(**values)
    return Twin(params, home=home, date=DATE, seed=seed, params=worlds, threads=threads)


def put(twin: Twin, *, height: float | None = None, rotors: Any = None, **state: Any) -> Twin:
    """Put all worlds into a state: height of the centre of mass, rotor speeds, or any of the engine's views."""
    if height is not None:
        twin._engine.pos_enu[:, 2] = height
    if rotors is not None:
        twin._actuation.rotors.speed_rad_s = np.array(
            np.broadcast_to(rotors, twin._actuation.rotors.speed_rad_s.shape), dtype=np.float64
        )
    for name, value in state.items():
        getattr(twin._engine, name)[:] = value
    return twin


def command(twin: Twin, speeds: npt.ArrayLike = 0.0) -> ActuatorCommand:
    return ActuatorCommand(np.array(np.broadcast_to(speeds, twin.bad_commands.shape), dtype=np.float64))


def run(twin: Twin, seconds: float, speeds: npt.ArrayLike = 0.0) -> list[SensorBatch]:
    told = command(twin, speeds)
    return [twin.step(told) for _ in range(round(1e6 * seconds / twin.tick_us))]


def states(twin: Twin) -> np.ndarray:
    """(N, 13) position, attitude, velocity and rates of all worlds, a copy."""
    engine = twin._engine
    return np.concatenate((engine.pos_enu, engine.q_enu_flu, engine.vel_enu, engine.rates_flu), axis=1)


def hover_speed(name: str, factor: float = 1.0) -> float:
    """Rotor speed whose thrust is a multiple of the weight."""
    params = vehicle(name)
    return float(np.sqrt(factor * params.body.mass_kg * G / (4 * params.propeller.thrust_coefficient_n_s2)))


def readings(batches: list[SensorBatch]) -> dict[str, list[np.ndarray]]:
    """All readings of one kind as lists of (N, ...) arrays."""
    return {
        "accel": [batch.accel_frd for batch in batches],
        "gyro": [batch.gyro_frd for batch in batches],
        "mag": [batch.mag_frd_gauss for batch in batches if batch.mag_frd_gauss is not None],
    }
