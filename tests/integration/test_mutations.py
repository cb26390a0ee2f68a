"""One sign or one pair of rotors wrong in the twin, the autopilot unchanged: the demo mission must not pass.

Whoever turns an axis round in both the twin and the autopilot would fly on without noticing; whoever turns it round in
one of them must not.
"""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Callable
from typing import Any

import pytest
from scripted_fc import spare_port

from bridge.endpoint import parse_endpoint
from firmware_profiles.loader import load_profile
from firmware_profiles.signals import BaroSample, SensorSample, Vec3
from lav2_hil.exitcodes import ExitCode
from lav2_hil.settings import DEFAULT_HOME, Settings
from lav2_hil.sim import Simulation
from twin.environment import Home, pressure_hpa_at

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]

INSTANCE = 23
Mutation = Callable[[SensorSample], SensorSample]

replace = dataclasses.replace


def flipped(vector: Vec3, axis: int) -> Vec3:
    values = list(vector)
    values[axis] = -values[axis]
    return values[0], values[1], values[2]


def accelerometer(axis: int) -> Mutation:
    return lambda sample: replace(sample, accel_frd=flipped(sample.accel_frd, axis))


def gyroscope(axis: int) -> Mutation:
    return lambda sample: replace(sample, gyro_frd=flipped(sample.gyro_frd, axis))


def magnetometer(axis: int) -> Mutation:
    def mutate(sample: SensorSample) -> SensorSample:
        field = sample.mag_frd_gauss
        return sample if field is None else replace(sample, mag_frd_gauss=flipped(field, axis))

    return mutate


def gps_velocity(axis: int) -> Mutation:
    def mutate(sample: SensorSample) -> SensorSample:
        fix = sample.gps
        return sample if fix is None else replace(sample, gps=replace(fix, vel_ned=flipped(fix.vel_ned, axis)))

    return mutate


def barometer(sample: SensorSample) -> SensorSample:
    """Right at home, and falling where it should rise."""
    if sample.baro is None:
        return sample
    altitude = 2.0 * DEFAULT_HOME.alt_amsl_m - sample.baro.pressure_alt_m
    return replace(sample, baro=BaroSample(float(pressure_hpa_at(altitude)), altitude, sample.baro.temperature_c))


SENSORS: dict[str, Mutation] = {
    **{f"accelerometer {name}": accelerometer(axis) for axis, name in enumerate("xyz")},
    **{f"gyroscope {name}": gyroscope(axis) for axis, name in enumerate("xyz")},
    **{f"magnetometer {name}": magnetometer(axis) for axis, name in enumerate("xyz")},
    "barometer": barometer,
    **{f"GPS velocity {name}": gps_velocity(axis) for axis, name in enumerate("ned")},
}
ROTORS = {"rotors 1 and 2 in each other's place": (1, 0, 3, 2), "rotors 1 and 3 in each other's place": (2, 1, 0, 3)}


async def fly(name: str, heading_deg: float) -> tuple[ExitCode, dict[str, Any]]:
    """The demo mission with one thing wrong in what the twin gives or takes."""
    home = Home(DEFAULT_HOME.lat_deg, DEFAULT_HOME.lon_deg, DEFAULT_HOME.alt_amsl_m, heading_deg)
    settings = Settings(
        profile=load_profile("lav2"),
        endpoint=parse_endpoint(f"tcpin:127.0.0.1:{spare_port()}"),
        home=home,
        speed=0.0,
        seed=1,
        duration_s=150.0,
    )
    simulation = Simulation(settings, "lav2", INSTANCE, "demo")
    service = simulation._service
    if name in ROTORS:
        actuators = service.loop._actuators
        actuators._outputs = tuple(actuators._outputs[rotor] for rotor in ROTORS[name])
    elif name in SENSORS:
        right, mutate = service.twin.sample_of, SENSORS[name]
        service.twin.sample_of = lambda *args, **kw: mutate(right(*args, **kw))  # type: ignore[method-assign]
    return await simulation.run()


def check(name: str, heading_deg: float) -> None:
    exit_code, summary = asyncio.run(fly(name, heading_deg))
    print(name, heading_deg, int(exit_code), summary["problems"], f"{summary['simulated_s']:.0f} s")
    assert exit_code is ExitCode.FAILED_VERDICT
    assert summary["problems"]
    assert "None" not in summary["problems"][0]  # the cause is named


@pytest.mark.parametrize("heading_deg", [0.0, 135.0])
def test_with_nothing_wrong_the_mission_passes(heading_deg: float) -> None:
    exit_code, summary = asyncio.run(fly("nothing", heading_deg))
    assert summary["problems"] == []
    assert exit_code is ExitCode.OK
    assert summary["mission_state"] == "done"
    assert summary["max_height_m"] > 4.5


@pytest.mark.parametrize("name", [*SENSORS, *ROTORS])
def test_one_thing_wrong_fails_the_mission(name: str) -> None:
    check(name, 0.0)


@pytest.mark.parametrize("name", ["magnetometer x", "GPS velocity n"])
def test_it_fails_facing_south_east_too(name: str) -> None:
    check(name, 135.0)


@pytest.mark.long
@pytest.mark.parametrize("name", [*SENSORS, *ROTORS])
def test_every_one_fails_facing_south_east(name: str) -> None:
    check(name, 135.0)


def test_the_mutations_change_what_they_say() -> None:
    sample = SensorSample(0, (1.0, 2.0, 3.0), (4.0, 5.0, 6.0), (7.0, 8.0, 9.0), BaroSample(950.0, 498.0, 15.0), None)
    assert SENSORS["accelerometer y"](sample).accel_frd == (1.0, -2.0, 3.0)
    assert SENSORS["gyroscope z"](sample).gyro_frd == (4.0, 5.0, -6.0)
    assert SENSORS["magnetometer x"](sample).mag_frd_gauss == (-7.0, 8.0, 9.0)
    lower = SENSORS["barometer"](sample).baro
    assert lower is not None
    assert lower.pressure_alt_m == pytest.approx(478.0)
    assert lower.pressure_hpa > 950.0
    assert sample.gps is None
    assert SENSORS["GPS velocity d"](sample) == sample
