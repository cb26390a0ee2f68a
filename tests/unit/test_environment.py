"""Atmosphere, magnetic field and the local frame, against PX4's law, NOAA's published values and pymap3d."""

from datetime import UTC, datetime, timedelta, timezone

import numpy as np
import pymap3d
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from firmware_profiles.errors import UsageError
from firmware_profiles.profile import MagnetometerParams
from twin.environment import (
    Home,
    LocalFrame,
    magnetic_field_ned_gauss,
    pressure_altitude_m,
    pressure_hpa_at,
    temperature_c_at,
)
from twin.sensors.magnetometer import Magnetometer

F32 = np.float32


def px4_v1_12_altitude_m(abs_pressure_hpa: np.float32) -> float:
    """PX4 v1.12, src/modules/sensors/vehicle_air_data/VehicleAirData.cpp, in its own single precision (kPa)."""
    kpa, qnh_kpa = abs_pressure_hpa * F32(0.1), F32(1013.25) * F32(0.1)
    t1, a, r, g = F32(288.15), F32(-6.5) / F32(1000), F32(287.1), F32(9.80665)
    return float((((kpa / qnh_kpa) ** (-(a * r) / g)) * t1 - t1) / a)


def px4_v1_17_altitude_m(abs_pressure_hpa: np.float32) -> float:
    """PX4 v1.17, src/lib/atmosphere/atmosphere.cpp, in its own single precision (Pa)."""
    pa, qnh_pa = abs_pressure_hpa * F32(100), F32(1013.25) * F32(100)
    t1, a, r, g = F32(288.15), F32(-6.5) / F32(1000), F32(287.1), F32(9.80665)
    return float((((pa / qnh_pa) ** (-(a * r) / g)) * t1 - t1) / a)


@pytest.mark.parametrize("px4", [px4_v1_12_altitude_m, px4_v1_17_altitude_m])
@pytest.mark.parametrize("alt_m", [0.0, 488.0, 3000.0])
def test_px4_finds_the_gps_altitude_in_our_pressure(px4, alt_m: float) -> None:
    # 0.5 m is the requirement; single precision alone costs up to 0.02 m.
    assert px4(F32(pressure_hpa_at(alt_m))) == pytest.approx(alt_m, abs=0.05)


@given(st.floats(-500.0, 11_000.0))
@settings(deadline=None)
def test_pressure_altitude_inverts_pressure(alt_m: float) -> None:
    assert pressure_altitude_m(pressure_hpa_at(alt_m)) == pytest.approx(alt_m, abs=1e-8)


def test_atmosphere_at_sea_level_and_with_height() -> None:
    alt_m = np.linspace(-500.0, 11_000.0, 100)
    assert pressure_hpa_at(0.0) == 1013.25
    assert (np.diff(pressure_hpa_at(alt_m)) < 0).all()
    np.testing.assert_allclose(temperature_c_at(alt_m), 15.0 - 0.0065 * alt_m, atol=1e-12)
    # Hydrostatic balance dp/dh = -rho g with rho = p / (R T), which the formula does not contain as such.
    slope = (pressure_hpa_at(1000.5) - pressure_hpa_at(999.5)) / 1.0
    density_hpa = pressure_hpa_at(1000.0) / (287.1 * (273.15 + temperature_c_at(1000.0)))
    assert slope == pytest.approx(-density_hpa * 9.80665, rel=1e-7)


def test_a_diverged_height_gives_finite_numbers() -> None:
    pressure = pressure_hpa_at(np.array([1e6, 44_400.0]))
    np.testing.assert_array_equal(pressure, 0.0)
    assert np.isfinite(pressure_altitude_m(pressure - 0.1)).all()


NOAA_WMM_2025_TEST_VALUES = [
    # decimal year, height [km], latitude, longitude, north, east, down [nT]: WMM2025_TEST_VALUES.txt
    (2025.0, 0.0, 80.0, 0.0, 6521.6, 145.9, 54791.5),
    (2025.0, 0.0, 0.0, 120.0, 39677.8, -109.6, -10580.2),
    (2025.0, 0.0, -80.0, 240.0, 6117.5, 15751.9, -52022.5),
    (2025.0, 100.0, 80.0, 0.0, 6216.0, 92.4, 52598.8),
    (2025.0, 100.0, 0.0, 120.0, 37688.6, -96.2, -10152.1),
    (2025.0, 100.0, -80.0, 240.0, 5907.6, 14780.3, -49540.7),
    (2027.5, 0.0, 80.0, 0.0, 6500.8, 294.5, 54869.4),
    (2027.5, 0.0, 0.0, 120.0, 39701.6, -167.4, -10381.8),
    (2027.5, 0.0, -80.0, 240.0, 6200.7, 15730.3, -51783.7),
    (2027.5, 100.0, 80.0, 0.0, 6196.7, 233.8, 52670.5),
    (2027.5, 100.0, 0.0, 120.0, 37711.5, -148.7, -9969.8),
    (2027.5, 100.0, -80.0, 240.0, 5984.0, 14760.1, -49317.7),
]


@pytest.mark.parametrize("row", NOAA_WMM_2025_TEST_VALUES)
def test_33_field_equals_noaa_test_values(row: tuple) -> None:
    year, height_km, lat, lon, *field_nt = row
    start = datetime(int(year), 1, 1, tzinfo=UTC)
    date = start + (datetime(int(year) + 1, 1, 1, tzinfo=UTC) - start) * (year % 1)
    field = magnetic_field_ned_gauss(lat, lon, 1e3 * height_km, date)
    np.testing.assert_allclose(field * 1e5, field_nt, atol=0.06)  # they are printed to 0.1 nT


PX4_TABLE = [
    # latitude, longitude, declination and inclination [1e-4 rad], strength [1e-4 gauss]: PX4 v1.14,
    # src/lib/world_magnetic_model/geo_magnetic_tables.hpp (WMM-2020 at 2023.6), the field that its EKF2 expects.
    (50, 180, 436, 10802, 4832),
    (50, -180, 436, 10802, 4832),
    (0, 180, 1746, -911, 3412),
    (-20, -180, 2353, -7373, 4320),
    (-50, 180, 5505, -12493, 5840),
    (40, -80, -1602, 11588, 5155),
    (-30, 20, -3847, -11384, 2602),
    (60, 20, 1431, 12796, 5203),
    (50, 10, 660, 11493, 4911),
    (-40, 150, 2645, -12203, 6031),
    (20, 80, -54, 5259, 4468),
    (-70, -30, -250, -10489, 3767),
]
DATE = datetime(2025, 1, 2, tzinfo=UTC)


@pytest.mark.parametrize("row", PX4_TABLE, ids=lambda row: f"{row[0]},{row[1]}")
def test_33_field_is_the_one_px4_expects(row: tuple) -> None:
    lat, lon, declination, inclination, strength = row
    north, east, down = magnetic_field_ned_gauss(lat, lon, 0.0, DATE)
    assert np.degrees(np.arctan2(east, north)) == pytest.approx(np.degrees(declination * 1e-4), abs=1.0)
    assert np.degrees(np.arctan2(down, np.hypot(north, east))) == pytest.approx(np.degrees(inclination * 1e-4), abs=1.0)
    assert np.linalg.norm([north, east, down]) == pytest.approx(strength * 1e-4, rel=0.02)


@pytest.mark.parametrize("heading_deg", [0.0, 90.0, 200.0])
@pytest.mark.parametrize("row", PX4_TABLE, ids=lambda row: f"{row[0]},{row[1]}")
def test_33_yaw_from_the_simulated_magnetometer_is_true_heading(row: tuple, heading_deg: float) -> None:
    lat, lon, declination, *_ = row
    yaw = np.radians(heading_deg)
    frd_from_ned = np.array([[np.cos(yaw), np.sin(yaw), 0], [-np.sin(yaw), np.cos(yaw), 0], [0, 0, 1]])
    mag_frd = (frd_from_ned @ magnetic_field_ned_gauss(lat, lon, 0.0, DATE))[None]
    sensor = Magnetometer(MagnetometerParams(rate_hz=50, noise_gauss=0.001), tick_us=20_000, seed=1, worlds=[0])
    x, y, _ = np.mean([sensor.sample(tick, mag_frd)[0] for tick in range(50)], axis=0)
    measured = np.degrees(declination * 1e-4 - np.arctan2(y, x))  # PX4: declination minus the field's bearing
    assert (measured - heading_deg + 180) % 360 - 180 == pytest.approx(0.0, abs=2.0)


def test_field_is_continuous_over_the_date_line_and_takes_any_turn() -> None:
    at = [magnetic_field_ned_gauss(-17.0, lon, 0.0, DATE) for lon in (180.0, -180.0, 540.0)]
    np.testing.assert_allclose(at[1], at[0], atol=1e-12)
    np.testing.assert_allclose(at[2], at[0], atol=1e-12)
    near = [magnetic_field_ned_gauss(-17.0, lon, 0.0, DATE) for lon in (179.999, -179.999)]
    np.testing.assert_allclose(near[1], near[0], atol=1e-5)


def test_field_takes_the_moment_not_the_wall_clock_reading() -> None:
    utc = datetime(2026, 6, 1, 12, tzinfo=UTC)
    elsewhere = utc.astimezone(timezone(timedelta(hours=9)))
    naive = utc.replace(tzinfo=None)
    for other in (elsewhere, naive):
        np.testing.assert_array_equal(
            magnetic_field_ned_gauss(47, 8, 0, other), magnetic_field_ned_gauss(47, 8, 0, utc)
        )


def test_a_cached_field_cannot_be_spoilt() -> None:
    with pytest.raises(ValueError, match="read-only"):
        magnetic_field_ned_gauss(47, 8, 0, DATE)[0] = 0.0


@pytest.mark.parametrize("year", [2024, 2031])
def test_a_date_outside_the_model_is_refused(year: int) -> None:
    with pytest.raises(UsageError, match=f"{year}-06-01; allowed: 2025-01-01 to 2030-01-01"):
        magnetic_field_ned_gauss(47, 8, 0, datetime(year, 6, 1, tzinfo=UTC))


@pytest.mark.parametrize(("lat", "lon", "alt_m"), [(90.5, 0, 0), (np.nan, 0, 0), (0, np.inf, 0), (0, 0, -2000)])
def test_a_place_that_is_not_on_the_globe_is_refused(lat: float, lon: float, alt_m: float) -> None:
    with pytest.raises(UsageError, match="allowed"):
        magnetic_field_ned_gauss(lat, lon, alt_m, DATE)


ring = st.tuples(st.floats(0, 200), st.floats(0, 360)).map(
    lambda polar: (polar[0] * np.cos(np.radians(polar[1])), polar[0] * np.sin(np.radians(polar[1])))
)
latitudes = st.floats(-80, 80)
longitudes = st.sampled_from([-180.0, -179.9995, -105.27, 0.0, 8.545594, 179.9999, 180.0])


@given(latitudes, longitudes, ring, st.floats(-100, 200))
@settings(deadline=None, max_examples=300)
def test_local_frame_agrees_with_the_ellipsoid_within_a_centimetre(lat, lon, north_east, up) -> None:
    pos_ned = np.array([[*north_east, -up]])
    there = LocalFrame(lat, lon, 488.0).to_geodetic(pos_ned)
    north, east, _ = pymap3d.geodetic2ned(*there, lat, lon, 488.0)
    assert np.hypot(north - pos_ned[0, 0], east - pos_ned[0, 1]) < 0.01


@given(latitudes, longitudes, ring, st.floats(-100, 1000), st.floats(1, 50))
@settings(deadline=None, max_examples=300)
def test_local_frame_is_its_own_inverse(lat, lon, north_east, up, scale) -> None:
    pos_ned = np.array([[scale * north_east[0], scale * north_east[1], -up]])  # up to 10 km
    frame = LocalFrame(lat, lon, 3.0)
    lat_deg, lon_deg, alt_amsl_m = frame.to_geodetic(pos_ned)
    assert (np.abs(lon_deg) <= 180.0).all()
    # A longitude of 180 degrees is resolved to 2.8e-14 degrees, 3 nm.
    np.testing.assert_allclose(frame.to_ned(lat_deg, lon_deg, alt_amsl_m), pos_ned, atol=5e-8)


def test_local_frame_is_flat_at_home_and_wraps_at_the_date_line() -> None:
    frame = LocalFrame(-17.0, 179.9999, 100.0)
    lat, lon, alt = frame.to_geodetic(np.array([[0, 0, 0], [0, 50, 0], [5000.0, 0, -30]]))
    np.testing.assert_allclose(lat[:2], -17.0, atol=1e-8)
    assert lon[0] == pytest.approx(179.9999, abs=1e-12)
    assert -180.0 <= lon[1] < -179.999
    np.testing.assert_allclose(alt, [100.0, 100.0, 130.0])  # a plane: no drop of 2 m after 5 km
    np.testing.assert_allclose(frame.to_ned(lat, lon, alt)[1], [0, 50, 0], atol=1e-8)


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ((89.5, 0, 0, 0), "lat_deg = 89.5 is not possible; allowed: -89 to 89"),
        ((0, 181, 0, 0), "lon_deg"),
        ((0, 0, 20_000, 0), "alt_amsl_m = 20000 is not possible; allowed: -500 to 10,000"),
        ((0, 0, 0, 400), "heading_deg"),
        ((float("nan"), 0, 0, 0), "lat_deg = nan"),
    ],
)
def test_an_impossible_home_is_refused(values: tuple, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        Home(*values)


def test_local_frame_refuses_the_pole() -> None:
    with pytest.raises(UsageError, match="lat_deg"):
        LocalFrame(90.0, 0.0, 0.0)
