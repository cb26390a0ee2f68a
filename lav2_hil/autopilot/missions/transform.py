"""For a vehicle that transforms: fly, become a rover, drive, turn both ways, and fly again from there."""

from __future__ import annotations

from lav2_hil.autopilot.vehicle import Vehicle

HEIGHT_M = 3.0


async def mission(vehicle: Vehicle) -> None:
    """Take off to 3 m, land, transform, drive 3 m, turn by 90 degrees and back, transform back, take off and land."""
    await vehicle.arm()
    await vehicle.take_off(HEIGHT_M)
    await vehicle.hold(5.0)
    await vehicle.land()
    await vehicle.transform("drive")
    await vehicle.drive(3.0)
    await vehicle.turn(90.0)
    await vehicle.turn(-90.0)
    await vehicle.transform("flight")
    await vehicle.take_off(HEIGHT_M)
    await vehicle.hold(5.0)
    await vehicle.land()
    await vehicle.disarm()
