"""Up, hover, down: the first flight of a new board or a new vehicle."""

from __future__ import annotations

from lav2_hil.autopilot.vehicle import Vehicle


async def mission(vehicle: Vehicle) -> None:
    """Take off to 2 m, hover for 4 s, land, disarm."""
    await vehicle.arm()
    await vehicle.take_off(2.0)
    await vehicle.hold(4.0)
    await vehicle.land()
    await vehicle.disarm()
