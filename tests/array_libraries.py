"""The array libraries that one code path is checked on against NumPy, and their results as plain NumPy."""

from __future__ import annotations

from typing import Any

import array_api_strict
import jax.numpy as jnp
import numpy as np
import pytest
import torch

OTHER_LIBRARIES = pytest.mark.parametrize(
    "xp",
    [torch, array_api_strict, pytest.param(jnp, marks=pytest.mark.slow)],  # it compiles each operation anew
    ids=["torch", "strict", "jax"],
)


def on_host(result: Any, dtype: str) -> np.ndarray:
    """The numbers of a result, whose precision must be the one that was asked for."""
    assert str(result.dtype).endswith(dtype)
    host = result.detach().cpu().numpy() if hasattr(result, "detach") else result
    return np.array(host, dtype=np.float64)
