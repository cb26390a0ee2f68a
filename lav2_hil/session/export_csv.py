"""A session as a table: a row for each tick, with truth, controls and what the sensors told."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from bridge.codec import Decoder, Message
from bridge.controls_tracker import ControlsTracker
from firmware_profiles.signals import CHANNELS
from lav2_hil.session.metadata import SessionClock
from lav2_hil.session.reader import Session
from lav2_hil.session.records import Kind, notice_of
from lav2_hil.session.truth import TruthSample, decode_truth
from twin.frames import FRD_OF_FLU, ned_of_enu, q_ned_frd_of_enu_flu

_TRUTH_COLUMNS = (
    *("true_north_m", "true_east_m", "true_down_m"),
    *("true_q_ned_frd_w", "true_q_ned_frd_x", "true_q_ned_frd_y", "true_q_ned_frd_z"),
    *("true_vel_north_m_s", "true_vel_east_m_s", "true_vel_down_m_s"),
    *("true_rate_forward_rad_s", "true_rate_right_rad_s", "true_rate_down_rad_s"),
)
_SENSOR_COLUMNS = {
    "accel_forward_m_s2": "xacc",
    "accel_right_m_s2": "yacc",
    "accel_down_m_s2": "zacc",
    "gyro_forward_rad_s": "xgyro",
    "gyro_right_rad_s": "ygyro",
    "gyro_down_rad_s": "zgyro",
    "mag_forward_gauss": "xmag",
    "mag_right_gauss": "ymag",
    "mag_down_gauss": "zmag",
    "abs_pressure_hpa": "abs_pressure",
    "diff_pressure_hpa": "diff_pressure",
    "pressure_alt_m": "pressure_alt",
    "temperature_deg_c": "temperature",
    "fields_updated": "fields_updated",
}
COLUMNS = (
    *("time_s", "utc_s", "connection", "armed", "controls_age_s"),
    *(f"control_{channel}" for channel in range(CHANNELS)),
    *_SENSOR_COLUMNS,
    *_TRUTH_COLUMNS,
)
"""Of the table: simulated and wall-clock time, the controls of the step (-1 to 1), HIL_SENSOR, and the true state."""


def export_csv(session: Session, path: Path) -> dict[str, Any]:
    """Write a row for each HIL_SENSOR; what was not recorded at a tick is an empty cell.

    Returns:
        The file in figures.
    """
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(COLUMNS)
        table = _Table(session)
        for record in session.records:
            row = table.take(*record)
            if row is not None:
                writer.writerow(row)
        row = table.finish()
        if row is not None:
            writer.writerow(row)
    return {"rows": table.rows, "rows_with_truth": table.rows_with_truth}


class _Table:
    """Puts rows together out of records: one is whole when the next tick begins."""

    def __init__(self, session: Session) -> None:
        header = session.header
        self.rows = self.rows_with_truth = 0
        self._clock = SessionClock.of_header(msgspec.json.encode(header))
        self._received = Decoder(datagrams=header.session.datagrams)
        self._sent = Decoder(datagrams=True)  # each record is one frame
        self._tracker = ControlsTracker(header.session.period_us)
        self._system: int | None = None
        self._connection = 0
        self._row: list[Any] | None = None
        self._row_us = 0

    def take(self, kind: Kind, time_us: int, data: bytes) -> list[Any] | None:
        """Take a record; gives the row that it completes."""
        if kind is Kind.SENT:
            for message in self._sent.feed(data):
                if message.get_type() == "HIL_SENSOR":
                    return self._begin(message, time_us)
        elif kind is Kind.TRUTH:
            sample = decode_truth(data)
            if self._row is not None and sample.time_us == self._row_us:
                self._row += _truth_values(sample)
                self.rows_with_truth += 1
        elif kind is Kind.RECEIVED:
            for message in self._received.feed(data):
                self._hear(message)
        elif kind is Kind.LINK_UP:
            self._connection += 1
        elif kind is Kind.NOTICE:
            self._forget(notice_of(data).name)
        return None

    def finish(self) -> list[Any] | None:
        """The row that nothing more belongs to."""
        row, self._row = self._row, None
        if row is not None:
            self.rows += 1
            row += [""] * (len(COLUMNS) - len(row))
        return row

    def _begin(self, sensor: Message, time_us: int) -> list[Any] | None:
        finished = self.finish()
        controls = self._tracker.controls_at(sensor.time_usec)
        self._tracker.sensor_sent(sensor.time_usec)
        self._row = [f"{1e-6 * sensor.time_usec:.6f}", f"{1e-9 * self._clock.wall_ns(time_us):.6f}", self._connection]
        self._row_us = sensor.time_usec
        if controls is None:
            self._row += [""] * (2 + CHANNELS)
        else:
            self._row += [int(controls.armed), f"{1e-6 * controls.age_us:.6f}", *controls.channels]
        self._row += [getattr(sensor, name) for name in _SENSOR_COLUMNS.values()]
        return finished

    def _forget(self, notice: str) -> None:
        """What the session forgets when it gives such a notice."""
        if notice in ("peer_lost", "px4_restarted"):
            self._tracker.forget()
        if notice == "peer_lost":
            self._received.forget_sequences()
            self._system = None

    def _hear(self, message: Message) -> None:
        """The session's rule: the system that spoke first is the flight controller."""
        if message.get_msgId() < 0:
            return
        if self._system is None:
            self._system = message.get_srcSystem()
        if message.get_type() == "HIL_ACTUATOR_CONTROLS" and message.get_srcSystem() == self._system:
            self._tracker.received(message)


def _truth_values(sample: TruthSample) -> list[float]:
    state = np.array(sample.state)
    parts = (ned_of_enu(state[:3]), q_ned_frd_of_enu_flu(state[3:7]), ned_of_enu(state[7:10]), state[10:] * FRD_OF_FLU)
    return [float(value) for part in parts for value in part]
