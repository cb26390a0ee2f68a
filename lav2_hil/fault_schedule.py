"""Faults begin and end by simulated time: a listener of the loop that changes the faulty link."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

from bridge.session_io import Notice
from bridge.transport.faults import FaultPlan
from bridge.transport.faulty import FaultyTransport
from firmware_profiles.signals import HilControls, SensorSample
from lav2_hil.faults import DELAYS, MOMENTS, Fault


class FaultSchedule:
    """Changes a link's faults right behind the frames of the first tick at or after the time of each.

    Args:
        faults: of the run; of two of one kind in one direction, the one that began last holds.
        transport: is changed.
        tick_us: simulated time of a step.
        tell: is called with a line for each change, never from inside a step.
    """

    def __init__(
        self, faults: tuple[Fault, ...], transport: FaultyTransport, tick_us: int, tell: Callable[[str], None]
    ) -> None:
        self._faults = sorted(faults, key=lambda fault: fault.at_us)
        self._transport = transport
        self._tick_us = tick_us
        self._tell = tell
        self._ticks = 0
        ends = {fault.at_us + fault.for_us for fault in faults if fault.for_us is not None}
        # What happens at a moment needs an open link: at the first tick, if it is due at 0.
        begins = {max(fault.at_us, tick_us if fault.kind in MOMENTS else 0) for fault in faults}
        self._changes_us = sorted(begins | ends)
        self._done_us = -1

    def begin(self) -> None:
        """What holds from the start, before the link is opened; later changes follow the steps."""
        self._change(0)

    def stepped(self, controls: HilControls | None, sample: SensorSample) -> None:
        """Count a tick, and change what is due."""
        self._ticks += 1
        if self._changes_us and self._changes_us[0] <= self._ticks * self._tick_us:
            self._change(self._ticks * self._tick_us)

    def noticed(self, notice: Notice) -> None:
        """Nothing."""

    def counts(self) -> dict[str, Any]:
        """What was done to the frames so far, by direction."""
        return {"to_px4": asdict(self._transport.sent), "from_px4": asdict(self._transport.received)}

    def _change(self, now_us: int) -> None:
        self._changes_us = [time_us for time_us in self._changes_us if time_us > now_us]
        self._transport.change(self._plan("to_px4", now_us), self._plan("from_px4", now_us))
        for fault in self._faults:
            if fault.kind in MOMENTS:
                if self._is_due(max(fault.at_us, self._tick_us), now_us):
                    self._later(self._happen, fault)
                continue
            if self._is_due(fault.at_us, now_us):
                self._later(self._tell, f"fault: {fault}")
            if fault.for_us is not None and self._is_due(fault.at_us + fault.for_us, now_us):
                self._later(self._tell, f"fault over: {fault}")
        self._done_us = now_us

    def _is_due(self, time_us: int, now_us: int) -> bool:
        return self._done_us < time_us <= now_us

    def _later(self, action: Callable[[Any], None], argument: Any) -> None:
        """Once the loop has done all that follows from the step: before any other event, and part of none."""
        asyncio.get_running_loop().call_soon(action, argument)

    def _happen(self, fault: Fault) -> None:
        if not self._transport.is_open:
            return  # the run ended with this step
        self._tell(f"fault: {fault}")
        if fault.kind == "cut":
            self._transport.cut(fault.value)
        else:
            self._transport.stall(fault.value, outgoing=fault.target != "from_px4", incoming=fault.target != "to_px4")

    def _plan(self, direction: str, now_us: int) -> FaultPlan:
        values: dict[str, Any] = {}
        for fault in self._faults:
            over = fault.for_us is not None and now_us >= fault.at_us + fault.for_us
            if fault.kind in MOMENTS or fault.target not in ("link", direction) or fault.at_us > now_us or over:
                continue
            values[f"{fault.kind}_s" if fault.kind in DELAYS else fault.kind] = fault.value
        return FaultPlan(**values)
