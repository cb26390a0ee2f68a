"""A real PX4's HITL code path at the end of a pty: arm, take off, hover, land, over the serial transport."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hitl.cli_run import Run
from hitl.rig import Cable, first_in_line
from px4.pilot import Pilot
from px4.px4 import build_of, spare_instance
from pymavlink.dialects.v20 import common

from lav2_hil.session.check import check_session
from lav2_hil.session.report import lines_of

pytestmark = [pytest.mark.px4, pytest.mark.slow, pytest.mark.timeout(300)]

NAN = float("nan")
ROTORS = ((1, 1, 0.05), (-1, -1, 0.05), (1, -1, -0.05), (-1, 1, -0.05))
"""Forward, right, and the moment's sign: a quad X."""


def start_script(device: str, instance: int) -> str:
    """What a board's start-up does in HITL, for a POSIX build; the order counts."""
    parameters = {"SYS_HITL": 1, "MAV_SYS_ID": instance + 1, "MAV_TYPE": 2, "CBRK_SUPPLY_CHK": 894281}
    parameters |= {"CA_AIRFRAME": 0, "CA_ROTOR_COUNT": len(ROTORS), "NAV_DLL_ACT": 0, "COM_RC_IN_MODE": 4}
    for number, (forward, right, moment) in enumerate(ROTORS):
        parameters |= {f"CA_ROTOR{number}_PX": forward, f"CA_ROTOR{number}_PY": right}
        parameters |= {f"CA_ROTOR{number}_KM": moment, f"PWM_MAIN_FUNC{number + 1}": 101 + number}  # type: ignore[dict-item]
    return "\n".join(
        [
            "#!/bin/sh",
            "set +e",
            ". px4-alias.sh",
            'PATH="$PATH:etc/init.d-posix"',
            "uorb start",
            "param select parameters.bson",
            "dataman start",
            "load_mon start",
            *(f"param set {name} {value}" for name, value in parameters.items()),
            "tone_alarm start",
            "rc_update start",
            "manual_control start",
            "sensors start -h",
            "commander start -h",
            "ekf2 start &",
            "pwm_out_sim start -m hil",
            "set VEHICLE_TYPE mc",
            "VEHICLE_TYPE=mc",
            ". etc/init.d/rc.mc_apps",
            "navigator start",
            f"mavlink start -d {device} -b 921600 -m config -x",
            f"mavlink start -x -u {14580 + instance} -r 4000000 -m onboard -o {14540 + instance}",
            "mavlink boot_complete",
            "",
        ]
    )


def young_clock() -> list[str]:
    """A command before PX4's, so that its clock starts near 0: its estimator is late by a share of the uptime."""
    uptime_s = int(time.clock_gettime(time.CLOCK_BOOTTIME)) - 1
    monotonic_s = int(time.monotonic()) - 1
    before = ["unshare", "--time", "--fork", "--kill-child"]
    before += ["--monotonic", f"-{monotonic_s}", "--boottime", f"-{uptime_s}"]
    if (
        shutil.which("unshare") is None
        or subprocess.run([*before, "true"], capture_output=True, check=False).returncode
    ):
        pytest.skip("a time namespace is needed (unshare --time, as root)")
    return before


@contextmanager
def px4_board(folder: Path, device: str, instance: int) -> Iterator[Path]:
    """PX4 in HITL on a device; gives its log."""
    build = build_of("nolockstep")
    if build is None:
        pytest.skip("no PX4 build without lockstep is named (LAV2_PX4_BUILD_NOLOCKSTEP)")
    folder.mkdir()
    script = folder / "rcS"
    script.write_text(start_script(device, instance))
    command = [*young_clock(), str(build.path / "bin" / "px4"), "-d", "-i", str(instance), "-s", str(script)]
    log = folder / "px4.log"
    with log.open("wb") as out:
        process = subprocess.Popen(
            [*command, str(build.path / "etc")],
            cwd=folder,
            env={"PATH": os.environ["PATH"], "HOME": str(folder)},
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
        )
    first_in_line(process.pid)
    try:
        yield log
    finally:
        process.kill()  # unshare takes no other signal, and PX4 goes with it
        process.wait(10)


async def test_px4_flies_in_hitl_on_a_pty(tmp_path: Path) -> None:
    instance = spare_instance()
    cable = Cable(tmp_path)
    run = Run(str(cable.device), tmp_path, "--instance", str(instance), profile="px4_iris")
    with px4_board(tmp_path / "px4", cable.far, instance) as log:
        async with run, Pilot(instance) as pilot:
            try:
                await pilot.until("ready to arm", pilot.ready, 90)
                await asyncio.sleep(2.0)
                home = pilot.newest["HOME_POSITION"].altitude / 1000
                assert await pilot.command(common.MAV_CMD_NAV_TAKEOFF, 0, 0, 0, NAN, NAN, NAN, home + 3.0) == 0
                assert await pilot.command(common.MAV_CMD_COMPONENT_ARM_DISARM, 1) == 0
                await pilot.until("3 m", lambda: pilot.position[2] < -2.5, 40)
                await asyncio.sleep(3.0)
                assert -3.6 < pilot.position[2] < -2.4
                assert await pilot.command(common.MAV_CMD_NAV_LAND, 0, 0, 0, NAN, NAN, NAN, 0) == 0
                await pilot.until("landed and disarmed", lambda: not pilot.armed, 60)
            except BaseException:
                print(log.read_text(errors="replace")[-4000:], run.lines)
                raise
    cable.close()
    summary = run.summary
    print(summary)
    assert summary["max_height_m"] == pytest.approx(3.0, abs=0.7)
    assert summary["times_armed"] == 1
    assert "px4_restarted" not in summary["notices"]
    replayed = await asyncio.to_thread(check_session, run.session)
    assert (replayed.spoilt, replayed.comparison.equal) == (None, True), "\n".join(lines_of(replayed))
