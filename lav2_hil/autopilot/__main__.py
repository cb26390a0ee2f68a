"""`python -m lav2_hil.autopilot`: the built-in autopilot as a process of its own."""

from __future__ import annotations

import asyncio
import logging
import os
import sys

import click

from bridge.endpoint import parse_endpoint
from firmware_profiles.errors import Lav2HilError
from firmware_profiles.loader import load_profile
from lav2_hil.autopilot.board_process import BoardProcess
from lav2_hil.autopilot.mission import load_mission
from lav2_hil.autopilot.process import AutopilotProcess
from lav2_hil.busy_wait import run
from lav2_hil.exitcodes import ExitCode, exit_code_of

LAST_INSTANCE = 249
"""Its system id is 250, the last that PX4 takes; 255 is the ground station's."""


@click.command()
@click.option("--profile", required=True, help="Vehicle: a shipped name or a path that ends in .toml.")
@click.option("--simulator", help="Where the simulator is.  [default: tcp:127.0.0.1:4560, plus the instance]")
@click.option("--instance", type=click.IntRange(0, LAST_INSTANCE), default=0, help="Shifts ports and system id.")
@click.option("--mission", help="What to do; without one it waits for a ground station.")
@click.option("--busy-wait", is_flag=True, help="Look for the next sensor instead of sleeping until it comes.")
@click.option("--until-eof", is_flag=True, help="End when standard input does, so that no starter is outlived.")
@click.option("--hitl", is_flag=True, help="Be a board in HITL: a clock of its own, on a device such as /dev/pts/3.")
@click.option("--usb", is_flag=True, help="With --hitl: the device is USB, silent until it has seen a HEARTBEAT.")
@click.option("--sys-hitl", type=click.IntRange(0, 1), default=1, help="With --hitl: SYS_HITL at the first boot.")
def main(
    profile: str,
    simulator: str | None,
    instance: int,
    mission: str | None,
    busy_wait: bool,
    until_eof: bool,
    hitl: bool,
    usb: bool,
    sys_hitl: int,
) -> None:
    """Fly the vehicle that a simulator shows."""
    logging.basicConfig(level=logging.INFO, format="autopilot: %(levelname)s: %(message)s")
    endpoint = parse_endpoint(simulator if simulator is not None else f"tcp:127.0.0.1:{4560 + instance}")
    try:
        loaded = None if mission is None else load_mission(mission)
        process: AutopilotProcess | BoardProcess
        if hitl:
            process = BoardProcess(load_profile(profile), endpoint, instance, loaded, usb=usb, sys_hitl=sys_hitl)
        else:
            process = AutopilotProcess(load_profile(profile), endpoint, instance, loaded)
        run(_fly(process, until_eof), busy=busy_wait)
    except KeyboardInterrupt:  # click would end the line
        sys.exit(ExitCode.INTERRUPTED)


async def _fly(process: AutopilotProcess | BoardProcess, until_eof: bool) -> None:
    if until_eof:
        stdin = sys.stdin.fileno()

        def look() -> None:
            words = os.read(stdin, 4096)
            if not words:
                process.end()
            for word in words.decode(errors="replace").split():
                process.command(word)

        asyncio.get_running_loop().add_reader(stdin, look)
    await process.run()


def _failed(message: str, code: int) -> int:
    click.echo(f"autopilot: error: {' '.join(message.split())}", err=True)
    return code


if __name__ == "__main__":
    try:
        main(standalone_mode=False)
    except click.exceptions.Exit as error:
        sys.exit(error.exit_code)
    except click.ClickException as error:
        sys.exit(_failed(error.format_message(), ExitCode.USAGE))
    except Lav2HilError as error:
        sys.exit(_failed(str(error), exit_code_of(error)))
    except (KeyboardInterrupt, click.Abort):
        sys.exit(ExitCode.INTERRUPTED)
