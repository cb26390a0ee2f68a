"""`lav2-hil params diff A B`: parameters of boards, files and profiles against each other."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass
from pathlib import Path

import click

from bridge.board import differences_shown
from bridge.board_link import BoardLink
from bridge.params_client import ParamsClient
from firmware_profiles.errors import EndpointError, UsageError
from firmware_profiles.hitl import CHANGES_BY_ITSELF, SIMULATED_ON_BOARD, SIMULATED_ON_POSIX, hitl_parameters, matches
from firmware_profiles.loader import load_profile, profile_names
from firmware_profiles.profile import VehicleProfile
from firmware_profiles.px4_params import Value, as_typed, differences, read_params
from lav2_hil.commands.board import Told, with_link
from lav2_hil.exitcodes import ExitCode


@dataclass(frozen=True, slots=True)
class _Side:
    """One side of a comparison: a whole table, or a profile, which speaks of some parameters only."""

    name: str
    values: dict[str, Value]
    profile: VehicleProfile | None = None


@click.group()
def command() -> None:
    """Compare parameters."""


@command.command()
@click.argument("a")
@click.argument("b")
@click.option("--all", "show_all", is_flag=True, help="Also what PX4 changes by itself.")
@click.option("--timeout", "wait_s", type=float, default=10.0, help="Wait so many seconds for a board to answer.")
@click.option("--json", "as_json", is_flag=True, help="The differences as one JSON document on stdout.")
def diff(a: str, b: str, show_all: bool, wait_s: float, as_json: bool) -> int:
    """Show where A and B differ: each a .params file, a profile, or the endpoint of a board. Exit code 1: they do."""
    left, right = (_side(text, wait_s) for text in (a, b))
    tables: tuple[dict[str, Value], ...] = (_table(left, right), _table(right, left))
    spoken = [set(table) for side, table in zip((left, right), tables, strict=True) if side.profile is not None]
    if spoken:
        names = set().union(*spoken)  # a profile speaks of no others
        tables = tuple({name: value for name, value in table.items() if name in names} for table in tables)
    found = differences(tables[0], tables[1])
    itself = [name for name in found if matches(name, CHANGES_BY_ITSELF)]
    if not show_all:
        found = {name: values for name, values in found.items() if name not in itself}
    if as_json:
        click.echo(json.dumps({name: {"a": old, "b": new} for name, (old, new) in found.items()}))
    else:
        for line in differences_shown(found):
            click.echo(line)
        hidden = f" (and {len(itself)} that PX4 changes by itself, --all shows them)" if itself and not show_all else ""
        click.echo(f"{len(found)} of {len(tables[0].keys() | tables[1].keys())} parameters differ{hidden}")
    return ExitCode.FAILED_VERDICT if found else ExitCode.OK


def _side(text: str, wait_s: float) -> _Side:
    if text.endswith(".params"):
        return _Side(text, read_params(Path(text)).values)
    if text.endswith(".toml") or text in profile_names():
        return _Side(text, {}, load_profile(text))
    try:
        return _Side(text, asyncio.run(with_link(text, wait_s, _download)))
    except EndpointError as error:
        raise UsageError(f"{error}; or give a .params file, or a profile: {', '.join(profile_names())}") from None


async def _download(link: BoardLink) -> dict[str, Value]:
    client = ParamsClient(link, await link.find())
    values = await client.download(Told().progress)
    outputs = [f"{SIMULATED_ON_BOARD}_FUNC{number}" for number in range(1, 17)]
    return values | await client.read(name for name in outputs if name not in values)


def _table(side: _Side, other: _Side) -> dict[str, Value]:
    """A side's parameters; a profile's are what HITL needs on the other side, in its types."""
    if side.profile is None:
        return side.values
    beside = other.values
    if beside and "CA_AIRFRAME" not in beside:
        simulated = None
    elif f"{SIMULATED_ON_POSIX}_FUNC1" in beside and f"{SIMULATED_ON_BOARD}_FUNC1" not in beside:
        simulated = SIMULATED_ON_POSIX
    else:
        simulated = SIMULATED_ON_BOARD
    table: dict[str, Value] = {}
    for name, value in hitl_parameters(side.profile, simulated).items():
        typed = as_typed(value, beside[name]) if name in beside else value
        table[name] = value if typed is None else typed
    return table
