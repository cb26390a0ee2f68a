"""The ensemble: where it starts, how it spreads, and what its bands say."""

import msgspec
import numpy as np
import pytest
from twin_rig import DATE, ZURICH, command, hover_speed, put, run, states, twin_of

from firmware_profiles.loader import load_profile
from firmware_profiles.profile import VehicleProfile
from firmware_profiles.signals import ActuatorCommand
from firmware_profiles.uncertainty import UncertaintyParams
from twin.frames import q_enu_flu_of_heading
from twin.shadow import CHANNELS, ShadowEnsemble, bands_of
from twin.twin import Twin, TwinDivergedError

WORLDS = 32


def profile(name: str = "px4_iris", uncertainty: UncertaintyParams | None = None) -> VehicleProfile:
    loaded = load_profile(name)
    return loaded if uncertainty is None else msgspec.structs.replace(loaded, uncertainty=uncertainty)


def checkpoint(twin: Twin) -> np.ndarray:
    saved = np.full(twin.checkpoint_size, np.inf)  # what is not written must not pass
    twin.save(saved)
    return saved


def flying(name: str = "px4_iris") -> Twin:
    """A vehicle that is not at rest in any way."""
    hover = hover_speed(name)
    twin = put(twin_of(name), height=20.0, rotors=hover)
    put(twin, vel_enu=(1.0, -2.0, 0.5), rates_flu=(0.3, -0.2, 0.1), q_enu_flu=q_enu_flu_of_heading(120.0))
    run(twin, 0.1, [hover, hover * 1.02, hover * 0.99, hover])
    return twin


def test_all_worlds_start_where_the_live_vehicle_is() -> None:
    twin = flying()
    ensemble = ShadowEnsemble(profile(), WORLDS, seed=1)
    ensemble.anchor(checkpoint(twin))
    assert np.array_equal(ensemble.states(), np.tile(twin.state(), (WORLDS, 1)))
    bands = ensemble.bands(twin.state())
    assert np.array_equal(bands.quantiles, np.tile(bands.live, (3, 1)))
    assert bands.inside.all()
    assert (bands.rank == 0.5).all()


def test_the_bands_of_uncertain_worlds_grow() -> None:
    twin = flying()
    ensemble = ShadowEnsemble(profile(), WORLDS, seed=1)
    ensemble.anchor(checkpoint(twin))
    told = command(twin, hover_speed("px4_iris"))
    widths = []
    for _ in range(3):
        for _ in range(50):
            ensemble.step(told)
            twin.step(told)
        bands = ensemble.bands(twin.state())
        widths.append(bands.quantiles[2] - bands.quantiles[0])
    assert (widths[0] > 0.0).all()
    assert (widths[1] > widths[0]).all()
    assert (widths[2] > widths[1]).all()


@pytest.mark.parametrize("name", ["lav2", "px4_iris"])
@pytest.mark.parametrize("start", ["flying", "on the ground"])
def test_without_uncertainty_the_shadows_are_the_live_vehicle_to_the_bit(name: str, start: str) -> None:
    twin = flying(name) if start == "flying" else twin_of(name)
    run(twin, 0.5, 300.0)
    ensemble = ShadowEnsemble(profile(name, UncertaintyParams()), 5, seed=1)
    ensemble.anchor(checkpoint(twin))
    rng = np.random.default_rng(3)
    for _ in range(100):
        told = ActuatorCommand(
            rng.uniform(300.0, 700.0, (1, 4)), rng.uniform(-10, 10, (1, 2)) if name == "lav2" else None
        )
        twin.step(told)
        ensemble.step(told)
        assert np.array_equal(ensemble.states(), np.tile(twin.state(), (5, 1)))
    bands = ensemble.bands(twin.state())
    assert np.array_equal(bands.quantiles, np.tile(bands.live, (3, 1)))


def test_a_checkpoint_changes_nothing_in_the_vehicle_that_it_is_of() -> None:
    twin, other = flying(), flying()
    checkpoint(twin)
    run(twin, 0.2, 500.0)
    run(other, 0.2, 500.0)
    assert np.array_equal(states(twin), states(other))


def test_worlds_that_broke_down_go_on_from_a_checkpoint() -> None:
    twin = flying()
    saved = checkpoint(twin)
    put(twin, vel_enu=(1e12, 0.0, 0.0))
    with pytest.raises(TwinDivergedError):
        run(twin, 0.1, 500.0)
    twin.load(saved)
    run(twin, 0.1, 500.0)
    other = flying()
    run(other, 0.1, 500.0)
    assert np.array_equal(states(twin), states(other))


# Bands


def state(*, roll: float = 0.0, heading_deg: float = 0.0, vel_enu=(0.0, 0.0, 0.0), height: float = 0.0) -> np.ndarray:
    q = q_enu_flu_of_heading(heading_deg)
    half = 0.5 * roll
    w, x, y, z = q
    turned = np.array(
        [
            w * np.cos(half) - x * np.sin(half),
            x * np.cos(half) + w * np.sin(half),
            y * np.cos(half) + z * np.sin(half),
            z * np.cos(half) - y * np.sin(half),
        ]
    )
    return np.concatenate(([0.0, 0.0, height], turned, vel_enu, [0.0, 0.0, 0.0]))


def column(name: str) -> int:
    return CHANNELS.index(name)


def test_quantiles_rank_and_place_by_hand() -> None:
    worlds = np.array([state(height=0.1 * i, vel_enu=(i, 2.0 * i, -3.0 * i)) for i in range(21)])
    bands = bands_of(worlds, state(height=0.5, vel_enu=(20.0, 39.9, 0.0)))
    height = column("height_m")
    assert bands.quantiles[:, height] == pytest.approx([0.1, 1.0, 1.9])
    assert bands.live[height] == 0.5
    assert bands.rank[height] == pytest.approx(5.5 / 21)
    assert bands.inside[height]
    assert bands.quantiles[:, column("vel_north_m_s")] == pytest.approx([2.0, 20.0, 38.0])
    assert bands.quantiles[:, column("vel_east_m_s")] == pytest.approx([1.0, 10.0, 19.0])
    assert bands.quantiles[:, column("vel_down_m_s")] == pytest.approx([3.0, 30.0, 57.0])
    assert not bands.inside[column("vel_north_m_s")]
    assert bands.rank[column("vel_north_m_s")] == pytest.approx(20 / 21)
    assert not bands.inside[column("vel_east_m_s")]
    assert not bands.inside[column("vel_down_m_s")]


def test_roll_is_right_wing_down_and_yaw_is_from_north() -> None:
    bands = bands_of(np.array([state(roll=0.2, heading_deg=90.0)]), state())
    assert bands.quantiles[1, column("roll_rad")] == pytest.approx(0.2)
    assert bands.quantiles[1, column("yaw_rad")] == pytest.approx(np.pi / 2)
    assert bands.quantiles[1, column("pitch_rad")] == pytest.approx(0.0, abs=1e-12)


def test_a_band_of_yaw_does_not_wrap_around_south() -> None:
    worlds = np.array([state(heading_deg=180.0 + i) for i in range(-10, 11)])
    bands = bands_of(worlds, state(heading_deg=179.0))
    yaw = np.degrees(bands.quantiles[:, column("yaw_rad")])
    assert yaw == pytest.approx([171.0, 180.0, 189.0])
    assert bands.inside[column("yaw_rad")]
    assert bands.rank[column("yaw_rad")] == pytest.approx(9.5 / 21, abs=0.5 / 21 + 1e-9)
    assert not bands_of(worlds, state(heading_deg=0.0)).inside[column("yaw_rad")]


@pytest.mark.parametrize(("apart", "inside"), [(0.9e-3, True), (1.1e-3, False), (-0.9e-3, True), (-1.1e-3, False)])
def test_less_than_a_millimetre_is_no_difference(apart: float, inside: bool) -> None:
    bands = bands_of(np.array([state(height=1.0)] * 5), state(height=1.0 + apart))
    assert bands.inside[column("height_m")] == inside


def test_vehicles_drawn_alike_are_inside_nine_times_of_ten() -> None:
    uncertainty = UncertaintyParams(mass_rel=0.02, thrust_rel=0.01, inertia_rel=0.05, rotor_delay_s=0.004)
    ensemble = ShadowEnsemble(profile(uncertainty=uncertainty), 400, seed=1)
    others = ShadowEnsemble(profile(uncertainty=uncertainty), 400, seed=2)
    start = flying()
    told = command(start, hover_speed("px4_iris"))
    for each in (ensemble, others):
        each.anchor(checkpoint(start))
        for _ in range(100):
            each.step(told)
    inside = np.mean([ensemble.bands(live).inside for live in others.states()], axis=0)
    # 400 vehicles: 0.9 +- 0.015, and as much again from 400 shadows' quantiles.
    assert inside == pytest.approx(np.full(len(CHANNELS), 0.9), abs=0.05)


def test_the_shadows_of_a_seed_are_the_same_whatever_their_number() -> None:
    start = flying()
    few, many = ShadowEnsemble(profile(), 4, seed=5), ShadowEnsemble(profile(), 12, seed=5, threads=2)
    told = command(start, 480.0)
    for each in (few, many):
        each.anchor(checkpoint(start))
        for _ in range(50):
            each.step(told)
    assert np.array_equal(many.states()[:4], few.states())


def test_home_and_date_are_no_concern_of_the_shadows() -> None:
    elsewhere = Twin(load_profile("px4_iris").vehicle, home=ZURICH, date=DATE)
    ensemble = ShadowEnsemble(profile(), 2, seed=0)
    ensemble.anchor(checkpoint(elsewhere))
    assert np.array_equal(ensemble.states()[0], elsewhere.state())
