"""Contact inspection: fly up to a wall, press the arm's tip on it with a constant force, back off.

The vehicle is moved by set-points and the arm by torques, and each does what it is good at: the arm, light and fast,
keeps the force; the vehicle follows slowly, so that the arm stays in the middle of what it can reach.
"""

from __future__ import annotations

import math
from enum import Enum, auto

import numpy as np

from firmware_profiles.arm import ArmParams, WallParams
from lav2_hil.companion.arm_control import ArmControl
from lav2_hil.companion.params import CompanionParams
from lav2_hil.companion.task import BasePose, FloatArray, Orders, SetPoint, Situation
from lav2_hil.companion.wall_face import WallFace
from twin.frames import euler_zyx_of_q_ned_frd

ROOM_M = 0.25
"""Between the tip and the wall before the approach, if the wall is where it is thought to be."""
BEYOND_M = 0.3
"""How far behind its expected place the wall is looked for."""
CRUISE_M_S, APPROACH_M_S, BACK_OFF_M_S, YAW_RAD_S = 0.5, 0.08, 0.3, 0.5
BACK_OFF_M = 1.0
TOUCH_N, TOUCH_S = 0.4, 0.04
"""A contact is a mean force above this, over a time like this: more than swinging makes of nothing."""
RAMP_S = 4.0
"""The vehicle needs time to lean on the wall, as its controller must find the force out."""
RELEASE_N = 0.5
MARGIN_S = 1.0
"""The force is held for so much longer than is wanted: its beginning and end are nobody's to tell exactly."""
SETTLE_S = 1.0
LOST_S, TRIES = 0.5, 4
"""Without contact for so long the wall is lost, and approached again from a little further away, if not too often."""
ROOM_AGAIN_M = 0.1
UNFOLD_S = 3.0
ARRIVED_M, ARRIVED_RAD, ARRIVED_S = 0.2, math.radians(4.0), 1.5
PATIENCE_S = 45.0
"""For any phase, beside the time that is wanted of it."""
FOLLOW_GAIN, FOLLOW_DAMPING_S, FOLLOW_RATE_1_S = 1.2, 0.5, 0.35
"""What the set-point is moved by for an error of the vehicle's place: at once, for its speed, and per second."""
MOST_M = 0.1
"""A larger error moves it no faster."""
SURFACE_S = 0.5
"""The wall's surface is felt by the tip while it touches, and remembered as a mean over a time like this."""
LEAN_M_N = 0.15
"""How far ahead the set-point is for the vehicle to lean on the wall, before its own controller has found the force."""


class Phase(Enum):
    """What the task is at."""

    WAIT = auto()
    FLY = auto()
    UNFOLD = auto()
    APPROACH = auto()
    PRESS = auto()
    RELEASE = auto()
    BACK_OFF = auto()
    STOW = auto()
    DONE = auto()


class WallInspection:
    """The task.

    Args:
        params: force and time.
        arm: the arm.
        wall: where it is thought to be.
        tick_s: time between two calls [s].

    Attributes:
        phase: what it is at.
        failure: why it could not be done; it backs off all the same, and hands the vehicle back.
        held_s: how long the measured force has been within its tolerance, without a break [s].
    """

    def __init__(self, params: CompanionParams, arm: ArmParams, wall: WallParams, tick_s: float) -> None:
        self.phase = Phase.WAIT
        self.failure: str | None = None
        self.held_s = 0.0
        self._params = params
        self._face = WallFace.of(wall)
        self._control = ArmControl(arm)
        self._tick_s = tick_s
        self._stowed, self._ready = np.array(arm.stowed_rad), np.array(arm.ready_rad)
        self._from = self._posture = self._stowed
        self._phase_s = 0.0
        self._base = BasePose((0.0, 0.0, 0.0), (1.0, 0.0, 0.0, 0.0))
        self._place = self._goal = np.zeros(3)  # NED
        self._lead = np.zeros(3)
        self._surface_m = 0.0
        self._yaw = 0.0
        self._into_ned = np.array((math.cos(self._face.heading), math.sin(self._face.heading), 0.0))
        self._into_flu = np.array((1.0, 0.0, 0.0))
        self._tip_radius_m = arm.tip_radius_m
        self._reach = self._middle_reach = arm.tip_flu_m(arm.ready_rad)[0]
        self._force = self._smooth_force = self._wanted_force = self._first_force = 0.0
        self._apart_s = self._there_s = 0.0
        self._tries = 0
        self._do = {
            Phase.WAIT: self._wait,
            Phase.FLY: self._fly,
            Phase.UNFOLD: self._unfold,
            Phase.APPROACH: self._approach,
            Phase.PRESS: self._press,
            Phase.RELEASE: self._release,
            Phase.BACK_OFF: self._back_off,
            Phase.STOW: self._stow,
            Phase.DONE: self._done,
        }

    def step(self, now: Situation) -> Orders:
        """Look, and decide."""
        base = now.base
        if base is None:
            return Orders(self._control.hold(now.arm, self._stowed))
        self._phase_s += self._tick_s
        self._base = base
        self._look(now)
        if self.phase not in (Phase.WAIT, Phase.DONE):
            if not now.in_command:
                self._fail("the autopilot took the vehicle back", Phase.DONE, now)
            elif self._phase_s > PATIENCE_S + self._params.hold_s:
                self._fail(f"{self.phase.name.lower()}: not done within {self._phase_s:.0f} s", Phase.BACK_OFF, now)
        self._do[self.phase](now)
        if self.phase in (Phase.PRESS, Phase.RELEASE):
            torque = self._control.press(now.arm, self._into_flu, self._wanted_force)
        else:
            torque = self._control.hold(now.arm, self._posture)
        if self.phase is Phase.DONE:
            return Orders(torque, None, hand_back=now.in_command)
        north, east, down = (self._place + self._lead).tolist()
        return Orders(torque, SetPoint((north, east, down), self._yaw))

    def _look(self, now: Situation) -> None:
        """Which way the wall is, within the plane in which the arm can push; its reach and its force."""
        into = self._into_ned @ self._base.rotation
        into[1] = 0.0
        self._into_flu = into / max(float(np.linalg.norm(into)), 1e-6)
        self._reach = float(now.arm.ee_pos[0] @ self._into_flu)
        self._force = float(now.arm.ee_force[0] @ self._into_flu)
        self._smooth_force += (self._force - self._smooth_force) * self._tick_s / (TOUCH_S + self._tick_s)

    def _enter(self, phase: Phase, now: Situation) -> None:
        self.phase = phase
        self._phase_s = 0.0
        self._from = now.arm.joint_pos[0].copy()
        if phase is Phase.APPROACH:
            self._tries += 1
            north, east = self._face.place(self._middle_reach + self._tip_radius_m - BEYOND_M)
            self._goal = np.array((north, east, self._place[2]))
        elif phase is Phase.BACK_OFF:
            self._place, self._lead = self._place + self._lead, np.zeros(3)
            ahead = (np.array(self._base.pos_ned) - self._place) @ self._into_ned
            self._goal = self._place + (ahead - BACK_OFF_M) * self._into_ned

    def _fail(self, reason: str, then: Phase, now: Situation) -> None:
        """The first failure counts; a second one while backing off only ends that."""
        if self.failure is None:
            self.failure = reason
            self._enter(then, now)
        elif then is Phase.DONE or self.phase in (Phase.BACK_OFF, Phase.STOW):
            self._enter(Phase.DONE, now)

    # The phases, in their order

    def _wait(self, now: Situation) -> None:
        """Before the vehicle is ours: set-points that say "stay", which PX4 wants to see first."""
        self._place = np.array(self._base.pos_ned)
        self._yaw = euler_zyx_of_q_ned_frd(self._base.q_ned_frd)[2]
        if now.in_command:
            north, east = self._face.place(self._middle_reach + self._tip_radius_m + ROOM_M)
            self._goal = np.array((north, east, self._place[2]))
            self._enter(Phase.FLY, now)

    def _fly(self, now: Situation) -> None:
        """To the stand-off in front of the wall, nose towards it."""
        there = self._move(CRUISE_M_S)
        turn = math.remainder(self._face.heading - self._yaw, math.tau)
        most = YAW_RAD_S * self._tick_s
        self._yaw += min(max(turn, -most), most)
        heading = euler_zyx_of_q_ned_frd(self._base.q_ned_frd)[2]
        there &= math.dist(self._base.pos_ned, self._place.tolist()) < ARRIVED_M
        there &= abs(math.remainder(self._face.heading - heading, math.tau)) < ARRIVED_RAD
        self._there_s = self._there_s + self._tick_s if there else 0.0
        if self._there_s > ARRIVED_S:
            self._enter(Phase.UNFOLD, now)

    def _unfold(self, now: Situation) -> None:
        if self._fold(self._ready):
            self._enter(Phase.APPROACH, now)

    def _approach(self, now: Situation) -> None:
        self._fold(self._ready)
        there = self._move(APPROACH_M_S)
        if self._smooth_force > TOUCH_N:
            self._first_force = self._smooth_force
            self._apart_s = 0.0
            self._surface_m = float(np.array(self._base.pos_ned) @ self._into_ned) + self._reach
            self._enter(Phase.PRESS, now)
        elif there and self._phase_s > SETTLE_S:
            lost = "contact lost" if self._tries > 1 else f"no wall within {BEYOND_M:g} m behind its place"
            self._fail(lost, Phase.BACK_OFF, now)

    def _press(self, now: Situation) -> None:
        """More and more up to the wanted force, and then for as long as is wanted."""
        wanted, share = self._params.force_n, min(self._phase_s / RAMP_S, 1.0)
        self._wanted_force = self._first_force + (wanted - self._first_force) * share
        self._keep_reach(now)
        within = share == 1.0 and abs(self._force - wanted) <= self._params.tolerance_n
        self.held_s = self.held_s + self._tick_s if within else 0.0
        if self.held_s > self._params.hold_s + MARGIN_S:
            self._enter(Phase.RELEASE, now)
        elif self._touches_no_more():
            self._try_again(now)

    def _release(self, now: Situation) -> None:
        share = min(self._phase_s / RAMP_S, 1.0)
        self._wanted_force = self._params.force_n + (RELEASE_N - self._params.force_n) * share
        self._keep_reach(now)
        if self._phase_s > RAMP_S + SETTLE_S or self._touches_no_more():
            self._enter(Phase.BACK_OFF, now)

    def _back_off(self, now: Situation) -> None:
        there = self._move(BACK_OFF_M_S)
        if self._fold(self._ready) and there and self._phase_s > SETTLE_S + BACK_OFF_M / BACK_OFF_M_S:
            self._enter(Phase.STOW, now)

    def _stow(self, now: Situation) -> None:
        if self._fold(self._stowed):
            self._enter(Phase.DONE, now)

    def _done(self, now: Situation) -> None:
        self._fold(self._stowed)

    # What they are made of

    def _move(self, speed_m_s: float) -> bool:
        """Move the set-point towards its goal; gives whether it is there."""
        way = self._goal - self._place
        left = float(np.linalg.norm(way))
        if left <= speed_m_s * self._tick_s:
            self._place = self._goal
            return True
        self._place = self._place + way * (speed_m_s * self._tick_s / left)
        return False

    def _fold(self, end: FloatArray) -> bool:
        """Move the wanted posture smoothly from where the arm was when the phase began; gives whether it is there."""
        share = min(self._phase_s / UNFOLD_S, 1.0)
        self._posture = self._from + (end - self._from) * (0.5 - 0.5 * math.cos(math.pi * share))
        return share == 1.0

    def _keep_reach(self, now: Situation) -> None:
        """Keep the vehicle where the arm, whose tip the wall holds, is in the middle of its reach, and nowhere else."""
        into, base = self._into_ned, np.array(self._base.pos_ned)
        closing = 0.0
        if self._force > TOUCH_N:
            self._surface_m += (float(base @ into) + self._reach - self._surface_m) * self._tick_s / SURFACE_S
            closing = float(now.arm.ee_vel[0, :3] @ self._into_flu)
        wanted = self._place + (self._surface_m - self._middle_reach - float(self._place @ into)) * into
        error = wanted - base
        away = float(error @ into)
        self._lead = FOLLOW_GAIN * error + (FOLLOW_DAMPING_S * closing + LEAN_M_N * self._wanted_force) * into
        self._place = self._place + (FOLLOW_RATE_1_S * min(max(away, -MOST_M), MOST_M) * self._tick_s) * into

    def _touches_no_more(self) -> bool:
        self._apart_s = self._apart_s + self._tick_s if self._force < TOUCH_N else 0.0
        return self._apart_s > LOST_S

    def _try_again(self, now: Situation) -> None:
        if self._tries == TRIES:
            self._fail("contact lost", Phase.BACK_OFF, now)
            return
        self._place, self._lead = np.array(self._base.pos_ned) - ROOM_AGAIN_M * self._into_ned, np.zeros(3)
        self._enter(Phase.APPROACH, now)
