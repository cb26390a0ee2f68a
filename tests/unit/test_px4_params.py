"""`.params` files: read as written, exactly; damage is told with its line."""

from __future__ import annotations

import contextlib
import math
import struct
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from firmware_profiles.errors import DataError, NoInputError
from firmware_profiles.px4_params import (
    ParamFile,
    as_typed,
    differences,
    float32,
    format_params,
    parse_params,
    read_params,
    same,
    shown,
)

names = st.text("ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_", min_size=1, max_size=16)
integers = st.integers(-(2**31), 2**31 - 1)
floats = st.floats(width=32)
tables = st.dictionaries(names, integers | floats, min_size=1)


def bits(value: float) -> bytes:
    if isinstance(value, int):
        return struct.pack("<i", value)
    return b"nan" if math.isnan(value) else struct.pack("<d", value)


@given(tables, st.integers(0, 255), st.integers(0, 255))
def test_a_file_comes_back_bit_for_bit_and_typed(values, system: int, component: int) -> None:
    text = format_params(ParamFile(values, system, component), remarks=("made by a test",))
    back = parse_params(text.encode())
    assert (back.system, back.component) == (system, component)
    assert {name: (type(value), bits(value)) for name, value in back.values.items()} == {
        name: (type(value), bits(value)) for name, value in values.items()
    }


@given(st.binary(max_size=300))
def test_garbage_is_refused_or_read(data: bytes) -> None:
    with contextlib.suppress(DataError):
        assert parse_params(data).values


@given(tables, st.data())
def test_a_file_cut_inside_a_line_is_damaged_there(values, data) -> None:
    text = format_params(ParamFile(values)).encode()
    start = text.index(b"Type\n") + 5
    cut = data.draw(st.integers(start, len(text) - 3))  # the last byte of a line is its type, whole
    if text[cut - 1 : cut] == b"\n" or text[cut : cut + 1] == b"\n":
        return
    with pytest.raises(DataError) as caught:
        parse_params(text[:cut])
    assert str(caught.value).startswith(f"line {text[:cut].count(bytes([10])) + 1}: ")


def test_what_qgroundcontrol_saves() -> None:
    text = (
        "# Onboard parameters for Vehicle 1\n#\n# Stack: PX4 Pro\n# Vehicle-Id Component-Id Name Value Type\r\n"
        "1\t1\tBAT1_N_CELLS\t4\t6\r\n1\t1\tMC_ROLL_P\t6.500000000000000000\t9\n1\t1\tX_NAN\tnan\t9\n"
    )
    values = parse_params(text.encode()).values
    assert (values["BAT1_N_CELLS"], values["MC_ROLL_P"]) == (4, 6.5)
    assert isinstance(values["BAT1_N_CELLS"], int)
    assert isinstance(values["MC_ROLL_P"], float)
    assert math.isnan(values["X_NAN"])


@pytest.mark.parametrize(
    ("line", "cause"),
    [
        ("1\t1\tNAME\t4", "expected 5 columns"),
        ("1\t1\tNAME\t4\t6\t7", "expected 5 columns"),
        ("x\t1\tNAME\t4\t6", "vehicle id: 'x' is no integer"),
        ("1\t300\tNAME\t4\t6", "ids are 0 to 255"),
        ("1\t1\tNAME_THAT_IS_TOO_LONG\t4\t6", "is no parameter's name"),
        ("1\t1\tNA ME\t4\t6", "is no parameter's name"),
        ("1\t1\tNAME\t4.5\t6", "NAME: '4.5' is no integer"),
        ("1\t1\tNAME\t2147483648\t6", "NAME: 2147483648 does not fit an INT32"),
        ("1\t1\tNAME\tx\t9", "NAME: 'x' is no number"),
        ("1\t1\tNAME\t1e39\t9", "NAME: 1e39 does not fit a REAL32"),
        ("1\t1\tNAME\t4\t2", "NAME: type '2'; PX4's are 6 (INT32) and 9 (REAL32)"),
        ("1\t1\tGOOD\t2\t6", "GOOD a second time, with another value"),
        ("2\t1\tNAME\t4\t6", "vehicle 2 component 1 beside 1 1"),
        ("1\t1\tN\xc4ME\t4\t6", "is no parameter's name"),
    ],
)
def test_damage_is_told_with_line_and_cause(tmp_path: Path, line: str, cause: str) -> None:
    path = tmp_path / "board.params"
    path.write_text(f"# head\n1\t1\tGOOD\t1\t6\n{line}\n")
    with pytest.raises(DataError) as caught:
        read_params(path)
    assert str(caught.value).startswith(f"{path}: line 3: ")
    assert cause in str(caught.value)
    assert "\n" not in str(caught.value)


def test_no_file_and_an_empty_one(tmp_path: Path) -> None:
    with pytest.raises(NoInputError, match="No such file"):
        read_params(tmp_path / "none.params")
    (tmp_path / "empty.params").write_text("# nothing\n")
    with pytest.raises(DataError, match="no parameters in it"):
        read_params(tmp_path / "empty.params")
    (tmp_path / "bytes.params").write_bytes(b"1\t1\tA\t\xff\t6\n")
    with pytest.raises(DataError, match="line 1: not a text in UTF-8"):
        read_params(tmp_path / "bytes.params")


def test_sameness_is_of_type_and_value() -> None:
    assert same(1, 1)
    assert same(0.5, 0.5)
    assert same(math.nan, math.nan)
    assert same(-0.0, 0.0)
    assert not same(1, 1.0)
    assert not same(math.nan, 0.0)
    assert not same(1, 2)


@given(floats)
@example(3.4028234663852886e38)
@example(math.inf)
def test_what_is_shown_names_the_value(value: float) -> None:
    assert math.isnan(value) or float32(float(shown(value))) == value


def test_values_are_shown_short() -> None:
    assert [shown(value) for value in (5, float32(0.16), -1.0, 10.0, 1001)] == ["5", "0.16", "-1", "10", "1001"]


def test_a_value_in_the_type_of_another() -> None:
    assert as_typed(101, 0) == 101
    assert isinstance(as_typed(101.0, 0), int)
    assert as_typed(0.5, 0) is None
    assert as_typed(0.1, 0.0) == float32(0.1)
    assert isinstance(as_typed(1, 0.0), float)


def test_differences_are_in_order_and_name_what_is_missing() -> None:
    found = differences({"B": 1, "A": 1.0, "C": 3}, {"B": 2, "A": 1, "C": 3, "D": 4})
    assert list(found.items()) == [("A", (1.0, 1)), ("B", (1, 2)), ("D", (None, 4))]
