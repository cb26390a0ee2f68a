"""The parameter protocol, sans-io: what to ask next, from what was heard and when.

A transfer gives requests when they are due and takes every PARAM_VALUE; both with the time, in seconds of any clock.
A lost frame costs a wait, and waits grow while nothing new comes.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice

from bridge.param_wire import HASH_CHECK
from firmware_profiles.px4_params import Value, same

FIRST_WAIT_S = 0.3
WAIT_GROWTH = 1.5
LONGEST_WAIT_S = 3.0
ROUNDS = 14
"""So many requests in a row bring nothing new before a download or a change is given up."""
READ_ROUNDS, CLEAN_READ_ROUNDS = 6, 3
"""PX4 says nothing to a name that it does not have: so often it is asked before the parameter counts as absent. Fewer
times on a line that has just lost nothing."""
WINDOW = 32
"""Parameters that are asked for at once."""


@dataclass(frozen=True, slots=True)
class Heard:
    """A PARAM_VALUE."""

    name: str
    value: Value
    count: int
    index: int


@dataclass(frozen=True, slots=True)
class AskList:
    """Ask for all parameters."""


@dataclass(frozen=True, slots=True)
class AskRead:
    """Ask for one parameter, by name or by index."""

    which: str | int


@dataclass(frozen=True, slots=True)
class AskSet:
    """Change one parameter."""

    name: str
    value: Value


Request = AskList | AskRead | AskSet


class Transfer(ABC):
    """What the shell drives: asks, waits, and asks again, until it is complete or nothing new comes any more.

    Args:
        rounds: so often it asks without hearing anything new.

    Attributes:
        wake_s: when `due` is to be called again at the latest.
    """

    def __init__(self, rounds: int) -> None:
        self.wake_s = 0.0
        self._rounds = rounds
        self._given_up = False
        self._tries = 0
        self._wait_s = FIRST_WAIT_S

    @property
    @abstractmethod
    def complete(self) -> bool:
        """Whether it has all that it was to bring."""

    @property
    def over(self) -> bool:
        """Whether it has ended, well or not."""
        return self.complete or self._given_up

    def due(self, now_s: float) -> list[Request]:
        """What to send now."""
        if self.over or now_s < self.wake_s:
            return []
        if self._tries >= self._rounds:
            self._given_up = True
            return []
        self.wake_s = now_s + self._wait_s
        self._tries += 1
        self._wait_s = min(self._wait_s * WAIT_GROWTH, LONGEST_WAIT_S)
        return self._next()

    @abstractmethod
    def heard(self, said: Heard, now_s: float) -> None:
        """Take a PARAM_VALUE."""

    @abstractmethod
    def _next(self) -> list[Request]:
        """What to ask for now."""

    def _heard_something_new(self) -> None:
        self._tries = 0
        self._wait_s = FIRST_WAIT_S


class Download(Transfer):
    """All parameters that the board lists.

    They come by PARAM_REQUEST_LIST; what is missing when it falls silent is asked for by index. A larger count means
    that indices have moved (a parameter has come into use): then the list is asked for anew. A smaller one is a frame
    that was under way.

    Attributes:
        total: how many there are; None until the first has come.
        clean: nothing had to be asked for twice so far.
    """

    def __init__(self) -> None:
        super().__init__(ROUNDS)
        self.total: int | None = None
        self._by_index: dict[int, str] = {}
        self._places: dict[str, int] = {}
        self._values: dict[str, Value] = {}
        self._asked: set[int] = set()
        self._ask_list = True
        self.clean = True

    @property
    def received(self) -> int:
        """How many of them have come."""
        return len(self._by_index)

    @property
    def complete(self) -> bool:
        """Whether all have come."""
        return self.received == self.total

    @property
    def values(self) -> dict[str, Value]:
        """What has come, by name."""
        return {name: self._values[name] for name in sorted(self._places)}

    def heard(self, said: Heard, now_s: float) -> None:
        """Take a PARAM_VALUE; what nobody asked for counts as well."""
        if said.name == HASH_CHECK:
            return
        if said.index >= said.count or said.count < (self.total or 0):  # no place in the list, or an old place
            if said.name in self._values:
                self._values[said.name] = said.value
            return
        if said.count != self.total:
            self._list_anew(said.count)
        self._values[said.name] = said.value
        if self._by_index.get(said.index) == said.name:
            return
        if said.index in self._by_index or said.name in self._places:
            self._list_anew(said.count)  # indices have moved, and the count has not told
        self._by_index[said.index] = said.name
        self._places[said.name] = said.index
        self._heard_something_new()
        asked = said.index in self._asked
        self._asked.discard(said.index)
        # A window that has come whole calls for the next at once.
        self.wake_s = now_s if asked and not self._asked else now_s + FIRST_WAIT_S

    def _next(self) -> list[Request]:
        if self.total is None or self._ask_list:
            self.clean = self._ask_list and self.total is None
            self._ask_list = False
            return [AskList()]
        self.clean = False
        missing = (index for index in range(self.total) if index not in self._by_index)
        self._asked = set(islice(missing, WINDOW))
        return [AskRead(index) for index in sorted(self._asked)]

    def _list_anew(self, count: int) -> None:
        self._ask_list = self.total is not None
        self.total = count
        self._by_index.clear()
        self._places.clear()
        self._asked.clear()


class Reading(Transfer):
    """Some parameters by name, also such as the board has and does not list: PX4 lists what is in use.

    Attributes:
        values: what has come.
    """

    def __init__(self, names: Iterable[str], rounds: int = READ_ROUNDS) -> None:
        super().__init__(rounds)
        self.values: dict[str, Value] = {}
        self._pending = list(dict.fromkeys(names))

    @property
    def complete(self) -> bool:
        """Whether all have come."""
        return not self._pending

    def heard(self, said: Heard, now_s: float) -> None:
        """Take a PARAM_VALUE."""
        if said.name in self._pending:
            self._pending.remove(said.name)
            self.values[said.name] = said.value

    def _next(self) -> list[Request]:
        return [AskRead(name) for name in self._pending]


class Change(Transfer):
    """One parameter's change: set until the board says the new value, then read back by name.

    Attributes:
        last: what the board has said last; None if nothing.
    """

    def __init__(self, name: str, value: Value) -> None:
        super().__init__(ROUNDS)
        self.last: Value | None = None
        self._name, self._value = name, value
        self._echoed = False
        self._asked_back = False
        self._read_back = False

    @property
    def complete(self) -> bool:
        """Whether the board has said the new value twice: as its answer, and when asked."""
        return self._read_back

    def heard(self, said: Heard, now_s: float) -> None:
        """Take a PARAM_VALUE."""
        if said.name != self._name:
            return
        self.last = said.value
        if not same(said.value, self._value):
            self._echoed = self._asked_back = (
                False  # an old value that was under way, or a refusal: once more, after the wait
            )
        elif self._asked_back:
            self._read_back = True
        elif not self._echoed:
            self._echoed = True
            self.wake_s = now_s

    def _next(self) -> list[Request]:
        self._asked_back = self._echoed
        return [AskRead(self._name) if self._echoed else AskSet(self._name, self._value)]
