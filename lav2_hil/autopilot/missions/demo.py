"""Fly a square, land, drive and turn: a bit of everything that a land-air vehicle does, or of what this one can do."""

from __future__ import annotations

from lav2_hil.autopilot.vehicle import Vehicle

HEIGHT_M = 5.0
SIDE_M = 4.0


async def mission(vehicle: Vehicle) -> None:
    """Take off to 5 m, fly a square of 4 m, land, drive 2 m forward, turn by 90 degrees."""
    await vehicle.arm()
    if vehicle.can_fly:
        await vehicle.take_off(HEIGHT_M)
        await vehicle.hold(4.0)
        for north, east in ((SIDE_M, 0.0), (SIDE_M, SIDE_M), (0.0, SIDE_M), (0.0, 0.0)):
            await vehicle.go_to(north, east, HEIGHT_M)
            await vehicle.hold(4.0)
        await vehicle.land()
    if vehicle.can_drive:
        if vehicle.can_transform:
            await vehicle.transform("drive")
        await vehicle.drive(2.0)
        await vehicle.turn(90.0)
    await vehicle.disarm()
