"""PX4's own HITL path on a pty: a build without lockstep, with a start-up script as a board has one.

The script does what PX4's rcS does for HITL and nothing else: parameters that outlive the process, simulated sensors,
outputs that move nothing, MAVLink on the line. A build for a PC does not restart itself; `restart` is its plug.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path

from px4.px4_hitl import young_clock

START = """\
#!/bin/sh
set +e
. px4-alias.sh
PATH="$PATH:etc/init.d-posix"
set VEHICLE_TYPE none
uorb start
param select parameters.bson
[ -f parameters.bson ] && param import
dataman start
load_mon start
param set-default NAV_DLL_ACT 0
param set-default COM_RC_IN_MODE 4
param set-default MAV_TYPE 2
param set MAV_SYS_ID {system}
tone_alarm start
rc_update start
manual_control start
if param greater SYS_HITL 0
then
    sensors start -h
    commander start -h
    ekf2 start &
    pwm_out_sim start -m hil
else
    sensors start
    commander start
    ekf2 start &
fi
VEHICLE_TYPE=mc
. etc/init.d/rc.mc_apps
navigator start
mavlink start -d {line} -b 921600 -m config -x
mavlink start -x -u {own} -r 4000000 -m onboard -o {other}
mavlink boot_complete
"""

PLUG_S = 2.5


class Px4Board:
    """One PX4 at the far end of a cable; `line` is that end."""

    def __init__(self, build: Path, folder: Path, line: str, instance: int) -> None:
        self._build, self._folder, self._instance = build, folder, instance
        folder.mkdir(parents=True, exist_ok=True)
        self._script = folder / "rcS"
        ports = {"own": 14580 + instance, "other": 14540 + instance}
        self._script.write_text(START.format(line=line, system=instance + 1, **ports))
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def log(self) -> str:
        return (self._folder / "px4.log").read_text(errors="replace")

    def start(self) -> None:
        options = ["-i", str(self._instance), "-s", str(self._script)]
        with (self._folder / "px4.log").open("ab") as log:
            self._process = subprocess.Popen(
                [*young_clock(), str(self._build / "bin" / "px4"), "-d", *options, str(self._build / "etc")],
                cwd=self._folder,
                env={"PATH": os.environ["PATH"], "HOME": str(self._folder)},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
            )

    def stop(self) -> None:
        if self._process is not None:
            self._process.send_signal(signal.SIGTERM)
            try:
                self._process.wait(5)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        self._process = None

    def restart(self) -> None:
        """The plug is out for a moment; nothing is saved in a hurry."""
        self.stop()
        time.sleep(PLUG_S)
        self.start()
