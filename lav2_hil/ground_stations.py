"""Where ground stations are: PX4's own ports, or what the user names."""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Sequence

from bridge.endpoint import UdpOut, parse_endpoint
from firmware_profiles.errors import EndpointError, LinkUnavailableError, UsageError
from lav2_hil.forwarder_pipe import Target

GROUND_STATION, SDK = (18570, 14550), (14580, 14540)
"""(own port, the other's port), as PX4's; the instance is added to all but the ground station's port."""
THIS_HOST = "127.0.0.1"


def usual_stations(instance: int) -> tuple[UdpOut, ...]:
    """Where QGroundControl and SDKs on this computer expect a vehicle."""
    return UdpOut(THIS_HOST, GROUND_STATION[1]), UdpOut(THIS_HOST, SDK[1] + instance)


def stations_of(options: Sequence[str], no_ground: bool, *, hitl: bool, instance: int) -> tuple[UdpOut, ...]:
    """Where to forward to.

    A board has one link, so ground stations are served unless told otherwise. PX4 SITL serves them itself, at the same
    ports, and its simulator link carries no telemetry.

    Args:
        options: of `--ground`, which take the place of the usual stations.
        no_ground: nowhere.
        hitl: the flight controller is a board.
        instance: PX4's.

    Raises:
        UsageError: an address of another form, or both options.
    """
    if no_ground:
        if options:
            raise UsageError("--ground and --no-ground: expected one of them")
        return ()
    if options:
        return tuple(map(_parse_station, options))
    return usual_stations(instance) if hitl else ()


def _parse_station(text: str) -> UdpOut:
    has_port = ":" in text.rpartition("]")[2]
    try:
        station = parse_endpoint(f"udpout:{text}" if has_port else f"udpout:{text}:{GROUND_STATION[1]}")
    except EndpointError:
        raise UsageError(
            f"--ground {text!r}: expected HOST[:PORT] such as 192.168.1.5, 127.0.0.1:{GROUND_STATION[1]} or [::1]:14550"
        ) from None
    assert isinstance(station, UdpOut)
    return station


def targets_of(stations: Sequence[UdpOut], instance: int) -> tuple[Target, ...]:
    """The stations' numeric addresses, and PX4's own ports for those that expect to be able to speak first.

    Raises:
        LinkUnavailableError: a name that nobody knows.
    """
    own_ports = {
        GROUND_STATION[1]: GROUND_STATION[0] + instance,
        SDK[1] + instance: SDK[0] + instance,
    }
    targets = []
    for station in stations:
        try:
            found = socket.getaddrinfo(station.host, station.port, type=socket.SOCK_DGRAM)
        except (OSError, UnicodeError) as error:
            reason = getattr(error, "strerror", None) or error
            raise LinkUnavailableError(f"--ground {station.host}:{station.port}: {reason}") from None
        host = str(found[0][4][0])
        is_here = ipaddress.ip_address(host.partition("%")[0]).is_loopback
        targets.append(Target(host, station.port, own_ports.pop(station.port, 0) if is_here else 0))
    return tuple(targets)
