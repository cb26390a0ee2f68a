"""`python -m lav2_hil.autopilot`: the built-in autopilot as a process of its own."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import sys

import click

from bridge.endpoint import parse_endpoint
from firmware_profiles.errors import Lav2HilError
from firmware_profiles.loader import load_profile
from lav2_hil.autopilot.mission import load_mission
from lav2_hil.autopilot.process import AutopilotProcess
from lav2_hil.exitcodes import exit_code_of


@click.command()
@click.option("--profile", required=True, help="Vehicle: a shipped name or a path that ends in .toml.")
@click.option("--simulator", help="Where the simulator is.  [default: tcp:127.0.0.1:4560, plus the instance]")
@click.option("--instance", type=click.IntRange(0, 254), default=0, help="Shifts the ports and the system id.")
@click.option("--mission", help="What to do; without one it waits for a ground station.")
def main(profile: str, simulator: str | None, instance: int, mission: str | None) -> None:
    """Fly the vehicle that a simulator shows."""
    logging.basicConfig(level=logging.INFO, format="autopilot: %(levelname)s: %(message)s")
    endpoint = parse_endpoint(simulator if simulator is not None else f"tcp:127.0.0.1:{4560 + instance}")
    asyncio.run(_fly(profile, endpoint, instance, mission))


async def _fly(profile: str, endpoint: object, instance: int, mission: str | None) -> None:
    loaded = None if mission is None else load_mission(mission)
    await AutopilotProcess(load_profile(profile), endpoint, instance, loaded).run()  # type: ignore[arg-type]


if __name__ == "__main__":
    try:
        with contextlib.suppress(KeyboardInterrupt):
            main(standalone_mode=True)
    except Lav2HilError as error:
        click.echo(f"autopilot: error: {error}", err=True)
        sys.exit(exit_code_of(error))
