"""A recorded flight controller made into a session: its frames drive our session state machine and twin once.

What the recording holds is one side of a conversation; ours is new. So the recorded flight controller is played against
the loop in virtual time that begins with the recording's, and the loop is recorded as a live one is. From there on the
session is like any other. `bridge.capture` decides when it says what; `board_import` for one with a clock of its own.
"""

from __future__ import annotations

import dataclasses
import logging
import os
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec

from bridge.capture import CapturePlayer
from bridge.codec import Decoder
from bridge.endpoint import Memory
from bridge.recorded_link import merged, with_directions
from bridge.session_base import FIRST_TIME_US
from bridge.session_io import LinkDown, LinkUp
from bridge.tlog import TlogRecord, read_damaged_tlog
from firmware_profiles.errors import DataError, UsageError
from firmware_profiles.loader import load_profile
from lav2_hil.session.board_import import BoardImportLoop, is_board
from lav2_hil.session.header import Header, make_header, session_params
from lav2_hil.session.recorder import SessionRecorder
from lav2_hil.session.virtual_loop import RecordedPeer, VirtualLoop
from lav2_hil.settings import Settings

logger = logging.getLogger("lav2_hil")

STARTED_US = 1_000_000
"""The loop's clock where the recording begins; any number will do."""
ANSWER_US = 200
"""A frame arrives so long after the sensor that it follows: PX4 on the same computer takes about that."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def read_recording(from_px4: Path, to_px4: Path | None) -> list[TlogRecord]:
    """The frames of one tlog of both directions or of PX4's alone, or of one of each, in the order of their times.

    What is damaged or of a third party is left out, with a warning.

    Raises:
        NoInputError: a file cannot be read.
        DataError: there is nothing of a flight controller in it.
        UsageError: a tlog of both directions, and another one.
    """
    records, left_out = with_directions(_read(from_px4))
    if left_out:
        logger.warning("%s: %d frames left out: damaged, or neither PX4's nor its simulator's", from_px4, left_out)
    if not any(not record.to_px4 for record in records):
        raise DataError(f"{from_px4}: holds nothing that a flight controller sent; give the recording of its side")
    if to_px4 is None:
        return records
    if any(record.to_px4 for record in records):
        raise UsageError(f"--to {to_px4}: {from_px4} holds both directions already")
    sent = _read(to_px4)
    directions, _ = with_directions(sent)
    if not any(record.to_px4 for record in directions):
        raise DataError(f"{to_px4}: holds nothing that a simulator sent (HIL_SENSOR)")
    return merged(records, sent)


def _read(path: Path) -> list[TlogRecord]:
    records, damage = read_damaged_tlog(path)
    if not records:
        raise DataError(damage or f"{path}: the file is empty")
    if damage is not None:
        logger.warning("%s; imported up to there", damage)
    return records


def import_recording(records: Sequence[TlogRecord], settings: Settings, source: str, path: Path) -> dict[str, Any]:
    """Play a recording, and write the session that comes of it.

    Args:
        records: in order.
        settings: of twin and session.
        source: what the recording is called.
        path: of an empty file.

    Returns:
        The import in figures.

    Raises:
        DataError: it cannot be played with this vehicle.
        OSError: the file takes no more.
        TwinDivergedError: the physics broke down.
    """
    header = _header(records, dataclasses.replace(settings, hitl=is_board(records)), source)
    loop = _loop(header, records, source)
    recorder = _PatientRecorder(path, os.open(path, os.O_WRONLY | os.O_CLOEXEC), header, loop.twin, lambda _: None)
    loop.record(recorder)
    try:
        loop.play()
    finally:
        recorder.close({"ended_by": "recording"})
    written = recorder.summary()
    if not written["complete"]:
        raise OSError(written["reason"])
    return loop.summary()


def _header(records: Sequence[TlogRecord], settings: Settings, source: str) -> Header:
    header = make_header(
        settings,
        session_params(settings, datagrams=False, speaks_first=False),
        name=settings.vehicle_name,
        command="import",
        profile_source=settings.profile_source,
        endpoint=f"tlog:{source}",
        started_us=STARTED_US,
    )
    try:
        started_utc = _EPOCH + timedelta(microseconds=records[0].time_us)
    except OverflowError:
        raise DataError(f"{source}: its first time, {records[0].time_us} us, is none since 1970") from None
    return msgspec.structs.replace(header, started_utc=started_utc)


def _loop(header: Header, records: Sequence[TlogRecord], source: str) -> _ImportLoop | BoardImportLoop:
    if header.session.hitl:
        return BoardImportLoop(header, records, source)
    player = CapturePlayer(records, header.session.period_us)
    _check(player, records, header.session.period_us, source)
    return _ImportLoop(header, player)


def _check(player: CapturePlayer, records: Sequence[TlogRecord], period_us: int, source: str) -> None:
    if player.stamp_step_us % period_us:
        raise DataError(
            f"{source}: its answers' stamps go in steps of {player.stamp_step_us} us, the vehicle's IMU in steps of "
            f"{period_us} us: choose a --profile with the IMU rate that was recorded"
        )
    # A hundred times real time is more than PX4 manages.
    most_us = 100 * max(record.time_us - records[0].time_us for record in records) + 600_000_000
    if player.longest_us > most_us:
        raise DataError(
            f"{source}: its answers' stamps are {player.longest_us * 1e-6:.0f} s from its simulator's first: another "
            "clock's; --to gives the simulator's side"
        )


def import_settings(profile_name: str, **twin: Any) -> Settings:
    """Settings of an import with this vehicle, and of its twin: there is no link.

    Raises:
        ProfileError, UsageError: as the parts do.
    """
    profile = load_profile(profile_name)
    return Settings(profile=profile, profile_source=profile_name, endpoint=Memory("import"), command="import", **twin)


class _PatientRecorder(SessionRecorder):
    """Nothing is lost by waiting for the writer: virtual time stands still meanwhile."""

    def flush(self, *, may_wait: bool) -> None:
        super().flush(may_wait=True)


class _ImportLoop(VirtualLoop):
    """The loop in virtual time, against a recorded flight controller in lockstep."""

    def __init__(self, header: Header, player: CapturePlayer) -> None:
        self._player = player
        self._answers = _AnsweringPeer(self, player)
        super().__init__(header, self._answers)

    def play(self) -> None:
        """Play all connections to their ends."""
        begin_us: int | None = None
        while self._player.connect():
            if begin_us is None:
                begin_us = self._player.wall_us
            else:
                self.feed(LinkDown("it closed the connection"))
                self.clock_us = max(self.clock_us, STARTED_US + self._player.wall_us - begin_us)
            self._answers.say(self._player.greeting())
            self.feed(LinkUp("the recorded flight controller"))
            while not self._is_over():
                self.advance()

    def _is_over(self) -> bool:
        silent_us = self.session.time_us - FIRST_TIME_US
        return self._player.ended and not self._peer.said and silent_us >= self._player.silent_until_us


class _AnsweringPeer(RecordedPeer):
    """The recorded flight controller, whose frames are due at the sensors that it hears."""

    def __init__(self, loop: _ImportLoop, player: CapturePlayer) -> None:
        super().__init__()
        self._loop = loop
        self._player = player
        self._decoder = Decoder(datagrams=True)

    def say(self, frames: list[bytes]) -> None:
        """These frames are on their way from now on."""
        arrive_us = self._loop.clock_us + ANSWER_US
        self.said.extend((arrive_us, frame) for frame in frames)

    def write(self, data: bytes) -> bool:
        """Hear a frame."""
        for message in self._decoder.feed(data):
            if message.get_type() == "HIL_SENSOR":
                self.say(self._player.sensor(message.time_usec))
        return True
