"""Faults on the wire of a run: they do what they say at their time, and are told, counted and recorded."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pymavlink.dialects.v20 import common

from bridge.codec import Decoder, Encoder
from bridge.endpoint import Memory
from bridge.transport.faults import Fates, FaultPlan
from bridge.transport.memory import MemoryTransport
from firmware_profiles.loader import load_profile
from lav2_hil.exitcodes import ExitCode
from lav2_hil.faults import read_faults
from lav2_hil.service import Service
from lav2_hil.session.check import check_session
from lav2_hil.session.reader import Session, read_session
from lav2_hil.session.records import Kind, notice_of
from lav2_hil.settings import Settings

FIRST_US, PERIOD_US = 1_000_000, 4000


class AnsweringFc:
    """Answers every HIL_SENSOR over a memory link, from the first."""

    def __init__(self, name: str) -> None:
        self.transport = MemoryTransport(name)
        self.stamps: list[int] = []
        self.frames = 0
        self._decoder = Decoder()
        self._encoder = Encoder(1, 1)

    def link_up(self, peer: str) -> None:
        pass

    def link_data(self, data: bytes) -> None:
        for message in self._decoder.feed(data):
            self.frames += 1
            if message.get_type() == "HIL_SENSOR":
                self.stamps.append(message.time_usec)
                answer = common.MAVLink_hil_actuator_controls_message(message.time_usec, [0.0] * 16, 1, 1)
                self.transport.write(self._encoder.encode(answer))

    def link_down(self, reason: str) -> None:
        pass

    def link_refused(self) -> None:
        pass

    def link_ignored(self, peer: str) -> None:
        pass


def settings(*faults: str, seconds: float, seed: int = 3, session: Path | None = None) -> Settings:
    return Settings(
        profile=load_profile("px4_iris"),
        profile_source="px4_iris",
        endpoint=Memory("faults"),
        speed=0.0,
        seed=seed,
        duration_s=seconds,
        answers_every_sensor=True,
        faults=read_faults(faults),
        record=session is not None,
        session_file=session,
    )


async def fly(run: Settings) -> tuple[dict[str, Any], AnsweringFc]:
    fc = AnsweringFc("faults")
    await fc.transport.open(fc)
    try:
        code, summary = await Service(run).run()
    finally:
        await fc.transport.close()
    assert code is ExitCode.OK
    return summary, fc


def expected(plan: FaultPlan, seed: str, frames: int) -> dict[str, int]:
    """What becomes of so many frames, whatever is in them and whenever they come."""
    fates = Fates(plan, seed)
    for _ in range(frames):
        fates.decide(b"frame")
    counts = fates.counts
    return {"lost": counts.lost, "duplicated": counts.duplicated}


async def test_counts_are_those_of_the_seed_and_match_what_arrived() -> None:
    plan = FaultPlan(loss=0.02, duplicate=0.05)
    summary, fc = await fly(settings("link loss=0.02 duplicate=5%", seconds=3.0))
    for way, suffix in (("to_px4", "out"), ("from_px4", "in")):
        counts = summary["faults"][way]
        got = {name: counts[name] for name in ("lost", "duplicated")}
        assert got == expected(plan, f"3 {suffix}", counts["frames"])
        assert counts["lost"] > 0
    assert summary["duplicate_replies"] > 0
    assert summary["reply_timeouts"] > 0
    assert len(set(fc.stamps)) < summary["sensors"] == 750
    counts = summary["faults"]["to_px4"]
    assert fc.frames == counts["frames"] - counts["lost"] + counts["duplicated"]


async def test_without_faults_nothing_is_in_the_way() -> None:
    summary, fc = await fly(settings(seconds=1.0))
    assert "faults" not in summary
    assert len(fc.stamps) == 250
    assert summary["reply_timeouts"] == 0


def check_replay(path: Path) -> None:
    result = check_session(path)
    assert result.outcome.stopped is None
    assert result.comparison.identical
    assert result.comparison.equal


def faults_told(session: Session) -> list[tuple[int, str]]:
    """Each `fault` notice, and the stamp of the HIL_SENSOR it follows."""
    told, stamp, decoder = [], 0, Decoder(datagrams=True)
    for record in session.records:
        if record.kind is Kind.SENT:
            for message in decoder.feed(record.data):
                stamp = message.time_usec if message.get_type() == "HIL_SENSOR" else stamp
        elif record.kind is Kind.NOTICE and notice_of(record.data).name == "fault":
            told.append((stamp, notice_of(record.data).text))
    return told


async def test_faults_are_recorded_at_their_simulated_time_and_the_session_replays(tmp_path: Path) -> None:
    path = tmp_path / "run.mcap"
    summary, _ = await fly(
        settings("to_px4 latency=2ms at=1s for=500ms", "link duplicate=0.5", seconds=2.0, session=path)
    )
    session = read_session(path)
    assert session.header.faults == ("to_px4 latency=2ms at=1s for=0.5s", "link duplicate=0.5")
    tick = lambda number: FIRST_US + (number - 1) * PERIOD_US  # noqa: E731
    assert faults_told(session) == [
        (0, "fault: link duplicate=0.5"),
        (tick(250), "fault: to_px4 latency=2ms at=1s for=0.5s"),
        (tick(375), "fault over: to_px4 latency=2ms at=1s for=0.5s"),
    ]
    assert summary["notices"]["fault"] == 3
    check_replay(path)


async def test_latency_is_wall_time_and_holds_only_for_its_time() -> None:
    summary, _ = await fly(settings("link latency=10ms at=1s for=200ms", seconds=2.0))
    assert summary["wall_s"] > 50 * 0.02
    assert summary["reply_timeouts"] == 0, "waited for as long as the delay may be"
    slow = replace(settings("link latency=300ms", seconds=1.0), duration_s=0.02)
    assert slow.reply_timeout_us(datagrams=False) == 1_100_000
    summary, _ = await fly(slow)
    assert summary["reply_timeouts"] == 0


async def test_a_cut_is_a_new_connection(tmp_path: Path) -> None:
    path = tmp_path / "run.mcap"
    summary, fc = await fly(settings("link cut=50ms at=1s", seconds=2.0, session=path))
    assert summary["connections"] == 2
    assert summary["notices"]["peer_lost"] == 1
    assert fc.stamps == [FIRST_US + n * PERIOD_US for n in range(250)] * 2, "its time begins anew"
    check_replay(path)


async def test_a_stall_takes_its_wall_time_and_loses_nothing() -> None:
    summary, fc = await fly(replace(settings("link stall=300ms at=1s", seconds=2.0), reply_timeout_s=5.0))
    assert summary["wall_s"] > 0.3
    assert summary["reply_timeouts"] == 0
    assert len(fc.stamps) == 500


def lav2_hil(*arguments: str, timeout_s: float = 60) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "lav2_hil", *arguments],
        capture_output=True,
        text=True,
        timeout=timeout_s,
        stdin=subprocess.DEVNULL,
        check=False,
    )


@pytest.mark.parametrize("command", [["run", "--profile", "px4_iris"], ["sim"]])
def test_bad_faults_are_one_line_and_an_exit_code(command: list[str], tmp_path: Path) -> None:
    file = tmp_path / "faults.toml"
    file.write_text("[[fault]]\nkind = 'los'\nvalue = 0.1\n")
    for fault, code, says in (
        ("link latency=20", 2, "a time with its unit"),
        (str(file), 78, "fault 1: kind: Invalid enum value 'los'; allowed: loss"),
    ):
        result = lav2_hil(*command, "--no-session", "--fault", fault)
        assert (result.returncode, result.stdout) == (code, "")
        assert len(result.stderr.splitlines()) == 1
        assert says in result.stderr


def test_sim_flies_with_faults_of_a_file_and_says_so(tmp_path: Path) -> None:
    file = tmp_path / "faults.toml"
    file.write_text("[[fault]]\nkind = 'duplicate'\nvalue = 0.5\ntarget = 'from_px4'\nat = 1\nfor = 2\n")
    arguments = [
        "--speed",
        "0",
        "--no-session",
        "--instance",
        "71",
        "--mission",
        "none",
        "--duration",
        "5",
        "--fault",
        str(file),
    ]
    result = lav2_hil("sim", *arguments)
    assert result.returncode == 0, result.stderr
    assert "fault: from_px4 duplicate=0.5 at=1s for=2s" in result.stderr
    assert "fault over: " in result.stderr
    faults = next(line for line in result.stdout.splitlines() if line.startswith("faults"))
    assert "from_px4 duplicated" in faults
    assert "to_px4 duplicated" not in faults, "what is 0 is not shown"


@pytest.mark.slow
@pytest.mark.timeout(240)
def test_the_demo_flies_over_a_link_that_loses_frames() -> None:
    arguments = ["--speed", "0", "--no-session", "--instance", "72", "--json", "--fault", "link loss=0.02"]
    result = lav2_hil("sim", *arguments, timeout_s=220)
    assert result.returncode == 0, result.stderr
    summary = json.loads(result.stdout)
    assert (summary["mission_state"], summary["problems"]) == ("done", [])
    for way in ("to_px4", "from_px4"):
        assert summary["faults"][way]["lost"] == pytest.approx(0.02 * summary["faults"][way]["frames"], rel=0.3)
    assert summary["reply_timeouts"] > 0
