"""Numbers and times in what a user says of faults."""

from __future__ import annotations

import math
import re

_TIMES = {"s": 1.0, "ms": 1e-3, "us": 1e-6}
_NUMBER = re.compile(r"([+-]?[0-9.]+(?:e[+-]?[0-9]+)?)(.*)")


class NotAllowedError(Exception):
    """A value that cannot be; says which and what is allowed."""


def seconds(key: str, value: float | str) -> float:
    """A time, from a number of seconds or a text with its unit [s].

    Raises:
        NotAllowedError: it is none, or not one from 0 to 30 years.
    """
    if isinstance(value, str):
        number, unit = split_number(value)
        value = number * _TIMES.get(unit, math.nan)
    if not 0 <= value < 1e9:
        raise NotAllowedError(f"{key}: expected a time with its unit, s, ms or us, such as 20ms")
    return value


def split_number(text: str) -> tuple[float, str]:
    """Number and unit; not a number where the text is none."""
    match = _NUMBER.fullmatch(text.strip())
    try:
        return (float(match[1]), match[2]) if match else (math.nan, "")
    except ValueError:
        return math.nan, ""
