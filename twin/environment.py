"""The world around the vehicle: atmosphere, magnetic field, and where on the globe it stands.

One height reference holds for all of it: height above mean sea level, with the geoid taken as the WGS-84 ellipsoid.
Pressure, GNSS altitude and local z therefore agree.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from typing import TYPE_CHECKING, overload

import numpy as np
from pygeomag import GeoMag
from pygeomag.wmm.wmm_2025 import WMM_2025
from pymap3d import rcurve

from firmware_profiles.errors import UsageError

if TYPE_CHECKING:
    import numpy.typing as npt

    FloatArray = npt.NDArray[np.float64]

QNH_HPA = 1013.25
SEA_LEVEL_TEMPERATURE_K = 288.15
LAPSE_K_PER_M = -6.5e-3
STANDARD_GRAVITY_M_S2 = 9.80665
PX4_AIR_GAS_CONSTANT = 287.1
"""What PX4 uses [J/(kg K)]: CONSTANTS_AIR_GAS_CONST in src/lib/geo/geo.h, the same in v1.12 and v1.17."""
ISA_AIR_GAS_CONSTANT = 287.05287
"""ISO 2533 [J/(kg K)]. A world built on it would look 0.48 m too high to PX4 at 3,000 m (0.50 m with 287.05)."""
_ZERO_CELSIUS_K = 273.15
WMM_YEARS = (2025.0, 2030.0)
"""Decimal years for which WMM-2025 is valid."""
_MAX_LATITUDE_DEG = 89.0
_INVERSE_ROUNDS = 3


@overload
def pressure_hpa_at(alt_amsl_m: float, *, gas_constant: float = ...) -> float: ...
@overload
def pressure_hpa_at(alt_amsl_m: FloatArray, *, gas_constant: float = ...) -> FloatArray: ...
def pressure_hpa_at(
    alt_amsl_m: float | FloatArray, *, gas_constant: float = PX4_AIR_GAS_CONSTANT
) -> float | FloatArray:
    """Static pressure at a height above mean sea level [m], in hPa; zero where this atmosphere has ended (44.3 km).

    It is the inverse of PX4's pressure altitude at QNH 1013.25 hPa (getPressureFromAltitude, src/lib/atmosphere/
    atmosphere.cpp), applied to the height directly, so that PX4's barometer altitude is the GNSS altitude.
    """
    warmth = np.maximum(1.0 + (LAPSE_K_PER_M / SEA_LEVEL_TEMPERATURE_K) * alt_amsl_m, 0.0)
    pressure: float | FloatArray = QNH_HPA * warmth ** (-STANDARD_GRAVITY_M_S2 / (LAPSE_K_PER_M * gas_constant))
    return pressure


@overload
def pressure_altitude_m(pressure_hpa: float, *, gas_constant: float = ...) -> float: ...
@overload
def pressure_altitude_m(pressure_hpa: FloatArray, *, gas_constant: float = ...) -> FloatArray: ...
def pressure_altitude_m(
    pressure_hpa: float | FloatArray, *, gas_constant: float = PX4_AIR_GAS_CONSTANT
) -> float | FloatArray:
    """PX4's altitude [m AMSL] for a static pressure [hPa] at QNH 1013.25 hPa; a negative pressure counts as zero.

    Source: getAltitudeFromPressure, src/lib/atmosphere/atmosphere.cpp (v1.17); the same law and constants stand in
    src/modules/sensors/vehicle_air_data/VehicleAirData.cpp (v1.12).
    """
    ratio = np.maximum(pressure_hpa, 0.0) / QNH_HPA
    warmth = ratio ** (-(LAPSE_K_PER_M * gas_constant) / STANDARD_GRAVITY_M_S2)
    altitude: float | FloatArray = (warmth - 1.0) * (SEA_LEVEL_TEMPERATURE_K / LAPSE_K_PER_M)
    return altitude


@overload
def temperature_c_at(alt_amsl_m: float) -> float: ...
@overload
def temperature_c_at(alt_amsl_m: FloatArray) -> FloatArray: ...
def temperature_c_at(alt_amsl_m: float | FloatArray) -> float | FloatArray:
    """Air temperature at a height above mean sea level [m], in degrees C: 15 at sea level, 6.5 less each kilometre."""
    return (SEA_LEVEL_TEMPERATURE_K - _ZERO_CELSIUS_K) + LAPSE_K_PER_M * alt_amsl_m


def magnetic_field_ned_gauss(lat_deg: float, lon_deg: float, alt_m: float, date: datetime) -> FloatArray:
    """The Earth's magnetic field by the World Magnetic Model WMM-2025.

    Args:
        lat_deg: WGS-84 latitude, -90..90 [degrees].
        lon_deg: longitude [degrees], any turn.
        alt_m: height above the ellipsoid or mean sea level, -1 to 850 km [m].
        date: when; without a time zone it is UTC.

    Returns:
        (3,) field in NED [gauss], read-only: it is cached.

    Raises:
        UsageError: the place is not on the globe or the date is outside the model's years.
    """
    if not -90.0 <= lat_deg <= 90.0 or not math.isfinite(lon_deg):
        raise UsageError(f"no magnetic field at latitude {lat_deg}, longitude {lon_deg}; allowed: latitude -90..90")
    if not -1e3 <= alt_m <= 850e3:
        raise UsageError(f"no magnetic field at {alt_m:g} m; allowed: -1,000..850,000 m")
    year = _decimal_year(date)
    first, last = WMM_YEARS
    if not first <= year <= last:
        raise UsageError(
            f"the magnetic model WMM-2025 does not cover {date:%Y-%m-%d}; "
            f"allowed: {first:.0f}-01-01 to {last:.0f}-01-01"
        )
    return _wmm_2025(float(lat_deg), _wrapped_lon_deg(lon_deg), float(alt_m), year)


def _decimal_year(date: datetime) -> float:
    utc = date.replace(tzinfo=UTC) if date.tzinfo is None else date.astimezone(UTC)
    start = datetime(utc.year, 1, 1, tzinfo=UTC)
    end = datetime(utc.year + 1, 1, 1, tzinfo=UTC)
    return utc.year + (utc - start) / (end - start)


@lru_cache(maxsize=1024)
def _wmm_2025(lat_deg: float, lon_deg: float, alt_m: float, year: float) -> FloatArray:
    model = GeoMag(coefficients_data=WMM_2025)  # its own each time: it computes in place, so it is not thread-safe
    result = model.calculate(glat=lat_deg, glon=lon_deg, alt=1e-3 * alt_m, time=year)
    field = np.array([result.x, result.y, result.z]) * 1e-5  # nT to gauss
    field.flags.writeable = False
    return field


def _wrapped_lon_deg(lon_deg: float) -> float:
    return (lon_deg + 180.0) % 360.0 - 180.0


@dataclass(frozen=True, slots=True)
class Home:
    """Where the vehicle starts.

    Attributes:
        lat_deg: WGS-84 latitude, -89..89 [degrees]; a flat local frame has no meaning at the poles.
        lon_deg: longitude, -180..180 [degrees].
        alt_amsl_m: height above mean sea level, -500..10,000 [m].
        heading_deg: where the nose points, clockwise from true north, -360..360 [degrees].

    Raises:
        UsageError: a value is outside its range.
    """

    lat_deg: float
    lon_deg: float
    alt_amsl_m: float
    heading_deg: float = 0.0

    def __post_init__(self) -> None:
        for name, low, high in (
            ("lat_deg", -_MAX_LATITUDE_DEG, _MAX_LATITUDE_DEG),
            ("lon_deg", -180.0, 180.0),
            ("alt_amsl_m", -500.0, 10_000.0),
            ("heading_deg", -360.0, 360.0),
        ):
            value = getattr(self, name)
            if not low <= value <= high:  # NaN too
                raise UsageError(f"home {name} = {value} is not possible; allowed: {low:,.0f} to {high:,.0f}")


class LocalFrame:
    """A flat local world, north-east-down at home, and its place on the WGS-84 ellipsoid.

    The world is a plane: altitude is home's altitude plus up, and distances do not grow with height. North and east
    follow the ellipsoid's radii of curvature at home, and the meridians converge (without that the error is 2 cm at
    200 m from home at 80 degrees of latitude). What is left of the horizontal error against the exact tangent plane, up
    to 80 degrees of latitude: 0.1 mm at 200 m, 4 cm at 5 km, and distance x height / 6,400 km.
    PX4's own local frame is another: a sphere of 6,371,000 m, 0.5 % off in distance at worst.

    Args:
        lat_deg: home's latitude, -89..89 [degrees].
        lon_deg: home's longitude, -180..180 [degrees].
        alt_amsl_m: home's height above mean sea level, -500..10,000 [m].

    Raises:
        UsageError: home is outside these ranges.
    """

    __slots__ = ("_bend", "_deg_per_m_north", "_lon_from_date_line_deg", "_m_per_deg_east", "_narrowing", "home")

    def __init__(self, lat_deg: float, lon_deg: float, alt_amsl_m: float) -> None:
        self.home = Home(lat_deg, lon_deg, alt_amsl_m)
        lat = math.radians(lat_deg)
        transverse_m = float(rcurve.transverse(lat_deg)) + alt_amsl_m
        self._deg_per_m_north = math.degrees(1.0) / (float(rcurve.meridian(lat_deg)) + alt_amsl_m)
        self._m_per_deg_east = math.radians(transverse_m * math.cos(lat))
        self._narrowing = math.radians(math.sin(lat))  # of a degree of longitude, per metre north
        self._bend = math.tan(lat) / (2.0 * transverse_m)  # how far a straight line east leaves its parallel
        self._lon_from_date_line_deg = lon_deg + 180.0

    def to_geodetic(self, pos_ned: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Where positions are on the globe.

        Args:
            pos_ned: (N, 3) relative to home [m].

        Returns:
            Latitude [degrees], longitude [degrees, -180..180] and height above mean sea level [m], each (N,).
        """
        north, east, down = pos_ned.T
        lat_deg = (north - self._bend * east * east) * self._deg_per_m_north + self.home.lat_deg
        turn_deg = east / (self._m_per_deg_east - self._narrowing * north)
        lon_deg = (turn_deg + self._lon_from_date_line_deg) % 360.0 - 180.0
        return lat_deg, lon_deg, self.home.alt_amsl_m - down

    def to_ned(self, lat_deg: FloatArray, lon_deg: FloatArray, alt_amsl_m: FloatArray) -> FloatArray:
        """The inverse of `to_geodetic`: positions relative to home, (N, 3) [m], from three arrays (N,)."""
        turn_deg = (lon_deg - self.home.lon_deg + 180.0) % 360.0 - 180.0
        along = (lat_deg - self.home.lat_deg) / self._deg_per_m_north
        north = along
        for _ in range(_INVERSE_ROUNDS):  # each round gains a factor of (distance / radius * tan lat)^2
            east = turn_deg * (self._m_per_deg_east - self._narrowing * north)
            north = along + self._bend * east * east
        east = turn_deg * (self._m_per_deg_east - self._narrowing * north)
        return np.stack((north, east, self.home.alt_amsl_m - alt_amsl_m), axis=-1)
