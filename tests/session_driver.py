"""Runs a HilSession in virtual time against a scripted flight controller, over a link that may be bad.

No clock and no socket: the driver is a queue of what is to happen when. It checks, at every step, the rules that hold
always, and records what went in and came out, so that it can be fed to a fresh session again.
"""

from __future__ import annotations

import heapq
import itertools
import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from pymavlink.dialects.v20 import common

from bridge.codec import Decoder
from bridge.hil import HilSession
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
from bridge.session_state import PacedReason, Phase
from bridge.transport.faults import Fates, FaultPlan
from firmware_profiles.signals import BaroSample, GpsFix, GroundTruth, SensorSample

PERIOD_US = 4000
START_US = 77_000_000
"""Wall time at which a driver begins; any number will do."""
FIRST_US = 1_000_000


def at_rest(step: StepTwin, noise: random.Random) -> SensorSample:
    """A vehicle at rest: magnetometer and barometer at 50 Hz, GNSS at 10 Hz."""
    tick = step.time_us // PERIOD_US
    slow = tick % 5 == 0
    truth = GroundTruth((1.0, 0.0, 0.0, 0.0), (0.0,) * 3, (0.0,) * 3, (0.0,) * 3, (0.0, 0.0, -9.8), 47.4, 8.5, 488.0)
    return SensorSample(
        step.time_us,
        (noise.gauss(0, 0.02), noise.gauss(0, 0.02), noise.gauss(-9.81, 0.02)),
        (noise.gauss(0, 0.002), noise.gauss(0, 0.002), noise.gauss(0, 0.002)),
        (0.2174, 0.0129, noise.gauss(0.4305, 0.001)) if slow else None,
        BaroSample(noise.gauss(955.9, 0.02), 488.0, 20.0) if slow else None,
        GpsFix(1_780_000_000_000_000 + step.time_us, 47.4, 8.5, 488.0, (0.0,) * 3, 0.9, 1.5, 12, 3)
        if tick % 25 == 0
        else None,
        truth if step.truth else None,
    )


class Peer(Protocol):
    """The other end of the link."""

    def greeting(self) -> list[bytes]:
        """What it says before it has heard anything."""

    def hear(self, message: Any) -> list[bytes]:
        """What it says to one message."""


class ScriptedFc:
    """A flight controller that behaves as PX4 in SITL, as far as the link sees it.

    Args:
        boot: HIL_SENSORs after boot without an answer.
        pattern: which HIL_SENSORs are answered, over and over; "0001" is one in four.
        armed_pattern: the same while armed.
        quiet_disarmed: no answer while disarmed but one at disarm, as a 1.17 rover.
        deaf_first: the first frame only tells it who is there (PX4 on UDP).
        own_clock_us: stamps with a clock of its own that is so far ahead, instead of the sensor's stamp.
        flags: of HIL_ACTUATOR_CONTROLS; 1 is lockstep.
        v1: speaks MAVLink 1.
    """

    def __init__(
        self,
        *,
        boot: int = 15,
        pattern: str = "1",
        armed_pattern: str | None = None,
        quiet_disarmed: bool = False,
        deaf_first: bool = False,
        own_clock_us: int | None = None,
        flags: int = 1,
        system: int = 1,
        v1: bool = False,
        armed_bits: int = 129,
        disarmed_bits: int = 1,
    ) -> None:
        self.pattern = pattern
        self.armed_pattern = armed_pattern
        self.armed = False
        self.silent = False
        self.flags = flags
        self.own_clock_us = own_clock_us
        self.controls = [0.5] * 4 + [0.0] * 12
        self.sensors = 0
        self.heard: list[Any] = []
        self._bits = {True: armed_bits, False: disarmed_bits}
        self._boot = boot
        self._quiet_disarmed = quiet_disarmed
        self._deaf = deaf_first
        self._greets_when_heard = deaf_first
        self._newest_us = 0
        self._place = 0
        self._was_armed = False
        self._v1 = v1
        self._mav = common.MAVLink(None, srcSystem=system, srcComponent=1)

    def pack(self, message: Any) -> bytes:
        frame: bytes = message.pack(self._mav, force_mavlink1=self._v1)
        self._mav.seq = (self._mav.seq + 1) % 256
        return frame

    def handshake(self) -> list[bytes]:
        interval = common.MAVLink_command_long_message(0, 0, 511, 0, 115.0, 5000.0, 0, 0, 0, 0, 0)
        return [self.pack(interval), self.pack(common.MAVLink_heartbeat_message(0, 12, 0, 0, 0, 3))]

    def greeting(self) -> list[bytes]:
        return [] if self._greets_when_heard else self.handshake()

    def answer(self, stamp_us: int) -> bytes:
        controls = self.controls if self.armed else [0.0] * 16
        return self.pack(
            common.MAVLink_hil_actuator_controls_message(stamp_us, controls, self._bits[self.armed], self.flags)
        )

    def hear(self, message: Any) -> list[bytes]:
        if self._deaf:
            self._deaf = False
            return self.handshake()
        if message.get_type() != "HIL_SENSOR":
            self.heard.append(message)
            return []
        if message.time_usec <= self._newest_us:
            return []  # time that does not go on does nothing
        self._newest_us = message.time_usec
        self.sensors += 1
        disarmed_now = self._was_armed and not self.armed
        if disarmed_now or (self.armed and not self._was_armed):
            self._place = 0
        self._was_armed = self.armed
        if self.silent or self.sensors <= self._boot:
            return []
        if self._quiet_disarmed and not self.armed and not disarmed_now:
            return []
        pattern = (self.armed_pattern or self.pattern) if self.armed else self.pattern
        answers = pattern[self._place % len(pattern)] == "1"
        self._place += 1
        if not answers and not (self._quiet_disarmed and disarmed_now):
            return []
        return [self.answer(message.time_usec + (self.own_clock_us or 0))]


@dataclass
class Sensor:
    """One HIL_SENSOR as it left, and what the session thought then."""

    wall_us: int
    time_us: int
    fields: int
    phase: Phase
    connection: int


class Lane:
    """One direction of the link: fates from a seed, order kept on a stream."""

    def __init__(self, plan: FaultPlan, seed: str, in_order: bool) -> None:
        self._seed = seed
        self._in_order = in_order
        self._last_us = 0
        self._held: tuple[bytes, ...] = ()
        self.change(plan)

    def change(self, plan: FaultPlan) -> None:
        self._fates = Fates(plan, self._seed)

    def pass_on(self, frame: bytes, now: int) -> list[tuple[int, bytes]]:
        fate = self._fates.decide(frame)
        due = now + round(1e6 * fate.delay_s)
        if self._in_order:
            due = self._last_us = max(due, self._last_us)
        if fate.overtaken and not self._held:
            self._held = fate.copies
            return []
        held, self._held = (self._held, ()) if fate.copies else ((), self._held)
        return [(due, copy) for copy in (*fate.copies, *held)]


class Driver:
    """A session, a peer, and the link between them.

    Args:
        session: fresh.
        peer: what the session talks to.
        latency_us: each way, on top of what the plan says.
        plan: what goes wrong on the link, in both directions.
        timer_late_us: how much too late a timer fires, at most.
        twin_us: wall time that a step of the twin takes.
        sampler: the twin.
    """

    def __init__(
        self,
        session: HilSession,
        peer: Peer,
        *,
        latency_us: int = 100,
        plan: FaultPlan | None = None,
        seed: int = 0,
        timer_late_us: int = 0,
        twin_us: int = 20,
        sampler: Callable[[StepTwin, random.Random], SensorSample] = at_rest,
    ) -> None:
        self.session = session
        self.peer = peer
        self.latency_us = latency_us
        self.now = START_US
        self.log: list[tuple[Event, int, list[Output], int | None]] = []
        self.sensors: list[Sensor] = []
        self.sent: list[tuple[int, Any]] = []
        self.steps: list[StepTwin] = []
        self.notices: list[tuple[int, Notice]] = []
        self.resets: list[str] = []
        self.connections = 0
        self.refusing = False
        self._random = random.Random(seed)
        self._timer_late_us = timer_late_us
        self._timer_us: int | None = None
        self._twin_us = twin_us
        self._sampler = sampler
        self._queue: list[tuple[int, int, Callable[[], None]]] = []
        self._numbers = itertools.count()
        self._peer_decoder = Decoder(datagrams=session._datagrams)
        self._reader = Decoder(datagrams=True)  # for a look at single frames
        self._plan = plan or FaultPlan()
        in_order = not session._datagrams
        self._lanes = tuple(Lane(self._plan, f"{seed} {way}", in_order) for way in ("out", "in"))
        self._awaited: int | None = None

    # What happens

    def at(self, wall_us: int, action: Callable[[], None]) -> None:
        """Do something at a wall time."""
        heapq.heappush(self._queue, (wall_us, next(self._numbers), action))

    def after(self, seconds: float, action: Callable[[], None]) -> None:
        self.at(self.now + round(1e6 * seconds), action)

    def connect(self) -> None:
        self.connections += 1
        connection = self.connections
        self._peer_decoder = Decoder(datagrams=self.session._datagrams)
        self.feed(LinkUp("the scripted flight controller"))
        for frame in self.peer.greeting():
            self._from_peer(frame, connection)

    def disconnect(self, reason: str = "closed") -> None:
        self.connections += 1  # what is under way is lost
        self.feed(LinkDown(reason))

    def exchange(self, peer: Peer) -> None:
        """Another flight controller at the same datagram address."""
        self.peer = peer
        self.connections += 1

    def faults(self, plan: FaultPlan) -> None:
        for lane in self._lanes:
            lane.change(plan)

    def run(self, seconds: float) -> Driver:
        """Let virtual time pass."""
        end = self.now + round(1e6 * seconds)
        at_once = 0
        while True:
            due, timer = self._next()
            if due > end:
                break
            at_once = at_once + 1 if due <= self.now else 0
            assert at_once < 20_000, "the session does not let time pass"
            self.now = max(self.now, due)
            if timer:
                self._timer_us = None
                self.feed(TimerExpired())
            else:
                heapq.heappop(self._queue)[2]()
        self.now = end
        return self

    def _next(self) -> tuple[int, bool]:
        queued = self._queue[0][0] if self._queue else 1 << 62
        wake = self.session.wake_us
        if wake is None:
            self._timer_us = None
            return queued, False
        if self._timer_us is None or self._timer_us < wake:
            late = self._random.randint(0, self._timer_late_us) if self._timer_late_us else 0
            self._timer_us = max(wake, self.now) + late
        self._timer_us = min(self._timer_us, max(wake, self.now) + self._timer_late_us)
        return (self._timer_us, True) if self._timer_us < queued else (queued, False)

    # The session

    def feed(self, event: Event) -> None:
        outputs = self._handle(event)
        while outputs:
            more: list[Output] = []
            for output in outputs:
                more += self._follow(output)
            outputs = more

    def _handle(self, event: Event) -> list[Output]:
        session = self.session
        given_up, phase = session.stats.timeouts + session.stats.slips, session.phase
        outputs = session.handle(event, self.now)
        self.log.append((event, self.now, list(outputs), session.wake_us))
        stats = session.stats
        assert stats.sensors - stats.replies - stats.timeouts - stats.not_expected <= 1
        if stats.timeouts + stats.slips > given_up or session.phase is not phase:
            self._awaited = None
        return outputs

    def _follow(self, output: Output) -> list[Output]:
        if isinstance(output, Send):
            self._sent(output.frame)
        elif isinstance(output, StepTwin):
            assert self._awaited is None, f"sensor {output.time_us} before the answer to {self._awaited}"
            self.steps.append(output)
            self.now += self._twin_us
            return self._handle(Sampled(self._sampler(output, self._random)))
        elif isinstance(output, Notice):
            self.notices.append((self.now, output))
        elif isinstance(output, ResetTwin):
            self.resets.append(output.reason)
        else:
            assert isinstance(output, ForgetPeer)
            self.disconnect("forgotten")
        return []

    def _sent(self, frame: bytes) -> None:
        (message,) = self._reader.feed(frame)
        self.sent.append((self.now, message))
        if message.get_type() == "HIL_SENSOR":
            session = self.session
            connection = session.stats.connections
            before = self.sensors[-1] if self.sensors else None
            if before and (session._datagrams or before.connection == connection):
                assert message.time_usec > before.time_us
            elif not before or not session._datagrams:
                assert message.time_usec == FIRST_US
            self.sensors.append(Sensor(self.now, message.time_usec, message.fields_updated, session.phase, connection))
            self._awaited = message.time_usec if session.phase is Phase.LOCKSTEP and session._outstanding else None
        if self.refusing:
            self.at(self.now + 50, lambda: self.feed(Refused()) if self.refusing else None)
            return
        connection = self.connections
        for due, copy in self._lanes[0].pass_on(frame, self.now):
            self.at(due + self.latency_us, lambda copy=copy: self._to_peer(copy, connection))  # type: ignore[misc]

    def _to_peer(self, frame: bytes, connection: int) -> None:
        if connection != self.connections:
            return
        for message in self._peer_decoder.feed(frame):
            if message.get_msgId() >= 0:
                for answer in self.peer.hear(message):
                    self._from_peer(answer, connection)

    def _from_peer(self, frame: bytes, connection: int) -> None:
        for due, copy in self._lanes[1].pass_on(frame, self.now):
            self.at(due + self.latency_us, lambda copy=copy: self.deliver(copy, connection))  # type: ignore[misc]

    def deliver(self, frame: bytes, connection: int | None = None) -> None:
        """Bytes reach the session."""
        if connection is not None and connection != self.connections:
            return
        if self._awaited is not None:
            for message in self._reader.feed(frame):
                if message.get_type() == "HIL_ACTUATOR_CONTROLS" and (
                    message.time_usec >= self._awaited or not self.session.tracker.echoes
                ):
                    self._awaited = None
        self.feed(Received(frame))

    # What is asked afterwards

    def names(self) -> list[str]:
        return [notice.name for _, notice in self.notices]

    def since(self, wall_us: int) -> list[Sensor]:
        return [sensor for sensor in self.sensors if sensor.wall_us >= wall_us]

    def gaps_us(self, since_us: int = 0) -> list[int]:
        """Wall time between the HIL_SENSORs of a connection."""
        sensors = self.since(since_us)
        return [
            after.wall_us - before.wall_us
            for before, after in itertools.pairwise(sensors)
            if before.connection == after.connection
        ]

    def in_lockstep(self) -> bool:
        return self.session.phase is Phase.LOCKSTEP

    def paced(self, reason: PacedReason) -> bool:
        return self.session.phase is Phase.PACED and self.session.paced_reason is reason

    def check_replay(self, fresh: HilSession) -> None:
        """The same events into a fresh session: the same outputs."""
        for number, (event, now, outputs, wake_us) in enumerate(self.log):
            assert fresh.handle(event, now) == outputs, f"event {number}: {event}"
            assert fresh.wake_us == wake_us, f"event {number}: {event}"


def lockstep(peer: ScriptedFc | None = None, *, seconds: float = 1.0, **options: Any) -> Driver:
    """A driver whose session has found its lockstep; options of the session and of the driver."""
    driver = make_driver(peer or ScriptedFc(), **options)
    driver.connect()
    driver.run(seconds)
    assert driver.in_lockstep(), driver.session.describe()
    return driver


def make_driver(peer: Peer, **options: Any) -> Driver:
    names = ("period_us", "datagrams", "speaks_first", "reply_timeout_us", "speed")
    session_options = {"period_us": PERIOD_US} | {name: options.pop(name) for name in names if name in options}
    return Driver(HilSession(**session_options), peer, **options)
