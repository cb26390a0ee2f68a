"""The serial ports of this computer: what is on them, and the path that outlives a re-enumeration."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from serial.tools.list_ports import comports

from bridge.transport.holders import holders
from bridge.transport.serial import BY_ID

BOARD_VENDORS = {
    0x26AC: "3D Robotics",
    0x2DAE: "Hex/ProfiCNC (CubePilot)",
    0x3162: "Holybro",
    0x3185: "Auterion",
    0x1FC9: "NXP",
    0x3163: "CUAV",
}
"""USB vendors of flight controllers; others may be some too."""


class Port(NamedTuple):
    """One serial port.

    Attributes:
        device: its short name, which may change when the board restarts.
        by_id: its stable name, or None.
        vendor, product: as the device says it, or what is known of its vendor id; None when it says nothing.
        usb_id: VVVV:PPPP, or None where it is not USB.
        serial_number: of the device, or None.
        likely_board: its vendor makes flight controllers.
        held_by: who has it open, or None.
    """

    device: str
    by_id: str | None
    vendor: str | None
    product: str | None
    usb_id: str | None
    serial_number: str | None
    likely_board: bool
    held_by: str | None


def list_ports(by_id: Path = BY_ID) -> list[Port]:
    """All serial ports; likely boards first."""
    stable = _stable_names(by_id)
    ports = []
    for found in comports():
        if found.vid is None and found.hwid in (None, "n/a"):
            continue  # a name without a device
        known = BOARD_VENDORS.get(found.vid) if found.vid is not None else None
        ports.append(
            Port(
                device=found.device,
                by_id=stable.get(str(Path(found.device).resolve())),
                vendor=found.manufacturer or known,
                product=found.product,
                usb_id=None if found.vid is None else f"{found.vid:04x}:{found.pid:04x}",
                serial_number=found.serial_number,
                likely_board=known is not None or "px4" in (found.product or "").lower(),
                held_by=holders(found.device) or None,
            )
        )
    return sorted(ports, key=lambda port: (not port.likely_board, port.device))


def _stable_names(by_id: Path) -> dict[str, str]:
    try:
        links = sorted(by_id.iterdir())
    except OSError:
        return {}
    return {str(link.resolve()): str(link) for link in links}
