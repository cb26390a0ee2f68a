"""The doctor at the built-in autopilot, with wrong feeds; and where no PX4 is."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import pty
import socket
import subprocess
import sys
import tty
from collections.abc import AsyncIterator, Iterator

import pytest
from pymavlink.dialects.v20 import common
from scripted_fc import spare_port
from wrong_feeds import (
    Change,
    constant_barometer,
    few_satellites,
    strong_magnet,
    unchanged,
    without_gps,
    without_magnetometer,
)

from bridge.codec import Encoder
from bridge.endpoint import parse_endpoint
from firmware_profiles.loader import load_profile
from lav2_hil.doctor.complaints import Cause
from lav2_hil.settings import Settings
from lav2_hil.sim import Simulation

INSTANCE = 34 + int(os.environ.get("PYTEST_XDIST_WORKER", "gw0")[2:])


FEEDS: dict[str, tuple[Change, list[Cause]]] = {
    "healthy": (unchanged, []),
    "no GPS": (without_gps, [Cause.GPS]),
    "4 satellites": (few_satellites, [Cause.GPS]),
    "no magnetometer": (without_magnetometer, [Cause.SENSOR_MISSING]),
    "magnetic field off": (strong_magnet, [Cause.MAGNETIC_FIELD]),
    "barometer constant": (constant_barometer(), [Cause.SENSOR_CONSTANT]),
}


@contextlib.asynccontextmanager
async def simulation(change: Change) -> AsyncIterator[None]:
    settings = Settings(
        profile=load_profile("lav2"),
        endpoint=parse_endpoint(f"tcpin:127.0.0.1:{spare_port()}"),
        speed=2.0,
        seed=1,
        record=False,
    )
    run = Simulation(settings, "lav2", INSTANCE, None)
    twin = run._service.twin
    right = twin.sample_of
    twin.sample_of = lambda *args, **kw: change(right(*args, **kw))  # type: ignore[method-assign]
    task = asyncio.create_task(run.run())
    try:
        yield
    finally:
        run._service.stop("test")
        await task


async def doctor(endpoint: str, *options: str) -> tuple[int, str, str]:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "lav2_hil", "doctor", "--endpoint", endpoint, *options),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    out, err = await process.communicate()
    assert process.returncode is not None
    return process.returncode, out.decode(), err.decode()


@pytest.mark.slow
@pytest.mark.parametrize("feed", FEEDS)
async def test_what_is_wrong_with_the_feed_is_named(feed: str) -> None:
    change, expected = FEEDS[feed]
    async with simulation(change):
        code, out, err = await doctor(f"udpin:127.0.0.1:{14540 + INSTANCE}", "--listen", "8", "--json")
    print(out, err)
    table = json.loads(out)
    assert [found["cause"] for found in table["findings"]] == [cause.value for cause in expected]
    assert code == (1 if expected else 0)
    assert table["healthy"] == (not expected)


# Nobody there


async def complaint(endpoint: str) -> str:
    """The one line of a visit in vain."""
    code, out, err = await doctor(endpoint)
    assert (code, out) == (69, "")
    (line,) = err.splitlines()
    assert line.startswith("error: ")
    return line


@contextlib.contextmanager
def device(said: bytes) -> Iterator[str]:
    """A serial device that says something over and over."""
    master, slave = pty.openpty()
    tty.setraw(slave)
    os.set_blocking(master, False)
    loop = asyncio.get_running_loop()

    def speak() -> None:
        with contextlib.suppress(BlockingIOError):
            os.write(master, said)
        with contextlib.suppress(BlockingIOError):
            os.read(master, 65536)
        timers[0] = loop.call_later(0.1, speak)

    timers = [loop.call_soon(speak)]
    try:
        yield os.ttyname(slave)
    finally:
        timers[0].cancel()
        os.close(master)
        os.close(slave)


@pytest.mark.slow
async def test_nobody_there() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    line = await complaint(f"udpin:127.0.0.1:{port}")
    assert "nothing heard" in line
    assert "lav2-hil run" in line  # PX4 in lockstep says nothing without its simulator
    with device(b"") as path:
        line = await complaint(path)
    assert "nothing heard" in line
    assert "SYS_USB_AUTO" in line


@pytest.mark.slow
async def test_nmea_noise_and_another_autopilot() -> None:
    with device(b"$GPGGA,123519,4807.038,N,01131.000,E,1,08,0.9,545.4,M,46.9,M,,*47\r\n") as path:
        assert "NMEA" in await complaint(path)
    with device(bytes(range(1, 200, 7))) as path:
        assert "no MAVLink" in await complaint(path)
    beat = common.MAVLink_heartbeat_message(2, common.MAV_AUTOPILOT_ARDUPILOTMEGA, 0, 0, 3, 3)
    with device(Encoder(1, 1).encode(beat)) as path:
        assert "ArduPilot" in await complaint(path)


async def test_wrong_arguments() -> None:
    code, out, err = await doctor("nowhere")
    assert (code, out, len(err.splitlines())) == (2, "", 1)
    code, out, err = await doctor("/dev/there_is_no_such_tty")
    assert (code, out, len(err.splitlines())) == (69, "", 1)


def test_help_imports_nothing_heavy() -> None:
    code = (
        "import sys; from lav2_hil.cli import main\n"
        "try: main(['--help'])\n"
        "except SystemExit: pass\n"
        "assert not {'numpy', 'mujoco', 'pymavlink', 'lav2_hil.doctor'} & set(sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "doctor" in done.stdout
