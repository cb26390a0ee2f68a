"""Which sensor is the wrong one: pairs of sensors that must move the same way, fed with changes over short windows.

Each check compares two sensors without the filter's opinion where that is possible, so that it can name the culprit
where the filter's innovations only say that something disagrees.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from lav2_hil.autopilot.consistency import HeadingMonitor, SlopeMonitor, TurnMonitor

if TYPE_CHECKING:
    from collections.abc import Sequence

    from firmware_profiles.signals import Vec3

GPS_WINDOW_S = 0.75
GPS_POS_NOISE_M = 0.08
BARO_WINDOW_S = 1.0
BARO_NOISE_M = 0.2
HEADING_WINDOW_S = 0.19
MAG_WINDOW_S = 0.09
ACCEL_SIGMAS = 4.0
_AXES = ("north", "east", "down")


class SignChecks:
    """All pairs: GNSS velocity and position, barometer and GNSS height, gyroscope, magnetometer, heading."""

    def __init__(self) -> None:
        self._velocity = [SlopeMonitor(GPS_POS_NOISE_M) for _ in _AXES]
        self._baro = SlopeMonitor(BARO_NOISE_M)
        self._turn = TurnMonitor()
        self._heading = HeadingMonitor()
        self._travel: tuple[float, Sequence[float]] | None = None
        self._travelled = [0.0, 0.0, 0.0]
        self._last_fix: tuple[float, Vec3] | None = None
        self._push: tuple[float, complex, complex] | None = None
        self._heights: tuple[float, float, float] | None = None
        self._field: tuple[float, Vec3, Vec3] | None = None

    def fix(self, time_s: float, pos: Sequence[float], vel: Vec3, pushed: Vec3) -> None:
        """Take in a fix.

        Args:
            time_s: when it was measured; only differences count.
            pos: relative to the origin, NED [m].
            vel: NED [m/s].
            pushed: running sum of the inertial sensors' acceleration, NED [m/s].
        """
        last = self._last_fix
        self._last_fix = (time_s, vel)
        gnss, inertial = complex(vel[0], vel[1]), complex(pushed[0], pushed[1])
        if last is None or not 0.0 < time_s - last[0] < 2.0:
            self._travel = (time_s, pos)
            self._travelled = [0.0, 0.0, 0.0]
            self._push = (time_s, inertial, gnss)
            return
        dt = time_s - last[0]
        self._travelled = [s + 0.5 * dt * (a + b) for s, a, b in zip(self._travelled, last[1], vel, strict=True)]
        if self._travel is not None and time_s - self._travel[0] >= GPS_WINDOW_S:
            for monitor, x, before, after in zip(self._velocity, self._travelled, self._travel[1], pos, strict=True):
                monitor.add(x, after - before)
            self._travel = (time_s, pos)
            self._travelled = [0.0, 0.0, 0.0]
        if self._push is not None and time_s - self._push[0] >= HEADING_WINDOW_S:
            self._heading.add(inertial - self._push[1], gnss - self._push[2])
            self._push = (time_s, inertial, gnss)

    def heights(self, time_s: float, baro_m: float, gps_m: float) -> None:
        """Take in the barometer's mean height over the last moments, and the newest of GNSS [m]."""
        last = self._heights
        if last is None or time_s - last[0] > 3.0 * BARO_WINDOW_S:
            self._heights = (time_s, baro_m, gps_m)
        elif time_s - last[0] >= BARO_WINDOW_S:
            self._baro.add(gps_m - last[2], baro_m - last[1])
            self._heights = (time_s, baro_m, gps_m)

    def field(self, time_s: float, field: Vec3, turned: Vec3) -> None:
        """Take in a magnetometer sample, FRD [gauss], and the running sum of rotation, FRD [rad]."""
        last = self._field
        if last is not None and time_s - last[0] < MAG_WINDOW_S:
            return
        self._field = (time_s, field, turned)
        if last is not None and time_s - last[0] < 3.0 * MAG_WINDOW_S:
            self._turn.add(np.subtract(turned, last[2]), np.array(last[1]), np.array(field))

    def faults(self, accel_gains: Sequence[tuple[float, float]]) -> list[str]:
        """What is wrong.

        Args:
            accel_gains: sensitivity of the accelerometer's x and y axis by the filter, and its standard deviation.
        """
        faults = [
            f"GPS velocity {axis} runs against GPS position"
            for axis, monitor in zip(_AXES, self._velocity, strict=True)
            if monitor.wrong
        ]
        velocity_is_wrong = bool(faults)
        if self._baro.wrong:
            faults.append("barometer runs against the GPS height")
        turn = self._turn
        if turn.gyroscope:
            faults.append(f"gyroscope {turn.gyroscope} runs against the magnetometer")
        if turn.magnetometer:
            faults.append(f"magnetometer {turn.magnetometer} runs against the gyroscope")
        if turn.either:
            faults.append(f"gyroscope {turn.either} or magnetometer has a wrong sign")
        turn_is_wrong = len(faults) > velocity_is_wrong + self._baro.wrong
        if velocity_is_wrong or turn_is_wrong:
            return faults  # which spoils what follows
        accelerometer = [
            f"accelerometer {axis} runs against the GPS velocity"
            for axis, (gain, sigma) in zip("xy", accel_gains, strict=True)
            if gain < -0.3 and gain < -ACCEL_SIGMAS * sigma
        ]
        if self._heading.wrong and not accelerometer:
            faults.append("heading disagrees with the GPS velocity")
        return faults + accelerometer
