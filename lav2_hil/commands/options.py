"""Options that several commands share, and the settings made of them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from bridge.endpoint import Endpoint, Serial
from bridge.signing import read_key
from firmware_profiles.errors import UsageError
from firmware_profiles.loader import load_profile
from lav2_hil.faults import read_faults
from lav2_hil.ground_stations import stations_of
from lav2_hil.settings import (
    DEFAULT_DATE,
    DEFAULT_HOME,
    Settings,
    home_from_environment,
    parse_broker,
    parse_date,
    parse_home,
)

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
    click.option(
        "--fault",
        "fault_options",
        multiple=True,
        metavar="FAULT",
        help='Break link or vehicle on purpose: "link loss=0.02 latency=20ms at=12s for=3s", "rotor2 lost at=12s", '
        '"gps off", or a .toml file; repeatable.',
    ),
    click.option("--name", help="What the world calls the vehicle: a-z, 0-9, _ and -.  [default: the profile's name]"),
    click.option(
        "--session",
        "session_file",
        type=click.Path(path_type=Path),
        metavar="FILE",
        help="Record the run into this file.  [default: ./lav2-hil-<UTC>-<name>.mcap]",
    ),
    click.option("--mqtt", metavar="HOST[:PORT]", help="Publish the run to this MQTT broker.  [default port: 1883]"),
    click.option(
        "--shadow",
        "shadows",
        type=click.IntRange(1, 4096),
        metavar="N",
        help="Let N worlds with parameters drawn from the profile's [uncertainty] follow the twin.",
    ),
    click.option(
        "--true-profile",
        "true_profile_name",
        metavar="PROFILE",
        help="The vehicle that really flies, if --profile is only what everybody believes of it.",
    ),
    click.option("--no-session", is_flag=True, help="Do not record the run."),
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
    fault_options: tuple[str, ...],
    name: str | None,
    session_file: Path | None,
    no_session: bool,
    mqtt: str | None,
    shadows: int | None,
    true_profile_name: str | None,
    command: str,
    answers_every_sensor: bool = False,
    ground: tuple[str, ...] = (),
    no_ground: bool = False,
    signing_key: Path | None = None,
    hitl: bool | None = None,
    mav_rate: int | None = None,
) -> Settings:
    """The settings that the options make; of `instance`, what has not gone into the endpoint.

    Raises:
        ProfileError, UsageError: as the parts do.
    """
    if no_session and session_file is not None:
        raise UsageError("--session and --no-session: expected one of them")
    is_board = isinstance(endpoint, Serial) if hitl is None else hitl
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
        name=name,
        command=command,
        profile_source=true_profile_name or profile_name,
        record=not no_session,
        session_file=session_file,
        faults=read_faults(fault_options),
        mqtt=None if mqtt is None else parse_broker(mqtt),
        ground=stations_of(ground, no_ground, hitl=is_board, instance=instance),
        signing_key=None if signing_key is None else read_key(signing_key),
        hitl=is_board,
        mav_rate=mav_rate,
        shadows=shadows or 0,
        true_profile=None if true_profile_name is None else load_profile(true_profile_name),
    )
