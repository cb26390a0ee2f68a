"""`make bench`: what a tick costs, alone and with its listeners, what models and controllers cost, how late sensors
leave in HITL.

Prints a table and writes bench.json: {"figure": {"value", "unit", "floor", "ratio", "spread"}}. Runs are interleaved,
values are medians of five; the machine's own speed cancels in the ratios.
"""

from __future__ import annotations

import contextlib
import json
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import bench_models
import bench_pacing
import bench_task_space
import numpy as np
from bench_calls import figure, timed_us
from bench_tick import PROFILE, lockstep_ticks_us, null_tick_us, spare_port
from pymavlink.dialects.v20 import common

from bridge.codec import Decoder, Encoder
from bridge.hil_messages import SensorEncoder
from firmware_profiles.loader import load_profile
from firmware_profiles.signals import ActuatorCommand, HilControls
from lav2_hil import busy_wait
from lav2_hil.settings import DEFAULT_DATE, DEFAULT_HOME
from lav2_hil.shadow import Shadow
from twin.twin import Twin

ROUNDS = 5
TICKS = 4000
STAGE_TICKS = 2000
SHADOWS = 64


@contextlib.contextmanager
def broker() -> Iterator[int]:
    """A mosquitto of our own; gives its port, or 0 where there is none."""
    program = shutil.which("mosquitto") or shutil.which("mosquitto", path="/usr/sbin")
    if program is None:
        print("no mosquitto: the figures with MQTT are left out (make services installs it)", file=sys.stderr)
        yield 0
        return
    port = spare_port()
    with tempfile.NamedTemporaryFile("w", suffix=".conf") as settings:
        settings.write(f"listener {port} 127.0.0.1\nallow_anonymous true\n")
        settings.flush()
        process = subprocess.Popen([program, "-c", settings.name], stderr=subprocess.DEVNULL)
        time.sleep(0.5)
        try:
            yield port
        finally:
            process.terminate()
            process.wait()


def stages() -> dict[str, Callable[[], object]]:
    """What a tick is made of, each as a call that can be repeated."""
    profile = load_profile(PROFILE)
    vehicle = profile.vehicle
    twin = Twin(vehicle, home=DEFAULT_HOME, date=DEFAULT_DATE)
    command = ActuatorCommand(np.full((1, 4), vehicle.hover_speed_rad_s()))
    sample = twin.sample_of(twin.step(command), 1_000_000)
    decoder, encoder, sensor_encoder = Decoder(), Encoder(1, 200), SensorEncoder()
    shadow = Shadow(twin, profile, SHADOWS, seed=0, report=print)
    hil_controls = HilControls((0.7,) * 4 + (0.0,) * 12, armed=True, time_us=1_000_000)
    controls = common.MAVLink_hil_actuator_controls_message(1_000_000, [0.7] * 4 + [0.0] * 12, 129, 1)
    frame = Encoder(1, 1).encode(controls)

    def step() -> None:
        twin.move(command)
        twin.sample_of(twin.sense(), 1_000_000)

    def hand_over() -> None:
        twin.ticks += 1  # at some of them more is handed over
        shadow.stepped(hil_controls, sample)

    return {
        "decode": lambda: decoder.feed(frame),
        "twin_and_sensors": step,
        "encode": lambda: encoder.encode(sensor_encoder.hil_sensor(sample)),
        "shadow_hand_over": hand_over,
    }


def flown_sim(*options: str) -> dict[str, Any]:
    """The summary of the demo mission: bridge, twin and autopilot, as fast as they go."""
    command = [sys.executable, "-m", "lav2_hil", "-q", "sim", "--speed", "0", "--instance", "77", "--json", *options]
    summary: dict[str, Any] = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    return summary


def measure() -> dict[str, dict[str, Any]]:
    """The figures of the tick."""
    runs: dict[str, list[float]] = {}

    def note(name: str, value: float) -> None:
        runs.setdefault(name, []).append(value)

    with broker() as port, tempfile.TemporaryDirectory() as directory:
        variants: dict[str, dict[str, Any]] = {"plain": {}, "session": {"record": True}, "shadow": {"shadows": SHADOWS}}
        if port:
            variants["mqtt"] = {"broker_port": port}
            variants["session_and_mqtt"] = {"record": True, "broker_port": port}
        calls = stages()
        for number in range(ROUNDS):
            note("null", busy_wait.run(null_tick_us(TICKS), busy=True))
            for variant, options in variants.items():
                ticks = busy_wait.run(lockstep_ticks_us(TICKS, **options), busy=True)
                note(f"{variant}_mean", statistics.fmean(ticks))
                note(f"{variant}_p50", float(np.percentile(ticks, 50)))
                note(f"{variant}_p99", float(np.percentile(ticks, 99)))
            for name, call in calls.items():
                note(name, timed_us(call, STAGE_TICKS))
            note("sim", flown_sim("--no-session")["real_time_factor"])
            recorded = flown_sim("--session", f"{directory}/{number}.mcap")
            note("sim_session", recorded["real_time_factor"])
            note("session_mb", 60e-6 * recorded["session"]["bytes"] / recorded["simulated_s"])
    return _figures(runs, list(variants), list(calls))


def _figures(runs: dict[str, list[float]], variants: list[str], calls: list[str]) -> dict[str, dict[str, Any]]:
    median = {name: statistics.median(values) for name, values in runs.items()}
    figures = {"lockstep_tick_us": figure(runs["plain_mean"], median["null"])}
    figures["null_tick_us"] = figure(runs["null"])
    for variant in variants:
        for part in ("p50", "p99"):
            floor = None if variant == "plain" else median[f"plain_{part}"]
            figures[f"lockstep_{variant}_{part}_us"] = figure(runs[f"{variant}_{part}"], floor)
    for name in calls:
        figures[f"lockstep_{name}_us"] = figure(runs[name])
    figures["sim_real_time_factor"] = figure(runs["sim"], unit="x")
    figures["sim_with_session_real_time_factor"] = figure(runs["sim_session"], median["sim"], unit="x")
    figures["session_mb_per_flight_minute"] = figure(runs["session_mb"], unit="MB")
    return figures


def main() -> None:
    """Measure, print, write bench.json."""
    figures = measure() | bench_models.measure() | bench_task_space.measure() | bench_pacing.measure()
    print(f"{'figure':<36}{'median':>11}{'min':>11}{'max':>11}{'floor':>10}{'ratio':>8}")
    for name, measured in figures.items():
        low, high = measured["spread"]
        floor = "" if measured["floor"] is None else f"{measured['floor']:.1f}"
        ratio = "" if measured["ratio"] is None else f"{measured['ratio']:.2f}"
        print(f"{name:<36}{measured['value']:>11.2f}{low:>11.2f}{high:>11.2f}{floor:>10}{ratio:>8}")
    Path("bench.json").write_text(json.dumps(figures, indent=2) + "\n")


if __name__ == "__main__":
    main()
