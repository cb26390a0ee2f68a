"""Accelerometer and gyroscope."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from twin.random_streams import NoiseBlock, StreamKey, per_world

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from firmware_profiles.profile import ImuParams

    FloatArray = npt.NDArray[np.float64]

_AXES = 6  # accelerometer xyz, gyroscope xyz


class Imu:
    """White noise, a bias that walks from zero, and clipping; one sample every tick.

    The noise of one sample has the standard deviation density * sqrt(f), where f is the rate at which the IMU is in
    fact sampled, one sample a tick; `ImuParams.rate_hz` only says which tick the profile asks for. The bias after t has
    the standard deviation walk * sqrt(t). (Standard IMU model: IEEE Std 952-1997, annex C: angle random walk and rate
    random walk.)

    Args:
        params: each value but the rate may be a number or (N, 1).
        tick_us: length of a tick [us].
        seed: the run's seed.
        worlds: number of each world, N of them.

    Raises:
        UsageError: a value has another shape or is negative.
    """

    __slots__ = ("_bias", "_errors", "_limit", "_lower", "_noise", "_row", "_walk", "_white")

    def __init__(self, params: ImuParams, *, tick_us: int, seed: int, worlds: Sequence[int]) -> None:
        n = len(worlds)
        tick_s = 1e-6 * tick_us

        def six(accel: str, gyro: str) -> FloatArray:
            columns = [np.broadcast_to(per_world(getattr(params, name), n, name), (n, 3)) for name in (accel, gyro)]
            return np.concatenate(columns, axis=1)

        self._white = six("accel_noise_density_m_s2_sqrt_hz", "gyro_noise_density_rad_s_sqrt_hz") / np.sqrt(tick_s)
        self._walk = six("accel_bias_walk_m_s2_sqrt_s", "gyro_bias_walk_rad_s_sqrt_s") * np.sqrt(tick_s)
        self._limit = six("accel_limit_m_s2", "gyro_limit_rad_s")
        self._lower = -self._limit
        self._noise = NoiseBlock(seed, worlds, StreamKey.IMU, 2 * _AXES)
        self._bias = np.zeros((n, _AXES))
        self.reset()

    def reset(self) -> None:
        """Bias back to zero, noise from its beginning."""
        self._bias.fill(0.0)
        self._noise.reset()
        self._errors = np.empty((0, *self._bias.shape))
        self._row = 0

    def sample(self, specific_force_frd: FloatArray, rates_frd: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Measure, once a tick.

        Args:
            specific_force_frd: (N, 3) acceleration minus gravity [m/s^2]; at rest, level: (0, 0, -9.81).
            rates_frd: (N, 3) angular velocity [rad/s].

        Returns:
            Accelerometer (N, 3) [m/s^2] and gyroscope (N, 3) [rad/s] in FRD, fresh arrays.
        """
        row = self._row
        if row == len(self._errors):
            self._draw()
            row = 0
        self._row = row + 1
        out = self._errors[row].copy()
        accel, gyro = out[:, :3], out[:, 3:]
        np.add(accel, specific_force_frd, out=accel)
        np.add(gyro, rates_frd, out=gyro)
        np.minimum(out, self._limit, out=out)
        np.maximum(out, self._lower, out=out)
        return accel, gyro

    def _draw(self) -> None:
        """Noise and bias of the next steps: they depend on nothing that is measured, and one by one they cost more."""
        normals = self._noise.next_block()
        steps = self._walk * normals[:, :, _AXES:]
        biases = np.add.accumulate(np.concatenate((self._bias[None], steps)))
        self._errors = self._white * normals[:, :, :_AXES] + biases[:-1]
        self._bias = biases[-1]
