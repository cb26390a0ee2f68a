"""What a controller did: a log of its signals, the figures of a step response, plots and files.

Plots need matplotlib, which is an extra; nothing else here does.
"""

from __future__ import annotations

import csv
import importlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from firmware_profiles.errors import UsageError

FloatArray = npt.NDArray[np.float64]


class ResponseLog:
    """Signals over time, (T, N, C) each; every record holds the same ones."""

    def __init__(self) -> None:
        self._times: list[float] = []
        self._rows: dict[str, list[FloatArray]] = {}

    def __len__(self) -> int:
        return len(self._times)

    def record(self, time_s: float, **signals: Any) -> None:
        """Add a moment: each signal (N, C), of any array library; copies are kept.

        Raises:
            UsageError: time does not grow, or the signals are not those of the first record.
        """
        if self._times and not time_s > self._times[-1]:
            raise UsageError(f"time_s: expected more than {self._times[-1]:g}, got {time_s:g}")
        if self._times and signals.keys() != self._rows.keys():
            raise UsageError(f"signals: expected {', '.join(self._rows)}, got {', '.join(signals)}")
        arrays = {name: np.array(_on_host(value), dtype=np.float64) for name, value in signals.items()}
        for name, array in arrays.items():
            rows = self._rows.setdefault(name, [])
            if array.ndim != 2 or (rows and array.shape != rows[0].shape):
                raise UsageError(f"{name}: expected {rows[0].shape if rows else '(N, C)'}, got {array.shape}")
            rows.append(array)
        self._times.append(float(time_s))

    @property
    def names(self) -> tuple[str, ...]:
        """Of the signals."""
        return tuple(self._rows)

    @property
    def times_s(self) -> FloatArray:
        """(T,) times of the records [s]."""
        return np.array(self._times)

    def __getitem__(self, name: str) -> FloatArray:
        """(T, N, C) one signal.

        Raises:
            UsageError: no such signal.
        """
        if name not in self._rows:
            raise UsageError(f"signal: {name!r}; recorded: {', '.join(self._rows) or 'none'}")
        return np.array(self._rows[name])

    def save_npz(self, path: Path) -> None:
        """All signals and `times_s`, compressed."""
        arrays: dict[str, Any] = {name: self[name] for name in self._rows} | {"times_s": self.times_s}
        np.savez_compressed(path, **arrays)

    def save_csv(self, path: Path, world: int = 0) -> None:
        """One world as a table: a column for each component, `pos[0]` and so on, all digits.

        Raises:
            UsageError: no such world.
        """
        columns = [("time_s", self.times_s)]
        for name in self._rows:
            signal = self[name]
            if not 0 <= world < signal.shape[1]:
                raise UsageError(f"world: there are {signal.shape[1]}, got {world}")
            columns += [(f"{name}[{c}]", signal[:, world, c]) for c in range(signal.shape[2])]
        with path.open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            writer.writerow([name for name, _ in columns])
            writer.writerows(zip(*(values.tolist() for _, values in columns), strict=True))


def _on_host(value: Any) -> Any:
    """Torch on another device has to be asked for its numbers."""
    return value.detach().cpu().numpy() if hasattr(value, "detach") else value


@dataclass(frozen=True, slots=True)
class StepResponse:
    """Figures of N step responses, each (N,); NaN where the response never got there.

    Attributes:
        delay_s: from the step to half of it.
        rise_s: from 10 % to 90 % of the step.
        overshoot: largest excess over the end value, as a share of the step; 0 without one.
        settling_s: from the step until the response stays within a band about its end value.
        final_error: mean error over the last tenth, as a share of the step; signed, positive is short of it.
    """

    delay_s: FloatArray
    rise_s: FloatArray
    overshoot: FloatArray
    settling_s: FloatArray
    final_error: FloatArray


def step_response(
    times_s: npt.ArrayLike, values: npt.ArrayLike, start: npt.ArrayLike, end: npt.ArrayLike, band: float = 0.05
) -> StepResponse:
    """The figures of responses (T, N) to steps from `start` to `end`, each (N,) or a number, made at the first time.

    Args:
        times_s: (T,).
        values: (T, N).
        start: value before.
        end: value to reach.
        band: within which it is settled, as a share of the step.

    Raises:
        UsageError: shapes that do not fit, or a step of no height.
    """
    times, signal = np.asarray(times_s, dtype=np.float64), np.asarray(values, dtype=np.float64)
    if signal.ndim != 2 or times.shape != signal.shape[:1] or len(times) < 2:
        raise UsageError(f"values: expected (T, N) with T of at least 2, got {signal.shape} at {times.shape} times")
    before = np.asarray(start, dtype=np.float64)
    height = np.asarray(end, dtype=np.float64) - before
    if not np.all(height != 0):
        raise UsageError("start, end: expected a step, but they are equal")
    share = (signal - before) / height
    since = times - times[0]

    def first(reached: npt.NDArray[np.bool_]) -> FloatArray:
        return np.where(reached.any(axis=0), since[np.argmax(reached, axis=0)], np.nan)

    outside = np.abs(share - 1.0) > band
    last_outside = len(times) - 1 - np.argmax(outside[::-1], axis=0)
    settled = np.where(outside.any(axis=0), np.append(since, np.nan)[last_outside + 1], 0.0)
    tail = max(len(times) // 10, 1)
    return StepResponse(
        first(share >= 0.5),
        first(share >= 0.9) - first(share >= 0.1),
        np.maximum(share.max(axis=0) - 1.0, 0.0),
        settled,
        1.0 - share[-tail:].mean(axis=0),
    )


def plot_responses(log: ResponseLog, path: Path, *, against: Mapping[str, str] | None = None, world: int = 0) -> None:
    """Draw the signals of one world over time into a file (its suffix says which kind).

    Args:
        log: what was recorded.
        path: of the picture.
        against: pairs of signals to draw into one panel, {measured: target}.
        world: which one.

    Raises:
        UsageError: nothing recorded, no such signal or world, or matplotlib is not installed.
    """
    try:
        figures = importlib.import_module("matplotlib.figure")
    except ImportError:
        raise UsageError("plots need matplotlib: pip install lav2-hil[plot]") from None
    against = {} if against is None else against
    panels = [name for name in log.names if name not in against.values()]
    if not panels:
        raise UsageError("nothing was recorded")
    figure = figures.Figure(figsize=(8.0, 2.2 * len(panels)), layout="constrained")
    axes = figure.subplots(len(panels), 1, sharex=True, squeeze=False)[:, 0]
    for axis, name in zip(axes, panels, strict=True):
        for signal, style in ((name, "-"), (against.get(name), "--")):
            if signal is None:
                continue
            values = log[signal]
            if not 0 <= world < values.shape[1]:
                raise UsageError(f"world: there are {values.shape[1]}, got {world}")
            for component in range(values.shape[2]):
                label = f"{signal}[{component}]"
                axis.plot(log.times_s, values[:, world, component], style, color=f"C{component}", label=label)
        axis.legend(loc="upper right", fontsize="small")
        axis.grid(visible=True, alpha=0.3)
    axes[-1].set_xlabel("time [s]")
    figure.savefig(path)
