"""`lav2-hil replay`: a recorded session again, and what comes out of it otherwise than it did."""

from __future__ import annotations

import json
import logging
from pathlib import Path

import click

from firmware_profiles.errors import UsageError
from lav2_hil.exitcodes import ExitCode
from lav2_hil.session.check import check_session
from lav2_hil.session.report import document_of, lines_of

logger = logging.getLogger("lav2_hil")


@click.command()
@click.argument("session", type=click.Path(path_type=Path))
@click.option("--pace", type=float, help="Keep the times between inputs, divided by this; 1 is as recorded.")
@click.option(
    "--profile", help="Fly this vehicle: a shipped name or a path that ends in .toml.  [default: by its name]"
)
@click.option("--recorded-profile", is_flag=True, help="Fly the vehicle as it was recorded.")
@click.option("--ignore", multiple=True, metavar="FIELD", help="Do not compare this, such as HIL_GPS.cog; repeatable.")
@click.option(
    "--tolerance",
    "tolerances",
    multiple=True,
    metavar="FIELD=VALUE",
    help="Let this be so far off, in its unit, such as truth.pos_enu_m=0.01; repeatable.",
)
@click.option("--json", "as_json", is_flag=True, help="The result as one JSON document on stdout.")
def command(
    session: Path,
    pace: float | None,
    profile: str | None,
    recorded_profile: bool,
    ignore: tuple[str, ...],
    tolerances: tuple[str, ...],
    as_json: bool,
) -> int:
    """Feed the inputs of SESSION to bridge and twin again, and compare what follows with what was recorded.

    Bit for bit where processor and packages are those of the recording, within tolerances elsewhere. The vehicle is
    today's of the recorded name, so that a change of it shows.
    """
    if pace is not None and not 0 < pace < float("inf"):
        raise UsageError(f"--pace {pace:g}: expected a factor above 0; without the option it is as fast as it goes")
    if recorded_profile and profile is not None:
        raise UsageError("--profile and --recorded-profile: expected one of them")
    result = check_session(
        session,
        profile=profile,
        recorded_profile=recorded_profile,
        ignore=ignore,
        tolerances=dict(_tolerance(text) for text in tolerances),
        pace=pace or 0.0,
    )
    for warning in (result.spoilt, result.vehicle.warning):
        if warning is not None:
            logger.warning("%s", warning)
    click.echo(json.dumps(document_of(result)) if as_json else "\n".join(lines_of(result)))
    return ExitCode.OK if result.comparison.equal else ExitCode.FAILED_VERDICT


def _tolerance(text: str) -> tuple[str, float]:
    name, _, value = text.partition("=")
    try:
        return name, float(value)
    except ValueError:
        raise UsageError(f"--tolerance {text}: expected FIELD=VALUE, such as truth.pos_enu_m=0.01") from None
