"""`lav2-hil import`: a recorded flight controller made into a session."""

from __future__ import annotations

from pathlib import Path

import click

from lav2_hil.commands.run import show_summary
from lav2_hil.output_file import new_file
from lav2_hil.session.importing import import_recording, import_settings, read_recording
from lav2_hil.settings import DEFAULT_DATE, home_from_environment, parse_date, parse_home


@click.command()
@click.argument("from_px4", type=click.Path(path_type=Path))
@click.option(
    "--to",
    "to_px4",
    type=click.Path(path_type=Path),
    metavar="TLOG",
    help="What the simulator sent meanwhile, if FROM_PX4 does not hold it: tells when what was said.",
)
@click.option(
    "-o", "--output", type=click.Path(path_type=Path), required=True, metavar="FILE", help="The session, a .mcap."
)
@click.option("--profile", "profile_name", default="px4_iris", help="Vehicle.  [default: px4_iris]")
@click.option("--home", metavar="LAT,LON,ALT[,HEADING]", help="Start: degrees, metres AMSL.  [default: as of run]")
@click.option("--date", metavar="TIME", help=f"UTC at the start.  [default: {DEFAULT_DATE:%Y-%m-%dT%H:%M:%SZ}]")
@click.option("--seed", type=int, default=0, help="Of all noise.  [default: 0]")
@click.option("--force", is_flag=True, help="Replace FILE if it exists.")
@click.option("--json", "as_json", is_flag=True, help="What was imported as one JSON document on stdout.")
def command(
    from_px4: Path,
    to_px4: Path | None,
    output: Path,
    profile_name: str,
    home: str | None,
    date: str | None,
    seed: int,
    force: bool,
    as_json: bool,
) -> int:
    """Play FROM_PX4, a tlog of a flight controller's HIL link, to bridge and twin, and keep that as a session.

    The recorded flight controller answers our sensors as it answered those of its simulator; what our twin does under
    its controls is the session's outcome, and what `lav2-hil replay` compares with from then on.
    """
    settings = import_settings(
        profile_name,
        home=parse_home(home) if home is not None else home_from_environment(),
        date=parse_date(date) if date is not None else DEFAULT_DATE,
        seed=seed,
    )
    records = read_recording(from_px4, to_px4)
    with new_file(output, force=force) as unfinished:
        summary = import_recording(records, settings, from_px4.name, unfinished)
    summary = {"recording": str(from_px4), "session": str(output), **summary}
    show_summary(summary, as_json=as_json)
    return 0
