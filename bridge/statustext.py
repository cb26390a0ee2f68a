"""STATUSTEXT: chunks put together, and what PX4's marks in the text mean."""

from __future__ import annotations

from dataclasses import dataclass

from bridge.codec import Message

CHUNK = 50
"""Characters in one message. A chunk that is full may go on in the next; PX4 gives a long text id 0, too."""


@dataclass(frozen=True, slots=True)
class Text:
    """One text.

    Attributes:
        severity: MAV_SEVERITY, 0 (emergency) to 7 (debug).
        text: without marks; `...` stands for a chunk that was lost.
        is_event: an EVENT says the same.
    """

    severity: int
    text: str
    is_event: bool


class TextReader:
    """Puts the texts of one sender together."""

    def __init__(self) -> None:
        self._parts: list[str] = []
        self._severity = 0
        self._id = 0
        self._next = 0

    def take(self, message: Message) -> list[Text]:
        """Take a STATUSTEXT; gives the texts that are complete now, in order."""
        number, chunk, part = message.id, message.chunk_seq, _text_of(message)
        finished = []
        if chunk == 0 or number != self._id or chunk < self._next:
            finished += self.flush()
        if chunk > self._next:
            self._parts.append("...")
        self._id, self._severity, self._next = number, message.severity, chunk + 1
        self._parts.append(part)
        if len(part) < CHUNK:
            finished += self.flush()
        return finished

    def flush(self) -> list[Text]:
        """What is left when nothing more comes; a text of just one full chunk waits for the next until then."""
        text = "".join(self._parts)
        self._parts, self._next = [], 0
        return [Text(self._severity, text.rstrip("\t "), text.endswith("\t"))] if text else []


def _text_of(message: Message) -> str:
    text = message.text
    return text if isinstance(text, str) else bytes(text).decode(errors="replace")
