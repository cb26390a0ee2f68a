"""Where ground stations are expected: PX4's ports for a board, nowhere for SITL, or what the user says."""

from __future__ import annotations

import pytest

from bridge.endpoint import UdpOut
from firmware_profiles.errors import UsageError
from lav2_hil.forwarder_pipe import Target
from lav2_hil.ground_stations import stations_of, targets_of

HERE = "127.0.0.1"


@pytest.mark.parametrize(
    ("options", "no_ground", "hitl", "instance", "stations"),
    [
        ((), False, True, 0, [(HERE, 14550), (HERE, 14540)]),
        ((), False, True, 3, [(HERE, 14550), (HERE, 14543)]),
        ((), False, False, 0, []),
        ((), True, True, 0, []),
        (("192.168.1.5",), False, True, 0, [("192.168.1.5", 14550)]),
        (("192.168.1.5:14560", "[::1]:14550", "[::1]"), False, False, 0,
         [("192.168.1.5", 14560), ("::1", 14550), ("::1", 14550)]),
        (("localhost:14540",), False, False, 0, [("localhost", 14540)]),
    ],
)  # fmt: skip
def test_stations(
    options: tuple[str, ...], no_ground: bool, hitl: bool, instance: int, stations: list[tuple[str, int]]
) -> None:
    assert stations_of(options, no_ground, hitl=hitl, instance=instance) == tuple(UdpOut(*one) for one in stations)


@pytest.mark.parametrize("text", ["", "host:port", "host:70000", ":", "a b", "1.2.3.4:"])
def test_no_station(text: str) -> None:
    with pytest.raises(UsageError, match=r"^--ground .*: expected HOST\[:PORT\] such as") as caught:
        stations_of((text,), False, hitl=True, instance=0)
    assert "\n" not in str(caught.value)


def test_both_options() -> None:
    with pytest.raises(UsageError, match="--ground and --no-ground"):
        stations_of(("localhost",), True, hitl=True, instance=0)


def test_own_ports_are_px4s() -> None:
    """Only on this computer, where somebody may speak first; and each once."""
    stations = [UdpOut(HERE, 14550), UdpOut(HERE, 14542), UdpOut("192.168.1.5", 14550), UdpOut(HERE, 14550)]
    assert targets_of(stations, 2) == (
        Target(HERE, 14550, 18572),
        Target(HERE, 14542, 14582),
        Target("192.168.1.5", 14550, 0),
        Target(HERE, 14550, 0),
    )
