"""What a controller is told of a state: the truth and an estimator's errors, from the parameters of the sensors.

A stand-in for sensors and estimator where a controller is tried by itself. Its errors are harsher than an estimator's
in one respect: the white parts are new at every tick.

* Position: white noise and a slow drift (first-order Gauss-Markov), those of the GNSS receiver.
* Velocity: white noise of the GNSS receiver.
* Rates: white noise and a walking bias, those of the gyroscope.
* Attitude: white noise and slow drifts of tilt and heading, for which no sensor has a parameter: `AttitudeNoise`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from twin.control.arrays import checked
from twin.frames import quat_multiply
from twin.random_streams import GaussMarkov, NoiseBlock, StreamKey

if TYPE_CHECKING:
    from collections.abc import Sequence

    from firmware_profiles.profile import SensorParams

FloatArray = npt.NDArray[np.float64]

_WIDTH = 21


@dataclass(frozen=True, slots=True)
class AttitudeNoise:
    """Standard deviations of an estimated attitude's errors, as small turns about the world's axes.

    Attributes:
        white_rad: of each axis, new at every tick.
        tilt_drift_rad: of the two horizontal axes.
        heading_drift_rad: of the vertical one.
        drift_time_constant_s: of the drifts.

    Raises:
        UsageError: a value below 0, or no time constant.
    """

    white_rad: float = 0.001
    tilt_drift_rad: float = 0.005
    heading_drift_rad: float = 0.02
    drift_time_constant_s: float = 20.0

    def __post_init__(self) -> None:
        for name in ("white_rad", "tilt_drift_rad", "heading_drift_rad"):
            checked(name, getattr(self, name), least=0.0)
        checked("drift_time_constant_s", self.drift_time_constant_s, above=0.0)


class StateNoise:
    """The errors of N worlds; world i sees the same ones whatever the number of worlds.

    Args:
        sensors: see the module.
        tick_us: length of a tick [us].
        seed: of all errors.
        worlds: number of each world.
        attitude: see `AttitudeNoise`.
    """

    def __init__(
        self,
        sensors: SensorParams,
        *,
        tick_us: int,
        seed: int,
        worlds: Sequence[int],
        attitude: AttitudeNoise | None = None,
    ) -> None:
        attitude = AttitudeNoise() if attitude is None else attitude
        gnss, imu, n = sensors.gnss, sensors.imu, len(worlds)
        tick_s = 1e-6 * tick_us
        self._tick_us, self._ticks = tick_us, 0
        self._noise = NoiseBlock(seed, worlds, StreamKey.STATE_NOISE, _WIDTH)
        self._pos_white = np.array([gnss.horizontal_noise_m, gnss.horizontal_noise_m, gnss.vertical_noise_m])
        self._vel_white = gnss.velocity_noise_m_s
        self._rate_white = imu.gyro_noise_density_rad_s_sqrt_hz / np.sqrt(tick_s)
        self._rate_walk = imu.gyro_bias_walk_rad_s_sqrt_s * np.sqrt(tick_s)
        self._attitude_white = attitude.white_rad
        drift = (gnss.horizontal_drift_m, gnss.horizontal_drift_m, gnss.vertical_drift_m)
        turn = (attitude.tilt_drift_rad, attitude.tilt_drift_rad, attitude.heading_drift_rad)
        sigma = np.broadcast_to(np.array(drift + turn), (n, 6))
        tau = np.broadcast_to([gnss.drift_time_constant_s] * 3 + [attitude.drift_time_constant_s] * 3, (n, 6))
        self._drift = GaussMarkov(sigma, tau, n, 6)
        self._bias = np.zeros((n, 3))

    def reset(self) -> None:
        """Errors from their beginning: no drift, no bias."""
        self._ticks = 0
        self._noise.reset()
        self._drift.reset()
        self._bias[:] = 0.0

    def told(self, states: FloatArray) -> FloatArray:
        """The states with errors, once a tick.

        Args:
            states: (N, 13) position ENU [m], attitude ENU from FLU (w first), velocity ENU [m/s], rates FLU [rad/s], as
                `Twin.states` gives them.
        """
        normals = self._noise.next()
        drift = self._drift.advance(self._ticks * self._tick_us, normals[:, 12:18])
        self._ticks += 1
        turn = drift[:, 3:] + self._attitude_white * normals[:, 9:12]
        told = np.empty_like(states)
        told[:, 0:3] = states[:, 0:3] + drift[:, :3] + self._pos_white * normals[:, 0:3]
        small = np.concatenate((np.ones((len(turn), 1)), 0.5 * turn), axis=1)
        attitude = quat_multiply(small, states[:, 3:7])
        told[:, 3:7] = attitude / np.linalg.norm(attitude, axis=1, keepdims=True)
        told[:, 7:10] = states[:, 7:10] + self._vel_white * normals[:, 3:6]
        told[:, 10:13] = states[:, 10:13] + self._bias + self._rate_white * normals[:, 6:9]
        self._bias += self._rate_walk * normals[:, 18:21]
        return told
