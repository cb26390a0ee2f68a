"""The benchmark of the task-space controllers: all of them, on both libraries, in rounds, and beside Isaac Lab's."""

from __future__ import annotations

import math
import os
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

TOOLS = Path(__file__).parents[2] / "tools"
EVERYWHERE = {
    *("joint_position", "joint_springs", "joint_impedance"),
    *(f"ik_{method}" for method in ("pinv", "svd", "trans", "dls", "adaptive_dls")),
    *("task_impedance", "osc", "osc_command", "hybrid", "hybrid_command", "force"),
}
ALONE = {"joint_position", "joint_impedance", "ik_adaptive_dls", "reactive"}
"""What Isaac Lab has not, or not for any number of arms."""


@pytest.fixture
def bench(monkeypatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(TOOLS))
    import bench_calls
    import bench_task_space

    monkeypatch.setattr(bench_calls, "ROUND_S", 0.0)  # a call in a round
    return bench_task_space


def test_every_controller_has_its_figures(bench, monkeypatch, capsys) -> None:
    monkeypatch.delenv("LAV2_ISAACLAB", raising=False)
    monkeypatch.setattr(bench, "REACTIVE_MOST", 1)
    figures = bench.measure(rounds=1, worlds=(1, 3))
    expected = {f"{name}_{library}_{n}_us" for name in EVERYWHERE for library in ("numpy", "torch") for n in (1, 3)}
    assert set(figures) == expected | {"reactive_numpy_1_us"}
    for figure in figures.values():
        assert math.isfinite(figure["value"])
        assert figure["value"] > 0
        assert figure["floor"] is None
    assert "LAV2_ISAACLAB" in capsys.readouterr().out


def test_what_is_measured_is_a_task_and_no_refusal(bench) -> None:
    """The arms have no singularity that would be damped, and the reactive layer has something to keep off."""
    arms = bench.arms(64)
    assert np.linalg.svd(arms["jacobian_b"], compute_uv=False).min() > 0.29
    assert np.linalg.eigvalsh(arms["mass_matrix"]).min() > 0.49
    near = arms["distance_m"] < 0.1
    assert 0.1 < near.mean() < 0.3
    result = dict(bench.steps("numpy", 64))["reactive"]()
    assert (result.status == 0).mean() > 0.5
    assert np.abs(result.velocities).max() > 0.1


def test_rounds_are_interleaved(bench) -> None:
    import bench_calls

    order: list[str] = []
    runs = bench_calls.interleaved({name: lambda name=name: order.append(name) for name in "ab"}, rounds=3)
    assert "".join(order).endswith("ababab")
    assert [len(values) for values in runs.values()] == [3, 3]


def test_how_far_two_are_apart(bench) -> None:
    pairs = {
        "osc_torch_1_us": (lambda: np.array([1.0, 4.0]), lambda: np.array([1.0, 4.04])),
        "osc_torch_128_us": (lambda: np.array([4.0]), lambda: np.array([5.0])),
        "osc_command_torch_1_us": (lambda: None, lambda: None),
    }
    assert bench.agreement(pairs) == "differs from Isaac Lab by: osc 2e-01"


@pytest.mark.filterwarnings("ignore:.torch.jit.script:DeprecationWarning")  # Isaac Lab's
@pytest.mark.skipif("LAV2_ISAACLAB" not in os.environ, reason="LAV2_ISAACLAB does not say where Isaac Lab is")
def test_isaac_labs_own_controllers_compute_the_same(bench) -> None:
    import bench_calls

    compared = EVERYWHERE - ALONE
    figures = bench.measure(rounds=1, libraries=("torch",), worlds=(2,))
    assert {name for name in EVERYWHERE if figures[f"{name}_torch_2_us"]["floor"]} == compared
    with bench_calls.one_thread(("torch",)):
        for n in (1, 128):
            ours, theirs = dict(bench.steps("torch", n)), dict(bench.upstream().steps(bench.arms(n)))
            for name in sorted(compared - {"osc_command", "hybrid_command"}):
                expected = theirs[name]()
                size = float(expected.abs().max())
                np.testing.assert_allclose(ours[name]() / size, expected / size, atol=1e-5, err_msg=name)
