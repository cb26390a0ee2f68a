"""Which HIL_SENSORs are answered: what is learnt, when, and what becomes of it after losses."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bridge.reply_pattern import MAX_PERIOD, WINDOW, ReplyPattern


def feed(pattern: ReplyPattern, answers: str, count: int, start: int = 0) -> list[bool]:
    """Send sensors and answer them as told; returns which of them were expected to be answered."""
    expected = []
    for number in range(start, start + count):
        expected.append(pattern.sensor_sent())
        if answers[number % len(answers)] == "1":
            pattern.answered(0)
    return expected


@pytest.mark.parametrize(
    ("answers", "words"),
    [
        ("1", "1 answer per 1 sensor"),
        ("01", "1 answer per 2 sensors"),
        ("0001", "1 answer per 4 sensors"),
        ("01001", "2 answers per 5 sensors"),  # alternately the second and the third: a 1.17 rover
        ("00000001", "1 answer per 8 sensors"),
    ],
)
def test_the_patterns_of_px4_are_learnt(answers: str, words: str) -> None:
    pattern = ReplyPattern()
    feed(pattern, answers, WINDOW + len(answers))
    assert pattern.learnt
    assert str(pattern) == words
    expected = feed(pattern, answers, 40, start=WINDOW + len(answers))
    start = (WINDOW + len(answers)) % len(answers)
    assert expected == [answers[(start + number) % len(answers)] == "1" for number in range(40)]


def test_nothing_is_expected_until_100_sensors_repeat() -> None:
    pattern = ReplyPattern()
    assert not any(feed(pattern, "1", WINDOW - 1))
    assert not pattern.learnt
    assert str(pattern) == "not learnt"
    pattern.sensor_sent()
    assert pattern.answered(0), "the hundredth makes it new"
    assert pattern.learnt
    assert pattern.sensor_sent()
    assert not pattern.answered(0), "it is not new again"


def test_the_silence_after_boot_is_no_part_of_the_pattern() -> None:
    pattern = ReplyPattern()
    feed(pattern, "0", 37)
    feed(pattern, "1", WINDOW - 1)
    assert not pattern.learnt
    feed(pattern, "1", 1)
    assert pattern.learnt


def test_a_period_above_8_is_not_learnt() -> None:
    pattern = ReplyPattern()
    feed(pattern, "0" * MAX_PERIOD + "1", 2000)
    assert not pattern.learnt


def test_one_answer_in_100_that_is_missing_spoils_it() -> None:
    pattern = ReplyPattern()
    feed(pattern, "1" * 49 + "0", 1000)
    assert not pattern.learnt


def test_silence_alone_is_no_pattern() -> None:
    pattern = ReplyPattern()
    feed(pattern, "0", 1000)
    assert not pattern.learnt


def test_answers_that_come_late_count_for_their_sensor() -> None:
    pattern = ReplyPattern()
    for number in range(2 * WINDOW):
        pattern.sensor_sent()
        if number >= 3 and (number - 3) % 4 == 1:
            pattern.answered(3)
    assert str(pattern) == "1 answer per 4 sensors"
    assert [pattern.sensor_sent() for _ in range(4)] == [False, True, False, False]


def test_an_answer_to_nothing_that_was_sent_is_left_out() -> None:
    pattern = ReplyPattern()
    assert not pattern.answered(0)
    pattern.sensor_sent()
    assert not pattern.answered(1)
    assert not pattern.answered(5000)


def test_more_answers_than_expected_are_learnt_anew() -> None:
    """After disarming the logger stops, and PX4 answers each sensor again."""
    pattern = ReplyPattern()
    feed(pattern, "0001", 200)
    feed(pattern, "1", WINDOW)
    assert str(pattern) == "1 answer per 1 sensor"


def test_unlearn_begins_with_the_next_sensor() -> None:
    pattern = ReplyPattern()
    feed(pattern, "1", 200)
    pattern.unlearn()
    assert not pattern.learnt
    assert not any(feed(pattern, "01", WINDOW))
    feed(pattern, "01", 2, start=WINDOW)
    assert str(pattern) == "1 answer per 2 sensors"


def test_forget_knows_nothing() -> None:
    pattern = ReplyPattern()
    feed(pattern, "1", 200)
    pattern.forget()
    assert not pattern.learnt
    assert not any(feed(pattern, "1", WINDOW - 1))


@settings(deadline=None, derandomize=True)
@given(st.text("01", min_size=1, max_size=8).filter(lambda text: "1" in text), st.integers(0, 50), st.integers(0, 3))
def test_any_period_up_to_8_is_learnt_and_then_foretold(answers: str, boot: int, delay: int) -> None:
    pattern = ReplyPattern()
    for _ in range(boot):
        pattern.sensor_sent()
    foretold, truth = [], []
    for number in range(WINDOW + 40):
        expected = pattern.sensor_sent()
        if number >= delay and answers[(number - delay) % len(answers)] == "1":
            pattern.answered(delay)
        if number >= WINDOW + 20:
            foretold.append(expected)
            truth.append(answers[number % len(answers)] == "1")
    assert foretold == truth


@settings(deadline=None, derandomize=True)
@given(
    st.sampled_from(["1", "01", "0001", "01001"]), st.lists(st.booleans(), min_size=1, max_size=30), st.integers(0, 7)
)
def test_realign_follows_answers_that_begin_elsewhere_after_a_silence(
    answers: str, lost: list[bool], shift: int
) -> None:
    """After realigning, what is expected is a rotation of the pattern in which the newest answer has its place."""
    pattern = ReplyPattern()
    feed(pattern, answers, 200)
    for _ in lost:
        pattern.sensor_sent()
    place = shift
    while True:
        pattern.sensor_sent()
        place += 1
        if answers[place % len(answers)] == "1":
            pattern.answered(0)
            break
    pattern.realign()
    period = len(answers)
    expected = "".join("01"[pattern.sensor_sent()] for _ in range(4 * period))
    rotations = [(answers * 8)[start : start + 4 * period] for start in range(period) if answers[start - 1] == "1"]
    assert expected in rotations
