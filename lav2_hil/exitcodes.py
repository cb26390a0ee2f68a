"""Exit codes: 0 to 2 as everywhere, 64 to 78 as in sysexits.h, 128 + signal on a signal."""

from __future__ import annotations

from enum import IntEnum

from firmware_profiles.errors import (
    DataError,
    Lav2HilError,
    LinkUnavailableError,
    NoInputError,
    OutputError,
    ProfileError,
    RefusedError,
    UsageError,
)


class ExitCode(IntEnum):
    """What the process ends with."""

    OK = 0
    FAILED_VERDICT = 1
    USAGE = 2
    BAD_DATA = 65
    NO_INPUT = 66
    LINK_UNAVAILABLE = 69
    INTERNAL = 70
    IO = 74
    REFUSED = 77
    INTERRUPTED = 130
    TERMINATED = 143
    CONFIGURATION = 78


def exit_code_of(error: Lav2HilError) -> ExitCode:
    """The exit code for an error; an error of a kind that is not listed is ours."""
    for kind, code in (
        (ProfileError, ExitCode.CONFIGURATION),
        (UsageError, ExitCode.USAGE),
        (LinkUnavailableError, ExitCode.LINK_UNAVAILABLE),
        (DataError, ExitCode.BAD_DATA),
        (NoInputError, ExitCode.NO_INPUT),
        (OutputError, ExitCode.IO),
        (RefusedError, ExitCode.REFUSED),
    ):
        if isinstance(error, kind):
            return code
    return ExitCode.INTERNAL
