"""Keys that steer a run from its terminal: pause, speed, end."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
import termios
import tty
from collections.abc import Callable, Iterator

from bridge.session_io import Pause, Resume, SetSpeed
from lav2_hil.loop import HilLoop

HELP = "keys: space pauses, + and - change the speed, 0 is as fast as it goes, 1 real time, q ends"
_FACTOR = 2.0


class Keyboard:
    """Turns keys into the session's operator commands.

    Args:
        loop: is fed the commands.
        speed: at the start.
        quit_run: is called for `q`.
    """

    def __init__(self, loop: HilLoop, speed: float, quit_run: Callable[[], None]) -> None:
        self._loop = loop
        self._speed = speed
        self._quit = quit_run

    def press(self, key: str) -> None:
        """Act on one key; one that means nothing does nothing."""
        if key == " ":
            self._loop.feed(Resume() if self._loop.session.paused else Pause())
        elif key in "+-":
            self._set(self._speed * (_FACTOR if key == "+" else 1 / _FACTOR))
        elif key in "01":
            self._set(float(key))
        elif key == "q":
            self._quit()

    def _set(self, speed: float) -> None:
        self._speed = speed
        self._loop.feed(SetSpeed(speed))


@contextlib.contextmanager
def listening(keyboard: Keyboard) -> Iterator[bool]:
    """Listen to the terminal, if stdin is one that this process may read from; puts it back as it was."""
    if not sys.stdin.isatty() or os.getpgrp() != os.tcgetpgrp(sys.stdin.fileno()):
        yield False
        return
    fd = sys.stdin.fileno()
    before = termios.tcgetattr(fd)
    running = asyncio.get_running_loop()

    def read() -> None:
        for key in os.read(fd, 64).decode(errors="ignore"):
            keyboard.press(key)

    tty.setcbreak(fd)
    running.add_reader(fd, read)
    try:
        yield True
    finally:
        running.remove_reader(fd)
        termios.tcsetattr(fd, termios.TCSADRAIN, before)
