"""An event loop whose timers are on time.

epoll counts milliseconds, and asyncio rounds up to the next: a timer is 0.6 ms late on average and 1.2 ms at times.
select counts microseconds. So this loop sleeps in select, on the one descriptor that stands for all of epoll's, which
costs a system call more each turn and no busy waiting. Where this user may (limits.conf: rtprio), the loop also goes
before whatever else computes; what it starts does not.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import os
import select
import selectors

_PR_SET_TIMERSLACK = 29
_SLACK_NS = 1_000
"""How late the kernel may wake this thread to save energy; its default is 50 us."""


class PreciseSelector(selectors.EpollSelector):
    """An epoll selector with the precision of select."""

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """See `selectors.BaseSelector.select`."""
        if timeout is None or timeout <= 0:
            return super().select(timeout)
        select.select((self.fileno(),), (), (), timeout)
        return super().select(0)


def precise_loop() -> asyncio.AbstractEventLoop:
    """A loop for this thread, which the kernel is to wake on time."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(_PR_SET_TIMERSLACK, _SLACK_NS, 0, 0, 0)  # without it timers are 50 us later: no error
    with contextlib.suppress(PermissionError):
        os.sched_setscheduler(0, os.SCHED_RR | os.SCHED_RESET_ON_FORK, os.sched_param(1))
    return asyncio.SelectorEventLoop(PreciseSelector())
