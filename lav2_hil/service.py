"""Composition: settings to a running bridge and twin, and a summary at the end."""

from __future__ import annotations

import asyncio
import logging
import signal
from typing import Any

from bridge.hil import HilSession
from bridge.session_io import Notice
from bridge.transport.base import Transport
from bridge.transport.factory import create_transport
from firmware_profiles.signals import HilControls, SensorSample
from lav2_hil.actuator_map import ActuatorMap
from lav2_hil.exitcodes import ExitCode
from lav2_hil.keyboard import HELP, Keyboard, listening
from lav2_hil.loop import HilLoop, Listener
from lav2_hil.monitor import Monitor
from lav2_hil.settings import Settings
from twin.twin import Twin

logger = logging.getLogger("lav2_hil")


class Service:
    """One bridge with one twin.

    Args:
        settings: of the run.
        transport: instead of the one that `settings.endpoint` names.
        listeners: told of every step and notice, beside the monitor.
        expected: names of notices that are part of this run and need not be shown.
    """

    def __init__(
        self,
        settings: Settings,
        transport: Transport | None = None,
        listeners: tuple[Listener, ...] = (),
        expected: frozenset[str] = frozenset(),
    ) -> None:
        vehicle = settings.profile.vehicle
        self.settings = settings
        self.transport = create_transport(settings.endpoint) if transport is None else transport
        self.twin = Twin(vehicle, home=settings.home, date=settings.date, seed=settings.seed)
        self.session = HilSession(
            period_us=vehicle.step_dt_us,
            datagrams=self.transport.datagrams,
            speaks_first=self.transport.speaks_first,
            reply_timeout_us=settings.reply_timeout_us(datagrams=self.transport.datagrams),
            speed=settings.speed,
            system=settings.system,
            answers_every_sensor=settings.answers_every_sensor,
        )
        actuators = ActuatorMap(settings.profile.firmware)
        self.monitor = Monitor(settings, self.session, self.transport, self.twin, actuators.gate, expected)
        self._stop = asyncio.Event()
        self._exit_code = ExitCode.OK
        self._ended_by = "request"
        self.loop = HilLoop(
            self.session, self.transport, self.twin, actuators, (self.monitor, _Duration(self), *listeners)
        )

    @property
    def ended_by(self) -> str:
        """Why the run ended or is to end."""
        return self._ended_by

    def peer_endpoint(self) -> str:
        """Where a flight controller finds the simulator that listens here."""
        return self.transport.address.replace("tcpin:", "tcp:", 1)

    def stop(self, ended_by: str, exit_code: ExitCode = ExitCode.OK) -> None:
        """End the run; the first reason counts."""
        if not self._stop.is_set():
            self._ended_by, self._exit_code = ended_by, exit_code
            self._stop.set()
            self.loop.halt()

    async def run(self) -> tuple[ExitCode, dict[str, Any]]:
        """Serve until a signal, the end of the duration or `stop`.

        Returns:
            The exit code and the summary.

        Raises:
            LinkUnavailableError: the port cannot be had.
            TwinDivergedError: the physics broke down.
        """
        for number, code in ((signal.SIGINT, ExitCode.INTERRUPTED), (signal.SIGTERM, ExitCode.TERMINATED)):
            asyncio.get_running_loop().add_signal_handler(number, self.stop, signal.Signals(number).name, code)
        async with asyncio.TaskGroup() as tasks:
            status = tasks.create_task(self._show_status(), name="status line")
            keyboard = Keyboard(self.loop, self.settings.speed, lambda: self.stop("key"))
            try:
                with listening(keyboard) as steered:
                    if steered:
                        logger.info(HELP)
                    await self.loop.run(self._stop)
            finally:
                status.cancel()
                self.monitor.clear()
        return self._exit_code, self.monitor.summary(self.loop, self._ended_by)

    async def _show_status(self) -> None:
        while True:
            await asyncio.sleep(self.monitor.interval_s)
            self.monitor.refresh()


class _Duration:
    """Ends the run when enough simulated time has passed, over all connections."""

    def __init__(self, service: Service) -> None:
        self._service = service
        duration_s = service.settings.duration_s
        self._ticks_left = -1 if duration_s is None else round(1e6 * duration_s / service.twin.tick_us)

    def stepped(self, controls: HilControls | None, sample: SensorSample) -> None:
        self._ticks_left -= 1
        if self._ticks_left == 0:
            self._service.stop("duration")

    def noticed(self, notice: Notice) -> None:
        pass
