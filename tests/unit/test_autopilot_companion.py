"""A companion computer on the autopilot's simulator link: what it hears there, and how it is handed the vehicle."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pytest
from autopilot_rig import Bench
from pymavlink.dialects.v20 import common

from bridge.codec import Decoder, Encoder, Message
from bridge.hil_messages import SensorEncoder, hil_gps
from firmware_profiles.loader import load_profile
from firmware_profiles.signals import ActuatorCommand
from lav2_hil.autopilot.autopilot import Autopilot
from lav2_hil.autopilot.ground_station import GroundStationService
from lav2_hil.autopilot.mission import MissionRunner
from lav2_hil.autopilot.modes import Landed, Mode
from lav2_hil.autopilot.telemetry import Telemetry
from lav2_hil.autopilot.vehicle import Vehicle
from twin.environment import Home
from twin.twin import Twin

PROFILE = load_profile("lav2")
BEAT = common.MAVLink_heartbeat_message(18, 8, 0, 0, 4, 3)


def decoded(message: Message, component: int = 191, system: int = 1) -> Message:
    (heard,) = Decoder().feed(Encoder(system, component).encode(message))
    return heard


def at_rest(seconds: float) -> Iterator[Message]:
    """What the simulator sends of a vehicle that stands."""
    twin = Twin(PROFILE.vehicle, home=Home(47.4, 8.5, 488.0), date=datetime(2026, 6, 1, tzinfo=UTC))
    sensors, still = SensorEncoder(), ActuatorCommand(np.zeros((1, 4)))
    for tick in range(round(seconds * 250)):
        sample = twin.sample_of(twin.step(still), 1_000_000 + tick * twin.tick_us)
        if sample.gps is not None:
            yield decoded(hil_gps(sample.gps), component=200)
        yield decoded(sensors.hil_sensor(sample), component=200)


def says(autopilot: Autopilot, seconds: float, *first: Message) -> list[list[Message]]:
    """All that it sends, a list for each message that it was given."""
    for message in first:
        autopilot.simulator_message(message)
    decoder = Decoder()
    return [decoder.feed(autopilot.simulator_message(message) or b"") for message in at_rest(seconds)]


def test_alone_with_the_simulator_it_answers_sensors_and_says_nothing_else() -> None:
    kinds = {message.get_type() for said in says(Autopilot(PROFILE, 1), 3.0) for message in said}
    assert kinds == {"HIL_ACTUATOR_CONTROLS"}
    beat_of_the_simulator = decoded(BEAT, component=200)
    said = says(Autopilot(PROFILE, 1), 3.0, beat_of_the_simulator)
    assert {message.get_type() for part in said for message in part} == {"HIL_ACTUATOR_CONTROLS"}


def test_a_companion_hears_its_heartbeat_once_a_second_in_front_of_an_answer() -> None:
    said = says(Autopilot(PROFILE, 1), 4.0, decoded(BEAT))
    beats = [part for part in said if any(message.get_type() == "HEARTBEAT" for message in part)]
    assert 3 <= len(beats) <= 5
    assert all([message.get_type() for message in part] == ["HEARTBEAT", "HIL_ACTUATOR_CONTROLS"] for part in beats)
    assert beats[0][0].custom_mode == Mode.HOLD.custom_mode


def test_commands_of_a_companion_are_answered_on_its_link() -> None:
    command = common.MAVLink_command_long_message(1, 1, common.MAV_CMD_COMPONENT_ARM_DISARM, 0, 1, 0, 0, 0, 0, 0, 0)
    (answer,) = Decoder().feed(Autopilot(PROFILE, 1).simulator_message(decoded(command)) or b"")
    assert (answer.get_type(), answer.target_component) == ("COMMAND_ACK", 191)
    assert Autopilot(PROFILE, 1).simulator_message(decoded(BEAT)) is None


# Handing the vehicle over


def fly(each: Callable[[Bench, float], None], within_s: float = 20.0) -> tuple[str | None, Bench]:
    """Up, hand over, and whatever the companion does: called with the time in offboard mode, at 50 Hz."""
    bench = Bench()
    offboard_s = 0.0

    async def mission(vehicle: Any) -> None:
        await vehicle.arm()
        await vehicle.take_off(2.0)
        await vehicle.hand_over(within_s)

    runner = MissionRunner(mission, Vehicle(bench.commander, lambda _: None))
    while not runner.done:
        bench.run(0.02)
        if bench.commander.mode is Mode.OFFBOARD:
            offboard_s += 0.02
        each(bench, offboard_s)
        runner.tick()
        assert bench.commander.time_us < 100e6, "the mission never ends"
    return runner.failure, bench


def stream(bench: Bench) -> None:
    bench.commander.offboard_position((1.0, 0.0, -2.0), 0.0)


def test_handed_over_and_given_back() -> None:
    def each(bench: Bench, offboard_s: float) -> None:
        stream(bench)
        if offboard_s > 5.0:
            bench.commander.set_mode(Mode.HOLD)

    failure, bench = fly(each)
    assert failure is None
    assert bench.commander.landed is Landed.IN_AIR
    assert bench.commander.reference.position[0] == pytest.approx(1.0, abs=0.3)


def test_nobody_to_hand_over_to() -> None:
    failure, _ = fly(lambda bench, offboard_s: None)
    assert failure == "no companion computer sends set-points"


def test_a_companion_that_falls_silent() -> None:
    def each(bench: Bench, offboard_s: float) -> None:
        if offboard_s < 3.0:
            stream(bench)

    failure, bench = fly(each)
    assert failure == "companion: no set-points any more"
    assert bench.commander.mode is Mode.HOLD


def test_a_companion_that_takes_too_long() -> None:
    failure, bench = fly(lambda bench, offboard_s: stream(bench), within_s=5.0)
    assert failure == "companion computer: not done within 5 s"
    assert bench.commander.mode is Mode.HOLD


def test_a_companion_that_failed_says_why_and_the_next_one_starts_afresh() -> None:
    def each(bench: Bench, offboard_s: float) -> None:
        stream(bench)
        if offboard_s > 2.0:
            ground = GroundStationService(bench.commander, Telemetry(bench.commander))
            system = bench.commander.system
            ground.handle(decoded(common.MAVLink_statustext_message(3, b"no wall"), system=system))
            bench.commander.set_mode(Mode.HOLD)

    failure, bench = fly(each)
    assert failure == "companion: no wall"
    assert (3, "companion: no wall") in bench.commander.texts
    stream(bench)
    bench.commander.set_mode(Mode.OFFBOARD)
    assert bench.commander.offboard_failure is None


def test_what_others_say_and_what_is_no_error_is_no_failure() -> None:
    bench = Bench()
    ground = GroundStationService(bench.commander, Telemetry(bench.commander))
    system = bench.commander.system
    ground.handle(decoded(common.MAVLink_statustext_message(3, b"elsewhere"), system=system + 1))
    ground.handle(decoded(common.MAVLink_statustext_message(6, b"going well"), system=system))
    assert bench.commander.offboard_failure is None
