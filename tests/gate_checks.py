"""What the gate must do, as functions of the gate's module: run on the real one, and on mutants that must fail."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from firmware_profiles.errors import RefusedError
from firmware_profiles.signals import HilControls

ALL = dict.fromkeys(range(16), (0.0, 1.0))
HALF = (0.5,) * 16
NOT_NUMBERS = (math.nan, -math.nan, math.inf, -math.inf)


def controls(channels: tuple[float, ...] = HALF, *, armed: bool = True, stale: bool = False) -> HilControls:
    return HilControls(channels, armed=armed, time_us=1, stale=stale)


def assert_still(gate: Any, given: HilControls | None) -> None:
    assert gate.passes(given) is False
    assert gate.clean(given) == ([0.0] * 16, [False] * 16)


def ranges_are_those_of_motors_and_of_what_turns_both_ways(module: Any) -> None:
    assert module.MOTOR == (0.0, 1.0)
    assert module.TWO_WAY == (-1.0, 1.0)


def armed_and_fresh_passes_unchanged(module: Any) -> None:
    gate = module.Gate(ALL)
    given = controls(tuple(channel / 15 for channel in range(16)))
    assert gate.passes(given) is True
    assert gate.clean(given) == (list(given.channels), [True] * 16)
    assert gate.not_finite == [0] * 16


def disarmed_is_still(module: Any) -> None:
    assert_still(module.Gate(ALL), controls(armed=False))


def stale_is_still(module: Any) -> None:
    assert_still(module.Gate(ALL), controls(stale=True))
    assert_still(module.Gate(ALL), controls(armed=False, stale=True))


def nothing_heard_is_still(module: Any) -> None:
    assert_still(module.Gate(ALL), None)


def age_alone_and_suspicion_do_not_stop(module: Any) -> None:
    """The session judges; the gate obeys `stale`."""
    old = HilControls(HALF, armed=True, time_us=0, age_us=10_000_000, termination_suspected=True)
    assert module.Gate(ALL).clean(old) == (list(HALF), [True] * 16)


def what_is_no_number_stops_its_channel_only(module: Any) -> None:
    for channel in range(16):
        gate = module.Gate(ALL)
        for count, bad in enumerate(NOT_NUMBERS, start=1):
            raw = [0.5] * 16
            raw[channel] = bad
            values, live = gate.clean(controls(tuple(raw)))
            assert values == [0.0 if index == channel else 0.5 for index in range(16)]
            assert live == [index != channel for index in range(16)]
            assert gate.not_finite == [count if index == channel else 0 for index in range(16)]


def what_is_no_number_is_counted_only_when_it_matters(module: Any) -> None:
    gate = module.Gate({0: module.MOTOR})
    for given in (controls((math.nan,) * 16, armed=False), controls((math.nan,) * 16, stale=True)):
        assert_still(gate, given)
    assert gate.not_finite == [0] * 16
    gate.clean(controls((math.nan,) * 16))
    assert gate.not_finite == [1] + [0] * 15


def out_of_range_is_brought_back(module: Any) -> None:
    gate = module.Gate({0: module.MOTOR, 1: module.TWO_WAY, 2: (0.25, 0.75)})
    for value, motor, two_way, narrow in (
        (-1e308, 0.0, -1.0, 0.25),
        (-1.8, 0.0, -1.0, 0.25),
        (-1.2, 0.0, -1.0, 0.25),
        (-0.4, 0.0, -0.4, 0.25),
        (-5e-324, 0.0, -5e-324, 0.25),
        (0.0, 0.0, 0.0, 0.25),
        (0.3, 0.3, 0.3, 0.3),
        (1.0, 1.0, 1.0, 0.75),
        (1.0000001, 1.0, 1.0, 0.75),
        (1e308, 1.0, 1.0, 0.75),
    ):
        values, live = gate.clean(controls((value,) * 16))
        assert values == [motor, two_way, narrow] + [0.0] * 13
        assert live == [True] * 3 + [False] * 13


def unused_channels_stay_still(module: Any) -> None:
    gate = module.Gate({3: module.MOTOR})
    values, live = gate.clean(controls((1.0,) * 16))
    assert values == [0.0] * 3 + [1.0] + [0.0] * 12
    assert live == [False] * 3 + [True] + [False] * 12


def px4_1_12_cannot_move_anything(module: Any) -> None:
    """Its disarmed values last on 60 ms after arming, and -1 on all channels for 56 ms: motors stay at 0."""
    gate = module.Gate(dict.fromkeys(range(4), module.MOTOR))
    hitl = (-0.1,) * 4 + (-1.2,) * 4 + (0.0,) * 8
    for raw in (hitl, (-1.0,) * 16):
        assert_still(gate, controls(raw, armed=False))
        values, live = gate.clean(controls(raw))
        assert values == [0.0] * 16
        assert live == [True] * 4 + [False] * 12


def two_calls_do_not_share_their_lists(module: Any) -> None:
    gate = module.Gate(ALL)
    values, live = gate.clean(controls())
    values[0], live[0] = 9.0, False
    assert gate.clean(controls()) == (list(HALF), [True] * 16)
    values, live = gate.clean(None)
    values[0], live[0] = 9.0, True
    assert_still(gate, None)


def refusal(module: Any, functions: dict[str, int] | None, driven: set[int], *, off: bool = False) -> str | None:
    """Why it is refused, if it is."""
    try:
        module.check_real_outputs(functions, driven, propellers_are_off=off)
    except RefusedError as error:
        return str(error)
    return None


def motors_on_real_outputs_are_refused(module: Any) -> None:
    for function in range(-1, 500):
        text = refusal(module, {"PWM_AUX_FUNC3": function, "PWM_MAIN_FUNC1": 0}, set())
        if 101 <= function <= 112:
            assert text is not None
            assert f"PWM_AUX_FUNC3 = {function}" in text
            assert "PWM_MAIN_FUNC1" not in text
            assert "--propellers-are-off" in text
            assert "\n" not in text
        else:
            assert text is None


def what_the_vehicle_drives_is_refused_too(module: Any) -> None:
    """Wheels on actuator sets, as lav2 has them; what is off is off, whatever is driven."""
    functions = {"PWM_MAIN_FUNC5": 301, "PWM_MAIN_FUNC6": 302, "PWM_MAIN_FUNC7": 201, "PWM_MAIN_FUNC8": 0}
    text = refusal(module, functions, {0, 301, 302})
    assert text is not None
    assert "PWM_MAIN_FUNC5 = 301, PWM_MAIN_FUNC6 = 302;" in text
    assert refusal(module, functions, {303}) is None
    assert refusal(module, {"PWM_MAIN_FUNC8": 0}, {0}) is None
    assert refusal(module, {"PWM_MAIN_FUNC8": -1}, {-1}) is None
    assert refusal(module, {"PWM_MAIN_FUNC8": 1}, {1}) is not None
    assert refusal(module, {}, {301}) is None


def what_cannot_be_told_is_refused(module: Any) -> None:
    text = refusal(module, None, set())
    assert text is not None
    assert "cannot be told" in text
    assert "--propellers-are-off" in text


def who_has_looked_is_told_what_moves(module: Any) -> None:
    functions = {"PWM_MAIN_FUNC1": 101, "PWM_MAIN_FUNC2": 0, "PWM_MAIN_FUNC5": 301}
    off = {"propellers_are_off": True}
    assert module.check_real_outputs(functions, {301}, **off) == {"PWM_MAIN_FUNC1": 101, "PWM_MAIN_FUNC5": 301}
    assert module.check_real_outputs(None, {301}, **off) == {}
    assert module.check_real_outputs({"A": 0}, {301}, propellers_are_off=False) == {}


CHECKS: tuple[Callable[[Any], None], ...] = (
    ranges_are_those_of_motors_and_of_what_turns_both_ways,
    armed_and_fresh_passes_unchanged,
    disarmed_is_still,
    stale_is_still,
    nothing_heard_is_still,
    age_alone_and_suspicion_do_not_stop,
    what_is_no_number_stops_its_channel_only,
    what_is_no_number_is_counted_only_when_it_matters,
    out_of_range_is_brought_back,
    unused_channels_stay_still,
    px4_1_12_cannot_move_anything,
    two_calls_do_not_share_their_lists,
    motors_on_real_outputs_are_refused,
    what_the_vehicle_drives_is_refused_too,
    what_cannot_be_told_is_refused,
    who_has_looked_is_told_what_moves,
)
