"""When a sensor is due: exact integer arithmetic on the tick counter, so a rate never drifts."""

from __future__ import annotations

from fractions import Fraction

from firmware_profiles.errors import UsageError

_US_PER_S = 1_000_000


class SampleSchedule:
    """At which ticks a sensor of a given rate measures.

    Tick k is due when floor(k * tick * rate) has advanced since tick k - 1; tick 0 is due. A rate that does not divide
    the tick rate is met on average without drift, each sample at most one tick after its ideal moment.

    Args:
        rate_hz: samples per second, > 0 and at most one per tick; taken as the decimal that it is written as.
        tick_us: length of a tick [us], >= 1.

    Raises:
        UsageError: the rate is not positive and finite, or above the tick rate; or the tick is shorter than 1 us.
    """

    __slots__ = ("_denominator", "_numerator", "tick_us")

    def __init__(self, rate_hz: float, tick_us: int) -> None:
        if tick_us < 1:
            raise UsageError(f"a tick of {tick_us} us is not possible; allowed: 1 us and above")
        highest = _US_PER_S / tick_us
        if not 0.0 < rate_hz <= highest:
            raise UsageError(
                f"a sensor cannot sample at {rate_hz:g} Hz with a tick of {tick_us} us; "
                f"allowed: above 0, up to {highest:g} Hz"
            )
        per_tick = min(Fraction(str(rate_hz)) * tick_us / _US_PER_S, Fraction(1))
        self._numerator = per_tick.numerator
        self._denominator = per_tick.denominator
        self.tick_us = tick_us

    def due(self, tick: int) -> bool:
        """Whether the sensor measures at this tick (counted from 0)."""
        return tick * self._numerator % self._denominator < self._numerator


def ticks_to_wait(delay_s: float, tick_us: int) -> int:
    """The smallest whole number of ticks that is not shorter than a delay; the delay is taken to the microsecond.

    Raises:
        UsageError: the delay is negative or not finite.
    """
    if not 0.0 <= delay_s < float("inf"):
        raise UsageError(f"a delay of {delay_s:g} s is not possible; allowed: 0 and above")
    return -(-round(delay_s * _US_PER_S) // tick_us)
