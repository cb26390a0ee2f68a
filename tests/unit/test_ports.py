"""`lav2-hil ports`: what is listed, and under which name."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from click.testing import CliRunner
from serial.tools.list_ports_common import ListPortInfo

from bridge import ports
from lav2_hil.commands.ports import command

RULE = Path(__file__).parents[2] / "tools" / "60-lav2-hil.rules"


def port(device: Path, vid: int | None = None, pid: int = 0x0036, **more: str) -> ListPortInfo:
    device.touch()
    info = ListPortInfo(str(device))
    info.vid, info.pid = vid, pid
    info.hwid = "n/a" if vid is None and not more else "USB"
    for name, value in more.items():
        setattr(info, name, value)
    return info


@pytest.fixture
def listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    found = [
        port(tmp_path / "ttyS0"),
        port(tmp_path / "ttyACM0", 0x1546, 0x01A8, manufacturer="u-blox AG", product="GNSS receiver"),
        port(tmp_path / "ttyACM1", 0x3162, manufacturer="Holybro", product="PX4 FMU v6X", serial_number="42"),
        port(tmp_path / "ttyACM2", 0x2DAE),
    ]
    monkeypatch.setattr(ports, "comports", lambda: found)
    by_id = tmp_path / "by-id"
    by_id.mkdir()
    (by_id / "usb-Holybro_PX4_FMU_v6X_42-if00").symlink_to(tmp_path / "ttyACM1")
    monkeypatch.setattr("lav2_hil.commands.ports.list_ports", lambda: ports.list_ports(by_id))
    return tmp_path


def test_boards_first_with_vendor_product_and_stable_path(listed: Path) -> None:
    result = CliRunner().invoke(command, ["--json"])
    board, cube, receiver = json.loads(result.output)
    assert board["by_id"] == str(listed / "by-id" / "usb-Holybro_PX4_FMU_v6X_42-if00")
    assert (board["vendor"], board["product"], board["usb_id"]) == ("Holybro", "PX4 FMU v6X", "3162:0036")
    assert board["likely_board"]
    assert (cube["vendor"], cube["by_id"], cube["likely_board"]) == ("Hex/ProfiCNC (CubePilot)", None, True)
    assert not receiver["likely_board"]


def test_the_line_begins_with_what_to_give_as_endpoint(listed: Path) -> None:
    first, second, third = CliRunner().invoke(command).output.splitlines()
    assert first.startswith(f"{listed}/by-id/usb-Holybro")
    assert f"now {listed}/ttyACM1" in first
    assert second.startswith(f"{listed}/ttyACM2")
    assert "flight controller" not in third


def test_nothing_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ports, "comports", lambda: [])
    result = CliRunner().invoke(command)
    assert (result.exit_code, result.output.count("\n")) == (0, 1)


def test_the_udev_rule_knows_the_same_vendors() -> None:
    (vendors,) = re.findall(r'idVendor}=="([0-9a-f|]+)"', RULE.read_text())
    assert {int(vendor, 16) for vendor in vendors.split("|")} == set(ports.BOARD_VENDORS)
