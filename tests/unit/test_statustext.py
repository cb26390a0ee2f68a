"""STATUSTEXT: chunks by id, PX4's marks, and what a lossy link makes of them."""

from __future__ import annotations

from captures import capture
from pymavlink.dialects.v20 import common

from bridge.codec import Decoder, Encoder, Message
from bridge.statustext import Text, TextReader
from bridge.tlog import read_tlog


def chunk(text: str | bytes, number: int = 0, index: int = 0, severity: int = 2) -> Message:
    raw = text.encode() if isinstance(text, str) else text
    (message,) = Decoder().feed(Encoder(1, 1).encode(common.MAVLink_statustext_message(severity, raw, number, index)))
    return message


def read(*messages: Message) -> list[Text]:
    reader = TextReader()
    return [text for message in messages for text in reader.take(message)] + reader.flush()


def test_a_short_text_is_there_at_once() -> None:
    assert TextReader().take(chunk("Takeoff detected")) == [Text(2, "Takeoff detected", False)]


def test_a_tab_says_that_an_event_says_the_same() -> None:
    assert read(chunk("Takeoff detected\t", severity=6)) == [Text(6, "Takeoff detected", True)]


def test_chunks_are_joined() -> None:
    assert read(chunk("a" * 50, 7, 0), chunk("b" * 50, 7, 1), chunk("c\t", 7, 2)) == [
        Text(2, "a" * 50 + "b" * 50 + "c", True)
    ]


def test_a_full_chunk_may_be_the_last() -> None:
    assert read(chunk("a" * 50, 7), chunk("b", 8)) == [Text(2, "a" * 50, False), Text(2, "b", False)]
    assert read(chunk("a" * 50)) == [Text(2, "a" * 50, False)]
    assert read(chunk("a" * 50), chunk("b" * 50)) == [Text(2, "a" * 50, False), Text(2, "b" * 50, False)]


def test_lost_chunks_are_marked() -> None:
    assert read(chunk("a" * 50, 7, 0), chunk("c", 7, 2)) == [Text(2, "a" * 50 + "...c", False)]
    assert read(chunk("c", 7, 1)) == [Text(2, "...c", False)]
    assert read(chunk("a" * 50, 7, 0), chunk("d", 8, 1)) == [Text(2, "a" * 50, False), Text(2, "...d", False)]


def test_bytes_that_are_no_text() -> None:
    (text,) = read(chunk(b"caf\xe9 \xff"))
    assert text.text.startswith("caf")


def test_px4_gives_a_long_text_id_0() -> None:
    reader, decoder, texts = TextReader(), Decoder(datagrams=True), []
    for record in read_tlog(capture("sitl_iris_gcs_udp")):
        for message in decoder.feed(record.frame):
            if message.get_type() == "STATUSTEXT":
                texts += reader.take(message)
    assert texts == [
        Text(2, "Arming denied: Resolve system health failures first", True),
        Text(6, "Armed by external command", True),
        Text(6, "Takeoff detected", True),
    ]
