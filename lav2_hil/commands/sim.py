"""`lav2-hil sim`: no hardware and no PX4; the built-in autopilot flies the twin."""

from __future__ import annotations

import dataclasses
from typing import Any

import click
import msgspec

from bridge.endpoint import parse_endpoint
from firmware_profiles.errors import Lav2HilError, UsageError
from lav2_hil.autopilot.mission import companion_task, load_mission, mission_names
from lav2_hil.busy_wait import run
from lav2_hil.commands.options import run_options, settings_of
from lav2_hil.commands.run import SIMULATOR_PORT, show_summary
from lav2_hil.companion.companion import check_task
from lav2_hil.companion.params import CompanionParams
from lav2_hil.settings import Settings
from lav2_hil.sim import Simulation

NO_MISSION = "none"
REPLY_TIMEOUT_S = 2.0
"""The autopilot is our own, on the same computer: that this is busy must not change the flight."""


@click.command()
@click.option("--profile", "profile_name", default="lav2", help="Vehicle.  [default: lav2]")
@click.option(
    "--mission",
    default="demo",
    help=f"What to fly: {', '.join(mission_names())}; or {NO_MISSION}, for a ground station to fly.  [default: demo]",
)
@run_options
def command(profile_name: str, mission: str, as_json: bool, **options: Any) -> int:
    """Fly a mission in the twin with the built-in autopilot, and judge it."""
    wanted = None if mission == NO_MISSION else mission
    if wanted is not None:
        load_mission(wanted)
    instance = options["instance"]
    endpoint = parse_endpoint(f"tcpin:127.0.0.1:{SIMULATOR_PORT + instance}")
    settings = settings_of(profile_name, endpoint, command="sim", answers_every_sensor=True, **options)
    settings = dataclasses.replace(settings, companion=_companion(settings, wanted))
    if settings.reply_timeout_s is None and not settings.link_faults:
        settings = dataclasses.replace(settings, reply_timeout_s=REPLY_TIMEOUT_S)
    exit_code, summary = run(_fly(settings, profile_name, instance, wanted), busy=settings.speed == 0)
    show_summary(summary, as_json=as_json)
    return exit_code


def _companion(settings: Settings, mission: str | None) -> CompanionParams | None:
    """The companion computer's task: the mission's, or on a vehicle with an arm to keep it put away.

    Raises:
        UsageError: the mission needs one, and the vehicle is not made for it.
    """
    task = None if mission is None else companion_task(mission)
    if task is None:
        return None if settings.profile.vehicle.arm is None else CompanionParams()
    params = msgspec.convert({"task": task}, CompanionParams)
    try:
        check_task(params, settings.profile.vehicle)
    except UsageError as error:
        raise UsageError(f"--mission {mission}: {settings.profile.name}: {error}") from None
    return params


async def _fly(settings: Settings, profile_name: str, instance: int, mission: str | None) -> tuple[int, dict[str, Any]]:
    try:
        return await Simulation(settings, profile_name, instance, mission).run()
    except* Lav2HilError as errors:
        raise errors.exceptions[0] from None
