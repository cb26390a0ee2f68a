"""The parameter table, as the wire sees it."""

from __future__ import annotations

import math
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lav2_hil.autopilot.parameters import INT32, REAL32, Parameters, value_of_wire


def as_wire(value: int) -> float:
    (wire,) = struct.unpack("<f", struct.pack("<i", value))
    return wire


def test_int32_goes_bytewise_in_the_float() -> None:
    """As in the captures of PX4: MAV_SYS_ID 2 is 2.8e-45."""
    parameters = Parameters(2)
    message = parameters.message(parameters.index_of("MAV_SYS_ID"))
    assert message.param_type == INT32
    assert message.param_value == pytest.approx(2.8e-45, rel=0.01)
    assert struct.pack("<f", message.param_value) == struct.pack("<i", 2)


def test_every_value_comes_back_as_it_was_sent() -> None:
    parameters = Parameters(7)
    for index in range(len(parameters)):
        message = parameters.message(index)
        name = message.param_id
        assert (message.param_index, message.param_count) == (index, len(parameters))
        assert parameters.index_of(name) == index
        before = parameters[name]
        assert parameters.set(name, message.param_value, message.param_type)
        assert parameters[name] == before


@given(st.integers(0, 2**24 - 1))
def test_all_integers_survive_the_wire(value: int) -> None:
    parameters = Parameters(1)
    assert parameters.set("CAL_ACC0_ID", as_wire(value), INT32)
    assert parameters["CAL_ACC0_ID"] == value
    message = parameters.message(parameters.index_of("CAL_ACC0_ID"))
    assert struct.pack("<f", message.param_value) == struct.pack("<i", value)


@pytest.mark.parametrize(
    ("name", "wire", "kind"),
    [
        ("MIS_TAKEOFF_ALT", math.nan, REAL32),
        ("MIS_TAKEOFF_ALT", math.inf, REAL32),
        ("MIS_TAKEOFF_ALT", -1.0, REAL32),
        ("MIS_TAKEOFF_ALT", 1e9, REAL32),
        ("MIS_TAKEOFF_ALT", 3.0, INT32),
        ("MIS_TAKEOFF_ALT", 3.0, 0),
        ("SYS_AUTOSTART", 10016.0, REAL32),
        ("SYS_AUTOSTART", as_wire(-1), INT32),
        ("MAV_SYS_ID", as_wire(0), INT32),
        ("COM_DISARM_PRFLT", 3.0, REAL32),
        ("", 3.0, REAL32),
    ],
)
def test_what_does_not_fit_changes_nothing(name: str, wire: float, kind: int) -> None:
    parameters = Parameters(1)
    before = [parameters.message(index).param_value for index in range(len(parameters))]
    assert not parameters.set(name, wire, kind)
    assert [parameters.message(index).param_value for index in range(len(parameters))] == before


@given(st.floats(width=32), st.sampled_from([INT32, REAL32, 0, 5, 255]), st.text(max_size=16))
def test_garbage_is_refused_without_an_error(wire: float, kind: int, name: str) -> None:
    parameters = Parameters(1)
    for target in (name, "MPC_XY_CRUISE", "MAV_TYPE"):
        parameters.set(target, wire, kind)
    assert 0.5 <= parameters["MPC_XY_CRUISE"] <= 5.0
    assert 0 <= parameters["MAV_TYPE"] <= 50


def test_negative_integers_that_look_like_nan() -> None:
    assert math.isnan(as_wire(-1))
    assert value_of_wire(as_wire(-1), INT32) == -1


def test_names_are_sorted_and_fit_the_wire() -> None:
    parameters = Parameters(1)
    names = [parameters.message(index).param_id for index in range(len(parameters))]
    assert names == sorted(names)
    assert all(len(name) <= 16 for name in names)
    assert parameters.index_of("NO_SUCH") is None
    with pytest.raises(KeyError):
        parameters["NO_SUCH"]
