"""A board on a pty, for tests that need one at the other end of a serial line.

    async with Board(tmp_path) as board:        # lav2_hil.autopilot --hitl in a process of its own
        endpoint = f"{board.device},921600"     # tmp_path/usb-PX4_board: a link, as /dev/serial/by-id has them
        ...
        board.unplug()                          # the host's pty is gone: EIO; the board goes on
        board.plug()                            # another pty, another name, the same link
        board.reboot()                          # the reset button: its clock starts again, SYS_HITL counts anew
        await board.until(lambda: board.reports ...)   # JSON lines of the process, newest last

`Board(tmp_path, profile="lav2", usb=True, baud=921600, mission=None, instance=0, hitl=True)`; `hitl=False` is a board
whose SYS_HITL is 0 (give it parameters by the parameter protocol, then `reboot()`). `Cable` is the line alone: what is
written to one of its ends is read at the other, raw; `cable.far` is a pty's name for whoever plays the board, and
`speaker(cable, data)` plays a device that sends something else. Both ends may be opened, closed and opened again.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import pty
import select
import subprocess
import sys
import threading
import tty
from collections.abc import Callable
from pathlib import Path
from typing import Any

_IDLE_S = 0.002


def first_in_line(thread: int) -> None:
    """Let a process or thread run before the rest of the tests, if this user may: real time is what is tested."""
    with contextlib.suppress(PermissionError):  # niceness counts only within a session
        os.sched_setscheduler(thread, os.SCHED_RR, os.sched_param(1))


class _End:
    """One pty; its master belongs to the cable."""

    def __init__(self) -> None:
        self.master, line = pty.openpty()
        tty.setraw(line)
        self.name = os.ttyname(line)
        os.set_blocking(self.master, False)
        os.close(line)


class Cable:
    """Two ptys joined by a thread."""

    def __init__(self, folder: Path, name: str = "usb-PX4_board") -> None:
        self.device = folder / name
        self._lock = threading.Lock()
        self._far = _End()
        self._near: _End | None = None
        self.names: list[str] = []
        self._ended = False
        self.plug()
        self._thread = threading.Thread(target=self._carry, name="cable", daemon=True)
        self._thread.start()

    @property
    def far(self) -> str:
        """The board's end."""
        return self._far.name

    def plug(self) -> None:
        """Give the host an end, under a name that it has not had before."""
        kept = []
        with self._lock:
            end = _End()
            while end.name in self.names:  # the system gives out the lowest free number
                kept.append(end)
                end = _End()
            self._near = end
            self.names.append(end.name)
            self.device.symlink_to(end.name)
        for other in kept:
            os.close(other.master)

    def unplug(self) -> None:
        """Take the host's end away."""
        with self._lock:
            assert self._near is not None
            self.device.unlink()
            os.close(self._near.master)
            self._near = None

    def close(self) -> None:
        self._ended = True
        self._thread.join(5)
        with contextlib.suppress(AssertionError):
            self.unplug()
        os.close(self._far.master)

    def _carry(self) -> None:
        first_in_line(threading.get_native_id())
        while not self._ended:
            with self._lock:
                near = self._near.master if self._near is not None else None
                # Without the other end the bytes fall on the floor.
                heard = _move(self._far.master, near)
                if near is not None:
                    heard = _move(near, self._far.master) or heard
                ends = [end for end in (self._far.master, near) if end is not None]
            if not heard:
                poll = select.poll()
                for end in ends:
                    poll.register(end, select.POLLIN)
                if any(event & select.POLLHUP for _, event in poll.poll(20)):
                    threading.Event().wait(_IDLE_S)


def _move(source: int, goal: int | None) -> bool:
    try:
        data = os.read(source, 4096)
    except OSError:  # nothing there, or nobody has it open
        return False
    if goal is not None:
        with contextlib.suppress(OSError):
            os.write(goal, data)
    return bool(data)


class Board:
    """The built-in autopilot in HITL, at the far end of a cable."""

    def __init__(
        self,
        folder: Path,
        *,
        profile: str = "lav2",
        usb: bool = True,
        baud: int = 921600,
        mission: str | None = None,
        instance: int = 0,
        hitl: bool = True,
    ) -> None:
        self.cable = Cable(folder)
        self.device = str(self.cable.device)
        self.reports: list[dict[str, Any]] = []
        self._command = [sys.executable, "-m", "lav2_hil.autopilot", "--hitl", "--until-eof", "--profile", profile]
        self._command += ["--simulator", f"{self.cable.far},{baud}", "--instance", str(instance)]
        self._command += ["--usb"] if usb else []
        self._command += [] if hitl else ["--sys-hitl", "0"]
        self._command += ["--mission", mission] if mission is not None else []
        self._process: subprocess.Popen[str] | None = None
        self._reader: threading.Thread | None = None

    async def __aenter__(self) -> Board:
        self._process = subprocess.Popen(  # noqa: ASYNC220
            self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        first_in_line(self._process.pid)
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        process = self._process
        await self.until(lambda: bool(self.reports) or process.poll() is not None, 30)
        assert process.poll() is None, "the board's process ended"
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._process is not None
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()
        await asyncio.to_thread(self._process.wait, 20)
        assert self._reader is not None
        self._reader.join(5)
        self._process.stdout.close()
        self.cable.close()

    def _read(self) -> None:
        assert self._process is not None
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self.reports.append(json.loads(line))

    def unplug(self) -> None:
        self.cable.unplug()

    def plug(self) -> None:
        self.cable.plug()

    def reboot(self) -> None:
        assert self._process is not None
        assert self._process.stdin is not None
        self._process.stdin.write("reboot\n")
        self._process.stdin.flush()

    async def until(self, condition: Callable[[], bool], seconds: float = 20) -> None:
        await until(condition, seconds)


async def until(condition: Callable[[], bool], seconds: float = 20) -> None:
    """Wait until something is so, in wall time."""
    async with asyncio.timeout(seconds):
        while not condition():
            await asyncio.sleep(0.01)


def speaker(cable: Cable, data: bytes, every_s: float = 0.1) -> Callable[[], None]:
    """Let a device send the same again and again; gives the function that ends it."""
    ended = threading.Event()
    line = os.open(cable.far, os.O_RDWR | os.O_NOCTTY | os.O_NONBLOCK)

    def speak() -> None:
        while not ended.wait(every_s):
            with contextlib.suppress(BlockingIOError):
                os.write(line, data)

    thread = threading.Thread(target=speak, daemon=True)
    thread.start()

    def end() -> None:
        ended.set()
        thread.join()
        os.close(line)

    return end
