"""`lav2-hil export`: a recorded session as a file that other programs read."""

from __future__ import annotations

import logging
from pathlib import Path

import click

from firmware_profiles.errors import UsageError
from lav2_hil.commands.run import show_summary
from lav2_hil.output_file import new_file
from lav2_hil.session.export_csv import export_csv
from lav2_hil.session.export_tlog import export_tlog
from lav2_hil.session.reader import read_session

logger = logging.getLogger("lav2_hil")

_EXPORTERS = {".tlog": export_tlog, ".csv": export_csv}


@click.command()
@click.argument("session", type=click.Path(path_type=Path))
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    required=True,
    metavar="FILE",
    help="A .tlog (MAVLink of both directions, for ground stations) or a .csv (a row for each tick).",
)
@click.option("--force", is_flag=True, help="Replace FILE if it exists.")
@click.option("--json", "as_json", is_flag=True, help="What was written as one JSON document on stdout.")
def command(session: Path, output: Path, force: bool, as_json: bool) -> int:
    """Write SESSION as a tlog or a table; of a damaged one all that is left."""
    exporter = _EXPORTERS.get(output.suffix)
    if exporter is None:
        raise UsageError(f"--output {output}: expected a name that ends in {' or '.join(_EXPORTERS)}")
    recorded = read_session(session)
    if recorded.damage is not None:
        logger.warning("%s: %s", session, recorded.damage)
    elif recorded.incomplete_from_us is not None:
        missing_s = 1e-6 * (recorded.incomplete_from_us - recorded.header.started_us)
        logger.warning("%s: incomplete: from %.3f s on the recorder lost some", session, missing_s)
    with new_file(output, force=force) as unfinished:
        summary = exporter(recorded, unfinished)
    summary = {"session": str(session), "output": str(output), **summary, "damage": recorded.damage}
    show_summary(summary, as_json=as_json)
    return 0
