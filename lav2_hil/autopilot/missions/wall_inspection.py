"""Contact inspection: the autopilot brings the vehicle up and down, its companion computer does what is between."""

from __future__ import annotations

from lav2_hil.autopilot.mission import MissionFailedError
from lav2_hil.autopilot.vehicle import Vehicle

COMPANION = "wall_inspection"
"""The companion computer's task."""
HEIGHT_M = 1.5
WITHIN_S = 120.0


async def mission(vehicle: Vehicle) -> None:
    """Take off to 1.5 m, let the companion computer press the arm on the wall, land; in any case land."""
    await vehicle.arm()
    await vehicle.take_off(HEIGHT_M)
    await vehicle.hold(3.0)
    failure = None
    try:
        await vehicle.hand_over(WITHIN_S)
    except MissionFailedError as error:
        failure = error
    await vehicle.land()
    await vehicle.disarm()
    if failure is not None:
        raise failure
