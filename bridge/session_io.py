"""What goes into a HIL session and what comes out of it: plain values.

The session does no input or output of its own. Everything enters through `handle(event, now_us)` as one of the
events here and leaves as a list of the outputs here, so that the same events give the same outputs again.
"""

from __future__ import annotations

from typing import NamedTuple

from firmware_profiles.signals import HilControls, SensorSample


class LinkUp(NamedTuple):
    """The transport has a peer."""

    peer: str


class LinkDown(NamedTuple):
    """The transport lost its peer."""

    reason: str


class Received(NamedTuple):
    """Bytes arrived."""

    data: bytes


class Refused(NamedTuple):
    """A datagram was refused: nobody listens at the peer's port."""


class TimerExpired(NamedTuple):
    """The time that the session asked to be woken at (`wake_us`) has come."""


class Sampled(NamedTuple):
    """The twin has stepped: the answer to `StepTwin`."""

    sample: SensorSample


class Pause(NamedTuple):
    """The operator stops simulated time."""


class Resume(NamedTuple):
    """The operator lets simulated time go on."""


class SetSpeed(NamedTuple):
    """The operator sets the speed: simulated over wall time, 0 for as fast as it goes."""

    speed: float


Event = LinkUp | LinkDown | Received | Refused | TimerExpired | Sampled | Pause | Resume | SetSpeed


class Send(NamedTuple):
    """Send one frame."""

    frame: bytes


class StepTwin(NamedTuple):
    """Step the twin to this simulated time under these controls, and come back with `Sampled`.

    `controls` is None until the flight controller has sent any; `truth` says that the sample needs the ground truth.
    """

    time_us: int
    controls: HilControls | None
    truth: bool


class ResetTwin(NamedTuple):
    """Put the twin back to its start: another flight controller, or the same one from its boot."""

    reason: str


class ForgetPeer(NamedTuple):
    """The peer of a listening datagram socket has fallen silent: let another take its place."""


class Notice(NamedTuple):
    """Something a person should know, named so that a program can tell it too.

    `level` is a `logging` level.
    """

    level: int
    name: str
    text: str


Output = Send | StepTwin | ResetTwin | ForgetPeer | Notice
