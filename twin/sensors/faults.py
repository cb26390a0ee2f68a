"""A sensor that gets stuck, is off by something, noisy, or says nothing."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from twin.random_streams import TickNoise

FloatArray = npt.NDArray[np.float64]
BoolArray = npt.NDArray[np.bool_]

FLAGS = frozenset({"stuck", "silent", "nofix"})
"""What is so or is not; the rest has a value."""


class SensorFault:
    """What is wrong with one sensor of N worlds; make one only when something is.

    Args:
        n: worlds.
        width: components of a reading.
        affected: how many of them, from the first, are scaled, biased and noisy; a stuck sensor repeats all.
        noise: of this sensor's faults.
        lower, upper: what the sensor can say, of the affected components.
    """

    def __init__(self, n: int, width: int, affected: int, noise: TickNoise, lower: float, upper: float) -> None:
        self._affected = affected
        self._noise = noise
        self._limits = lower, upper
        self._values = {
            "scale": np.ones((n, affected)),
            "bias": np.zeros((n, affected)),
            "noise": np.zeros((n, affected)),
        }
        self._flags = {name: np.zeros(n, dtype=np.bool_) for name in FLAGS}
        self._holding = np.zeros(n, dtype=np.bool_)
        self._held = np.zeros((n, width))

    @property
    def any(self) -> bool:
        """Whether anything is wrong with any of them."""
        return any(flag.any() for flag in self._flags.values()) or any(
            (values != _HARMLESS[name]).any() for name, values in self._values.items()
        )

    def set(self, kind: str, value: tuple[float, ...] | None, worlds: BoolArray | slice) -> None:
        """Let a fault begin, change or, with None, end in some worlds.

        Args:
            kind: `stuck`, `silent`, `nofix`; `scale`, `bias`, `noise`.
            value: of the last three: one number for all components, or one for each.
            worlds: (N,) which.
        """
        if kind in FLAGS:
            self._flags[kind][worlds] = value is not None
            self._holding &= self._flags["stuck"]
        else:
            self._values[kind][worlds] = _HARMLESS[kind] if value is None else value

    def reset(self) -> None:
        """What a stuck sensor repeats is forgotten: it gets stuck at its next reading."""
        self._holding[:] = False

    def flagged(self, name: str) -> BoolArray | None:
        """(N,) in which worlds it is so; None where it is in none."""
        flag = self._flags[name]
        return flag.copy() if flag.any() else None

    def read(self, tick: int, reading: FloatArray) -> FloatArray:
        """What the sensor says instead of a reading (N, width); one that is stuck says its first for ever."""
        out = reading.copy()
        sigma = self._values["noise"]
        part = out[:, : self._affected]
        part *= self._values["scale"]
        part += self._values["bias"]
        for world in np.flatnonzero(sigma.any(axis=1)).tolist():
            part[world] += sigma[world] * self._noise.at(tick, world, self._affected)
        np.clip(part, *self._limits, out=part)
        stuck = self._flags["stuck"]
        if stuck.any():
            begins = stuck & ~self._holding
            self._held[begins] = out[begins]
            self._holding |= stuck
            out = np.where(stuck[:, None], self._held, out)
        return out


_HARMLESS = {"scale": 1.0, "bias": 0.0, "noise": 0.0}
