"""prepare and restore over a link in memory, with a board that is quick to restart and can be interfered with."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from hitl.param_board import ParamBoard, board_values
from pymavlink.dialects.v20 import common

from bridge.board import Report, prepare, restore
from bridge.board_journal import Phase, journal_path, read_journal
from bridge.board_link import BoardLink
from bridge.board_plan import LAST
from bridge.params_client import ParamsClient
from bridge.transport.faulty import FaultPlan, FaultyTransport
from bridge.transport.memory import MemoryTransport
from firmware_profiles.errors import DataError, NoInputError, RefusedError
from firmware_profiles.hitl import CHANGES_BY_ITSELF, hitl_parameters, matches
from firmware_profiles.loader import load_profile
from firmware_profiles.px4_params import ParamFile, Value, differences, format_params, read_params, same

_names = itertools.count()
ROVER = load_profile("px4_rover_differential")
LAV2 = load_profile("lav2")
HIL = {f"HIL_ACT_FUNC{number}" for number in range(1, 17)}


def nothing_in(folder: Path) -> bool:
    return not any(folder.iterdir())


class Told:
    """Keeps what is told."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.steps: list[tuple[int, int]] = []

    def say(self, text: str) -> None:
        self.texts.append(text)

    def progress(self, done: int, total: int) -> None:
        self.steps.append((done, total))


@asynccontextmanager
async def linked(board_plan: FaultPlan | None = None, **options) -> AsyncIterator[tuple[ParamBoard, BoardLink]]:
    """A board and an open link to it."""
    name = f"params-{next(_names)}"
    mine = MemoryTransport(name, datagrams=True)
    transport = mine if board_plan is None else FaultyTransport(mine, board_plan, seed=3)
    options.setdefault("unlisted", HIL)
    async with ParamBoard(MemoryTransport(name, datagrams=True), **options) as board, BoardLink(transport, 1.0) as link:
        yield board, link


def nothing_to_object(values: dict[str, Value], simulated: str | None) -> None:
    """The safety check of who has looked."""


async def prepared(link: BoardLink, backup: Path, profile=ROVER, told: Told | None = None) -> Report:
    return await prepare(link, profile, backup, nothing_to_object, told or Told())


def plan_of(profile=LAV2) -> dict[str, Value]:
    before = board_values()
    return {n: type(before[n])(v) for n, v in hitl_parameters(profile, "HIL_ACT").items()}


def unlike(a: dict[str, Value], b: dict[str, Value]) -> list[str]:
    """Names that differ and do not do so by themselves."""
    return [name for name in differences(a, b) if not matches(name, CHANGES_BY_ITSELF)]


async def test_prepare_saves_sets_restarts_and_verifies(tmp_path: Path) -> None:
    backup, told, before = tmp_path / "board.params", Told(), board_values()
    async with linked() as (board, link):
        on_disk: list[tuple[bool, bool]] = []
        board.on_set = lambda *_: on_disk.append((backup.exists(), journal_path(backup).exists()))
        report = await prepared(link, backup, LAV2, told)
        assert board.boots == 1
        assert {name for name, _ in board.sets} == set(report.set)
        assert len(board.sets) == len(report.set)
        assert on_disk == [(True, True)] * len(board.sets)
        assert [name for name, _ in board.sets][-2:] == list(LAST)
        wanted = hitl_parameters(LAV2, "HIL_ACT")
        assert all(board.values[name] == pytest.approx(value) for name, value in wanted.items())
        changed = unlike(board.values, before)
        assert set(changed) == set(report.set) | {"GPS_1_CONFIG", "UAVCAN_ENABLE"}
    assert (report.phase, report.restarted, report.kept) == (Phase.PREPARED, True, {})
    # The backup is the board as it was, also what it has without listing it.
    assert unlike(read_params(backup).values, before) == []
    assert told.steps[-1] == (len(before) - len(HIL), len(before) - len(HIL))
    assert [done for done, _ in told.steps] == sorted(done for done, _ in told.steps)


async def test_prepared_twice_is_done_once(tmp_path: Path) -> None:
    backup = tmp_path / "board.params"
    async with linked() as (board, link):
        await prepared(link, backup)
        sets, data = len(board.sets), backup.read_bytes()
        again = await prepared(link, backup)
        assert (len(board.sets), board.boots) == (sets, 1)
        board.values["SYS_HITL"] = 0  # somebody has changed it since
        third = await prepared(link, backup)
        assert (third.set, board.boots) == ({"SYS_HITL": 1}, 2)
    assert (again.set, again.restarted, again.phase) == ({}, False, Phase.PREPARED)
    assert backup.read_bytes() == data


async def test_report_31b_restore_makes_the_board_equal_to_the_backup(tmp_path: Path) -> None:
    backup, before = tmp_path / "board.params", board_values()
    async with linked() as (board, link):
        await prepared(link, backup, LAV2)
        board.values["CAL_ACC0_ID"] = 1310988  # as HITL does
        board.values["CAL_ACC0_XOFF"] = 0.0
        board.sets.clear()
        report = await restore(link, backup, Told())
        assert unlike(board.values, before) == []
        written = {name for name, _ in board.sets}
        assert written == set(unlike(before, before | plan_of())) | {
            *("GPS_1_CONFIG", "UAVCAN_ENABLE", "CAL_ACC0_ID", "CAL_ACC0_XOFF")
        }
        assert not any(matches(name, CHANGES_BY_ITSELF) for name in written)
        assert board.values["COM_FLIGHT_UUID"] != before["COM_FLIGHT_UUID"]
        assert [name for name, _ in board.sets[:2]] == sorted(LAST)
        assert board.boots == 2
        sets = len(board.sets)
        again = await restore(link, backup, Told())
        assert (len(board.sets), board.boots) == (sets, 2)
    assert (report.phase, report.kept) == (Phase.RESTORED, {})
    assert (again.set, again.restarted) == ({}, False)


async def test_restore_keeps_what_somebody_changed_unless_forced(tmp_path: Path) -> None:
    backup, before = tmp_path / "board.params", board_values()
    async with linked() as (board, link):
        await prepared(link, backup, LAV2)
        own: dict[str, Value] = {"MC_ROLLRATE_P": 0.25, "CBRK_SUPPLY_CHK": 7, "GPS_1_CONFIG": 202, "BAT1_N_CELLS": 6}
        board.values |= own
        report = await restore(link, backup, Told())
        assert {name: now for name, (_, now) in report.kept.items()} == own
        assert all(same(old, read_params(backup).values[name]) for name, (old, _) in report.kept.items())
        assert unlike(board.values, before) == sorted(own)
        forced = await restore(link, backup, Told(), force=True)
        assert unlike(board.values, before) == []
        assert not any(matches(name, CHANGES_BY_ITSELF) for name, _ in board.sets)
    assert set(forced.set) == set(own)
    assert forced.kept == {}


@pytest.mark.parametrize("step", range(6))
async def test_a_prepare_that_ends_anywhere_goes_on(tmp_path: Path, step: int) -> None:
    """After `step` parameters; in the same process here, by kill -9 in test_board_kill."""
    backup, before = tmp_path / "board.params", board_values()
    async with linked() as (board, link):
        plan = hitl_parameters(ROVER, "HIL_ACT")
        assert len(plan) == 5

        task = asyncio.create_task(prepared(link, backup))

        def break_off(name: str, value: Value) -> None:
            if len(board.sets) == step:
                board.dead = True
                task.cancel()

        board.on_set = break_off
        await asyncio.wait([task])
        assert task.cancelled() is (step < 5)
        assert len(board.sets) == min(step, 5)
        data = backup.read_bytes()
    assert read_journal(backup).phase is (Phase.PREPARING if step < 5 else Phase.PREPARED)
    async with linked(values=board.values) as (second, link):
        await prepared(link, backup)
        assert all(second.values[name] == value for name, value in plan.items())
        assert backup.read_bytes() == data
        assert len(second.sets) == max(5 - step, 0)
        await restore(link, backup, Told())
        assert unlike(second.values, before) == []


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"PWM_MAIN_FUNC3": 103}, None),
        ({"HIL_ACT_FUNC1": None}, "no outputs for HITL"),
        ({"CBRK_SUPPLY_CHK": None}, "lacks CBRK_SUPPLY_CHK"),
    ],
)
async def test_firmware_that_cannot(tmp_path: Path, change: dict[str, Value | None], problem: str | None) -> None:
    values = {n: v for n, v in (board_values() | change).items() if v is not None}
    async with linked(values=values) as (board, link):
        if problem is None:
            await prepared(link, tmp_path / "b.params")
        else:
            with pytest.raises(RefusedError, match=problem):
                await prepared(link, tmp_path / "b.params")
            assert board.sets == []
            assert nothing_in(tmp_path)


async def test_the_safety_check_comes_before_everything(tmp_path: Path) -> None:
    seen: list[tuple[Value, str | None]] = []

    def refuse(values, simulated) -> None:
        seen.append((values["PWM_AUX_FUNC2"], simulated))
        raise RefusedError("no")

    async with linked(values=board_values() | {"PWM_AUX_FUNC2": 102}) as (board, link):
        with pytest.raises(RefusedError, match="no"):
            await prepare(link, ROVER, tmp_path / "b.params", refuse, Told())
        assert board.sets == []
    assert seen == [(102, "HIL_ACT")]
    assert nothing_in(tmp_path)


async def test_px4_without_control_allocation(tmp_path: Path) -> None:
    values = {n: v for n, v in board_values().items() if not n.startswith(("CA_", "HIL_", "PWM_"))}
    async with linked(values=values) as (board, link):
        seen: list[str | None] = []
        await prepare(
            link, load_profile("px4_iris"), tmp_path / "b.params", lambda _, prefix: seen.append(prefix), Told()
        )
        assert [name for name, _ in board.sets] == ["CBRK_SUPPLY_CHK", "SYS_AUTOSTART", "SYS_HITL"]
    assert seen == [None]


async def test_a_build_for_a_pc_has_its_outputs_under_another_name(tmp_path: Path) -> None:
    values = {n: v for n, v in board_values().items() if not n.startswith("HIL_")}
    uid = int.from_bytes(b"ONIDLATI", "little")
    async with linked(values=values, uid=uid, uid2=bytes(18)) as (board, link):
        await prepared(link, tmp_path / "b.params")
        assert {n: v for n, v in board.sets if "FUNC" in n} == {"PWM_MAIN_FUNC1": 101, "PWM_MAIN_FUNC2": 102}


async def test_an_armed_vehicle_is_left_alone(tmp_path: Path) -> None:
    async with linked() as (board, link):
        board.armed = True
        with pytest.raises(RefusedError, match="armed"):
            await prepared(link, tmp_path / "b.params")
        assert board.sets == []


async def test_a_value_that_the_board_does_not_keep(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bridge.params_transfer.ROUNDS", 2)
    async with linked() as (board, link):
        board.stubborn = {"CBRK_SUPPLY_CHK"}
        with pytest.raises(RefusedError, match="CBRK_SUPPLY_CHK was set to 894281, and the board keeps 0"):
            await prepared(link, tmp_path / "b.params")
        assert board.boots == 0


async def test_another_boards_backup_is_refused(tmp_path: Path) -> None:
    backup = tmp_path / "board.params"
    async with linked() as (_, link):
        await prepared(link, backup)
    async with linked(uid2=bytes([9] * 18)) as (board, link):
        for attempt in (prepared(link, backup), restore(link, backup, Told())):
            with pytest.raises(RefusedError, match="is of another board"):
                await attempt
        assert board.sets == []


async def test_another_profile_or_file_is_refused(tmp_path: Path) -> None:
    backup, other = tmp_path / "board.params", tmp_path / "other.params"
    async with linked() as (board, link):
        other.write_text("1\t1\tSOMEBODYS\t1\t6\n")
        with pytest.raises(RefusedError, match="exists, has no journal and is not what is on the board"):
            await prepared(link, other)
        assert other.read_text() == "1\t1\tSOMEBODYS\t1\t6\n"
        await prepared(link, backup)
        sets = len(board.sets)
        with pytest.raises(RefusedError, match="prepared for px4_rover_differential; run board restore"):
            await prepared(link, backup, LAV2)
        await restore(link, backup, Told())
        with pytest.raises(RefusedError, match="it has been restored"):
            await prepared(link, backup)
        assert len(board.sets) == sets + len(set(hitl_parameters(ROVER, "HIL_ACT"))) + 2


async def test_a_backup_from_before_the_journal_is_taken_up(tmp_path: Path) -> None:
    """A run that ended between the two files has changed nothing; its counters may have gone on since."""
    backup = tmp_path / "board.params"
    async with linked() as (board, link):
        backup.write_text(format_params(ParamFile(board.values | {"COM_FLIGHT_UUID": 3})))
        await prepared(link, backup)
        assert board.values["SYS_HITL"] == 1


@pytest.mark.parametrize("damage", ["backup", "journal", "no journal", "no backup"])
async def test_damaged_files_stop_it_before_the_board_is_touched(tmp_path: Path, damage: str) -> None:
    backup = tmp_path / "board.params"
    async with linked() as (board, link):
        await prepared(link, backup)
        board.sets.clear()
        if damage == "backup":
            backup.write_text(backup.read_text().replace("GPS_1_CONFIG\t201", "GPS_1_CONFIG\t200"))
        elif damage == "journal":
            journal_path(backup).write_text(json.dumps({"version": 1}))
        elif damage == "no journal":
            journal_path(backup).unlink()
        else:
            backup.unlink()
        with pytest.raises((DataError, NoInputError), match=r"board\.params") as caught:
            await restore(link, backup, Told())
        assert "\n" not in str(caught.value)
        assert board.sets == []


@pytest.mark.slow
async def test_everything_works_on_a_bad_line(tmp_path: Path) -> None:
    backup, before = tmp_path / "board.params", board_values()
    plan = FaultPlan(loss=0.1, duplicate=0.1, reorder=0.05, corrupt=0.05)
    async with linked(plan) as (board, link):
        await prepared(link, backup)
        assert unlike(read_params(backup).values, before) == []
        assert all(board.values[n] == v for n, v in hitl_parameters(ROVER, "HIL_ACT").items())
        await restore(link, backup, Told())
        assert unlike(board.values, before) == []
        assert link.transport.received.lost > 50
        assert link.transport.sent.lost > 5


async def test_a_board_that_cannot_restart_waits_for_a_hand(tmp_path: Path) -> None:
    told = Told()
    async with linked() as (board, link):
        board.restart_result = common.MAV_RESULT_UNSUPPORTED

        def pull_the_plug(text: str) -> None:
            told.texts.append(text)
            if "unplug it" in text:
                board.boot()

        told.say = pull_the_plug  # type: ignore[method-assign]
        report = await prepared(link, tmp_path / "b.params", told=told)
    assert report.restarted
    assert [text for text in told.texts if "MAV_RESULT_UNSUPPORTED" in text] == [
        "the board does not restart by itself (MAV_RESULT_UNSUPPORTED): unplug it and plug it in again; waiting"
    ]


async def test_a_count_that_changes_while_it_is_read() -> None:
    async with linked() as (board, link):
        client = ParamsClient(link, await link.find())

        def more() -> None:
            board.on_list = lambda: None
            link._beats.get_loop().call_soon(board.unlisted.clear)

        board.on_list = more
        values = await client.download()
        board.unlisted.clear()
        assert differences(await client.download(), board.values) == {}
        assert set(values) <= set(board.values)


@pytest.mark.parametrize("backup_exists", [False, True])
async def test_default_backups_do_not_replace_each_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, backup_exists: bool
) -> None:
    monkeypatch.chdir(tmp_path)
    async with linked() as (board, link):
        first = await prepare(link, ROVER, None, nothing_to_object, Told())
        assert first.backup == f"lav2-hil-{bytes(range(18)).hex()}-1.params"
        if backup_exists:
            await restore(link, Path(first.backup), Told())
            board.values["MC_ROLLRATE_P"] = 0.5
        second = await prepare(link, ROVER, None, nothing_to_object, Told())
    assert second.backup == first.backup.replace("-1.", "-2." if backup_exists else "-1.")
