"""Readings that wait for the next HIL_SENSOR: what it says of the ticks that were not sent."""

from __future__ import annotations

import pytest

from bridge.held_readings import HeldReadings
from firmware_profiles.signals import BaroSample, GpsFix, SensorSample

BAROS = [BaroSample(950.0 + number, 500.0, 20.0) for number in range(3)]
FIXES = [GpsFix(number, 47.0, 8.0, 500.0, (0.0, 0.0, 0.0), 1.0, 1.0, 9, 3) for number in range(3)]
MAGS = [(0.1 * number, 0.0, 0.4) for number in range(1, 4)]


def test_means_of_the_imu_and_the_newest_of_the_others() -> None:
    held = HeldReadings()
    for number in range(2):
        imu = (1.0 + number, 0.0, -9.0), (0.0, 0.3 * number, 0.0)
        held.hold(SensorSample(4000 * number, *imu, MAGS[number], BAROS[number], FIXES[number]))
    last = SensorSample(8000, (6.0, 3.0, -12.0), (0.3, 0.0, 0.0), None, None, None)
    told = held.merged(last)
    assert told.time_us == 8000
    assert told.accel_frd == pytest.approx((3.0, 1.0, -10.0))
    assert told.gyro_frd == pytest.approx((0.1, 0.1, 0.0))
    assert (told.mag_frd_gauss, told.baro, told.gps) == (MAGS[1], BAROS[1], FIXES[1])


def test_what_is_told_is_not_told_again() -> None:
    held = HeldReadings()
    first = SensorSample(0, (1.0, 0.0, 0.0), (1.0, 0.0, 0.0), MAGS[0], BAROS[0], FIXES[0])
    held.hold(first)
    held.merged(first)
    plain = SensorSample(4000, (5.0, 0.0, 0.0), None, None, None, None)
    assert held.merged(plain) is plain


def test_its_own_newer_readings_count_and_none_is_none() -> None:
    held = HeldReadings()
    held.hold(SensorSample(0, None, None, MAGS[0], BAROS[0], FIXES[0]))
    told = held.merged(SensorSample(4000, None, None, MAGS[2], BAROS[2], FIXES[2]))
    assert (told.accel_frd, told.gyro_frd) == (None, None)
    assert (told.mag_frd_gauss, told.baro, told.gps) == (MAGS[2], BAROS[2], FIXES[2])
