"""The autopilot between the simulator's messages and its answers, without a process."""

from __future__ import annotations

from typing import Any

from autopilot_rig import HOME
from estimator_rig import readings, rest
from pymavlink.dialects.v20 import common

from bridge.codec import Decoder, Encoder, Message
from bridge.hil_messages import ACCEL, BARO, GYRO, MAG
from firmware_profiles.loader import load_profile
from lav2_hil.autopilot.autopilot import Autopilot
from lav2_hil.autopilot.modes import Result

PROFILE = load_profile("lav2")


def wire(*messages: Message) -> list[Message]:
    return Decoder().feed(b"".join(map(Encoder(1, 200).encode, messages)))


def at_rest(seconds: float) -> Any:
    """HIL_GPS and HIL_SENSOR messages of a vehicle that stands, tick by tick."""
    for reading in readings(rest(seconds)):
        mag, hpa = reading.mag, reading.pressure_hpa
        fields = ACCEL | GYRO | (MAG if mag else 0) | (BARO if hpa else 0)
        motion = (*reading.accel, *reading.gyro, *(mag or (0, 0, 0)))
        sensor = common.MAVLink_hil_sensor_message(reading.time_us, *motion, hpa or 0, 0, 0, 20, fields)
        fix = reading.fix
        if fix is None:
            yield wire(sensor)
            continue
        place = (round(fix.lat_deg * 1e7), round(fix.lon_deg * 1e7), round(fix.alt_amsl_m * 1e3))
        velocity = [round(100 * v) for v in fix.vel_ned]
        gps = common.MAVLink_hil_gps_message(fix.utc_us, 3, *place, 30, 40, 0, *velocity, 0, fix.satellites)
        yield wire(gps, sensor)


def stand(autopilot: Autopilot, seconds: float) -> list[Message]:
    """All its answers."""
    answers = []
    for messages in at_rest(seconds):
        for message in messages:
            answer = autopilot.simulator_message(message)
            assert (answer is not None) == (message.get_type() == "HIL_SENSOR")
            if answer is not None:
                (heard,) = Decoder().feed(answer)
                assert heard.time_usec == message.time_usec
                answers.append(heard)
    return answers


def test_it_greets_as_px4_does_and_asks_for_no_truth() -> None:
    wish, heartbeat = (Decoder().feed(frame)[0] for frame in Autopilot(PROFILE, 4).greeting())
    assert (wish.command, wish.param1, wish.param2) == (511, 115.0, -1.0)
    assert (heartbeat.autopilot, heartbeat.type, heartbeat.get_srcSystem()) == (12, 0, 4)


def test_every_sensor_is_answered_from_the_first() -> None:
    answers = stand(Autopilot(PROFILE, 4), 0.2)
    assert len(answers) == 49
    assert all(answer.mode == 1 and not any(answer.controls) and answer.flags == 1 for answer in answers)
    assert {(answer.get_srcSystem(), answer.get_srcComponent()) for answer in answers} == {(4, 1)}


def test_at_rest_it_aligns_and_arms() -> None:
    autopilot = Autopilot(PROFILE, 4)
    stand(autopilot, 0.5)
    assert autopilot.commander.arm() is Result.TEMPORARILY_REJECTED
    stand(autopilot, 6.0)
    assert autopilot.commander.arming_faults() == []
    assert autopilot.commander.arm() is Result.ACCEPTED
    assert autopilot.commander.tick() == [0.0] * 16
    assert autopilot.commander.armed
    lat, lon, alt = autopilot.commander.place()
    assert (round(lat, 4), round(lon, 4)) == (round(HOME[0], 4), round(HOME[1], 4))
    assert abs(alt - HOME[2]) < 3.0


def test_a_mission_ends_with_a_sensor_that_is_not_answered() -> None:
    async def mission(vehicle: Any) -> None:
        await vehicle.hold(0.05)

    reports: list[dict[str, Any]] = []
    autopilot = Autopilot(PROFILE, 4, mission, reports.append)
    ticks = iter(at_rest(0.5))
    while not autopilot.finished:
        answers = [autopilot.simulator_message(message) for message in next(ticks)]
    assert answers[-1] is None
    assert autopilot.failure is None
    autopilot.close()


def test_a_mission_sees_at_once_what_a_failsafe_has_done() -> None:
    """A gap in the sensors loses the estimate, and the same sensor resumes the mission."""

    async def mission(vehicle: Any) -> None:
        await vehicle.arm()
        await vehicle.drive(5.0)

    ticks = list(at_rest(9.0))
    for gap in range(5):  # whichever of five ticks the mission is resumed at
        autopilot = Autopilot(PROFILE, 4, mission)
        for messages in ticks[: 1500 + gap] + ticks[2000:]:
            for message in messages:
                autopilot.simulator_message(message)
            if autopilot.finished:
                break
        assert autopilot.failure == "the state estimate is lost"


def test_long_texts_come_in_chunks_of_one_id() -> None:
    autopilot = Autopilot(PROFILE, 4)
    stand(autopilot, 0.02)
    autopilot.broadcasts()
    long = "Arming denied: magnetic strength disagrees with the world model"
    for text in ("short", long, "x" * 100, long):
        autopilot.commander.say(2, text)
    sent = wire(*[message for message in autopilot.broadcasts() if message.get_type() == "STATUSTEXT"])
    texts: dict[int, str] = {}
    for message in sent:
        if message.id == 0:
            assert message.text == "short"
        else:
            assert message.chunk_seq == len(texts.get(message.id, "")) // 50
            texts[message.id] = texts.get(message.id, "") + message.text
    assert list(texts.values()) == [long, "x" * 100, long]
    assert len(sent[-1].text) < 50


def test_streams_keep_their_rates_by_the_sensors_clock() -> None:
    autopilot = Autopilot(PROFILE, 4)
    counts: dict[str, int] = {}
    for messages in at_rest(4.0):
        for message in messages:
            autopilot.simulator_message(message)
        for message in autopilot.broadcasts():
            counts[message.get_type()] = counts.get(message.get_type(), 0) + 1
    assert counts["HEARTBEAT"] in (4, 5)
    assert counts["SYS_STATUS"] in (4, 5)
    assert counts["GPS_RAW_INT"] in (7, 8, 9)
    assert counts["LOCAL_POSITION_NED"] > 5


def test_streams_go_on_when_the_clock_is_put_back() -> None:
    telemetry = Autopilot(PROFILE, 4).telemetry
    assert telemetry.due(100_000_000)
    assert not telemetry.due(100_010_000)
    assert telemetry.due(1_000_000)
