"""Report 53: HITL's outputs are read back and shown, and a motor without one is refused; 54: who asks. In the table of
`test_reports.py`.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from hitl.param_board import ParamBoard
from hitl.rig import Cable
from hitl.test_board_cli import done
from hitl.test_board_prepare import LAV2, linked, prepared

from bridge.codec import Decoder
from bridge.transport.serial import SerialTransport
from firmware_profiles.errors import RefusedError


async def test_report_53_a_function_that_the_board_does_not_keep_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bridge.params_transfer.ROUNDS", 2)
    async with linked() as (board, link):
        board.stubborn = {"HIL_ACT_FUNC3"}
        with pytest.raises(RefusedError, match="HIL_ACT_FUNC3 was set to 103, and the board keeps 0"):
            await prepared(link, tmp_path / "b.params", LAV2)
        assert board.boots == 0
        assert "SYS_HITL" not in dict(board.sets), "it goes last: the board is not in HITL"


async def test_report_53_functions_are_shown_as_the_board_has_them(tmp_path: Path) -> None:
    cable = Cable(tmp_path)
    prepare = ("board", "prepare", "--profile", "lav2", "--device", cable.device)
    async with ParamBoard(SerialTransport(cable.far)) as board:
        code, out, err = await done(*prepare, "--backup", tmp_path / "b.params")
    cable.close()
    assert code == 0, err
    shown = {words[0]: words[-1] for words in map(str.split, out.splitlines()) if words[0].startswith("HIL_ACT_FUNC")}
    assert {f"HIL_ACT_FUNC{motor}": str(100 + motor) for motor in range(1, 5)}.items() <= shown.items()
    assert shown == {name: str(board.values[name]) for name in shown}


async def test_report_54_who_prepares_a_board_is_not_1_1(tmp_path: Path) -> None:
    """PX4 ignores commands of its own ids."""
    asked = []
    decoder = Decoder(datagrams=True)
    async with linked() as (board, link):
        hear = board.link_data

        def listen(data: bytes) -> None:
            asked.extend(decoder.feed(data))
            hear(data)

        board.link_data = listen  # type: ignore[method-assign]
        await prepared(link, tmp_path / "b.params")
    assert {"HEARTBEAT", "COMMAND_LONG", "PARAM_SET"} <= {message.get_type() for message in asked}
    assert {(message.get_srcSystem(), message.get_srcComponent()) for message in asked} == {(255, 191)}
