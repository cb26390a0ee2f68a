"""Connection strings: every accepted form, every refusal, and the way back from the printed form."""

from __future__ import annotations

import subprocess
import sys

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from bridge.endpoint import (
    FORMS,
    MAX_BAUD,
    MIN_BAUD,
    Endpoint,
    Memory,
    Serial,
    TcpIn,
    TcpOut,
    UdpIn,
    UdpOut,
    endpoint_warning,
    parse_endpoint,
)
from bridge.transport.factory import create_transport
from firmware_profiles.errors import EndpointError, UsageError

BY_ID = "/dev/serial/by-id/usb-3D_Robotics_PX4_FMU_v5.x_0-if00"
BY_PATH = "/dev/serial/by-path/pci-0000:00:14.0-usb-0:1:1.0"

ACCEPTED = [
    ("udpin:0.0.0.0:14540", UdpIn("0.0.0.0", 14540), "udpin:0.0.0.0:14540"),
    ("udpin://0.0.0.0:14540", UdpIn("0.0.0.0", 14540), "udpin:0.0.0.0:14540"),
    ("udpin::14540", UdpIn("127.0.0.1", 14540), "udpin:127.0.0.1:14540"),
    ("udpin://:14540", UdpIn("127.0.0.1", 14540), "udpin:127.0.0.1:14540"),
    ("udpin:127.0.0.1:0", UdpIn("127.0.0.1", 0), "udpin:127.0.0.1:0"),
    ("udpin:[::]:14540", UdpIn("::", 14540), "udpin:[::]:14540"),
    ("udpin:127.0.0.1:014540", UdpIn("127.0.0.1", 14540), "udpin:127.0.0.1:14540"),
    ("udpout:192.168.1.7:14550", UdpOut("192.168.1.7", 14550), "udpout:192.168.1.7:14550"),
    ("udpout://companion.local:14550", UdpOut("companion.local", 14550), "udpout:companion.local:14550"),
    ("udpout:[0:0:0:0:0:0:0:1]:14550", UdpOut("::1", 14550), "udpout:[::1]:14550"),
    ("udpout:[fe80::1%eth0]:14550", UdpOut("fe80::1%eth0", 14550), "udpout:[fe80::1%eth0]:14550"),
    ("tcpin:127.0.0.1:4560", TcpIn("127.0.0.1", 4560), "tcpin:127.0.0.1:4560"),
    ("tcpin://:4560", TcpIn("127.0.0.1", 4560), "tcpin:127.0.0.1:4560"),
    ("tcpin::0", TcpIn("127.0.0.1", 0), "tcpin:127.0.0.1:0"),
    ("tcp:localhost:5760", TcpOut("localhost", 5760), "tcp:localhost:5760"),
    ("tcp://localhost:5760", TcpOut("localhost", 5760), "tcp:localhost:5760"),
    ("tcpout:localhost:65535", TcpOut("localhost", 65535), "tcp:localhost:65535"),
    ("tcpout://[::1]:1", TcpOut("::1", 1), "tcp:[::1]:1"),
    ("TCPIN:localhost:4560", TcpIn("localhost", 4560), "tcpin:localhost:4560"),
    ("  tcpin:localhost:4560\n", TcpIn("localhost", 4560), "tcpin:localhost:4560"),
    ("udp:0.0.0.0:14550", UdpIn("0.0.0.0", 14550), "udpin:0.0.0.0:14550"),
    ("udp://:14550", UdpIn("127.0.0.1", 14550), "udpin:127.0.0.1:14550"),
    ("udp:[::]:14550", UdpIn("::", 14550), "udpin:[::]:14550"),
    ("udp:127.0.0.1:14550", UdpOut("127.0.0.1", 14550), "udpout:127.0.0.1:14550"),
    ("/dev/ttyACM0", Serial("/dev/ttyACM0", 921600), "/dev/ttyACM0,921600"),
    ("/dev/ttyACM0,57600", Serial("/dev/ttyACM0", 57600), "/dev/ttyACM0,57600"),
    ("serial:/dev/ttyACM0", Serial("/dev/ttyACM0", 921600), "/dev/ttyACM0,921600"),
    ("serial:/dev/ttyS1,115200", Serial("/dev/ttyS1", 115200), "/dev/ttyS1,115200"),
    ("serial:///dev/ttyACM0:57600", Serial("/dev/ttyACM0", 57600), "/dev/ttyACM0,57600"),
    ("serial:///dev/ttyACM0,57600", Serial("/dev/ttyACM0", 57600), "/dev/ttyACM0,57600"),
    ("serial:///dev/ttyACM0", Serial("/dev/ttyACM0", 921600), "/dev/ttyACM0,921600"),
    (BY_ID, Serial(BY_ID, 921600), f"{BY_ID},921600"),
    (f"serial:{BY_ID}:57600", Serial(BY_ID, 57600), f"{BY_ID},57600"),
    (BY_PATH, Serial(BY_PATH, 921600), f"{BY_PATH},921600"),
    (f"serial:{BY_PATH},57600", Serial(BY_PATH, 57600), f"{BY_PATH},57600"),
    ("memory:pair", Memory("pair"), "memory:pair"),
    ("memory://pair.1_a-b", Memory("pair.1_a-b"), "memory:pair.1_a-b"),
]

REFUSED = [
    ("", "it is empty"),
    ("   ", "it is empty"),
    ("ttyACM0", "no scheme"),
    ("./ttyACM0", "no scheme"),
    ("127.0.0.1:14550", "no scheme"),
    ("udpbcast:127.0.0.1:14550", "unknown scheme 'udpbcast'"),
    ("http://127.0.0.1:80", "unknown scheme 'http'"),
    ("serial_flowcontrol:///dev/ttyACM0:57600", "unknown scheme 'serial_flowcontrol'"),
    ("udpin:14550", "did you mean udpin:127.0.0.1:14550?"),
    ("udpin:localhost", "missing host or port"),
    ("udpin:", "missing host or port"),
    ("udpin://", "missing host or port"),
    ("udp:14550", "missing host or port"),
    ("tcpin:localhost:", "missing port"),
    ("tcpin:[::1]", "missing port"),
    ("tcp::4560", "missing host to connect to"),
    ("udpout::14550", "missing host to connect to"),
    ("udpout:0.0.0.0:14550", "0.0.0.0 is no address to send to"),
    ("tcp:[::]:4560", ":: is no address to send to"),
    ("tcpin:localhost:65536", "bad port '65536'"),
    ("tcpin:localhost:-1", "bad port '-1'"),
    ("tcpin:localhost:4 560", "bad port '4 560'"),
    ("tcpin:localhost:4560/", "bad port '4560/'"),
    ("tcpin:localhost:four", "bad port 'four'"),
    ("tcpin:localhost:\u0664\u0665", "bad port"),
    ("tcpin:localhost:" + "9" * 5000, "bad port"),
    ("tcp:localhost:0", "bad port '0'"),
    ("udpout:localhost:0", "bad port '0'"),
    ("udpin:::1:14550", "an IPv6 address goes in brackets"),
    ("udpin:[::1:14550", "missing ']'"),
    ("udpin:[::1]x:14550", "only ':PORT' may follow ']'"),
    ("udpin:[]:14550", "bad IPv6 address ''"),
    ("udpin:[127.0.0.1]:14550", "bad IPv6 address"),
    ("udpin:[fe80::1%a b]:14550", "bad IPv6 address"),
    ("udpin:256.0.0.1:14550", "bad IPv4 address '256.0.0.1'"),
    ("udpin:1.2.3:14550", "bad IPv4 address '1.2.3'"),
    ("udpin:my host:14550", "bad host 'my host'"),
    ("udpin:a..b:14550", "bad host 'a..b'"),
    ("udpin:" + "a" * 64 + ":14550", "bad host"),
    ("serial:", "missing device"),
    ("serial:,57600", "missing device"),
    ("serial:COM3", "an absolute path like /dev/ttyACM0, not 'COM3'"),
    ("serial://dev/ttyACM0", "an absolute path like /dev/ttyACM0, not 'dev/ttyACM0'"),
    ("/dev/ttyACM0,", "bad baud rate ''"),
    ("/dev/ttyACM0,fast", "bad baud rate 'fast'"),
    ("/dev/ttyACM0,0", "bad baud rate '0'"),
    ("/dev/ttyACM0,99999999999", "bad baud rate '99999999999'"),
    ("serial:///dev/ttyACM0:12", "bad baud rate '12'"),
    ("/dev/tty\nACM0", "bad device path"),
    ("/dev/tty\x00", "bad device path"),
    ("/dev/ttyACM0 ,57600", "bad device path"),
    ("memory:", "a memory name is"),
    ("memory:a b", "a memory name is"),
    ("memory:a/b", "a memory name is"),
    ("memory:" + "a" * 65, "a memory name is"),
]


@pytest.mark.parametrize(("text", "endpoint", "printed"), ACCEPTED)
def test_accepted_forms(text: str, endpoint: Endpoint, printed: str) -> None:
    assert parse_endpoint(text) == endpoint
    assert str(endpoint) == printed
    assert parse_endpoint(printed) == endpoint


@pytest.mark.parametrize(("text", "why"), REFUSED)
def test_refused_forms_are_told_in_one_line(text: str, why: str) -> None:
    with pytest.raises(EndpointError) as caught:
        parse_endpoint(text)
    line = str(caught.value)
    assert why in line
    assert repr(text)[:60] in line
    assert FORMS in line
    assert len(line.splitlines()) == 1
    assert len(line) < 500
    assert isinstance(caught.value, UsageError)


def test_kinds_with_equal_values_differ() -> None:
    assert len({UdpIn("h", 1), UdpOut("h", 1), TcpIn("h", 1), TcpOut("h", 1)}) == 4


def test_only_udp_is_ambiguous() -> None:
    warning = endpoint_warning("udp:127.0.0.1:14550")
    assert warning is not None
    assert "'udp:127.0.0.1:14550' is ambiguous" in warning
    assert "write udpout:127.0.0.1:14550" in warning
    listening = endpoint_warning(" UDP://:14550 ")
    assert listening is not None
    assert "listening" in listening
    assert "write udpin:127.0.0.1:14550" in listening
    assert [text for text, _, _ in ACCEPTED if endpoint_warning(text)] == [
        text for text, _, _ in ACCEPTED if text.startswith("udp:")
    ]
    assert endpoint_warning("udp:nonsense") is None


HOSTS = st.one_of(
    st.ip_addresses().map(str),
    st.from_regex(r"[a-z0-9_-]{1,20}(\.[a-z][a-z0-9-]{0,20}){0,3}", fullmatch=True).filter(
        lambda host: not host.replace(".", "").isdigit()
    ),
)
SENDABLE = HOSTS.filter(lambda host: host not in ("0.0.0.0", "::"))
DEVICES = st.text(st.characters(exclude_categories=("C", "Z"), include_characters=" "), min_size=1, max_size=40).map(
    lambda name: ("/" + name).rstrip()
)
ENDPOINTS: st.SearchStrategy[Endpoint] = st.one_of(
    st.builds(UdpIn, HOSTS, st.integers(0, 65535)),
    st.builds(TcpIn, HOSTS, st.integers(0, 65535)),
    st.builds(UdpOut, SENDABLE, st.integers(1, 65535)),
    st.builds(TcpOut, SENDABLE, st.integers(1, 65535)),
    st.builds(Serial, DEVICES, st.integers(MIN_BAUD, MAX_BAUD)),
    st.builds(Memory, st.from_regex(r"[A-Za-z0-9_.-]{1,64}", fullmatch=True)),
)


@settings(deadline=None)
@given(ENDPOINTS)
def test_the_printed_form_gives_the_endpoint_back(endpoint: Endpoint) -> None:
    assert parse_endpoint(str(endpoint)) == endpoint


TEXTS = st.one_of(
    st.text(),
    st.text(st.characters(codec=None), max_size=20),
    st.builds(
        "{}{}{}".format,
        st.sampled_from(["udp", "udpin", "udpout", "tcp", "tcpin", "tcpout", "serial", "memory", "/", "udpin:[", ""]),
        st.sampled_from([":", "://", ":::", ",", ""]),
        st.text("0123456789abc:.,/[]%-_ \u0661\n\x00\ud800", max_size=30),
    ),
)


@settings(deadline=None)
@given(TEXTS)
@example("udpin:[fe80::1%]:1")
@example("udpin:\u0661.2.3.4:5")
@example("udpin:\u00b2:5")
def test_any_text_parses_or_is_refused(text: str) -> None:
    endpoint, refusal = None, ""
    try:
        endpoint = parse_endpoint(text)
    except EndpointError as error:
        refusal = str(error)
    if endpoint is None:
        assert len(refusal.splitlines()) == 1
        assert endpoint_warning(text) is None
    else:
        assert parse_endpoint(str(endpoint)) == endpoint


@pytest.mark.parametrize(
    ("text", "class_name"),
    [
        ("udpin::0", "UdpInTransport"),
        ("udpout:localhost:1", "UdpOutTransport"),
        ("tcpin::0", "TcpInTransport"),
        ("tcp:localhost:1", "TcpOutTransport"),
        ("/dev/ttyACM0", "SerialTransport"),
        ("memory:a", "MemoryTransport"),
    ],
)
def test_each_endpoint_has_its_transport(text: str, class_name: str) -> None:
    transport = create_transport(parse_endpoint(text))
    assert type(transport).__name__ == class_name
    assert transport.address == str(parse_endpoint(text))


def test_a_udp_link_does_not_load_the_serial_library() -> None:
    script = (
        "import sys\n"
        "from bridge.endpoint import parse_endpoint\n"
        "from bridge.transport.factory import create_transport\n"
        "create_transport(parse_endpoint('udpin::0'))\n"
        "print('udp' if 'bridge.transport.udp' in sys.modules else '', 'serial' in sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=30)
    assert done.stdout.split() == ["udp", "False"]
