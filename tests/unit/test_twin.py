"""The twin as its users see it: readings at rest, repeatability, the values that go to a flight controller."""

from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from pygeomag import GeoMag
from pygeomag.wmm.wmm_2025 import WMM_2025
from twin_rig import DATE, ZURICH, G, command, hover_speed, put, readings, run, states, twin_of, vehicle

from firmware_profiles.errors import UsageError
from firmware_profiles.signals import ActuatorCommand
from twin.environment import Home, pressure_altitude_m
from twin.twin import SensorBatch, Twin
from twin.vehicle_model import build_model, resting_height_m
from twin.world_params import WorldParams

GOLDENS = Path(__file__).parents[1] / "data" / "goldens"
F32 = np.float32


# At rest


@pytest.fixture(scope="module", params=[0.0, 488.0, 3000.0], ids="home at {:g} m".format)
def minute(request) -> tuple[float, Twin, list[SensorBatch]]:
    """A minute on the ground."""
    alt_m = request.param
    twin = twin_of(home=Home(47.397742, 8.545594, alt_m), seed=3)
    return alt_m, twin, run(twin, 60.0)


def test_32_at_rest_the_accelerometer_shows_what_holds_the_vehicle_up(minute) -> None:
    _, _, batches = minute
    accel = np.mean([batch.accel_frd[0] for batch in batches], axis=0)
    np.testing.assert_allclose(accel, [0.0, 0.0, -9.81], atol=0.05)
    gyro = np.mean([batch.gyro_frd[0] for batch in batches], axis=0)
    np.testing.assert_allclose(gyro, 0.0, atol=1e-3)


def wire_values(twin: Twin, batches: list[SensorBatch]) -> dict[str, list[tuple[int, tuple[float, ...]]]]:
    """Per sensor: (tick, values in the precision of the wire) of each new reading."""
    out: dict[str, list[tuple[int, tuple[float, ...]]]] = {
        name: [] for name in ("accel", "gyro", "mag", "pressure", "gps")
    }
    for tick, batch in enumerate(batches, start=1):
        sample = twin.sample_of(batch, tick)
        out["accel"].append((tick, tuple(map(F32, sample.accel_frd))))
        out["gyro"].append((tick, tuple(map(F32, sample.gyro_frd))))
        if sample.mag_frd_gauss is not None:
            out["mag"].append((tick, tuple(map(F32, sample.mag_frd_gauss))))
        if sample.baro is not None:
            out["pressure"].append((tick, (F32(sample.baro.pressure_hpa), F32(sample.baro.pressure_alt_m))))
        if sample.gps is not None:
            fix = sample.gps
            position = (round(fix.lat_deg * 1e7), round(fix.lon_deg * 1e7), round(fix.alt_amsl_m * 1e3))
            out["gps"].append((tick, (*position, *(round(100 * v) for v in fix.vel_ned))))
    return out


def test_no_sensor_repeats_itself_or_falls_silent(minute) -> None:
    """PX4 calls a sensor stale after 100 equal values, and times it out after 300 ms."""
    _, twin, batches = minute
    for name, series in wire_values(twin, batches).items():
        ticks = [0, *(tick for tick, _ in series), len(batches) + 1]
        assert max(b - a for a, b in pairwise(ticks)) * twin.tick_us <= 300_000, name
        for component in zip(*(values for _, values in series), strict=True):
            longest = run_length = 1
            for before, after in pairwise(component):
                run_length = run_length + 1 if before == after else 1
                longest = max(longest, run_length)
            assert longest < 100, name


def test_barometer_and_gps_agree_on_the_height_by_px4s_own_law(minute) -> None:
    alt_m, twin, batches = minute
    samples = [twin.sample_of(batch, 0) for batch in batches]
    # The height in the pressure as float32, and the one that the message itself carries.
    found = [float(pressure_altitude_m(float(F32(s.baro.pressure_hpa)))) for s in samples if s.baro is not None]
    sent = [s.baro.pressure_alt_m for s in samples if s.baro is not None]
    gps = [s.gps.alt_amsl_m for s in samples if s.gps is not None]
    assert np.mean(found) == pytest.approx(np.mean(gps), abs=0.5)
    assert np.mean(sent) == pytest.approx(np.mean(gps), abs=0.5)
    assert np.mean(gps) == pytest.approx(alt_m, abs=0.5)
    temperature = [s.baro.temperature_c for s in samples if s.baro is not None]
    assert np.mean(temperature) == pytest.approx(15.0 - 0.0065 * alt_m, abs=0.1)


def northward_places() -> list[tuple[float, float, float, float]]:
    """Latitude, longitude, height, declination [degrees]: the published ones, and two from the model itself."""
    with np.load(GOLDENS / "environment.npz") as golden:
        names = ("lat_deg", "lon_deg", "alt_m", "declination_deg")
        columns = [golden[f"wmm_2026_06_01__{name}"].tolist() for name in names]
    places = list(zip(*columns, strict=True))
    model = GeoMag(coefficients_data=WMM_2025)
    for lat, lon in ((-43.5, 179.9), (78.2, 15.6)):
        places.append((lat, lon, 0.0, float(model.calculate(glat=lat, glon=lon, alt=0.0, time=2026 + 151 / 365).d)))
    return places


@pytest.mark.parametrize("place", northward_places(), ids=lambda place: f"{place[0]:g}, {place[1]:g}")
def test_33_facing_true_north_the_magnetometer_gives_a_yaw_of_zero(place) -> None:
    lat, lon, alt_m, declination_deg = place
    twin = twin_of(home=Home(lat, lon, alt_m, heading_deg=0.0))
    x, y, z = np.mean(readings(run(twin, 1.0))["mag"], axis=0)[0]
    assert np.degrees(np.arctan2(-y, x)) + declination_deg == pytest.approx(0.0, abs=2.0)
    if abs(lat) > 30:
        assert (z > 0) == (lat > 0)  # the field points into the ground in the north, out of it in the south


@pytest.mark.parametrize("heading_deg", [90.0, -120.0, 359.0])
def test_another_heading_turns_everything(heading_deg: float) -> None:
    twin = twin_of(home=Home(47.397742, 8.545594, 488.0, heading_deg))
    x, y, _ = np.mean(readings(run(twin, 1.0))["mag"], axis=0)[0]
    yaw_deg = np.degrees(np.arctan2(-y, x)) + 3.598
    assert (yaw_deg - heading_deg + 180) % 360 - 180 == pytest.approx(0.0, abs=2.0)
    w, _, _, z = twin.truth().q_ned_frd
    assert (np.degrees(2 * np.arctan2(z, w)) - heading_deg + 180) % 360 - 180 == pytest.approx(0.0, abs=1e-6)


def mean_height_error_m(seconds: float, worlds: int) -> np.ndarray:
    """(N,) mean of barometer altitude minus truth."""
    twin = twin_of(n=worlds, seed=34)
    told, total, count = command(twin), np.zeros(worlds), 0
    for _ in range(round(seconds * 1e6 / twin.tick_us)):
        batch = twin.step(told)
        if batch.baro is not None:
            total += batch.baro[1] - (488.0 + twin._engine.pos_enu[:, 2])
            count += 1
    assert count == pytest.approx(50 * seconds, abs=1)
    return total / count


def test_34_the_barometer_does_not_drift_away_in_a_minute() -> None:
    assert np.abs(mean_height_error_m(60.0, 6)).max() < 0.2


@pytest.mark.long
def test_34_the_barometer_does_not_drift_away_in_ten_minutes() -> None:
    """Public report 34."""
    assert np.abs(mean_height_error_m(600.0, 16)).max() < 0.2


# Repeatability


def flown(twin: Twin, seconds: float = 1.0) -> tuple[np.ndarray, list[np.ndarray]]:
    """Final states and all readings of a flight with changing commands."""
    rng = np.random.default_rng(9)
    seen: list[np.ndarray] = []
    for _ in range(round(seconds * 1e6 / twin.tick_us)):
        batch = twin.step(command(twin, hover_speed("px4_iris", 1.3) * rng.uniform(0.9, 1.1, 4)))
        baro = () if batch.baro is None else batch.baro
        gnss = () if batch.gnss is None else (batch.gnss.pos_ned, batch.gnss.vel_ned)
        mag = () if batch.mag_frd_gauss is None else (batch.mag_frd_gauss,)
        seen += [batch.accel_frd, batch.gyro_frd, *mag, *baro, *gnss]
    return states(twin), seen


def assert_same(a: tuple[np.ndarray, list[np.ndarray]], b: tuple[np.ndarray, list[np.ndarray]]) -> None:
    np.testing.assert_array_equal(a[0], b[0])
    assert len(a[1]) == len(b[1])
    for ours, theirs in zip(a[1], b[1], strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_the_same_seed_gives_the_same_numbers_and_reset_brings_them_back() -> None:
    twin = twin_of(n=3, seed=5)
    first = flown(twin)
    assert first[0][0, 2] > 0.5  # it flew
    assert twin.ticks == 250
    twin.reset()
    assert twin.ticks == 0
    assert twin.truth().pos_ned[2] == pytest.approx(-vehicle().body.collision_half_size_m[2], abs=1e-3)
    assert_same(flown(twin), first)
    assert_same(flown(twin_of(n=3, seed=5)), first)


def test_another_seed_gives_other_noise_over_the_same_flight() -> None:
    a, b = flown(twin_of(seed=5)), flown(twin_of(seed=6))
    np.testing.assert_array_equal(a[0], b[0])
    assert all((ours != theirs).any() for ours, theirs in zip(a[1][:400], b[1][:400], strict=True) if ours.ndim == 2)


def test_a_world_sees_the_same_noise_whatever_the_number_of_worlds() -> None:
    few, many = flown(twin_of(n=2, seed=5)), flown(twin_of(n=9, seed=5))
    assert_same((few[0], few[1]), (many[0][:2], [array[:2] for array in many[1]]))
    assert (many[1][0][0] != many[1][0][1]).all()  # and worlds differ


def test_threads_change_nothing() -> None:
    assert_same(flown(twin_of(n=5, threads=1)), flown(twin_of(n=5, threads=3)))


def test_a_reset_forgets_a_divergence_and_rotor_speeds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    twin = twin_of(n=2, seed=5)
    first = flown(twin, 0.1)
    put(twin, rates_flu=1e12)
    with pytest.raises(Exception, match="broke down"):
        run(twin, 0.1)
    twin.reset()
    assert_same(flown(twin, 0.1), first)


# What goes to a flight controller


def test_a_sample_holds_plain_values_and_only_new_readings() -> None:
    twin = twin_of()
    batch = next(batch for batch in run(twin, 1.0) if batch.gnss is not None)
    sample = twin.sample_of(batch, 123, truth=True)
    assert sample.time_us == 123
    assert all(type(value) is float for value in (*sample.accel_frd, *sample.gyro_frd))
    assert sample.gps is not None
    assert sample.truth is not None
    nothing_new = SensorBatch(batch.accel_frd, batch.gyro_frd, None, None, None)
    sample = twin.sample_of(nothing_new, 124)
    assert (sample.mag_frd_gauss, sample.baro, sample.gps, sample.truth) == (None,) * 4


def test_44_the_stamp_of_a_fix_is_the_moment_that_was_measured() -> None:
    """Public report 44: 10 Hz, measured at tick 25 k, delivered 3 ticks (12 ms, 10 ms rounded up) later."""
    twin = twin_of()
    seen = [(tick, batch) for tick, batch in enumerate(run(twin, 1.0), start=1) if batch.gnss is not None]
    assert [tick for tick, _ in seen] == [28, 53, 78, 103, 128, 153, 178, 203, 228]
    start_us = round(DATE.timestamp() * 1e6)
    stamps = [twin.sample_of(batch, 0).gps.utc_us - start_us for _, batch in seen]
    assert stamps == [(tick - 3) * 4000 for tick, _ in seen]


def test_a_fix_is_where_the_vehicle_was() -> None:
    twin = put(twin_of(home=Home(-33.8688, 151.2093, 20.0)), pos_enu=[300.0, 400.0, 100.0])
    fix = next(twin.sample_of(batch, 0).gps for batch in run(twin, 0.2) if batch.gnss is not None)
    assert (fix.lat_deg + 33.8688) * 110_915 == pytest.approx(400.0, abs=1.0)
    assert (fix.lon_deg - 151.2093) * 92_520 == pytest.approx(300.0, abs=1.0)
    assert fix.alt_amsl_m == pytest.approx(120.0, abs=1.0)
    assert fix.vel_ned[2] == pytest.approx(9.8 * 0.1, abs=0.2)  # falling, seen at the first measurement after 0.1 s
    assert (fix.eph_m, fix.epv_m, fix.satellites, fix.fix_type) == (0.3, 0.4, 12, 3)


def test_each_world_has_its_own_sample_and_truth() -> None:
    twin = twin_of(n=3)
    put(twin, pos_enu=[[1.0, 2.0, 50.0], [3.0, 4.0, 60.0], [5.0, 6.0, 70.0]], vel_enu=[[1.0, 2.0, 3.0]] * 3)
    batch = run(twin, 0.004)[0]
    for world, (north, east, up) in enumerate(((2.0, 1.0, 50.0), (4.0, 3.0, 60.0), (6.0, 5.0, 70.0))):
        truth = twin.truth(world)
        assert truth.pos_ned == pytest.approx((north, east, -up), abs=0.02)
        assert truth.vel_ned == pytest.approx((2.0, 1.0, -3.0), abs=0.05)
        assert truth.alt_amsl_m == pytest.approx(488.0 + up, abs=0.02)
        assert twin.sample_of(batch, 0, world).accel_frd == tuple(batch.accel_frd[world].tolist())


def test_truth_at_rest() -> None:
    truth = twin_of(home=ZURICH).truth()
    assert truth.q_ned_frd == pytest.approx((1.0, 0.0, 0.0, 0.0), abs=1e-9)
    assert truth.accel_frd == pytest.approx((0.0, 0.0, -G))
    assert truth.rates_frd == truth.vel_ned == (0.0, 0.0, 0.0)
    assert (truth.lat_deg, truth.lon_deg) == pytest.approx((47.397742, 8.545594), abs=1e-9)


def test_height_is_above_the_start() -> None:
    twin = twin_of("px4_x500")
    assert twin.height_m == 0.0
    put(twin, height=10.0)
    assert twin.height_m == pytest.approx(10.0 - 0.22, abs=1e-3)


def test_bad_commands_are_counted_by_world_and_rotor() -> None:
    twin = twin_of(n=2)
    speeds = np.full((2, 4), 300.0)
    speeds[1, 2] = np.nan
    run(twin, 0.02, speeds)
    assert twin.bad_commands.tolist() == [[0] * 4, [0, 0, 5, 0]]
    assert np.isnan(speeds[1, 2])  # the caller's array is his


def test_a_command_beyond_what_rotors_can_do_is_limited() -> None:
    a, b = twin_of(), twin_of()
    run(a, 0.2, [-1e300, 1e300, 0.0, 1e9])
    run(b, 0.2, [0.0, 1100.0, 0.0, 1100.0])
    np.testing.assert_array_equal(states(a), states(b))


def test_a_date_decides_the_magnetic_field_and_the_fixes_time() -> None:
    later = datetime(2029, 6, 1, tzinfo=UTC)
    twins = [Twin(vehicle(), home=ZURICH, date=date) for date in (DATE, later)]
    fields = [np.mean(readings(run(twin, 1.0))["mag"], axis=0)[0] for twin in twins]
    assert np.abs(fields[0] - fields[1]).max() > 1e-3
    assert twins[0].step(ActuatorCommand(np.zeros((1, 4)))).accel_frd.shape == (1, 3)


# The model


@pytest.mark.parametrize("name", ["px4_iris", "px4_x500"])
def test_the_model_is_the_profile(name: str) -> None:
    params = vehicle(name)
    model = build_model(params)
    base = model.body("base")
    assert base.mass.item() == params.body.mass_kg
    assert base.inertia.tolist() == list(params.body.inertia_kg_m2)
    assert base.ipos.tolist() == [0.0, 0.0, 0.0]  # the body's origin is its centre of mass
    assert base.iquat.tolist() == [1.0, 0.0, 0.0, 0.0]
    assert model.body_mass.sum() == params.body.mass_kg
    assert model.opt.timestep == 0.002
    assert model.opt.gravity.tolist() == [0.0, 0.0, -params.environment.gravity_m_s2]
    assert (model.nq, model.nv, model.nu) == (7, 6, 8)
    for index, rotor in enumerate(params.propeller.rotors):
        site = model.site(f"rotor{index}")
        assert site.pos.tolist() == list(rotor.position_flu_m)
        for actuator, gear in ((index, [0, 0, 1, 0, 0, 0]), (4 + index, [0, 0, 0, 0, 0, 1])):
            assert model.actuator_trnid[actuator, 0] == site.id
            assert model.actuator_gear[actuator].tolist() == gear
    hull = model.geom("hull")
    assert hull.size.tolist() == list(params.body.collision_half_size_m)
    assert hull.pos.tolist() == list(params.body.collision_centre_flu_m)
    assert resting_height_m(params) == hull.size[2] - hull.pos[2]


# Parameters of the worlds


def test_the_nominal_parameters_are_the_vehicles() -> None:
    worlds = WorldParams.of(vehicle(), 3)
    assert worlds.n == 3
    assert worlds.mass_kg.tolist() == [[1.535]] * 3
    assert worlds.inertia_kg_m2.tolist() == [[0.029125, 0.029125, 0.055225]] * 3
    assert worlds.fall_time_constant_s.tolist() == [[0.025]] * 3
    changed = worlds.with_values(mass_kg=[[1.0], [2.0], [3.0]], max_speed_rad_s=900)
    assert changed.mass_kg.tolist() == [[1.0], [2.0], [3.0]]
    assert changed.max_speed_rad_s.tolist() == [[900.0]] * 3
    assert worlds.mass_kg.tolist() == [[1.535]] * 3


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"mass": 1.0}, "unknown parameter 'mass'; allowed: mass_kg, "),
        ({"mass_kg": [1.0, 2.0, 3.0]}, r"mass_kg: expected a shape that fits \(3, 1\), got \(3,\)"),
        ({"mass_kg": 0.0}, "mass_kg: expected finite values above 0"),
        ({"mass_kg": [[1.0], [np.nan], [1.0]]}, "mass_kg: expected finite"),
        ({"linear_drag_n_s_m": -0.1}, "linear_drag_n_s_m: expected finite values of at least 0"),
        ({"thrust_coefficient_n_s2": np.inf}, "thrust_coefficient_n_s2: expected finite"),
        ({"inertia_kg_m2": [0.01, 0.01, 0.03]}, "inertia_kg_m2: no body has one moment larger"),
    ],
)
def test_parameters_that_no_vehicle_has_are_refused(values, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        WorldParams.of(vehicle(), 3).with_values(**values)


def test_parameters_that_may_be_zero() -> None:
    WorldParams.of(vehicle(), 2).with_values(
        linear_drag_n_s_m=0, motor_inertia_kg_m2=0, rise_time_constant_s=0, fall_time_constant_s=0
    )
