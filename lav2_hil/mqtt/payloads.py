"""What is published, and where: the source of `docs/mqtt.md`."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Final, Literal, NamedTuple

import msgspec

SCHEMA: Final = 1
"""Version of all payloads: raised when a field changes its meaning or goes. New fields and topics may come with any."""

Vec = tuple[float, float, float]
_doc = msgspec.Meta


class Payload(msgspec.Struct, frozen=True, kw_only=True):
    """What every payload has."""

    schema: Annotated[Literal[1], _doc(description="version of the payloads")] = SCHEMA
    t_us: Annotated[int, _doc(description="simulated time of the newest tick; 0 before the first [us]")]


class State(Payload, frozen=True, kw_only=True):
    """Whether somebody publishes; `lost` is the last will."""

    state: Literal["online", "offline", "lost"]
    writer: Annotated[str, _doc(description="of this run and no other")]
    started_utc: Annotated[datetime, _doc(description="of two that publish under one name the older stays")]


class Info(Payload, frozen=True, kw_only=True):
    """What runs."""

    profile: str
    description: str
    endpoint: str
    seed: int
    versions: dict[str, str]


class Health(Payload, frozen=True, kw_only=True):
    """How it runs."""

    link: Annotated[str, _doc(description="waiting, calling, paced, lockstep or free-running")]
    link_text: str
    rtf: Annotated[float, _doc(description="simulated over wall time, over the last second")]
    timeouts: Annotated[int, _doc(description="answers that did not come in time")]
    drops: Annotated[int, _doc(description="frames that were bad, lost or not taken by the link")]
    mqtt_published: Annotated[int, _doc(description="messages that the broker took")]
    mqtt_dropped: Annotated[int, _doc(description="messages that gave way to newer ones")]
    mqtt_connects: int


class Attitude(Payload, frozen=True, kw_only=True):
    """True attitude."""

    q_wxyz: Annotated[tuple[float, float, float, float], _doc(description="takes FRD body vectors to NED")]
    rates_frd: Annotated[Vec, _doc(description="[rad/s]")]


class Position(Payload, frozen=True, kw_only=True):
    """True position."""

    lat_deg: float
    lon_deg: float
    alt_amsl_m: float
    pos_ned: Annotated[Vec, _doc(description="from home [m]")]
    vel_ned: Annotated[Vec, _doc(description="[m/s]")]


class Actuators(Payload, frozen=True, kw_only=True):
    """What the flight controller asks for, before the gate."""

    armed: bool
    controls: Annotated[
        tuple[float | None, ...],
        _doc(min_length=16, max_length=16, description="raw channels; null is not a finite number"),
    ]


class Shadow(Payload, frozen=True, kw_only=True):
    """Where the vehicle is among its shadows: worlds with randomised parameters under the same commands."""

    n: Annotated[int, _doc(description="shadows")]
    channels: Annotated[
        dict[str, dict[str, float]],
        _doc(
            description="of each channel the shadows' 5, 50 and 95 % quantiles (p05, p50, p95), the vehicle itself "
            "(live) and the share of the shadows below it (rank); units are in the names, frames are ZYX Euler and NED"
        ),
    ]


class Event(Payload, frozen=True, kw_only=True):
    """Something a person should know."""

    name: str
    level: Literal["debug", "info", "warning", "error", "critical"]
    text: str


class Topic(NamedTuple):
    """How a topic is published; `each`: messages wait in order instead of giving way to the newest."""

    payload: type[Payload]
    when: str
    qos: int = 0
    retain: bool = False
    each: bool = False


TOPICS = {
    "state": Topic(State, "on every change; last will", qos=1, retain=True),
    "info": Topic(Info, "on connect", qos=1, retain=True),
    "health": Topic(Health, "once a second", qos=1, retain=True),
    "telemetry/attitude": Topic(Attitude, "10 Hz"),
    "telemetry/position": Topic(Position, "10 Hz"),
    "telemetry/actuators": Topic(Actuators, "10 Hz, once the flight controller has sent any"),
    "twin/shadow": Topic(Shadow, "10 times a simulated second, with `--shadow`"),
    "event": Topic(Event, "as it happens", qos=1, each=True),
}
"""Below `lav2/<vehicle>/`."""
