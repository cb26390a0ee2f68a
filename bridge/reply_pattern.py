"""Which HIL_SENSORs does the flight controller answer? Learnt from what it does.

PX4 answers one for one, one in two, one in four, or (a 1.17 rover) alternately the second and the third: a pattern
with a short period. Known, it tells for which sensors waiting makes sense.
"""

from __future__ import annotations

WINDOW = 100
"""Sensors that must repeat before the pattern counts as learnt."""
MAX_PERIOD = 8

_HISTORY = 4 * WINDOW
_HISTORY_MASK = (1 << _HISTORY) - 1


class ReplyPattern:
    """Follows sensors and answers; `learnt` once the last `WINDOW` settled sensors repeat.

    A sensor is settled when it, or one sent after it, was answered: an answer that is under way is not held against
    the pattern.
    """

    __slots__ = ("_answered", "_phase", "_sent", "_settled", "pattern", "period")

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """Know nothing, as after a connect."""
        self._answered = 0  # bit k: the sensor k before the newest one was answered
        self._sent = 0
        self._settled = 0  # number of sensors up to and including the newest answered one
        self.period = 0
        self.pattern = 0  # bit j: sensor number n with (n - phase) % period == j is answered
        self._phase = 0

    @property
    def learnt(self) -> bool:
        """True when the pattern is known."""
        return self.period > 0

    def assume_every(self) -> None:
        """Every sensor is answered, from the first: known beforehand."""
        self.forget()
        self.period = self.pattern = 1

    def unlearn(self) -> None:
        """The pattern no longer holds: learn again, from the sensors sent from now on."""
        self.period = 0
        self._answered = 0
        self._sent = 0
        self._settled = 0

    def sensor_sent(self) -> bool:
        """Count a sensor; returns whether an answer to it is to be expected (False until the pattern is learnt)."""
        self._answered = (self._answered << 1) & _HISTORY_MASK
        self._sent += 1
        if not self.period:
            return False
        return bool(self.pattern >> ((self._sent - 1 - self._phase) % self.period) & 1)

    def answered(self, sensors_ago: int) -> bool:
        """Count an answer to the sensor sent `sensors_ago` before the newest; returns True when the pattern is new."""
        if sensors_ago >= min(self._sent, _HISTORY):
            return False
        self._answered |= 1 << sensors_ago
        self._settled = max(self._settled, self._sent - sensors_ago)
        if self.period:
            number = self._sent - 1 - sensors_ago
            if self.pattern >> ((number - self._phase) % self.period) & 1:
                return False
        if self._learn():
            return True
        if sensors_ago == 0:
            self.realign()
        return False

    def slip(self) -> None:
        """The answer is one sensor late: expect it, and those that follow, after one sensor more."""
        self._phase += 1

    def realign(self) -> None:
        """The answers come at other places of the same pattern, as after a loss: fit the pattern to the last ones."""
        period = self.period
        if period < 2:
            return
        lag = self._sent - self._settled
        recent = self._answered >> lag
        best, best_fit = self._phase, -1
        newest = self._settled - 1
        for phase in range(period):
            fit = 0
            for ago in range(2 * period):
                expected = self.pattern >> ((newest - ago - phase) % period) & 1
                agrees = expected == recent >> ago & 1
                # The newest settled sensor was answered for certain; older ones may have been lost.
                fit += agrees * (2 * period if ago == 0 else 1)
            if fit > best_fit:
                best, best_fit = phase, fit
        self._phase = best

    def _learn(self) -> bool:
        """Look for the shortest period of the settled history; True when that gives a pattern that was not known."""
        if self._settled < WINDOW:
            return False
        history = self._answered >> (self._sent - self._settled)
        for period in range(1, MAX_PERIOD + 1):
            mask = (1 << (WINDOW - period)) - 1
            if ((history >> period) ^ history) & mask:
                continue
            newest = self._settled - 1
            # history bit `ago` is sensor newest - ago; phase chosen so that pattern bit j is sensor j modulo period
            pattern = 0
            for ago in range(period):
                pattern |= (history >> ago & 1) << ((newest - ago) % period)
            changed = (period, pattern, 0) != (self.period, self.pattern, self._phase)
            self.period, self.pattern, self._phase = period, pattern, 0
            return changed
        return False

    def __str__(self) -> str:
        if not self.period:
            return "not learnt"
        answers = self.pattern.bit_count()
        return f"{answers} answer{'s' if answers > 1 else ''} per {self.period} sensor{'s' if self.period > 1 else ''}"
