"""PX4 parameters: their values, and QGroundControl's `.params` files, read and written.

A value is typed by its Python type: an `int` is PX4's INT32, a `float` its REAL32 and holds one exactly. A file has a
line for each, `vehicle component NAME VALUE TYPE` with tabs between; floats have 18 digits, more than it takes to get
them back bit for bit.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from firmware_profiles.errors import DataError, NoInputError

Value: TypeAlias = int | float
"""An `int` is INT32, a `float` is REAL32."""

INT32, REAL32 = 6, 9
"""MAV_PARAM_TYPE; PX4 has no other."""

_TYPES = f"{INT32} (INT32) and {REAL32} (REAL32)"
_NAME = re.compile(r"[A-Za-z0-9_]{1,16}")
_INTEGER = re.compile(r"[+-]?[0-9]{1,11}")
_HEADER = """\
# Onboard parameters for Vehicle {system}
#
# Stack: PX4 Pro
{remarks}#
# Vehicle-Id Component-Id Name Value Type
"""


@dataclass(frozen=True, slots=True)
class ParamFile:
    """What a `.params` file holds: the parameters of one component of one vehicle."""

    values: dict[str, Value]
    system: int = 1
    component: int = 1


def kind_of(value: Value) -> int:
    """The MAV_PARAM_TYPE of a value."""
    return INT32 if isinstance(value, int) else REAL32


def float32(value: float) -> float:
    """The nearest REAL32.

    Raises:
        OverflowError: it is finite and too large for one.
    """
    (single,) = struct.unpack("<f", struct.pack("<f", value))
    return float(single)


def same(a: Value, b: Value) -> bool:
    """Whether two values are of one type and equal; NaN is equal to NaN, and -0.0 to 0.0, as it is to PX4."""
    return kind_of(a) == kind_of(b) and (a == b or (a != a and b != b))


def shown(value: Value) -> str:
    """A value for people: the shortest text that names this REAL32, or the integer."""
    if isinstance(value, int):
        return str(value)
    texts = (f"{value:.{digits}g}" for digits in range(1, 10))
    shortest = next((text for text in texts if _names(text, value)), str(value))
    return f"{float(shortest):.10g}"


def _names(text: str, value: float) -> bool:
    try:
        return float32(float(text)) == value
    except OverflowError:  # rounded up, beyond the largest
        return False


def as_typed(value: Value, like: Value) -> Value | None:
    """A value in the type of another; None where it has none (0.5 as an INT32)."""
    if isinstance(like, float):
        return float32(value)
    return int(value) if value == int(value) else None


def format_params(file: ParamFile, remarks: tuple[str, ...] = ()) -> str:
    """A `.params` file's text; remarks are lines of its head."""
    lines = [_HEADER.format(system=file.system, remarks="".join(f"# {remark}\n" for remark in remarks))]
    for name, value in sorted(file.values.items()):
        text = str(value) if isinstance(value, int) else f"{value:.18g}"
        lines.append(f"{file.system}\t{file.component}\t{name}\t{text}\t{kind_of(value)}\n")
    return "".join(lines)


def read_params(path: Path) -> ParamFile:
    """Read a `.params` file.

    Raises:
        NoInputError: it does not exist or cannot be read.
        DataError: its contents are damaged; names the line and what is wrong with it.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise NoInputError(f"{path}: {error.strerror or error}") from None
    try:
        return parse_params(data)
    except DataError as error:
        raise DataError(f"{path}: {error}") from None


def parse_params(data: bytes) -> ParamFile:
    """A `.params` file's contents.

    Raises:
        DataError: as `read_params`, without the file's name.
    """
    values: dict[str, Value] = {}
    owner: tuple[int, int] | None = None
    for number, line in enumerate(data.split(b"\n"), start=1):
        try:
            text = line.decode("utf-8").strip()
            if not text or text.startswith("#"):
                continue
            line_owner, name, value = _parse_line(text)
            if owner is not None and line_owner != owner:
                raise ValueError(f"vehicle {line_owner[0]} component {line_owner[1]} beside {owner[0]} {owner[1]}")
            if name in values and not same(values[name], value):
                raise ValueError(f"{name} a second time, with another value")
        except UnicodeDecodeError:
            raise DataError(f"line {number}: not a text in UTF-8") from None
        except ValueError as error:
            raise DataError(f"line {number}: {error}") from None
        owner, values[name] = line_owner, value
    if owner is None:
        raise DataError("no parameters in it; expected a .params file as QGroundControl saves it")
    return ParamFile(values, *owner)


def _parse_line(text: str) -> tuple[tuple[int, int], str, Value]:
    columns = text.split("\t") if "\t" in text else text.split()
    if len(columns) != 5:
        raise ValueError(f"expected 5 columns (vehicle, component, name, value, type), got {len(columns)}")
    system, component, name, value, kind = (column.strip() for column in columns)
    ids = (_integer(system, "vehicle id"), _integer(component, "component id"))
    if not all(0 <= number <= 255 for number in ids):
        raise ValueError("ids are 0 to 255")
    if not _NAME.fullmatch(name):
        raise ValueError(f"{_quoted(name)} is no parameter's name (1 to 16 letters, digits and _)")
    return ids, name, _value(name, value, kind)


def _value(name: str, text: str, kind: str) -> Value:
    if kind == str(INT32):
        value = _integer(text, name)
        if not -(2**31) <= value < 2**31:
            raise ValueError(f"{name}: {value} does not fit an INT32")
        return value
    if kind != str(REAL32):
        raise ValueError(f"{name}: type {_quoted(kind)}; PX4's are {_TYPES}")
    try:
        number = float(text)
    except ValueError:
        raise ValueError(f"{name}: {_quoted(text)} is no number") from None
    try:
        return float32(number)
    except OverflowError:
        raise ValueError(f"{name}: {text} does not fit a REAL32") from None


def _integer(text: str, what: str) -> int:
    if not _INTEGER.fullmatch(text):
        raise ValueError(f"{what}: {_quoted(text)} is no integer")
    return int(text)


def _quoted(text: str) -> str:
    return ascii(text if len(text) <= 30 else text[:27] + "...")


def differences(a: Mapping[str, Value], b: Mapping[str, Value]) -> dict[str, tuple[Value | None, Value | None]]:
    """Where two tables differ, by name in order; None for a side that lacks it."""
    found: dict[str, tuple[Value | None, Value | None]] = {}
    for name in sorted(a.keys() | b.keys()):
        left, right = a.get(name), b.get(name)
        if left is None or right is None or not same(left, right):
            found[name] = (left, right)
    return found
