"""What a comparison finds, and what it lets pass: outcomes that were changed on purpose."""

from __future__ import annotations

import dataclasses
import struct

import pytest
from replay_rig import beginning

from bridge.codec import Encoder
from bridge.session_io import Notice
from firmware_profiles.errors import UsageError
from lav2_hil.session.compare import Comparison, compare
from lav2_hil.session.fields import check_name, covers, fields_of_frame, known_fields, message_name
from lav2_hil.session.reader import Session
from lav2_hil.session.records import Kind, Record, notice_data
from lav2_hil.session.replay import Outcome, replay
from lav2_hil.session.tolerances import _TABLE, Tolerance
from lav2_hil.session.truth import decode_truth, encode_truth


@pytest.fixture(scope="module")
def session() -> Session:
    return beginning(1.0)


@pytest.fixture(scope="module")
def outcome(session: Session) -> Outcome:
    made = replay(session)
    assert compare(made, exact=False).equal
    return made


def places(outcome: Outcome, name: str) -> list[int]:
    return [
        place
        for place, record in enumerate(outcome.records)
        if record.kind is Kind.SENT and message_name(record.data) == name
    ]


def changed(outcome: Outcome, place: int, *records: Record) -> Outcome:
    """With other records, or none, in the place of one."""
    made, times = list(outcome.records), list(outcome.sim_us)
    made[place : place + 1] = records
    times[place : place + 1] = [times[place]] * len(records)
    return dataclasses.replace(outcome, records=made, sim_us=times)


def with_field(outcome: Outcome, place: int, **fields: object) -> Outcome:
    """With other fields in the frame at a place."""
    from pymavlink.dialects.v20 import common

    record = outcome.records[place]
    message = common.MAVLink(None).decode(bytearray(record.data))
    for name, value in fields.items():
        setattr(message, name, value)
    frame = Encoder(message.get_srcSystem(), message.get_srcComponent(), message.get_seq()).encode(message)
    return changed(outcome, place, record._replace(data=frame))


def with_state(outcome: Outcome, place: int, index: int, error: float, digest: str | None = None) -> Outcome:
    """With an error in one number of the truth sample at a place."""
    record = outcome.records[place]
    sample = decode_truth(record.data)
    state = list(sample.state)
    state[index] += error
    sample = sample._replace(state=tuple(state), digest=digest or sample.digest)
    return changed(outcome, place, record._replace(data=encode_truth(sample)))


def only(comparison: Comparison) -> str:
    """The one field that differs."""
    assert not comparison.equal
    assert comparison.course is None
    (name,) = comparison.differences
    return name


def f32(value: float) -> float:
    return struct.unpack("<f", struct.pack("<f", value))[0]


def test_a_field_of_a_frame_is_named_with_its_time_its_values_and_its_largest_error(outcome: Outcome) -> None:
    first, second = places(outcome, "HIL_SENSOR")[10:12]
    was = fields_of_frame(outcome.records[first].data)["HIL_SENSOR.xacc"]
    assert isinstance(was, float)
    now = f32(was + 0.01)
    made = with_field(outcome, first, xacc=now)
    worse = fields_of_frame(outcome.records[second].data)["HIL_SENSOR.xacc"]
    assert isinstance(worse, float)
    made = with_field(made, second, xacc=worse + 0.25)
    comparison = compare(made, exact=True)
    assert only(comparison) == "HIL_SENSOR.xacc"
    difference = comparison.differences["HIL_SENSOR.xacc"]
    assert (difference.recorded, difference.now, difference.times) == (was, now, 2)
    assert difference.first_us == fields_of_frame(outcome.records[first].data)["HIL_SENSOR.time_usec"]
    assert difference.largest_us == difference.first_us + 4000
    assert difference.largest_error == pytest.approx(0.25, abs=1e-6)
    assert not comparison.identical


def test_one_bit_of_a_frame_is_a_difference_where_all_bits_count_and_none_within_tolerances(outcome: Outcome) -> None:
    place = places(outcome, "HIL_SENSOR")[7]
    was = fields_of_frame(outcome.records[place].data)["HIL_SENSOR.zacc"]
    assert isinstance(was, float)
    made = with_field(outcome, place, zacc=f32(was * (1 + 2**-23)))
    assert only(compare(made, exact=True)) == "HIL_SENSOR.zacc"
    comparison = compare(made, exact=False)
    assert comparison.equal
    assert not comparison.identical


def test_the_sign_of_zero_counts_where_all_bits_do(outcome: Outcome) -> None:
    place = places(outcome, "HIL_SENSOR")[7]
    assert only(compare(with_field(outcome, place, diff_pressure=-0.0), exact=True)) == "HIL_SENSOR.diff_pressure"


def test_integers_must_be_equal_and_gps_may_be_off_by_one_unit(outcome: Outcome) -> None:
    sensor, gps = places(outcome, "HIL_SENSOR")[5], places(outcome, "HIL_GPS")[1]
    fields = fields_of_frame(outcome.records[gps].data)
    lat, stamp = fields["HIL_GPS.lat"], fields["HIL_GPS.time_usec"]
    assert isinstance(lat, int)
    assert isinstance(stamp, int)
    assert compare(with_field(outcome, gps, lat=lat + 1), exact=False).equal
    assert only(compare(with_field(outcome, gps, lat=lat + 2), exact=False)) == "HIL_GPS.lat"
    assert only(compare(with_field(outcome, gps, lat=lat + 1), exact=True)) == "HIL_GPS.lat"
    assert only(compare(with_field(outcome, gps, time_usec=stamp + 1), exact=False)) == "HIL_GPS.time_usec"
    assert only(compare(with_field(outcome, sensor, fields_updated=0x3E), exact=False)) == "HIL_SENSOR.fields_updated"


def test_a_frame_s_header_counts(outcome: Outcome) -> None:
    place = places(outcome, "HIL_SENSOR")[5]
    from pymavlink.dialects.v20 import common

    record = outcome.records[place]
    message = common.MAVLink(None).decode(bytearray(record.data))
    frame = Encoder(message.get_srcSystem(), message.get_srcComponent(), message.get_seq() ^ 1).encode(message)
    made = changed(outcome, place, record._replace(data=frame))
    assert only(compare(made, exact=False)) == "HIL_SENSOR.sequence"


def test_the_same_values_in_other_bytes_are_a_difference_where_all_bits_count(outcome: Outcome) -> None:
    from pymavlink.dialects.v20 import common

    place = places(outcome, "HEARTBEAT")[0]
    record = outcome.records[place]
    message = common.MAVLink(None).decode(bytearray(record.data))
    made = common.MAVLink(None, message.get_srcSystem(), message.get_srcComponent())
    made.seq = message.get_seq()
    frame = message.pack(made, force_mavlink1=True)
    other = changed(outcome, place, record._replace(data=bytes(frame)))
    assert only(compare(other, exact=True)) == "HEARTBEAT.bytes"
    assert compare(other, exact=False).equal


def test_truth_is_compared_in_full_and_by_its_digest(outcome: Outcome) -> None:
    place = [i for i, record in enumerate(outcome.records) if record.kind is Kind.TRUTH][3]
    assert only(compare(with_state(outcome, place, 2, 1e-12), exact=True)) == "truth.pos_enu_m[2]"
    assert compare(with_state(outcome, place, 2, 1e-12), exact=False).equal
    assert only(compare(with_state(outcome, place, 2, 0.01), exact=False)) == "truth.pos_enu_m[2]"
    assert only(compare(with_state(outcome, place, 9, 0.01), exact=False)) == "truth.vel_enu_m_s[2]"
    between = with_state(outcome, place, 0, 0.0, digest="0123456789abcdef")  # a tick between two samples
    assert only(compare(between, exact=True)) == "truth.digest"
    assert compare(between, exact=False).equal


def test_nan_is_never_within_a_tolerance(outcome: Outcome) -> None:
    place = [i for i, record in enumerate(outcome.records) if record.kind is Kind.SENT][20]
    place = places(outcome, "HIL_SENSOR")[5]
    made = with_field(outcome, place, xgyro=float("nan"))
    assert only(compare(made, exact=False, tolerances={"HIL_SENSOR": 1e9})) == "HIL_SENSOR.xgyro"


def test_what_is_ignored_does_not_count_and_the_rest_does(outcome: Outcome) -> None:
    gps = places(outcome, "HIL_GPS")[1]
    truth = [i for i, record in enumerate(outcome.records) if record.kind is Kind.TRUTH][3]
    made = with_state(with_field(outcome, gps, lat=5), truth, 2, 1.0)
    assert compare(made, exact=True, ignore=("HIL_GPS.lat", "truth.pos_enu_m")).equal
    assert compare(made, exact=True, ignore=("HIL_GPS", "truth")).equal
    assert only(compare(made, exact=True, ignore=("HIL_GPS",))) == "truth.pos_enu_m[2]"
    assert only(compare(made, exact=True, ignore=("HIL_GPS.lon", "truth.pos_enu_m[2]"))) == "HIL_GPS.lat"


def test_a_tolerance_of_one_s_own_goes_before_the_rest_and_leaves_other_fields_exact(outcome: Outcome) -> None:
    gps, truth = places(outcome, "HIL_GPS")[1], next(i for i, r in enumerate(outcome.records) if r.kind is Kind.TRUTH)
    made = with_field(outcome, gps, eph=95)
    was = fields_of_frame(outcome.records[gps].data)["HIL_GPS.eph"]
    assert isinstance(was, int)
    assert compare(made, exact=True, tolerances={"HIL_GPS.eph": abs(95 - was)}).equal
    assert only(compare(made, exact=True, tolerances={"HIL_GPS.eph": abs(95 - was) - 0.5})) == "HIL_GPS.eph"
    off = with_state(outcome, truth, 0, 0.5, digest="0123456789abcdef")
    assert compare(off, exact=True, tolerances={"truth.pos_enu_m": 0.6}).equal
    tighter = with_state(outcome, truth, 0, 1e-4)
    assert compare(tighter, exact=False).equal
    assert only(compare(tighter, exact=False, tolerances={"truth.pos_enu_m": 1e-5})) == "truth.pos_enu_m[0]"


def test_a_frame_too_few_too_many_or_in_another_order_is_another_course(outcome: Outcome) -> None:
    gps = places(outcome, "HIL_GPS")[0]
    missing = compare(changed(outcome, gps), exact=False)
    assert missing.course is not None
    assert (missing.course.recorded, missing.course.now) == ("a frame HIL_GPS", "a frame HIL_SENSOR")
    assert missing.course.sim_us == outcome.sim_us[gps]
    twice = compare(changed(outcome, gps, outcome.records[gps], outcome.records[gps]), exact=False)
    assert twice.course is not None
    assert twice.course.now == "a frame HIL_GPS"
    made = changed(outcome, gps, outcome.records[gps + 1])
    swapped = changed(made, gps + 1, outcome.records[gps])
    assert compare(swapped, exact=False).course is not None


def test_another_time_is_another_course(outcome: Outcome) -> None:
    place = places(outcome, "HIL_SENSOR")[5]
    record = outcome.records[place]
    assert compare(changed(outcome, place, record._replace(time_us=record.time_us + 1)), exact=False).course is not None


def test_notices_count_by_name_and_not_by_their_words(outcome: Outcome) -> None:
    place = next(i for i, record in enumerate(outcome.records) if record.kind is Kind.NOTICE)
    record = outcome.records[place]
    words = notice_data(Notice(20, "peer_connected", "in other words"))
    assert compare(changed(outcome, place, record._replace(data=words)), exact=True).equal
    name = notice_data(Notice(20, "peer_lost", "in other words"))
    comparison = compare(changed(outcome, place, record._replace(data=name)), exact=True)
    assert comparison.course is not None
    assert comparison.course.now == "the notice peer_lost"


def test_an_end_too_early_or_too_late_is_another_course(outcome: Outcome) -> None:
    short = dataclasses.replace(outcome, records=outcome.records[:-3])
    comparison = compare(short, exact=True)
    assert comparison.course is not None
    assert comparison.course.now == "the end"
    long = dataclasses.replace(outcome, recorded=outcome.recorded[:-3])
    comparison = compare(long, exact=True)
    assert comparison.course is not None
    assert comparison.course.recorded == "the end"


def test_directions_meet_at_the_end_of_the_circle() -> None:
    course = Tolerance(20, circle=36000)
    assert course.allows(35995, 5)
    assert course.allows(5, 35995)
    assert not course.allows(35000, 5)
    assert not course.allows(65535, 0)  # unknown, and north


def test_names_mean_a_field_or_a_group_of_them() -> None:
    assert covers("truth", "truth.pos_enu_m[2]")
    assert covers("truth.pos_enu_m", "truth.pos_enu_m[2]")
    assert not covers("truth.pos", "truth.pos_enu_m[2]")
    assert not covers("HIL_GPS.v", "HIL_GPS.vn")
    for name in ("truth", "truth.pos_enu_m[1]", "HIL_SENSOR.xacc", "HIL_GPS", "HEARTBEAT.sequence"):
        check_name(name, "--ignore")
    with pytest.raises(UsageError, match=r"--ignore HIL_GPS.course: no such field; .*HIL_GPS.cog"):
        check_name("HIL_GPS.course", "--ignore")
    with pytest.raises(UsageError, match="HIL_SENSOR, HIL_STATE_QUATERNION, ODOMETRY, truth"):
        check_name("sensor", "--ignore")


def test_every_tolerance_is_of_a_field_that_there_is() -> None:
    assert set(_TABLE) <= set(known_fields())


def test_a_frame_that_cannot_be_decoded_is_one_field() -> None:
    assert fields_of_frame(b"\xfd\x00\x01") == {"frame.bytes": "fd0001"}
