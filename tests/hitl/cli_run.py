"""`lav2-hil run` in a process of its own, with nothing of the test beside its loop."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from pathlib import Path
from types import TracebackType
from typing import Any

from hitl.rig import first_in_line, until


class Run:
    """A run of the command line against an endpoint.

    Attributes:
        lines: of stderr, so far.
        code: exit code, after the end.
        summary: after the end; empty when there was none.
    """

    def __init__(self, endpoint: str, folder: Path, *options: str, profile: str = "lav2") -> None:
        self.session = folder / "flight.mcap"
        self._command = [sys.executable, "-m", "lav2_hil", "run", "--profile", profile, "--endpoint", endpoint]
        self._command += ["--json", "--session", str(self.session), *options]
        self._command += [] if "--ground" in options else ["--no-ground"]
        self.lines: list[str] = []
        self.code: int | None = None
        self.summary: dict[str, Any] = {}

    async def __aenter__(self) -> Run:
        pipe = asyncio.subprocess.PIPE
        self._process = await asyncio.create_subprocess_exec(*self._command, stdout=pipe, stderr=pipe)
        first_in_line(self._process.pid)
        self._reader = asyncio.create_task(self._read())
        return self

    @property
    def pid(self) -> int:
        """Of the process."""
        return self._process.pid

    async def _read(self) -> None:
        assert self._process.stderr is not None
        async for line in self._process.stderr:
            self.lines.append(line.decode().rstrip())

    def said(self, text: str) -> int:
        """How many lines hold a text."""
        return sum(text in line for line in self.lines)

    async def until_said(self, text: str, times: int = 1, seconds: float = 30) -> None:
        try:
            await until(lambda: self.said(text) >= times or self._process.returncode is not None, seconds)
        except TimeoutError:
            raise AssertionError(f"not said {times} times: {text!r}; but {self.lines}") from None
        assert self.said(text) >= times, self.lines

    async def end(self, seconds: float = 20) -> None:
        """Wait for its own end."""
        assert self._process.stdout is not None
        async with asyncio.timeout(seconds):
            out = await self._process.stdout.read()
            self.code = await self._process.wait()
            await self._reader
        self.summary = json.loads(out) if out else {}

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.code is None:
            if self._process.returncode is None:
                self._process.send_signal(signal.SIGINT)
            await self.end()
