"""The published vectors of the dynamics, and the array libraries that they are checked on."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

import array_api_strict
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from control_goldens import Case, Golden, folder_of

from twin.control.arrays import Arrays

jax.config.update("jax_enable_x64", True)

LIBRARIES = {
    "numpy": (np, "float64", None),
    "numpy32": (np, "float32", None),
    "torch": (torch, "float64", None),
    "torch32": (torch, "float32", None),
    "strict": (array_api_strict, "float64", None),
    "jax": (jnp, "float64", None),
    "cuda": (torch, "float64", "cuda"),
    "cuda32": (torch, "float32", "cuda"),
}


def libraries(*names: str) -> pytest.MarkDecorator:
    """Parametrise with array libraries, all of them by default; CUDA is skipped where there is none."""
    no_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
    return pytest.mark.parametrize(
        "library", [pytest.param(n, marks=no_gpu if n.startswith("cuda") else ()) for n in names or LIBRARIES]
    )


def arrays_of(library: str, n: int) -> Arrays:
    xp, dtype, device = LIBRARIES[library]
    return Arrays(n, xp, dtype, device)


def host(array: Any) -> np.ndarray:
    """A copy as a NumPy array in float64, from wherever it is."""
    return np.asarray(array.cpu() if isinstance(array, torch.Tensor) else array).astype(np.float64)


@cache
def golden(name: str) -> Golden:
    """A file of vectors; keys are CASE__ARRAY, where a case's own name may hold the two lines too."""
    folder = folder_of(name)
    sidecar = json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))
    with np.load(folder / f"{name}.npz") as file:
        arrays = dict(file)
    cases: dict[str, dict[str, np.ndarray]] = {case: {} for case in sidecar["cases"]}
    for key, array in arrays.items():
        case, _, kind = key.rpartition("__")
        cases[case][kind] = array
    described = {key: [list(array.shape), str(array.dtype)] for key, array in arrays.items()} == sidecar["arrays"]
    return Golden(sidecar, {case: Case(case, sidecar["cases"][case], cases[case]) for case in cases}, described)


def each(file: Golden, *kinds: str) -> pytest.MarkDecorator:
    """Parametrise with every case that holds these arrays, whatever it is called."""
    cases = file.having(*kinds)
    assert cases, kinds
    return pytest.mark.parametrize("case", cases.values(), ids=list(cases))


def check(what: str, actual: Any, expected: np.ndarray, *, rtol: float, atol: float) -> None:
    """Assert closeness, and print how much of the tolerance is used."""
    ours = host(actual)
    assert ours.shape == expected.shape
    np.testing.assert_allclose(ours, expected, rtol=rtol, atol=atol, err_msg=what)
    finite = np.isfinite(expected)
    error = np.abs(ours[finite] - expected[finite])
    used = np.max(error / (atol + rtol * np.abs(expected[finite]) + 1e-300), initial=0.0)
    print(f"{what}: largest error {error.max(initial=0.0):.2g}, {used:.2g} of the tolerance")
