"""The differential drive: signs, allocation, acceptance radius, heading, and the edges that the seed leaves open."""

import math

import array_api_strict
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from firmware_profiles.errors import UsageError
from twin.control.arrays import Arrays
from twin.control.differential import DifferentialDriveController, DriveGains
from twin.control.pid import PidGains

DT, WIDTH, RADIUS = 0.02, 0.4, 0.1


def drive(n: int = 1, **options) -> DifferentialDriveController:
    known = {"dt_s": DT, "width_m": WIDTH, "wheel_radius_m": RADIUS, "arrays": Arrays(n)}
    return DifferentialDriveController(**(known | options))


def state(*, pos=(0, 0, 0), yaw=0.0, euler=None, speed=0.0, yaw_rate=0.0) -> dict[str, np.ndarray]:
    return {
        "pos": np.array([pos], dtype=float),
        "att_euler": np.array([(0.0, 0.0, yaw) if euler is None else euler]),
        "vel_b": np.array([[speed, 0.0, 0.0]]),
        "ang_vel": np.array([[0.0, 0.0, yaw_rate]]),
    }


def to(x: float, y: float, heading: float = 0.0) -> dict[str, np.ndarray]:
    return {"pos": np.array([[x, y, 0.0]]), "att_euler": np.array([[0.0, 0.0, heading]])}


def motion(sides: np.ndarray) -> tuple[float, float]:
    """Forward speed and yaw rate that the sides amount to."""
    left, right = sides[0] * RADIUS
    return (left + right) / 2, (right - left) / WIDTH


def rates(speed: float, yaw_rate: float) -> dict[str, np.ndarray]:
    return {"vel_b": np.array([[speed, 9.0, 9.0]]), "ang_vel": np.array([[9.0, 9.0, yaw_rate]])}


@pytest.mark.parametrize(
    ("speed", "yaw_rate", "left", "right"),
    [
        (1.0, 0.0, 1.0, 1.0),
        (1.0, 1.0, 0.8, 1.2),  # counter-clockwise: the right side is the faster one
        (2.5, 7.0, -0.3, 2.5),
        (-2.5, 7.0, -2.5, 0.3),
        (0.0, 7.0, -1.4, 1.4),
        (9.0, 0.0, 2.5, 2.5),
        (0.0, -70.0, 1.4, -1.4),
    ],
)
def test_allocation(speed: float, yaw_rate: float, left: float, right: float) -> None:
    sides = drive(control_mask="cmd_ctbr").update(rates(speed, yaw_rate), {})
    np.testing.assert_allclose(sides * RADIUS, [[left, right]], atol=1e-12)


@settings(max_examples=200, deadline=None)
@given(st.floats(-20, 20), st.floats(-20, 20), st.floats(0.1, 3.0), st.floats(0.1, 3.0))
def test_yaw_stays_and_speed_pays(speed: float, yaw_rate: float, width: float, limit: float) -> None:
    controller = drive(control_mask="cmd_ctbr", width_m=width, side_limit_m_s=limit)
    left, right = controller.update(rates(speed, yaw_rate), {})[0] * RADIUS
    assert max(abs(left), abs(right)) <= limit + 1e-9
    asked = min(max(yaw_rate, -7.0), 7.0) * width
    assert math.isclose(right - left, min(max(asked, -2 * limit), 2 * limit), abs_tol=1e-9)
    assert (left + right) * speed >= -1e-9
    assert abs(left + right) <= 2 * min(abs(speed), 2.5) + 1e-9


def test_it_turns_towards_its_target_and_drives_ahead() -> None:
    for x, y, turning in ((5, 0, 0), (5, 2, 1), (5, -2, -1)):
        speed, yaw_rate = motion(drive().update(to(x, y), state()))
        assert np.sign(round(yaw_rate, 9)) == turning
        assert speed > 0.5
    speed, yaw_rate = motion(drive().update(to(0.1, 5.0), state()))
    assert yaw_rate > 5
    speed, yaw_rate = motion(drive().update(to(-5, 0.1), state()))
    assert speed == 0.0, "the target is behind: turn first"
    assert math.isclose(yaw_rate, 7.0)


def test_speed_is_proportional_and_limited() -> None:
    gains = DriveGains(position=PidGains(0.5, 0.0, 0.1))
    speed, _ = motion(drive(gains=gains).update(to(2, 0), state(speed=0.5)))
    assert math.isclose(speed, 0.5 * 2 - 0.1 * 0.5)
    speed, _ = motion(drive(gains=gains).update(to(2, 0), state(speed=99.0)))
    assert speed == 0.0, "never backwards"
    speed, _ = motion(drive().update(to(20, 0), state()))
    assert math.isclose(speed, 2.5)


def test_inside_the_radius_it_stands_and_turns_to_the_final_heading() -> None:
    with_heading = {"pos": True, "att_euler": True}
    for distance in (0.0, 0.3, 0.5):
        controller = drive(control_mask=with_heading)
        speed, yaw_rate = motion(controller.update(to(distance, 0.0, 1.0), state(speed=1.0)))
        assert speed == 0.0
        assert math.isclose(yaw_rate, 5.0 * 1.0)
        sides = drive().update(to(distance, 0.0, 1.0), state(yaw=2.0, yaw_rate=1.0))
        np.testing.assert_array_equal(sides, 0.0)
    speed, yaw_rate = motion(drive(control_mask=with_heading).update(to(0.51, 0.0, 1.0), state()))
    assert speed > 0.5
    assert abs(yaw_rate) < 1e-9, "outside, the bearing counts"
    np.testing.assert_array_equal(drive(acceptance_radius_m=0.0).update(to(0, 0), state(yaw=1.0)), 0.0)


def test_heading_takes_the_shorter_way_across_180_degrees() -> None:
    aim = {"vel_b": np.zeros((1, 3)), "att_euler": np.array([[0.0, 0.0, -3.1]])}
    controller = drive(control_mask="cmd_ctatt")
    _, yaw_rate = motion(controller.update(aim, state(yaw=3.1)))
    assert math.isclose(yaw_rate, 5.0 * (2 * math.pi - 6.2))
    _, unwound = motion(drive(control_mask="cmd_ctatt").update(aim, state(yaw=3.1 - 20 * math.pi)))
    assert math.isclose(unwound, yaw_rate, rel_tol=1e-9)
    for yaw in (0.0, math.pi):
        aim["att_euler"][0, 2] = yaw + math.pi
        turn = motion(drive(control_mask="cmd_ctatt").update(aim, state(yaw=yaw)))[1]
        assert math.isclose(abs(turn), 7.0)


def test_derivative_does_not_jump_where_the_angle_wraps() -> None:
    gains = DriveGains(heading=PidGains(0.0, 0.0, 0.5))
    controller = drive(control_mask="cmd_ctatt", gains=gains)
    aim = {"vel_b": np.zeros((1, 3)), "att_euler": np.array([[0.0, 0.0, 3.0]])}
    for yaw in (3.12, 3.14, -3.12, -3.10):
        _, yaw_rate = motion(controller.update(aim, state(yaw=yaw, yaw_rate=1.0)))
        assert math.isclose(yaw_rate, -0.5)


def test_heading_integral_is_limited_and_starts_anew_with_a_new_goal() -> None:
    controller = drive(control_mask={"pos": True, "att_euler": True})
    for _ in range(2000):
        controller.update(to(5, 0.5), state())
    wound = controller._heading.integral.item()
    assert math.isclose(wound, 0.15 * 2000 * DT * math.atan2(0.5, 5), rel_tol=1e-9) or math.isclose(wound, 0.5)
    assert wound > 0.4
    _, yaw_rate = motion(controller.update(to(0.1, 0.0, 0.2), state()))
    assert math.isclose(yaw_rate, 5 * 0.2)
    assert math.isclose(controller._heading.integral.item(), 0.15 * 0.2 * DT)


def test_heading_integral_works_inside_and_is_gone_on_leaving() -> None:
    controller = drive(control_mask={"pos": True, "att_euler": True})
    for _ in range(100):
        controller.update(to(0.1, 0.0, 0.5), state())
    assert math.isclose(controller._heading.integral.item(), 0.15 * 0.5 * 100 * DT)
    controller.update(to(5, 0), state())
    assert controller._heading.integral.item() == 0.0


def test_position_integral_is_gone_inside() -> None:
    controller = drive(gains=DriveGains(position=PidGains(0.1, 1.0)))
    for _ in range(50):
        controller.update(to(2, 0), state())
    assert controller._position.integral.item() > 1
    controller.update(to(0.2, 0), state())
    assert controller._position.integral.item() == 0.0


def test_bearing_is_of_the_nose_on_a_slope_too() -> None:
    """Leaning about two axes, the third XYZ angle is not where the nose points."""
    euler = (0.5, 0.5, 0.0)
    nose = math.atan2(math.sin(0.5) * math.sin(0.5), math.cos(0.5))
    assert abs(nose) > 0.2
    _, yaw_rate = motion(drive().update(to(5 * math.cos(nose), 5 * math.sin(nose)), state(euler=euler)))
    assert abs(yaw_rate) < 1e-9


@pytest.mark.parametrize(("start", "yaw"), [((0, 0), 0.0), ((0, 0), math.pi), ((9, -3), 2.0), ((4.2, 3.0), -1.0)])
def test_it_arrives(start: tuple, yaw: float) -> None:
    """Against the plain kinematics of such a drive, with a lag of 0.1 s in each side."""
    controller = drive(control_mask={"pos": True, "att_euler": True})
    (x, y), sides = start, np.zeros(2)
    distances = []
    for _ in range(round(12 / DT)):
        speed, yaw_rate = motion(sides[None])
        command = controller.update(to(4, 3, 1.0), state(pos=(x, y, 0), yaw=yaw, speed=speed, yaw_rate=yaw_rate))
        sides = sides + (command[0] - sides) * DT / 0.1
        speed, yaw_rate = motion(sides[None])
        yaw += yaw_rate * DT
        x, y = x + speed * math.cos(yaw) * DT, y + speed * math.sin(yaw) * DT
        distances.append(math.hypot(4 - x, 3 - y))
    assert max(distances[-50:]) <= 0.5
    assert abs(math.remainder(yaw - 1.0, 2 * math.pi)) < 0.02
    assert max(distances) < distances[0] + 0.3


@pytest.mark.parametrize("mask", ["cmd_pos", "cmd_ctatt", "cmd_ctbr", {"pos": True, "att_euler": True}])
@pytest.mark.parametrize(("xp", "dtype"), [(torch, "float64"), (torch, "float32"), (array_api_strict, "float64")])
def test_one_code_path_and_parameters_per_world(mask, xp, dtype: str) -> None:
    n, rng = 6, np.random.default_rng(6)
    parameters = {
        "width_m": rng.uniform(0.2, 1.0, (n, 1)),
        "max_speed_m_s": rng.uniform(1, 3, (n, 1)),
        "control_mask": mask,
    }
    arrays = Arrays(n, xp, dtype)
    ours, reference = drive(arrays=arrays, **parameters), drive(n, **parameters)
    for step in range(6):
        now, aim = (
            {key: rng.normal(size=(n, 3)) for key in ("pos", "att_euler", "vel_b", "ang_vel")} for _ in range(2)
        )
        there = [{name: arrays.array(value) for name, value in group.items()} for group in (aim, now)]
        sides = ours.update(*there)
        assert sides.shape == (n, 2)
        tolerance = 1e-4 if dtype == "float32" else 1e-11
        np.testing.assert_allclose(np.asarray(sides), reference.update(aim, now), rtol=tolerance, atol=tolerance)
        if step == 3:
            ours.reset([2])
            reference.reset([2])
    width = parameters["width_m"][2, 0]
    alone = drive(width_m=width, max_speed_m_s=parameters["max_speed_m_s"][2, 0], control_mask="cmd_ctbr")
    many = drive(n, **(parameters | {"control_mask": "cmd_ctbr"}))
    np.testing.assert_allclose(many.update(aim, {})[2:3], alone.update({key: aim[key][2:3] for key in aim}, {}))


def test_a_world_that_is_not_finite_keeps_it_to_itself() -> None:
    controller = drive(2)
    now = {key: np.repeat(value, 2, axis=0) for key, value in state().items()}
    now["pos"][1] = math.nan
    sides = controller.update(to(3, 1), now)
    np.testing.assert_array_equal(sides[:1], drive().update(to(3, 1), state()))
    assert np.isnan(sides[1]).all()


def test_once_inside_it_may_be_carried_out_a_little() -> None:
    """Each world for itself; a reset forgets it; by default the two radii are one."""
    options = {"control_mask": {"pos": True, "att_euler": True}, "leave_radius_m": 0.8}
    controller, plain = drive(2, **options), drive(2, control_mask=options["control_mask"])

    def speeds(of: DifferentialDriveController, near: float, far: float) -> list[bool]:
        there = to(0.0, 0.0, 1.0)
        here = {name: np.tile(row, (2, 1)) for name, row in state(yaw=math.pi).items()}
        here["pos"][:, 0] = (near, far)
        sides = of.update({name: np.tile(row, (2, 1)) for name, row in there.items()}, here)
        return (sides.sum(axis=1) > 1e-9).tolist()

    assert speeds(controller, 0.4, 0.7) == [False, True]
    assert speeds(controller, 0.79, 0.79) == [False, True]
    assert speeds(controller, 0.81, 0.4) == [True, False]
    assert speeds(controller, 0.79, 0.79) == [True, False]
    controller.reset([1])
    assert speeds(controller, 0.4, 0.79) == [False, True]
    assert speeds(plain, 0.4, 0.4) == [False, False]
    assert speeds(plain, 0.51, 0.49) == [True, False]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"leave_radius_m": 0.4}, "^leave_radius_m: expected numbers of at least 0.5"),
        ({"width_m": 0.0}, "^width_m: expected numbers above 0"),
        ({"wheel_radius_m": -1.0}, "^wheel_radius_m"),
        ({"max_yaw_rate_rad_s": math.nan}, "^max_yaw_rate_rad_s"),
        ({"acceptance_radius_m": -0.1}, "^acceptance_radius_m"),
        ({"gains": DriveGains(heading=PidGains(1.0, output_limit=1.0))}, "limited by max_speed"),
        ({"control_mask": "cmd_vel"}, r"allowed: cmd_pos \(pos, \[att_euler\]\); cmd_ctatt \(att_euler, vel_b\)"),
    ],
)
def test_drives_that_cannot_be(options: dict, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        drive(**options)


def test_what_is_missing_is_named() -> None:
    with pytest.raises(UsageError, match="cmd_ctbr: target or state lacks 'ang_vel'; the target holds vel_b, ang_vel"):
        drive(control_mask="cmd_ctbr").update({"vel_b": np.zeros((1, 3))}, {})
