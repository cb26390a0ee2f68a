"""Which HIL_ACTUATOR_CONTROLS count, what they answer, and how old they are."""

from __future__ import annotations

from typing import Any

import pytest
from pymavlink.dialects.v20 import common

from bridge.controls_tracker import BACKWARD_US, STALE_US, ControlsTracker, Verdict

PERIOD_US = 4000
FIRST_US = 1_000_000


def message(stamp: int, *, mode: int = 129, flags: int = 1, value: float = 0.5) -> Any:
    return common.MAVLink_hil_actuator_controls_message(stamp, [value] * 16, mode, flags)


def tracker(sensors: int = 1) -> ControlsTracker:
    """A tracker that has seen some sensors leave, the newest at `newest(sensors)`."""
    made = ControlsTracker(PERIOD_US)
    for number in range(sensors):
        made.sensor_sent(FIRST_US + number * PERIOD_US)
    return made


def newest(sensors: int) -> int:
    return FIRST_US + (sensors - 1) * PERIOD_US


def test_an_answer_says_which_sensor_it_answers() -> None:
    made = tracker(10)
    assert made.received(message(newest(8))) is Verdict.LATE
    assert made.sensors_ago == 2
    assert made.received(message(newest(10))) is Verdict.FRESH
    assert made.sensors_ago == 0
    assert made.echoes
    assert made.late == 1


def test_a_late_answer_updates_the_controls() -> None:
    made = tracker(10)
    made.received(message(newest(7), value=0.25))
    controls = made.controls_at(newest(11))
    assert controls is not None
    assert controls.channels == (0.25,) * 16


def test_duplicates_and_answers_out_of_order_do_not_count() -> None:
    made = tracker(10)
    made.received(message(newest(9), value=0.9))
    assert made.received(message(newest(9), value=0.1)) is Verdict.DUPLICATE
    assert made.received(message(newest(8), value=0.1)) is Verdict.REORDERED
    controls = made.controls_at(newest(11))
    assert controls is not None
    assert controls.channels[0] == 0.9
    assert (made.duplicates, made.reordered) == (1, 1)


def test_no_controls_before_any_came() -> None:
    assert tracker(10).controls_at(FIRST_US) is None


@pytest.mark.parametrize("mode", [129, 181, 128, 241, 255])
def test_armed_is_bit_128_of_any_mode(mode: int) -> None:
    made = tracker()
    made.received(message(FIRST_US, mode=mode))
    assert made.armed


@pytest.mark.parametrize("mode", [0, 1, 53, 113, 127])
def test_disarmed_is_any_mode_without_bit_128(mode: int) -> None:
    made = tracker()
    made.received(message(FIRST_US, mode=mode))
    assert not made.armed


def test_controls_are_stale_after_more_than_200_ms_of_simulated_time() -> None:
    made = tracker()
    made.received(message(FIRST_US))
    at_limit, beyond = made.controls_at(FIRST_US + STALE_US), made.controls_at(FIRST_US + STALE_US + 1)
    assert at_limit is not None
    assert beyond is not None
    assert STALE_US == 200_000
    assert (at_limit.age_us, at_limit.stale, at_limit.termination_suspected) == (200_000, False, False)
    assert (beyond.age_us, beyond.stale, beyond.termination_suspected) == (200_001, True, True)


def test_the_age_counts_from_the_arrival_not_from_the_stamp() -> None:
    made = tracker(100)
    made.received(message(newest(20)))
    controls = made.controls_at(newest(100) + PERIOD_US)
    assert controls is not None
    assert controls.age_us == PERIOD_US


def test_silence_after_disarming_is_no_termination() -> None:
    made = tracker()
    made.received(message(FIRST_US, mode=1))
    controls = made.controls_at(FIRST_US + 10 * STALE_US)
    assert controls is not None
    assert (controls.stale, controls.termination_suspected) == (True, False)


def test_just_disarmed_is_armed_before_and_at_most_two_messages_since() -> None:
    made = tracker(10)
    seen = []
    for number, mode in enumerate((1, 1, 129, 129, 1, 1, 1, 129, 1)):
        made.received(message(newest(1 + number), mode=mode))
        seen.append(made.just_disarmed)
    assert seen == [False, False, False, False, True, True, False, False, True]


def test_a_stamp_that_no_sensor_had_hides_no_answer() -> None:
    made = tracker(10)
    made.received(message(newest(9)))
    assert made.received(message(newest(10) + 10**12)) is Verdict.FRESH
    made.sensor_sent(newest(11))
    assert made.received(message(newest(11))) is Verdict.FRESH


def test_a_clock_of_its_own_answers_the_newest_sensor() -> None:
    made = tracker(10)
    for number in range(3):
        assert made.received(message(77_000_000 + 5000 * number, flags=0)) is Verdict.FRESH
        assert made.sensors_ago == 0
    assert made.echoes is False
    assert made.received(message(77_010_000, flags=0)) is Verdict.DUPLICATE
    assert made.received(message(77_005_000, flags=0)) is Verdict.REORDERED


def test_without_lockstep_a_stamp_among_the_sensors_is_a_clock_of_its_own_too() -> None:
    made = tracker(100)
    made.received(message(newest(50), flags=0))
    assert made.echoes is False


def test_a_clock_that_runs_backward_is_told() -> None:
    made = tracker(10)
    made.received(message(7_944_225, flags=0))
    assert made.received(message(7_944_225 - BACKWARD_US, flags=0)) is Verdict.REORDERED
    assert made.received(message(1_950_643, flags=0)) is Verdict.BACKWARD
    made.forget()
    assert made.controls_at(newest(10)) is None
    assert not made.armed
    assert made.received(message(1_950_643, flags=0)) is Verdict.FRESH


def test_stamps_that_are_always_0_are_no_stamps() -> None:
    made = tracker(10)
    assert [made.received(message(0, flags=0)) for _ in range(3)] == [Verdict.FRESH] * 3


def test_forgetting_keeps_the_counters() -> None:
    made = tracker(10)
    made.received(message(newest(10)))
    made.received(message(newest(10)))
    made.forget()
    assert made.duplicates == 1
    assert made.echoes is None
