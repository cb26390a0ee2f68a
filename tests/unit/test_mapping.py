"""A policy's numbers to the loops, and the stack that they enter: controller and mixer."""

from __future__ import annotations

import math

import numpy as np
import pytest

from firmware_profiles.errors import ProfileError, UsageError
from firmware_profiles.loader import load_profile
from twin.control.flight import FlightController
from twin.control.flight_params import FlightLimits
from twin.control.mapping import ActionMapping, ActionRange, drive_mapping, flight_mapping
from twin.control.mixer import Mixer
from twin.control.stack import FlightStack

IRIS, LAV2 = load_profile("px4_iris").vehicle, load_profile("lav2").vehicle


def test_the_ends_and_the_middle_of_an_action() -> None:
    action = flight_mapping("cmd_vel", IRIS, FlightLimits(horizontal_speed_m_s=5.0, climb_m_s=2.0, sink_m_s=1.0))
    assert action.size == 4
    for value, vel, rate in ((1.0, (5, 5, 2), 200.0), (-1.0, (-5, -5, -1), -200.0), (0.0, (0, 0, 0.5), 0.0)):
        target = action.target(np.full((1, 4), value))
        np.testing.assert_allclose(target["vel"], [vel])
        np.testing.assert_allclose(target["ang_vel"], [[0, 0, math.radians(rate)]])
    np.testing.assert_allclose(action.target(np.full((1, 4), 7.0))["vel"], [[5, 5, 2]])
    np.testing.assert_allclose(action.target(np.full((1, 4), math.nan))["vel"], [[0, 0, 0.5]])


@pytest.mark.parametrize("mode", ["cmd_vel", "cmd_acc", "cmd_ctatt", "cmd_ctbr", "cmd_ctbm", "cmd_motor_speeds"])
def test_every_mapping_enters_its_loop(mode: str) -> None:
    action = flight_mapping(mode, IRIS)
    stack = FlightStack(FlightController.of(IRIS, 0.004), Mixer.of(IRIS), action.control_mask)
    assert stack.mode == mode
    state = {name: np.zeros((1, 3)) for name in ("pos", "vel", "ang_vel")} | {"att_quat": np.array([[0.0, 0, 0, 1]])}
    speeds = stack.update(action.target(np.zeros((1, action.size))), state)
    assert speeds.shape == (1, 4)
    if mode in ("cmd_ctatt", "cmd_ctbr", "cmd_ctbm"):
        np.testing.assert_allclose(speeds, 1100.0 * math.sqrt(0.5), rtol=1e-6)  # half of the thrust


def test_the_largest_moments_are_those_that_the_rotors_have() -> None:
    action = flight_mapping("cmd_ctbm", IRIS)
    mixer = Mixer.of(IRIS)
    for axis in range(3):
        ask = np.zeros((1, 4))
        ask[0, 1 + axis] = 1.0
        target = action.target(ask)
        wrench = np.concatenate((target["thrust"], target["moment"]), axis=1)
        assert mixer.wrench_of(mixer.allocate(wrench))[0, 1 + axis] == pytest.approx(wrench[0, 1 + axis], rel=0.05)


def test_the_drives_mapping() -> None:
    ground = LAV2.ground_drive
    assert ground is not None
    target = drive_mapping("cmd_ctbr", ground).target(np.array([[1.0, -1.0]]))
    np.testing.assert_allclose(target["vel_b"], [[ground.max_speed_m_s, 0, 0]])
    np.testing.assert_allclose(target["ang_vel"], [[0, 0, -ground.max_yaw_rate_rad_s]])
    target = drive_mapping("cmd_ctatt", ground).target(np.array([[0.0, 0.5]]))
    np.testing.assert_allclose(target["att_euler"], [[0, 0, math.pi / 2]])


@pytest.mark.parametrize(
    ("make", "named"),
    [
        (lambda: ActionRange("jerk", 0, 0.0, 1.0), "rotor_speed"),
        (lambda: ActionRange("vel", 3, 0.0, 1.0), "component: vel has 3"),
        (lambda: ActionRange("vel", 0, 0.0, math.inf), "high"),
        (lambda: ActionMapping((), "cmd_vel"), "ranges"),
        (lambda: ActionMapping((ActionRange("vel", 0, 0.0, 1.0),) * 2, "cmd_vel"), "ranges"),
        (lambda: flight_mapping("cmd_pos", IRIS), "cmd_vel, cmd_acc"),
        (lambda: drive_mapping("cmd_pos", LAV2.ground_drive), "cmd_ctatt, cmd_ctbr"),
    ],
)
def test_mappings_that_cannot_be(make, named: str) -> None:
    with pytest.raises(UsageError, match=named):
        make()


def test_a_vehicle_without_rotors_has_no_flight_mapping() -> None:
    with pytest.raises(ProfileError, match="no rotors"):
        flight_mapping("cmd_vel", load_profile("px4_rover_differential").vehicle)


def test_the_stack_is_its_controller_and_its_mixer() -> None:
    state = {"pos": np.zeros((1, 3)), "vel": np.zeros((1, 3)), "ang_vel": np.full((1, 3), 0.1)}
    state["att_quat"] = np.array([[0.1, 0.0, 0.0, math.sqrt(0.99)]])
    target = {"pos": np.ones((1, 3)), "att_euler": np.zeros((1, 3))}
    alone, mixer = FlightController.of(IRIS, 0.004), Mixer.of(IRIS)
    stack = FlightStack(FlightController.of(IRIS, 0.004), mixer)
    for _ in range(3):
        np.testing.assert_array_equal(stack.update(target, state), mixer.allocate(alone.update(target, state)))
    stack.select("cmd_motor_speeds")
    np.testing.assert_array_equal(stack.update({"rotor_speed": np.full((1, 4), 1e4)}, {}), [[1100.0] * 4])
    with pytest.raises(UsageError, match="rotor_speed"):
        stack.update({}, {})
    stack.select("cmd_ctbm")
    assert stack.controller.control_mask["moment"]
    with pytest.raises(UsageError, match="cmd_motor_speeds"):
        stack.select("cmd_flip")
