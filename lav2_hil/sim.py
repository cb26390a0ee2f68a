"""`lav2-hil sim`: bridge, twin and the built-in autopilot together, and a verdict on what it flew."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import logging
import math
import sys
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from bridge.session_io import Notice
from firmware_profiles.signals import HilControls, SensorSample
from lav2_hil.companion.wall_face import WallFace
from lav2_hil.contact_log import ContactLog
from lav2_hil.exitcodes import ExitCode
from lav2_hil.service import Service
from lav2_hil.settings import Settings
from twin.frames import euler_zyx_of_quat, ned_of_enu, q_ned_frd_of_enu_flu
from twin.twin import Twin

logger = logging.getLogger("lav2_hil")

OWN_ERROR_M, TRUE_ERROR_M, HEADING_ERROR_DEG = 0.5, 1.5, 5.0
"""What a mission may be off: by the autopilot's own estimate, in truth, and in heading after a turn."""


class TruthLog:
    """Follows the true state at every tick: a history to judge by, and a fingerprint of all of it.

    Args:
        twin: whose world 0 is followed.
    """

    def __init__(self, twin: Twin) -> None:
        self._twin = twin
        self._hash = hashlib.sha256()
        self._times: list[int] = []
        self._states: list[npt.NDArray[np.float64]] = []

    def stepped(self, controls: HilControls | None, sample: SensorSample) -> None:
        """Note the state after a step."""
        state = self._twin.state()
        self._times.append(sample.time_us)
        self._states.append(state)
        self._hash.update(state.tobytes())

    @property
    def fingerprint(self) -> str:
        """SHA-256 of all states so far."""
        return self._hash.hexdigest()

    def worst_distance_m(self, from_us: int, until_us: int, position_ned: list[float]) -> float:
        """Largest distance from a position, relative to home, in an interval."""
        first = int(np.searchsorted(self._times, from_us))
        last = int(np.searchsorted(self._times, until_us, side="right"))
        if first == last:
            return 0.0
        positions = ned_of_enu(np.array(self._states[first:last])[:, :3])
        return float(np.linalg.norm(positions - np.array(position_ned), axis=1).max())

    def heading_deg(self, time_us: int) -> float:
        """Heading at a time, or at the last before it [degrees from north]."""
        index = int(np.searchsorted(self._times, time_us, side="right")) - 1
        return math.degrees(euler_zyx_of_quat(q_ned_frd_of_enu_flu(self._states[index][3:7]))[2]) % 360.0

    def final_position_ned_m(self) -> list[float] | None:
        """The last position, if there was any."""
        return [round(value, 3) for value in ned_of_enu(self._states[-1][:3]).tolist()] if self._states else None


@dataclass
class MissionResult:
    """What the autopilot reported."""

    state: str = "not finished"
    failure: str | None = None
    own_error_m: float = 0.0
    stood: list[dict[str, Any]] = field(default_factory=list)
    turns: list[dict[str, Any]] = field(default_factory=list)

    def take(self, line: dict[str, Any]) -> None:
        """One report."""
        if "progress" in line:
            logger.info("%6.1f s  %s", line["time_us"] * 1e-6, line["progress"])
        elif "still_from_us" in line:
            self.stood.append(line)
        elif "turned_us" in line:
            self.turns.append(line)
        elif "mission" in line:
            self.state, self.failure, self.own_error_m = line["mission"], line["failure"], line["worst_error_m"]


class Simulation:
    """One run of bridge, twin and autopilot.

    Args:
        settings: of the bridge; the endpoint is where the autopilot connects.
        profile_name: as it is handed to the autopilot.
        instance: PX4's instance number.
        mission: a name, or None to leave the vehicle to a ground station.
    """

    def __init__(self, settings: Settings, profile_name: str, instance: int, mission: str | None) -> None:
        hangs_up = frozenset() if mission is None else frozenset({"peer_lost"})  # at the mission's end
        self._service = Service(settings, listeners=(self,), expected=hangs_up)
        self._truth = TruthLog(self._service.twin)
        self._contact = _contact_log(settings, self._service.twin)
        self._profile_name = profile_name
        self._instance = instance
        self._mission = mission
        self._result = MissionResult()

    # Listener

    def stepped(self, controls: HilControls | None, sample: SensorSample) -> None:
        """Follow the truth while a mission is judged by it."""
        if self._mission is not None:
            self._truth.stepped(controls, sample)
        if self._contact is not None:
            self._contact.stepped(controls, sample)

    def noticed(self, notice: Notice) -> None:
        """The autopilot hangs up when its mission has ended."""
        if notice.name == "peer_lost" and self._mission is not None:
            self._service.stop("mission")

    # Running

    async def run(self) -> tuple[ExitCode, dict[str, Any]]:
        """Fly, and judge.

        Returns:
            The exit code and the summary.

        Raises:
            ExceptionGroup: of what `Service.run` raises.
        """
        async with asyncio.TaskGroup() as tasks:
            autopilot = tasks.create_task(self._run_autopilot(), name="autopilot")
            try:
                exit_code, summary = await self._service.run()
            except ExceptionGroup as errors:  # a group inside this one's would reach nobody
                raise errors.exceptions[0] from None
            if self._service.ended_by == "mission":
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(asyncio.shield(autopilot), 10.0)  # its last words
            autopilot.cancel()
        if self._mission is None or exit_code is not ExitCode.OK:
            return exit_code, summary
        verdict = self._judge()
        passed = not verdict["problems"]
        return ExitCode.OK if passed else ExitCode.FAILED_VERDICT, summary | verdict

    async def _run_autopilot(self) -> None:
        arguments = ["-m", "lav2_hil.autopilot", "--profile", self._profile_name, "--instance", str(self._instance)]
        arguments += ["--simulator", self._service.peer_endpoint(), "--until-eof"]
        if self._mission is not None:
            arguments += ["--mission", self._mission]
        if self._service.settings.speed == 0:
            arguments.append("--busy-wait")
        # In a session of its own, a Ctrl-C does not reach it: this process says when it ends, by its end of stdin.
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            *arguments,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            start_new_session=True,
        )
        assert process.stdout is not None
        try:
            async for line in process.stdout:
                self._service.monitor.clear()
                self._result.take(json.loads(line))
            code = await process.wait()
            if code:
                self._result.failure = self._result.failure or f"the autopilot ended with exit code {code}"
                logger.warning("the autopilot ended with exit code %d", code)
                if self._mission is not None:
                    self._service.stop("mission")
        finally:
            if process.returncode is None:
                process.terminate()
                await process.wait()

    def _judge(self) -> dict[str, Any]:
        result, truth = self._result, self._truth
        true_error = max(
            (truth.worst_distance_m(s["still_from_us"], s["still_until_us"], s["at_ned"]) for s in result.stood),
            default=0.0,
        )
        headings = [_apart_deg(truth.heading_deg(turn["turned_us"]), turn["wanted_deg"]) for turn in result.turns]
        heading_error = max(headings, default=0.0)
        problems = [] if result.state == "done" else [f"mission {result.state}: {result.failure}"]
        for what, value, bound, unit in (
            ("error by the autopilot's estimate", result.own_error_m, OWN_ERROR_M, "m"),
            ("error in truth", true_error, TRUE_ERROR_M, "m"),
            ("heading error after a turn", heading_error, HEADING_ERROR_DEG, "degrees"),
        ):
            if value >= bound:
                problems.append(f"{what} {value:.2f} {unit}, allowed below {bound:g}")
        contact = {}
        if self._contact is not None:
            contact["contact"] = self._contact.summary()
            problems += self._contact.problems()
        return contact | {
            "mission": self._mission,
            "mission_state": result.state,
            "own_error_m": round(result.own_error_m, 4),
            "true_error_m": round(true_error, 4),
            "heading_error_deg": round(heading_error, 3),
            "final_position_ned_m": truth.final_position_ned_m(),
            "truth_sha256": truth.fingerprint,
            "problems": problems,
        }


def _contact_log(settings: Settings, twin: Twin) -> ContactLog | None:
    """What follows the force on the true wall, where one is to be inspected."""
    params = settings.companion
    if params is None or params.task != "wall_inspection":
        return None
    walls = settings.flown.vehicle.environment.walls
    return ContactLog(twin, params, WallFace.of(walls[0]) if walls else None)


def _apart_deg(a: float, b: float) -> float:
    return abs((a - b + 180.0) % 360.0 - 180.0)
