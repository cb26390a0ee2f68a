"""What a serial line and its board take: whether PX4 will enable HIL at all, and how many sensors a second fit."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from bridge.endpoint import Endpoint, Serial
from firmware_profiles.errors import LinkUnavailableError

HIL_SENSOR_BYTES = 74
"""HIL_SENSOR on the wire, MAVLink 2, id 0."""
HIL_GPS_BYTES = 51
ODOMETRY_BYTES = 245
HEARTBEAT_BYTES = 21
HEARTBEAT_HZ = 1
MIN_HIL_RATE = 5_000
"""Data rate [B/s] that PX4's side of a line must exceed before PX4 takes HIL messages from it."""
USB_RATE = 100_000
"""Data rate [B/s] of PX4's own configuration for USB."""
BITS_PER_BYTE = 10
"""8 data bits, a start and a stop bit."""
USABLE = 0.9
"""Share of a line that is planned for: what is more than that finds no room when PX4 or this computer is late."""
MIN_SENSOR_HZ = 50
"""Below so many sensors a second PX4's rate controller cannot hold a vehicle."""
MAX_SENSOR_HZ = 400
"""More a second leave a board no time to fly: at 500 Hz its processor was above 90 % and the flight unstable."""


def px4_data_rate(baud: int | None) -> int:
    """PX4's data rate [B/s] on a line without an explicit MAV_x_RATE: baud over 20; None is USB."""
    return USB_RATE if baud is None else baud // 20


@dataclass(frozen=True, slots=True)
class Capacity:
    """How much of a line sensors may take.

    Attributes:
        every: each so manieth tick is sent.
        sensor_hz: what that makes a second.
        line: what was computed, in words.
    """

    every: int
    sensor_hz: float
    line: str


def is_usb(device: str) -> bool:
    """Whether a device is a board's own USB port, which has no baud rate (an adapter, ttyUSB, has one)."""
    return Path(device).resolve().name.startswith("ttyACM")


def capacity_of(
    endpoint: Endpoint, tick_us: int, gps_hz: float, mav_rate: int | None = None, *, odometry_hz: float = 0.0
) -> Capacity | None:
    """What a link carries; None where nothing limits it.

    Args:
        endpoint: the link.
        tick_us: the vehicle's time between two IMU readings [us].
        gps_hz: how often a GPS fix comes.
        mav_rate: MAV_x_RATE [B/s] where it was set by hand on the board; None for PX4's default.
        odometry_hz: how often a pose of a motion capture system comes.

    Raises:
        LinkUnavailableError: PX4 would not enable HIL on it, or hardly a sensor fits; with the figures.
    """
    if not isinstance(endpoint, Serial):
        return None
    tick_hz = 1e6 / tick_us
    most_often = max(1, -int(-tick_hz // MAX_SENSOR_HZ))
    if is_usb(endpoint.device):
        if most_often == 1:
            return None
        line = f"a board cannot take {tick_hz:.0f} sensors a second: sensors at {tick_hz / most_often:.4g} Hz"
        return Capacity(most_often, tick_hz / most_often, line)
    baud = endpoint.baud
    data_rate = mav_rate or px4_data_rate(baud)
    if data_rate <= MIN_HIL_RATE:
        how = f"MAV_x_RATE {mav_rate}" if mav_rate else f"{baud} baud / 20"
        raise LinkUnavailableError(
            f"{endpoint.device} at {baud} baud is too slow: PX4's data rate there is {data_rate} B/s ({how}) and it "
            f"enables HIL only above {MIN_HIL_RATE} B/s; use 921600 baud (or more than 100000), or set MAV_x_RATE on "
            "the board and give it with --mav-rate"
        )
    line_rate = baud / BITS_PER_BYTE
    slower = gps_hz * HIL_GPS_BYTES + odometry_hz * ODOMETRY_BYTES + HEARTBEAT_HZ * HEARTBEAT_BYTES
    room = USABLE * line_rate - slower
    most_hz = min(max(room / HIL_SENSOR_BYTES, 1e-9), MAX_SENSOR_HZ)
    every = max(1, -int(-tick_hz // most_hz))
    sensor_hz = tick_hz / every
    if sensor_hz < MIN_SENSOR_HZ:
        raise LinkUnavailableError(
            f"{endpoint.device} at {baud} baud is too slow: it carries {line_rate:.0f} B/s, {sensor_hz:.0f} sensors a "
            f"second, and a vehicle cannot be flown below {MIN_SENSOR_HZ}; use 921600 baud"
        )
    most = f", and a board takes at most {MAX_SENSOR_HZ}" if tick_hz > MAX_SENSOR_HZ else ""
    line = (
        f"{baud} baud carries {line_rate:.0f} B/s, {tick_hz:.0f} sensors a second need "
        f"{tick_hz * HIL_SENSOR_BYTES:.0f}{most}: sensors at {sensor_hz:.4g} Hz"
    )
    return Capacity(every, sensor_hz, line)
