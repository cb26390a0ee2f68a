"""From an endpoint to the transport that serves it; each is imported only when it is asked for."""

from __future__ import annotations

from typing import assert_never

from bridge.endpoint import Endpoint, Memory, Serial, TcpIn, TcpOut, UdpIn, UdpOut
from bridge.transport.base import Transport


def create_transport(endpoint: Endpoint) -> Transport:
    """The transport for an endpoint, not opened yet."""
    match endpoint:
        case UdpIn(host, port):
            from bridge.transport.udp import UdpInTransport

            return UdpInTransport(host, port)
        case UdpOut(host, port):
            from bridge.transport.udp import UdpOutTransport

            return UdpOutTransport(host, port)
        case TcpIn(host, port):
            from bridge.transport.tcp import TcpInTransport

            return TcpInTransport(host, port)
        case TcpOut(host, port):
            from bridge.transport.tcp import TcpOutTransport

            return TcpOutTransport(host, port)
        case Serial(device, baud):
            from bridge.transport.serial import SerialTransport

            return SerialTransport(device, baud)
        case Memory(name):
            from bridge.transport.memory import MemoryTransport

            return MemoryTransport(name)
        case _:
            assert_never(endpoint)
