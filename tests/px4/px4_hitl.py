"""A real PX4 as a board in HITL: a build without lockstep whose MAVLink is at one end of a cable.

What a board's start-up script (ROMFS/px4fmu_common/init.d/rcS) does with SYS_HITL 1, in its order, on a POSIX build.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

from px4.px4 import Px4Build

SCRIPT = """\
#!/bin/sh
set +e
. px4-alias.sh
PATH="$PATH:${R}etc/init.d-posix"
param select parameters.bson
param set MAV_SYS_ID $((px4_instance+1))
param set SYS_HITL 1
param set SYS_AUTOSTART 10016
param set CAL_ACC0_ID 1310988
param set CAL_GYRO0_ID 1310988
param set CAL_MAG0_ID 197388
param set CAL_MAG0_PRIO 50
param set SENS_BOARD_X_OFF 0.000001
param set-default COM_CPU_MAX -1
param set-default COM_RAM_MAX -1
param set-default COM_RC_IN_MODE 1
param set-default NAV_DLL_ACT 0
param set-default CBRK_SUPPLY_CHK 894281
param set-default SDLOG_MODE -1
. ${R}etc/init.d-posix/airframes/10016_none_iris
dataman start
load_mon start
battery_simulator start
rc_update start
manual_control start
sensors start -h
commander start -h
ekf2 start
pwm_out_sim start -m hil
. ${R}etc/init.d/rc.vehicle_setup
navigator start
mavlink start -d "$PX4_HITL_LINE" -b 921600 -m config -x
mavlink boot_complete
"""


@contextlib.contextmanager
def px4_on_a_line(build: Px4Build, instance: int, line: str, directory: Path) -> Iterator[Path]:
    """Start it; gives what it prints."""
    directory.mkdir(parents=True, exist_ok=True)
    script, log = directory / "rcS.hitl", directory / "px4.log"
    script.write_text(SCRIPT)
    environment = {"PATH": os.environ["PATH"], "HOME": str(directory), "PX4_HITL_LINE": line}
    command = [str(build.path / "bin" / "px4"), "-d", "-i", str(instance), "-s", str(script), str(build.path / "etc")]
    with log.open("wb") as file:
        process = subprocess.Popen(
            *(command,), cwd=directory, env=environment, stdin=subprocess.DEVNULL, stdout=file, stderr=file,
            start_new_session=True,
        )  # fmt: skip
    try:
        yield log
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
