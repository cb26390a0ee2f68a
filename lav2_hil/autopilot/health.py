"""The estimator's opinion of its sensors: innovations, signs, and the magnetic field, as named faults."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lav2_hil.autopilot.consistency import InnovationMonitor
from lav2_hil.autopilot.preflight import field_faults
from lav2_hil.autopilot.sign_checks import SignChecks

if TYPE_CHECKING:
    from collections.abc import Sequence

    from firmware_profiles.signals import Vec3
    from lav2_hil.autopilot.eskf import Eskf

FIELD_SMOOTH_S = 1.0
FIELD_PERSISTS_S = 1.0
_MAX_DT = 0.35
"""A sensor that is slow needs three bad readings, not one, to be wrong for a second [s]."""
_NAMES = (
    *(f"GPS position {axis} disagrees with inertial sensors" for axis in ("north", "east", "down")),
    *(f"GPS velocity {axis} disagrees with inertial sensors" for axis in ("north", "east", "down")),
    "barometer disagrees with the estimated height",
    "magnetometer disagrees with the estimated heading",
)
_BARO, _HEADING = 6, 7


class Health:
    """Collects evidence about the sensors of one flight.

    Args:
        field_ned: the Earth's magnetic field by the world model [gauss].

    Attributes:
        signs: pairs of sensors that must move the same way.
        field_ned: the measured field, turned to NED and low-passed [gauss]; None before the first.
    """

    def __init__(self, field_ned: Vec3) -> None:
        self.signs = SignChecks()
        self.field_ned: Vec3 | None = None
        self._expected_field = field_ned
        self._innovations = [InnovationMonitor() for _ in _NAMES]
        self._field_bad_s = 0.0

    def gnss(self, ratios: Sequence[float], dt: float) -> None:
        """Take in the six innovations of a fix, over their standard deviations, `dt` [s] after the fix before."""
        for monitor, ratio in zip(self._innovations, ratios, strict=False):
            monitor.add(ratio, min(dt, _MAX_DT))

    def height(self, ratio: float, dt: float) -> None:
        """Take in an innovation of the barometer's height."""
        self._innovations[_BARO].add(ratio, min(dt, _MAX_DT))

    def heading(self, ratio: float, dt: float) -> None:
        """Take in an innovation of the magnetic heading."""
        self._innovations[_HEADING].add(ratio, min(dt, _MAX_DT))

    def field(self, field: Vec3, dt: float) -> None:
        """Take in a measured field, turned to NED by the estimated attitude [gauss]."""
        x, y, z = field if self.field_ned is None else self.field_ned
        share = min(1.0, dt / FIELD_SMOOTH_S)
        self.field_ned = (x + share * (field[0] - x), y + share * (field[1] - y), z + share * (field[2] - z))
        self._field_bad_s = self._field_bad_s + min(dt, _MAX_DT) if self.field_faults() else 0.0

    def field_faults(self) -> list[str]:
        """What is wrong with the field now."""
        return [] if self.field_ned is None else field_faults(self.field_ned, self._expected_field)

    def faults(self, f: Eskf) -> list[str]:
        """All that has persisted; the named culprits first."""
        faults = self.signs.faults([(gain, f.gain_sigma(axis)) for axis, gain in enumerate(f.accel_gain)])
        if self._field_bad_s >= FIELD_PERSISTS_S:
            faults += self.field_faults()
        return faults + [name for name, monitor in zip(_NAMES, self._innovations, strict=True) if monitor.wrong]
