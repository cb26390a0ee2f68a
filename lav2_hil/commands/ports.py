"""`lav2-hil ports`: the serial ports, and which may be a board."""

from __future__ import annotations

import json

import click

from bridge.ports import Port, list_ports


@click.command()
@click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout.")
def command(as_json: bool) -> None:
    """List the serial ports with vendor, product and the path to give to --endpoint."""
    ports = list_ports()
    if as_json:
        click.echo(json.dumps([port._asdict() for port in ports]))
        return
    if not ports:
        click.echo("no serial ports; a board that is plugged in should show as /dev/ttyACM0 (see dmesg)")
    for port in ports:
        click.echo(_line(port))


def _line(port: Port) -> str:
    what = " ".join(filter(None, (port.vendor, port.product))) or "unknown device"
    parts = [port.by_id or port.device, what]
    if port.usb_id is not None:
        parts.append(f"USB {port.usb_id}")
    if port.by_id is not None:
        parts.append(f"now {port.device}")
    if port.likely_board:
        parts.append("likely a flight controller")
    if port.held_by is not None:
        parts.append(f"held by {port.held_by}")
    return "  ".join(parts)
