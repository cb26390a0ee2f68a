"""The published vectors of the controllers: files, cases and the array libraries that they are checked on."""

from __future__ import annotations

import json
import os
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch

HERE = Path(__file__).parent / "data" / "goldens"
SHARED = Path(__file__).parents[2] / "shared" / "goldens"
BACKENDS = {"numpy": (np, "float64"), "torch": (torch, "float64"), "torch32": (torch, "float32")}


def folder_of(name: str) -> Path:
    """LAV2_GOLDENS; else the copies in the tests' data, else the project's shared folder."""
    named = os.environ.get("LAV2_GOLDENS")
    if named:
        return Path(named)
    return HERE if (HERE / f"{name}.json").exists() else SHARED


@dataclass(frozen=True)
class Case:
    """One case: its configuration from the sidecar, and its arrays."""

    name: str
    sidecar: dict[str, Any]
    arrays: dict[str, np.ndarray]

    @property
    def config(self) -> dict[str, Any]:
        return self.sidecar["config"]

    def __getitem__(self, array: str) -> np.ndarray:
        return self.arrays[array]

    def __contains__(self, array: str) -> bool:
        return array in self.arrays


@dataclass(frozen=True)
class Golden:
    """A file of published vectors."""

    sidecar: dict[str, Any]
    cases: dict[str, Case]
    described: bool

    def tolerance(self, dtype: str) -> dict[str, float]:
        """What the sidecar recommends: rtol and atol, 0 where it names none."""
        text = self.sidecar["recommended_tolerance"][f"{dtype}_implementation"]
        found = dict(re.findall(r"(rtol|atol) (\d[\d.e+-]*\d|\d)", text))
        return {name: float(found.get(name, 0.0)) for name in ("rtol", "atol")}

    def having(self, *arrays: str) -> dict[str, Case]:
        """The cases that hold all of these arrays."""
        return {name: case for name, case in self.cases.items() if all(array in case for array in arrays)}


@cache
def golden(name: str) -> Golden:
    folder = folder_of(name)
    sidecar = json.loads((folder / f"{name}.json").read_text(encoding="utf-8"))
    with np.load(folder / f"{name}.npz") as file:
        arrays = dict(file)
    cases = {
        case: Case(
            case,
            values,
            {key.split("__", 1)[1]: array for key, array in arrays.items() if key.split("__", 1)[0] == case},
        )
        for case, values in sidecar["cases"].items()
    }
    described = {key: [list(array.shape), str(array.dtype)] for key, array in arrays.items()} == sidecar["arrays"]
    return Golden(sidecar, cases, described)


def plain(array: Any) -> np.ndarray:
    return np.asarray(array, dtype=np.float64)


def close(actual: Any, expected: np.ndarray, tolerance: dict[str, float]) -> float:
    """Assert, and give the largest error as a share of what is allowed."""
    ours = plain(actual)
    np.testing.assert_allclose(ours, expected, **tolerance)
    allowed = tolerance["atol"] + tolerance["rtol"] * np.abs(expected)
    return float(np.nanmax(np.abs(ours - expected) / allowed, initial=0.0))
