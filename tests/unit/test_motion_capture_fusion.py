"""What the estimator believes of a motion capture system's poses, and what it leaves."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from estimator_rig import DT, Reading, feed, quat_of_euler, readings, rest, square_flight

from firmware_profiles.signals import MotionCapturePose
from lav2_hil.autopilot.estimator import Estimator
from twin.frames import euler_zyx_of_quat, quat_multiply

NAN = math.nan


class Rig:
    """A vehicle at rest or on its way, whose poses come with every fifth sample, with a millimetre of noise."""

    def __init__(self, seconds: float = 60.0, heading_deg: float = 30.0, moving: bool = False) -> None:
        motion = square_flight(2.0, heading_deg, yaw_turns=True) if moving else rest(seconds, heading_deg)
        self.stream = readings(motion, seed=3)
        self.estimator = Estimator(DT, 0.0)
        self.turned_rad = 0.0
        self.moved = (0.0, 0.0, 0.0)
        self.tilted_rad = 0.0
        self.changes: dict[str, object] = {}
        self.silent = False
        self.noise = np.random.default_rng(0)

    def pose(self, reading: Reading) -> MotionCapturePose:
        turn = quat_of_euler(np.array(0.0), np.array(0.0), np.array(self.turned_rad))
        tilt = quat_of_euler(np.array(self.tilted_rad), np.array(0.0), np.array(0.0))
        w, x, y, z = quat_multiply(quat_multiply(turn, np.array(reading.q)), tilt).tolist()
        north, east, down = (np.add(reading.pos, self.moved) + self.noise.normal(0.0, 0.001, 3)).tolist()
        plain = MotionCapturePose(reading.time_us, (north, east, down), (w, x, y, z), 1e-4, 2.5e-5)
        return replace(plain, **self.changes)

    def run(self, seconds: float) -> None:
        for _, reading in zip(range(round(seconds / DT)), self.stream, strict=False):
            feed(self.estimator, reading)
            if reading.time_us % (5 * 4000) == 0 and not self.silent:
                self.estimator.pose(self.pose(reading))
            self.reading = reading

    @property
    def leads(self) -> bool:
        assert self.estimator.motion_capture is not None
        return self.estimator.motion_capture.leads

    @property
    def why(self) -> str:
        assert self.estimator.motion_capture is not None
        return self.estimator.motion_capture.why

    def off(self) -> np.ndarray:
        """The estimate's position against the poses' frame."""
        return np.subtract(self.estimator.state.pos_ned, np.add(self.reading.pos, self.moved))


def test_the_local_frame_becomes_that_of_the_poses() -> None:
    rig = Rig()
    rig.moved = (1.5, -0.7, 0.3)
    rig.run(2.5)
    assert rig.leads
    assert np.abs(rig.off()).max() < 0.01
    assert np.abs(rig.estimator.state.vel_ned).max() < 0.02, "the step is no motion"
    assert rig.estimator.arming_faults() == []


@pytest.mark.parametrize("led_s", [0.1, 10.0])
def test_when_they_stop_gnss_and_barometer_leave_it_in_their_frame(led_s: float) -> None:
    rig = Rig()
    rig.moved = (1.5, -0.7, 0.8)
    while not (rig.estimator.ready and rig.leads):
        rig.run(DT)
    rig.run(led_s)
    rig.silent = True
    rig.run(0.6)
    assert not rig.leads
    rig.run(8.0)
    assert np.abs(rig.off()).max() < 0.1
    assert rig.estimator.faults == []


@pytest.mark.parametrize(("heading_deg", "believed"), [(15.0, True), (-15.0, True), (25.0, False), (-170.0, False)])
def test_a_heading_that_is_far_off_is_a_mistake(heading_deg: float, believed: bool) -> None:
    rig = Rig()
    rig.turned_rad = math.radians(heading_deg)
    rig.run(3.0)
    assert rig.leads is believed
    if believed:
        yaw = euler_zyx_of_quat(np.array(rig.estimator.state.q_ned_frd))[2]
        assert math.degrees(yaw) == pytest.approx(30.0 + heading_deg, abs=0.5)
        rig.run(4.0)
        assert rig.estimator.arming_faults() == [], "the magnetometer has no say"
    else:
        assert rig.why == f"motion capture heading is {heading_deg:.0f} degrees off"
        assert rig.estimator.arming_faults() == [rig.why]


def test_tilt_is_not_taken_from_a_pose() -> None:
    rig = Rig(moving=True)
    rig.tilted_rad = math.radians(4.0)
    rig.run(20.0)
    assert rig.leads
    roll, pitch, _ = euler_zyx_of_quat(np.array(rig.estimator.state.q_ned_frd))
    true_roll, true_pitch, _ = euler_zyx_of_quat(np.array(rig.reading.q))
    assert np.degrees([roll - true_roll, pitch - true_pitch]) == pytest.approx([0.0, 0.0], abs=0.5)


@pytest.mark.parametrize(
    "changes",
    [
        {"quality": -1},
        {"pos_ned": (NAN, 0.0, 0.0)},
        {"pos_ned": (0.0, 1e6, 0.0)},
        {"q_ned_frd": (0.0, 0.0, 0.0, 0.0)},
        {"q_ned_frd": (NAN, 0.0, 0.0, 1.0)},
    ],
)
def test_what_is_no_pose_is_none(changes: dict[str, object]) -> None:
    rig = Rig()
    rig.run(3.0)
    assert rig.leads
    rig.changes = changes
    rig.run(0.45)
    assert rig.leads, "for half a second the inertial sensors do"
    rig.run(0.2)
    assert not rig.leads
    assert rig.why.startswith("motion capture")
    assert rig.estimator.faults == [], "GNSS is there: no reason to land"
    rig.changes = {}
    rig.run(2.0)
    assert rig.leads
    assert np.abs(rig.off()).max() < 0.03


def test_a_pose_that_repeats_itself_is_none() -> None:
    rig = Rig()
    rig.run(3.0)
    rig.changes = {"pos_ned": (0.0, 0.0, 0.0)}
    rig.run(0.8)
    assert not rig.leads, "though it agrees with all that is known"
    assert rig.why == "motion capture is stuck"


def test_a_variance_of_nothing_does_not_make_it_the_truth() -> None:
    rig = Rig()
    rig.changes = {"pos_variance_m2": 0.0, "attitude_variance_rad2": 0.0}
    rig.run(3.0)
    assert rig.leads
    assert rig.estimator.motion_capture is not None
    assert rig.estimator.motion_capture.rejected == 0


def test_a_frame_that_says_that_it_has_jumped_is_gathered_anew() -> None:
    rig = Rig()
    rig.run(3.0)
    rig.changes, rig.moved = {"reset_counter": 1}, (0.3, 0.0, 0.0)
    rig.run(0.1)
    assert not rig.leads
    rig.run(1.0)
    assert rig.leads
    assert -0.3 < rig.off()[0] < -0.15, "it is drawn there, not thrown"
    rig.run(8.0)
    assert np.abs(rig.off()).max() < 0.02
    rig.changes, rig.moved = {"reset_counter": 2}, (9.0, 0.0, 0.0)
    rig.run(3.0)
    assert not rig.leads
    assert rig.why == "motion capture is 8.7 m off"


def test_poses_that_do_not_move_with_the_vehicle_are_not_believed() -> None:
    rig = Rig(moving=True)
    rig.silent = True
    rig.run(8.5)  # it flies north
    rig.silent = False
    rig.run(0.1)
    for _ in range(20):
        north, east, down = np.add((0.0, 0.0, -3.0), rig.noise.normal(0.0, 0.001, 3)).tolist()
        rig.changes = {"pos_ned": (north, east, down)}
        rig.run(0.1)
        assert not rig.leads


def test_where_there_are_no_cameras_a_pose_means_nothing() -> None:
    rig = Rig()
    rig.estimator = Estimator(DT)
    plain = Estimator(DT)
    stream = readings(rest(4.0, 30.0), seed=3)
    for reading in stream:
        feed(rig.estimator, reading)
        feed(plain, reading)
        rig.estimator.pose(rig.pose(reading))
    assert rig.estimator.motion_capture is None
    assert rig.estimator.state == plain.state
