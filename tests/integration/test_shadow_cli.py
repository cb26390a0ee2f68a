"""`sim --shadow` and `--true-profile` as a user meets them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
from mosquitto import Ear, Mosquitto, needs_mosquitto
from running_processes import shadows_of

from firmware_profiles.loader import load_profile
from lav2_hil.session.reader import read_session
from lav2_hil.session.records import Kind
from twin.shadow import CHANNELS

SIM = (sys.executable, "-m", "lav2_hil", "sim", "--json")


def sim(*arguments: str, instance: int, timeout_s: float = 110) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*SIM, "--speed", "0", "--instance", str(instance), *arguments],
        capture_output=True,
        text=True,
        timeout=timeout_s,
        stdin=subprocess.DEVNULL,
        check=False,
    )


SHORT = ("--duration", "12")
"""Take-off and hover; the mission's verdict is another matter."""


@pytest.fixture
def heavy(tmp_path: Path) -> Path:
    """A vehicle whose mass, 2.2 kg, is ten standard deviations of 2 % away."""
    path = tmp_path / "heavy.toml"
    path.write_text('extends = "lav2"\nname = "heavy"\n[vehicle.body]\nmass_kg = 2.64\n', encoding="utf-8")
    assert load_profile("lav2").uncertainty.mass_rel == 0.02
    return path


@pytest.mark.slow
def test_a_healthy_vehicle_is_inside_its_band_and_flies_as_without_shadows(tmp_path: Path) -> None:
    session = tmp_path / "flight.mcap"
    with_shadows = json.loads(sim("--shadow", "64", "--session", str(session), *SHORT, instance=91).stdout)
    without = json.loads(sim("--no-session", *SHORT, instance=92).stdout)
    assert with_shadows["truth_sha256"] == without["truth_sha256"]
    assert "shadow" not in without
    shadow = with_shadows["shadow"]
    assert (shadow["worlds"], shadow["lost"], shadow["broke_down"]) == (64, False, 0)
    assert shadow["compared"] >= 20
    assert shadow["all_inside_90"] > 0.7
    assert min(shadow["inside_90"].values()) > 0.7
    recorded = [record for record in read_session(session).records if record.kind is Kind.SHADOW]
    assert len(recorded) == shadow["bands"]
    first = msgspec.json.decode(recorded[0].data)
    assert (first["n"], tuple(first["channels"])) == (64, CHANNELS)
    replayed = subprocess.run(
        [sys.executable, "-m", "lav2_hil", "replay", str(session)], capture_output=True, text=True, check=False
    )
    assert replayed.returncode == 0, replayed.stdout


@pytest.mark.slow
def test_a_vehicle_ten_sigma_away_is_outside(heavy: Path, tmp_path: Path) -> None:
    session = tmp_path / "flight.mcap"
    result = sim("--shadow", "64", "--true-profile", str(heavy), "--session", str(session), *SHORT, instance=93)
    summary = json.loads(result.stdout)
    assert (summary["profile"], summary["true_profile"]) == ("lav2", "heavy")
    shadow = summary["shadow"]
    assert shadow["compared"] >= 20
    assert shadow["all_inside_90"] < 0.4
    assert shadow["inside_90"]["height_m"] < 0.4  # it climbs less than any shadow
    header = read_session(session).header
    assert (header.profile.name, header.profile_source) == ("heavy", str(heavy))
    assert header.model is not None
    assert header.model.name == "lav2"
    replayed = subprocess.run(
        [sys.executable, "-m", "lav2_hil", "replay", str(session)], capture_output=True, text=True, check=False
    )
    assert replayed.returncode == 0, replayed.stdout


@needs_mosquitto
def test_bands_are_published_while_it_flies(tmp_path: Path) -> None:
    mosquitto = Mosquitto(tmp_path)
    mosquitto.start()
    ear = Ear(mosquitto.port)
    try:
        arguments = ("--shadow", "3", "--mqtt", mosquitto.address, "--name", "lifted", "--no-session")
        summary = json.loads(sim(*arguments, "--duration", "6", instance=98).stdout)
        heard = ear.of("lav2/lifted/twin/shadow")
    finally:
        ear.close()
        mosquitto.kill()
    assert summary["ended_by"] == "duration"
    assert heard
    assert all(message.payload["n"] == 3 for message in heard)
    assert tuple(heard[-1].payload["channels"]) == CHANNELS


def test_a_killed_shadow_process_does_not_stop_a_flight(started) -> None:
    process = subprocess.Popen(
        [*SIM, "--shadow", "8", "--no-session", "--speed", "0", "--instance", "94", "--duration", "10"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        stdin=subprocess.DEVNULL,
        text=True,
    )
    started.append(process)
    assert process.stderr is not None
    said = []
    for line in process.stderr:
        said.append(line)
        if "waiting to arm" in line:
            break
    (shadow,) = shadows_of(process.pid)
    os.kill(shadow, signal.SIGKILL)
    output, rest = process.communicate(timeout=100)
    summary = json.loads(output)
    assert (summary["ended_by"], summary["simulated_s"]) == ("duration", 10.0)
    assert summary["shadow"]["lost"]
    assert summary["notices"]["shadow_lost"] == 1
    assert rest.count("the flight goes on without bands") == 1


def test_ctrl_c_is_for_the_run_alone(started) -> None:
    process = subprocess.Popen(
        [*SIM, "--shadow", "8", "--no-session", "--instance", "95"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        stdin=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
    )
    started.append(process)
    assert process.stderr is not None
    for line in process.stderr:
        if "waiting to arm" in line:
            break
    os.killpg(process.pid, signal.SIGINT)
    output, said = process.communicate(timeout=20)
    assert process.returncode == 130
    assert json.loads(output)["shadow"]["lost"] is False
    assert "shadow" not in said
    assert "Traceback" not in said


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["--shadow", "0"], 2, ["--shadow", "1", "4096"]),
        (["--shadow", "5000"], 2, ["--shadow", "4096"]),
        (["--true-profile", "nope"], 78, ["nope", "px4_iris"]),
        (["--true-profile", "px4_iris"], 2, ["--true-profile px4_iris", "4 wheels", "lav2", "0"]),
    ],
)
def test_what_cannot_be_is_one_line(arguments: list[str], code: int, words: list[str]) -> None:
    result = sim(*arguments, instance=96)
    assert (result.returncode, result.stdout) == (code, "")
    lines = result.stderr.splitlines()
    assert len(lines) == 1
    assert all(word in lines[0] for word in words), lines


def test_a_profile_that_knows_everything_exactly_has_no_shadows(tmp_path: Path) -> None:
    table = {"mass_rel", "inertia_rel", "thrust_rel", "torque_rel", "time_constant_rel", "drag_rel", "rotor_delay_s"}
    table |= {"battery_voltage_v", "battery_resistance_rel"}
    lines = [f"{name} = 0" for name in sorted(table)] + ["centre_of_mass_m = [0, 0, 0]"]
    path = tmp_path / "exact.toml"
    path.write_text('extends = "lav2"\nname = "exact"\n[uncertainty]\n' + "\n".join(lines), encoding="utf-8")
    result = sim("--shadow", "4", "--profile", str(path), instance=97)
    assert (result.returncode, result.stdout) == (2, "")
    assert "[uncertainty]" in result.stderr
    assert "'exact'" in result.stderr
