"""What TCP and UDP share: names of peers, resolved addresses, and errors that say what to do."""

from __future__ import annotations

import asyncio
import errno
import socket
from typing import Any

from firmware_profiles.errors import LinkUnavailableError

TOLD_LIMIT = 64
"""Strangers that are told of by name; further ones are only counted, so that a flood costs no memory."""


def peer_name(address: Any) -> str:
    """A socket address in the form that people read: `127.0.0.1:14550`, `[::1]:14550`."""
    if not isinstance(address, tuple) or len(address) < 2:
        return "unknown"
    host, port = address[:2]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def unavailable(endpoint: str, port: int, error: OSError) -> LinkUnavailableError:
    """The one-line error for a socket that cannot be had."""
    if isinstance(error, socket.gaierror):
        why = "the host name is not known"
    elif error.errno == errno.EADDRINUSE:
        why = f"port {port} is busy, likely another simulator or bridge holds it (ss -lnp shows which)"
    elif error.errno == errno.EADDRNOTAVAIL:
        why = "this machine has no such address"
    elif error.errno in (errno.EACCES, errno.EPERM):
        why = f"no permission for port {port}"
    else:
        why = error.strerror or str(error)
    return LinkUnavailableError(f"cannot open {endpoint}: {why}")


async def resolve(host: str, port: int, kind: socket.SocketKind) -> tuple[socket.AddressFamily, Any]:
    """The address family and socket address of a host, IPv4 preferred since simulators and boards speak that.

    Raises:
        OSError: the name is not known.
    """
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=kind)
    family, _kind, _proto, _name, address = min(found, key=lambda info: info[0] != socket.AF_INET)
    return family, address
