"""What goes wrong on a bad link, decided from a seed: pure, without a clock or a link.

The decisions depend only on the order of the frames of a direction, not on timing: the same frames meet the same
faults. Each frame takes the same draws whatever the plan, so that changing one rate leaves the other decisions as they
were.
"""

from __future__ import annotations

import math
import random
from dataclasses import dataclass

from firmware_profiles.errors import UsageError


@dataclass(frozen=True, slots=True)
class FaultPlan:
    """What goes wrong, in one direction or in both alike.

    Attributes:
        latency_s: Delay of every frame, seconds.
        jitter_s: Further delay of each, uniform from 0 to this, seconds.
        loss: Probability that a frame is lost.
        duplicate: Probability that a frame arrives twice.
        reorder: Probability that a frame is overtaken by the next one.
        corrupt: Probability that one bit of a frame is flipped.
        stalls: Times (start, duration), seconds from the opening, in which nothing passes.

    Raises:
        UsageError: a value is out of its range; names it and the range.
    """

    latency_s: float = 0.0
    jitter_s: float = 0.0
    loss: float = 0.0
    duplicate: float = 0.0
    reorder: float = 0.0
    corrupt: float = 0.0
    stalls: tuple[tuple[float, float], ...] = ()

    def __post_init__(self) -> None:
        for name in ("latency_s", "jitter_s"):
            check_time(name, getattr(self, name))
        for name in ("loss", "duplicate", "reorder", "corrupt"):
            value = getattr(self, name)
            if not 0 <= value <= 1:
                raise UsageError(f"fault plan: {name} is a probability from 0 to 1, not {value!r}")
        for start_s, duration_s in self.stalls:
            check_time("a stall's start", start_s)
            check_time("a stall's duration", duration_s)


def check_time(name: str, value: float) -> None:
    """Refuse what is no span of time in seconds.

    Raises:
        UsageError: it is negative, infinite or not a number.
    """
    if not 0 <= value < math.inf:
        raise UsageError(f"fault plan: {name} is a time of 0 s or more, not {value!r}")


@dataclass(slots=True)
class FaultCounts:
    """What was done to the frames of one direction; a frame can be in several counts."""

    frames: int = 0
    lost: int = 0
    duplicated: int = 0
    reordered: int = 0
    corrupted: int = 0
    overflowed: int = 0
    """Dropped because too much was held back already."""


@dataclass(frozen=True, slots=True)
class Fate:
    """What becomes of one frame: the copies that pass (none when lost), their delay, and whether the next overtakes."""

    copies: tuple[bytes, ...]
    delay_s: float
    overtaken: bool


class Fates:
    """The decisions for one direction: pure, seeded, no clock. The plan may be changed between two frames."""

    def __init__(self, plan: FaultPlan, seed: int | str) -> None:
        self.plan = plan
        self._random = random.Random(seed)
        self.counts = FaultCounts()

    def decide(self, data: bytes) -> Fate:
        """Decide what becomes of the next frame."""
        plan, counts, draw = self.plan, self.counts, self._random.random
        lost, twice, overtaken, flipped = (
            draw() < rate for rate in (plan.loss, plan.duplicate, plan.reorder, plan.corrupt)
        )
        delay_s = plan.latency_s + plan.jitter_s * draw()
        bit = int(draw() * 8 * len(data))
        counts.frames += 1
        if lost:
            counts.lost += 1
            return Fate((), delay_s, False)
        if flipped and data:
            counts.corrupted += 1
            spoiled = bytearray(data)
            spoiled[bit >> 3] ^= 1 << (bit & 7)
            data = bytes(spoiled)
        counts.duplicated += twice
        counts.reordered += overtaken
        return Fate((data, data) if twice else (data,), delay_s, overtaken)
