"""Report 43: a changed mass reaches the controller that goes by the profile, the twin and the session's header."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest
from autopilot_rig import state_of
from twin_rig import G, put, twin_of

from bridge.endpoint import parse_endpoint
from firmware_profiles.loader import load_profile
from firmware_profiles.profile import VehicleProfile
from firmware_profiles.signals import ActuatorCommand, HilControls
from lav2_hil.actuator_map import ActuatorMap
from lav2_hil.autopilot.vehicle_control import VehicleControl
from lav2_hil.session.header import Header, make_header, session_params
from lav2_hil.settings import Settings

LIGHT = load_profile("px4_iris")
POSITION = (0.0, 0.0, -50.0)


def heavier(profile: VehicleProfile, by_kg: float = 0.5) -> VehicleProfile:
    vehicle = profile.vehicle
    body = msgspec.structs.replace(vehicle.body, mass_kg=vehicle.body.mass_kg + by_kg)
    return msgspec.structs.replace(profile, vehicle=msgspec.structs.replace(vehicle, body=body))


HEAVY = heavier(LIGHT)


def rotor_speeds(believed: VehicleProfile) -> np.ndarray:
    """(1, R) what a controller that believes in a profile tells the rotors at rest at its set-point [rad/s]."""
    vehicle = believed.vehicle
    controls = VehicleControl(believed, vehicle.step_dt_s).fly(state_of(POSITION), POSITION, 0.0)
    told = ActuatorMap(believed.firmware).command(HilControls(tuple(controls), armed=True, time_us=0))
    return told.rotor_speed


@pytest.mark.parametrize("believed", [LIGHT, HEAVY], ids=["light", "heavy"])
@pytest.mark.parametrize("flown", [LIGHT, HEAVY], ids=["light", "heavy"])
def test_43_a_controller_carries_the_mass_that_its_profile_says(
    believed: VehicleProfile, flown: VehicleProfile
) -> None:
    speeds = rotor_speeds(believed)
    twin = put(twin_of(flown.vehicle), height=-POSITION[2], rotors=speeds)
    for _ in range(10):
        twin.move(ActuatorCommand(speeds))
    lifted = believed.vehicle.total_mass_kg / flown.vehicle.total_mass_kg - 1.0
    climb = twin._engine.vel_enu[0, 2] / (10 * flown.vehicle.step_dt_s)
    assert climb == pytest.approx(lifted * G, abs=0.02)


def header_of(settings: Settings) -> Header:
    session = session_params(settings, datagrams=False, speaks_first=False)
    header = make_header(
        settings, session, name="x", command="run", profile_source="mine.toml", endpoint="memory:x", started_us=0
    )
    return msgspec.json.decode(msgspec.json.encode(header), type=Header)


def test_43_the_header_holds_the_mass_that_flies() -> None:
    settings = Settings(profile=HEAVY, endpoint=parse_endpoint("tcpin:127.0.0.1:1"))
    header = header_of(settings)
    assert header.profile.vehicle.body.mass_kg == pytest.approx(2.035)
    assert header.make_twin()._engine._batch.expand("body_mass").sum() == pytest.approx(2.035)
    assert header.model is None


def test_43_a_mass_that_nobody_was_told_of_is_in_the_header_beside_what_was_believed() -> None:
    settings = Settings(profile=LIGHT, true_profile=HEAVY, endpoint=parse_endpoint("tcpin:127.0.0.1:1"))
    header = header_of(settings)
    assert header.profile.vehicle.body.mass_kg == pytest.approx(2.035)
    assert header.model is not None
    assert header.model.vehicle.body.mass_kg == pytest.approx(1.535)
