"""The header of a session: all that is needed to build the same session state machine and twin again."""

from __future__ import annotations

import importlib.metadata
import platform
from datetime import UTC, datetime

import msgspec
import numpy as np

from bridge.free_running import FreeRunningSession
from bridge.hil import HilSession
from bridge.sessions import Session
from firmware_profiles.profile import VehicleProfile
from lav2_hil.actuator_map import ActuatorMap
from lav2_hil.companion.companion import Companion
from lav2_hil.companion.params import CompanionParams
from lav2_hil.session.rounding import ROUNDING, rounding_fingerprint
from lav2_hil.settings import Settings
from twin.environment import Home
from twin.twin import Twin

FORMAT = 1
"""Version of the session format: raised when an older reader would misunderstand a newer file."""

_PACKAGES = ("mujoco", "numpy", "pygeomag", "pymap3d", "pymavlink")
"""Whose versions may change a bit of the outcome; our own is what a replay puts to the test."""


class SessionParams(msgspec.Struct, frozen=True, kw_only=True):
    """What the session state machine was made with.

    With `hitl` it is a `FreeRunningSession`, which sends each `every`-th tick, and else a `HilSession`.
    """

    period_us: int
    datagrams: bool
    speaks_first: bool
    reply_timeout_us: int
    speed: float
    system: int
    answers_every_sensor: bool
    hitl: bool = False
    every: int = 1

    def make_session(self) -> Session:
        """The session state machine, as at the start."""
        if self.hitl:
            return FreeRunningSession(
                period_us=self.period_us, every=self.every, datagrams=self.datagrams, system=self.system
            )
        options = msgspec.structs.asdict(self)
        del options["hitl"], options["every"]
        return HilSession(**options)


class HomePosition(msgspec.Struct, frozen=True):
    """Where the vehicle started."""

    lat_deg: float
    lon_deg: float
    alt_amsl_m: float
    heading_deg: float


class Header(msgspec.Struct, frozen=True, kw_only=True):
    """What a session begins with.

    Attributes:
        format: `FORMAT` of the writer.
        name: of the vehicle, as it is told to the world.
        command: the command that recorded it: run, sim, import.
        started_utc: wall-clock time at `started_us`.
        started_us: the loop's monotonic clock at the start.
        profile: the vehicle that flew, with everything it inherits.
        model: what was believed of it, where that is another profile.
        profile_source: the name or path that it was loaded from.
        home, date, seed: of the twin.
        session: of the session state machine.
        endpoint: the link.
        faults: what was to be done to link and vehicle on purpose, one line each.
        signed: frames were signed on the wire; in the file are those that left before that, and good ones that came.
        versions: of Python and of the packages that may change a bit.
        lav2_hil: version of the recorder, for people.
        cpu_features: what NumPy uses of this processor, and a fingerprint of how the computer rounds.
        companion: the task of the companion computer, where there was one.
    """

    format: int
    name: str
    command: str
    started_utc: datetime
    started_us: int
    profile: VehicleProfile
    profile_source: str
    home: HomePosition
    date: datetime
    seed: int
    session: SessionParams
    endpoint: str
    faults: tuple[str, ...] = ()
    signed: bool = False
    versions: dict[str, str] = {}
    lav2_hil: str = ""
    cpu_features: tuple[str, ...] = ()
    model: VehicleProfile | None = None
    companion: CompanionParams | None = None

    def make_session(self) -> Session:
        """The session state machine, as at the start."""
        return self.session.make_session()

    def make_twin(self, profile: VehicleProfile | None = None) -> Twin:
        """The twin, as at the start; of another profile if one is given."""
        vehicle = (profile or self.profile).vehicle
        home = Home(*msgspec.structs.astuple(self.home))
        return Twin(vehicle, home=home, date=self.date, seed=self.seed)

    def make_actuators(self, profile: VehicleProfile | None = None) -> ActuatorMap:
        """The actuator map."""
        return ActuatorMap((profile or self.profile).firmware)

    def make_companion(self, profile: VehicleProfile | None = None) -> Companion | None:
        """The companion computer, as at the start; it believes in the model, where there is one."""
        if self.companion is None:
            return None
        return Companion(self.companion, (self.model or profile or self.profile).vehicle, self.session.system)


def session_params(settings: Settings, *, datagrams: bool, speaks_first: bool, every: int = 1) -> SessionParams:
    """The session's parameters for these settings on a link of this kind, which carries each so manieth tick."""
    return SessionParams(
        period_us=settings.profile.vehicle.step_dt_us,
        datagrams=datagrams,
        speaks_first=speaks_first,
        reply_timeout_us=settings.reply_timeout_us(datagrams=datagrams),
        speed=settings.speed,
        system=settings.system,
        answers_every_sensor=settings.answers_every_sensor,
        hitl=settings.hitl,
        every=every,
    )


def make_header(
    settings: Settings,
    session: SessionParams,
    *,
    name: str,
    command: str,
    profile_source: str,
    endpoint: str,
    started_us: int,
    faults: tuple[str, ...] = (),
    signed: bool = False,
) -> Header:
    """The header of a run that starts now."""
    home = settings.home
    return Header(
        format=FORMAT,
        name=name,
        command=command,
        started_utc=datetime.now(UTC),
        started_us=started_us,
        profile=settings.flown,
        model=None if settings.true_profile is None else settings.profile,
        profile_source=profile_source,
        home=HomePosition(home.lat_deg, home.lon_deg, home.alt_amsl_m, home.heading_deg),
        date=settings.date,
        seed=settings.seed,
        session=session,
        endpoint=endpoint,
        faults=faults,
        signed=signed,
        versions=versions(),
        lav2_hil=importlib.metadata.version("lav2-hil"),
        cpu_features=cpu_features(),
        companion=settings.companion,
    )


def versions() -> dict[str, str]:
    """Versions of Python and of the packages that may change a bit of the outcome."""
    return {"python": platform.python_version()} | {name: importlib.metadata.version(name) for name in _PACKAGES}


def cpu_features() -> tuple[str, ...]:
    """What NumPy uses of this processor, after its kind, and a fingerprint of what it makes of it."""
    simd = np.show_config(mode="dicts")["SIMD Extensions"]
    return (platform.machine(), *simd["baseline"], *simd.get("found", ()), f"{ROUNDING}{rounding_fingerprint()}")
