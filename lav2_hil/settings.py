"""What a run is told on the command line, checked."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from bridge.endpoint import Endpoint, TcpOut, UdpOut, parse_endpoint
from bridge.signing import SigningKey
from firmware_profiles.errors import EndpointError, UsageError
from firmware_profiles.profile import VehicleProfile
from lav2_hil.companion.params import CompanionParams
from lav2_hil.faults import LOSING, AnyFault, Fault, worst_delay_s
from lav2_hil.vehicle_faults import VehicleFault, check_fits
from twin.environment import Home

DEFAULT_HOME = Home(47.397742, 8.545594, 488.0, 0.0)
"""PX4's own default: Zurich, Irchel."""
DEFAULT_DATE = datetime(2026, 6, 1, 12, tzinfo=UTC)
MQTT_PORT = 1883
RELIABLE_TIMEOUT_S = 0.5
DATAGRAM_TIMEOUT_S = 0.05


_NAME = re.compile(r"[a-z0-9_-]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """One run.

    Attributes:
        profile: the vehicle.
        endpoint: where the flight controller is.
        home: where the vehicle starts.
        date: UTC at the first tick.
        speed: simulated over wall time; 0 is as fast as it goes.
        seed: of all noise.
        duration_s: simulated seconds after which the run ends; None is never.
        system: system id that the flight controller is likely to have.
        answers_every_sensor: the flight controller answers every sensor from the first, as the built-in autopilot does.
        reply_timeout_s: None takes the default of the link's kind; 0 waits for ever.
        name: what the world calls this vehicle; None is the profile's name.
        command: that was given: run or sim.
        profile_source: the name or path that the flown profile was loaded from.
        record: whether the run is recorded.
        session_file: where; None makes a name in the working directory.
        faults: of the link and of the vehicle, on purpose.
        mqtt: the broker that the run is published to.
        ground: where ground stations are expected, to forward to.
        signing_key: that every frame must be signed with; None where frames are not signed.
        shadows: how many randomised worlds follow the twin.
        hitl: the flight controller is a board with a clock of its own, and the session free-running.
        mav_rate: MAV_x_RATE [B/s] that was set by hand on the board; None for PX4's default.
        true_profile: the vehicle that really flies, where it is not `profile`, which then is only the model of it.
        companion: the task of the arm's companion computer; None where there is none, and the arm is kept put away.
    """

    profile: VehicleProfile
    endpoint: Endpoint
    home: Home = DEFAULT_HOME
    date: datetime = DEFAULT_DATE
    speed: float = 1.0
    seed: int = 0
    duration_s: float | None = None
    reply_timeout_s: float | None = None
    system: int = 1
    answers_every_sensor: bool = False
    name: str | None = None
    command: str = "run"
    profile_source: str = ""
    record: bool = False
    session_file: Path | None = None
    faults: tuple[AnyFault, ...] = ()
    mqtt: TcpOut | None = None
    ground: tuple[UdpOut, ...] = ()
    signing_key: SigningKey | None = None
    shadows: int = 0
    hitl: bool = False
    mav_rate: int | None = None
    true_profile: VehicleProfile | None = None
    companion: CompanionParams | None = None

    def __post_init__(self) -> None:
        _check("--speed", self.speed, "0 (as fast as it goes) or a factor above 0")
        if self.hitl and self.speed != 1.0:
            raise UsageError(f"--speed {self.speed:g}: a board's time is the wall clock's, so the speed is 1")
        if self.duration_s is not None:
            _check("--duration", self.duration_s, "seconds of simulated time, 0 or more")
        if self.reply_timeout_s is not None:
            _check("--reply-timeout", self.reply_timeout_s, "milliseconds, or 0 to wait for ever")
        if not 0 <= self.seed < 2**64:
            raise UsageError(f"--seed {self.seed}: expected a whole number from 0 to 2^64 - 1")
        if self.name is not None and not _NAME.fullmatch(self.name):
            raise UsageError(f"--name {self.name!r}: expected lower-case letters, digits, _ and -")
        if self.mqtt is not None and not _NAME.fullmatch(self.vehicle_name):
            raise UsageError(f"--mqtt: the profile's name {self.vehicle_name!r} cannot go into a topic: give a --name")

        if self.shadows and self.profile.uncertainty.nothing:
            raise UsageError(
                f"--shadow: the profile {self.profile.name!r} has no [uncertainty]: all shadows are the same"
            )
        if self.shadows and self.companion is not None:
            raise UsageError("--shadow: the shadows cannot follow an arm that a companion computer moves")
        if self.true_profile is not None:
            _check_alike(self.profile, self.true_profile)
        for fault in self.vehicle_faults:
            check_fits(fault, self.flown)

    @property
    def flown(self) -> VehicleProfile:
        """The vehicle that really flies: the twin's."""
        return self.profile if self.true_profile is None else self.true_profile

    @property
    def link_faults(self) -> tuple[Fault, ...]:
        """The faults of the link."""
        return tuple(fault for fault in self.faults if isinstance(fault, Fault))

    @property
    def vehicle_faults(self) -> tuple[VehicleFault, ...]:
        """The faults of the vehicle."""
        return tuple(fault for fault in self.faults if isinstance(fault, VehicleFault))

    @property
    def fault_lines(self) -> tuple[str, ...]:
        """The faults, as a recording's header has them."""
        return tuple(map(str, self.faults))

    @property
    def vehicle_name(self) -> str:
        """What the world calls this vehicle."""
        return self.profile.name if self.name is None else self.name

    def reply_timeout_us(self, *, datagrams: bool) -> int:
        """The reply time-out for a link of this kind [us]."""
        if self.reply_timeout_s is None:
            loses = datagrams or any(fault.kind in LOSING for fault in self.faults)
            round_trip_s = 2 * worst_delay_s(self.faults)
            return round(1e6 * ((DATAGRAM_TIMEOUT_S if loses else RELIABLE_TIMEOUT_S) + round_trip_s))
        return math.ceil(1e6 * self.reply_timeout_s)


def _check(option: str, value: float, allowed: str) -> None:
    if not (math.isfinite(value) and value >= 0):
        raise UsageError(f"{option} {value:g}: expected {allowed}")


def _check_alike(model: VehicleProfile, true: VehicleProfile) -> None:
    """A model may be wrong about a vehicle, but not about what it consists of."""
    for what, of_model, of_true in (
        ("rotors", len(model.vehicle.rotors), len(true.vehicle.rotors)),
        ("wheels", _wheels(model), _wheels(true)),
        ("tilting arms", 2 * (model.vehicle.tilt is not None), 2 * (true.vehicle.tilt is not None)),
        ("joints of a manipulator", _joints(model), _joints(true)),
        ("IMU samples a second", model.vehicle.sensors.imu.rate_hz, true.vehicle.sensors.imu.rate_hz),
    ):
        if of_model != of_true:
            raise UsageError(
                f"--true-profile {true.name}: expected {of_model:g} {what} as {model.name} has, got {of_true:g}"
            )


def _wheels(profile: VehicleProfile) -> int:
    drive = profile.vehicle.ground_drive
    return 0 if drive is None else 2 * len(drive.wheel_x_m)


def _joints(profile: VehicleProfile) -> int:
    arm = profile.vehicle.arm
    return 0 if arm is None else len(arm.links)


def parse_home(text: str) -> Home:
    """`LAT,LON,ALT_AMSL[,HEADING]` in degrees and metres.

    Raises:
        UsageError: another form, or a place that cannot be.
    """
    try:
        numbers = [float(part) for part in text.split(",")]
        if len(numbers) not in (3, 4):
            raise ValueError
    except ValueError:
        raise UsageError(
            f"--home {text!r}: expected LAT,LON,ALT_AMSL[,HEADING] in degrees and metres, such as 47.4,8.55,488,90"
        ) from None
    return Home(*numbers)


def parse_broker(text: str) -> TcpOut:
    """`HOST[:PORT]` of an MQTT broker.

    Raises:
        UsageError: another form.
    """
    has_port = ":" in text.rpartition("]")[2]
    try:
        broker = parse_endpoint(f"tcp:{text}" if has_port else f"tcp:{text}:{MQTT_PORT}")
    except EndpointError:
        raise UsageError(
            f"--mqtt {text!r}: expected HOST[:PORT] such as localhost, 192.168.1.5:{MQTT_PORT} or [::1]:{MQTT_PORT}"
        ) from None
    assert isinstance(broker, TcpOut)
    return broker


def home_from_environment(environment: Mapping[str, str] = os.environ) -> Home:
    """PX4's own variables, PX4_HOME_LAT, _LON and _ALT; what is not set is PX4's default.

    Raises:
        UsageError: a value that is no number, or a place that cannot be; names the variable.
    """
    values = []
    for name, default in (
        ("PX4_HOME_LAT", DEFAULT_HOME.lat_deg),
        ("PX4_HOME_LON", DEFAULT_HOME.lon_deg),
        ("PX4_HOME_ALT", DEFAULT_HOME.alt_amsl_m),
    ):
        text = environment.get(name, "")
        try:
            values.append(float(text) if text else default)
        except ValueError:
            raise UsageError(f"{name}={text!r} in the environment: expected a number") from None
    return Home(*values)


def parse_date(text: str) -> datetime:
    """An ISO 8601 date or time; without a zone it is UTC.

    Raises:
        UsageError: another form.
    """
    try:
        date = datetime.fromisoformat(text)
    except ValueError:
        raise UsageError(f"--date {text!r}: expected an ISO 8601 time such as 2026-06-01T12:00:00Z") from None
    return date.replace(tzinfo=UTC) if date.tzinfo is None else date.astimezone(UTC)
