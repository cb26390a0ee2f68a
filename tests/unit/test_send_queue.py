"""What waits on a slow line: bounded, of sensors the newest, and never a frame cut in two."""

from __future__ import annotations

from pymavlink.dialects.v20 import common

from bridge.codec import Decoder, Encoder
from bridge.hil_messages import heartbeat
from bridge.transport.send_queue import SendQueue

ENCODER = Encoder(1, 200)


def sensor(time_us: int) -> bytes:
    return ENCODER.encode(common.MAVLink_hil_sensor_message(time_us, *[1.0] * 13, 0x1FFF))


def gps(time_us: int) -> bytes:
    return ENCODER.encode(common.MAVLink_hil_gps_message(time_us, 3, *[1] * 11))


def drained(queue: SendQueue) -> bytes:
    out = b""
    while queue:
        piece = queue.head()[:7]
        queue.sent(len(piece))
        out += piece
    return out


def test_report_15_the_newest_sensor_and_fix_wait_and_all_else() -> None:
    queue = SendQueue(65536)
    for time_us in range(4000, 4_000_000, 4000):
        assert queue.add(sensor(time_us))
        if time_us % 200_000 == 0:
            assert queue.add(gps(time_us))
        if time_us % 1_000_000 == 0:
            assert queue.add(ENCODER.encode(heartbeat()))
    assert queue.size < 300
    messages = Decoder().feed(drained(queue))
    assert sorted(message.get_type() for message in messages) == ["HEARTBEAT"] * 3 + ["HIL_GPS", "HIL_SENSOR"]
    assert [m.time_usec for m in messages if m.get_type() == "HIL_SENSOR"] == [3_996_000]
    assert queue.superseded == 998 + 18


def test_a_frame_that_has_begun_is_ended() -> None:
    queue = SendQueue(65536)
    first = sensor(4000)
    assert queue.add(first, 30)
    for time_us in (8000, 12000):
        assert queue.add(sensor(time_us))
    rest = drained(queue)
    messages = Decoder().feed(first[:30] + rest)
    assert [message.time_usec for message in messages] == [4000, 12000]


def test_part_of_the_head_may_leave_later() -> None:
    queue = SendQueue(65536)
    first = sensor(4000)
    assert queue.add(first)
    queue.sent(10)
    assert queue.add(sensor(8000))
    assert [m.time_usec for m in Decoder().feed(first[:10] + drained(queue))] == [4000, 8000]


def test_it_is_bounded() -> None:
    queue = SendQueue(1000)
    beat = ENCODER.encode(heartbeat())
    taken = sum(queue.add(beat) for _ in range(1000))
    assert 1000 // len(beat) <= taken <= 1000 // len(beat) + 1
    assert len(drained(queue)) == taken * len(beat)
    assert queue.add(beat)


def test_clear_forgets_all() -> None:
    queue = SendQueue(1000)
    queue.add(sensor(4000), 5)
    queue.clear()
    assert not queue
    assert queue.add(sensor(8000))
    assert len(Decoder().feed(drained(queue))) == 1
