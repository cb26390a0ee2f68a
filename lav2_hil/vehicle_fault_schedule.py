"""Faults of the vehicle begin and end by simulated time: a listener of the loop that tells it of them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from bridge.session_io import Notice
from firmware_profiles.signals import HilControls, SensorSample
from lav2_hil.vehicle_faults import VehicleFault
from twin.faults import FaultChange

Part = tuple[str, str]
"""Target and kind."""


class VehicleFaultSchedule:
    """Changes what is wrong with the vehicle behind the first tick at or after the time of each fault.

    The tick that follows is the first that shows it.

    Args:
        faults: of the run; of two of one kind of one target, the one that began last holds.
        change: is told of what begins, changes or ends, at once.
        tick_us: simulated time of a step.
        tell: is called with a line for each fault that begins or is over, never from inside a step.
    """

    def __init__(
        self,
        faults: tuple[VehicleFault, ...],
        change: Callable[[FaultChange], None],
        tick_us: int,
        tell: Callable[[str], None],
    ) -> None:
        self._faults = sorted(faults, key=lambda fault: fault.at_us)
        self._change = change
        self._tell = tell
        self._tick_us = tick_us
        self._ticks = 0
        self._present: dict[Part, tuple[float, ...]] = {}
        self._done_us = -1
        self._due_us = sorted(
            {fault.at_us for fault in faults} | {end for f in faults if (end := _end_us(f)) is not None}
        )

    def begin(self) -> None:
        """What holds from the first step on."""
        self._come_to(0)

    def stepped(self, controls: HilControls | None, sample: SensorSample) -> None:
        """Count a tick, and change what is due."""
        self._ticks += 1
        if self._due_us and self._due_us[0] <= self._ticks * self._tick_us:
            self._come_to(self._ticks * self._tick_us)

    def noticed(self, notice: Notice) -> None:
        """Nothing."""

    def _come_to(self, now_us: int) -> None:
        self._due_us = [time_us for time_us in self._due_us if time_us > now_us]
        before, self._present = self._present, self._at(now_us)
        for part in before | self._present:  # in the order of the faults, the same in every run
            value = self._present.get(part)
            if value != before.get(part):
                self._change(FaultChange(*part, value))
        for fault in self._faults:
            end_us = _end_us(fault)
            if self._done_us < fault.at_us <= now_us:
                self._later(f"fault: {fault}")
            if end_us is not None and self._done_us < end_us <= now_us:
                self._later(f"fault over: {fault}")
        self._done_us = now_us

    def _at(self, now_us: int) -> dict[Part, tuple[float, ...]]:
        present: dict[Part, tuple[float, ...]] = {}
        for fault in self._faults:
            end_us = _end_us(fault)
            if fault.at_us <= now_us and (end_us is None or now_us < end_us):
                present[fault.target, fault.kind] = fault.value
        return present

    def _later(self, line: str) -> None:
        """Once the loop has done all that follows from the step: a notice is no part of that."""
        asyncio.get_running_loop().call_soon(self._tell, line)


def _end_us(fault: VehicleFault) -> int | None:
    return None if fault.for_us is None else fault.at_us + fault.for_us
