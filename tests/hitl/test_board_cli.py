"""`board` and `params` as a person runs them: on a pty, against the built-in board, against what is no board."""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
import signal
import subprocess
import sys
import termios
from pathlib import Path

import pytest
from hitl.param_board import ParamBoard, board_values
from hitl.rig import Board, Cable, speaker
from pymavlink.dialects.v20 import common

from bridge.board_journal import read_journal
from bridge.codec import Encoder
from bridge.transport.serial import SerialTransport
from firmware_profiles.hitl import CHANGES_BY_ITSELF, hitl_parameters, matches
from firmware_profiles.loader import load_profile
from firmware_profiles.px4_params import Value, differences

COMMAND = Path("/proc/self/comm").read_text().strip()
PLAN = hitl_parameters(load_profile("px4_rover_differential"), "HIL_ACT")


def lav2_hil(*arguments: str | Path) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "lav2_hil", *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


async def done(*arguments: str | Path) -> tuple[int, str, str]:
    process = await asyncio.to_thread(lav2_hil, *arguments)
    out, err = await asyncio.to_thread(process.communicate)
    assert "Traceback" not in err
    return process.returncode, out, err


def unlike(a: dict[str, Value], b: dict[str, Value]) -> list[str]:
    return [name for name in differences(a, b) if not matches(name, CHANGES_BY_ITSELF)]


@pytest.mark.slow
async def test_report_31b_a_board_is_prepared_and_put_back(tmp_path: Path) -> None:
    backup = tmp_path / "board.params"
    async with Board(tmp_path, hitl=False) as board:
        device, file = ("--device", board.device), ("--backup", backup)
        code, out, err = await done("board", "prepare", "--profile", "lav2", *device, *file, "--json")
        assert (code, json.loads(out)["phase"]) == (0, "prepared"), err
        assert (await done("params", "diff", "lav2", board.device))[0] == 0
        code, out, _ = await done("params", "diff", backup, board.device, "--json")
        assert code == 1
        assert json.loads(out)["HIL_ACT_FUNC5"] == {"a": 0, "b": 301}
        code, out, err = await done("board", "restore", *device, *file)
        assert code == 0, err
        assert out.splitlines()[-1].startswith("restored: ")
        code, out, _ = await done("params", "diff", backup, board.device)
        assert (code, out.split(" of ")[0]) == (0, "0")


@pytest.mark.slow
@pytest.mark.parametrize("sets", range(len(PLAN) + 1))
async def test_kill_9_anywhere_loses_nothing(tmp_path: Path, sets: int) -> None:
    """After `sets` parameters, the last of them right before the restart; then it is run again, and put back."""
    cable, backup, before = Cable(tmp_path), tmp_path / "board.params", board_values()
    arguments = ("board", "prepare", "--profile", "px4_rover_differential", "--device", cable.device)
    async with ParamBoard(SerialTransport(cable.far)) as board:
        process = await asyncio.to_thread(lav2_hil, *arguments, "--backup", backup)

        def kill(*_: object) -> None:
            if len(board.sets) == sets:
                process.send_signal(signal.SIGKILL)
                board.on_set = board.on_restart = lambda *_: None

        board.on_set = board.on_restart = kill
        await asyncio.to_thread(process.communicate)
        assert process.returncode == -signal.SIGKILL
        # One more than it had confirmed may have been under way.
        assert sets <= len(board.sets) <= sets + 1
        data = backup.read_bytes()
        assert read_journal(backup).phase == "preparing"
        code, _, err = await done(*arguments, "--backup", backup)
        assert code == 0, err
        assert {name: board.values[name] for name in PLAN} == PLAN
        assert backup.read_bytes() == data
        assert read_journal(backup).phase == "prepared"
        code, _, err = await done("board", "restore", "--device", cable.device, "--backup", backup)
        assert code == 0, err
        assert unlike(board.values, before) == []
    cable.close()


async def test_report_31b_motors_on_real_outputs_are_refused_and_overridden(tmp_path: Path) -> None:
    cable, backup = Cable(tmp_path), tmp_path / "board.params"
    arguments = ("board", "prepare", "--profile", "px4_rover_differential", "--device", cable.device)
    values = board_values() | {"PWM_MAIN_FUNC1": 101, "PWM_AUX_FUNC3": 104, "PWM_AUX_FUNC4": 201}
    async with ParamBoard(SerialTransport(cable.far), values) as board:
        code, out, err = await done(*arguments, "--backup", backup)
        assert (code, out, board.sets, board.boots) == (77, "", [], 0)
        assert "PWM_AUX_FUNC3 = 104, PWM_MAIN_FUNC1 = 101;" in err
        assert "--propellers-are-off" in err
        assert not backup.exists()
        code, _, err = await done(*arguments, "--backup", backup, "--propellers-are-off")
        assert code == 0, err
        assert "these real outputs move in HITL: PWM_AUX_FUNC3, PWM_MAIN_FUNC1" in err
        assert board.values["SYS_HITL"] == 1
        assert board.values["PWM_MAIN_FUNC1"] == 101
    cable.close()


def beat(autopilot: int) -> bytes:
    return Encoder(1, 1).encode(common.MAVLink_heartbeat_message(2, autopilot, 0, 0, 3, 3))


@pytest.mark.parametrize(
    ("said", "problem"),
    [
        (b"$GNGGA,123519,4807.038,N,01131.000,E,1,08,0.9,545.4,M,46.9,M,,*47\r\n", "sends NMEA: a GPS receiver"),
        (bytes(range(7, 200, 3)), "no MAVLink among them"),
        (b"", "nothing heard"),
        (beat(common.MAV_AUTOPILOT_ARDUPILOTMEGA), "runs ArduPilot, not PX4"),
        (beat(common.MAV_AUTOPILOT_INVALID), "no autopilot within 1 s, only 1/1"),
    ],
    ids=["NMEA", "noise", "silence", "ArduPilot", "no autopilot"],
)
async def test_what_is_no_px4_is_told_in_one_line(tmp_path: Path, said: bytes, problem: str) -> None:
    cable = Cable(tmp_path)
    end = speaker(cable, said, 0.05) if said else lambda: None
    code, out, err = await done(
        *("board", "prepare", "--profile", "lav2", "--device", cable.device, "--timeout", "1"),
        *("--backup", tmp_path / "b.params"),
    )
    end()
    cable.close()
    assert (code, out) == (69, "")
    assert err.count("\n") == 1
    assert problem in err
    assert str(cable.device) in err


async def test_report_27_ports_that_cannot_be_had(tmp_path: Path) -> None:
    cable = Cable(tmp_path)
    line = os.open(cable.device, os.O_RDWR | os.O_NOCTTY)
    fcntl.flock(line, fcntl.LOCK_EX | fcntl.LOCK_NB)
    fcntl.ioctl(line, termios.TIOCEXCL)
    prepare = ("board", "prepare", "--profile", "lav2", "--backup", tmp_path / "b.params")
    code, _, err = await done(*prepare, "--device", cable.device)
    os.close(line)
    cable.close()
    assert (code, err.count("\n")) == (69, 1)
    assert f"busy, held by {COMMAND} (pid {os.getpid()})" in err
    code, _, err = await done(*prepare, "--device", tmp_path / "none")
    assert (code, err.count("\n")) == (69, 1)
    assert "no such device" in err


@pytest.mark.parametrize(
    ("arguments", "code", "problem"),
    [
        (("board", "prepare", "--profile", "lav2"), 2, "--device or --endpoint"),
        (("board", "prepare", "--profile", "lav2", "--device", "/dev/x", "--endpoint", "tcp:h:1"), 2, "one of them"),
        (("board", "prepare", "--profile", "lav3", "--device", "/dev/x"), 78, "unknown profile 'lav3'"),
        (("board", "prepare", "--profile", "lav2", "--device", "ttyACM0"), 2, "not an absolute device path"),
        (("board", "prepare", "--profile", "lav2", "--device", "/dev/x", "--timeout", "nan"), 2, "--timeout"),
        (("board", "restore", "--device", "/dev/null,9600", "--backup", "none.params"), 69, "not a serial device"),
        (("params", "diff", "none.params", "lav2"), 66, "none.params: No such file"),
        (("params", "diff", "lav2", "nonsense"), 2, "or give a .params file, or a profile: atmo"),
    ],
)
async def test_wrong_words_are_told_in_one_line(arguments: tuple[str, ...], code: int, problem: str) -> None:
    found, out, err = await done(*arguments)
    assert (found, out, err.count("\n")) == (code, "", 1), err
    assert problem in err


async def test_profiles_and_files_are_compared(tmp_path: Path) -> None:
    code, out, _ = await done("params", "diff", "lav2", "atmo")
    assert code == 1
    assert [line.split() for line in out.splitlines() if line.startswith("MPC_THR_HOVER")] == [
        ["MPC_THR_HOVER", "0.68", "0.705"]
    ]
    assert (await done("params", "diff", "lav2", "lav2"))[0] == 0
    damaged = tmp_path / "a.params"
    damaged.write_text("1\t1\tA\t1\n")
    code, out, err = await done("params", "diff", damaged, "lav2")
    assert (code, out, err.count("\n")) == (65, "", 1)
    assert "line 1: expected 5 columns" in err
