"""Parity with the published reference: WMM-2025, standard atmosphere, geodetic to local (goldens/environment.npz)."""

import json
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest

from twin.environment import (
    ISA_AIR_GAS_CONSTANT,
    LocalFrame,
    magnetic_field_ned_gauss,
    pressure_altitude_m,
    pressure_hpa_at,
    temperature_c_at,
)

GOLDENS = Path(__file__).parents[1] / "data" / "goldens"


@pytest.fixture(scope="module")
def golden() -> dict[str, np.ndarray]:
    with np.load(GOLDENS / "environment.npz") as arrays:
        return dict(arrays)


def test_golden_is_the_file_that_its_sidecar_describes(golden) -> None:
    described = json.loads((GOLDENS / "environment.json").read_text())["arrays"]
    assert {key: [list(value.shape), str(value.dtype)] for key, value in golden.items()} == described


def test_33_wmm_2025(golden) -> None:
    places = [golden[f"wmm_2026_06_01__{name}"] for name in ("lat_deg", "lon_deg", "alt_m")]
    date = datetime(2026, 6, 1, tzinfo=UTC)
    field = np.array([magnetic_field_ned_gauss(*place, date) for place in zip(*places, strict=True)])
    north, east, down = field.T
    expected = {name: golden[f"wmm_2026_06_01__{name}"] for name in ("declination_deg", "inclination_deg")}
    # Tolerances recommended by the reference: 1e-3 degrees, 1e-4 gauss.
    np.testing.assert_allclose(np.degrees(np.arctan2(east, north)), expected["declination_deg"], atol=1e-3)
    np.testing.assert_allclose(
        np.degrees(np.arctan2(down, np.hypot(north, east))), expected["inclination_deg"], atol=1e-3
    )
    np.testing.assert_allclose(np.linalg.norm(field, axis=1), golden["wmm_2026_06_01__strength_gauss"], atol=1e-4)
    np.testing.assert_allclose(field, golden["wmm_2026_06_01__field_ned_nT"] * 1e-5, atol=1e-7)


def test_standard_atmosphere_with_its_own_gas_constant(golden) -> None:
    alt_m, pressure_hpa = golden["isa__altitude_m"], golden["isa__pressure_pa"] / 100.0
    np.testing.assert_allclose(pressure_hpa_at(alt_m, gas_constant=ISA_AIR_GAS_CONSTANT), pressure_hpa, rtol=1e-9)
    np.testing.assert_allclose(
        pressure_altitude_m(pressure_hpa, gas_constant=ISA_AIR_GAS_CONSTANT),
        golden["isa__altitude_from_pressure_m"],
        rtol=1e-9,
        atol=1e-6,
    )
    np.testing.assert_allclose(temperature_c_at(alt_m) + 273.15, golden["isa__temperature_k"], rtol=1e-9)


def test_px4s_gas_constant_differs_from_the_standard_by_half_a_metre_at_3000_m(golden) -> None:
    alt_m = golden["isa__altitude_m"]
    difference = pressure_altitude_m(golden["isa__pressure_pa"] / 100.0) - alt_m
    assert difference[alt_m == 3000.0].item() == pytest.approx(0.4755, abs=1e-3)
    assert (np.diff(difference) > 0).all()


def test_local_frame(golden) -> None:
    for ref, points, ned in zip(
        golden["geodetic_local__ref"],
        golden["geodetic_local__point"],
        golden["geodetic_local__ned_wgs84"],
        strict=True,
    ):
        ours = LocalFrame(*ref).to_ned(*points.T)
        distance = np.hypot(ned[:, 0], ned[:, 1])
        # A plane laid on the ellipsoid. What is left: third order in distance / R; the meridian's changing radius, at
        # most 1.5 e^2 sin cos = 0.005 of distance^2 / R; distance x height / R. The plane does not drop by
        # distance^2 / 2R.
        radius = 6.335e6  # the smallest radius of curvature there is
        height = np.abs(points[:, 2] - ref[2])
        allowed = 1e-6 + 3.0 * distance**3 / radius**2 + (0.00502 * distance**2 + distance * height) / radius
        assert (np.hypot(ours[:, 0] - ned[:, 0], ours[:, 1] - ned[:, 1]) <= allowed).all()
        np.testing.assert_allclose(ours[:, 2] - ned[:, 2], -(distance**2) / (2 * 6.37e6), rtol=0.01, atol=1e-5)
        near = distance < 200.0
        assert near.sum() == 5
        np.testing.assert_allclose(ours[near, :2], ned[near, :2], atol=0.01)
