"""Calls that are timed beside each other, in interleaved rounds: a machine that slows down slows all of them."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

ROUNDS = 5
ROUND_S = 0.03
"""How long one call is measured in one round; at least once."""

Step = Callable[[], object]


def interleaved(calls: Mapping[str, Step], rounds: int = ROUNDS) -> dict[str, list[float]]:
    """By the calls' names: how long one takes [us], in each round."""
    repeats = {name: _repeats(call) for name, call in calls.items()}
    runs: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(rounds):
        for name, call in calls.items():
            runs[name].append(timed_us(call, repeats[name]))
    return runs


def _repeats(call: Step) -> int:
    """How often a call fits into a round; the first ones warm it up."""
    call()
    once = min(timed_us(call, 1) for _ in range(3))
    return max(1, int(1e6 * ROUND_S / once))


def timed_us(call: Step, times: int) -> float:
    """Mean time of a call [us]."""
    start = time.perf_counter()
    for _ in range(times):
        call()
    return 1e6 * (time.perf_counter() - start) / times


def figure(values: list[float], floor: float | None = None, unit: str = "us") -> dict[str, Any]:
    """What bench.json says of a figure: the median, what it is held against, the least and the largest."""
    value = statistics.median(values)
    return {
        "value": round(value, 2),
        "unit": unit,
        "floor": None if floor is None else round(floor, 2),
        "ratio": None if floor is None else round(value / floor, 3),
        "spread": [round(min(values), 2), round(max(values), 2)],
    }


@contextmanager
def one_thread(libraries: tuple[str, ...]) -> Iterator[None]:
    """Torch in one thread and without gradients, and afterwards as it was."""
    if "torch" not in libraries:
        yield
        return
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with torch.inference_mode():
            yield
    finally:
        torch.set_num_threads(threads)
