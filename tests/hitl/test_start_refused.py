"""A run asks the board before it flies it: in HITL, its motors on outputs that move nothing, and on no real ones."""

from __future__ import annotations

from pathlib import Path

import pytest
from hitl.cli_run import Run
from hitl.param_board import ParamBoard
from hitl.pty_board import PtyBoard
from hitl.rig import Board, Cable

from bridge.board_link import BoardLink
from bridge.codec import Message
from bridge.endpoint import parse_endpoint
from bridge.param_wire import name_of
from bridge.params_client import ParamsClient
from bridge.transport.factory import create_transport
from bridge.transport.serial import SerialTransport
from firmware_profiles.errors import RefusedError
from firmware_profiles.hitl import output_functions
from firmware_profiles.loader import load_profile
from lav2_hil.board_check import judge
from lav2_hil.exitcodes import ExitCode

LAV2 = load_profile("lav2")
PREPARED = {f"HIL_ACT_FUNC{channel + 1}": function for channel, function in output_functions(LAV2).items()}


async def refused(folder: Path, change: dict[str, int], *options: str) -> Run:
    """A run at the built-in board, which is prepared but for a change."""
    async with Board(folder, hitl=change.get("SYS_HITL", 1) == 1) as board:
        async with BoardLink(create_transport(parse_endpoint(board.device)), 20.0) as link:
            client = ParamsClient(link, await link.hear())
            for name, value in change.items():
                await client.set(name, value)
        async with Run(board.device, folder, *options) as run:
            if options:
                await run.until_said("flight controller with system id")
            else:
                await run.end()
    return run


@pytest.mark.parametrize("mode", [0, 2])
async def test_report_20_sys_hitl_is_read(tmp_path: Path, mode: int) -> None:
    run = await refused(tmp_path, {"SYS_HITL": mode})
    assert run.code == ExitCode.REFUSED
    assert [
        f"SYS_HITL was not 1 but {mode}" in line and "board prepare" in line
        for line in run.lines
        if not line.startswith("INFO")
    ] == [True]
    assert not run.session.exists()


async def test_report_31b_real_outputs_with_motors_are_refused(tmp_path: Path) -> None:
    run = await refused(tmp_path, {"PWM_MAIN_FUNC1": 101})
    assert run.code == ExitCode.REFUSED
    assert [
        "PWM_MAIN_FUNC1 = 101; take the propellers off" in line for line in run.lines if not line.startswith("INFO")
    ] == [True]


async def test_report_31b_unless_the_propellers_are_off(tmp_path: Path) -> None:
    run = await refused(tmp_path, {"PWM_MAIN_FUNC1": 101}, "--propellers-are-off")
    assert run.said("these real outputs move in HITL: PWM_MAIN_FUNC1") == 1
    assert run.summary["notices"]["system_found"] == 1


async def test_report_53_an_unmapped_motor_is_refused(tmp_path: Path) -> None:
    run = await refused(tmp_path, {"HIL_ACT_FUNC3": 0})
    assert run.code == ExitCode.REFUSED
    assert [
        "HIL_ACT_FUNC3 is 0, not 103 (motor 3)" in line and "board prepare" in line
        for line in run.lines
        if not line.startswith("INFO")
    ] == [True]


async def test_report_53_the_outputs_are_shown(tmp_path: Path) -> None:
    async with Board(tmp_path) as board, Run(board.device, tmp_path) as run:
        await run.until_said("outputs in HITL: HIL_ACT_FUNC1 = 101, HIL_ACT_FUNC2 = 102")
        await run.until_said("flight controller with system id")


async def test_a_board_that_answers_no_parameter_is_flown_with_a_warning(tmp_path: Path) -> None:
    async with PtyBoard(tmp_path) as board, Run(board.device, tmp_path) as run:
        await run.until_said("flight controller with system id")
    assert run.said("the board answers no parameter") == 1


async def test_of_a_board_that_does_not_speak_it_is_said_that_it_was_not_asked(tmp_path: Path) -> None:
    async with PtyBoard(tmp_path, base_mode=None) as board, Run(board.device, tmp_path) as run:
        await run.until_said("calling the board")
    assert run.said("no PX4 has spoken yet: one that comes now is flown without being asked") == 1
    assert {message.get_type() for _, message in board.heard} == {"HEARTBEAT"}


class Mumbling(ParamBoard):
    """Answers for one output only when it is asked for the fifth time."""

    asked = 0
    output = "HIL_ACT_FUNC2"

    def _param_request_read(self, message: Message) -> None:
        if message.param_index < 0 and name_of(message) == self.output:
            self.asked += 1
            if self.asked < 5:
                return
        super()._param_request_read(message)


async def test_an_output_whose_answer_got_lost_is_asked_for_again(tmp_path: Path) -> None:
    cable = Cable(tmp_path)
    async with Mumbling(SerialTransport(cable.far)) as board:
        board.values |= PREPARED | {"SYS_HITL": 1}
        async with Run(str(cable.device), tmp_path) as run:
            await run.until_said("outputs in HITL")
    cable.close()
    assert board.asked >= 5


async def test_report_31b_a_real_output_whose_answer_got_lost_is_asked_for_again(tmp_path: Path) -> None:
    cable = Cable(tmp_path)
    async with Mumbling(SerialTransport(cable.far)) as board:
        board.output = "PWM_AUX_FUNC4"
        board.values |= PREPARED | {"SYS_HITL": 1, "PWM_AUX_FUNC4": 104}
        async with Run(str(cable.device), tmp_path) as run:
            await run.end()
    cable.close()
    assert run.code == ExitCode.REFUSED
    assert run.said("PWM_AUX_FUNC4 = 104; take the propellers off") == 1


@pytest.mark.parametrize(
    ("values", "off", "words"),
    [
        ({"CA_AIRFRAME": 0} | PREPARED, False, None),
        ({"CA_AIRFRAME": 0} | PREPARED | {"HIL_ACT_FUNC1": 102, "HIL_ACT_FUNC2": 101}, False, "HIL_ACT_FUNC1 is 102"),
        ({"CA_AIRFRAME": 0} | PREPARED | {"HIL_ACT_FUNC5": 0}, False, "HIL_ACT_FUNC5 is 0, not 301"),
        ({"CA_AIRFRAME": 0} | PREPARED | {"PWM_AUX_FUNC4": 112}, False, "PWM_AUX_FUNC4 = 112"),
        ({"CA_AIRFRAME": 0} | PREPARED | {"PWM_AUX_FUNC4": 301}, False, "PWM_AUX_FUNC4 = 301"),
        ({"CA_AIRFRAME": 0} | PREPARED | {"PWM_AUX_FUNC4": 201}, False, None),
        ({"CA_AIRFRAME": 0} | PREPARED | {"PWM_AUX_FUNC4": 112}, True, None),
        ({"CA_AIRFRAME": 0}, True, "HIL_ACT_FUNC1 is missing\\)"),
        ({}, False, "cannot be told"),
        ({}, True, None),
    ],
)
def test_what_is_refused(values: dict[str, int], off: bool, words: str | None) -> None:
    if words is None:
        judge(values, LAV2, is_posix=False, propellers_are_off=off)
        return
    with pytest.raises(RefusedError, match=words):
        judge(values, LAV2, is_posix=False, propellers_are_off=off)
