"""Shadows: many vehicles, as uncertain as their parameters are, under the commands of one, and the bands they make."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

import numpy as np
import numpy.typing as npt

from firmware_profiles.profile import VehicleProfile
from firmware_profiles.signals import ActuatorCommand
from twin.environment import Home
from twin.frames import euler_zyx_of_quat, ned_of_enu, q_ned_frd_of_enu_flu
from twin.randomize import randomize
from twin.twin import Twin
from twin.world_params import WorldParams

FloatArray = npt.NDArray[np.float64]

CHANNELS = ("roll_rad", "pitch_rad", "yaw_rad", "vel_north_m_s", "vel_east_m_s", "vel_down_m_s", "height_m")
"""What bands are made of: attitude (ZYX Euler angles), velocity (NED), and height of the body above the ground."""
QUANTILES = (0.05, 0.5, 0.95)

_ANGLES = 3
_RESOLUTION = np.array((1e-4,) * 3 + (1e-3,) * 4)
"""Differences below these [rad, m/s, m] count as none: on the ground a band has hardly any width."""
_NOWHERE = Home(0.0, 0.0, 0.0)
_NO_DATE = datetime(2026, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Bands:
    """The ensemble around the live vehicle at one moment; columns are `CHANNELS`.

    Attributes:
        quantiles: (3, C) of the worlds, at `QUANTILES`. Angles are all within half a turn of the worlds' mean, and that
            within half a turn of the live vehicle: a band never wraps around, but may reach beyond pi.
        live: (C,) the live vehicle.
        rank: (C,) share of the worlds below the live vehicle, an equal one counting half.
        inside: (C,) whether the live vehicle is within the outer quantiles.
    """

    quantiles: FloatArray
    live: FloatArray
    rank: FloatArray
    inside: npt.NDArray[np.bool_]


class ShadowEnsemble:
    """N randomised worlds that start where one vehicle is, and go on from there under its commands.

    Args:
        profile: the nominal vehicle and its uncertainty.
        worlds: N.
        seed: of the draws.
        threads: of the physics engine.

    Raises:
        UsageError: the seed is negative.
    """

    def __init__(self, profile: VehicleProfile, worlds: int, seed: int, threads: int = 1) -> None:
        vehicle = profile.vehicle
        nominal = WorldParams.of(vehicle, worlds)
        self.params = randomize(nominal, profile.uncertainty, seed, len(vehicle.rotors))
        self._twin = Twin(vehicle, home=_NOWHERE, date=_NO_DATE, params=self.params, threads=threads)
        self.n = worlds
        self.checkpoint_size = self._twin.checkpoint_size

    def anchor(self, checkpoint: FloatArray) -> None:
        """Put all worlds where the live vehicle is: its `Twin.save`.

        A command that is still on its way in a world with a delay stays so: it was the live vehicle's too.
        """
        self._twin.load(checkpoint)

    def step(self, command: ActuatorCommand) -> None:
        """Advance all worlds by one tick under one command, (1, R).

        Raises:
            TwinDivergedError: the physics of a world broke down.
        """
        sides, tilt = command.side_speed, command.tilt_angle
        self._twin.move(
            ActuatorCommand(
                np.broadcast_to(command.rotor_speed, self._twin.bad_commands.shape),
                None if sides is None else np.broadcast_to(sides, self._twin.bad_side_commands.shape),
                None if tilt is None else np.broadcast_to(tilt, (self.n, 1)),
            )
        )

    def states(self) -> FloatArray:
        """(N, 13) as `Twin.states`."""
        return self._twin.states()

    def bands(self, live_state: FloatArray) -> Bands:
        """The bands now, around the live vehicle's state at the same tick, (13,) as `Twin.state`."""
        return bands_of(self._twin.states(), live_state)


def bands_of(states: FloatArray, live_state: FloatArray) -> Bands:
    """Bands of (N, 13) states around one of (13,), all as `Twin.states` gives them."""
    live = _channels(live_state[None, :])
    apart = _channels(states) - live
    angles = apart[:, :_ANGLES]
    centre = np.arctan2(np.sin(angles).mean(axis=0), np.cos(angles).mean(axis=0))
    angles -= 2.0 * np.pi * np.rint((angles - centre) / (2.0 * np.pi))  # worlds on both sides of half a turn
    quantiles = np.quantile(apart, QUANTILES, axis=0)
    rank = np.mean(apart < 0.0, axis=0) + 0.5 * np.mean(apart == 0.0, axis=0)
    inside = (quantiles[0] <= _RESOLUTION) & (quantiles[2] >= -_RESOLUTION)
    return Bands(quantiles + live, live[0], rank, inside)


def _channels(states: FloatArray) -> FloatArray:
    """(N, C) `CHANNELS` of (N, 13) states."""
    euler = euler_zyx_of_quat(q_ned_frd_of_enu_flu(states[:, 3:7]))
    return np.concatenate((euler, ned_of_enu(states[:, 7:10]), states[:, 2:3]), axis=1)
