"""Faults on the link as a user writes them: `--fault "link loss=0.02 latency=20ms at=12s"`, or a TOML file of them.

When a fault begins and ends is simulated time, so that it meets the same moment of a lockstep flight on every machine.
How long a frame is delayed, a stall holds or a cut lasts is wall time: that is what a wire has.
"""

from __future__ import annotations

import math
import re
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

import msgspec

from firmware_profiles.errors import ProfileError, UsageError

Target = Literal["link", "to_px4", "from_px4"]
Kind = Literal["loss", "latency", "jitter", "duplicate", "reorder", "corrupt", "stall", "cut"]

TARGETS: tuple[str, ...] = get_args(Target)
KINDS: tuple[str, ...] = get_args(Kind)
PROBABILITIES = frozenset({"loss", "duplicate", "reorder", "corrupt"})
DELAYS = frozenset({"latency", "jitter"})
MOMENTS = frozenset({"stall", "cut"})
"""Kinds that happen at a moment; the value is how long the link then needs to be itself again."""

LOSING = frozenset({"loss", "corrupt"})
"""Kinds by which an answer does not come: who waits for it should not wait long."""

_FORM = 'expected TARGET KIND=VALUE ... [at=TIME] [for=TIME], such as "link loss=0.02 latency=20ms at=12s for=3s"'
_UNITS = {"s": 1.0, "ms": 1e-3, "us": 1e-6}
_NUMBER = re.compile(r"([0-9.]+(?:e-?[0-9]+)?)(%|[a-z]*)")
_TIME = "a time with its unit, s, ms or us, such as 20ms"
_PROBABILITY = "a probability from 0 to 1, or from 0% to 100%"


class FaultFileError(ProfileError):
    """A file of faults cannot be read or used; names the file, the table, the key and what is allowed."""


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing that goes wrong on the link.

    Attributes:
        kind: what.
        target: in which direction; `link` is both.
        value: a probability, or a wall time [s].
        at_us: simulated time since the start of the run at which it begins, over all connections.
        for_us: simulated time after which it ends; None for never.
    """

    kind: str
    target: str
    value: float
    at_us: int = 0
    for_us: int | None = None

    def __str__(self) -> str:
        value = f"{self.value:g}" if self.kind in PROBABILITIES else f"{1e3 * self.value:g}ms"
        begin = f" at={1e-6 * self.at_us:g}s" if self.at_us else ""
        end = "" if self.for_us is None else f" for={1e-6 * self.for_us:g}s"
        return f"{self.target} {self.kind}={value}{begin}{end}"


def read_faults(options: Iterable[str]) -> tuple[Fault, ...]:
    """The faults of all `--fault` options; one that ends in .toml names a file.

    Raises:
        UsageError: a text that says no fault.
        FaultFileError: a file that cannot be read, or an error in it.
    """
    faults: list[Fault] = []
    for option in options:
        faults += load_faults(Path(option)) if option.endswith(".toml") else parse_faults(option)
    return tuple(faults)


def parse_faults(text: str) -> list[Fault]:
    """The faults of one text, one of each kind that it names.

    Raises:
        UsageError: another form, or a value that cannot be.
    """
    said = f"--fault {text!r}: "
    target, *words = text.split() or [""]
    if target not in TARGETS:
        raise UsageError(f"{said}no target {target!r}; targets: {', '.join(TARGETS)}; {_FORM}")
    values: dict[str, str] = {}
    for word in words:
        key, equals, value = word.partition("=")
        if not equals or key not in (*KINDS, "at", "for"):
            raise UsageError(f"{said}cannot use {word!r}; kinds: {', '.join(KINDS)}; {_FORM}")
        if key in values:
            raise UsageError(f"{said}{key} is said twice")
        values[key] = value
    begin, length = values.pop("at", "0s"), values.pop("for", None)
    if not values:
        raise UsageError(f"{said}no kind; kinds: {', '.join(KINDS)}; {_FORM}")
    try:
        return [_fault(kind, target, value, begin, length) for kind, value in values.items()]
    except _NotAllowedError as error:
        raise UsageError(f"{said}{error}") from None


class _Table(msgspec.Struct, forbid_unknown_fields=True):
    """A `[[fault]]` of a file; a number is a probability or seconds."""

    kind: Kind
    value: float | str
    target: Target = "link"
    at: float | str = 0.0
    length: float | str | None = msgspec.field(default=None, name="for")


_KEYS = "kind, value, target, at, for"


def worst_delay_s(faults: Iterable[Fault]) -> float:
    """The longest that these faults may delay a frame by latency and jitter, one way [s]."""
    return sum(max((fault.value for fault in faults if fault.kind == kind), default=0.0) for kind in DELAYS)


def load_faults(path: Path) -> list[Fault]:
    """The `[[fault]]` tables of a file.

    Raises:
        FaultFileError: it cannot be read, or there is an error in it.
    """
    try:
        tables = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise FaultFileError(f"{path}: cannot be read: {error.strerror or error}") from None
    except (ValueError, RecursionError) as error:
        raise FaultFileError(f"{path}: not valid TOML: {error}") from None
    faults = tables.pop("fault", None)
    if tables:
        raise FaultFileError(f"{path}: {next(iter(tables))}: unknown key; allowed here: [[fault]] tables")
    if not isinstance(faults, list) or not faults:
        raise FaultFileError(f"{path}: fault: expected [[fault]] tables, each with {_KEYS}")
    return [_of_table(table, f"{path}: fault {number}: ") for number, table in enumerate(faults, 1)]


def _of_table(table: object, said: str) -> Fault:
    try:
        entry = msgspec.convert(table, _Table)
        return _fault(entry.kind, entry.target, entry.value, entry.at, entry.length)
    except msgspec.ValidationError as error:
        message, _, place = str(error).partition(" - at `$.")
        key = place.rstrip("`")
        allowed = {"kind": f"; allowed: {', '.join(KINDS)}", "target": f"; allowed: {', '.join(TARGETS)}"}.get(key, "")
        if not key:
            allowed = f"; allowed here: {_KEYS}"
        raise FaultFileError(f"{said}{f'{key}: ' if key else ''}{message}{allowed}") from None
    except _NotAllowedError as error:
        raise FaultFileError(f"{said}{error}") from None


class _NotAllowedError(Exception):
    """A value that cannot be; says which and what is allowed."""


def _fault(kind: str, target: str, value: float | str, begin: float | str, length: float | str | None) -> Fault:
    number = _probability(kind, value) if kind in PROBABILITIES else _seconds(kind, value)
    if kind in MOMENTS and length is not None:
        raise _NotAllowedError(f"for: not with {kind}, whose value is how long it lasts")
    if kind == "cut" and target != "link":
        raise _NotAllowedError(f"target: a cut takes both directions: link, not {target}")
    for_us = None if length is None else round(1e6 * _seconds("for", length))
    return Fault(kind, target, number, round(1e6 * _seconds("at", begin)), for_us)


def _probability(key: str, value: float | str) -> float:
    if isinstance(value, str):
        number, unit = _split(value)
        value = number / 100 if unit == "%" else number if not unit else math.nan
    if not 0 <= value <= 1:
        raise _NotAllowedError(f"{key}: expected {_PROBABILITY}")
    return value


def _seconds(key: str, value: float | str) -> float:
    if isinstance(value, str):
        number, unit = _split(value)
        value = number * _UNITS.get(unit, math.nan)
    if not 0 <= value < 1e9:
        raise _NotAllowedError(f"{key}: expected {_TIME}")
    return value


def _split(text: str) -> tuple[float, str]:
    """Number and unit; not a number where the text is none."""
    match = _NUMBER.fullmatch(text)
    try:
        return (float(match[1]), match[2]) if match else (math.nan, "")
    except ValueError:
        return math.nan, ""
