"""`python -m lav2_hil.shadow_process`: the shadows in a process of their own, which the loop never waits for.

A `ShadowTask` comes as one line of JSON on stdin, the rings as inherited file descriptors. The process ends when stdin
does, which it also does when the parent is killed.
"""

from __future__ import annotations

import os
import select
import sys
import time

import msgspec

from lav2_hil.actuator_map import ActuatorMap
from lav2_hil.shadow_follower import ShadowFollower
from lav2_hil.shadow_records import RESULT_ROWS, RESULT_WIDTH, Schedule, ShadowTask, tick_width
from lav2_hil.shared_ring import SharedRing
from twin.shadow import ShadowEnsemble

IDLE_S = 0.005
LAST_S = 1.0
"""Time to catch up when the run has ended."""
_AT_ONCE = 32
"""Ticks between two looks at stdin."""


def main() -> None:
    """Follow until stdin ends."""
    task = msgspec.json.decode(sys.stdin.buffer.readline(), type=ShadowTask)
    schedule = Schedule.of(task.profile)
    ticks = SharedRing(task.ticks_fd, schedule.ring_rows, tick_width(task.checkpoint_size))
    results = SharedRing(task.results_fd, RESULT_ROWS, RESULT_WIDTH)
    ensemble = ShadowEnsemble(task.profile, task.worlds, task.seed, threads=_threads())
    follower = ShadowFollower(ensemble, ActuatorMap(task.profile.firmware), ticks, results, schedule)
    idle = False
    while not select.select([sys.stdin], [], [], IDLE_S if idle else 0.0)[0]:
        idle = not _advance(follower)
    deadline = time.monotonic() + LAST_S
    while time.monotonic() < deadline and _advance(follower):
        pass
    follower.finish()


def _advance(follower: ShadowFollower) -> bool:
    """Take what is there, but not more than a few ticks; whether there is more."""
    return all(follower.advance() for _ in range(_AT_ONCE))


def _threads() -> int:
    """All processors but two: those of the loop and of the flight controller."""
    return max(1, len(os.sched_getaffinity(0)) - 2)


if __name__ == "__main__":
    main()
