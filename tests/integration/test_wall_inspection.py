"""The wall inspection as a user flies it: the built-in autopilot, the twin with its arm, and the companion computer.

What is asserted of the force is asserted of the truth, by the run's own verdict (`lav2_hil.contact_log`).
"""

from __future__ import annotations

import asyncio
import dataclasses
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from bridge.endpoint import parse_endpoint
from firmware_profiles.loader import load_profile
from firmware_profiles.profile import VehicleProfile
from lav2_hil.companion.arm_control import ArmControl
from lav2_hil.companion.params import CompanionParams
from lav2_hil.session.check import check_session
from lav2_hil.session.records import Kind
from lav2_hil.settings import Settings
from lav2_hil.sim import Simulation
from twin.actuation import Actuation

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]

WORKER = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
INSTANCE = 170 + 10 * (WORKER % 8)  # each run of each worker its own, from here on
MISSION = "wall_inspection"
PROFILE = load_profile("lav2_arm")


def cli(*arguments: str, instance: int) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "lav2_hil", "sim", "--profile", "lav2_arm", "--mission", MISSION, "--speed", "0"]
    return subprocess.run(
        [*command, "--instance", str(instance), "--json", *arguments],
        capture_output=True,
        text=True,
        timeout=300,
        stdin=subprocess.DEVNULL,
        check=False,
    )


def fly(instance: int, seed: int, params: CompanionParams | None = None, true: VehicleProfile | None = None) -> Any:
    """Exit code and summary of a run in this process."""
    settings = Settings(
        profile=PROFILE,
        endpoint=parse_endpoint(f"tcpin:127.0.0.1:{4560 + instance}"),
        speed=0.0,
        seed=seed,
        reply_timeout_s=2.0,
        system=instance + 1,
        answers_every_sensor=True,
        command="sim",
        companion=params or CompanionParams(task="wall_inspection"),
        true_profile=true,
    )
    return asyncio.run(Simulation(settings, "lav2_arm", instance, MISSION).run())


def with_walls(change: Callable[[Any], tuple[Any, ...]]) -> VehicleProfile:
    """The vehicle with other walls around it."""
    vehicle = PROFILE.vehicle
    walls = change(vehicle.environment.walls[0])
    environment = msgspec.structs.replace(vehicle.environment, walls=walls)
    return msgspec.structs.replace(PROFILE, vehicle=msgspec.structs.replace(vehicle, environment=environment))


@dataclasses.dataclass(frozen=True)
class Run:
    """A run that was recorded."""

    summary: dict[str, Any]
    session: Path


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Run:
    session = tmp_path_factory.mktemp("wall") / "wall.mcap"
    result = cli("--seed", "3", "--session", str(session), instance=INSTANCE)
    assert result.returncode == 0, result.stderr
    return Run(json.loads(result.stdout), session)


def test_it_presses_for_ten_seconds_backs_off_and_lands(recorded: Run) -> None:
    summary = recorded.summary
    assert (summary["mission_state"], summary["problems"]) == ("done", [])
    contact = summary["contact"]
    assert contact["held_s"] >= 10.0
    assert 2.0 < contact["mean_n"] < 4.0
    assert contact["max_n"] < 4.5  # gently all the way
    north, east, down = summary["final_position_ned_m"]
    assert down == pytest.approx(-0.107, abs=0.02)  # on its wheels
    assert 0.5 < north < 1.5
    assert abs(east) < 0.3
    assert summary["times_armed"] == 1
    assert summary["reply_timeouts"] == 0


def test_the_same_seed_flies_the_same_and_another_does_not(recorded: Run) -> None:
    again = fly(INSTANCE + 1, seed=3)[1]
    assert again["truth_sha256"] == recorded.summary["truth_sha256"]
    assert again["contact"] == recorded.summary["contact"]
    code, other = fly(INSTANCE + 2, seed=4)
    assert (code, other["problems"]) == (0, [])
    assert other["truth_sha256"] != recorded.summary["truth_sha256"]


def test_a_replay_has_the_same_companion(recorded: Run) -> None:
    """Bit for bit, the companion's frames among them; without it the recording is of another course."""
    result = check_session(recorded.session)
    assert result.header.companion == CompanionParams(task="wall_inspection")
    assert result.comparison.equal
    assert result.comparison.identical
    ours = [record.data for record in result.outcome.records if record.kind is Kind.SENT and record.data[6] == 191]
    assert len(ours) > 500
    session = dataclasses.replace(
        result.session, header=msgspec.structs.replace(result.header, companion=CompanionParams())
    )
    assert not _equal(session)


def _equal(session: Any) -> bool:
    from lav2_hil.session.compare import compare
    from lav2_hil.session.replay import replay

    return compare(replay(session), exact=True).equal


def test_its_pictures_are_drawn_without_a_screen(recorded: Run, tmp_path: Path) -> None:
    image = pytest.importorskip("PIL.Image")
    tool = Path(__file__).parents[2] / "tools" / "render_mission.py"
    result = subprocess.run(
        [sys.executable, str(tool), str(recorded.session), "--at", "5,30", "--out", str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    if result.returncode and "EGL" in result.stderr:
        pytest.skip("MuJoCo finds no EGL: libegl1 and libgl1-mesa-dri bring it")
    assert result.returncode == 0, result.stderr
    pictures = sorted(tmp_path.iterdir())
    assert [picture.name for picture in pictures] == ["005.0s.jpg", "030.0s.jpg"]
    first, second = (image.open(picture).convert("L") for picture in pictures)
    assert first.size == (800, 500)
    assert first.getextrema()[1] - first.getextrema()[0] > 100
    assert first.tobytes() != second.tobytes()


@pytest.mark.long
@pytest.mark.parametrize(("force_n", "yaw_deg", "seed"), [(2.0, 10.0, 5), (5.0, -10.0, 6)])
def test_other_forces_and_a_wall_that_is_not_quite_where_it_is_thought_to_be(
    force_n: float, yaw_deg: float, seed: int
) -> None:
    """The wall is turned, and the companion does not know."""
    true = with_walls(lambda wall: (msgspec.structs.replace(wall, yaw_deg=yaw_deg),))
    code, summary = fly(
        INSTANCE + 3 + (seed == 6), seed, CompanionParams(task="wall_inspection", force_n=force_n), true
    )
    assert (code, summary["problems"]) == (0, [])
    assert summary["contact"]["held_s"] >= 10.0
    assert summary["contact"]["mean_n"] == pytest.approx(force_n, abs=0.5)


@pytest.mark.long
def test_in_a_draught(monkeypatch: pytest.MonkeyPatch) -> None:
    """Gusts of 0.2 N (one standard deviation on each axis, correlated over a second) push the vehicle about."""
    noise, calm = np.random.default_rng(8), Actuation.begin
    gust = np.zeros(3)

    def begin(self: Any, command: Any) -> None:
        calm(self, command)
        gust[:] += -0.004 * gust + 0.2 * np.sqrt(2 * 0.004) * noise.standard_normal(3)
        self._engine.force_enu[:] += gust

    monkeypatch.setattr(Actuation, "begin", begin)
    code, summary = fly(INSTANCE + 8, seed=8)
    assert (code, summary["problems"]) == (0, [])


def test_no_wall_is_a_reason_and_a_landing() -> None:
    code, summary = fly(INSTANCE + 5, seed=7, true=with_walls(lambda wall: ()))
    assert code == 1
    assert summary["mission_state"] == "failed"
    assert summary["problems"] == [
        "mission failed: companion: no wall within 0.3 m behind its place",
        "pressed 3 +/- 1 N on the wall for 0.0 s at a stretch, wanted 10 s",
    ]
    assert summary["final_position_ned_m"][2] == pytest.approx(-0.107, abs=0.02)


def test_an_arm_that_pushes_the_wrong_way_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    right = ArmControl.press
    monkeypatch.setattr(ArmControl, "press", lambda self, state, into, force: right(self, state, -into, force))
    code, summary = fly(INSTANCE + 6, seed=3)
    assert code == 1
    assert any(problem.startswith("pressed 3 +/- 1 N") for problem in summary["problems"])
    assert summary["contact"]["held_s"] < 1.0


@pytest.mark.parametrize(
    ("profile", "reason"), [("lav2", "no arm for the companion computer to move"), ("atmo", "no arm")]
)
def test_a_vehicle_that_is_not_made_for_it_is_one_line(profile: str, reason: str) -> None:
    result = cli("--profile", profile, "--no-session", instance=INSTANCE + 7)
    assert result.returncode == 2
    assert len(result.stderr.splitlines()) == 1
    assert f"--mission wall_inspection: {profile}: {reason}" in result.stderr
