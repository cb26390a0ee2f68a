"""What a serial line carries, computed."""

from __future__ import annotations

from pathlib import Path

import pytest

from bridge.endpoint import Serial, UdpIn
from bridge.link_capacity import capacity_of
from firmware_profiles.errors import LinkUnavailableError
from firmware_profiles.loader import load_profile, profile_names


def test_report_17_57600_baud_is_refused_with_the_figures() -> None:
    with pytest.raises(LinkUnavailableError, match="2880 B/s") as caught:
        capacity_of(Serial("/dev/ttyUSB0", 57_600), 4_000, 5)
    assert all(word in str(caught.value) for word in ("57600 baud", "5000 B/s", "921600", "MAV_x_RATE"))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(("baud", "refused"), [(100_000, True), (100_020, False)])
def test_the_border_is_100_000(baud: int, refused: bool) -> None:
    if refused:
        with pytest.raises(LinkUnavailableError):
            capacity_of(Serial("/dev/ttyUSB0", baud), 4_000, 5)
    else:
        assert capacity_of(Serial("/dev/ttyUSB0", baud), 4_000, 5) is not None


def test_an_explicit_rate_is_the_boards_business_but_the_line_still_counts() -> None:
    capacity = capacity_of(Serial("/dev/ttyUSB0", 57_600), 4_000, 5, mav_rate=5_760)
    assert capacity is not None
    assert (capacity.every, capacity.sensor_hz) == (4, 62.5)
    with pytest.raises(LinkUnavailableError, match="below 50"):
        capacity_of(Serial("/dev/ttyUSB0", 38_400), 4_000, 5, mav_rate=5_760)


@pytest.mark.parametrize(("baud", "every"), [(115_200, 2), (230_400, 1), (921_600, 1)])
def test_report_17_the_largest_rate_that_fits(baud: int, every: int) -> None:
    capacity = capacity_of(Serial("/dev/ttyUSB0", baud), 4_000, 5)
    assert capacity is not None
    assert (capacity.every, capacity.sensor_hz) == (every, 250 / every)
    # It fits, and one more in each `every` ticks would not.
    load = capacity.sensor_hz * 74 + 5 * 51 + 21
    assert load <= baud / 10
    assert every == 1 or 250 / (every - 1) * 74 + 5 * 51 + 21 > 0.9 * baud / 10
    assert f"{250 / every:g} Hz" in capacity.line


@pytest.mark.parametrize(("tick_us", "every"), [(4_000, 1), (2_500, 1), (2_000, 2), (1_000, 3)])
@pytest.mark.parametrize("device", ["ttyACM0", "ttyUSB0"])
def test_report_16_a_board_gets_400_sensors_a_second_at_most(
    tmp_path: Path, device: str, tick_us: int, every: int
) -> None:
    capacity = capacity_of(Serial(str(tmp_path / device), 921_600), tick_us, 5)
    if capacity is None:
        assert (device, every) == ("ttyACM0", 1)
        return
    assert (capacity.every, capacity.sensor_hz) == (every, 1e6 / tick_us / every)
    assert ("takes at most 400" in capacity.line or "cannot take" in capacity.line) == (every > 1)


@pytest.mark.parametrize("name", profile_names())
def test_report_16_the_default_is_250(name: str) -> None:
    assert load_profile(name).vehicle.sensors.imu.rate_hz == 250


def test_nothing_limits_usb_and_networks(tmp_path: Path) -> None:
    (tmp_path / "ttyACM0").touch()
    link = tmp_path / "usb-Auterion_PX4_FMU_v6X.x_0-if00"
    link.symlink_to(tmp_path / "ttyACM0")
    assert capacity_of(Serial(str(link), 57_600), 4_000, 5) is None
    assert capacity_of(UdpIn("127.0.0.1", 14_560), 4_000, 5) is None


def test_poses_of_motion_capture_take_their_room() -> None:
    line = Serial("/dev/ttyUSB0", 230_400)
    without, seen = capacity_of(line, 4_000, 5), capacity_of(line, 4_000, 5, odometry_hz=50.0)
    assert without is not None
    assert seen is not None
    assert (without.every, seen.every) == (1, 3)
    load = 50 * 245 + 5 * 51 + 21
    assert 250 / 3 * 74 + load <= 0.9 * 23_040 < 250 / 2 * 74 + load
