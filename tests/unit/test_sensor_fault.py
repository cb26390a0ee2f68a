"""What is wrong with one sensor, by itself: how faults of several kinds and in several worlds go together."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from twin_rig import twin_of

from firmware_profiles.loader import load_profile
from firmware_profiles.signals import ActuatorCommand
from twin.faults import FaultChange, TwinFaults
from twin.random_streams import TickNoise
from twin.sensors.faults import SensorFault

ALL = slice(None)
STILL = ActuatorCommand(np.zeros((1, 4)))


def fault(n: int = 1, width: int = 3, affected: int = 3, limit: float = math.inf) -> SensorFault:
    return SensorFault(n, width, affected, TickNoise(1, 2), -limit, limit)


def test_scaled_first_then_biased_then_limited() -> None:
    wrong = fault(limit=10.0)
    wrong.set("scale", (3.0,), ALL)
    wrong.set("bias", (1.0, -1.0, 0.0), ALL)
    assert wrong.read(0, np.array([[2.0, 2.0, 9.0]])).tolist() == [[7.0, 5.0, 10.0]]
    wrong.set("scale", None, ALL)
    assert wrong.read(1, np.array([[2.0, 2.0, 9.0]])).tolist() == [[3.0, 1.0, 9.0]]


def test_the_reading_itself_is_left_as_it_is() -> None:
    wrong = fault()
    wrong.set("bias", (1.0,), ALL)
    reading = np.zeros((1, 3))
    assert wrong.read(0, reading).tolist() == [[1.0, 1.0, 1.0]]
    assert not reading.any()


def test_each_world_has_noise_of_its_own() -> None:
    wrong = fault(n=3)
    wrong.set("noise", (1.0,), np.array([True, False, True]))
    first, quiet, third = wrong.read(5, np.zeros((3, 3))).tolist()
    assert quiet == [0.0, 0.0, 0.0]
    assert len({*first, *third}) == 6


def test_who_asked_what_is_silent_is_not_told_of_later_changes() -> None:
    wrong = fault(n=2)
    wrong.set("silent", (), np.array([True, False]))
    told = wrong.flagged("silent")
    assert told is not None
    wrong.set("silent", None, ALL)
    assert told.tolist() == [True, False]
    assert wrong.flagged("silent") is None


def said(change: FaultChange, seed: int, field: str) -> Any:
    """What a sensor says of the first readings, with a fault and without."""
    twin = twin_of()
    batch = twin.step(STILL)
    while getattr(batch, field) is None:
        batch = twin.step(STILL)
    faults = TwinFaults(load_profile("px4_iris").vehicle, 1, seed)
    faults.change(change)
    return getattr(faults.read(7, batch), field), getattr(batch, field)


def test_noise_of_another_seed_or_sensor_is_another() -> None:
    asked = [(1, "gyro"), (2, "gyro"), (1, "accel"), (1, "mag")]
    fields = {"gyro": "gyro_frd", "accel": "accel_frd", "mag": "mag_frd_gauss"}
    noise = []
    for seed, name in asked:
        noisy, plain = said(FaultChange(name, "noise", (1.0,)), seed, fields[name])
        noise.append((noisy - plain).round(9).tobytes())
    assert len(set(noise)) == len(asked)


def test_a_barometers_bias_is_of_the_pressure_alone() -> None:
    (pressure, altitude, temperature), before = said(FaultChange("baro", "bias", (2.0,)), 0, "baro")
    assert pressure - before[0] == pytest.approx(2.0)
    assert altitude < before[1] - 10.0
    assert temperature == before[2]
