"""Faults of the vehicle as a user writes them, and when they begin and end."""

from __future__ import annotations

import asyncio
import math
from pathlib import Path

import pytest

from bridge.endpoint import Memory
from firmware_profiles.errors import UsageError
from firmware_profiles.loader import load_profile
from lav2_hil.exitcodes import ExitCode, exit_code_of
from lav2_hil.faults import FaultFileError, load_faults, parse_faults, read_faults
from lav2_hil.settings import Settings
from lav2_hil.vehicle_fault_schedule import VehicleFaultSchedule
from lav2_hil.vehicle_faults import VehicleFault
from twin.faults import SENSOR_KINDS, FaultChange, check_change

VALUES = [
    ("rotor2 effectiveness=0.3", "effectiveness", (0.3,)),
    ("rotor12 effectiveness=30%", "effectiveness", (0.3,)),
    ("rotor1 lost", "effectiveness", (0.0,)),
    ("rotor4 stuck", "stuck", ()),
    ("accel bias=0.5m/s2", "bias", (0.5,)),
    ("accel bias=1g,0,-1g", "bias", (9.80665, 0.0, -9.80665)),
    ("accel noise=1,2,3m/s2", "noise", (1.0, 2.0, 3.0)),
    ("gyro noise=0.02rad/s", "noise", (0.02,)),
    ("gyro bias=-10deg/s", "bias", (math.radians(-10),)),
    ("gyro scale=110%", "scale", (1.1,)),
    ("mag scale=-1.5", "scale", (-1.5,)),
    ("mag bias=100mG", "bias", (0.1,)),
    ("mag bias=1e1uT", "bias", (0.1,)),
    ("mag silent", "silent", ()),
    ("baro bias=1hPa", "bias", (1.0,)),
    ("baro noise=50Pa", "noise", (0.5,)),
    ("baro stuck", "stuck", ()),
    ("gps off", "off", ()),
    ("gps nofix", "nofix", ()),
    ("gps frozen", "frozen", ()),
    ("gps jump=10m,0m,-5m", "jump", (10.0, 0.0, -5.0)),
    ("gps jump=1km,0,0km", "jump", (1000.0, 0.0, 0.0)),
    ("gps noise=3m", "noise", (3.0,)),
    ("mocap off", "off", ()),
    ("mocap frozen", "frozen", ()),
    ("mocap jump=20cm,0,0cm", "jump", (0.2, 0.0, 0.0)),
    ("mocap noise=0.1m", "noise", (0.1,)),
]


@pytest.mark.parametrize(("text", "kind", "value"), VALUES)
def test_values_and_units(text: str, kind: str, value: tuple[float, ...]) -> None:
    (fault,) = parse_faults(text)
    assert fault == VehicleFault(kind, text.split()[0], pytest.approx(value))
    check_change(FaultChange(fault.target, fault.kind, fault.value), 12, motion_capture=True)
    (again,) = parse_faults(str(fault))
    assert again == VehicleFault(kind, text.split()[0], pytest.approx(fault.value, rel=1e-11))


def test_one_text_can_say_several_faults_and_their_time() -> None:
    assert parse_faults("gyro bias=0.1rad/s noise=0.02rad/s at=12s for=1500ms") == [
        VehicleFault("bias", "gyro", (0.1,), 12_000_000, 1_500_000),
        VehicleFault("noise", "gyro", (0.02,), 12_000_000, 1_500_000),
    ]


def test_a_fault_in_words_says_the_same_again() -> None:
    for text in (
        "rotor2 effectiveness=0.3 at=12s",
        "gps off at=20s for=5s",
        "gps jump=10m,0m,0m",
        "baro bias=1.0000001hPa",
    ):
        (fault,) = parse_faults(text)
        assert str(fault) == text
    (fault,) = parse_faults("rotor2 lost at=1234567.25ms")
    assert str(fault) == "rotor2 effectiveness=0 at=1234.56725s"


TARGETS = (
    "targets: link, to_px4, from_px4, rotor1 (counted as PX4 counts motors) and so on, accel, gyro, mag, baro, gps"
)
BAD_TEXTS = [
    ("rotor lost", TARGETS),
    ("rotor0 lost", TARGETS),
    ("rotor01 lost", TARGETS),
    ("rotor-1 lost", TARGETS),
    ("motor1 lost", TARGETS),
    ("airspeed stuck", TARGETS),
    ("rotor1", "no kind; kinds: lost, effectiveness, stuck;"),
    ("rotor1 at=3s", "no kind; kinds: lost, effectiveness, stuck;"),
    ("rotor1 silent", "cannot use 'silent'; kinds: lost, effectiveness, stuck;"),
    ("rotor1 loss=0.1", "cannot use 'loss=0.1'; kinds: lost, effectiveness, stuck;"),
    ("link lost", "cannot use 'lost'; kinds: loss, latency"),
    ("link loss", "cannot use 'loss'"),
    ("baro scale=2", "cannot use 'scale=2'; kinds: stuck, silent, bias, noise;"),
    ("gps stuck", "cannot use 'stuck'; kinds: off, nofix, frozen, jump, noise;"),
    ("mag silent at", "cannot use 'at'"),
    ("mag silent silent", "silent is said twice"),
    ("mag silent=3", "silent: expected no value"),
    ("mag silent=", "silent: expected no value"),
    ("rotor1 lost=1", "lost: expected no value"),
    ("rotor1 effectiveness", "effectiveness: expected a number from 0 to 1, or from 0% to 100%"),
    ("rotor1 effectiveness=1.1", "effectiveness: expected a number from 0 to 1"),
    ("rotor1 effectiveness=nan", "effectiveness: expected a number from 0 to 1"),
    ("rotor1 effectiveness=0.1,0.2", "effectiveness: expected a number from 0 to 1"),
    ("gyro scale=101", "scale: expected a number from -100 to 100"),
    ("baro bias=1", "bias: expected a number with its unit, hPa or Pa, from -2000 to 2000 hPa"),
    ("baro bias=1,2,3hPa", "bias: expected a number with its unit, hPa or Pa"),
    ("baro bias=1m", "bias: expected a number with its unit, hPa or Pa"),
    ("baro bias=hPa", "bias: expected a number with its unit"),
    (
        "gyro noise=-1rad/s",
        "noise: expected a number with its unit, rad/s or deg/s, from 0 to 1000 rad/s; one, or three",
    ),
    ("gyro noise=1,2rad/s", "one, or three of them: x,y,z or north,east,down"),
    ("gyro noise=1,,2rad/s", "one, or three of them"),
    ("gps jump=infm", "jump: expected a number with its unit, m or km, from -100000 to 100000 m"),
    ("gps jump=101km,0,0km", "from -100000 to 100000 m"),
    ("gps off at=3", "at: expected a time with its unit"),
    ("gps off at=", "at: expected a time with its unit"),
    ("gps off for=-1s", "for: expected a time with its unit"),
]


@pytest.mark.parametrize(("text", "says"), BAD_TEXTS)
def test_a_bad_text_is_a_usage_error_that_says_what_is_allowed(text: str, says: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_faults(text)
    assert says in str(caught.value)
    assert str(caught.value).startswith(f"--fault {text!r}: ")
    assert "\n" not in str(caught.value)


def written(folder: Path, text: str) -> Path:
    path = folder / "faults.toml"
    path.write_text(text)
    return path


def test_a_file_of_faults(tmp_path: Path) -> None:
    tables = """
        [[fault]]
        target = "rotor2"
        kind = "effectiveness"
        value = 0.3
        at = 12

        [[fault]]
        target = "gps"
        kind = "off"
        at = "20s"
        for = 5

        [[fault]]
        target = "gps"
        kind = "jump"
        value = [10, 0.5, "-1km"]

        [[fault]]
        target = "baro"
        kind = "bias"
        value = "100Pa"

        [[fault]]
        kind = "loss"
        value = 0.5
        """
    faults = load_faults(written(tmp_path, tables))
    assert faults[:4] == [
        VehicleFault("effectiveness", "rotor2", (0.3,), 12_000_000),
        VehicleFault("off", "gps", (), 20_000_000, 5_000_000),
        VehicleFault("jump", "gps", (10.0, 0.5, -1000.0)),
        VehicleFault("bias", "baro", (1.0,)),
    ]
    assert str(faults[4]) == "link loss=0.5"


BAD_FILES = [
    ("target = 'rotor2'\nkind = 'loss'", "fault 1: kind: no 'loss' of rotor2; allowed: lost, effectiveness, stuck"),
    ("target = 'gps'\nkind = 3", "fault 1: kind: Expected `str`, got `int`; allowed: off, nofix, frozen, jump, noise"),
    ("target = 'gps'", "fault 1: Object missing required field `kind`; allowed here: kind, value, target, at, for"),
    ("target = 'gps'\nkind = 'off'\nwhen = 3", "unknown field `when`; allowed here: kind, value, target, at, for"),
    ("target = 'gps'\nkind = 'jump'\nvalue = []", "fault 1: jump: expected a number with its unit, m or km"),
    ("target = 'gps'\nkind = 'jump'\nvalue = [1, true, 2]", "fault 1: value[1]: Expected `float | str`"),
    ("target = 'gyro'\nkind = 'bias'\nvalue = '1'", "fault 1: bias: expected a number with its unit, rad/s"),
    ("target = 'gyro'\nkind = 'bias'", "fault 1: bias: expected a number with its unit, rad/s"),
    ("target = 'gyro'\nkind = 'stuck'\nvalue = 1", "fault 1: stuck: expected no value"),
    ("target = 'px4'\nkind = 'loss'\nvalue = 0.1", f"Invalid enum value 'px4'; allowed: {TARGETS[9:]}"),
]


@pytest.mark.parametrize(("table", "says"), BAD_FILES)
def test_an_error_in_a_file_names_file_table_key_and_what_is_allowed(tmp_path: Path, table: str, says: str) -> None:
    path = written(tmp_path, f"[[fault]]\n{table}\n")
    with pytest.raises(FaultFileError) as caught:
        load_faults(path)
    assert says in str(caught.value)
    assert exit_code_of(caught.value) is ExitCode.CONFIGURATION


@pytest.mark.parametrize(
    ("name", "says"),
    [("px4_iris", "its rotors are rotor1 to rotor4"), ("px4_rover_differential", "it has no rotors")],
)
def test_a_rotor_that_the_vehicle_does_not_have(name: str, says: str) -> None:
    with pytest.raises(UsageError, match=f"{name} has no rotor5: {says}"):
        Settings(profile=load_profile(name), endpoint=Memory("x"), faults=read_faults(["gps off", "rotor5 lost"]))


def test_motion_capture_that_the_vehicle_does_not_have() -> None:
    with pytest.raises(UsageError, match=r"px4_iris has no mocap: its profile has no vehicle.sensors.motion_capture"):
        Settings(profile=load_profile("px4_iris"), endpoint=Memory("x"), faults=read_faults(["mocap off"]))


def test_every_kind_of_the_twin_can_be_said() -> None:
    values = {"bias": "=1", "noise": "=1", "jump": "=1", "scale": "=1"}
    units = {"accel": "m/s2", "gyro": "rad/s", "mag": "G", "baro": "hPa", "gps": "m", "mocap": "m"}
    for sensor, kinds in SENSOR_KINDS.items():
        for kind in kinds:
            value = values.get(kind, "")
            assert len(parse_faults(f"{sensor} {kind}{value}{units[sensor] if value and kind != 'scale' else ''}")) == 1


# When they hold

TICK_US = 4000


class Rig:
    def __init__(self, *texts: str) -> None:
        self.changes: list[FaultChange] = []
        self.lines: list[str] = []
        faults = tuple(fault for fault in read_faults(texts) if isinstance(fault, VehicleFault))
        self.schedule = VehicleFaultSchedule(faults, self.changes.append, TICK_US, self.lines.append)
        self.schedule.begin()
        self.ticks = 0

    async def until(self, seconds: float) -> list[FaultChange]:
        """Step up to a simulated time; the changes on the way."""
        while self.ticks * TICK_US < round(1e6 * seconds):
            self.ticks += 1
            self.schedule.stepped(None, None)  # type: ignore[arg-type]
        await asyncio.sleep(0)
        changes, self.changes[:] = self.changes[:], []
        return changes


async def test_a_fault_from_the_start_holds_before_the_first_step() -> None:
    rig = Rig("rotor1 lost", "gps off for=1s")
    assert await rig.until(0.0) == [FaultChange("rotor1", "effectiveness", (0.0,)), FaultChange("gps", "off", ())]
    assert rig.lines == ["fault: rotor1 effectiveness=0", "fault: gps off for=1s"]
    assert await rig.until(0.996) == []
    assert await rig.until(5.0) == [FaultChange("gps", "off", None)]
    assert rig.lines[2:] == ["fault over: gps off for=1s"]


async def test_a_fault_begins_and_ends_at_its_tick() -> None:
    rig = Rig("baro bias=1hPa at=2s for=1s")
    assert await rig.until(1.996) == []
    assert await rig.until(2.0) == [FaultChange("baro", "bias", (1.0,))]
    assert await rig.until(2.996) == []
    assert await rig.until(3.0) == [FaultChange("baro", "bias", None)]
    assert rig.lines == ["fault: baro bias=1hPa at=2s for=1s", "fault over: baro bias=1hPa at=2s for=1s"]


async def test_the_later_of_two_holds_and_the_earlier_comes_back() -> None:
    rig = Rig("mag bias=1G at=2s for=1s", "mag bias=0.1G", "mag noise=0.2G")
    assert await rig.until(0.0) == [FaultChange("mag", "bias", (0.1,)), FaultChange("mag", "noise", (0.2,))]
    assert await rig.until(2.5) == [FaultChange("mag", "bias", (1.0,))]
    assert await rig.until(4.0) == [FaultChange("mag", "bias", (0.1,))]
    assert len(rig.lines) == 4


async def test_without_faults_nothing_changes() -> None:
    rig = Rig()
    assert await rig.until(1.0) == []
    assert rig.lines == []
