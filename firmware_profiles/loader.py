"""Profiles from TOML: `load_profile("px4_iris")`, `load_profile("my/vehicle.toml")`.

`extends = "NAME"` takes another profile as the base; tables are merged key by key, anything else replaces. A file's
relative `extends` path is seen from that file. An error is one line: file, key, what is allowed.
"""

from __future__ import annotations

import tomllib
from importlib import resources
from pathlib import Path
from typing import Any, Literal, get_args, get_origin, get_type_hints

import msgspec

from firmware_profiles.errors import ProfileError
from firmware_profiles.profile import VehicleParams, VehicleProfile

_SHIPPED = resources.files("firmware_profiles") / "profiles"


def profile_names() -> list[str]:
    """The names of the profiles that come with the package."""
    return sorted(entry.name.removesuffix(".toml") for entry in _SHIPPED.iterdir() if entry.name.endswith(".toml"))


def load_profile(name_or_path: str) -> VehicleProfile:
    """Read a profile by its shipped name, or from a file when the name ends in `.toml`.

    Raises:
        ProfileError: no such profile (lists those that exist), or an error in its file.
    """
    source, table = _merged(name_or_path, None, ())
    profile = _convert(table, source)
    _check_outputs(profile, source)
    _check_physics(profile.vehicle, source)
    return profile


def _merged(name_or_path: str, directory: Path | None, chain: tuple[str, ...]) -> tuple[str, dict[str, Any]]:
    source, text, here = _read(name_or_path, directory)
    if source in chain:
        raise ProfileError(f"{source}: extends: goes in a circle ({' -> '.join([*chain, source])})")
    try:
        table = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ProfileError(f"{source}: not valid TOML: {error}") from None
    base_name = table.pop("extends", None)
    if base_name is None:
        return source, table
    if not isinstance(base_name, str):
        raise ProfileError(f"{source}: extends: expected the name of a profile, a string")
    _, base = _merged(base_name, here, (*chain, source))
    return source, _merge(base, table)


def _read(name_or_path: str, directory: Path | None) -> tuple[str, str, Path | None]:
    """(what to call it in messages, its text, the directory that its own relative paths start from)."""
    if name_or_path.endswith(".toml"):
        path = Path(name_or_path) if directory is None else directory / name_or_path
        try:
            return str(path), path.read_text(encoding="utf-8"), path.parent
        except FileNotFoundError:
            raise ProfileError(f"{path}: no such profile file; shipped profiles: {_listed()}") from None
        except (OSError, UnicodeDecodeError) as error:
            raise ProfileError(f"{path}: cannot be read: {error}") from None
    if name_or_path in profile_names():
        entry = _SHIPPED / f"{name_or_path}.toml"
        return f"{name_or_path}.toml", entry.read_text(encoding="utf-8"), directory
    raise ProfileError(
        f"unknown profile {name_or_path!r}; shipped profiles: {_listed()} (or a path that ends in .toml)"
    )


def _listed() -> str:
    return ", ".join(profile_names())


def _merge(base: dict[str, Any], over: dict[str, Any]) -> dict[str, Any]:
    merged = dict(base)
    for key, value in over.items():
        old = merged.get(key)
        merged[key] = _merge(old, value) if isinstance(old, dict) and isinstance(value, dict) else value
    return merged


def _convert(table: dict[str, Any], source: str) -> VehicleProfile:
    _reject_non_finite(table, source, "")
    try:
        return msgspec.convert(table, VehicleProfile)
    except msgspec.ValidationError as error:
        message, _, path = str(error).partition(" - at `$")
        key = path.rstrip("`").lstrip(".") or "(top level)"
        raise ProfileError(f"{source}: {key}: {message}{_allowed(key, message)}") from None


def _reject_non_finite(value: Any, source: str, key: str) -> None:
    """TOML knows nan and inf; a vehicle has neither."""
    if isinstance(value, dict):
        for name, inner in value.items():
            _reject_non_finite(inner, source, f"{key}.{name}" if key else name)
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            _reject_non_finite(inner, source, f"{key}[{index}]")
    elif isinstance(value, float) and not (-1e300 < value < 1e300):
        raise ProfileError(f"{source}: {key}: expected a finite number, got {value}")


def _allowed(key: str, message: str) -> str:
    """What may stand at `key`: the fields of its table, or the values of its enumeration."""
    if "field `" not in message and "enum" not in message:
        return ""
    kind: Any = VehicleProfile
    for part in key.split("."):
        name, _, index = part.partition("[")
        if name not in getattr(kind, "__struct_fields__", ()):
            break
        kind = get_type_hints(kind)[name]
        if index:
            kind = get_args(kind)[0]
    if get_origin(kind) is Literal:
        return f"; allowed: {', '.join(repr(value) for value in get_args(kind))}"
    return f"; allowed here: {', '.join(kind.__struct_fields__)}" if hasattr(kind, "__struct_fields__") else ""


def _check_outputs(profile: VehicleProfile, source: str) -> None:
    """What the types cannot say: each rotor is driven by exactly one output, and ranges make sense."""
    rotors = len(profile.vehicle.propeller.rotors)
    outputs = profile.firmware.rotor_outputs
    driven = sorted(output.rotor for output in outputs)
    if driven != list(range(rotors)):
        raise ProfileError(
            f"{source}: firmware.rotor_outputs: each of the {rotors} rotors (0 to {rotors - 1}) needs exactly one "
            f"output, got outputs for rotors {driven}"
        )
    channels = sorted(output.channel for output in outputs)
    if len(set(channels)) != len(channels):
        raise ProfileError(f"{source}: firmware.rotor_outputs: each channel drives one rotor, got channels {channels}")
    for index, output in enumerate(outputs):
        low, high = output.speed_range_rad_s
        if low >= high:
            raise ProfileError(
                f"{source}: firmware.rotor_outputs[{index}].speed_range_rad_s: expected [idle, full] with idle < full, "
                f"got [{low:g}, {high:g}]"
            )


def _check_physics(vehicle: VehicleParams, source: str) -> None:
    """What no body can be, and what no clock of whole microseconds can show."""
    a, b, c = sorted(vehicle.body.inertia_kg_m2)
    if a + b < c:
        raise ProfileError(
            f"{source}: vehicle.body.inertia_kg_m2: no body has one moment larger than the other two together, "
            f"got {list(vehicle.body.inertia_kg_m2)}"
        )
    rate = vehicle.sensors.imu.rate_hz
    if abs(vehicle.step_dt_us * rate - 1e6) > 1e-6:
        raise ProfileError(
            f"{source}: vehicle.sensors.imu.rate_hz: expected a rate whose period is whole microseconds "
            f"(100, 200, 250, 400, 500, 800, 1000 Hz ...), got {rate:g}"
        )
    if vehicle.step_dt_us % vehicle.environment.sim_dt_us:
        raise ProfileError(
            f"{source}: vehicle.environment.sim_dt_us: expected a divisor of the IMU's period, {vehicle.step_dt_us} us, "
            f"got {vehicle.environment.sim_dt_us}"
        )
    for name in ("barometer", "magnetometer", "gnss"):
        slower = getattr(vehicle.sensors, name).rate_hz
        if slower > rate:
            raise ProfileError(
                f"{source}: vehicle.sensors.{name}.rate_hz: expected at most the IMU's rate, {rate:g} Hz, got {slower:g}"
            )
