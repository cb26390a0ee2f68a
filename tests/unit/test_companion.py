"""The companion computer: what it says on the link and when, where it sees the wall; what is judged of a contact."""

import math
from datetime import UTC, datetime
from itertools import pairwise

import msgspec
import numpy as np
import pytest
from pymavlink.dialects.v20 import common

from bridge.codec import Decoder, Message
from firmware_profiles.arm import WallParams
from firmware_profiles.errors import UsageError
from firmware_profiles.loader import load_profile
from firmware_profiles.signals import ActuatorCommand, MotionCapturePose, Quat, SensorSample, Vec3
from lav2_hil.companion.companion import Companion, check_task
from lav2_hil.companion.params import CompanionParams
from lav2_hil.companion.wall_face import WallFace
from lav2_hil.companion.wall_inspection import Phase, WallInspection
from lav2_hil.contact_log import figures_of
from twin.environment import Home
from twin.twin import Twin

VEHICLE = load_profile("lav2_arm").vehicle
INSPECT = CompanionParams(task="wall_inspection")
TICK_US = 4000
LEVEL: Quat = (1.0, 0.0, 0.0, 0.0)
OFFBOARD, HOLD = 6 << 16, 4 << 16 | 3 << 24


class Bench:
    """A companion with a twin that stands on the ground, and a motion capture that says what the test wants."""

    def __init__(self, params: CompanionParams = INSPECT) -> None:
        self.companion = Companion(params, VEHICLE, system=7)
        self.twin = Twin(VEHICLE, home=Home(47.4, 8.5, 488.0), date=datetime(2026, 6, 1, tzinfo=UTC))
        self.time_us = 1_000_000
        self.said: list[tuple[int, Message]] = []
        self._decoder = Decoder()

    def run(self, seconds: float, place: Vec3 | None = (0.0, 0.0, -1.5), q: Quat = LEVEL, quality: int = 100) -> None:
        for _ in range(round(seconds * 250)):
            self.twin.move(ActuatorCommand(np.zeros((1, 4)), arm_torque_nm=self.companion.torque_nm))
            self.time_us += TICK_US
            pose = None if place is None else MotionCapturePose(self.time_us, place, q, 1e-4, 1e-4, 0, quality)
            sample = SensorSample(self.time_us, None, None, None, None, None, motion_capture=pose)
            for frame in self.companion.tick(sample, self.twin.arm_state()):
                self.said += [(self.time_us, message) for message in self._decoder.feed(frame)]

    def follow(self, seconds: float) -> None:
        """The vehicle is where its set-points are, level, its nose to the north."""
        for _ in range(round(seconds * 20)):
            last = self.newest("SET_POSITION_TARGET_LOCAL_NED")
            self.run(0.05, (last.x, last.y, last.z))

    def hear(self, custom_mode: int, component: int = 1) -> None:
        message = common.MAVLink_heartbeat_message(2, 12, 129, custom_mode, 4, 3)
        message.pack(common.MAVLink(None, srcSystem=7, srcComponent=component))
        self.companion.heard([message])

    def acknowledge(self, result: int = 0, component: int = 191) -> None:
        message = common.MAVLink_command_ack_message(common.MAV_CMD_DO_SET_MODE, result, 0, 0, 7, component)
        message.pack(common.MAVLink(None, srcSystem=7, srcComponent=1))
        self.companion.heard([message])

    def of(self, kind: str) -> list[tuple[int, Message]]:
        return [(time_us, message) for time_us, message in self.said if message.get_type() == kind]

    def newest(self, kind: str) -> Message:
        return self.of(kind)[-1][1]

    @property
    def task(self) -> WallInspection:
        task = self.companion.task
        assert isinstance(task, WallInspection)
        return task


# On the link


def test_it_speaks_as_an_onboard_computer_of_the_vehicle_and_never_as_its_autopilot() -> None:
    bench = Bench()
    bench.run(2.5)
    assert {(message.get_srcSystem(), message.get_srcComponent()) for _, message in bench.said} == {(7, 191)}
    assert [message.get_seq() for _, message in bench.said] == list(range(len(bench.said)))
    beats = bench.of("HEARTBEAT")
    assert [b[0] - a[0] for a, b in pairwise(beats)] == [1_000_000] * 2
    assert beats[0][1].type == common.MAV_TYPE_ONBOARD_CONTROLLER
    assert beats[0][1].autopilot == common.MAV_AUTOPILOT_INVALID


def test_set_points_come_before_offboard_mode_and_say_stay() -> None:
    bench = Bench()
    yaw = math.radians(30.0)
    bench.run(1.0, (1.0, -2.0, -1.5), (math.cos(yaw / 2), 0.0, 0.0, math.sin(yaw / 2)))
    targets = bench.of("SET_POSITION_TARGET_LOCAL_NED")
    assert 10 <= len(targets) <= 25
    target = targets[-1][1]
    assert (target.target_system, target.target_component) == (7, 1)
    assert (target.x, target.y, target.z) == pytest.approx((1.0, -2.0, -1.5))
    assert target.yaw == pytest.approx(yaw)
    assert target.coordinate_frame == common.MAV_FRAME_LOCAL_NED
    assert target.type_mask & 0b111 == 0
    assert not target.type_mask & common.POSITION_TARGET_TYPEMASK_YAW_IGNORE
    assert bench.task.phase is Phase.WAIT


def test_only_the_autopilots_heartbeat_counts() -> None:
    bench = Bench()
    bench.hear(OFFBOARD, component=190)
    bench.run(0.1)
    assert bench.task.phase is Phase.WAIT
    bench.hear(OFFBOARD)
    bench.run(0.1)
    assert bench.task.phase is Phase.FLY


def test_without_motion_capture_it_keeps_the_arm_and_says_nowhere_to_go() -> None:
    bench = Bench()
    bench.hear(OFFBOARD)
    bench.run(1.0, place=None)
    bench.run(1.0, quality=-1)  # the system has lost the vehicle
    assert not bench.of("SET_POSITION_TARGET_LOCAL_NED")
    np.testing.assert_allclose(bench.twin.arm_state().joint_pos[0], VEHICLE.arm.stowed_rad, atol=0.02)


def test_without_a_task_the_arm_stays_put_away_and_the_vehicle_is_left_alone() -> None:
    bench = Bench(CompanionParams())
    bench.hear(OFFBOARD)
    bench.run(2.0)
    assert {message.get_type() for _, message in bench.said} == {"HEARTBEAT"}
    np.testing.assert_allclose(bench.twin.arm_state().joint_pos[0], VEHICLE.arm.stowed_rad, atol=0.02)


# The task


def test_it_flies_to_the_stand_off_unfolds_and_goes_on_until_there_should_have_been_a_wall() -> None:
    """Nothing is there: the vehicle is wherever it is told to be, and the arm touches nothing."""
    bench = Bench()
    bench.run(1.0)
    bench.hear(OFFBOARD)
    bench.run(0.1)
    bench.follow(8.0)
    assert bench.task.phase is Phase.UNFOLD
    reach = VEHICLE.arm.tip_flu_m(VEHICLE.arm.ready_rad)[0] + VEHICLE.arm.tip_radius_m
    stand_off = bench.newest("SET_POSITION_TARGET_LOCAL_NED")
    assert stand_off.x == pytest.approx(2.5 - reach - 0.25, abs=0.01)
    assert (stand_off.y, stand_off.z) == pytest.approx((0.0, -1.5), abs=0.01)
    bench.follow(3.5)
    assert bench.task.phase is Phase.APPROACH
    np.testing.assert_allclose(bench.twin.arm_state().joint_pos[0], VEHICLE.arm.ready_rad, atol=0.03)
    bench.follow(7.0)
    assert bench.task.phase is Phase.BACK_OFF
    furthest = max(message.x for _, message in bench.of("SET_POSITION_TARGET_LOCAL_NED"))
    assert furthest == pytest.approx(2.5 - reach + 0.3, abs=0.03)
    assert bench.newest("STATUSTEXT").text == "no wall within 0.3 m behind its place"
    assert bench.newest("STATUSTEXT").severity == common.MAV_SEVERITY_ERROR
    bench.follow(8.0)
    assert bench.task.phase is Phase.DONE
    back = bench.newest("SET_POSITION_TARGET_LOCAL_NED")
    assert back.x == pytest.approx(furthest - 1.0, abs=0.03)
    assert len(bench.of("STATUSTEXT")) == 1


def test_it_gives_the_vehicle_back_until_the_autopilot_has_taken_it() -> None:
    bench = Bench()
    bench.run(1.0)
    bench.hear(OFFBOARD)
    bench.follow(29.0)
    assert bench.task.phase is Phase.DONE
    before = len(bench.of("COMMAND_LONG"))
    bench.run(2.0)
    commands = bench.of("COMMAND_LONG")
    assert len(commands) - before == 4
    command = commands[-1][1]
    assert (command.target_system, command.target_component) == (7, 1)
    assert (command.command, command.param1, command.param2, command.param3) == (common.MAV_CMD_DO_SET_MODE, 1, 4, 3)
    bench.acknowledge(result=common.MAV_RESULT_TEMPORARILY_REJECTED)
    bench.acknowledge(component=190)
    bench.run(1.0)
    assert len(bench.of("COMMAND_LONG")) == len(commands) + 2
    bench.acknowledge()
    bench.run(2.0)
    assert len(bench.of("COMMAND_LONG")) == len(commands) + 2
    assert bench.companion.failure == "no wall within 0.3 m behind its place"


def test_taken_back_by_the_autopilot_it_stops_and_puts_the_arm_away() -> None:
    bench = Bench()
    bench.run(1.0)
    bench.hear(OFFBOARD)
    bench.follow(9.0)
    bench.hear(HOLD)
    bench.run(0.1)
    targets = len(bench.of("SET_POSITION_TARGET_LOCAL_NED"))
    bench.run(5.0)
    assert bench.companion.failure == "the autopilot took the vehicle back"
    assert len(bench.of("SET_POSITION_TARGET_LOCAL_NED")) == targets
    assert not bench.of("COMMAND_LONG")
    np.testing.assert_allclose(bench.twin.arm_state().joint_pos[0], VEHICLE.arm.stowed_rad, atol=0.03)


def test_a_reset_is_a_boot() -> None:
    bench, fresh = Bench(), Bench()
    bench.run(1.0)
    bench.hear(OFFBOARD)
    bench.follow(9.0)
    bench.companion.reset()
    bench.twin.reset()
    bench.time_us = fresh.time_us
    bench.said.clear()
    bench.run(0.5)
    fresh.run(0.5)
    assert [message.get_msgbuf() for _, message in bench.said] == [message.get_msgbuf() for _, message in fresh.said]


# What it needs


def test_a_task_needs_an_arm_a_wall_and_motion_capture() -> None:
    with pytest.raises(UsageError, match=r"no arm .*vehicle\.arm"):
        check_task(INSPECT, load_profile("lav2").vehicle)
    bare = msgspec.structs.replace(VEHICLE, environment=msgspec.structs.replace(VEHICLE.environment, walls=()))
    with pytest.raises(UsageError, match=r"no wall .*vehicle\.environment\.walls"):
        check_task(INSPECT, bare)
    unseen = msgspec.structs.replace(VEHICLE, sensors=msgspec.structs.replace(VEHICLE.sensors, motion_capture=None))
    with pytest.raises(UsageError, match=r"vehicle\.sensors\.motion_capture"):
        check_task(INSPECT, unseen)
    check_task(CompanionParams(), bare)
    check_task(INSPECT, VEHICLE)


# The wall


@pytest.mark.parametrize("yaw_deg", [0.0, 10.0, -10.0, 90.0, 180.0, 135.0])
def test_the_face_is_the_one_that_looks_home(yaw_deg: float) -> None:
    """Against the box itself: the face's middle is on its surface, and a step towards home leaves it."""
    wall = WallParams((1.0, 3.0, 1.5), (1.0, 0.1, 1.5), yaw_deg=yaw_deg)
    face = WallFace.of(wall)
    assert wall.distance_m(face.east_m, face.north_m) == pytest.approx(0.0, abs=1e-9)
    north, east = face.place(0.2)
    assert wall.distance_m(east, north) == pytest.approx(0.2)
    north, east = face.place(-0.05)
    assert wall.distance_m(east, north) == 0.0
    assert face.before(0.0, 0.0) > 0.0
    assert face.before(*face.place(0.7)) == pytest.approx(0.7)


def test_the_wall_of_the_profile_is_to_the_north() -> None:
    face = WallFace.of(VEHICLE.environment.walls[0])
    assert (face.north_m, face.east_m, face.heading) == pytest.approx((2.5, 0.0, 0.0))
    assert WallFace.of(WallParams((2.0, 0.0, 1.0), (0.1, 1.0, 1.0))).heading == pytest.approx(math.pi / 2)


# The verdict


def test_a_contact_in_figures() -> None:
    params = CompanionParams(task="wall_inspection", force_n=3.0, tolerance_n=1.0)
    forces = np.concatenate((np.zeros(100), np.full(250, 3.5), [4.1], np.full(500, 2.5), [1.9], np.zeros(50)))
    figures = figures_of(forces, params, 0.004)
    assert figures == {
        "touching_s": 3.008,
        "within_s": 3.0,
        "held_s": 2.0,
        "mean_n": 2.5,
        "deviation_n": 0.0,
        "max_n": 4.1,
    }
    assert figures_of(np.zeros(0), params, 0.004)["held_s"] == 0.0
    assert figures_of(-forces, params, 0.004)["within_s"] == 0.0
