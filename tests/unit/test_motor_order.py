"""Report 37: raise motor i alone, and the vehicle must begin to roll, pitch and yaw as PX4's geometry says.

The geometry is PX4's own: CA_ROTORi_PX, _PY, _KM (ROMFS/px4fmu_common/init.d/airframes/<number>_*), with the defaults
that it leaves out. Signs are those of FRD: roll right, pitch up and yaw clockwise are positive.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from twin_rig import put, twin_of

from firmware_profiles.loader import load_profile
from firmware_profiles.profile import VehicleProfile
from firmware_profiles.signals import CHANNELS, HilControls
from lav2_hil.actuator_map import ActuatorMap

Geometry = tuple[tuple[float, float, float], ...]

QUAD_X: Geometry = ((1, 1, 0.05), (-1, -1, 0.05), (1, -1, -0.05), (-1, 1, -0.05))  # 4001_quad_x, and HIL's 1001
HEXA_X: Geometry = (  # 6001_hexa_x
    (0, 0.5, -0.05), (0, -0.5, 0.05), (0.43, -0.25, -0.05),
    (-0.43, 0.25, 0.05), (0.43, 0.25, 0.05), (-0.43, -0.25, -0.05),
)  # fmt: skip
OCTO_X: Geometry = (  # 8001_octo_x
    (0.46, 0.19, -0.05), (-0.46, -0.19, -0.05), (0.19, 0.46, 0.05), (-0.46, 0.19, 0.05),
    (0.46, -0.19, 0.05), (-0.19, -0.46, 0.05), (0.19, -0.46, -0.05), (-0.19, 0.46, -0.05),
)  # fmt: skip


def signs_of(geometry: Geometry) -> np.ndarray:
    """(R, 3) what PX4's effectiveness expects of each motor: p x a - km a with a = (0, 0, -1), in FRD."""
    position = np.array([(x, y, 0.0) for x, y, _ in geometry])
    up, km = np.array([0.0, 0.0, -1.0]), np.array([row[2] for row in geometry])
    return np.sign(np.round(np.cross(position, up) - km[:, None] * up, 9))


def profile_of(geometry: Geometry, directory: Path) -> VehicleProfile:
    """The Iris with other rotors: FRD to FLU, and a rotor that PX4 calls counter-clockwise (KM > 0) has spin -1."""
    rotors = ", ".join(
        f"{{ position_flu_m = [{0.3 * x}, {-0.3 * y}, 0.02], spin_dir = {-1 if km > 0 else 1} }}"
        for x, y, km in geometry
    )
    outputs = ", ".join(
        f"{{ channel = {i}, rotor = {i}, speed_range_rad_s = [100.0, 1100.0] }}" for i in range(len(geometry))
    )
    file = directory / "multirotor.toml"
    file.write_text(
        f'extends = "px4_iris"\n[vehicle.propeller]\nrotors = [{rotors}]\n[firmware]\nrotor_outputs = [{outputs}]\n'
    )
    return load_profile(str(file))


def seen_signs(profile: VehicleProfile) -> np.ndarray:
    """(R, 3) what the twin does when each channel in turn is raised above the others, in the air."""
    actuators, count = ActuatorMap(profile.firmware), len(profile.vehicle.rotors)
    rows = []
    for motor in range(count):
        twin = put(twin_of(profile.vehicle), height=50.0, rotors=profile.vehicle.hover_speed_rad_s())
        channels = [0.5] * count + [0.0] * (CHANNELS - count)
        channels[motor] = 0.8
        told = actuators.command(HilControls(tuple(channels), armed=True, time_us=0))
        twin._actuation.rotors.speed_rad_s[:] = (
            told.rotor_speed
        )  # the steady state: spinning up, reaction would be larger
        for _ in range(5):
            twin.move(told)
        rates = np.array(twin.truth().rates_frd)
        rows.append(np.where(np.abs(rates) > 1e-4, np.sign(rates), 0.0))
    return np.array(rows)


@pytest.mark.parametrize("name", ["px4_iris", "px4_x500", "lav2"])
def test_37_each_motor_of_a_quadrotor_in_x(name: str) -> None:
    expected = [(-1, 1, 1), (1, -1, 1), (1, 1, -1), (-1, -1, -1)]  # roll, pitch, yaw of motors 1 to 4
    assert signs_of(QUAD_X).tolist() == [list(row) for row in expected]
    assert seen_signs(load_profile(name)).tolist() == [list(row) for row in expected]


@pytest.mark.parametrize("geometry", [HEXA_X, OCTO_X], ids=["hexa x", "octo x"])
def test_37_each_motor_of_a_hexarotor_and_an_octorotor(geometry: Geometry, tmp_path: Path) -> None:
    seen = seen_signs(profile_of(geometry, tmp_path))
    assert seen.tolist() == signs_of(geometry).tolist()
    assert len({tuple(row) for row in seen.tolist()}) > 2
