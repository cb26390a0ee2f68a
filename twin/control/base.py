"""What all controllers share: update, reset, and the control mask, which says where a cascade is entered."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from firmware_profiles.errors import UsageError

CHANNELS = ("pos", "vel", "acc", "vel_b", "att_euler", "att_quat", "ang_vel", "thrust", "moment", "rotor_speed")
"""Everything that a target may hold."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One way into a cascade: what comes from outside; the loops below make the rest.

    Attributes:
        name: `cmd_pos` and so on; the names are RotorPy's.
        needs: channels that the target must hold.
        one_of: exactly one of these too; the first is taken when the entry is chosen by its name. May be empty.
        may: channels that it may hold besides.
    """

    name: str
    needs: frozenset[str]
    one_of: tuple[str, ...] = ()
    may: frozenset[str] = frozenset()

    def fits(self, channels: frozenset[str]) -> bool:
        """Whether a target with exactly these channels enters here."""
        rest = channels - self.needs
        choice = rest & set(self.one_of)
        return self.needs <= channels and len(choice) == bool(self.one_of) and rest - choice <= self.may

    def default(self) -> frozenset[str]:
        """The channels when the entry is chosen by its name."""
        return self.needs | set(self.one_of[:1])

    def __str__(self) -> str:
        parts = [*sorted(self.needs), *(["|".join(self.one_of)] if self.one_of else [])]
        return f"{self.name} ({', '.join(parts + [f'[{name}]' for name in sorted(self.may)])})"


_YAW = ("att_euler", "ang_vel")
FLIGHT_ENTRIES = (
    Entry("cmd_pos", frozenset({"pos"}), _YAW, frozenset({"vel", "acc"})),
    Entry("cmd_vel", frozenset({"vel"}), _YAW, frozenset({"acc"})),
    Entry("cmd_acc", frozenset({"acc"}), _YAW),
    Entry("cmd_ctatt", frozenset({"thrust"}), ("att_quat", "att_euler")),
    Entry("cmd_ctbr", frozenset({"thrust", "ang_vel"})),
    Entry("cmd_ctbm", frozenset({"thrust", "moment"})),
)
"""The ways into a cascade that flies, from position down to moments."""


class ControllerBase(ABC):
    """A controller of N worlds.

    Args:
        control_mask: the name of an entry, or {channel: whether the target holds it}.

    Attributes:
        entries: the ways into this controller's cascade.
        mode: name of the entry that the mask chooses.
    """

    entries: tuple[Entry, ...]
    mode: str

    def __init__(self, control_mask: str | Mapping[str, bool]) -> None:
        self.select(control_mask)

    @property
    def control_mask(self) -> Mapping[str, bool]:
        """Which channels the target provides; the others are made inside."""
        return self._control_mask

    def select(self, control_mask: str | Mapping[str, bool]) -> None:
        """Enter the cascade elsewhere from now on; integrals stay, so that nothing jumps.

        Raises:
            UsageError: no such entry; the message lists those that exist.
        """
        if isinstance(control_mask, str):
            found = [entry for entry in self.entries if entry.name == control_mask]
            channels = found[0].default() if found else frozenset()
        else:
            channels = frozenset(name for name, given in control_mask.items() if given)
            found = [entry for entry in self.entries if entry.fits(channels)]
        if not found:
            raise UsageError(f"control_mask: cannot be {control_mask!r}; allowed: {'; '.join(map(str, self.entries))}")
        self.mode = found[0].name
        self._control_mask = MappingProxyType({name: name in channels for name in CHANNELS})
        self._selected()

    @abstractmethod
    def _selected(self) -> None:
        """Called after a change of the mask."""

    def _missing(self, error: KeyError) -> UsageError:
        given = [name for name, wanted in self._control_mask.items() if wanted]
        return UsageError(f"{self.mode}: target or state lacks {error}; the target holds {', '.join(given)}")

    @abstractmethod
    def update(self, target: Mapping[str, Any], state: Mapping[str, Any]) -> Any:
        """One time step: targets and states (dictionaries as in `twin.control`) to commands (N, ...)."""

    @abstractmethod
    def reset(self, worlds: Any = None) -> None:
        """Forget the past of some worlds (indices or (N,) truth), or of all."""
