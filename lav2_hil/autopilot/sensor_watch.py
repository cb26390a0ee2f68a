"""Whether a sensor delivers at all, plausible numbers, and not always the same ones."""

from __future__ import annotations

SILENT_S = {
    **{"accelerometer": 0.5, "gyroscope": 0.5, "magnetometer": 0.5, "barometer": 0.5},
    **{"GPS": 2.5, "motion capture": 0.5},
}
"""PX4's times, but for GPS, which may come once a second."""
STUCK_SAMPLES = {
    **{"accelerometer": 100, "gyroscope": 100, "magnetometer": 100, "barometer": 100},
    **{"GPS": 20, "motion capture": 10},
}
"""Equal readings in a row: PX4 gives up on an IMU after 100; noise of a count or two is enough against it."""
BAD_REMEMBERED_US = 1_000_000


class SensorWatch:
    """Watches one sensor.

    Args:
        name: one of `SILENT_S`.
        limit: the largest magnitude that the sensor can mean.

    Attributes:
        heard: it has delivered something usable.
        rejected: number of readings that were not numbers or beyond the limit.
    """

    __slots__ = (
        "_bad_us",
        "_last",
        "_limit",
        "_name",
        "_same",
        "_silent_us",
        "_stuck",
        "_time_us",
        "heard",
        "rejected",
    )

    def __init__(self, name: str, limit: float) -> None:
        self._name, self._limit = name, limit
        self._silent_us = round(1e6 * SILENT_S[name])
        self._stuck = STUCK_SAMPLES[name]
        self._last: tuple[float, ...] = ()
        self._same = 0
        self._time_us = 0
        self._bad_us: int | None = None
        self.heard = False
        self.rejected = 0

    def accepts(self, values: tuple[float, ...], time_us: int) -> bool:
        """Look at a reading; False when it must not be used."""
        limit = self._limit
        for value in values:
            if not -limit <= value <= limit:  # NaN too
                self._bad_us = time_us
                self.rejected += 1
                return False
        self._same = self._same + 1 if values == self._last else 0
        self._last = values
        self._time_us = time_us
        self.heard = True
        return True

    def faults(self, now_us: int) -> list[str]:
        """What is wrong at this stamp, at most one line."""
        if self._bad_us is not None and now_us - self._bad_us < BAD_REMEMBERED_US:
            return [f"{self._name} sends impossible numbers"]
        if not self.heard:
            return []
        if now_us - self._time_us > self._silent_us:
            return [f"{self._name} is silent"]
        if self._same >= self._stuck:
            return [f"{self._name} is stuck"]
        return []
