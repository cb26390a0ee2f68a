"""The HIL session with a board (HITL): time is the wall clock's, and nobody waits for anybody. Sans-io.

Sensors leave on a grid of the wall clock. A tick that is more than half a period late is skipped: the twin steps, so
that simulated time stays wall time, but its sample goes out with the next one, for PX4 takes the time of arrival for
the time of measurement and a burst for an earthquake. Controls count from when they arrive.

First there are HEARTBEATs only: PX4 on a board starts MAVLink on USB when it sees one among the first bytes. Sensors
follow when the board has shown that it is in HIL.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from pymavlink.dialects.v20 import common

from bridge import timesync
from bridge.board_texts import BOARD_SAYS, BoardTexts
from bridge.codec import Message
from bridge.controls_tracker import LOCKSTEP, Verdict
from bridge.held_readings import HeldReadings
from bridge.hil_messages import SensorEncoder, heartbeat, hil_gps, odometry
from bridge.not_an_autopilot import Diagnosis
from bridge.session_base import HEARTBEAT_US, WARN_AGAIN_US, SessionBase
from bridge.session_io import (
    Event,
    LinkDown,
    LinkUp,
    Pause,
    Received,
    Refused,
    ResetTwin,
    Resume,
    Sampled,
    SetSpeed,
    StepTwin,
    TimerExpired,
)
from bridge.session_state import Phase

CALL_US = 50_000
"""HEARTBEATs until the board answers; PX4 looks at 80 bytes, which are nearly four of them."""
DIAGNOSE_US = 5_000_000
"""So long nobody answered, or no controls came: say why that may be."""
GONE_US = 1_500_000
"""A board that says nothing at all for so long is not there any more, or restarts: then it must not be flooded."""
MAX_STALL_US = 2_000_000
"""A stall that is longer stops simulated time: to step the twin through all of it would be the next stall."""
NOT_PX4 = "not_px4"
"""Name of the notice that ends a run: whatever is there will never fly."""


class FreeRunningSession(SessionBase):
    """One board, over one link.

    Args:
        period_us: the vehicle's time between two IMU readings [us].
        every: each so manieth tick is sent.
        datagrams: the link may lose, repeat and reorder frames.
        system: system id to send with until the board has shown its own.
    """

    def __init__(self, *, period_us: int, every: int = 1, datagrams: bool = False, system: int = 1) -> None:
        super().__init__(period_us=period_us, datagrams=datagrams, system=system)
        self._every = every
        self._late_us = period_us * every // 2
        self._sensors = SensorEncoder()
        self._held = HeldReadings()
        self._told: set[str] = set()
        self._texts = BoardTexts()
        self._handlers: dict[type[Any], Callable[[Any, int], None]] = {
            Received: self._received,
            Sampled: self._sampled,
            TimerExpired: self._timer_expired,
            LinkUp: self._link_up,
            LinkDown: self._link_down,
            Refused: self._ignored,
            Pause: self._unsteered,
            Resume: self._ignored,
            SetSpeed: self._unsteered,
        }
        self._forget()

    def describe(self) -> str:
        """The state in words, for the status line."""
        if self.phase is Phase.FREE:
            return f"HITL at {1e6 / (self._period_us * self._every):.4g} Hz, {self.stats.skipped} ticks skipped"
        return "waiting for the board" if self.phase is Phase.WAITING else "calling the board"

    # The link

    def _forget(self) -> None:
        """State that belongs to one board between its boot and its end."""
        self.tracker.forget()
        self.tracker.sensor_sent(self.time_us)  # controls that come before the first sensor are not old
        self._held.forget()
        self.decoder.forget_sequences()
        self._diagnosis = Diagnosis()
        self._forget_steps()
        self._due_us = 0  # wall time of the tick that is next, or under way
        self._ticks = 0
        self._heard_us = 0
        self._since_us = 0
        self._beat_due_us = 0
        self._controls_seen = False
        self._armed = False
        self._suspected = False
        self._texts.forget()
        self._frames = self.decoder.stats.frames

    def _link_up(self, event: LinkUp, now: int) -> None:
        self.stats.connections += 1
        self._notice(logging.INFO, "peer_connected", f"{event.peer} is there: calling the board")
        self._call(now)

    def _link_down(self, event: LinkDown, now: int) -> None:
        self._forget()
        self.phase = Phase.WAITING
        self.wake_us = None
        self.system = None
        self._notice(logging.WARNING, "peer_lost", f"the board is gone ({event.reason}); waiting until it comes back")
        self._out.append(ResetTwin(event.reason))

    def _ignored(self, event: Event, now: int) -> None:
        """Means nothing here."""

    def _unsteered(self, event: Event, now: int) -> None:
        self._notice(logging.WARNING, "not_steered", "a board's time is the wall clock's: no pause, no other speed")

    def _call(self, now: int) -> None:
        """Begin with HEARTBEATs only."""
        self.phase = Phase.CALLING
        self._since_us = now
        self._beat_due_us = now
        self._beat(now)

    def _beat(self, now: int) -> None:
        self._send(heartbeat())
        self._beat_due_us = self.wake_us = now + CALL_US

    def _restarted(self, reason: str, now: int) -> None:
        self._notice(logging.WARNING, "px4_restarted", f"the board restarted: {reason}; starting anew")
        self._forget()
        self._out.append(ResetTwin(reason))
        self._call(now)

    # What the board says

    def _received(self, event: Received, now: int) -> None:
        if self.phase is Phase.CALLING:
            self._diagnosis.data(event.data)
        for message in self.decoder.feed(event.data):
            if message.get_msgId() < 0 or not self._is_ours(message):
                continue
            self._heard_us = now
            kind = message.get_type()
            if kind == "HIL_ACTUATOR_CONTROLS":
                self._controls(message, now)
            elif kind == "HEARTBEAT":
                self._heartbeat(message, now)
            elif kind == "COMMAND_LONG":
                self._command(message)
            elif kind == "TIMESYNC" and timesync.asks_for_time(message):
                self._send(timesync.answer(message, now))
            elif kind == "STATUSTEXT":
                for text in self._texts.take(message, now):
                    self._notice(logging.WARNING, BOARD_SAYS, f"the board says: {text}")

    def _is_ours(self, message: Message) -> bool:
        system = message.get_srcSystem()
        kind = message.get_type()
        if self.system is None:
            if kind == "HEARTBEAT":
                self._diagnosis.heartbeat(message)
            is_px4 = kind == "HEARTBEAT" and message.autopilot == common.MAV_AUTOPILOT_PX4
            if not is_px4 and kind != "HIL_ACTUATOR_CONTROLS":
                if self._diagnosis.problem is not None:
                    self._tell_once(logging.ERROR, NOT_PX4, self._diagnosis.problem)
                return False
            self._found(system)
        return self._speaks_for_it(system)

    def _heartbeat(self, message: Message, now: int) -> None:
        if self.phase is not Phase.CALLING or message.autopilot != common.MAV_AUTOPILOT_PX4:
            return
        if message.base_mode & common.MAV_MODE_FLAG_HIL_ENABLED:
            self._start(now)
        else:
            self._tell_once(
                logging.ERROR,
                "not_in_hil",
                "the board is not in HIL: SYS_HITL was not 1 when it booted; lav2-hil board prepare sets it, then "
                "restart the board",
            )

    def _command(self, message: Message) -> None:
        truth = common.MAVLINK_MSG_ID_HIL_STATE_QUATERNION
        if message.command == common.MAV_CMD_SET_MESSAGE_INTERVAL and message.param1 == truth:
            self._tell_once(
                logging.WARNING,
                "truth_refused",
                "the flight controller asks for HIL_STATE_QUATERNION: never sent to a board, whose estimator it would "
                "overwrite",
            )

    def _controls(self, message: Message, now: int) -> None:
        verdict = self.tracker.received(message)
        if verdict is Verdict.BACKWARD:
            self._restarted("its clock ran backward", now)
            return
        if verdict is Verdict.DUPLICATE or verdict is Verdict.REORDERED:
            return
        if message.flags & LOCKSTEP:
            self._tell_once(
                logging.WARNING,
                "lockstep",
                "this PX4 is built for lockstep (SITL): fly it without --hitl, or with --sitl",
            )
        self.stats.replies += 1
        self._controls_seen = True
        self._suspected = False
        if self.phase is Phase.CALLING:
            self._start(now)

    # Time

    def _start(self, now: int) -> None:
        self.phase = Phase.FREE
        self._since_us = now
        self._beat_due_us = now
        self._due_us = now + self._period_us
        self.wake_us = self._due_us

    def _timer_expired(self, event: TimerExpired, now: int) -> None:
        if self.wake_us is None or now < self.wake_us:
            return
        if self.phase is Phase.CALLING:
            self._diagnose(now)
            self._beat(now)
        elif self.phase is Phase.FREE:
            self._advance(now)

    def _diagnose(self, now: int) -> None:
        if now - self._since_us < DIAGNOSE_US:
            return
        self._since_us = now
        frames = self.decoder.stats.frames - self._frames
        text = self._diagnosis.of_silence(1e-6 * DIAGNOSE_US, frames)
        wrong = self.system is None and frames == 0 and "nothing heard" not in text
        if wrong:
            self._tell_once(logging.ERROR, NOT_PX4, text)
        elif self.system is None:
            self._tell_once(logging.WARNING, "no_answer", text + "; calling on")

    def _advance(self, now: int) -> None:
        """Step the twin if its time has come; else ask for a timer."""
        if self._awaiting_sample:
            return
        if now - self._heard_us > GONE_US:
            self._restarted(f"it has been silent for {1e-6 * GONE_US:g} s", now)
            return
        if now < self._due_us:
            self.wake_us = self._due_us
            return
        if now - self._due_us > MAX_STALL_US:
            self._notice(
                logging.WARNING,
                "stalled",
                f"this computer stood still for {1e-6 * (now - self._due_us):.1f} s, and so did simulated time",
            )
            self._due_us = now
        next_us = self.time_us + self._period_us
        controls = self.tracker.controls_at(next_us)
        self._tell_arming(controls is not None and controls.armed)
        self._suspect_termination(controls, "the board")
        self._awaiting_sample = True
        self._out.append(StepTwin(next_us, controls, False))

    def _sampled(self, event: Sampled, now: int) -> None:
        if not self._awaiting_sample:
            return  # asked for before the board was lost
        self._awaiting_sample = False
        sample = event.sample
        self.time_us = sample.time_us
        self.tracker.sensor_sent(sample.time_us)
        self._ticks += 1
        wanted = self._ticks % self._every == 0
        if wanted and now - self._due_us <= self._late_us:
            self._tell(self._held.merged(sample), now)
        else:
            self._held.hold(sample)
            self.stats.skipped += wanted
        self._due_us += self._period_us
        self._check_controls(now)
        self._advance(now)

    def _tell(self, sample: Any, now: int) -> None:
        if now >= self._beat_due_us:
            self._beat_due_us = max(self._beat_due_us + HEARTBEAT_US, now)
            self._send(heartbeat())
        if sample.gps is not None:
            self._send(hil_gps(sample.gps))
        if sample.motion_capture is not None:
            # By the clock with which TIMESYNC is answered.
            self._send(odometry(sample.motion_capture, now - (sample.time_us - sample.motion_capture.measured_us)))
        self._send(self._sensors.hil_sensor(sample))
        self.stats.sensors += 1

    def _tell_arming(self, armed: bool) -> None:
        if armed is not self._armed:
            self._armed = armed
            if armed:
                self._notice(logging.INFO, "armed", "the board has armed")
            else:
                self._notice(logging.INFO, "disarmed", "the board has disarmed: motors are stopped")

    def _check_controls(self, now: int) -> None:
        if self._controls_seen or now - self._since_us < DIAGNOSE_US:
            return
        self._since_us = now + WARN_AGAIN_US
        self._notice(
            logging.WARNING,
            "no_actuators",
            f"no HIL_ACTUATOR_CONTROLS in {1e-6 * DIAGNOSE_US:g} s: SYS_HITL was not 1 at boot, HIL_ACT_FUNC1.. are "
            "not set, or the firmware lacks pwm_out_sim; lav2-hil doctor looks into it",
        )

    def _tell_once(self, level: int, name: str, text: str) -> None:
        if name not in self._told:
            self._told.add(name)
            self._notice(level, name, text)
