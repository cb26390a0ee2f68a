"""Faults as a user writes them, and when they begin and end."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from bridge.transport.faults import FaultPlan
from bridge.transport.faulty import FaultyTransport
from bridge.transport.memory import MemoryTransport
from firmware_profiles.errors import ProfileError, UsageError
from lav2_hil.exitcodes import ExitCode, exit_code_of
from lav2_hil.fault_schedule import FaultSchedule
from lav2_hil.faults import Fault, FaultFileError, load_faults, parse_faults, read_faults, worst_delay_s

VALUES = [
    ("loss=0.02", 0.02),
    ("loss=2%", 0.02),
    ("loss=0", 0.0),
    ("loss=1", 1.0),
    ("loss=100%", 1.0),
    ("loss=1e-3", 0.001),
    ("duplicate=.5", 0.5),
    ("reorder=12.5%", 0.125),
    ("corrupt=0.1", 0.1),
    ("latency=20ms", 0.02),
    ("latency=1.5s", 1.5),
    ("latency=300us", 0.0003),
    ("jitter=0s", 0.0),
    ("stall=3s", 3.0),
    ("cut=250ms", 0.25),
]


@pytest.mark.parametrize(("text", "value"), VALUES)
def test_values_and_units(text: str, value: float) -> None:
    (fault,) = parse_faults(f"link {text}")
    assert fault == Fault(text.partition("=")[0], "link", pytest.approx(value))


def test_one_text_can_say_several_faults_and_their_time() -> None:
    assert parse_faults("to_px4 loss=0.02 latency=20ms at=12s for=1500ms") == [
        Fault("loss", "to_px4", 0.02, 12_000_000, 1_500_000),
        Fault("latency", "to_px4", 0.02, 12_000_000, 1_500_000),
    ]


def test_a_fault_in_words_says_the_same_again() -> None:
    for text in ("link loss=0.02", "from_px4 latency=0.3ms at=0.5s for=3s", "link cut=250ms at=12s"):
        (fault,) = parse_faults(text)
        assert str(fault) == text
        assert parse_faults(str(fault)) == [fault]


BAD_TEXTS = [
    ("", "targets: link, to_px4, from_px4"),
    ("loss=0.02", "targets: link, to_px4, from_px4"),
    ("px4 loss=0.02", "no target 'px4'"),
    ("link", "no kind; kinds: loss, latency,"),
    ("link at=3s", "no kind"),
    ("link los=0.02", "cannot use 'los=0.02'; kinds: loss, latency, jitter"),
    ("link loss", "cannot use 'loss'"),
    ("link loss=0.1 loss=0.2", "loss is said twice"),
    ("link loss=", "loss: expected a probability from 0 to 1"),
    ("link loss=1.1", "loss: expected a probability from 0 to 1"),
    ("link loss=101%", "loss: expected a probability"),
    ("link loss=-0.1", "loss: expected a probability"),
    ("link loss=nan", "loss: expected a probability"),
    ("link loss=1.2.3", "loss: expected a probability"),
    ("link loss=0.1s", "loss: expected a probability"),
    ("link latency=20", "latency: expected a time with its unit, s, ms or us"),
    ("link latency=20m", "latency: expected a time with its unit"),
    ("link latency=-1ms", "latency: expected a time"),
    ("link latency=infs", "latency: expected a time"),
    ("link latency=5%", "latency: expected a time"),
    ("link loss=0.1 at=12", "at: expected a time with its unit"),
    ("link loss=0.1 for=x", "for: expected a time with its unit"),
    ("link stall=1s for=2s", "for: not with stall"),
    ("link cut=1s for=2s", "for: not with cut"),
    ("to_px4 cut=1s", "a cut takes both directions"),
]


@pytest.mark.parametrize(("text", "says"), BAD_TEXTS)
def test_a_bad_text_is_a_usage_error_that_says_what_is_allowed(text: str, says: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_faults(text)
    assert says in str(caught.value)
    assert str(caught.value).startswith(f"--fault {text!r}: ")


def written(folder: Path, text: str) -> Path:
    path = folder / "faults.toml"
    path.write_text(text)
    return path


def test_a_file_of_faults(tmp_path: Path) -> None:
    path = written(
        tmp_path,
        """
        [[fault]]
        kind = "loss"
        value = 0.5

        [[fault]]
        at = 12
        for = 3.5
        target = "from_px4"
        kind = "latency"
        value = "20ms"

        [[fault]]
        at = "500ms"
        kind = "cut"
        value = 2
        """,
    )
    assert load_faults(path) == [
        Fault("loss", "link", 0.5),
        Fault("latency", "from_px4", 0.02, 12_000_000, 3_500_000),
        Fault("cut", "link", 2.0, 500_000),
    ]
    assert read_faults(["link jitter=1ms", str(path)])[0] == Fault("jitter", "link", 0.001)
    assert len(read_faults([str(path), "link jitter=1ms"])) == 4


BAD_FILES = [
    ("x = ", "not valid TOML"),
    ("", "expected [[fault]] tables, each with kind, value, target, at, for"),
    ("fault = 3", "expected [[fault]] tables"),
    ("[fault]\nkind = 'loss'\nvalue = 0.1", "expected [[fault]] tables"),
    ("speed = 3\n[[fault]]\nkind = 'loss'\nvalue = 0.1", "speed: unknown key; allowed here: [[fault]] tables"),
    ("[[fault]]\nkind = 'loss'", "fault 1: Object missing required field `value`; allowed here: kind, value, target"),
    ("[[fault]]\nkind = 'loss'\nvalue = 0.1\nwhen = 3", "fault 1: Object contains unknown field `when`; allowed here:"),
    ("[[fault]]\nkind = 'los'\nvalue = 0.1", "fault 1: kind: Invalid enum value 'los'; allowed: loss, latency,"),
    (
        "[[fault]]\nkind = 'loss'\nvalue = 0.1\ntarget = 'px4'",
        "target: Invalid enum value 'px4'; allowed: link,",
    ),
    ("[[fault]]\nkind = 'loss'\nvalue = true", "fault 1: value: Expected `float | str`, got `bool`"),
    ("[[fault]]\nkind = 'loss'\nvalue = 2", "fault 1: loss: expected a probability"),
    ("[[fault]]\nkind = 'loss'\nvalue = nan", "fault 1: loss: expected a probability"),
    ("[[fault]]\nkind = 'loss'\nvalue = 0.1\n[[fault]]\nkind = 'stall'\nvalue = -1", "fault 2: stall: expected a time"),
    ("[[fault]]\nkind = 'loss'\nvalue = 0.1\nat = '12'", "fault 1: at: expected a time with its unit"),
    ("[[fault]]\nkind = 'loss'\nvalue = 0.1\nat = inf", "fault 1: at: expected a time"),
    ("[[fault]]\nkind = 'stall'\nvalue = 1\nfor = 1", "fault 1: for: not with stall"),
]


@pytest.mark.parametrize(("text", "says"), BAD_FILES)
def test_an_error_in_a_file_names_file_table_key_and_what_is_allowed(tmp_path: Path, text: str, says: str) -> None:
    path = written(tmp_path, text)
    with pytest.raises(FaultFileError) as caught:
        load_faults(path)
    assert str(caught.value).startswith(f"{path}: ")
    assert says in str(caught.value)
    assert exit_code_of(caught.value) is ExitCode.CONFIGURATION


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(ProfileError, match=r"none\.toml: cannot be read: No such file"):
        read_faults([str(tmp_path / "none.toml")])
    (tmp_path / "latin.toml").write_bytes(b"# \xe4")
    with pytest.raises(ProfileError, match=r"latin\.toml: not valid TOML"):
        read_faults([str(tmp_path / "latin.toml")])


def test_the_worst_delay() -> None:
    faults = read_faults(["link latency=20ms jitter=5ms", "to_px4 latency=30ms", "link stall=9s", "link loss=0.5"])
    assert worst_delay_s(faults) == pytest.approx(0.035)
    assert worst_delay_s(()) == 0.0


# When they hold


class Watched(FaultyTransport):
    """Keeps what it was told."""

    def __init__(self) -> None:
        super().__init__(MemoryTransport("nobody"), FaultPlan())
        self.told: list[Any] = []

    is_open = True

    def change(self, outgoing: FaultPlan, incoming: FaultPlan) -> None:
        self.plans = outgoing, incoming

    def stall(self, seconds: float, *, outgoing: bool = True, incoming: bool = True) -> None:
        self.told.append(("stall", seconds, outgoing, incoming))

    def cut(self, seconds: float) -> None:
        self.told.append(("cut", seconds))


TICK_US = 4000


class Rig:
    def __init__(self, *texts: str) -> None:
        self.link = Watched()
        self.lines: list[str] = []
        self.schedule = FaultSchedule(read_faults(texts), self.link, TICK_US, self.lines.append)
        self.schedule.begin()
        self.ticks = 0

    async def until(self, seconds: float) -> tuple[FaultPlan, FaultPlan]:
        """Step up to a simulated time; the plans that hold then."""
        while self.ticks * TICK_US < round(1e6 * seconds):
            self.ticks += 1
            self.schedule.stepped(None, None)  # type: ignore[arg-type]
        await asyncio.sleep(0)
        return self.link.plans


async def test_a_fault_from_the_start_holds_before_the_first_step() -> None:
    rig = Rig("link loss=0.1", "to_px4 latency=5ms")
    assert await rig.until(0.0) == (FaultPlan(loss=0.1, latency_s=0.005), FaultPlan(loss=0.1))
    assert rig.lines == ["fault: link loss=0.1", "fault: to_px4 latency=5ms"]
    await rig.until(1.0)
    assert len(rig.lines) == 2


async def test_a_fault_begins_and_ends_at_its_tick() -> None:
    rig = Rig("from_px4 corrupt=0.2 at=2s for=1s")
    assert await rig.until(1.996) == (FaultPlan(), FaultPlan())
    assert rig.lines == []
    assert await rig.until(2.0) == (FaultPlan(), FaultPlan(corrupt=0.2))
    assert await rig.until(2.996) == (FaultPlan(), FaultPlan(corrupt=0.2))
    assert rig.lines == ["fault: from_px4 corrupt=0.2 at=2s for=1s"]
    assert await rig.until(3.0) == (FaultPlan(), FaultPlan())
    assert rig.lines[1:] == ["fault over: from_px4 corrupt=0.2 at=2s for=1s"]


async def test_the_later_of_two_holds_and_the_earlier_comes_back() -> None:
    rig = Rig("link loss=0.5 at=2s for=1s", "link loss=0.1", "to_px4 jitter=1ms")
    assert await rig.until(1.0) == (FaultPlan(loss=0.1, jitter_s=0.001), FaultPlan(loss=0.1))
    assert await rig.until(2.5) == (FaultPlan(loss=0.5, jitter_s=0.001), FaultPlan(loss=0.5))
    assert await rig.until(3.5) == (FaultPlan(loss=0.1, jitter_s=0.001), FaultPlan(loss=0.1))


async def test_what_happens_at_a_moment_happens_once() -> None:
    rig = Rig("link stall=1s at=1s", "to_px4 stall=2s", "from_px4 stall=3s at=2s", "link cut=500ms at=3s")
    await rig.until(0.0)
    assert rig.link.told == [], "nothing is open yet"
    await rig.until(0.004)
    await rig.until(5.0)
    assert rig.link.told == [
        ("stall", 2, True, False),
        ("stall", 1, True, True),
        ("stall", 3, False, True),
        ("cut", 0.5),
    ]
    assert len(rig.lines) == 4


async def test_a_cut_is_made_outside_the_step_and_not_on_a_closed_link() -> None:
    rig = Rig("link cut=1s at=4ms", "link cut=1s at=8ms")
    rig.schedule.stepped(None, None)  # type: ignore[arg-type]
    assert rig.link.told == []
    await asyncio.sleep(0)
    assert rig.link.told == [("cut", 1)]
    rig.schedule.stepped(None, None)  # type: ignore[arg-type]
    rig.link.is_open = False
    await asyncio.sleep(0)
    assert rig.link.told == [("cut", 1)]
