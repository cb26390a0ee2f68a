"""Logs, files, figures of step responses, plots."""

from __future__ import annotations

import csv
import math
import sys

import numpy as np
import pytest
import torch

from firmware_profiles.errors import UsageError
from twin.control.utils import ResponseLog, plot_responses, step_response


def a_log() -> ResponseLog:
    log = ResponseLog()
    for tick in range(5):
        log.record(0.1 * tick, pos=np.full((2, 3), float(tick)), aim=torch.ones((2, 1)))
    return log


def test_log_and_files(tmp_path) -> None:
    log = a_log()
    assert len(log) == 5
    assert log.names == ("pos", "aim")
    assert log["pos"].shape == (5, 2, 3)
    log.save_npz(tmp_path / "log.npz")
    with np.load(tmp_path / "log.npz") as file:
        np.testing.assert_array_equal(file["pos"], log["pos"])
        np.testing.assert_array_equal(file["times_s"], log.times_s)
    log.save_csv(tmp_path / "log.csv", world=1)
    with (tmp_path / "log.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert list(rows[0]) == ["time_s", "pos[0]", "pos[1]", "pos[2]", "aim[0]"]
    assert [float(row["pos[2]"]) for row in rows] == [0, 1, 2, 3, 4]
    assert float(rows[3]["time_s"]) == 0.1 * 3


def test_a_log_keeps_copies_and_refuses_what_does_not_fit(tmp_path) -> None:
    log, array = ResponseLog(), np.zeros((2, 3))
    log.record(0.0, pos=array)
    array += 1
    np.testing.assert_array_equal(log["pos"][0], 0)
    for time_s, signals, named in (
        (0.0, {"pos": array}, "time_s"),
        (1.0, {"vel": array}, "signals"),
        (1.0, {"pos": np.zeros((3, 3))}, "pos: expected"),
    ):
        with pytest.raises(UsageError, match=named):
            log.record(time_s, **signals)
    assert len(log) == 1
    with pytest.raises(UsageError, match="recorded: pos"):
        log["nothing"]
    with pytest.raises(UsageError, match="world"):
        log.save_csv(tmp_path / "x.csv", world=2)


def test_figures_of_a_step_response() -> None:
    """A second-order response of known damping, and a first-order one."""
    t = np.linspace(0.0, 20.0, 20001)
    z, w = 0.5, 2.0
    d = w * math.sqrt(1 - z * z)
    second = 1 - np.exp(-z * w * t) * (np.cos(d * t) + z * w / d * np.sin(d * t))
    first = 1 - np.exp(-t / 2.0)
    r = step_response(t, np.stack((3 + 2 * second, 3 + 2 * first), axis=1), 3.0, 5.0)
    np.testing.assert_allclose(r.overshoot, [math.exp(-math.pi * z / math.sqrt(1 - z * z)), 0.0], atol=1e-4)
    np.testing.assert_allclose(r.rise_s[1], 2 * math.log(9), atol=2e-3)
    np.testing.assert_allclose(r.delay_s[1], 2 * math.log(2), atol=2e-3)
    np.testing.assert_allclose(r.settling_s[1], 2 * math.log(20), atol=2e-3)
    np.testing.assert_allclose(r.final_error, [0.0, 0.0], atol=1e-4)
    short = step_response(t[:1000], first[:1000, None], 0.0, 1.0)
    assert np.isnan(short.rise_s[0])
    assert np.isnan(short.settling_s[0])
    assert short.final_error[0] > 0.5
    down = step_response(t, -first[:, None], 0.0, -1.0)
    np.testing.assert_allclose(down.rise_s, r.rise_s[1], atol=2e-3)
    for bad in ((t, first), (t[:5], first[:, None])):
        with pytest.raises(UsageError, match="values"):
            step_response(*bad, 0.0, 1.0)
    with pytest.raises(UsageError, match="step"):
        step_response(t, first[:, None], 1.0, 1.0)


def test_a_plot_is_drawn_from_what_was_recorded(tmp_path, monkeypatch) -> None:
    """Against a stand-in for matplotlib, which is an extra: which lines go into which panel."""
    drawn: list[tuple[int, str, list[float]]] = []

    class Axis:
        def __init__(self, number: int) -> None:
            self.number = number

        def plot(self, times, values, style, *, color, label) -> None:
            drawn.append((self.number, f"{label}{style}", list(values)))

        def legend(self, **options) -> None:
            pass

        grid = set_xlabel = lambda self, *args, **options: None

    class Figure:
        def __init__(self, **options) -> None:
            pass

        def subplots(self, rows, columns, **options):
            axes = np.empty((rows, columns), dtype=object)
            axes[:, 0] = [Axis(row) for row in range(rows)]
            return axes

        def savefig(self, path) -> None:
            path.write_text("drawn")

    module = type(sys)("matplotlib.figure")
    module.Figure = Figure
    monkeypatch.setitem(sys.modules, "matplotlib", type(sys)("matplotlib"))
    monkeypatch.setitem(sys.modules, "matplotlib.figure", module)
    plot_responses(a_log(), tmp_path / "plot.png", against={"pos": "aim"})
    assert (tmp_path / "plot.png").read_text() == "drawn"
    assert [(number, label) for number, label, _ in drawn] == [
        (0, "pos[0]-"), (0, "pos[1]-"), (0, "pos[2]-"), (0, "aim[0]--"),
    ]  # fmt: skip
    assert drawn[0][2] == [0, 1, 2, 3, 4]
    with pytest.raises(UsageError, match="nothing was recorded"):
        plot_responses(ResponseLog(), tmp_path / "x.png")
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(UsageError, match=r"lav2-hil\[plot\]"):
        plot_responses(a_log(), tmp_path / "x.png")


def test_a_real_plot(tmp_path) -> None:
    pytest.importorskip("matplotlib")
    plot_responses(a_log(), tmp_path / "plot.png", against={"pos": "aim"})
    assert (tmp_path / "plot.png").read_bytes()[:4] == b"\x89PNG"
