"""Rotors that are lost, weak or stuck."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]
BoolArray = npt.NDArray[np.bool_]


class RotorFaults:
    """What is wrong with the R rotors of N worlds; make one only when something is.

    A weak rotor turns as it is told and gives only a share of thrust and torque, as with a broken blade. At a share of
    0 it is lost: it also comes to rest. A stuck one holds the speed that it has, whatever it is told.

    Args:
        n: worlds.
        count: rotors R.
    """

    def __init__(self, n: int, count: int) -> None:
        self._count = count
        self._share = np.ones((n, count))
        self._stuck = np.zeros((n, count), dtype=np.bool_)

    @property
    def any(self) -> bool:
        """Whether anything is wrong with any of them."""
        return bool(self._stuck.any() or (self._share != 1.0).any())

    def set_effectiveness(self, rotor: int, share: float, worlds: BoolArray | slice) -> None:
        """Share of its thrust and torque, 0..1, that a rotor (counted from 0) still gives."""
        self._share[worlds, rotor] = share

    def set_stuck(self, rotor: int, stuck: bool, worlds: BoolArray | slice) -> None:
        """Whether a rotor (counted from 0) holds its speed."""
        self._stuck[worlds, rotor] = stuck

    def targets(self, target_rad_s: FloatArray, speed_rad_s: FloatArray) -> FloatArray:
        """(N, R) the speeds that the rotors really go for, from those commanded and their present ones [rad/s]."""
        return np.where(self._stuck, speed_rad_s, np.where(self._share > 0.0, target_rad_s, 0.0))

    def weaken(self, wrench: FloatArray) -> None:
        """Take from thrusts and torques, the first 2R columns of (N, 2R) or wider, what the rotors do not give."""
        count = self._count
        wrench[:, :count] *= self._share
        wrench[:, count : 2 * count] *= self._share
