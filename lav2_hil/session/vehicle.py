"""Which vehicle a session is replayed with, and what has changed about it since."""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec

from firmware_profiles.errors import ProfileError
from firmware_profiles.loader import load_profile
from firmware_profiles.profile import VehicleProfile
from lav2_hil.session.header import Header


class ProfileChange(NamedTuple):
    """A value of the profile that is not the recorded one; None where there is or was none."""

    path: str
    recorded: Any
    now: Any


class Vehicle(NamedTuple):
    """The vehicle of a replay.

    Attributes:
        profile: it.
        source: where it is from, in words.
        warning: that it is not the one that was to be expected; None if it is.
        changes: what differs from the recorded profile.
    """

    profile: VehicleProfile
    source: str
    warning: str | None
    changes: tuple[ProfileChange, ...]


def choose_vehicle(header: Header, name_or_path: str | None = None, *, recorded: bool = False) -> Vehicle:
    """The vehicle to replay a session with.

    By default it is today's profile of the name or path that was recorded, as a changed vehicle is to be noticed; the
    recorded one where that cannot be loaded.

    Args:
        header: of the session.
        name_or_path: another profile instead.
        recorded: the recorded one instead.

    Raises:
        ProfileError: `name_or_path` cannot be loaded.
    """
    if recorded:
        return Vehicle(header.profile, "the recorded profile", None, ())
    warning = None
    source = header.profile_source if name_or_path is None else name_or_path
    try:
        profile = load_profile(source)
    except ProfileError as error:
        if name_or_path is not None:
            raise
        warning = f"replayed with the recorded profile, as today's cannot be loaded: {error}"
        return Vehicle(header.profile, "the recorded profile", warning, ())
    return Vehicle(profile, f"profile {source}", None, tuple(profile_changes(header.profile, profile)))


def profile_changes(recorded: VehicleProfile, now: VehicleProfile) -> list[ProfileChange]:
    """The values that differ between two profiles."""
    old, new = _flat(msgspec.to_builtins(recorded), ""), _flat(msgspec.to_builtins(now), "")
    return [
        ProfileChange(path, old.get(path), new.get(path)) for path in {**old, **new} if old.get(path) != new.get(path)
    ]


def _flat(value: Any, path: str) -> dict[str, Any]:
    if isinstance(value, dict):
        parts = [(f"{path}.{key}" if path else str(key), inner) for key, inner in value.items()]
    elif isinstance(value, list | tuple):
        parts = [(f"{path}[{index}]", inner) for index, inner in enumerate(value)]
    else:
        return {path: value}
    return {name: leaf for inner_path, inner in parts for name, leaf in _flat(inner, inner_path).items()}
