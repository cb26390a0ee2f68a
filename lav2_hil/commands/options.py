"""Options that several commands share, and the settings made of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from bridge.endpoint import Endpoint
from firmware_profiles.loader import load_profile
from lav2_hil.settings import DEFAULT_DATE, DEFAULT_HOME, Settings, home_from_environment, parse_date, parse_home

F = TypeVar("F", bound=Callable[..., Any])

_HOME = f"{DEFAULT_HOME.lat_deg},{DEFAULT_HOME.lon_deg},{DEFAULT_HOME.alt_amsl_m:g},{DEFAULT_HOME.heading_deg:g}"

_OPTIONS = (
    click.option(
        "--instance", type=click.IntRange(0, 249), default=0, help="PX4's instance: shifts the default ports."
    ),
    click.option(
        "--home",
        metavar="LAT,LON,ALT[,HEADING]",
        help=f"Start: degrees, metres AMSL.  [default: PX4_HOME_LAT, _LON, _ALT, or {_HOME}]",
    ),
    click.option("--date", metavar="TIME", help=f"UTC at the start.  [default: {DEFAULT_DATE:%Y-%m-%dT%H:%M:%SZ}]"),
    click.option(
        "--speed",
        type=float,
        default=1.0,
        help="Simulated over wall time; 0 is as fast as it goes.  [default: 1]",
    ),
    click.option("--seed", type=int, default=0, help="Of all noise.  [default: 0]"),
    click.option("--duration", type=float, help="Stop after so many simulated seconds."),
    click.option(
        "--reply-timeout",
        type=float,
        metavar="MS",
        help="Wait so long for an answer; 0 for ever.  [default: 500, on UDP 50, in sim 2000]",
    ),
    click.option("--json", "as_json", is_flag=True, help="The summary as one JSON document on stdout."),
)


def run_options(command: F) -> F:
    """The options of every command that runs a bridge."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def settings_of(
    profile_name: str,
    endpoint: Endpoint,
    *,
    instance: int,
    home: str | None,
    date: str | None,
    speed: float,
    seed: int,
    duration: float | None,
    reply_timeout: float | None,
    answers_every_sensor: bool = False,
) -> Settings:
    """The settings that the options make; of `instance`, what has not gone into the endpoint.

    Raises:
        ProfileError, UsageError: as the parts do.
    """
    return Settings(
        profile=load_profile(profile_name),
        endpoint=endpoint,
        home=parse_home(home) if home is not None else home_from_environment(),
        date=parse_date(date) if date is not None else DEFAULT_DATE,
        speed=speed,
        seed=seed,
        duration_s=duration,
        reply_timeout_s=None if reply_timeout is None else reply_timeout / 1000,
        system=instance + 1,
        answers_every_sensor=answers_every_sensor,
    )
