"""One code path for all array libraries: the namespace, chosen once, and parameters spread out over the worlds."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from firmware_profiles.errors import UsageError


class Arrays:
    """Where the arrays of a controller live: library, precision, device, and for how many worlds.

    Args:
        n: number of worlds.
        xp: an Array-API namespace: numpy, torch, array_api_strict, ...
        dtype: "float64" or "float32".
        device: of the namespace; None is its default.

    Raises:
        UsageError: no world, or another dtype.
    """

    def __init__(self, n: int = 1, xp: Any = np, dtype: str = "float64", device: Any = None) -> None:
        if n < 1:
            raise UsageError(f"n: expected at least one world, got {n}")
        if dtype not in ("float32", "float64"):
            raise UsageError(f"dtype: expected 'float64' or 'float32', got {dtype!r}")
        if getattr(xp, "__name__", "") == "torch":
            # Torch's own names differ from the standard's here and there (amin, take).
            import array_api_compat.torch as xp
        self.n = n
        self.xp = xp
        self.dtype = getattr(xp, dtype)
        self.device = device

    def array(self, values: npt.ArrayLike) -> Any:
        """The values as an array here."""
        plain = np.array(values, dtype=np.float64, order="C")  # a copy: Torch warns of what it may not write to
        return self.xp.asarray(plain, dtype=self.dtype, device=self.device)

    def spread(self, name: str, value: npt.ArrayLike, columns: int) -> Any:
        """A parameter as (N, columns); it may be given as anything that broadcasts to that.

        Spread out once, because NumPy takes three times as long for a product of unequal shapes.

        Raises:
            UsageError: the shape does not fit.
        """
        plain = np.asarray(value, dtype=np.float64)
        try:
            return self.array(np.broadcast_to(plain, (self.n, columns)))
        except ValueError:
            raise UsageError(f"{name}: expected a shape that fits {(self.n, columns)}, got {plain.shape}") from None

    def zeros(self, columns: int) -> Any:
        """(N, columns) zeros."""
        return self.xp.zeros((self.n, columns), dtype=self.dtype, device=self.device)

    def mask(self, worlds: Any) -> Any:
        """(N, 1) truth: the worlds named by indices or by (N,) truth; None is all of them.

        Raises:
            UsageError: no such world.
        """
        chosen = np.zeros((self.n, 1), dtype=bool)
        if worlds is None:
            chosen[:] = True
        else:
            plain = np.asarray(worlds.tolist() if hasattr(worlds, "tolist") else worlds)
            if plain.size:
                try:
                    chosen[plain] = True
                except IndexError as error:
                    raise UsageError(f"worlds: there are {self.n}: {error}") from None
        return self.xp.asarray(chosen, device=self.device)


def checked(
    name: str,
    value: npt.ArrayLike,
    *,
    above: float | None = None,
    least: float | None = None,
    most: float | None = None,
) -> None:
    """Refuse a parameter that no controller has.

    Raises:
        UsageError: not a number, or not within the bounds; infinity is a number only where `most` is infinite.
    """
    plain = np.asarray(value, dtype=np.float64)
    wanted, fits = [], np.ones(plain.shape, dtype=bool)
    if above is not None:
        wanted.append(f"above {above:g}")
        fits &= plain > above
    if least is not None:
        wanted.append(f"of at least {least:g}")
        fits &= plain >= least
    if most is not None:
        wanted.append(f"of at most {most:g}")
        fits &= plain <= most
    else:
        fits &= np.isfinite(plain)
    if not (plain.size and fits.all()):
        raise UsageError(f"{name}: expected numbers {' and '.join(wanted) or 'that are finite'}, got {value!r}")
