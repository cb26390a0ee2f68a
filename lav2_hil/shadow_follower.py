"""The shadows on the live vehicle's heels: reads its ticks, steps the worlds, compares, anchors; without a clock."""

from __future__ import annotations

from firmware_profiles.signals import HilControls
from lav2_hil.actuator_map import ActuatorMap
from lav2_hil.shadow_records import Result, Schedule, Totals, checkpoint, live_state, pack_result, unpack_tick
from lav2_hil.shared_ring import FloatArray, SharedRing
from twin.shadow import Bands, ShadowEnsemble
from twin.twin import TwinDivergedError


class ShadowFollower:
    """Follows the ring of ticks and fills the ring of results.

    What comes out depends on the ticks alone, as long as none is skipped: anchors and comparisons are at fixed ticks.

    Args:
        ensemble: the worlds.
        actuators: the model's map of channels to speeds.
        ticks, results: the rings.
        schedule: when to anchor and to compare.
    """

    def __init__(
        self,
        ensemble: ShadowEnsemble,
        actuators: ActuatorMap,
        ticks: SharedRing,
        results: SharedRing,
        schedule: Schedule,
    ) -> None:
        self._ensemble = ensemble
        self._actuators = actuators
        self._ticks = ticks
        self._results = results
        self._schedule = schedule
        self._totals = Totals.none()
        self._next = 0  # row to be read
        self._tick = 0  # last one that was read
        self._following = False  # the worlds have taken every tick since an anchor
        self._behind = False

    def advance(self) -> bool:
        """Take one tick.

        Returns:
            False when there is none yet.
        """
        row = self._ticks.read(self._next)
        if row is None:
            if self._ticks.count == self._next:
                self._behind = False
                return False
            self._skip()
            return True
        self._next += 1
        self._take(row)
        return True

    def finish(self) -> None:
        """Nothing more will be taken: what is left counts as skipped."""
        self._totals.skipped_ticks += self._ticks.count - self._next
        self._publish(Result(self._totals))

    def _take(self, row: FloatArray) -> None:
        tick, time_us, controls = unpack_tick(row)
        if tick != self._tick + 1:
            self._following = False  # the live twin began anew, or rows are missing
        self._tick = tick
        if self._following:
            self._step(tick, time_us, controls, row)
        elif not self._schedule.anchors(tick):
            self._totals.skipped_ticks += 1
        if self._schedule.anchors(tick):
            self._ensemble.anchor(checkpoint(row))
            self._following = True

    def _step(self, tick: int, time_us: int, controls: HilControls | None, row: FloatArray) -> None:
        try:
            self._ensemble.step(self._actuators.command(controls))
        except TwinDivergedError:
            self._totals.broke_down += 1
            self._following = False
            return
        if self._schedule.compares(tick):
            bands = self._ensemble.bands(live_state(row))
            armed = controls is not None
            if armed:
                self._count(bands)
            self._publish(Result(self._totals, time_us, armed, bands))

    def _count(self, bands: Bands) -> None:
        totals = self._totals
        totals.compared += 1
        totals.inside += bands.inside
        totals.all_inside += bool(bands.inside.all())

    def _skip(self) -> None:
        """The row to be read is gone: go on at the newest anchor that is still there."""
        newest = self._ticks.count - 1
        row = self._ticks.read(newest)
        back = 0 if row is None else (int(row[0]) - 1) % self._schedule.anchor_ticks
        skipped = newest - back - self._next
        self._next += skipped
        self._following = False
        self._totals.skipped_ticks += skipped
        if not self._behind:
            self._behind = True
            self._totals.times_behind += 1
        self._publish(Result(self._totals))

    def _publish(self, result: Result) -> None:
        pack_result(result, self._results.next_row())
        self._results.publish()
