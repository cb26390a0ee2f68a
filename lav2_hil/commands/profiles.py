"""`lav2-hil profiles [show NAME]`: which vehicles there are, and what is in one."""

from __future__ import annotations

import json

import click
import msgspec

from firmware_profiles.loader import load_profile, profile_names


@click.group(invoke_without_command=True)
@click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout.")
@click.pass_context
def command(ctx: click.Context, as_json: bool) -> None:
    """List the vehicles that come with the package."""
    if ctx.invoked_subcommand is not None:
        return
    profiles = [load_profile(name) for name in profile_names()]
    if as_json:
        click.echo(json.dumps([{"name": profile.name, "description": profile.description} for profile in profiles]))
        return
    for profile in profiles:
        click.echo(f"{profile.name:<23} {profile.description}")


@command.command()
@click.argument("profile")
def show(profile: str) -> None:
    """Show PROFILE, a shipped name or a path, with everything that it inherits, as JSON."""
    click.echo(msgspec.json.format(msgspec.json.encode(load_profile(profile)), indent=2).decode())
