"""Connection strings: one text form per kind of link, parsed by a pure function.

Both `scheme:` and `scheme://` are accepted, the latter as MAVSDK and mavp2p write it; `str()` of an endpoint is the one
printed form, and parsing it gives the endpoint back.
"""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass
from typing import ClassVar, NoReturn, TypeAlias

from firmware_profiles.errors import EndpointError

FORMS = (
    "udpin:HOST:PORT, udpout:HOST:PORT, tcpin:HOST:PORT, tcp:HOST:PORT, /dev/ttyACM0[,BAUD], "
    "serial:DEVICE[,BAUD], memory:NAME"
)
"""The accepted forms, as error messages list them."""

DEFAULT_HOST = "127.0.0.1"
"""Where a listener without a host binds: nothing is open to the network unless asked for."""

DEFAULT_BAUD = 921600
"""What PX4 simulators use on a serial line; a USB port ignores it."""

MIN_BAUD = 1200
MAX_BAUD = 12_000_000


@dataclass(frozen=True, slots=True)
class _Net:
    """A host (name, IPv4 address, or IPv6 address without brackets) and a port."""

    scheme: ClassVar[str]
    host: str
    port: int

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}:{host}:{self.port}"


@dataclass(frozen=True, slots=True)
class UdpIn(_Net):
    """Listen for datagrams and answer the first peer that sends one. Port 0 takes a spare port."""

    scheme: ClassVar[str] = "udpin"


@dataclass(frozen=True, slots=True)
class UdpOut(_Net):
    """Send datagrams to a peer, and take the peer's answers."""

    scheme: ClassVar[str] = "udpout"


@dataclass(frozen=True, slots=True)
class TcpIn(_Net):
    """Listen for one connection at a time. Port 0 takes a spare port."""

    scheme: ClassVar[str] = "tcpin"


@dataclass(frozen=True, slots=True)
class TcpOut(_Net):
    """Connect to a server."""

    scheme: ClassVar[str] = "tcp"


@dataclass(frozen=True, slots=True)
class Serial:
    """A serial line: an absolute device path (prefer /dev/serial/by-id/...) and a rate in baud."""

    device: str
    baud: int = DEFAULT_BAUD

    def __str__(self) -> str:
        return f"{self.device},{self.baud}"


@dataclass(frozen=True, slots=True)
class Memory:
    """One end of a pair inside this process, met by name."""

    name: str

    def __str__(self) -> str:
        return f"memory:{self.name}"


Endpoint: TypeAlias = UdpIn | UdpOut | TcpIn | TcpOut | Serial | Memory

_NET: dict[str, type[UdpIn] | type[UdpOut] | type[TcpIn] | type[TcpOut]] = {
    "udpin": UdpIn,
    "udpout": UdpOut,
    "tcpin": TcpIn,
    "tcp": TcpOut,
    "tcpout": TcpOut,
}
_LISTENERS = (UdpIn, TcpIn)
_ANY_HOSTS = ("0.0.0.0", "::")

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9_+-]*):(?://)?(.*)", re.DOTALL)
_HOST_NAME = re.compile(r"[A-Za-z0-9_-]{1,63}(\.[A-Za-z0-9_-]{1,63})*\.?")
_SCOPE = re.compile(r"[A-Za-z0-9._-]{1,32}")
_MEMORY_NAME = re.compile(r"[A-Za-z0-9_.-]{1,64}")
_NUMBER = re.compile(r"[0-9]{1,9}")


def parse_endpoint(text: str) -> Endpoint:
    """Read a connection string.

    `udp:HOST:PORT`, which some tools take for listening and others for sending, follows MAVSDK: an empty host, 0.0.0.0
    or :: listens, anything else sends; `endpoint_warning` says so.

    Raises:
        EndpointError: one line that quotes the text, says what is wrong with it and lists the accepted forms.
    """
    stripped = text.strip()
    try:
        return _parse(stripped)
    except _WrongError as wrong:
        raise EndpointError(f"{_quote(text)} is not an endpoint: {wrong}; accepted are {FORMS}") from None


def endpoint_warning(text: str) -> str | None:
    """The warning that goes with a connection string that is accepted but ambiguous, else None."""
    if text.strip()[:4].lower() != "udp:":
        return None
    try:
        endpoint = parse_endpoint(text)
    except EndpointError:
        return None
    direction = "listening" if isinstance(endpoint, UdpIn) else "sending"
    return f"{text.strip()!r} is ambiguous among tools and is taken for {direction}: write {endpoint}"


class _WrongError(Exception):
    """What is wrong with the text, without the text."""


def _quote(text: str) -> str:
    return repr(text if len(text) <= 80 else text[:77] + "...")


def _wrong(what: str) -> NoReturn:
    raise _WrongError(what)


def _parse(text: str) -> Endpoint:
    if not text:
        _wrong("it is empty")
    if text.startswith("/"):
        return _serial(text, colon_baud=False)
    match = _SCHEME.fullmatch(text)
    if match is None:
        _wrong("it has no scheme and is not an absolute device path")
    scheme, rest = match[1].lower(), match[2]
    if scheme == "serial":
        return _serial(rest, colon_baud=True)
    if scheme == "memory":
        if not _MEMORY_NAME.fullmatch(rest):
            _wrong("a memory name is 1 to 64 letters, digits, '_', '.' or '-'")
        return Memory(rest)
    if scheme == "udp":
        host, _port = _split(scheme, rest)
        scheme = "udpin" if not host or host in _ANY_HOSTS else "udpout"
    if scheme not in _NET:
        _wrong(f"unknown scheme {_quote(match[1])}")
    return _net(scheme, rest)


def _net(scheme: str, rest: str) -> Endpoint:
    kind = _NET[scheme]
    listens = kind in _LISTENERS
    host, port_text = _split(scheme, rest)
    if not host:
        if not listens:
            _wrong("missing host to connect to")
        host = DEFAULT_HOST
    elif host in _ANY_HOSTS and not listens:
        _wrong(f"{host} is no address to send to")
    if not port_text:
        _wrong("missing port")
    port = int(port_text) if _NUMBER.fullmatch(port_text) else -1
    if not (0 if listens else 1) <= port <= 65535:
        spare = ", or 0 for a spare one" if listens else ""
        _wrong(f"bad port {_quote(port_text)}, it is a number from 1 to 65535{spare}")
    return kind(host, port)


def _split(scheme: str, rest: str) -> tuple[str, str]:
    """Host (checked, without brackets, possibly empty) and the port's text."""
    if rest.startswith("["):
        inside, bracket, after = rest[1:].partition("]")
        if not bracket:
            _wrong("missing ']' after the IPv6 address")
        if after and not after.startswith(":"):
            _wrong("only ':PORT' may follow ']'")
        return _ipv6(inside), after[1:]
    host, colon, port_text = rest.rpartition(":")
    if not colon:
        hint = f" (did you mean {scheme}:{DEFAULT_HOST}:{rest}?)" if _NUMBER.fullmatch(rest) else ""
        _wrong(f"missing host or port{hint}")
    if ":" in host:
        _wrong("too many ':', an IPv6 address goes in brackets: [::1]")
    if host:
        _check_host(host)
    return host, port_text


def _ipv6(text: str) -> str:
    try:
        address = ipaddress.IPv6Address(text)
    except ValueError:
        _wrong(f"bad IPv6 address {_quote(text)}")
    if address.scope_id is not None and not _SCOPE.fullmatch(address.scope_id):
        _wrong(f"bad IPv6 address {_quote(text)}")
    return str(address)


def _check_host(host: str) -> None:
    if host.replace(".", "").isdigit():
        try:
            ipaddress.IPv4Address(host)
        except ValueError:
            _wrong(f"bad IPv4 address {_quote(host)}")
    elif len(host) > 253 or not _HOST_NAME.fullmatch(host):
        _wrong(f"bad host {_quote(host)}")


def _serial(text: str, *, colon_baud: bool) -> Serial:
    device, separator, baud_text = text.rpartition(",")
    if not separator and colon_baud and _NUMBER.fullmatch(text.rpartition(":")[2]):
        device, separator, baud_text = text.rpartition(":")
    if not separator:
        device = text
    if not device:
        _wrong("missing device")
    if not device.startswith("/"):
        _wrong(f"a device is an absolute path like /dev/ttyACM0, not {_quote(device)}")
    if not device.isprintable() or device != device.strip() or len(device) > 4095:
        _wrong("bad device path")
    if not separator:
        return Serial(device)
    baud = int(baud_text) if _NUMBER.fullmatch(baud_text) else -1
    if not MIN_BAUD <= baud <= MAX_BAUD:
        _wrong(f"bad baud rate {_quote(baud_text)}, it is a number from {MIN_BAUD} to {MAX_BAUD}")
    return Serial(device, baud)
