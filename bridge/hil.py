"""The HIL session in lockstep: who may step time, and when. Sans-io; see `bridge.session_io`.

One HIL_SENSOR leaves, the flight controller computes, its HIL_ACTUATOR_CONTROLS releases the next. That is the rule;
the rest of this file is about the moments when no answer is to be expected: after boot, from a disarmed rover, after
flight termination, from a flight controller built without lockstep, on a link that loses frames. Then the session is
*paced*: ticks follow the wall clock, at most at real time, and nothing waits.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable
from typing import Any

from pymavlink.dialects.v20 import common

from bridge import timesync
from bridge.codec import Message
from bridge.controls_tracker import LOCKSTEP, Verdict
from bridge.hil_messages import SensorEncoder, heartbeat, hil_gps, hil_state_quaternion, odometry
from bridge.pacing import Pacer
from bridge.reply_pattern import ReplyPattern
from bridge.session_base import FIRST_TIME_US, HEARTBEAT_US, WARN_AGAIN_US, SessionBase
from bridge.session_io import (
    ForgetPeer,
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
from bridge.session_state import PacedReason, Phase

REFUSED_US = 1_000_000
"""Datagrams refused for so long, and nothing heard: the flight controller's process is gone."""
CALLS = 10
"""Calls that are neither answered nor refused before sensors are sent all the same: the answer may have been lost."""
SILENT_PEER_US = 5_000_000
"""A peer found by its first datagram that has been silent for so long makes room for another."""
SLIP_US = 20_000
"""PX4 that answers one sensor in four needs a fifth when its logger is slow. So long an expected answer is waited for
before the next sensor is sent after all; at most one period of the pattern in a row, then it is a time-out."""
TIMEOUTS_APART = 16
"""Two time-outs with fewer answered sensors than this between them: the pattern does not hold."""


class HilSession(SessionBase):
    """One flight controller in lockstep, over one link.

    Args:
        period_us: simulated time between two HIL_SENSORs.
        datagrams: the link may lose, repeat and reorder frames.
        speaks_first: nothing comes from the peer until something was sent (udpout): call it with HEARTBEATs.
        reply_timeout_us: wall time to wait for an expected answer; 0 waits for ever.
        speed: simulated over wall time; 0 as fast as it goes.
        system: system id to send with until the flight controller has shown its own.
        answers_every_sensor: the flight controller is known to answer every sensor from the first: nothing to learn.
    """

    def __init__(
        self,
        *,
        period_us: int,
        datagrams: bool = False,
        speaks_first: bool = False,
        reply_timeout_us: int = 500_000,
        speed: float = 1.0,
        system: int = 1,
        answers_every_sensor: bool = False,
    ) -> None:
        super().__init__(period_us=period_us, datagrams=datagrams, system=system)
        self.paced_reason = PacedReason.LEARNING
        self._datagrams = datagrams
        self._speaks_first = speaks_first
        self._makes_room = datagrams and not speaks_first
        self._timeout_us = reply_timeout_us
        self._speed = speed
        self._answers_every_sensor = answers_every_sensor
        self._sensor_encoder = SensorEncoder()
        self._pattern = ReplyPattern()
        self._pacer = Pacer()
        self._sent_us: int | None = None  # wall time at which the newest HIL_SENSOR left
        self._warned_us: int | None = None
        self._warned_of_silence = False
        self._outstanding = False
        self._awaited_since_us = 0
        self._handlers: dict[type[Any], Callable[[Any, int], None]] = {
            Received: self._received,
            Sampled: self._sampled,
            TimerExpired: self._timer_expired,
            LinkUp: self._link_up,
            LinkDown: self._link_down,
            Refused: self._refused,
            Pause: self._pause,
            Resume: self._resume,
            SetSpeed: self._set_speed,
        }
        self._forget_peer()

    def describe(self) -> str:
        """The state in words, for the status line."""
        if self.paused:
            return "paused"
        if self.phase is Phase.PACED:
            return f"paced: {self.paced_reason.value}"
        if self.phase is Phase.LOCKSTEP:
            return f"lockstep: {self._pattern}"
        return "waiting for PX4" if self.phase is Phase.WAITING else "calling PX4"

    # The link

    def _forget_peer(self) -> None:
        """State that belongs to one flight controller between its boot and its end."""
        self.tracker.forget()
        self._pattern.forget()
        self.stats.not_expected += self._outstanding  # its answer will never come
        self._outstanding = False
        self._forget_steps()
        self._last_reply_us = 0
        self._refused_since_us: int | None = None
        self._heard_us: int | None = None
        self._truth_interval_us = 0
        self._truth_due_us = 0
        self._heartbeat_due_us = 0
        self._answered_since_timeout = TIMEOUTS_APART
        self._slips = 0
        self._suspected = False
        self._spoken = False
        self._calls = 0

    def _link_up(self, event: LinkUp, now: int) -> None:
        self.stats.connections += 1
        self._notice(logging.INFO, "peer_connected", f"{event.peer} is there")
        if self._speaks_first:
            self.phase = Phase.CALLING
            self._call(now)
        else:
            self._start(now)

    def _call(self, now: int) -> None:
        """Say that we are there; PX4 answers the first datagram that it gets with two, once in its life."""
        if self._calls == CALLS:
            self._notice(
                logging.WARNING,
                "no_answer",
                f"PX4 neither answers nor refuses {CALLS} calls, as if it had met another simulator before: "
                "sending sensors",
            )
            self._start(now)
            return
        self._calls += 1
        self._send(heartbeat())
        self.wake_us = now + HEARTBEAT_US

    def _start(self, now: int) -> None:
        if self._answers_every_sensor:
            self._pattern.assume_every()
            self.phase = Phase.LOCKSTEP
            self._pacer.anchor(now, self.time_us, self._speed)
        else:
            self._enter_paced(PacedReason.LEARNING, now)
        self._advance(now)

    def _link_down(self, event: LinkDown, now: int) -> None:
        self._lose_peer(event.reason, Phase.WAITING)
        if not self._datagrams:
            self.time_us = FIRST_TIME_US - self._period_us  # whoever connects next starts its own time

    def _lose_peer(self, reason: str, phase: Phase) -> None:
        self.phase = phase
        self.wake_us = None
        self.system = None
        self._forget_peer()
        self.decoder.forget_sequences()
        self._notice(
            logging.WARNING,
            "peer_lost",
            f"The flight controller is gone ({reason}); ready for the next one. If it still runs, restart it: "
            "PX4 1.17 does not connect again by itself",
        )
        self._out.append(ResetTwin(reason))

    def _refused(self, event: Refused, now: int) -> None:
        if self.phase in (Phase.WAITING, Phase.CALLING):
            self._calls = 0
            return
        if self._refused_since_us is None:
            self._refused_since_us = now
        elif now - self._refused_since_us > REFUSED_US:
            if self._makes_room:  # it may come back at another port
                self._refused_since_us = None
                self._out.append(ForgetPeer())
                return
            self._lose_peer("its port refuses datagrams", Phase.CALLING)
            self._call(now)

    # What the flight controller says

    def _received(self, event: Received, now: int) -> None:
        for message in self.decoder.feed(event.data):
            if message.get_msgId() < 0 or not self._is_ours(message):
                continue
            self._refused_since_us = None
            self._heard_us = now
            if self.phase is Phase.CALLING:
                self._start(now)
            kind = message.get_type()
            if kind == "HIL_ACTUATOR_CONTROLS":
                self._controls(message, now)
            elif kind == "COMMAND_LONG" and message.command == common.MAV_CMD_SET_MESSAGE_INTERVAL:
                self._set_message_interval(message, now)
            elif kind == "TIMESYNC" and timesync.asks_for_time(message):
                self._send(timesync.answer(message, now))

    def _is_ours(self, message: Message) -> bool:
        system = message.get_srcSystem()
        if self.system is None:
            self._found(system)
        return self._speaks_for_it(system)

    def _set_message_interval(self, message: Message, now: int) -> None:
        if message.param1 != common.MAVLINK_MSG_ID_HIL_STATE_QUATERNION:
            return
        if self._spoken and self._datagrams and message.get_seq() == 0:
            # PX4 asks once, with the first frame of its life.
            self._restarted("it shook hands again", now)
        if math.isfinite(message.param2):
            self._truth_interval_us = max(0, int(message.param2))
            self._truth_due_us = self.time_us

    def _restarted(self, reason: str, now: int) -> None:
        self._notice(logging.WARNING, "px4_restarted", f"PX4 restarted: {reason}")
        self._forget_peer()
        self._out.append(ResetTwin(reason))
        self._enter_paced(PacedReason.LEARNING, now)
        self._advance(now)

    def _controls(self, message: Message, now: int) -> None:
        verdict = self.tracker.received(message)
        if verdict is Verdict.BACKWARD:
            self._notice(logging.WARNING, "time_backward", "PX4's clock ran backward")
            self._restarted("its clock ran backward", now)
            return
        if verdict is Verdict.DUPLICATE or verdict is Verdict.REORDERED:
            return
        self.stats.replies += 1
        self._last_reply_us = now
        if not self._spoken:
            self._spoken = True
            if not self.tracker.echoes:
                self._notice(
                    logging.INFO, "own_clock", "answers do not carry the sensor's time: matched as they arrive"
                )
        self._suspected = False
        if not message.flags & LOCKSTEP:
            self._outstanding = False
            if self.paced_reason is not PacedReason.NO_LOCKSTEP or self.phase is not Phase.PACED:
                self._notice(logging.WARNING, "no_lockstep", "PX4 is built without lockstep: pacing in real time")
                self._enter_paced(PacedReason.NO_LOCKSTEP, now)
                self._advance(now)
            return
        ago = self.tracker.sensors_ago
        new_pattern = self._pattern.answered(ago)
        self._answered_since_timeout += 1
        self._slips = 0
        if ago == 0:
            self._outstanding = False
        if self.phase is Phase.PACED:
            self._leave_paced(new_pattern, now)
        elif new_pattern:
            self._notice(logging.INFO, "pattern_changed", f"reply pattern changed: {self._pattern}")
        if not self._outstanding:
            self._advance(now)

    # Time

    def _enter_paced(self, reason: PacedReason, now: int) -> None:
        self.phase = Phase.PACED
        self.paced_reason = reason
        speed = min(self._speed or 1.0, 1.0)
        due = now if self._sent_us is None else max(now, self._sent_us + int(self._period_us / speed))
        self._pacer.anchor(due, self.time_us + self._period_us, speed, self._period_us - 1)

    def _leave_paced(self, new_pattern: bool, now: int) -> None:
        """A reply came: back to lockstep, as soon as it is known which sensors are answered."""
        silent = self.paced_reason is PacedReason.SILENT
        if self._warned_of_silence:
            self._warned_of_silence = False
            self._notice(
                logging.INFO, "reply_again", f"PX4 answers again; reply time-outs so far: {self.stats.timeouts}"
            )
        if not self._pattern.learnt:
            self.paced_reason = PacedReason.LEARNING
            return
        if silent:
            self._pattern.realign()
        elif new_pattern:
            self._notice(logging.INFO, "pattern_learnt", f"lockstep: {self._pattern}")
        self.phase = Phase.LOCKSTEP
        self._pacer.anchor(now, self.time_us, self._speed)

    def _advance(self, now: int) -> None:
        """Ask for the next tick if nothing stands against it, or for a timer."""
        if self.phase in (Phase.WAITING, Phase.CALLING) or self._awaiting_sample or self.paused:
            return
        next_us = self.time_us + self._period_us
        due = self._pacer.due_us(next_us, now)
        if due > now:
            self.wake_us = due
            return
        if self._makes_room and self._heard_us is not None and now - self._heard_us > SILENT_PEER_US:
            self._heard_us = None
            self._out.append(ForgetPeer())
            return
        self._awaiting_sample = True
        controls = self.tracker.controls_at(next_us)
        self._suspect_termination(controls, "PX4")
        truth = self._truth_interval_us > 0 and next_us >= self._truth_due_us
        self._out.append(StepTwin(next_us, controls, truth))

    def _sampled(self, event: Sampled, now: int) -> None:
        sample = event.sample
        if not self._awaiting_sample:
            return  # asked for before the peer was lost
        self._awaiting_sample = False
        self.time_us = time_us = sample.time_us
        # HIL_SENSOR moves PX4's clock, so it goes last: the rest belongs to the same moment.
        if sample.gps is not None:
            self._send(hil_gps(sample.gps))
        if sample.motion_capture is not None:
            self._send(odometry(sample.motion_capture, sample.motion_capture.measured_us))
        if sample.truth is not None and self._truth_interval_us:
            self._truth_due_us = max(self._truth_due_us + self._truth_interval_us, time_us - self._truth_interval_us)
            self._send(hil_state_quaternion(time_us, sample.truth))
        if time_us >= self._heartbeat_due_us:
            self._heartbeat_due_us = time_us + HEARTBEAT_US
            self._send(heartbeat())
        self._send(self._sensor_encoder.hil_sensor(sample))
        self.stats.sensors += 1
        self._sent_us = now
        self.tracker.sensor_sent(time_us)
        expected = self._pattern.sensor_sent()
        if expected and self.phase is Phase.LOCKSTEP:
            self._outstanding = True
            self._awaited_since_us = now
            self.wake_us = now + self._patience_us() if self._timeout_us else None
        else:
            self._outstanding = False
            self.stats.not_expected += 1
            self._advance(now)

    def _timer_expired(self, event: TimerExpired, now: int) -> None:
        if self.wake_us is None or now < self.wake_us:
            return
        self.wake_us = None
        if self.phase is Phase.CALLING:
            self._call(now)
            return
        if self._outstanding and not self.paused:
            patience = self._patience_us()
            # An answer that is late comes from a live peer: it is given the time anew.
            deadline = max(self._awaited_since_us, self._last_reply_us) + patience
            if now < deadline:
                self.wake_us = deadline
                return
            if patience < self._timeout_us:
                self._slip()
            else:
                self._reply_timed_out(now)
        self._advance(now)

    def _patience_us(self) -> int:
        """How long to wait for the expected answer."""
        return SLIP_US if self._slips < self._pattern.period - 1 and self._timeout_us > SLIP_US else self._timeout_us

    def _slip(self) -> None:
        self._slips += 1
        self.stats.slips += 1
        self._pattern.slip()
        self._outstanding = False
        self.stats.not_expected += 1

    def _reply_timed_out(self, now: int) -> None:
        self._outstanding = False
        self.stats.timeouts += 1
        if self._answered_since_timeout < TIMEOUTS_APART:
            self._pattern.unlearn()
        self._answered_since_timeout = 0
        self._enter_paced(PacedReason.SILENT, now)
        if self.tracker.just_disarmed:
            self._notice(logging.INFO, "silent_disarmed", "PX4 is silent after disarming, as a rover is")
        elif self._warned_us is None or now - self._warned_us > WARN_AGAIN_US:
            self._warned_us = now
            self._warned_of_silence = True
            self._notice(
                logging.WARNING,
                "reply_timeout",
                f"no reply within {self._timeout_us / 1000:g} ms: stepping on without; time-outs so far: "
                f"{self.stats.timeouts}",
            )

    # The operator

    def _pause(self, event: Pause, now: int) -> None:
        self.paused = True
        self.wake_us = None

    def _resume(self, event: Resume, now: int) -> None:
        if not self.paused:
            return
        self.paused = False
        if self.phase is Phase.CALLING:
            self._call(now)
        else:
            self._set_speed(SetSpeed(self._speed), now)

    def _set_speed(self, event: SetSpeed, now: int) -> None:
        self._speed = event.speed
        if self.phase is Phase.PACED:
            self._enter_paced(self.paced_reason, now)
        else:
            self._pacer.anchor(now, self.time_us, self._speed)
        if not self._outstanding:
            self._advance(now)
        elif self._timeout_us:
            self._awaited_since_us = now
            self.wake_us = now + self._patience_us()
