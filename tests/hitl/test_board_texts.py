"""Report 25: what a board complains of reaches a person, with what it means; `test_reports.py` has the table."""

from __future__ import annotations

import pytest
from hitl.test_free_running import flying
from pymavlink.dialects.v20 import common

from bridge.board_texts import BOARD_SAYS, MOST_TEXTS, BoardTexts
from bridge.codec import Decoder, Encoder
from bridge.session_io import Notice
from lav2_hil.doctor.hints import with_hint


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("Preflight Fail: GPS fix too low", "no GPS yet"),
        ("Preflight Fail: ekf2 missing data", "EKF not aligned"),
        ("Preflight Fail: attitude estimate not valid", "EKF not aligned"),
        ("Preflight Fail: Baro Sensor 0 STALE", "stale"),
        ("Preflight Fail: Compass Sensor 0 missing", "does not take it from HIL_SENSOR"),
        ("Preflight Fail: strong magnetic interference", "magnetic field must agree"),
        ("Preflight Fail: No connection to the GCS", "forwarded port"),
        ("Arming denied! something new", "doctor"),
    ],
)
def test_report_25_what_the_board_complains_of_is_told_with_a_hint(text: str, hint: str) -> None:
    bench = flying()
    for _ in range(3):
        bench.say(common.MAVLink_statustext_message(2, text.encode()))
        bench.run(bench.now + 100_000)
    (notice,) = [notice for notice in bench.notices if notice.name == BOARD_SAYS]
    assert text in notice.text
    assert hint in with_hint(notice)
    assert with_hint(notice).startswith(f"{notice.text} (")


def test_report_25_repeated_texts_are_told_every_10_s() -> None:
    bench = flying()

    def said() -> int:
        return bench.names().count(BOARD_SAYS)

    for _ in range(25):
        bench.say(common.MAVLink_statustext_message(2, b"Preflight Fail: GPS fix too low"))
        bench.run(bench.now + 1_000_000)
    assert said() == 3
    bench.say(common.MAVLink_statustext_message(6, b"Takeoff detected"))
    assert said() == 3, "no warning"


def test_report_25_a_board_that_talks_without_end_costs_no_memory() -> None:
    texts, encoder, decoder = BoardTexts(), Encoder(1, 1), Decoder()

    def told(text: bytes) -> int:
        (message,) = decoder.feed(encoder.encode(common.MAVLink_statustext_message(3, text)))
        return len(texts.take(message, 1_000_000))

    assert [told(b"text %d" % number) for number in range(3 * MOST_TEXTS)] == [1] * 3 * MOST_TEXTS
    newest = b"text %d" % (3 * MOST_TEXTS - 1)
    assert (told(newest), told(b"text 0")) == (0, 1), "the newest are remembered, the oldest are not"


def test_report_25_other_notices_have_no_hint() -> None:
    assert with_hint(Notice(20, "disarmed", "no GPS")) == "no GPS"
    assert with_hint(Notice(30, BOARD_SAYS, "the board says: hello")) == "the board says: hello"
