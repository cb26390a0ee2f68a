"""A real PX4 SITL for tests: starts a build directory on a spare instance, in a working directory of its own."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

from firmware_profiles.loader import load_profile


@dataclass(frozen=True)
class Px4Build:
    """A PX4 SITL build directory of one release."""

    release: str
    path: Path


def build_of(release: str) -> Px4Build | None:
    """The build that the environment names for a release, if it does."""
    variable = {"1.17": "LAV2_PX4_BUILD", "1.12": "LAV2_PX4_BUILD_112", "nolockstep": "LAV2_PX4_BUILD_NOLOCKSTEP"}
    path = os.environ.get(variable[release])
    return Px4Build(release, Path(path)) if path else None


def spare_instance() -> int:
    """An instance none of whose ports is taken."""
    for instance in range(1, 10):  # above 9 PX4 sends to another SDK port
        with contextlib.ExitStack() as stack:
            try:
                for kind, port in (
                    (socket.SOCK_STREAM, 4560),
                    (socket.SOCK_DGRAM, 14560),
                    (socket.SOCK_DGRAM, 18570),
                    (socket.SOCK_DGRAM, 14580),
                    (socket.SOCK_DGRAM, 14540),
                ):
                    probe = stack.enter_context(socket.socket(socket.AF_INET, kind))
                    # A port that was just in use can be listened at again, but not if somebody does.
                    probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, kind is socket.SOCK_STREAM)
                    probe.bind(("127.0.0.1", port + instance))
            except OSError:
                continue
            return instance
    raise RuntimeError("no spare PX4 instance")


def land_air(name: str) -> dict[str, str]:
    """The environment that the profile of a land-air vehicle says PX4 1.17 should be started with."""
    airframe = load_profile(name).firmware.px4[0]
    return {"PX4_SIM_MODEL": airframe.sim_model} | {f"PX4_PARAM_{k}": f"{v:g}" for k, v in airframe.params.items()}


def rover() -> dict[str, str]:
    """The same of px4_rover_differential, whose airframe is Gazebo's."""
    airframe = load_profile("px4_rover_differential").firmware.px4[0]
    started = {"PX4_SIMULATOR": "mavlink", "PX4_SYS_AUTOSTART": str(airframe.sys_autostart)}
    parameters = {f"PX4_PARAM_{k}": f"{v:g}" for k, v in airframe.params.items()}
    return started | {"PX4_SIM_MODEL": airframe.sim_model} | parameters


MODELS = {
    ("atmo", "1.17"): land_air("atmo"),
    ("lav2", "1.17"): land_air("lav2"),
    ("px4_iris", "1.17"): {"PX4_SIM_MODEL": "none_iris"},
    ("px4_iris", "nolockstep"): {"PX4_SIM_MODEL": "none_iris"},
    ("px4_iris", "1.12"): {"PX4_SIM_MODEL": "iris"},
    ("px4_x500", "1.17"): {
        "PX4_SIMULATOR": "mavlink",
        "PX4_SYS_AUTOSTART": "4001",
        "PX4_SIM_MODEL": "x500",
        "PX4_PARAM_PWM_MAIN_FUNC1": "101",
        "PX4_PARAM_PWM_MAIN_FUNC2": "102",
        "PX4_PARAM_PWM_MAIN_FUNC3": "103",
        "PX4_PARAM_PWM_MAIN_FUNC4": "104",
    },
    ("px4_rover_differential", "1.17"): rover(),
}


@dataclass
class Px4:
    """One PX4 process."""

    build: Px4Build
    instance: int
    directory: Path
    model: str = "px4_iris"
    udp: bool = False
    process: subprocess.Popen[bytes] | None = field(default=None, init=False)

    @property
    def log(self) -> str:
        """What PX4 printed."""
        return (self.directory / "px4.log").read_text(errors="replace")

    def start(self) -> None:
        """Start PX4; it looks for its simulator by itself."""
        self.directory.mkdir(parents=True, exist_ok=True)
        environment = {"PATH": os.environ["PATH"], "HOME": str(self.directory)}
        environment |= MODELS[self.model, self.build.release]
        if self.udp:
            environment["PATH"] = f"{self._udp_start_script()}:{environment['PATH']}"
        binary, rootfs = self.build.path / "bin" / "px4", self.build.path / "etc"
        command = [str(binary), "-d", "-i", str(self.instance)]
        if self.build.release == "1.12":
            command += ["-s", "etc/init.d-posix/rcS"]
        with (self.directory / "px4.log").open("ab") as log:
            self.process = subprocess.Popen(
                [*command, str(rootfs)],
                cwd=self.directory,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
            )

    def _udp_start_script(self) -> Path:
        """A directory that, early on PATH, makes PX4's simulator module use UDP."""
        directory = self.directory / "start"
        directory.mkdir(exist_ok=True)
        port = 14560 + self.instance
        if self.build.release == "1.12":
            script = directory / "px4-rc.simulator"
            script.write_text(f"#!/bin/sh\nsimulator start -u {port}\n")
        else:
            script = directory / "px4-rc.mavlinksim"
            script.write_text(
                "#!/bin/sh\n"
                "param set-default EKF2_GPS_DELAY 10\n"
                "param set-default EKF2_MULTI_IMU 3\n"
                "param set-default SENS_IMU_MODE 0\n"
                f"simulator_mavlink start -u {port}\n"
            )
        script.chmod(0o755)
        return directory

    def stop(self) -> None:
        """End the process, by its id."""
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(5)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        self.process = None

    def forget_parameters(self) -> None:
        """Start from a clean working directory the next time."""
        shutil.rmtree(self.directory, ignore_errors=True)
