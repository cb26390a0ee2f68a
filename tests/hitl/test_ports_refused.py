"""Ports that cannot be had, through the real command line: one line with the cause and what to do.

Reports 27 (busy, "address in use") among them; `test_reports.py` has the table.
"""

from __future__ import annotations

import array
import asyncio
import fcntl
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hitl.rig import Cable
from link_recorder import Recorder

from bridge.transport.serial import SerialTransport
from firmware_profiles.errors import LinkUnavailableError

_TIOCGEXCL = 0x80045440
"""Whether a terminal is exclusive; Python's termios does not name it."""
_HOLD = """
import fcntl, os, sys, termios
line = os.open(sys.argv[1], os.O_RDWR | os.O_NOCTTY)
fcntl.flock(line, fcntl.LOCK_EX | fcntl.LOCK_NB)
fcntl.ioctl(line, termios.TIOCEXCL)
print("held", flush=True)
sys.stdin.read()
"""
_AS_NOBODY_SPECIAL = """
import ctypes, os, sys
# Root opens everything, by these two capabilities (DAC_OVERRIDE, DAC_READ_SEARCH); others have none to drop.
for capability in (1, 2):
    ctypes.CDLL(None).prctl(24, capability, 0, 0, 0)
os.execv(sys.executable, [sys.executable, "-m", "lav2_hil", *sys.argv[1:]])
"""

COMMANDS = {
    "run": ("run", "--profile", "lav2", "--no-ground", "--no-session", "--endpoint"),
    "doctor": ("doctor", "--endpoint"),
    "prepare": ("board", "prepare", "--profile", "lav2", "--device"),
    "diff": ("params", "diff", "lav2"),
}
each_command = pytest.mark.parametrize("command", COMMANDS)


@pytest.fixture
def cable(tmp_path: Path) -> Iterator[Cable]:
    cable = Cable(tmp_path)
    yield cable
    cable.close()


async def refusal(*command: str) -> str:
    """What a command says to a port that it cannot have: one line, beside what a run tells of itself, and no result."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, *command), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    try:
        out, err = await asyncio.wait_for(process.communicate(), 30)
    finally:
        if process.returncode is None:  # it has the port
            process.kill()
            await process.wait()
    assert (process.returncode, out) == (69, b"")
    (line,) = [line for line in err.decode().splitlines() if not line.startswith("INFO: ")]
    return line


@each_command
async def test_report_27_a_port_that_another_program_holds(cable: Cable, command: str) -> None:
    device = str(cable.device)
    with subprocess.Popen(  # noqa: ASYNC220
        [sys.executable, "-c", _HOLD, device], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as holder:
        assert holder.stdout is not None
        assert await asyncio.to_thread(holder.stdout.readline) == b"held\n"
        name = Path(f"/proc/{holder.pid}/comm").read_text().strip()  # noqa: ASYNC240
        line = await refusal("-m", "lav2_hil", *COMMANDS[command], device)
        assert holder.stdin is not None
        holder.stdin.close()
    assert line == f"error: cannot open {device}: the port is busy, held by {name} (pid {holder.pid})"


async def test_report_27_a_holder_that_cannot_be_seen_is_guessed(cable: Cable, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bridge.transport.serial.holders", lambda device: "")  # as with another user's process
    first, second = SerialTransport(str(cable.device)), SerialTransport(str(cable.device))
    await first.open(Recorder())
    with pytest.raises(LinkUnavailableError, match="busy, likely QGroundControl, ModemManager or another bridge"):
        await second.open(Recorder())
    await first.close()


async def test_report_27_the_port_is_ours_alone(cable: Cable) -> None:
    """The system refuses it to others who do not ask for a lock (all but root, who may)."""
    transport = SerialTransport(str(cable.device))
    line = os.open(cable.device, os.O_RDWR | os.O_NOCTTY)
    exclusive = array.array("i", (0,))
    await transport.open(Recorder())
    fcntl.ioctl(line, _TIOCGEXCL, exclusive)
    assert exclusive[0] == 1
    await transport.close()
    os.close(line)


@each_command
async def test_a_port_without_permission(cable: Cable, command: str) -> None:
    device = str(cable.device)
    os.chmod(device, 0)  # noqa: PTH101
    line = await refusal("-c", _AS_NOBODY_SPECIAL, *COMMANDS[command], device)
    assert line == (
        f"error: cannot open {device}: no permission, is the user in the group of the device (often dialout)?"
    )
