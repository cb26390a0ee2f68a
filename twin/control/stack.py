"""A flight controller and a mixer as one controller: targets in, rotor speeds out; the rotors' own entry included."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from twin.control.base import ControllerBase, Entry
from twin.control.mixer import Mixer

ROTOR_SPEEDS = Entry("cmd_motor_speeds", frozenset({"rotor_speed"}))
"""Rotor speeds (N, R) [rad/s] from outside: below the mixer, and all that is left to do is to keep their limits."""


class FlightStack(ControllerBase):
    """The controller's entries and one more: `cmd_motor_speeds`, which takes `rotor_speed` (N, R) [rad/s].

    Args:
        controller: gives (N, 4) wrenches; it is entered where its own mask says.
        mixer: makes rotor speeds of them. A controller that has an `applied` method hears what wrench they give.
        control_mask: the entry; None leaves the controller's.
    """

    def __init__(
        self, controller: ControllerBase, mixer: Mixer, control_mask: str | Mapping[str, bool] | None = None
    ) -> None:
        self.controller, self.mixer = controller, mixer
        self.entries = (*controller.entries, ROTOR_SPEEDS)
        self._tell = getattr(controller, "applied", None)
        super().__init__(controller.control_mask if control_mask is None else control_mask)

    def _selected(self) -> None:
        self._rotor_speeds_given = self.mode == ROTOR_SPEEDS.name
        if not self._rotor_speeds_given and dict(self.controller.control_mask) != dict(self.control_mask):
            self.controller.select(self.control_mask)

    def reset(self, worlds: Any = None) -> None:
        """Forget the past of some worlds, or of all."""
        self.controller.reset(worlds)

    def update(self, target: Mapping[str, Any], state: Mapping[str, Any]) -> Any:
        """One tick: rotor speeds (N, R) [rad/s], within their limits."""
        if self._rotor_speeds_given:
            try:
                return self.mixer.within(target["rotor_speed"])
            except KeyError as error:
                raise self._missing(error) from None
        speeds = self.mixer.allocate(self.controller.update(target, state))
        if self._tell is not None:
            self._tell(self.mixer.wrench_of(speeds))
        return speeds
