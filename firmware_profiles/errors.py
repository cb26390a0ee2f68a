"""The error root. Every error a user can cause or meet derives from it and says, in one line, what to do."""

from __future__ import annotations


class Lav2HilError(Exception):
    """Root of all errors of this project; `lav2_hil.exitcodes` maps each class to an exit code."""


class ProfileError(Lav2HilError):
    """A vehicle profile cannot be found or read; names the file, the key and what is allowed."""


class UsageError(Lav2HilError):
    """A command-line value is not acceptable; names the option and what is allowed."""


class EndpointError(UsageError):
    """A connection string is not acceptable; names the accepted forms."""


class LinkUnavailableError(Lav2HilError):
    """A port cannot be opened; names the port and the likely holder."""


class DataError(Lav2HilError):
    """A file's contents cannot be used; names the file and the place."""


class NoInputError(Lav2HilError):
    """A file does not exist or cannot be read."""


class RefusedError(Lav2HilError):
    """What was asked for is not safe, or not possible here; names the reason and what to do, or the override."""


class OutputError(Lav2HilError):
    """A file cannot be written; names the file and the reason."""
