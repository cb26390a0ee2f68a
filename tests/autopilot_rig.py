"""The autopilot's commander without sensors and physics: the vehicle is where the set-point is, above a floor."""

from __future__ import annotations

import math
from typing import Any

from bridge.codec import Decoder, Encoder, Message
from firmware_profiles.loader import load_profile
from lav2_hil.autopilot.commander import Commander
from lav2_hil.autopilot.estimator import EstimatedState
from lav2_hil.autopilot.ground_station import GroundStationService
from lav2_hil.autopilot.modes import Landed, Mode, Result
from lav2_hil.autopilot.parameters import Parameters
from lav2_hil.autopilot.telemetry import Telemetry
from lav2_hil.autopilot.vehicle_control import VehicleControl

TICK_S = 0.004
HOME = (47.397742, 8.545594, 488.0)
SYSTEM = 3
GROUND_STATION = (255, 190)


def state_of(
    pos: tuple[float, float, float] = (0.0, 0.0, 0.0),
    vel: tuple[float, float, float] = (0.0, 0.0, 0.0),
    *,
    yaw: float = 0.0,
    roll: float = 0.0,
    rates: tuple[float, float, float] = (0.0, 0.0, 0.0),
) -> EstimatedState:
    cy, sy, cr, sr = math.cos(yaw / 2), math.sin(yaw / 2), math.cos(roll / 2), math.sin(roll / 2)
    return EstimatedState(pos, vel, (cy * cr, cy * sr, sy * sr, sy * cr), rates, (0.0, 0.0, 0.0), -pos[2])


class StubEstimator:
    """Knows what it is told."""

    def __init__(self) -> None:
        self.ready = True
        self.faults: list[str] = []
        self.refusals: list[str] = []
        self.home: tuple[float, float, float] | None = HOME
        self._state = state_of()

    @property
    def state(self) -> EstimatedState:
        if not self.ready:
            raise RuntimeError("the estimator is not ready: there is no state yet")
        return self._state

    @state.setter
    def state(self, value: EstimatedState) -> None:
        self._state = value

    def arming_faults(self) -> list[str]:
        return self.refusals if self.ready else ["no GPS"]


class StubControl:
    """Says by its controls what it was asked for: 0.5 flies, 0.1 stands."""

    has_rotors = has_wheels = True
    has_arms = False
    flight_fault = drive_fault = None

    def __init__(self) -> None:
        self.driven: tuple[float, float] | None = None
        self.yaw_ned = math.nan

    def reset(self) -> None:
        self.driven = None

    def disarmed(self) -> list[float]:
        return [0.0] * 16

    def fly(self, state: Any, position: Any, yaw_ned: float) -> list[float]:
        self.yaw_ned = yaw_ned
        return [0.5] * 16

    def stand(self, state: Any) -> list[float]:
        return [0.1] * 16

    def drive(self, speed: float, yaw: float) -> None:
        self.driven = (speed, yaw)

    def stop_wheels(self) -> None:
        self.driven = None

    def set_wheels(self, left: float, right: float) -> bool:
        return True


class Bench:
    """A commander with its ground station service, and time.

    Args:
        profile: with the real control of this vehicle, instead of a stub.
    """

    def __init__(self, profile: str | None = None) -> None:
        self.estimator = StubEstimator()
        self.control = StubControl() if profile is None else VehicleControl(load_profile(profile), TICK_S)
        self.commander = Commander(self.estimator, self.control, Parameters(SYSTEM), SYSTEM, TICK_S)  # type: ignore[arg-type]
        self.telemetry = Telemetry(self.commander)
        self.service = GroundStationService(self.commander, self.telemetry)
        self.controls = [0.0] * 16
        self.run(TICK_S)

    def run(self, seconds: float) -> None:
        """Let time pass; in the air the vehicle follows its set-point exactly."""
        for _ in range(round(seconds / TICK_S)):
            commander = self.commander
            commander.time_us += 4000
            if self.estimator.ready and commander.flying:
                north, east, down = commander.reference.position
                before, now = self.estimator.state.pos_ned, (north, east, min(down, 0.0))
                vel = tuple((b - a) / TICK_S for a, b in zip(before, now, strict=True))
                self.estimator.state = state_of(now, vel)
            self.controls = commander.tick()

    def fly(self, height_m: float = 5.0) -> None:
        """Arm and take off."""
        assert self.commander.arm() is Result.ACCEPTED
        assert self.commander.take_off(height_m) is Result.ACCEPTED
        self.run(4.0 + height_m)
        assert self.commander.landed is Landed.IN_AIR
        assert self.commander.mode is Mode.HOLD

    def ask(self, message: Message, sender: tuple[int, int] = GROUND_STATION) -> list[Message]:
        """Send a message over the wire, and give the answers as they come back over it."""
        (heard,) = Decoder().feed(Encoder(*sender).encode(message))
        return over_the_wire(self.service.handle(heard))

    def told(self) -> list[str]:
        """Texts for the ground since the last call."""
        texts, self.commander.texts = self.commander.texts, []
        return [text for _, text in texts]


def over_the_wire(messages: list[Message]) -> list[Message]:
    encoder, decoder = Encoder(SYSTEM, 1), Decoder()
    return [heard for message in messages for heard in decoder.feed(encoder.encode(message))]
