"""`lav2-hil run`: a flight controller on one side, the twin on the other."""

from __future__ import annotations

import asyncio
import json
import logging
from typing import Any

import click

from bridge.endpoint import endpoint_warning, parse_endpoint
from firmware_profiles.errors import Lav2HilError
from firmware_profiles.loader import load_profile
from lav2_hil.service import Service
from lav2_hil.settings import DEFAULT_DATE, DEFAULT_HOME, Settings, home_from_environment, parse_date, parse_home

logger = logging.getLogger("lav2_hil")

SIMULATOR_PORT = 4560
"""Where PX4's instance 0 looks for its simulator; instance N adds N."""


@click.command()
@click.option("--profile", "profile_name", required=True, help="Vehicle: a shipped name or a path that ends in .toml.")
@click.option("--endpoint", help="Where PX4 is.  [default: tcpin:127.0.0.1:4560, plus the instance]")
@click.option("--instance", type=click.IntRange(0, 254), default=0, help="PX4's instance: shifts the default port.")
@click.option(
    "--home",
    "home_text",
    metavar="LAT,LON,ALT[,HEADING]",
    help="Start: degrees, metres AMSL.  "
    f"[default: PX4_HOME_LAT, _LON, _ALT, or {DEFAULT_HOME.lat_deg},{DEFAULT_HOME.lon_deg},{DEFAULT_HOME.alt_amsl_m:g},0]",
)
@click.option(
    "--date", "date_text", metavar="TIME", help=f"UTC at the start.  [default: {DEFAULT_DATE:%Y-%m-%dT%H:%M:%SZ}]"
)
@click.option(
    "--speed", type=float, default=1.0, help="Simulated over wall time; 0 is as fast as it goes.  [default: 1]"
)
@click.option("--seed", type=int, default=0, help="Of all noise.  [default: 0]")
@click.option("--duration", type=float, help="Stop after so many simulated seconds.")
@click.option(
    "--reply-timeout",
    type=float,
    metavar="MS",
    help="Wait so long for an answer; 0 for ever.  [default: 500, on UDP 50]",
)
@click.option("--json", "as_json", is_flag=True, help="The summary as one JSON document on stdout.")
def command(
    profile_name: str,
    endpoint: str | None,
    instance: int,
    home_text: str | None,
    date_text: str | None,
    speed: float,
    seed: int,
    duration: float | None,
    reply_timeout: float | None,
    as_json: bool,
) -> int:
    """Connect a flight controller to the twin and let it fly."""
    text = endpoint if endpoint is not None else f"tcpin:127.0.0.1:{SIMULATOR_PORT + instance}"
    settings = Settings(
        profile=load_profile(profile_name),
        endpoint=parse_endpoint(text),
        home=parse_home(home_text) if home_text is not None else home_from_environment(),
        date=parse_date(date_text) if date_text is not None else DEFAULT_DATE,
        speed=speed,
        seed=seed,
        duration_s=duration,
        reply_timeout_s=None if reply_timeout is None else reply_timeout / 1000,
    )
    warning = endpoint_warning(text)
    if warning:
        logger.warning("%s", warning)
    exit_code, summary = asyncio.run(_serve(settings))
    if as_json:
        click.echo(json.dumps(summary))
    else:
        show_summary(summary)
    return exit_code


async def _serve(settings: Settings) -> tuple[int, dict[str, Any]]:
    service = Service(settings)
    logger.info("%s at %s", settings.profile.name, service.transport.address)
    try:
        return await service.run()
    except* Lav2HilError as errors:
        raise errors.exceptions[0] from None


def show_summary(summary: dict[str, Any]) -> None:
    """The summary for people."""
    for key, value in summary.items():
        if value not in (0, {}, None):
            shown = ", ".join(f"{name} {count}" for name, count in value.items()) if isinstance(value, dict) else value
            click.echo(f"{key.replace('_', ' '):<22} {shown}")
