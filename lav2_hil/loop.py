"""The HIL loop: the file to read first.

    bytes -> HilSession -> StepTwin(controls) -> gate, actuator map -> Twin.step -> sample -> HilSession -> bytes

The session says what happens next; the loop does it: send a frame, step the twin, wake the session up again. Nothing
here waits for anything but the flight controller. Listeners are told what happened and must return at once.
"""

from __future__ import annotations

import asyncio
import dataclasses
import logging
import time
from typing import Any, Protocol

from bridge.session_io import (
    Event,
    ForgetPeer,
    LinkDown,
    LinkUp,
    Notice,
    Output,
    Received,
    Refused,
    ResetTwin,
    Sampled,
    Send,
    StepTwin,
    TimerExpired,
)
from bridge.session_state import Phase
from bridge.sessions import Session
from bridge.transport.base import Transport
from firmware_profiles.signals import HilControls, SensorSample
from lav2_hil.actuator_map import ActuatorMap
from lav2_hil.companion.companion import Companion
from twin.faults import FaultChange
from twin.twin import Twin

PEER_IGNORED, FAULT = "peer_ignored", "fault"
LINK_NOTICES = frozenset({PEER_IGNORED, FAULT})
"""Names of the notices that are of what is done to the link and the vehicle, and not the session's."""


class Listener(Protocol):
    """Hears what the loop does; called from the loop, so it must not block."""

    def stepped(self, controls: HilControls | None, sample: SensorSample) -> None:
        """The twin was stepped under these controls and gave this sample."""

    def noticed(self, notice: Notice) -> None:
        """The session has something to say."""


class SessionTap(Protocol):
    """Writes down what goes into the session and what comes out; called from the loop in the order of events."""

    def event(self, event: Event, now_us: int) -> None:
        """The session is about to be given this event; what follows belongs to its time."""

    def fault(self, change: FaultChange) -> None:
        """The twin was stepped with this change of its faults; the event of its sample follows."""

    def sent(self, frame: bytes) -> None:
        """A frame was given to the transport."""

    def noticed(self, notice: Notice) -> None:
        """The session had something to say."""

    def stepped(self, sample: SensorSample) -> None:
        """The twin was stepped and gave this sample, which has left by now."""

    def flush(self, *, may_wait: bool) -> None:
        """Nothing is to be done at the moment; with `may_wait` simulated time loses nothing if this takes a while."""


class HilLoop:
    """Runs one session over one transport with one twin; is the transport's handler.

    Args:
        session: the state machine.
        transport: opened by `run`, with this loop as its handler.
        twin: of one world.
        actuators: channels to rotor speeds.
        listeners: told of every step and notice.
        tap: writes the session down.
        companion: of a vehicle with an arm. It hears what the flight controller says, and what it says goes out on
            the same link, before the sensors of the tick.

    Attributes:
        twin: the same.
        frames_dropped: frames that the transport did not take.
        fault_changes: how often a fault of the vehicle began, changed or ended.
    """

    def __init__(
        self,
        session: Session,
        transport: Transport,
        twin: Twin,
        actuators: ActuatorMap,
        listeners: tuple[Listener, ...] = (),
        tap: SessionTap | None = None,
        companion: Companion | None = None,
    ) -> None:
        self.session = session
        self.frames_dropped = 0
        self.fault_changes = 0
        self._transport = transport
        self.twin = twin
        self._actuators = actuators
        self._listeners = listeners
        self._tap = tap
        self._companion = companion
        if companion is not None:
            session.decoder.listeners.append(companion.heard)
        self._timer: asyncio.TimerHandle | None = None
        self._timer_us = 0
        self._failed: asyncio.Future[None] | None = None
        self._halted = False
        self._untold: tuple[HilControls | None, SensorSample] | None = None
        self._changes: list[FaultChange] = []

    async def run(self, stop: asyncio.Event) -> None:
        """Open the transport and serve until `stop` is set.

        Raises:
            LinkUnavailableError: the port cannot be had.
            TwinDivergedError: the physics broke down.
        """
        loop = asyncio.get_running_loop()
        self._failed = loop.create_future()
        await self._transport.open(self)
        stopped = asyncio.create_task(stop.wait(), name="stop")
        either: list[asyncio.Future[Any]] = [stopped, self._failed]
        try:
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
            if self._failed.done():
                self._failed.result()
        finally:
            stopped.cancel()
            if self._timer is not None:
                self._timer.cancel()
            self._failed.cancel()
            await self._transport.close()

    def record(self, tap: SessionTap) -> None:
        """Write the session down; to be called before `run`."""
        self._tap = tap

    def halt(self) -> None:
        """Step no more: what is under way is finished, and nothing new is begun."""
        self._halted = True

    # The transport's handler

    def link_up(self, peer: str) -> None:
        """A peer is there."""
        self.feed(LinkUp(peer))

    def link_down(self, reason: str) -> None:
        """The peer is gone."""
        self.feed(LinkDown(reason))

    def link_data(self, data: bytes) -> None:
        """Bytes arrived."""
        self.feed(Received(data))

    def link_refused(self) -> None:
        """A datagram was refused."""
        self.feed(Refused())

    def link_ignored(self, peer: str) -> None:
        """Somebody else spoke and was ignored."""
        self._notice(Notice(logging.WARNING, PEER_IGNORED, f"{peer} also wants to be the flight controller: ignored"))

    def change_fault(self, change: FaultChange) -> None:
        """Let a fault of the vehicle begin, change or end, at the twin's next step: a replay can take it there too."""
        self._changes.append(change)

    def fault_told(self, text: str) -> None:
        """The faults of a link or a vehicle that is bad on purpose have changed."""
        self._notice(Notice(logging.INFO, FAULT, text))

    # The loop

    def feed(self, event: Event) -> None:
        """Let the session take an event, and do what it says until it has nothing more to say."""
        if self._halted:
            return
        try:
            outputs = self._handle(event)
            while outputs:
                outputs = self._follow(outputs)
            self._tell()
            if self._tap is not None:
                self._tap.flush(may_wait=self.session.phase is Phase.LOCKSTEP)
        except Exception as error:  # whatever it is, it ends the run and is reported there
            if self._failed is None or self._failed.done():
                raise
            self._failed.set_exception(error)
            return
        self._set_timer()

    def _handle(self, event: Event) -> list[Output]:
        now_us = self._now_us()
        if self._tap is not None:
            self._tap.event(event, now_us)
        return self.session.handle(event, now_us)

    def _follow(self, outputs: list[Output]) -> list[Output]:
        """Do what the session said; gives what it says next."""
        more: list[Output] = []
        for output in outputs:
            kind = type(output)
            if kind is Send:
                self._write(output.frame)  # type: ignore[union-attr]
                continue
            self._tell()
            if kind is StepTwin:
                if not self._may_step():
                    continue
                more += self._handle(Sampled(self._step(output)))  # type: ignore[arg-type]
            elif kind is ResetTwin:
                self.twin.reset()
                if self._companion is not None:
                    self._companion.reset()
            elif kind is ForgetPeer:
                self._transport.unpin()
            else:
                self._notice(output)  # type: ignore[arg-type]
        return more

    def _write(self, frame: bytes) -> None:
        if not self._transport.write(frame):
            self.frames_dropped += 1
        if self._tap is not None:
            self._tap.sent(frame)

    def _step(self, step: StepTwin) -> SensorSample:
        twin = self.twin
        for change in self._changes:
            twin.fault(change)
        command = self._actuators.command(step.controls)
        if self._companion is not None:
            command = dataclasses.replace(command, arm_torque_nm=self._companion.torque_nm)
        batch = twin.step(command)
        sample = twin.sample_of(batch, step.time_us, truth=step.truth)
        if self._changes:
            self._faults_changed()
        if self._companion is not None:
            for frame in self._companion.tick(sample, twin.arm_state()):
                self._write(frame)
        self._untold = (step.controls, sample)
        return sample

    def _faults_changed(self) -> None:
        self.fault_changes += len(self._changes)
        if self._tap is not None:
            for change in self._changes:
                self._tap.fault(change)
        self._changes = []

    def _tell(self) -> None:
        """Tell the listeners of the last step: after its sample has left, while the flight controller computes."""
        if self._untold is None:
            return
        (controls, sample), self._untold = self._untold, None
        if self._tap is not None:
            self._tap.stepped(sample)
        for listener in self._listeners:
            listener.stepped(controls, sample)

    def _notice(self, notice: Notice) -> None:
        if self._tap is not None:
            self._tap.noticed(notice)
        for listener in self._listeners:
            listener.noticed(notice)

    # A replay goes by the recording in these three instead

    def _now_us(self) -> int:
        """Wall time of the event that is handled now."""
        return time.monotonic_ns() // 1000

    def _may_step(self) -> bool:
        """Whether a step that the session asks for is taken."""
        return not self._halted

    def _set_timer(self) -> None:
        """One timer, moved only when it would come too late: moving it at every tick costs more than a false alarm."""
        wake_us = self.session.wake_us
        if wake_us is None:
            return
        if self._timer is not None:
            if self._timer_us <= wake_us:
                return
            self._timer.cancel()
        self._timer_us = wake_us
        delay_s = max(0.0, (wake_us - self._now_us()) * 1e-6)
        self._timer = asyncio.get_running_loop().call_later(delay_s, self._timer_fired)

    def _timer_fired(self) -> None:
        self._timer = None
        self.feed(TimerExpired())
