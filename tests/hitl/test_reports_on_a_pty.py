"""Public reports about boards and links, on real ptys and with real processes; `test_reports.py` has the table."""

from __future__ import annotations

import asyncio
import os
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hitl.cli_run import Run
from hitl.pty_board import PtyBoard
from hitl.test_hitl_soak import resident_kib
from hitl.test_reports import px4_recognises
from link_recorder import Recorder
from mosquitto import Ear, Mosquitto, needs_mosquitto
from pymavlink.dialects.v20 import common

from bridge.board_link import COMPONENT, SYSTEM
from bridge.codec import Decoder, Encoder
from bridge.hil_messages import heartbeat
from bridge.transport.serial import SerialTransport

PERIOD_US = 4_000
MEASURED = pytest.mark.realtime
"""In milliseconds: not beside other tests."""


def p99(values: list[float]) -> float:
    return sorted(values)[len(values) * 99 // 100]


# 4, 13


@pytest.mark.slow
async def test_report_13_and_report_4_sensors_without_controls(tmp_path: Path) -> None:
    async with PtyBoard(tmp_path) as board, Run(board.device, tmp_path) as run:
        await run.until_said("no HIL_ACTUATOR_CONTROLS in 5 s")
    (line,) = [line for line in run.lines if "no HIL_ACTUATOR_CONTROLS" in line]
    assert all(cause in line for cause in ("SYS_HITL was not 1 at boot", "HIL_ACT_FUNC1..", "lacks pwm_out_sim"))
    assert run.summary["notices"]["no_actuators"] == 1
    # Nobody waited: sensors went on at 250 Hz of the wall clock.
    heard = [(when, message.time_usec) for when, message in board.heard if message.get_type() == "HIL_SENSOR"]
    assert len(heard) > 250
    assert all(b - a > 0 and (b - a) % PERIOD_US == 0 for (_, a), (_, b) in pairwise(heard))
    simulated_s, wall_s = 1e-6 * (heard[-1][1] - heard[0][1]), heard[-1][0] - heard[0][0]
    assert simulated_s == pytest.approx(wall_s, rel=0.1)
    summary = run.summary
    assert summary["sensors"] + summary["ticks_skipped"] == pytest.approx(summary["simulated_s"] * 250, abs=1)
    assert summary["reply_timeouts"] == 0


# 14


@pytest.mark.slow
async def test_report_14_a_port_that_nobody_has_opened_gets_heartbeats_only(tmp_path: Path) -> None:
    async with PtyBoard(tmp_path, base_mode=None) as board, Run(board.device, tmp_path) as run:
        await run.until_said("calling the board")
        await asyncio.sleep(3.5)
        calls = board.data
    assert {message.get_type() for _, message in board.heard} == {"HEARTBEAT"}
    assert len(calls) > 10 * 21
    assert all(px4_recognises(calls[start : start + 80]) for start in range(len(calls) - 80))
    assert run.summary["sensors"] == 0


# 15


async def test_report_15_a_minute_of_sensors_that_nobody_reads(tmp_path: Path) -> None:
    """As much as a minute has, as fast as it goes: what waits is bounded, and of sensors it is the newest."""
    encoder = Encoder(1, 200)
    async with PtyBoard(tmp_path, base_mode=None, deaf=True) as board:
        transport = SerialTransport(board.device)
        await transport.open(Recorder())
        waiting, resident = [], []
        for tick in range(1, 60 * 250 + 1):
            transport.write(
                encoder.encode(common.MAVLink_hil_sensor_message(tick * PERIOD_US, *[1.0 * tick] * 13, 0x1FFF))
            )
            if tick % 250 == 0:
                transport.write(encoder.encode(heartbeat()))
                waiting.append(transport.waiting())
                resident.append(resident_kib(os.getpid()))
        assert transport.dropped > 10_000
        # After a second the line is full: from there on a second adds its HEARTBEAT and nothing else.
        assert {b - a for a, b in pairwise(waiting[10:])} == {21}
        assert resident[-1] - resident[10] < 2048
        decoder, messages, newest = Decoder(), [], 60 * 250 * PERIOD_US
        async with asyncio.timeout(20):
            while not messages or messages[-1].get_type() != "HEARTBEAT" or sensors_of(messages)[-1] != newest:
                messages += decoder.feed(board.read())
                await asyncio.sleep(0.001)
        await transport.close()
    stamps = sensors_of(messages)
    assert decoder.stats.bad_frames == 0
    assert stamps == sorted(stamps)
    assert stamps[-2] < 10_000_000, "of those that waited, only the newest is kept"
    assert sum(message.get_type() == "HEARTBEAT" for message in messages) == 60, "never dropped"


def sensors_of(messages: list[Any]) -> list[int]:
    return [message.time_usec for message in messages if message.get_type() == "HIL_SENSOR"]


@pytest.mark.long
@pytest.mark.timeout(180)
async def test_report_15_a_run_at_a_board_that_never_reads(tmp_path: Path) -> None:
    memory = []
    async with PtyBoard(tmp_path, deaf=True) as board, Run(board.device, tmp_path) as run:
        await run.until_said("flight controller with system id")
        for _ in range(30):
            await asyncio.sleep(2)
            memory.append(resident_kib(run.pid))
    print(memory)
    assert max(memory[-5:]) - max(memory[3:8]) < 4096
    assert run.summary["notices"].keys() <= {"peer_connected", "system_found", "no_actuators"}


# 16


async def test_report_16_a_profile_of_500_hz_is_flown_at_250_and_says_so(tmp_path: Path) -> None:
    profile = tmp_path / "fast.toml"
    profile.write_text('extends = "lav2"\n[vehicle.sensors.imu]\nrate_hz = 500.0\n')
    async with PtyBoard(tmp_path) as board:
        async with Run(board.device, tmp_path, profile=str(profile)) as run:
            await run.until_said("sensors at 250 Hz")
            await run.until_said("flight controller with system id")
            await asyncio.sleep(0.5)
        stamps = [message.time_usec for message in board.of("HIL_SENSOR")]
    assert len(stamps) > 10
    assert min(b - a for a, b in pairwise(stamps)) == PERIOD_US
    assert [line.startswith("WARNING") for line in run.lines if "a board takes at most 400" in line] == [True]


# 25


@needs_mosquitto
async def test_report_25_a_preflight_failure_is_on_the_screen_and_at_mqtt(tmp_path: Path) -> None:
    broker = Mosquitto(tmp_path)
    broker.start()
    ear = Ear(broker.port)
    text = b"Preflight Fail: GPS fix too low"
    try:
        async with PtyBoard(tmp_path) as board, Run(board.device, tmp_path, "--mqtt", broker.address) as run:
            await run.until_said("flight controller with system id")
            for _ in range(3):
                board.say(common.MAVLink_statustext_message(2, text))
            await run.until_said("no GPS yet")
    finally:
        ear.close()
        broker.kill()
    shown = [line for line in run.lines if text.decode() in line]
    events = [heard.payload["text"] for heard in ear.of("lav2/lav2/event") if heard.payload["name"] == "board_says"]
    assert len(shown) == len(events) == 1
    assert events[0].startswith(f"the board says: {text.decode()} (no GPS yet")
    assert events[0] in shown[0]


# 26


@pytest.mark.slow
async def test_report_26_back_under_another_name_it_is_called_and_fed_again(tmp_path: Path) -> None:
    async with PtyBoard(tmp_path) as board, Run(board.device, tmp_path, "--shadow", "2") as run:
        await run.until_said("flight controller with system id 1")
        await asyncio.sleep(2.0)
        board.unplug()
        await run.until_said("the board is gone")
        board.heard.clear()
        board.plug()
        await run.until_said("calling the board", times=2, seconds=2.0)
        await run.until_said("flight controller with system id 1", times=2)
        await run.until_said("no HIL_ACTUATOR_CONTROLS in 5 s")
    assert len(set(board.names)) == 2
    kinds = [message.get_type() for _, message in board.heard]
    assert kinds[0] == "HEARTBEAT", "before any sensor"
    assert kinds.count("HIL_SENSOR") > 250
    assert run.summary["connections"] == 2
    assert run.summary["notices"].keys() >= {"peer_lost", "no_actuators"}
    shadow = run.summary["shadow"]
    assert (shadow["lost"], shadow["broke_down"]) == (False, 0)
    assert shadow["bands"] > 0


# 54


async def test_report_54_no_command_of_a_run_comes_from_1_1(tmp_path: Path) -> None:
    """PX4 ignores commands of its own ids. Who asks before the flight is not the simulator."""
    async with PtyBoard(tmp_path) as board, Run(board.device, tmp_path) as run:
        await run.until_said("flight controller with system id")
        await asyncio.sleep(0.5)
    assert {(m.get_srcSystem(), m.get_srcComponent()) for _, m in board.heard} == {(1, 200), (SYSTEM, COMPONENT)}


@MEASURED
async def test_report_54_round_trips_of_timesync_are_below_10_ms(tmp_path: Path) -> None:
    sent: dict[int, float] = {}
    async with PtyBoard(tmp_path) as board:
        async with Run(board.device, tmp_path) as run:
            await run.until_said("flight controller with system id")
            for number in range(1, 301):
                sent[number] = time.monotonic()
                board.say(common.MAVLink_timesync_message(0, number))
                await asyncio.sleep(0.02)
        trips = [when - sent[m.ts1] for when, m in board.heard if m.get_type() == "TIMESYNC"]
    print(f"p99 {1e3 * p99(trips):.2f} ms")
    assert len(trips) == 300
    assert p99(trips) < 0.010
