"""Composition: settings to a running bridge and twin, and a summary at the end."""

from __future__ import annotations

import asyncio
import contextlib
import importlib.metadata
import logging
import signal
import time
from typing import Any

from bridge.free_running import NOT_PX4
from bridge.link_capacity import capacity_of
from bridge.session_io import Notice
from bridge.transport.base import Transport
from bridge.transport.factory import create_transport
from bridge.transport.faulty import FaultPlan, FaultyTransport
from bridge.transport.signed import SignedTransport
from firmware_profiles.signals import HilControls, SensorSample
from lav2_hil.actuator_map import ActuatorMap
from lav2_hil.companion.companion import Companion
from lav2_hil.exitcodes import ExitCode
from lav2_hil.failure_commands import FailureCommands
from lav2_hil.fault_schedule import FaultSchedule
from lav2_hil.forwarder import GroundForwarder
from lav2_hil.ground_stations import targets_of
from lav2_hil.keyboard import HELP, Keyboard, listening
from lav2_hil.loop import HilLoop, Listener
from lav2_hil.monitor import Monitor
from lav2_hil.mqtt.listener import MqttListener
from lav2_hil.mqtt.payloads import Info
from lav2_hil.session.header import make_header, session_params, versions
from lav2_hil.session.recorder import SessionRecorder
from lav2_hil.session.recording import start_recording
from lav2_hil.settings import Settings
from lav2_hil.shadow import Shadow
from lav2_hil.vehicle_fault_schedule import VehicleFaultSchedule
from twin.faults import FaultChange
from twin.twin import Twin

logger = logging.getLogger("lav2_hil")

_TEND_S = 0.5
"""How often the recorder is looked after while the loop may be idle."""


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
        flown = settings.flown
        self.settings = settings
        inner = create_transport(settings.endpoint) if transport is None else transport
        wire = FaultyTransport(inner, FaultPlan(), settings.seed) if settings.link_faults else inner
        key = settings.signing_key
        self.transport = wire if key is None else SignedTransport(wire, key)
        self.twin = Twin(flown.vehicle, home=settings.home, date=settings.date, seed=settings.seed)
        self.session_params = session_params(
            settings,
            datagrams=self.transport.datagrams,
            speaks_first=self.transport.speaks_first,
            every=_every(settings),
        )
        self.session = self.session_params.make_session()
        actuators = ActuatorMap(flown.firmware)
        self.monitor = Monitor(settings, self.session, self.transport, self.twin, actuators.gate, expected)
        self._stop = asyncio.Event()
        self._exit_code = ExitCode.OK
        self._ended_by = "request"
        listeners = (self.monitor, _Duration(self), _WrongPeer(self), *listeners)
        self.shadow: Shadow | None = None
        if settings.shadows:
            self.shadow = Shadow(self.twin, settings.profile, settings.shadows, settings.seed, self._tell_listeners)
            listeners = (*listeners, self.shadow)
        self._faults: FaultSchedule | None = None
        if isinstance(wire, FaultyTransport):
            self._faults = FaultSchedule(settings.link_faults, wire, self.twin.tick_us, self._fault_told)
            listeners = (*listeners, self._faults)
        self._vehicle_faults = VehicleFaultSchedule(
            settings.vehicle_faults, self._change_fault, self.twin.tick_us, self._fault_told
        )
        if settings.vehicle_faults:
            listeners = (*listeners, self._vehicle_faults)
        self.failure_commands = FailureCommands(
            *(len(flown.vehicle.rotors), self._change_fault, self._fault_told),
            motion_capture=flown.vehicle.sensors.motion_capture is not None,
        )
        self._ground: GroundForwarder | None = None
        if settings.ground:
            self._ground = GroundForwarder(
                targets_of(settings.ground, settings.system - 1),
                settings.endpoint,
                self.transport,
                self.session.decoder,
                key,
                lambda message: self.failure_commands.take(message, self.session.system),
                self._say,
            )
        self._mqtt: MqttListener | None = None
        if settings.mqtt is not None:
            self._mqtt = MqttListener(
                *(settings.mqtt, settings.vehicle_name, self._info, self.session, self.transport, self.twin, self._say)
            )
            listeners = (*listeners, self._mqtt)
            if self.shadow is not None:
                self.shadow.subscribers.append(self._mqtt.bands)
        self._listeners = listeners
        self.companion: Companion | None = None
        if settings.companion is not None:
            self.companion = Companion(settings.companion, settings.profile.vehicle, settings.system)
        self.loop = HilLoop(self.session, self.transport, self.twin, actuators, listeners, companion=self.companion)

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

    def _fault_told(self, text: str) -> None:
        self.loop.fault_told(text)

    def _change_fault(self, change: FaultChange) -> None:
        self.loop.change_fault(change)

    def _info(self) -> Info:
        """What runs, for those who listen to MQTT."""
        profile = self.settings.flown
        return Info(
            t_us=0,
            profile=profile.name,
            description=profile.description,
            endpoint=self.transport.address,
            seed=self.settings.seed,
            versions=versions() | {"lav2-hil": importlib.metadata.version("lav2-hil")},
        )

    def _say(self, level: int, text: str) -> None:
        self.monitor.clear()
        logger.log(level, "%s", text)

    def _tell_listeners(self, notice: Notice) -> None:
        """Tell of what is not part of the session: it comes when it comes, and a replay need not give it again."""
        for listener in self._listeners:
            listener.noticed(notice)

    async def run(self) -> tuple[ExitCode, dict[str, Any]]:
        """Serve until a signal, the end of the duration or `stop`.

        Returns:
            The exit code and the summary.

        Raises:
            LinkUnavailableError: the port cannot be had, or another run publishes under this name.
            OutputError: the session file cannot be made.
            TwinDivergedError: the physics broke down.
        """
        async with contextlib.AsyncExitStack() as beside:
            for process in (self._mqtt, self._ground):
                if process is not None:
                    await beside.enter_async_context(process)
            exit_code, summary = await self._serve()
        if self._mqtt is not None:
            summary["mqtt"] = self._mqtt.summary()
        if self._ground is not None:
            summary["ground"] = self._ground.summary()
        if isinstance(self.transport, SignedTransport):
            summary["signing"] = self.transport.summary()
        return exit_code, summary

    async def _serve(self) -> tuple[ExitCode, dict[str, Any]]:
        recorder = self._start_recorder() if self.settings.record else None
        ended_by = "error"
        try:
            await self._run_loop(recorder)
            ended_by = self._ended_by
        finally:
            if recorder is not None:
                recorder.close({"ended_by": ended_by})
                if ended_by == "error" and not self.session.stats.connections:
                    recorder.discard()  # a run that never began leaves nothing behind
        summary = self.monitor.summary(self.loop, self._ended_by)
        if self.shadow is not None:
            summary["shadow"] = self.shadow.summary()
        if self._faults is not None:
            summary["faults"] = self._faults.counts()
        if self.loop.fault_changes:
            summary["vehicle_fault_changes"] = self.loop.fault_changes
        summary["session"] = None if recorder is None else recorder.summary()
        return self._exit_code, summary

    def _start_recorder(self) -> SessionRecorder:
        settings = self.settings
        header = make_header(
            settings,
            self.session_params,
            name=settings.vehicle_name,
            command=settings.command,
            profile_source=settings.profile_source,
            endpoint=self.transport.address,
            started_us=time.monotonic_ns() // 1000,
            faults=settings.fault_lines,
            signed=settings.signing_key is not None,
        )
        recorder = start_recording(settings.session_file, header, self.twin, self._tell_listeners)
        self.loop.record(recorder)
        if self.shadow is not None:
            self.shadow.subscribers.append(recorder.bands)
        if self._ground is not None:
            self._ground.subscribers.append(recorder.ground)
        return recorder

    async def _run_loop(self, recorder: SessionRecorder | None) -> None:
        for number, code in ((signal.SIGINT, ExitCode.INTERRUPTED), (signal.SIGTERM, ExitCode.TERMINATED)):
            asyncio.get_running_loop().add_signal_handler(number, self.stop, signal.Signals(number).name, code)
        if self._faults is not None:
            self._faults.begin()
        self._vehicle_faults.begin()
        async with asyncio.TaskGroup() as tasks:
            others = [tasks.create_task(self._show_status(), name="status line")]
            if recorder is not None:
                others.append(tasks.create_task(_tend(recorder), name="recorder"))
            if self.shadow is not None:
                tasks.create_task(self.shadow.run(), name="shadows")
            keyboard = Keyboard(self.loop, self.settings.speed, lambda: self.stop("key"))
            try:
                with listening(keyboard) as steered:
                    if steered:
                        logger.info(HELP)
                    await self.loop.run(self._stop)
            finally:
                for task in others:
                    task.cancel()
                if self.shadow is not None:
                    self.shadow.end()
                self.monitor.clear()

    async def _show_status(self) -> None:
        while True:
            await asyncio.sleep(self.monitor.interval_s)
            self.monitor.refresh()


async def _tend(recorder: SessionRecorder) -> None:
    while True:
        await asyncio.sleep(_TEND_S)
        recorder.tend()


def _every(settings: Settings) -> int:
    """Each so manieth tick goes to the board.

    Raises:
        LinkUnavailableError: the line is too slow for HITL.
    """
    if not settings.hitl:
        return 1
    vehicle = settings.flown.vehicle
    sensors, capture = vehicle.sensors, vehicle.sensors.motion_capture
    capacity = capacity_of(
        *(settings.endpoint, vehicle.step_dt_us, sensors.gnss.rate_hz, settings.mav_rate),
        odometry_hz=0.0 if capture is None else capture.rate_hz,
    )
    if capacity is None:
        return 1
    logger.log(logging.INFO if capacity.every == 1 else logging.WARNING, "%s", capacity.line)
    return capacity.every


class _WrongPeer:
    """Ends the run when what is there will never fly; the notice says what it is."""

    def __init__(self, service: Service) -> None:
        self._service = service

    def stepped(self, controls: HilControls | None, sample: SensorSample) -> None:
        pass

    def noticed(self, notice: Notice) -> None:
        if notice.name == NOT_PX4:
            self._service.stop(NOT_PX4, ExitCode.LINK_UNAVAILABLE)


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
