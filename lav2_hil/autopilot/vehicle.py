"""What a mission can do with the vehicle: actions that are awaited, on simulated time."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from pymavlink.dialects.v20 import common

from lav2_hil.autopilot.mission import MissionFailedError, NextTick
from lav2_hil.autopilot.modes import Landed, Mode, Result

if TYPE_CHECKING:
    from collections.abc import Callable

    from lav2_hil.autopilot.commander import Commander
    from lav2_hil.autopilot.transformation import Configuration

STILL_S = 3.0
"""A set-point that has stood still for so long is one that the vehicle must have reached."""


class Vehicle:
    """The mission's hands and eyes; what it sees is the autopilot's own estimate.

    Args:
        commander: does what the mission wants.
        report: is given what should be told outside, as a dictionary that JSON can hold.

    Attributes:
        worst_error_m: largest distance from a set-point that had stood still for over 3 s.
    """

    def __init__(self, commander: Commander, report: Callable[[dict[str, Any]], None]) -> None:
        self._commander = commander
        self._report = report
        self.worst_error_m = 0.0
        self._still_since_us: int | None = None

    @property
    def can_fly(self) -> bool:
        """Whether it has rotors."""
        return self._commander.has_rotors

    @property
    def can_drive(self) -> bool:
        """Whether it has wheels."""
        return self._commander.has_wheels

    @property
    def can_transform(self) -> bool:
        """Whether it must transform between flight and driving."""
        return self._commander.has_arms

    # Actions

    async def arm(self, within_s: float = 30.0) -> None:
        """Arm as soon as the autopilot allows it."""
        self.say("waiting to arm")
        await self._until(lambda: not self._commander.arming_faults(), within_s, self._why_not_armed)
        if self._commander.arm() != Result.ACCEPTED:
            raise MissionFailedError(f"arming refused: {self._why_not_armed()}")

    async def take_off(self, height_m: float) -> None:
        """Climb from the ground to a height above home."""
        what = f"take-off to {height_m:g} m"
        self.say(what)
        if self._commander.take_off(height_m) != Result.ACCEPTED:
            raise MissionFailedError(f"take-off refused: {self._commander.flight_fault or 'no estimate'}")
        within_s = 10.0 + 2.0 * height_m
        await self._until(lambda: self._commander.landed is Landed.IN_AIR, within_s, _too_long(what, within_s))

    async def go_to(self, north_m: float, east_m: float, height_m: float) -> None:
        """Fly straight to a position relative to home; back once the set-point is there."""
        commander, what = self._commander, f"fly to {north_m:g} m north, {east_m:g} m east"
        if not commander.flying:
            raise MissionFailedError(f"cannot {what}: the vehicle is not in the air")
        self.say(what)
        goal = (north_m, east_m, -height_m)
        within_s = 60.0 + 2.0 * math.dist(commander.reference.position, goal) / commander.parameters["MPC_XY_CRUISE"]
        commander.go_to(goal)
        await self._until(lambda: not commander.reference.moving, within_s, _too_long(what, within_s))

    async def hold(self, seconds: float) -> None:
        """Let time pass."""
        until_us = self._commander.time_us + round(seconds * 1e6)
        await self._until(lambda: self._commander.time_us >= until_us, seconds + 1.0, lambda: "hold: time stands still")

    async def hand_over(self, within_s: float) -> None:
        """Let a companion computer fly by its set-points; back when it has given the vehicle back.

        Args:
            within_s: what it is given for it, after that the vehicle is taken back.
        """
        commander = self._commander
        self.say("wait for a companion computer")
        await self._until(lambda: commander.set_points_come, 10.0, lambda: "no companion computer sends set-points")
        if commander.set_mode(Mode.OFFBOARD) != Result.ACCEPTED:
            raise MissionFailedError("hand over: offboard mode refused")
        self.say("hand over to the companion computer")
        try:
            await self._until(
                lambda: commander.mode is not Mode.OFFBOARD, within_s, _too_long("companion computer", within_s)
            )
        finally:
            if commander.mode is Mode.OFFBOARD:
                commander.hold()
        if commander.offboard_failure is not None:
            raise MissionFailedError(f"companion: {commander.offboard_failure}")
        self.say("back from the companion computer")

    async def land(self) -> None:
        """Come down; back when on the ground."""
        self.say("land")
        commander = self._commander
        within_s = 60.0 + 4.0 * max(0.0, -commander.reference.position[2])
        commander.land()
        await self._until(lambda: commander.landed is Landed.ON_GROUND, within_s, _too_long("land", within_s))
        commander.hold()

    async def transform(self, goal: Configuration, within_s: float = 20.0) -> None:
        """On the ground, tilt the arms to fly or to drive; back when they are there."""
        commander, what = self._commander, f"transform to {goal}"
        self.say(what)
        if commander.transform(goal) != Result.ACCEPTED:
            raise MissionFailedError(f"cannot {what}: {'not armed on the ground' if commander.has_arms else 'no arms'}")

        def there() -> bool:
            return (commander.flight_fault if goal == "flight" else commander.drive_fault) is None

        await self._until(there, within_s, _too_long(what, within_s))

    async def drive(self, distance_m: float, speed_m_s: float = 0.7) -> None:
        """Drive straight ahead along the present heading."""
        self._need_wheels()
        self.say(f"drive {distance_m:g} m")
        north, east, _ = self._commander.estimator.state.pos_ned
        yaw = self._commander.euler_zyx()[2]
        forward = (math.cos(yaw), math.sin(yaw))

        def left() -> float:
            here = self._commander.estimator.state.pos_ned
            return distance_m - (here[0] - north) * forward[0] - (here[1] - east) * forward[1]

        waited_us = self._commander.time_us
        while left() > 0.05:
            self._commander.drive(max(0.15, min(speed_m_s, 1.0 * left())), yaw)
            if self._commander.time_us - waited_us > 60e6:
                raise MissionFailedError(f"{left():.1f} m short of the goal after a minute of driving")
            await self._next()
        self._commander.stop_driving()
        await self.hold(1.0)

    async def turn(self, angle_deg: float, speed_m_s: float = 0.0) -> float:
        """On the ground, turn by an angle, clockwise seen from above; at a speed, along an arc.

        Returns:
            The heading that was wanted [degrees, clockwise from north].
        """
        self._need_wheels()
        self.say(f"turn by {angle_deg:g} degrees")
        goal = self._commander.euler_zyx()[2] + math.radians(angle_deg)

        def off() -> float:
            return math.remainder(goal - self._commander.euler_zyx()[2], math.tau)

        started_us = there_us = self._commander.time_us
        while self._commander.time_us - there_us < 1e6:
            self._commander.drive(speed_m_s if abs(off()) > math.radians(8.0) else 0.0, goal)
            if abs(off()) > math.radians(2.0):
                there_us = self._commander.time_us
            if self._commander.time_us - started_us > 30e6:
                raise MissionFailedError(f"heading still {math.degrees(off()):.0f} degrees off after 30 s of turning")
            await self._next()
        self._commander.stop_driving()
        await self.hold(0.5)
        wanted = math.degrees(goal) % 360.0
        self._report(
            {
                "turned_us": self._commander.time_us,
                "wanted_deg": wanted,
                "estimated_deg": math.degrees(self._commander.euler_zyx()[2]) % 360.0,
            }
        )
        return wanted

    async def disarm(self) -> None:
        """Stop the motors, on the ground."""
        if self._commander.disarm() != Result.ACCEPTED:
            raise MissionFailedError("disarming refused")
        await self._next()

    def say(self, text: str) -> None:
        """Tell the progress, to the ground stations and to whoever started the mission."""
        self._commander.say(common.MAV_SEVERITY_INFO, text)
        self._report({"progress": text, "time_us": self._commander.time_us})

    def _need_wheels(self) -> None:
        fault = self._commander.drive_fault
        if fault is not None:
            raise MissionFailedError(f"cannot drive: {fault}")

    # Waiting

    def _why_not_armed(self) -> str:
        return "; ".join(self._commander.arming_faults())

    async def _until(self, condition: Callable[[], bool], within_s: float, why: Callable[[], str]) -> None:
        deadline_us = self._commander.time_us + round(within_s * 1e6)
        while not condition():
            if self._commander.time_us > deadline_us:
                raise MissionFailedError(why())
            await self._next()

    async def _next(self) -> None:
        await NextTick()
        self._judge()
        if self._commander.failure is not None:
            raise MissionFailedError(self._commander.failure)

    def _judge(self) -> None:
        """Follow the error while the set-point stands still, and report for how long it stood where."""
        commander = self._commander
        still = commander.flying and commander.reference.still_s > STILL_S
        if still:
            here, wanted = commander.estimator.state.pos_ned, commander.reference.position
            self.worst_error_m = max(self.worst_error_m, math.dist(here, wanted))
            if self._still_since_us is None:
                self._still_since_us = commander.time_us
                self._still_at = wanted
        elif self._still_since_us is not None:
            self._report(
                {"still_from_us": self._still_since_us, "still_until_us": commander.time_us, "at_ned": self._still_at}
            )
            self._still_since_us = None

    _still_at = (0.0, 0.0, 0.0)


def _too_long(what: str, within_s: float) -> Callable[[], str]:
    return lambda: f"{what}: not done within {within_s:.0f} s"
