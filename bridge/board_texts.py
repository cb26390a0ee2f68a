"""What a board says in words that a person should know of: why it does not arm, and what is wrong with it."""

from __future__ import annotations

from pymavlink.dialects.v20 import common

from bridge.codec import Message
from bridge.session_base import WARN_AGAIN_US
from bridge.statustext import TextReader

BOARD_SAYS = "board_says"
"""Name of the notice."""
MOST_TEXTS = 64
"""So many different ones are remembered; the oldest are forgotten."""


class BoardTexts:
    """STATUSTEXTs of the autopilot, warnings and worse; PX4 repeats them, and a repeated one is told every 10 s."""

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """The board has restarted."""
        self._reader = TextReader()
        self._told_us: dict[str, int] = {}

    def take(self, message: Message, now_us: int) -> list[str]:
        """Take a STATUSTEXT; gives what is to be told now."""
        if message.get_srcComponent() != common.MAV_COMP_ID_AUTOPILOT1:
            return []
        return [
            text.text
            for text in self._reader.take(message)
            if text.severity <= common.MAV_SEVERITY_WARNING and self._is_new(text.text, now_us)
        ]

    def _is_new(self, text: str, now_us: int) -> bool:
        told_us = self._told_us.pop(text, None)
        is_new = told_us is None or now_us - told_us >= WARN_AGAIN_US
        self._told_us[text] = now_us if told_us is None or is_new else told_us
        if len(self._told_us) > MOST_TEXTS:
            del self._told_us[next(iter(self._told_us))]
        return is_new
