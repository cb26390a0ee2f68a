"""`lav2-hil run`: a flight controller on one side, the twin on the other."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import click

from bridge.endpoint import Serial, endpoint_warning, parse_endpoint
from firmware_profiles.errors import Lav2HilError
from lav2_hil.board_check import check_board
from lav2_hil.busy_wait import run
from lav2_hil.commands.options import run_options, settings_of
from lav2_hil.service import Service
from lav2_hil.settings import Settings

logger = logging.getLogger("lav2_hil")

SIMULATOR_PORT = 4560
"""Where PX4's instance 0 looks for its simulator; instance N adds N."""


@click.command()
@click.option("--profile", "profile_name", required=True, help="Vehicle: a shipped name or a path that ends in .toml.")
@click.option("--endpoint", help="Where PX4 is.  [default: tcpin:127.0.0.1:4560, plus the instance]")
@click.option(
    "--ground",
    multiple=True,
    metavar="HOST[:PORT]",
    help="Forward the flight controller to the ground station there; repeatable.  "
    "[default: of a board 127.0.0.1:14550 and 14540, plus the instance; else none, as PX4 SITL does it itself]",
)
@click.option("--no-ground", is_flag=True, help="Forward to no ground station.")
@click.option(
    "--signing-key",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Sign every frame with the key in this file (32 bytes or 64 hex digits); take only what is signed with it.",
)
@click.option(
    "--hitl/--sitl",
    default=None,
    help="The flight controller is a board with a clock of its own, or a PX4 in lockstep.  "
    "[default: a board on a serial line, else lockstep]",
)
@click.option(
    "--mav-rate",
    type=click.IntRange(1),
    metavar="B/S",
    help="MAV_x_RATE of the board's port, where it was set by hand.",
)
@click.option("--propellers-are-off", is_flag=True, help="Fly a board in HITL although real outputs of it will move.")
@run_options
def command(profile_name: str, endpoint: str | None, propellers_are_off: bool, as_json: bool, **options: Any) -> int:
    """Connect a flight controller to the twin and let it fly."""
    text = endpoint if endpoint is not None else f"tcpin:127.0.0.1:{SIMULATOR_PORT + options['instance']}"
    settings = settings_of(profile_name, parse_endpoint(text), command="run", **options)
    warning = endpoint_warning(text)
    if warning:
        logger.warning("%s", warning)
    exit_code, summary = run(_serve(settings, propellers_are_off), busy=settings.speed == 0, precise=settings.hitl)
    show_summary(summary, as_json=as_json)
    return exit_code


async def _serve(settings: Settings, propellers_are_off: bool) -> tuple[int, dict[str, Any]]:
    service = Service(settings)
    if settings.hitl and isinstance(settings.endpoint, Serial):
        await check_board(
            *(settings.endpoint, settings.profile, settings.signing_key), propellers_are_off=propellers_are_off
        )
    logger.info("%s at %s", settings.profile.name, service.transport.address)
    try:
        return await service.run()
    except* Lav2HilError as errors:
        raise errors.exceptions[0] from None


def show_summary(summary: dict[str, Any], *, as_json: bool) -> None:
    """The summary on stdout: as one JSON document, or for people."""
    if as_json:
        click.echo(json.dumps(summary))
        return
    for key, value in summary.items():
        if value in (0, {}, [], None):
            continue
        if isinstance(value, dict):
            value = ", ".join(_figures(value))
        elif isinstance(value, list):
            value = ", ".join(map(str, value))
        click.echo(f"{key.replace('_', ' '):<22} {value}")


def _figures(values: dict[str, Any]) -> list[str]:
    """Names and figures; of a table of tables, what is not 0."""
    lines = []
    for name, value in values.items():
        if isinstance(value, dict):
            lines += [f"{name} {inner} {count}" for inner, count in value.items() if count]
        else:
            lines.append(f"{name} {value}")
    return lines
