"""`lav2-hil doctor`: why will it not arm?"""

from __future__ import annotations

import asyncio
import json
import logging

import click

from bridge.endpoint import TcpIn, TcpOut, UdpIn, UdpOut, endpoint_warning, parse_endpoint
from firmware_profiles.errors import LinkUnavailableError
from lav2_hil.doctor.gather import LISTEN_S, Visit
from lav2_hil.doctor.report import as_table, lines_of
from lav2_hil.doctor.rules import diagnose
from lav2_hil.exitcodes import ExitCode

logger = logging.getLogger("lav2_hil")

_FROZEN = "a PX4 SITL that waits for its simulator says nothing: is lav2-hil run going, and not paused?"


@click.command()
@click.option(
    "--endpoint",
    default="udpin:127.0.0.1:14550",
    show_default=True,
    help="Where the flight controller speaks to ground stations, or the board's serial port.",
)
@click.option(
    "--listen",
    "listen_s",
    type=click.FloatRange(1.0, 3600.0),
    default=LISTEN_S,
    show_default=True,
    help="Seconds to listen.",
)
@click.option("--json", "as_json", is_flag=True, help="The findings as one JSON document on stdout.")
def command(endpoint: str, listen_s: float, as_json: bool) -> ExitCode:
    """Ask a flight controller why it will not arm: causes in plain words, and what to do.

    Changes nothing on it, and never arms it. Exit code 0: nothing found, 1: findings, 69: no PX4 there.
    """
    place = parse_endpoint(endpoint)
    warning = endpoint_warning(endpoint)
    if warning:
        logger.warning("%s", warning)
    try:
        seen = asyncio.run(Visit(place, listen_s, say=logger.info).observe())
    except LinkUnavailableError as error:
        if isinstance(place, UdpIn | UdpOut | TcpIn | TcpOut) and "nothing heard" in str(error):
            raise LinkUnavailableError(f"{error}; {_FROZEN}") from None
        raise
    findings = diagnose(seen)
    if as_json:
        click.echo(json.dumps(as_table(seen, findings)))
    else:
        for line in lines_of(seen, findings):
            click.echo(line)
    return ExitCode.FAILED_VERDICT if findings else ExitCode.OK
