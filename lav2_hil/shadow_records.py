"""What the loop tells the shadow process and what that answers: rows of two rings, and the task it begins with."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from firmware_profiles.profile import VehicleProfile
from firmware_profiles.signals import CHANNELS as CONTROLS
from firmware_profiles.signals import HilControls
from twin.shadow import CHANNELS, QUANTILES, Bands

FloatArray = npt.NDArray[np.float64]

ANCHOR_S = 1.0
"""The shadows start again where the live vehicle is, once in so many simulated seconds."""
BANDS_S = 0.1
RING_S = 8.0
"""How far the shadows may fall behind before they skip."""
RESULT_ROWS = 512


class ShadowTask(msgspec.Struct, frozen=True, kw_only=True):
    """What the shadow process is to do.

    Attributes:
        profile: the nominal vehicle, its uncertainty, and the actuator map.
        worlds, seed: how many, and of what draws.
        ticks_fd, results_fd: the two rings' memory.
        checkpoint_size: numbers in the live twin's checkpoint.
    """

    profile: VehicleProfile
    worlds: int
    seed: int
    ticks_fd: int
    results_fd: int
    checkpoint_size: int


@dataclass(frozen=True, slots=True)
class Schedule:
    """Ticks at which the shadows are anchored and compared; the first tick after a reset is one of both."""

    anchor_ticks: int
    band_ticks: int
    ring_rows: int

    @classmethod
    def of(cls, profile: VehicleProfile) -> Schedule:
        """For a vehicle's tick."""
        tick_s = profile.vehicle.step_dt_s
        anchor, bands, ring = (max(1, round(span_s / tick_s)) for span_s in (ANCHOR_S, BANDS_S, RING_S))
        return cls(anchor, bands, ring)

    def anchors(self, tick: int) -> bool:
        """Whether the shadows are anchored after this tick."""
        return (tick - 1) % self.anchor_ticks == 0

    def compares(self, tick: int) -> bool:
        """Whether the shadows are compared after this tick."""
        return (tick - 1) % self.band_ticks == 0


# A tick: number, simulated time [us], whether anything may move, the controls; then, where they are due, the live
# state and the live checkpoint.

_TICK = struct.Struct(f"={3 + CONTROLS}d")
_STATE = slice(3 + CONTROLS, 3 + CONTROLS + 13)
_STILL = (0.0,) * CONTROLS

pack_tick = _TICK.pack_into


def tick_width(checkpoint_size: int) -> int:
    """Numbers in a tick's row."""
    return _STATE.stop + checkpoint_size


def channels_of(controls: HilControls | None) -> tuple[bool, tuple[float, ...]]:
    """Whether these controls may move anything, and what they say."""
    if controls is None or not controls.armed or controls.stale:
        return False, _STILL
    return True, controls.channels


def live_state(row: FloatArray) -> FloatArray:
    """(13,) the part of a tick's row that holds the live state, to write or to read."""
    return row[_STATE]


def checkpoint(row: FloatArray) -> FloatArray:
    """The part of a tick's row that holds the live checkpoint."""
    return row[_STATE.stop :]


def unpack_tick(row: FloatArray) -> tuple[int, int, HilControls | None]:
    """Number, simulated time [us], and controls; None where nothing may move."""
    tick, time_us, live = row[:3].tolist()
    if not live:
        return int(tick), int(time_us), None
    return int(tick), int(time_us), HilControls(tuple(row[3 : 3 + CONTROLS].tolist()), True, int(time_us))


# A result: whether it holds bands, then the totals, then the bands.


@dataclass(slots=True)
class Totals:
    """What the shadows have come to so far.

    Attributes:
        compared: moments at which an armed vehicle was compared.
        inside: (C,) at how many of them each channel was within its band.
        all_inside: at how many all of them were.
        skipped_ticks: of the live twin, which the shadows did not follow.
        times_behind: how often they fell behind.
        broke_down: how often the physics of a world did.
    """

    compared: int
    inside: npt.NDArray[np.int64]
    all_inside: int = 0
    skipped_ticks: int = 0
    times_behind: int = 0
    broke_down: int = 0

    @classmethod
    def none(cls) -> Totals:
        """Nothing yet."""
        return cls(0, np.zeros(len(CHANNELS), dtype=np.int64))


@dataclass(frozen=True, slots=True)
class Result:
    """One row of results; `bands` is None where only the totals have changed.

    Attributes:
        time_us: simulated time of the bands.
        armed: whether they count.
    """

    totals: Totals
    time_us: int = 0
    armed: bool = False
    bands: Bands | None = None


_C = len(CHANNELS)
_HEAD = 8
RESULT_WIDTH = _HEAD + _C * (1 + len(QUANTILES) + 3)


def pack_result(result: Result, row: FloatArray) -> None:
    """Write a result into a row."""
    totals, bands = result.totals, result.bands
    row[:_HEAD] = (
        bands is not None,
        result.time_us,
        result.armed,
        totals.compared,
        totals.all_inside,
        totals.skipped_ticks,
        totals.times_behind,
        totals.broke_down,
    )
    columns = row[_HEAD:].reshape(-1, _C)
    columns[0] = totals.inside
    if bands is not None:
        columns[1:4], columns[4], columns[5], columns[6] = bands.quantiles, bands.live, bands.rank, bands.inside


def unpack_result(row: FloatArray) -> Result:
    """The inverse of `pack_result`."""
    filled, time_us, armed, compared, all_inside, skipped, behind, broke_down = map(int, row[:_HEAD].tolist())
    columns = row[_HEAD:].reshape(-1, _C)
    totals = Totals(compared, columns[0].astype(np.int64), all_inside, skipped, behind, broke_down)
    bands = Bands(columns[1:4], columns[4], columns[5], columns[6].astype(bool)) if filled else None
    return Result(totals, time_us, bool(armed), bands)


def published(result: Result, worlds: int) -> dict[str, Any]:
    """The bands as they go to MQTT and into a session: {t_us, n, channels: {name: {p05, p50, p95, live, rank}}}."""
    bands = result.bands
    assert bands is not None
    rows = (*bands.quantiles.tolist(), bands.live.tolist(), bands.rank.tolist())
    columns = zip(CHANNELS, *rows, strict=True)
    return {
        "t_us": result.time_us,
        "n": worlds,
        "channels": {
            name: {"p05": low, "p50": middle, "p95": high, "live": live, "rank": rank}
            for name, low, middle, high, live, rank in columns
        },
    }
