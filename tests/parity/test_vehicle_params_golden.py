"""Parity of a vehicle's derived values with the published vectors of mixer and normalised thrust."""

import math

import msgspec
import numpy as np
from dynamics_goldens import each, golden

from firmware_profiles.effects import Px4AlignedParams
from firmware_profiles.loader import load_profile
from firmware_profiles.profile import RotorParams

FILE = golden("lav2_mixer_and_drive")
IRIS = load_profile("px4_iris").vehicle
RTOL = FILE.tolerance("float64")["rtol"]


@each(FILE, "A", "rotor_xy", "spin_dir")
def test_allocation_matrix(case) -> None:
    rotors = tuple(
        RotorParams(position_flu_m=(x, y, 0.02), spin_dir=int(spin))
        for (x, y), spin in zip(case["rotor_xy"].tolist(), case["spin_dir"].tolist(), strict=True)
    )
    propeller = msgspec.structs.replace(
        IRIS.propeller,
        thrust_coefficient_n_s2=case.config["c_T"],
        torque_coefficient_nm_s2=case.config["c_M"],
        rotors=rotors,
    )
    vehicle = msgspec.structs.replace(IRIS, propeller=propeller)
    np.testing.assert_allclose(vehicle.derived.allocation_matrix, case["A"], rtol=RTOL)


@each(FILE, "f", "mass", "T_max", "c_T", "hover_throttle", "hover_rpm")
def test_hover_speed_and_throttle(case) -> None:
    environment = msgspec.structs.replace(IRIS.environment, gravity_m_s2=case.config["g"])
    rows = len(case["f"])
    got = np.full((rows, 3), np.inf)
    for row in range(rows):
        c_t = float(case["c_T"][row])
        propeller = msgspec.structs.replace(
            IRIS.propeller, thrust_coefficient_n_s2=c_t, max_speed_rad_s=math.sqrt(case["T_max"][row] / (4 * c_t))
        )
        vehicle = msgspec.structs.replace(
            IRIS,
            body=msgspec.structs.replace(IRIS.body, mass_kg=float(case["mass"][row])),
            propeller=propeller,
            environment=environment,
            px4=Px4AlignedParams(thrust_model_factor=float(case["f"][row])),
        )
        got[row] = vehicle.derived.hover_throttle, vehicle.derived.hover_rpm, vehicle.derived.max_thrust_n
    expected = np.stack((case["hover_throttle"], case["hover_rpm"], case["T_max"]), axis=1)
    np.testing.assert_allclose(got, expected, rtol=RTOL)
