"""A real PX4 as a board in HITL: a build without lockstep whose MAVLink is at one end of a cable.

Its clock starts near 0 and it goes before other processes, as a board's would.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hitl.rig import first_in_line
from px4.px4 import build_of

ROTORS = ((1, 1, 0.05), (-1, -1, 0.05), (1, -1, -0.05), (-1, 1, -0.05))
"""Forward, right, and the moment's sign: a quad X."""


def start_script(device: str, instance: int, *, serves_ground: bool) -> str:
    """What a board's start-up does in HITL, for a POSIX build; the order counts."""
    ground = f"mavlink start -x -u {14580 + instance} -r 4000000 -m onboard -o {14540 + instance}"
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
            ground if serves_ground else "",
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
def px4_board(folder: Path, device: str, instance: int, *, serves_ground: bool = True) -> Iterator[Path]:
    """PX4 in HITL on a device; gives its log. `serves_ground`: it has a UDP link to an SDK besides, as no board has."""
    build = build_of("nolockstep")
    if build is None:
        pytest.skip("no PX4 build without lockstep is named (LAV2_PX4_BUILD_NOLOCKSTEP)")
    folder.mkdir()
    script = folder / "rcS"
    script.write_text(start_script(device, instance, serves_ground=serves_ground))
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
