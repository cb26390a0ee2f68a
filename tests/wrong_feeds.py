"""What may be wrong with a vehicle's sensor feed, done to its samples on their way out."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

from firmware_profiles.signals import SensorSample

Change = Callable[[SensorSample], SensorSample]
replace = dataclasses.replace


def unchanged(sample: SensorSample) -> SensorSample:
    return sample


def without_gps(sample: SensorSample) -> SensorSample:
    return replace(sample, gps=None)


def few_satellites(sample: SensorSample) -> SensorSample:
    return sample if sample.gps is None else replace(sample, gps=replace(sample.gps, satellites=4))


def without_magnetometer(sample: SensorSample) -> SensorSample:
    return replace(sample, mag_frd_gauss=None)


def without_barometer(sample: SensorSample) -> SensorSample:
    return replace(sample, baro=None)


def strong_magnet(sample: SensorSample) -> SensorSample:
    field = sample.mag_frd_gauss
    return sample if field is None else replace(sample, mag_frd_gauss=(1.6 * field[0], 1.6 * field[1], 1.6 * field[2]))


def constant_barometer() -> Change:
    first: list[SensorSample] = []

    def change(sample: SensorSample) -> SensorSample:
        if sample.baro is None:
            return sample
        first.append(sample)
        return replace(sample, baro=first[0].baro)

    return change
