"""`lav2-hil board prepare` and `board restore`: a PX4 board made ready for HITL, and put back."""

from __future__ import annotations

import asyncio
import json
import logging
import sys
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import click

from bridge.board import Report, prepare, restore
from bridge.board_link import BoardLink
from bridge.endpoint import parse_endpoint
from bridge.transport.factory import create_transport
from firmware_profiles.errors import UsageError
from firmware_profiles.loader import load_profile
from firmware_profiles.px4_params import Value, shown
from lav2_hil.board_check import check_real

logger = logging.getLogger("lav2_hil")

F = TypeVar("F", bound=Callable[..., Any])

_OPTIONS = (
    click.option("--device", metavar="DEVICE[,BAUD]", help="The board's serial port, as /dev/ttyACM0."),
    click.option("--endpoint", help="Any other link to it."),
    click.option("--timeout", "wait_s", type=float, default=10.0, help="Wait so many seconds for a board to answer."),
    click.option("--json", "as_json", is_flag=True, help="What was done as one JSON document on stdout."),
)


def link_options(command: F) -> F:
    """The options of a command that speaks to one board."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


class Told:
    """Tells a person on stderr: what happens as log lines, progress on one line of a terminal."""

    def __init__(self) -> None:
        self._tty = sys.stderr.isatty()

    def say(self, text: str) -> None:
        """Something happened."""
        logger.info("%s", text)

    def progress(self, done: int, total: int) -> None:
        """So many of so many parameters have come."""
        if self._tty and total:
            click.echo(f"\r{done} of {total} parameters", nl=done == total, err=True)


@click.group()
def command() -> None:
    """Prepare a PX4 board for HITL, or put it back."""


@command.command(name="prepare")
@click.option("--profile", "profile_name", required=True, help="Vehicle: a shipped name or a path that ends in .toml.")
@click.option(
    "--backup",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Save the board's parameters here.  [default: ./lav2-hil-<board>-<n>.params]",
)
@click.option("--propellers-are-off", is_flag=True, help="Go on although real outputs of the board will move.")
@link_options
def prepare_command(
    profile_name: str, backup: Path | None, propellers_are_off: bool, as_json: bool, **link: Any
) -> None:
    """Save all parameters, set what HITL needs, restart the board and verify. Cut short, it goes on when run again."""
    profile = load_profile(profile_name)

    def check(values: Mapping[str, Value], simulated: str | None) -> None:
        check_real(values, simulated, profile, propellers_are_off=propellers_are_off)

    report = _with_board(lambda link: prepare(link, profile, backup, check, Told()), **link)
    _show(report, as_json)


@command.command(name="restore")
@click.option(
    "--backup", type=click.Path(path_type=Path), required=True, metavar="FILE", help="What board prepare saved."
)
@click.option("--force", is_flag=True, help="Put back what somebody else has changed since, too.")
@link_options
def restore_command(backup: Path, force: bool, as_json: bool, **link: Any) -> None:
    """Put back what board prepare and HITL have changed, restart the board and compare it with FILE."""
    report = _with_board(lambda link: restore(link, backup, Told(), force=force), **link)
    _show(report, as_json)


R = TypeVar("R")


def _with_board(
    work: Callable[[BoardLink], Awaitable[R]], *, device: str | None, endpoint: str | None, wait_s: float
) -> R:
    if (device is None) == (endpoint is None):
        raise UsageError("--device or --endpoint: expected one of them")
    return asyncio.run(with_link(device or endpoint or "", wait_s, work))


async def with_link(endpoint: str, wait_s: float, work: Callable[[BoardLink], Awaitable[R]]) -> R:
    """Open a link, do some work on it, close it.

    Raises:
        EndpointError, LinkUnavailableError: it cannot be opened.
    """
    if not 0 < wait_s < 3600:
        raise UsageError(f"--timeout: expected a time above 0 s, got {wait_s:g}")
    async with BoardLink(create_transport(parse_endpoint(endpoint)), wait_s) as link:
        return await work(link)


def _show(report: Report, as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps(report.as_table()))
        return
    for name, value in report.set.items():
        click.echo(f"{name:<17} set to {shown(value)}")
    for name, (old, now) in report.kept.items():
        click.echo(f"{name:<17} kept at {shown(now)}; {shown(old)} in the backup (--force puts it back)")
    did = f"{len(report.set)} set" if report.restarted else "nothing to do"
    click.echo(f"{report.phase}: {did}; backup in {report.backup}")
