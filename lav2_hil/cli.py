"""The command line: `lav2-hil COMMAND`. Each command is a module of `lav2_hil.commands`, imported when it is called."""

from __future__ import annotations

import importlib
import keyword
import logging
import sys
from typing import Any

import click

from firmware_profiles.errors import Lav2HilError
from lav2_hil.exitcodes import ExitCode, exit_code_of

_COMMANDS = {
    "board": "prepare a PX4 board for HITL, or put it back",
    "doctor": "say why a flight controller will not arm",
    "export": "write a session as a tlog or a table",
    "import": "make a session of a tlog",
    "params": "compare the parameters of boards, files and profiles",
    "ports": "list the serial ports, and which may be a board",
    "profiles": "list the vehicles, or show one",
    "replay": "feed a recorded session to bridge and twin again, and compare",
    "run": "connect a flight controller to the twin",
    "sim": "fly a mission with the built-in autopilot; needs no PX4",
}


class _LazyCommands(click.Group):
    """Imports a command's module only when that command is asked for: MuJoCo takes its time."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            return None
        module = f"{cmd_name}_" if keyword.iskeyword(cmd_name) else cmd_name
        command: click.Command = importlib.import_module(f"lav2_hil.commands.{module}").command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(sorted(_COMMANDS.items()))


@click.group(cls=_LazyCommands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="lav2-hil")
@click.option("-v", "--verbose", is_flag=True, help="Say more on stderr.")
@click.option("-q", "--quiet", is_flag=True, help="Say only warnings on stderr.")
def cli(verbose: bool, quiet: bool) -> None:
    """Hardware-in-the-loop bridge and digital twin: PX4 flies a MuJoCo vehicle."""
    level = logging.DEBUG if verbose else logging.WARNING if quiet else logging.INFO
    logging.basicConfig(level=level, format="%(levelname)s: %(message)s", stream=sys.stderr, force=True)


def main(arguments: list[str] | None = None) -> Any:
    """Run the command line; an error is one line on stderr and an exit code."""
    try:
        code = cli.main(args=arguments, prog_name="lav2-hil", standalone_mode=False)
        sys.exit(code if isinstance(code, int) else ExitCode.OK)
    except click.exceptions.Exit as error:
        sys.exit(error.exit_code)
    except click.ClickException as error:
        _say(error.format_message())
        sys.exit(ExitCode.USAGE)
    except Lav2HilError as error:
        _say(str(error))
        sys.exit(exit_code_of(error))
    except (KeyboardInterrupt, click.Abort):
        sys.exit(ExitCode.INTERRUPTED)


def _say(message: str) -> None:
    click.echo(f"error: {' '.join(message.split())}", err=True)
