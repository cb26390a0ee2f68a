"""The follower: what it makes of the ticks, and what it does when it cannot keep up."""

import os
from collections.abc import Iterator
from contextlib import contextmanager

import msgspec
import numpy as np
import pytest
from twin_rig import put, twin_of

from firmware_profiles.loader import load_profile
from firmware_profiles.signals import HilControls
from firmware_profiles.uncertainty import UncertaintyParams
from lav2_hil.actuator_map import ActuatorMap
from lav2_hil.shadow_follower import ShadowFollower
from lav2_hil.shadow_records import (
    RESULT_ROWS,
    RESULT_WIDTH,
    Result,
    Schedule,
    channels_of,
    checkpoint,
    live_state,
    pack_tick,
    published,
    tick_width,
    unpack_result,
    unpack_tick,
)
from lav2_hil.shared_ring import SharedRing
from twin.shadow import CHANNELS, ShadowEnsemble
from twin.twin import TwinDivergedError

PROFILE = load_profile("px4_iris")
SCHEDULE = Schedule(anchor_ticks=20, band_ticks=5, ring_rows=60)
WORLDS = 3
HOVER = HilControls((0.6, 0.6, 0.6, 0.6, *[0.0] * 12), True, 0)


@contextmanager
def ring(rows: int, width: int) -> Iterator[tuple[SharedRing, SharedRing]]:
    fd = SharedRing.allocate("test", rows, width)
    try:
        yield SharedRing(fd, rows, width), SharedRing(fd, rows, width)
    finally:
        os.close(fd)


class Rig:
    """A live twin, and shadows at its heels without a process."""

    def __init__(self, profile=PROFILE) -> None:
        self.twin = put(twin_of("px4_iris"), height=20.0, rotors=600.0)
        self.actuators = ActuatorMap(profile.firmware)
        self.ensemble = ShadowEnsemble(profile, WORLDS, seed=1)
        width = tick_width(self.twin.checkpoint_size)
        with ring(SCHEDULE.ring_rows, width) as (self.ticks, read), ring(RESULT_ROWS, RESULT_WIDTH) as (write, results):
            self.results = results
            actuators = ActuatorMap(profile.firmware)
            self.follower = ShadowFollower(self.ensemble, actuators, read, write, SCHEDULE)

    def fly(self, ticks: int, controls: HilControls | None = HOVER) -> None:
        for _ in range(ticks):
            self.twin.move(self.actuators.command(controls))
            row = self.ticks.next_row()
            row[:] = np.nan  # what is not written must not be used
            live, channels = channels_of(controls)
            tick = self.twin.ticks
            pack_tick(row.data, 0, tick, 1000 * tick, live, *channels)
            if SCHEDULE.compares(tick):
                live_state(row)[:] = self.twin.state()
            if SCHEDULE.anchors(tick):
                self.twin.save(checkpoint(row))
            self.ticks.publish()

    def follow(self) -> None:
        while self.follower.advance():
            pass

    def found(self) -> list[Result]:
        rows = [self.results.read(index) for index in range(self.results.count)]
        return [unpack_result(row) for row in rows if row is not None]

    def times(self) -> list[int]:
        return [result.time_us // 1000 for result in self.found() if result.bands is not None]


def test_moments_are_at_fixed_ticks_from_the_first_anchor_on() -> None:
    rig = Rig()
    rig.fly(47)
    rig.follow()
    assert rig.times() == [6, 11, 16, 21, 26, 31, 36, 41, 46]
    last = rig.found()[-1]
    assert (last.totals.compared, last.totals.skipped_ticks, last.armed) == (9, 0, True)


def test_shadows_go_back_to_the_live_vehicle_at_every_anchor() -> None:
    rig = Rig()
    rig.fly(50)
    rig.follow()
    widths = {time: np.ptp(result.bands.quantiles[:, 6]) for time, result in zip(rig.times(), rig.found(), strict=True)}
    assert widths[21] > 2 * widths[26] > 0.0  # anchored after tick 21
    assert widths[41] > 2 * widths[46] > 0.0


def test_results_do_not_depend_on_when_the_ticks_are_taken() -> None:
    one, other = Rig(), Rig()
    one.fly(55)
    one.follow()
    for _ in range(11):
        other.fly(5)
        other.follow()
    rows = [[rig.results.read(index).tobytes() for index in range(rig.results.count)] for rig in (one, other)]
    assert len(rows[0]) == 10
    assert rows[0] == rows[1]


def test_exact_shadows_follow_the_live_vehicle_to_the_bit() -> None:
    rig = Rig(msgspec.structs.replace(PROFILE, uncertainty=UncertaintyParams()))
    nan = HilControls((0.7, float("nan"), 2.0, 0.5, *[0.0] * 12), True, 0)
    rig.fly(20)
    rig.fly(10, nan)
    rig.fly(20, None)
    rig.follow()
    for result in rig.found():
        assert np.array_equal(result.bands.quantiles, np.tile(result.bands.live, (3, 1)))
    assert np.array_equal(rig.ensemble.states(), np.tile(rig.twin.state(), (WORLDS, 1)))


def test_a_disarmed_vehicle_has_bands_that_do_not_count() -> None:
    rig = Rig()
    rig.fly(10, None)
    rig.fly(10, HilControls(HOVER.channels, False, 0))
    rig.fly(10, HilControls(HOVER.channels, True, 0, stale=True))
    rig.follow()
    assert rig.times() == [6, 11, 16, 21, 26]
    assert [result.armed for result in rig.found()] == [False] * 5
    assert rig.found()[-1].totals.compared == 0


def test_totals_count_each_channel_and_all_of_them() -> None:
    rig = Rig()
    rig.fly(41)
    rig.follow()
    results = rig.found()
    inside = np.array([result.bands.inside for result in results])
    assert 0 < inside.sum() < inside.size  # three shadows are few
    assert np.array_equal(results[-1].totals.inside, inside.sum(axis=0))
    assert results[-1].totals.all_inside == inside.all(axis=1).sum()


def test_report_26_a_twin_that_begins_anew_is_followed_from_its_first_tick() -> None:
    rig = Rig()
    rig.fly(33)
    rig.twin.reset()
    rig.fly(12)
    rig.follow()
    assert rig.times() == [6, 11, 16, 21, 26, 31, 6, 11]
    assert rig.found()[-1].totals.skipped_ticks == 0


# Falling behind


def test_far_behind_they_skip_to_the_newest_anchor_and_say_so_once() -> None:
    rig = Rig()
    rig.fly(30)
    for _ in range(10):
        rig.follower.advance()
    rig.fly(100)  # 130 ticks; the ring holds 60, of which one may be half written
    rig.follow()
    skipped = rig.found()[1]
    assert skipped.bands is None
    assert (skipped.totals.skipped_ticks, skipped.totals.times_behind) == (110, 1)
    assert rig.times() == [6, 126]  # from the anchor at tick 121 on
    rig.fly(100)
    rig.follower.advance()
    rig.fly(100)
    rig.follow()
    assert rig.found()[-1].totals.times_behind == 2  # it had caught up in between


def test_one_who_never_catches_up_is_behind_once() -> None:
    rig = Rig()
    for _ in range(5):
        rig.fly(100)
        rig.follower.advance()
    assert rig.found()[-1].totals.times_behind == 1
    assert rig.found()[-1].totals.skipped_ticks > 300


def test_without_an_anchor_in_the_ring_they_wait_for_the_next() -> None:
    rig = Rig()
    rig.fly(70)
    rig.twin.reset()
    rig.twin.ticks = 1005  # 14 rows before the newest there should be an anchor, but that is another flight
    rig.fly(10)
    rig.follow()
    assert rig.times() == []
    rig.fly(16)
    rig.follow()
    assert rig.times() == [1026, 1031]  # anchored after tick 1021
    assert rig.found()[-1].totals.skipped_ticks == 65 + 5 + 15


def test_what_is_left_at_the_end_counts_as_skipped() -> None:
    rig = Rig()
    rig.fly(30)
    for _ in range(12):
        rig.follower.advance()
    rig.follower.finish()
    last = rig.found()[-1]
    assert (last.bands, last.totals.skipped_ticks, last.totals.compared) == (None, 18, 2)


def test_worlds_that_break_down_wait_for_the_next_anchor(monkeypatch) -> None:
    rig = Rig()
    rig.fly(50)
    step, calls = rig.ensemble.step, 0

    def breaking(command) -> None:
        nonlocal calls
        calls += 1
        if calls == 8:
            raise TwinDivergedError("world 1")
        step(command)

    monkeypatch.setattr(rig.ensemble, "step", breaking)
    rig.follow()
    totals = rig.found()[-1].totals
    assert rig.times() == [6, 26, 31, 36, 41, 46]
    assert (totals.broke_down, totals.skipped_ticks) == (1, 11)  # ticks 10 to 20


# Rows


@pytest.mark.parametrize("armed", [True, False])
def test_controls_survive_a_row(armed: bool) -> None:
    row = np.zeros(tick_width(10))
    controls = HilControls(tuple(i / 7 for i in range(16)), armed, 5)
    live, channels = channels_of(controls)
    pack_tick(row.data, 0, 7, 123_456_789_012, live, *channels)
    tick, time_us, read = unpack_tick(row)
    assert (tick, time_us) == (7, 123_456_789_012)
    assert (read.channels if read else None) == (controls.channels if armed else None)
    assert not live_state(row).any()
    assert (live_state(row).shape, checkpoint(row).shape) == ((13,), (10,))


def test_bands_survive_a_row() -> None:
    rig = Rig()
    rig.fly(16)
    rig.follow()
    read, expected = rig.found()[-1].bands, rig.ensemble.bands(rig.twin.state())
    for name in ("quantiles", "live", "rank", "inside"):
        assert np.array_equal(getattr(read, name), getattr(expected, name)), name


def test_published_bands_name_every_channel() -> None:
    rig = Rig()
    rig.fly(6)
    rig.follow()
    result = rig.found()[0]
    data = published(result, WORLDS)
    assert (data["t_us"], data["n"]) == (6000, WORLDS)
    assert tuple(data["channels"]) == CHANNELS
    height = data["channels"]["height_m"]
    assert (height["p05"], height["p50"], height["p95"]) == tuple(result.bands.quantiles[:, 6])
    assert (height["live"], height["rank"]) == (result.bands.live[6], result.bands.rank[6])
