"""What ground stations ask of the autopilot, over the wire; and that nothing they send can bring it down."""

from __future__ import annotations

import math
import struct

import pytest
from autopilot_rig import GROUND_STATION, HOME, SYSTEM, Bench, over_the_wire, state_of
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pymavlink.dialects.v20 import common

from bridge.codec import Decoder, Message
from lav2_hil.autopilot.modes import Landed, Mode, Result

ARM, TAKE_OFF, LAND = common.MAV_CMD_COMPONENT_ARM_DISARM, common.MAV_CMD_NAV_TAKEOFF, common.MAV_CMD_NAV_LAND
NAN = math.nan


def command(number: int, *params: float, system: int = SYSTEM, component: int = 1) -> Message:
    values = [*params, *[0.0] * (7 - len(params))]
    return common.MAVLink_command_long_message(system, component, number, 0, *values)


def place_command(number: int, x: int, y: int, z: float, frame: int = 0, *params: float) -> Message:
    values = [*params, *[NAN] * (4 - len(params))]
    return common.MAVLink_command_int_message(SYSTEM, 1, frame, number, 0, 0, *values, x, y, z)


def result(answers: list[Message]) -> int:
    assert answers[0].get_type() == "COMMAND_ACK"
    return answers[0].result


def flying() -> Bench:
    bench = Bench()
    bench.fly()
    bench.told()
    return bench


# Commands


def test_the_acknowledgement_goes_to_who_asked() -> None:
    (ack,) = Bench().ask(command(ARM, 1.0), sender=(42, 191))
    assert (ack.command, ack.result, ack.target_system, ack.target_component) == (ARM, 0, 42, 191)
    assert (ack.get_srcSystem(), ack.get_srcComponent()) == (SYSTEM, 1)


@pytest.mark.parametrize(("system", "component"), [(SYSTEM + 1, 1), (SYSTEM, 154), (255, 0)])
def test_what_is_addressed_to_others_is_ignored(system: int, component: int) -> None:
    bench = Bench()
    assert bench.ask(command(ARM, 1.0, system=system, component=component)) == []
    assert bench.ask(common.MAVLink_param_request_list_message(system, component)) == []
    assert not bench.commander.armed


@pytest.mark.parametrize(("system", "component"), [(SYSTEM, 1), (SYSTEM, 0), (0, 0), (0, 1)])
def test_what_is_addressed_to_all_is_not(system: int, component: int) -> None:
    assert result(Bench().ask(command(ARM, 1.0, system=system, component=component))) == Result.ACCEPTED


@pytest.mark.parametrize(
    "number", [common.MAV_CMD_DO_SET_SERVO, common.MAV_CMD_NAV_RETURN_TO_LAUNCH, common.MAV_CMD_MISSION_START, 65000]
)
def test_what_it_cannot_do_is_unsupported(number: int) -> None:
    assert result(Bench().ask(command(number))) == Result.UNSUPPORTED
    assert result(Bench().ask(place_command(number, 0, 0, 0.0))) == Result.UNSUPPORTED


def test_arming_is_refused_with_the_reason() -> None:
    bench = Bench()
    bench.estimator.refusals = ["no GPS", "magnetic strength disagrees with the world model"]
    assert result(bench.ask(command(ARM, 1.0))) == Result.TEMPORARILY_REJECTED
    assert bench.told() == ["Arming denied: no GPS", f"Arming denied: {bench.estimator.refusals[1]}"]
    assert not bench.commander.armed
    assert result(bench.ask(command(ARM, 1.0, 21196.0))) == Result.ACCEPTED
    assert bench.commander.armed


def test_prearm_checks_tell_the_reasons_and_arm_nothing() -> None:
    bench = Bench()
    check = command(common.MAV_CMD_RUN_PREARM_CHECKS)
    assert (result(bench.ask(check)), bench.told()) == (Result.ACCEPTED, [])
    bench.estimator.refusals = ["no GPS", "magnetometer is stuck"]
    assert result(bench.ask(check)) == Result.ACCEPTED
    assert bench.told() == ["Preflight Fail: no GPS", "Preflight Fail: magnetometer is stuck"]
    assert not bench.commander.armed
    bench = flying()
    assert (result(bench.ask(check)), bench.told()) == (Result.TEMPORARILY_REJECTED, [])
    assert bench.commander.armed


@pytest.mark.parametrize("param", [NAN, math.inf, 2.0, -1.0, 0.6])
def test_arming_takes_only_one_and_zero(param: float) -> None:
    bench = Bench()
    assert result(bench.ask(command(ARM, param))) == Result.DENIED
    bench.ask(command(ARM, 1.0))
    assert result(bench.ask(command(ARM, param))) == Result.DENIED
    assert bench.commander.armed


def test_disarming_in_the_air_needs_force() -> None:
    bench = flying()
    assert result(bench.ask(command(ARM, 0.0))) == Result.DENIED
    assert bench.told() == ["Disarming denied: not landed"]
    assert bench.commander.armed
    assert result(bench.ask(command(ARM, 0.0, 21196.0))) == Result.ACCEPTED
    assert not bench.commander.armed


@pytest.mark.parametrize(("asked", "height"), [(HOME[2] + 7.0, 7.0), (NAN, 2.5), (0.0, 2.5), (HOME[2] + 1.0, 2.5)])
def test_take_off_to_a_height_above_sea_level(asked: float, height: float) -> None:
    """NaN takes MIS_TAKEOFF_ALT, which is the least too, as with PX4."""
    bench = Bench()
    bench.ask(command(ARM, 1.0))
    assert result(bench.ask(command(TAKE_OFF, 0, 0, 0, 0, 0, 0, asked))) == Result.ACCEPTED
    assert bench.commander.mode is Mode.TAKEOFF
    bench.run(10.0)
    assert bench.estimator.state.height_m == pytest.approx(height, abs=1e-3)
    assert any("minimum takeoff altitude" in text for text in bench.told()) == (asked < HOME[2] + 2.4)


def test_take_off_never_goes_down() -> None:
    bench = flying()
    bench.ask(command(TAKE_OFF, 0, 0, 0, 0, 0, 0, HOME[2] + 3.0))
    bench.run(5.0)
    assert bench.estimator.state.height_m == pytest.approx(5.0)
    assert bench.commander.landed is Landed.IN_AIR


def test_land() -> None:
    bench = flying()
    assert result(bench.ask(command(LAND))) == Result.ACCEPTED
    bench.run(20.0)
    assert bench.commander.landed is Landed.ON_GROUND
    assert not bench.commander.armed


@pytest.mark.parametrize("as_int", [True, False])
def test_reposition(as_int: bool) -> None:
    bench = flying()
    lat, lon = HOME[0] + 1e-4, HOME[1] - 1e-4
    if as_int:
        asked = place_command(192, round(lat * 1e7), round(lon * 1e7), HOME[2] + 8.0, 0, -1.0, 1.0, 0.0, 1.5)
    else:
        asked = command(192, -1.0, 1.0, 0.0, 1.5, lat, lon, HOME[2] + 8.0)
    assert result(bench.ask(asked)) == Result.ACCEPTED
    bench.run(15.0)
    north, east, down = bench.estimator.state.pos_ned
    assert north == pytest.approx(11.12, abs=0.5 if not as_int else 0.02)
    assert east == pytest.approx(-7.54, abs=0.5 if not as_int else 0.02)
    assert down == pytest.approx(-8.0, abs=1e-3)
    assert bench.control.yaw_ned == pytest.approx(1.5)


def test_reposition_with_a_height_above_home() -> None:
    bench = flying()
    asked = place_command(192, *(round(v * 1e7) for v in HOME[:2]), 9.0, common.MAV_FRAME_GLOBAL_RELATIVE_ALT)
    assert result(bench.ask(asked)) == Result.ACCEPTED
    bench.run(10.0)
    assert bench.estimator.state.height_m == pytest.approx(9.0, abs=0.01)


def test_reposition_keeps_what_is_not_a_number() -> None:
    bench = flying()
    assert result(bench.ask(place_command(192, 2**31 - 1, 2**31 - 1, HOME[2] + 6.0))) == Result.ACCEPTED
    bench.run(5.0)
    assert bench.estimator.state.pos_ned == pytest.approx((0.0, 0.0, -6.0), abs=1e-3)
    assert result(bench.ask(place_command(192, round((HOME[0] + 1e-4) * 1e7), round(HOME[1] * 1e7), NAN))) == 0
    bench.run(15.0)
    assert bench.estimator.state.pos_ned == pytest.approx((11.12, 0.0, -6.0), abs=0.05)


def test_reposition_is_refused_on_the_ground_and_off_the_globe() -> None:
    asked = place_command(192, round(HOME[0] * 1e7), round(HOME[1] * 1e7), HOME[2] + 6.0)
    assert result(Bench().ask(asked)) == Result.TEMPORARILY_REJECTED
    bench = flying()
    assert result(bench.ask(command(192, 0, 0, 0, 0, 91.0, 8.0, 500.0))) == Result.DENIED
    assert result(bench.ask(command(192, 0, 0, 0, 0, 47.0, 8.0, math.inf))) == Result.DENIED
    assert not bench.commander.reference.moving


@pytest.mark.parametrize(
    ("main", "sub", "mode"), [(4, 3, Mode.HOLD), (4, 6, Mode.LAND), (4, 2, Mode.TAKEOFF), (3, 0, Mode.HOLD)]
)
def test_modes(main: int, sub: int, mode: Mode) -> None:
    bench = flying()
    assert result(bench.ask(command(common.MAV_CMD_DO_SET_MODE, 1, main, sub))) == Result.ACCEPTED
    assert bench.commander.mode is mode
    bench = flying()
    assert bench.ask(common.MAVLink_set_mode_message(SYSTEM, 1, sub << 24 | main << 16)) == []
    assert bench.commander.mode is mode


@pytest.mark.parametrize(("main", "sub"), [(4, 5), (4, 4), (9, 0), (NAN, NAN), (math.inf, 0.0), (4.5, 3.0)])
def test_modes_that_it_has_not(main: float, sub: float) -> None:
    bench = flying()
    assert result(bench.ask(command(common.MAV_CMD_DO_SET_MODE, 1, main, sub))) == Result.DENIED
    assert bench.commander.mode is Mode.HOLD


def test_wheels_by_command() -> None:
    """As PX4: remembered while disarmed, there with the first armed control, and in the air too."""
    bench = Bench("lav2")
    assert result(bench.ask(command(187, 0.5, -0.25, NAN, NAN, NAN, NAN, 0.0))) == Result.ACCEPTED
    bench.run(0.1)
    assert bench.controls == [0.0] * 16
    bench.ask(command(ARM, 1.0))
    bench.run(0.004)
    assert bench.controls[4:6] == [0.5, -0.25]
    bench.ask(command(187, NAN, 3.0, NAN, NAN, NAN, NAN, 0.0))
    bench.run(0.004)
    assert bench.controls[4:6] == [0.5, 1.0]
    bench.commander.take_off(3.0)
    bench.run(2.0)
    assert bench.controls[4:6] == [0.5, 1.0]
    assert result(Bench("px4_iris").ask(command(187, 0.5, 0.5))) == Result.DENIED


def test_messages_on_request() -> None:
    bench = Bench()
    for kind in ("HEARTBEAT", "ATTITUDE", "LOCAL_POSITION_NED", "GLOBAL_POSITION_INT", "HOME_POSITION", "SYS_STATUS"):
        number = getattr(common, f"MAVLINK_MSG_ID_{kind}")
        ack, wanted = bench.ask(command(common.MAV_CMD_REQUEST_MESSAGE, number))
        assert (ack.result, wanted.get_type()) == (Result.ACCEPTED, kind)
    for unknown in (NAN, 1e30, -1.0, common.MAVLINK_MSG_ID_RAW_IMU):
        assert result(bench.ask(command(common.MAV_CMD_REQUEST_MESSAGE, unknown))) == Result.DENIED
    _, version = bench.ask(command(common.MAV_CMD_REQUEST_AUTOPILOT_CAPABILITIES, 1))
    assert version.capabilities & common.MAV_PROTOCOL_CAPABILITY_PARAM_ENCODE_BYTEWISE
    assert result(bench.ask(command(common.MAV_CMD_SET_MESSAGE_INTERVAL, 30, 1e4))) == Result.DENIED


# Parameters


def test_parameter_list_and_reading() -> None:
    bench = Bench()
    values = bench.ask(common.MAVLink_param_request_list_message(SYSTEM, 1))
    assert [value.param_index for value in values] == list(range(len(values)))
    assert {value.param_count for value in values} == {len(values)}
    by_name = {value.param_id: value for value in values}
    assert struct.pack("<f", by_name["MAV_SYS_ID"].param_value) == struct.pack("<i", SYSTEM)
    (one,) = bench.ask(common.MAVLink_param_request_read_message(SYSTEM, 1, b"MIS_TAKEOFF_ALT", -1))
    assert one.param_value == 2.5
    (same,) = bench.ask(common.MAVLink_param_request_read_message(SYSTEM, 1, b"", one.param_index))
    assert same.param_id == "MIS_TAKEOFF_ALT"
    for name, index in ((b"NO_SUCH", -1), (b"", 999), (b"\xff\xfe", -1)):
        assert bench.ask(common.MAVLink_param_request_read_message(SYSTEM, 1, name, index)) == []


def test_setting_a_parameter() -> None:
    bench = Bench()
    (value,) = bench.ask(common.MAVLink_param_set_message(SYSTEM, 1, b"MIS_TAKEOFF_ALT", 6.0, 9))
    assert value.param_value == 6.0
    assert bench.told() == []
    for bad in (NAN, -3.0):
        (value,) = bench.ask(common.MAVLink_param_set_message(SYSTEM, 1, b"MIS_TAKEOFF_ALT", bad, 9))
        assert value.param_value == 6.0
        assert bench.told() == ["parameter MIS_TAKEOFF_ALT refused"]
    assert bench.ask(common.MAVLink_param_set_message(SYSTEM, 1, b"NO_SUCH", 1.0, 9)) == []
    assert bench.told() == ["parameter NO_SUCH refused"]


# The rest


def test_missions_are_empty_and_clocks_are_told() -> None:
    bench = Bench()
    (count,) = bench.ask(common.MAVLink_mission_request_list_message(SYSTEM, 1, 0))
    assert (count.count, count.target_system, count.target_component) == (0, *GROUND_STATION)
    (sync,) = bench.ask(common.MAVLink_timesync_message(0, 77))
    assert (sync.tc1, sync.ts1) == (bench.commander.time_us * 1000, 77)
    assert bench.ask(common.MAVLink_timesync_message(5, 77)) == []
    (pong,) = bench.ask(common.MAVLink_ping_message(5, 9, 0, 0))
    assert (pong.seq, pong.target_system) == (9, 255)
    assert bench.ask(common.MAVLink_ping_message(5, 9, SYSTEM, 1)) == []


SUPPORTED = [ARM, TAKE_OFF, LAND, 192, 176, 187, 512, 511, 520, 179]
WILD = st.sampled_from([NAN, math.inf, -math.inf, 3e38, -3e38, 1e-40, 0.0, 1.0, 2.0, 4.0, 6.0, 21196.0, 47.0, 500.0])
STATES = ["not ready", "disarmed", "armed", "take-off", "flying", "landing", "offboard", "failsafe"]


def bench_in(state: str) -> Bench:
    bench = Bench("lav2")
    commander = bench.commander
    if state == "not ready":
        bench.estimator.ready, bench.estimator.home = False, None
    elif state != "disarmed":
        commander.arm()
        if state != "armed":
            commander.take_off(0.3)
            bench.run(0.02 if state == "take-off" else 1.5)
        if state == "landing":
            commander.land()
        elif state == "offboard":
            commander.offboard_position((0.0, 0.0, -3.0), None)
            assert commander.set_mode(Mode.OFFBOARD) is Result.ACCEPTED
        elif state == "failsafe":
            bench.estimator.faults = ["GPS silent"]
    return bench


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_nothing_that_arrives_can_bring_it_down(data: st.DataObject) -> None:
    """Any message of the dialect with any content in any state: answers can be sent, controls stay in range."""
    bench = bench_in(data.draw(st.sampled_from(STATES)))
    handled = sorted(bench.service._handlers)
    for _ in range(data.draw(st.integers(1, 4))):
        kinds = st.sampled_from(sorted(common.mavlink_map))
        if data.draw(st.booleans()):
            kinds = st.sampled_from([k for k in sorted(common.mavlink_map) if common.mavlink_map[k].msgname in handled])
        message = arbitrary(data, common.mavlink_map[data.draw(kinds)])
        over_the_wire(bench.service.handle(message))
        bench.run(0.02)
        assert all(-1.0 <= control <= 1.0 for control in bench.controls)
        over_the_wire(bench.telemetry.due(bench.commander.time_us + 2_000_000))


def arbitrary(data: st.DataObject, kind: type) -> Message:
    size = kind.unpacker.size
    payload = data.draw(st.binary(min_size=size, max_size=size))
    header = struct.pack("<BBBBBBBHB", 0xFD, size, 0, 0, 0, 255, 190, kind.id & 0xFFFF, kind.id >> 16)
    crc = common.x25crc(header[1:] + payload)
    crc.accumulate(bytes([kind.crc_extra]))
    (message,) = Decoder().feed(header + payload + struct.pack("<H", crc.crc))
    message.target_system = data.draw(st.sampled_from([SYSTEM, 0]))
    message.target_component = data.draw(st.sampled_from([1, 0]))
    if hasattr(message, "command"):
        message.command = data.draw(st.sampled_from(SUPPORTED))
    for name in kind.fieldnames:
        if isinstance(getattr(message, name), float):
            setattr(message, name, data.draw(WILD))
    if hasattr(message, "param_id"):
        message.param_id = data.draw(
            st.sampled_from([message.param_id, "MAV_TYPE", "COM_DISARM_LAND", "MPC_XY_CRUISE"])
        )
    return message


def test_a_wild_estimate_can_still_be_told() -> None:
    bench = flying()
    bench.estimator.state = state_of((3e6, -1e7, -4e6), (500.0, -500.0, 9e3))
    sent = [bench.telemetry.message(kind) for kind in (common.MAVLINK_MSG_ID_GLOBAL_POSITION_INT, 30, 32, 74)]
    assert len(over_the_wire(sent)) == 4
