"""Missions: coroutines that run on simulated time, inside the autopilot.

A mission is `async def mission(vehicle: Vehicle) -> None`. What it awaits are the vehicle's own actions; they give
control back once a tick. There is no event loop behind it: the autopilot resumes the mission at every tick, so that the
same sensor readings always give the same mission.
"""

from __future__ import annotations

import importlib
import logging
import pkgutil
from collections.abc import Awaitable, Callable, Coroutine, Generator
from typing import TYPE_CHECKING, Any

from firmware_profiles.errors import UsageError

if TYPE_CHECKING:
    from lav2_hil.autopilot.vehicle import Vehicle

logger = logging.getLogger("lav2_hil")

Mission = Callable[["Vehicle"], Coroutine[Any, Any, None]]


class MissionFailedError(Exception):
    """The mission cannot go on; says why."""


class NextTick(Awaitable[None]):
    """Awaited, gives control back until the next tick."""

    def __await__(self) -> Generator[None, None, None]:
        yield


class MissionRunner:
    """Runs one mission, a tick at a time.

    Attributes:
        done: it has ended.
        failure: why it failed; None while it runs and when it succeeded.
    """

    def __init__(self, mission: Mission, vehicle: Vehicle) -> None:
        self._coroutine = mission(vehicle)
        self.done = False
        self.failure: str | None = None

    def tick(self) -> None:
        """Resume the mission until it awaits the next tick."""
        if self.done:
            return
        try:
            self._coroutine.send(None)
        except StopIteration:
            self.done = True
        except MissionFailedError as error:
            self.done = True
            self.failure = str(error)
        except Exception as error:  # a mission is somebody's script: its errors end it, not the autopilot
            logger.exception("the mission broke down")
            self.done = True
            self.failure = f"{type(error).__name__}: {error}"

    def close(self) -> None:
        """End a mission that is still running."""
        self._coroutine.close()


def mission_names() -> list[str]:
    """The missions that come with the package: the modules of `lav2_hil.autopilot.missions`."""
    missions = importlib.import_module("lav2_hil.autopilot.missions")
    return sorted(module.name for module in pkgutil.iter_modules(missions.__path__))


def companion_task(name: str) -> str | None:
    """The task of the companion computer that a mission needs, its module's COMPANION; None for a mission without."""
    task: str | None = getattr(importlib.import_module(f"lav2_hil.autopilot.missions.{name}"), "COMPANION", None)
    return task


def load_mission(name: str) -> Mission:
    """The mission of a name.

    Raises:
        UsageError: there is none; lists those that exist.
    """
    if name not in mission_names():
        raise UsageError(f"unknown mission {name!r}; there are: {', '.join(mission_names())}")
    mission: Mission = importlib.import_module(f"lav2_hil.autopilot.missions.{name}").mission
    return mission
