"""`make demo`: a captured flight of a real PX4 through bridge and twin, with nothing else on the machine.

The captured PX4 flew another simulator; here its controls, recorded to the millisecond, drive our twin of the Iris
through the same link, session and gate as a live one. It cannot see where this vehicle goes, so the flight is an open
loop: how far the vehicle gets says how much the two simulators agree.
"""

from __future__ import annotations

import asyncio
import logging
import sys
from pathlib import Path

import msgspec

from bridge.endpoint import Memory
from bridge.transport.capture import CaptureTransport
from firmware_profiles.loader import load_profile
from firmware_profiles.profile import VehicleProfile
from lav2_hil.commands.run import show_summary
from lav2_hil.service import Service
from lav2_hil.settings import Settings

CAPTURE = Path(__file__).resolve().parent.parent / "tests" / "data" / "captures" / "sitl_iris_flight_from_px4.tlog"
DURATION_S = 43.0
CAPTURED_HOVER = 0.5


def as_captured(profile: VehicleProfile) -> VehicleProfile:
    """The vehicle with motors that hover where the captured one did, at control 0.5."""
    hover = profile.vehicle.hover_speed_rad_s()

    def full(idle: float) -> float:
        return idle + (hover - idle) / CAPTURED_HOVER

    outputs = tuple(
        msgspec.structs.replace(
            output, speed_range_rad_s=(output.speed_range_rad_s[0], full(output.speed_range_rad_s[0]))
        )
        for output in profile.firmware.rotor_outputs
    )
    fastest = max(output.speed_range_rad_s[1] for output in outputs)
    propeller = msgspec.structs.replace(profile.vehicle.propeller, max_speed_rad_s=fastest)
    return msgspec.structs.replace(
        profile,
        vehicle=msgspec.structs.replace(profile.vehicle, propeller=propeller),
        firmware=msgspec.structs.replace(profile.firmware, rotor_outputs=outputs),
    )


async def main() -> int:
    """Play the capture and show what came of it."""
    settings = Settings(
        profile=as_captured(load_profile("px4_iris")), endpoint=Memory("demo"), speed=0, duration_s=DURATION_S
    )
    service = Service(settings, transport=CaptureTransport(CAPTURE))
    exit_code, summary = await service.run()
    show_summary(summary)
    flown = summary["times_armed"] == 1 and summary["replies"] > 10_000 and summary["reply_timeouts"] == 0
    return int(exit_code) if flown else 1


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, format="%(levelname)s: %(message)s")
    sys.exit(asyncio.run(main()))
