"""Motor aerodynamics: thrust loss, drag across the axis, rolling moment."""

from typing import Any

import numpy as np
import pytest
from dynamics_goldens import LIBRARIES, arrays_of, host, libraries
from scipy.spatial.transform import Rotation

from firmware_profiles.errors import UsageError
from firmware_profiles.loader import load_profile
from twin.dynamics.motor_aero import MotorAerodynamics, axial_thrust_share
from twin.world_params import WorldParams

IRIS = load_profile("px4_iris").vehicle
SPIN = np.array(IRIS.spin_dir)
DRAG, ROLLING, MOST = 1.75e-4, 1e-6, 25.0


def forces(model: MotorAerodynamics, **changes: Any):
    """Hovering level: 4 N and 800 rad/s a rotor, still air."""
    n = model.n
    values: dict[str, Any] = {
        "thrust": np.full((n, 4), 4.0),
        "speed_rad_s": np.full((n, 4), 800.0),
        "rotation_world_body": np.tile(np.eye(3), (n, 1, 1)),
        "velocity_world": np.zeros((n, 3)),
        "rates_body": np.zeros((n, 3)),
    }
    return model.forces(**(values | changes))


def model_of(worlds: int = 1, **values: Any) -> MotorAerodynamics:
    return MotorAerodynamics(WorldParams.of(IRIS, worlds).with_values(**values), SPIN)


def test_at_rest_in_still_air_there_is_nothing() -> None:
    out = forces(model_of())
    np.testing.assert_array_equal(out.thrust, np.full((1, 4), 4.0))
    assert not out.rotor_increment_body.any()
    assert not out.moment_body.any()


@pytest.mark.parametrize("speed", [0.0, 5.0, 12.5, 25.0, 40.0])
def test_thrust_falls_linearly_with_axial_airspeed_up_and_down_alike(speed: float) -> None:
    share = max(0.0, 1.0 - speed / MOST)
    for sign in (1, -1):
        out = forces(model_of(), velocity_world=np.array([[0.0, 0.0, sign * speed]]))
        np.testing.assert_allclose(out.thrust, 4.0 * share)
        np.testing.assert_allclose(out.loss_body[..., 2], 4.0 * (share - 1.0), atol=1e-15)
        assert not out.drag_body.any()


def test_the_share_is_never_below_nothing() -> None:
    speeds = np.linspace(-100, 100, 401)[None]
    share = axial_thrust_share(speeds, xp=np, max_relative_airspeed_m_s=np.array([[MOST]]))
    assert ((share >= 0) & (share <= 1)).all()
    np.testing.assert_array_equal(share, share[:, ::-1])


def test_drag_and_rolling_moment_across_the_axis() -> None:
    out = forces(model_of(), velocity_world=np.array([[3.0, -2.0, 0.0]]))
    np.testing.assert_allclose(out.drag_body, np.tile([-800 * DRAG * 3, 800 * DRAG * 2, 0.0], (1, 4, 1)))
    for spin, moment in zip(SPIN, out.moment_body[0], strict=True):
        np.testing.assert_allclose(moment, spin * 800 * ROLLING * np.array([3.0, -2.0, 0.0]))
    np.testing.assert_array_equal(out.thrust, np.full((1, 4), 4.0))
    np.testing.assert_array_equal(out.rotor_increment_body, out.loss_body + out.drag_body)


def test_a_balanced_vehicle_feels_no_rolling_moment_a_single_rotor_does() -> None:
    moving = {"velocity_world": np.array([[5.0, 0.0, 0.0]])}
    np.testing.assert_allclose(forces(model_of(), **moving).moment_body.sum(axis=1), 0.0, atol=1e-18)
    one = forces(model_of(), **moving, speed_rad_s=np.array([[800.0, 0.0, 0.0, 0.0]])).moment_body.sum(axis=1)
    np.testing.assert_allclose(one, [[SPIN[0] * 800 * ROLLING * 5, 0.0, 0.0]])


def test_only_the_motion_through_the_air_counts() -> None:
    """Drifting with the wind is rest; standing in it is flying against it."""
    wind = np.array([[4.0, -3.0, 1.0]])
    drifting = forces(model_of(), velocity_world=wind, wind_world=wind)
    assert not drifting.rotor_increment_body.any()
    standing, flying = forces(model_of(), wind_world=wind), forces(model_of(), velocity_world=-wind)
    np.testing.assert_array_equal(standing.rotor_increment_body, flying.rotor_increment_body)


def test_turning_moves_the_hubs_and_is_damped() -> None:
    for axis in range(3):
        rates = np.zeros((1, 3))
        rates[0, axis] = 2.0
        out = forces(model_of(), rates_body=rates)
        hubs = np.array([rotor.position_flu_m for rotor in IRIS.propeller.rotors])
        velocity = np.cross(rates, hubs)
        np.testing.assert_allclose(out.drag_body[0, :, :2], -800 * DRAG * velocity[:, :2], atol=1e-15)
        moment = np.cross(hubs, out.drag_body[0]).sum(axis=0)
        assert moment[axis] < 0.0


def test_drag_only_takes_energy_at_any_attitude() -> None:
    rng = np.random.default_rng(1)
    velocity, rotation = rng.normal(size=(40, 3)), Rotation.random(40, random_state=2).as_matrix()
    out = forces(model_of(40), velocity_world=velocity, rotation_world_body=rotation)
    drag_world = np.einsum("nij,nrj->nri", rotation, out.drag_body)
    assert (np.einsum("nri,ni->nr", drag_world, velocity) < 0).all()
    up = rotation[:, :, 2]
    np.testing.assert_allclose(np.einsum("nri,ni->nr", drag_world, up), 0.0, atol=1e-12)  # across the axis


def test_a_tilted_rotor_has_its_own_axis() -> None:
    axes = np.tile([0.0, 0.6, 0.8], (4, 1))
    model = MotorAerodynamics(WorldParams.of(IRIS, 1), SPIN, axis_body=axes)
    out = forces(model, velocity_world=np.array([[0.0, 5.0, 0.0]]))
    np.testing.assert_allclose(out.thrust, 4.0 * (1 - 3.0 / MOST))
    np.testing.assert_allclose(np.cross(out.loss_body[0], axes), 0.0, atol=1e-15)
    np.testing.assert_allclose(out.drag_body[0], np.tile(-800 * DRAG * np.array([0.0, 3.2, -2.4]), (4, 1)))


def test_worlds_have_their_own_coefficients() -> None:
    model = model_of(2, rotor_drag_n_s2_m=[[0.0], [1e-3]], max_relative_airspeed_m_s=[[10.0], [20.0]])
    out = forces(model, velocity_world=np.tile([1.0, 0.0, 5.0], (2, 1)))
    np.testing.assert_allclose(out.thrust, [[2.0] * 4, [3.0] * 4])
    np.testing.assert_allclose(out.drag_body[:, 0, 0], [0.0, -0.8])


@libraries()
def test_every_array_library_gives_the_same_numbers(library: str) -> None:
    rng = np.random.default_rng(3)
    state = {
        "thrust": rng.uniform(1, 6, (5, 4)),
        "speed_rad_s": rng.uniform(0, 1000, (5, 4)),
        "rotation_world_body": Rotation.random(5, random_state=4).as_matrix(),
        "velocity_world": 5 * rng.normal(size=(5, 3)),
        "rates_body": rng.normal(size=(5, 3)),
        "wind_world": rng.normal(size=(5, 3)),
    }
    reference = model_of(5).forces(**state)
    arrays = arrays_of(library, 5)
    model = MotorAerodynamics(WorldParams.of(IRIS, 5), SPIN, arrays=arrays)
    out = model.forces(**{name: arrays.array(value) for name, value in state.items()})
    tolerance = 1e-12 if LIBRARIES[library][1] == "float64" else 1e-5
    for name in ("thrust", "loss_body", "drag_body", "moment_body"):
        np.testing.assert_allclose(host(getattr(out, name)), getattr(reference, name), rtol=tolerance, atol=tolerance)


def test_axes_that_are_none_are_refused() -> None:
    with pytest.raises(UsageError, match="axis_body: expected 4 unit vectors"):
        MotorAerodynamics(WorldParams.of(IRIS, 1), SPIN, axis_body=np.ones((4, 3)))
