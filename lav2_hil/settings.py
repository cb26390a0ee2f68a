"""What a run is told on the command line, checked."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from bridge.endpoint import Endpoint
from firmware_profiles.errors import UsageError
from firmware_profiles.profile import VehicleProfile
from twin.environment import Home

DEFAULT_HOME = Home(47.397742, 8.545594, 488.0, 0.0)
"""PX4's own default: Zurich, Irchel."""
DEFAULT_DATE = datetime(2026, 6, 1, 12, tzinfo=UTC)
RELIABLE_TIMEOUT_S = 0.5
DATAGRAM_TIMEOUT_S = 0.05


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

    def __post_init__(self) -> None:
        _check("--speed", self.speed, "0 (as fast as it goes) or a factor above 0")
        if self.duration_s is not None:
            _check("--duration", self.duration_s, "seconds of simulated time, 0 or more")
        if self.reply_timeout_s is not None:
            _check("--reply-timeout", self.reply_timeout_s, "milliseconds, or 0 to wait for ever")
        if not 0 <= self.seed < 2**64:
            raise UsageError(f"--seed {self.seed}: expected a whole number from 0 to 2^64 - 1")

    def reply_timeout_us(self, *, datagrams: bool) -> int:
        """The reply time-out for a link of this kind [us]."""
        if self.reply_timeout_s is None:
            return round(1e6 * (DATAGRAM_TIMEOUT_S if datagrams else RELIABLE_TIMEOUT_S))
        return math.ceil(1e6 * self.reply_timeout_s)


def _check(option: str, value: float, allowed: str) -> None:
    if not (math.isfinite(value) and value >= 0):
        raise UsageError(f"{option} {value:g}: expected {allowed}")


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
