"""The gate: nothing moves that should not, whatever comes in."""

import math

import pytest
from gate_checks import ALL, CHECKS, controls
from hypothesis import given
from hypothesis import strategies as st

from lav2_hil import gate
from lav2_hil.gate import MOTOR, TWO_WAY, Gate


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_gate(check) -> None:
    check(gate)


any_float = st.floats() | st.sampled_from([math.nan, math.inf, -math.inf, -0.0, 5e-324, 1e308, -1.2, -0.1])
channel_sets = st.lists(any_float, min_size=16, max_size=16).map(tuple)
some_ranges = st.dictionaries(st.integers(0, 15), st.sampled_from([MOTOR, TWO_WAY]))


@given(channel_sets, some_ranges, st.booleans(), st.booleans())
def test_nothing_ever_leaves_its_range(channels, ranges, armed: bool, stale: bool) -> None:
    gate = Gate(ranges)
    values, live = gate.clean(controls(channels, armed=armed, stale=stale))
    assert len(values) == len(live) == 16
    for channel in range(16):
        low, high = ranges.get(channel, (0.0, 0.0))
        usable = armed and not stale and channel in ranges and math.isfinite(channels[channel])
        assert live[channel] is usable
        assert values[channel] == (min(max(channels[channel], low), high) if usable else 0.0)
        assert low <= values[channel] <= high


@given(st.lists(channel_sets, max_size=5))
def test_every_value_that_is_no_number_is_counted(series) -> None:
    gate = Gate(ALL)
    for channels in series:
        gate.clean(controls(channels))
    assert gate.not_finite == [sum(not math.isfinite(channels[i]) for channels in series) for i in range(16)]
