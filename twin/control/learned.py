"""Learned low-level controllers: what they see, what they remember, and what their numbers mean; no weights.

The layout is that of muellerlab/xadapt_ctrl (arXiv 2409.12949), the controller that LAV2 calls its adaptive one: a
network that adapts by the last hundred steps, and one that acts. Whoever has networks plugs them in as two functions.

Observation (17): rotation matrix, column by column (9); body rates (3) [rad/s]; proper acceleration along the body's z
(1) [m/s^2]; commanded body rates (3) [rad/s]; commanded collective thrust over mass (1) [m/s^2]. Action (4): a motor's
speed is (0.5 a + 0.5) times the largest one; front right, rear left, rear right, front left.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from firmware_profiles.errors import UsageError
from firmware_profiles.profile import VehicleParams
from twin.control.arrays import Arrays, checked
from twin.control.base import ControllerBase, Entry
from twin.control.so3 import transposed
from twin.frames import rotation_of_xyzw

OBSERVATION, ACTION, STEPS = 17, 4, 100
_EPSILON = 1e-8

Network = Callable[[Any], Any]
"""(N, inputs) to (N, outputs), in the controller's array library."""


@dataclass(frozen=True, slots=True)
class Normaliser:
    """Running mean and variance of what a network was trained on: (x - mean) / sqrt(variance + 1e-8)."""

    mean: npt.ArrayLike
    variance: npt.ArrayLike

    def of(self, arrays: Arrays, width: int, name: str) -> tuple[Any, Any]:
        """Mean and factor as arrays (N, width).

        Raises:
            UsageError: another width, or a variance below 0.
        """
        checked(f"{name}.mean", self.mean)
        checked(f"{name}.variance", self.variance, least=0.0)
        deviation = np.sqrt(np.asarray(self.variance, dtype=np.float64) + _EPSILON)
        return arrays.spread(f"{name}.mean", self.mean, width), arrays.spread(f"{name}.variance", 1 / deviation, width)


@dataclass(frozen=True, slots=True)
class LearnedNetworks:
    """The two networks and the statistics of their inputs.

    Attributes:
        adapt: (N, 100 * 17 + 100 * 4) normalised history, states first, oldest first, to a latent (N, L).
        act: (N, 17 + 4 + L) normalised observation, last raw action, and the latent, to a raw action (N, 4).
        history_states: of 17 numbers.
        history_actions: of 4.
        base: of the 21 numbers that `act` sees before the latent.
    """

    adapt: Network
    act: Network
    history_states: Normaliser
    history_actions: Normaliser
    base: Normaliser


def observation(state: Mapping[str, Any], target: Mapping[str, Any], mass: Any, *, xp: Any) -> Any:
    """(N, 17) what the networks see.

    Args:
        state: `att_quat`, `ang_vel`, and `specific_force_b` (N, 3) [m/s^2], what an accelerometer reads, FLU.
        target: `ang_vel`, `thrust` [N].
        mass: (N, 1) [kg].
        xp: array namespace.
    """
    columns = transposed(rotation_of_xyzw(state["att_quat"], xp=xp), xp=xp)
    parts = (
        xp.reshape(columns, (-1, 9)),
        state["ang_vel"],
        state["specific_force_b"][:, 2:3],
        target["ang_vel"],
        target["thrust"] / mass,
    )
    return xp.concat(parts, axis=1)


class LearnedController(ControllerBase):
    """Two networks as a controller of N worlds: thrust and rates to rotor speeds, below which there is no mixer.

    Entry: `cmd_ctbr`. States: see `observation`. The history begins with zeros, after a reset too.

    Args:
        networks: see `LearnedNetworks`.
        mass_kg: broadcasts to (N, 1).
        max_speed_rad_s: largest rotor speed, likewise.
        rotor_order: for each rotor of the vehicle, which of the network's it is: 0 front right, 1 rear left, 2 rear
            right, 3 front left.
        arrays: where the arrays live; by default NumPy, float64, one world.

    Raises:
        UsageError: a parameter that cannot be.
    """

    entries = (Entry("cmd_ctbr", frozenset({"thrust", "ang_vel"})),)

    def __init__(
        self,
        networks: LearnedNetworks,
        *,
        mass_kg: npt.ArrayLike,
        max_speed_rad_s: npt.ArrayLike,
        rotor_order: tuple[int, ...] = (0, 1, 2, 3),
        arrays: Arrays | None = None,
    ) -> None:
        arrays = Arrays() if arrays is None else arrays
        if sorted(rotor_order) != list(range(ACTION)):
            raise UsageError(f"rotor_order: expected each of 0 to {ACTION - 1} once, got {rotor_order}")
        checked("mass_kg", mass_kg, above=0.0)
        checked("max_speed_rad_s", max_speed_rad_s, above=0.0)
        self._arrays, self._xp, self._networks, self._order = arrays, arrays.xp, networks, rotor_order
        self._mass = arrays.spread("mass_kg", mass_kg, 1)
        self._max_speed = arrays.spread("max_speed_rad_s", max_speed_rad_s, ACTION)
        self._states = networks.history_states.of(arrays, OBSERVATION, "history_states")
        self._actions = networks.history_actions.of(arrays, ACTION, "history_actions")
        self._base = networks.base.of(arrays, OBSERVATION + ACTION, "base")
        self._no_states, self._no_actions = arrays.zeros(STEPS * OBSERVATION), arrays.zeros(STEPS * ACTION)
        self._one = arrays.zeros(ACTION) + 1.0
        self.history_states, self.history_actions = self._no_states, self._no_actions
        super().__init__("cmd_ctbr")

    @classmethod
    def of(cls, networks: LearnedNetworks, vehicle: VehicleParams, **options: Any) -> LearnedController:
        """For a vehicle with four rotors, whose places say which is which.

        Raises:
            UsageError: another number of rotors, or not one in each corner.
        """
        propeller = vehicle.flying_propeller()
        corners = {(True, False): 0, (False, True): 1, (False, False): 2, (True, True): 3}
        places = [rotor.position_flu_m for rotor in propeller.rotors]
        known: dict[str, Any] = {
            "mass_kg": vehicle.total_mass_kg,
            "max_speed_rad_s": propeller.max_speed_rad_s,
            "rotor_order": tuple(corners[x > 0, y > 0] for x, y, _ in places),
        }
        return cls(networks, **(known | options))

    def _selected(self) -> None:
        """There is one entry."""

    def reset(self, worlds: Any = None) -> None:
        """Forget the history of some worlds, or of all."""
        mask, where = self._arrays.mask(worlds), self._xp.where
        self.history_states = where(mask, self._no_states, self.history_states)
        self.history_actions = where(mask, self._no_actions, self.history_actions)

    def update(self, target: Mapping[str, Any], state: Mapping[str, Any]) -> Any:
        """One step: rotor speeds (N, 4) [rad/s], in the vehicle's order."""
        xp, networks = self._xp, self._networks
        try:
            seen = observation(state, target, self._mass, xp=xp)
        except KeyError as error:
            raise self._missing(error) from None
        latent = networks.adapt(self._history())
        mean, factor = self._base
        known = xp.concat((seen, self.history_actions[:, -ACTION:]), axis=1)
        action = networks.act(xp.concat(((known - mean) * factor, latent), axis=1))
        self.history_states = xp.concat((self.history_states[:, OBSERVATION:], seen), axis=1)
        self.history_actions = xp.concat((self.history_actions[:, ACTION:], action), axis=1)
        share = xp.minimum(xp.maximum(0.5 * action + 0.5, self._one - self._one), self._one)
        return xp.concat([share[:, i : i + 1] for i in self._order], axis=1) * self._max_speed

    def _history(self) -> Any:
        """(N, 2100) states and actions of the last hundred steps, oldest first, normalised."""
        parts = []
        for history, width, (mean, factor) in (
            (self.history_states, OBSERVATION, self._states),
            (self.history_actions, ACTION, self._actions),
        ):
            steps = self._xp.reshape(history, (-1, STEPS, width))
            normal = (steps - mean[:, None, :]) * factor[:, None, :]
            parts.append(self._xp.reshape(normal, (-1, STEPS * width)))
        return self._xp.concat(parts, axis=1)
