"""Faults as a user writes them: `--fault "link loss=0.02 latency=20ms at=12s"`, or a TOML file of them.

When a fault begins and ends is simulated time, so that it meets the same moment of a lockstep flight on every machine.
How long a frame is delayed, a stall holds or a cut lasts is wall time: that is what a wire has. Here are the link's
faults and the form of all; `vehicle_faults` knows the vehicle's.
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

import msgspec

from firmware_profiles.errors import ProfileError, UsageError
from lav2_hil.fault_values import NotAllowedError, seconds, split_number
from lav2_hil.vehicle_faults import VehicleFault, is_vehicle, kinds_of, vehicle_fault
from twin.faults import SENSOR_KINDS

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

_ALL_TARGETS = ", ".join((*TARGETS, "rotor1 (counted as PX4 counts motors) and so on", *SENSOR_KINDS))
_FORM = (
    'expected TARGET KIND=VALUE ... [at=TIME] [for=TIME], such as "link loss=0.02 latency=20ms at=12s for=3s" '
    'or "rotor2 lost at=12s"'
)
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


AnyFault = Fault | VehicleFault


def read_faults(options: Iterable[str]) -> tuple[AnyFault, ...]:
    """The faults of all `--fault` options; one that ends in .toml names a file.

    Raises:
        UsageError: a text that says no fault.
        FaultFileError: a file that cannot be read, or an error in it.
    """
    faults: list[AnyFault] = []
    for option in options:
        faults += load_faults(Path(option)) if option.endswith(".toml") else parse_faults(option)
    return tuple(faults)


def parse_faults(text: str) -> list[AnyFault]:
    """The faults of one text, one of each kind that it names.

    Raises:
        UsageError: another form, or a value that cannot be.
    """
    said = f"--fault {text!r}: "
    target, *words = text.split() or [""]
    if target not in TARGETS and not is_vehicle(target):
        raise UsageError(f"{said}no target {target!r}; targets: {_ALL_TARGETS}; {_FORM}")
    kinds = kinds_of(target) if is_vehicle(target) else KINDS
    values: dict[str, str | None] = {}
    for word in words:
        key, equals, value = word.partition("=")
        if key not in (*kinds, "at", "for") or not (equals or (is_vehicle(target) and key in kinds)):
            raise UsageError(f"{said}cannot use {word!r}; kinds: {', '.join(kinds)}; {_FORM}")
        if key in values:
            raise UsageError(f"{said}{key} is said twice")
        values[key] = value if equals else None
    begin, length = values.pop("at", None), values.pop("for", None)
    if not values:
        raise UsageError(f"{said}no kind; kinds: {', '.join(kinds)}; {_FORM}")
    try:
        begins = "0s" if begin is None else begin
        return [_any_fault(kind, target, value, begins, length) for kind, value in values.items()]
    except NotAllowedError as error:
        raise UsageError(f"{said}{error}") from None


class _Table(msgspec.Struct, forbid_unknown_fields=True):
    """A `[[fault]]` of the link; a number is a probability or seconds."""

    kind: Kind
    value: float | str
    target: Target = "link"
    at: float | str = 0.0
    length: float | str | None = msgspec.field(default=None, name="for")


class _VehicleTable(msgspec.Struct, forbid_unknown_fields=True):
    """A `[[fault]]` of the vehicle; a number is in the twin's unit."""

    kind: str
    target: str
    value: float | str | list[float | str] | None = None
    at: float | str = 0.0
    length: float | str | None = msgspec.field(default=None, name="for")


_KEYS = "kind, value, target, at, for"


def worst_delay_s(faults: Iterable[AnyFault]) -> float:
    """The longest that these faults may delay a frame by latency and jitter, one way [s]."""
    of_link = [fault for fault in faults if isinstance(fault, Fault)]
    return sum(max((fault.value for fault in of_link if fault.kind == kind), default=0.0) for kind in DELAYS)


def load_faults(path: Path) -> list[AnyFault]:
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


def _of_table(table: object, said: str) -> AnyFault:
    target = table.get("target") if isinstance(table, dict) else None
    of_vehicle = isinstance(target, str) and is_vehicle(target)
    kinds = kinds_of(str(target)) if of_vehicle else KINDS
    try:
        entry: Any = msgspec.convert(table, _VehicleTable if of_vehicle else _Table)
        if entry.kind not in kinds:
            raise NotAllowedError(f"kind: no {entry.kind!r} of {target}; allowed: {', '.join(kinds)}")
        return _any_fault(entry.kind, entry.target, entry.value, entry.at, entry.length)
    except msgspec.ValidationError as error:
        message, _, place = str(error).partition(" - at `$.")
        key = place.rstrip("`")
        allowed = {"kind": f"; allowed: {', '.join(kinds)}", "target": f"; allowed: {_ALL_TARGETS}"}.get(key, "")
        if not key:
            allowed = f"; allowed here: {_KEYS}"
        raise FaultFileError(f"{said}{f'{key}: ' if key else ''}{message}{allowed}") from None
    except NotAllowedError as error:
        raise FaultFileError(f"{said}{error}") from None


def _any_fault(kind: str, target: str, value: Any, begin: float | str, length: float | str | None) -> AnyFault:
    return (vehicle_fault if is_vehicle(target) else _fault)(kind, target, value, begin, length)


def _fault(kind: str, target: str, value: float | str, begin: float | str, length: float | str | None) -> Fault:
    number = _probability(kind, value) if kind in PROBABILITIES else seconds(kind, value)
    if kind in MOMENTS and length is not None:
        raise NotAllowedError(f"for: not with {kind}, whose value is how long it lasts")
    if kind == "cut" and target != "link":
        raise NotAllowedError(f"target: a cut takes both directions: link, not {target}")
    for_us = None if length is None else round(1e6 * seconds("for", length))
    return Fault(kind, target, number, round(1e6 * seconds("at", begin)), for_us)


def _probability(key: str, value: float | str) -> float:
    if isinstance(value, str):
        number, unit = split_number(value)
        value = number / 100 if unit == "%" else number if not unit else math.nan
    if not 0 <= value <= 1:
        raise NotAllowedError(f"{key}: expected {_PROBABILITY}")
    return value
