"""Profiles from TOML: `load_profile("px4_iris")`, `load_profile("my/vehicle.toml")`.

`extends = "NAME"` takes another profile as the base; tables are merged key by key, anything else replaces. A file's
relative `extends` path is seen from that file. An error is one line: file, key, what is allowed; the file is the one
in the chain that holds the value.
"""

from __future__ import annotations

import math
import tomllib
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from types import UnionType
from typing import Any, Literal, get_args, get_origin, get_type_hints

import msgspec

from firmware_profiles.arm import arm_faults, wall_faults
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
    layers = _layers(name_or_path)
    table: dict[str, Any] = {}
    try:
        for layer in reversed(layers):
            table = _merge(table, layer.table)
        profile = _convert(table, layers)
    except RecursionError:
        raise ProfileError(_one_line(f"{layers[0].source}: tables inside tables without end")) from None
    _check_outputs(profile, layers)
    _check_physics(profile.vehicle, layers)
    _check_arm(profile.vehicle, layers)
    return profile


@dataclass(frozen=True, slots=True)
class _Layer:
    """One file of a chain of `extends`: what to call it in messages, and what it says itself."""

    source: str
    table: dict[str, Any]


def _one_line(text: str) -> str:
    """The text with everything that would break the line shown as an escape."""
    return "".join(char if char.isprintable() else ascii(char)[1:-1] for char in text)


def _error(layers: list[_Layer], key: str, problem: str) -> ProfileError:
    """The error at a key, in the file that gives the key its value, or in the first one where none does."""
    owners = (layer.source for layer in layers if _says(layer.table, key))
    return ProfileError(_one_line(f"{next(owners, layers[0].source)}: {key}: {problem}"))


def _says(table: Any, key: str) -> bool:
    for part in key.split("."):
        name, _, index = part.partition("[")
        if not isinstance(table, dict) or name not in table:
            return False
        if index:
            return True  # an array is replaced as a whole
        table = table[name]
    return True


def _layers(name_or_path: str) -> list[_Layer]:
    """The profile and what it extends, the most special one first."""
    layers: list[_Layer] = []
    identities: list[str] = []
    name, directory, said_by = name_or_path, None, ""
    while True:
        source, identity, text, directory = _read(name, directory, said_by)
        if identity in identities:
            circle = " -> ".join([*(layer.source for layer in layers[identities.index(identity) :]), source])
            raise ProfileError(_one_line(f"{layers[-1].source}: extends: goes in a circle ({circle})"))
        try:
            table = tomllib.loads(text)
        except (ValueError, RecursionError) as error:  # an integer of 5,000 digits, brackets 1,000 deep
            raise ProfileError(_one_line(f"{source}: not valid TOML: {error}")) from None
        base = table.pop("extends", None)
        layers.append(_Layer(source, table))
        identities.append(identity)
        if base is None:
            return layers
        if not isinstance(base, str):
            raise ProfileError(_one_line(f"{source}: extends: expected the name of a profile, a string, got {base!r}"))
        name, said_by = base, f"{source}: extends: "


def _read(name: str, directory: Path | None, said_by: str) -> tuple[str, str, str, Path | None]:
    """(what to call it in messages, which file it really is, its text, where its own relative paths start)."""
    if name.endswith(".toml"):
        path = Path(name) if directory is None else directory / name
        try:
            return str(path), str(path.resolve()), path.read_text(encoding="utf-8"), path.parent
        except FileNotFoundError:
            problem = f"no such profile file; shipped profiles: {_listed()}"
        except UnicodeDecodeError:
            problem = "not valid TOML: not a text in UTF-8"
        except (OSError, ValueError, RuntimeError) as error:  # a NUL in the name, a link to itself
            problem = f"cannot be read: {getattr(error, 'strerror', None) or error}"
        raise ProfileError(_one_line(f"{said_by}{path}: {problem}"))
    if name in profile_names():
        return f"{name}.toml", f"shipped {name}", (_SHIPPED / f"{name}.toml").read_text(encoding="utf-8"), directory
    raise ProfileError(
        _one_line(f"{said_by}unknown profile {name!r}; shipped profiles: {_listed()} (or a path that ends in .toml)")
    )


def _listed() -> str:
    return ", ".join(profile_names())


def _merge(base: dict[str, Any], over: dict[str, Any]) -> dict[str, Any]:
    merged = dict(base)
    for key, value in over.items():
        old = merged.get(key)
        merged[key] = _merge(old, value) if isinstance(old, dict) and isinstance(value, dict) else value
    return merged


def _convert(table: dict[str, Any], layers: list[_Layer]) -> VehicleProfile:
    _reject_non_finite(table, layers, "")
    try:
        return msgspec.convert(table, VehicleProfile)
    except msgspec.ValidationError as error:
        message, _, path = str(error).partition(" - at `$")
        group = path.rstrip("`").lstrip(".")
        key, allowed = group, _allowed(group, message)
        for start, plain in (("Object contains unknown", "unknown key"), ("Object missing required", "missing")):
            if message.startswith(f"{start} field `"):
                field = message.removeprefix(f"{start} field `").removesuffix("`")
                message, key = plain, f"{group}.{field}" if group else field
        raise _error(layers, key, message + allowed) from None
    except ProfileError as error:  # what a group of the vehicle finds when it is made: "group.key: problem"
        key, _, problem = str(error).partition(": ")
        raise _error(layers, f"vehicle.{key}", problem) from None


def _reject_non_finite(value: Any, layers: list[_Layer], key: str) -> None:
    """TOML knows nan and inf; a vehicle has neither."""
    if isinstance(value, dict):
        for name, inner in value.items():
            _reject_non_finite(inner, layers, f"{key}.{name}" if key else name)
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            _reject_non_finite(inner, layers, f"{key}[{index}]")
    elif isinstance(value, float) and not (-1e300 < value < 1e300):
        raise _error(layers, key, f"expected a finite number, got {value}")


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
        if get_origin(kind) is UnionType:  # a group that a vehicle may lack
            kind = get_args(kind)[0]
        if index:
            kind = get_args(kind)[0]
    if get_origin(kind) is Literal:
        return f"; allowed: {', '.join(repr(value) for value in get_args(kind))}"
    return f"; allowed here: {', '.join(kind.__struct_fields__)}" if hasattr(kind, "__struct_fields__") else ""


def _check_outputs(profile: VehicleProfile, layers: list[_Layer]) -> None:
    """What the types cannot say: each rotor is driven by exactly one output, and ranges make sense."""
    rotors = len(profile.vehicle.rotors)
    outputs = profile.firmware.rotor_outputs
    driven = sorted(output.rotor for output in outputs)
    if driven != list(range(rotors)):
        raise _error(
            layers,
            "firmware.rotor_outputs",
            f"each of the {rotors} rotors (0 to {rotors - 1}) needs exactly one "
            f"output, got outputs for rotors {driven}",
        )
    wheels = profile.firmware.wheel_outputs
    sides = sorted(output.side for output in wheels)
    expected = [] if profile.vehicle.ground_drive is None else ["left", "right"]
    if sides != expected:
        raise _error(
            layers,
            "firmware.wheel_outputs",
            f"expected one output for each of the sides {expected}, as the vehicle's ground_drive has, got {sides}",
        )
    tilt = profile.firmware.tilt_output
    _check_tilt(profile, layers)
    channels = sorted([output.channel for output in (*outputs, *wheels, *(() if tilt is None else (tilt,)))])
    if len(set(channels)) != len(channels):
        own = {output.channel for output in outputs}
        key = "firmware.rotor_outputs" if len(own) < len(outputs) else "firmware.wheel_outputs"
        if tilt is not None and channels.count(tilt.channel) > 1:
            key = "firmware.tilt_output.channel"
        raise _error(layers, key, f"each channel drives one thing, got channels {channels}")
    for index, output in enumerate(outputs):
        low, high = output.speed_range_rad_s
        if low >= high:
            raise _error(
                layers,
                f"firmware.rotor_outputs[{index}].speed_range_rad_s",
                f"expected [idle, full] with idle < full, got [{low:g}, {high:g}]",
            )


def _check_tilt(profile: VehicleProfile, layers: list[_Layer]) -> None:
    """Arms carry rotors and wheels, and one output moves them."""
    vehicle, output = profile.vehicle, profile.firmware.tilt_output
    if (vehicle.tilt is None) != (output is None):
        raise _error(layers, "firmware.tilt_output", "expected if and only if the vehicle has a vehicle.tilt")
    if vehicle.tilt is None or output is None:
        return
    if vehicle.propeller is None or vehicle.ground_drive is None:
        raise _error(
            layers, "vehicle.tilt", "arms carry both rotors and wheels; expected a propeller and a ground_drive"
        )
    if vehicle.ground_drive.casters:
        raise _error(
            layers, "vehicle.ground_drive.casters", "a vehicle with a tilt stands on its body or on its wheels"
        )
    if any(rotor.position_flu_m[1] == 0.0 for rotor in vehicle.rotors):
        raise _error(layers, "vehicle.propeller.rotors", "with a tilt each rotor is on an arm: y must not be 0")
    if any(rotor.speed_range_rad_s[0] > 0.0 for rotor in profile.firmware.rotor_outputs):
        raise _error(layers, "firmware.rotor_outputs", "rotors that become wheels must stand still at control 0")
    flight, drive = output.range_rad
    if flight != 0.0 or drive <= flight:
        raise _error(
            layers,
            "firmware.tilt_output.range_rad",
            f"expected [0, drive] with the angle to drive at above 0, got [{flight:g}, {drive:g}]",
        )


def _check_arm(vehicle: VehicleParams, layers: list[_Layer]) -> None:
    """Postures that the joints allow, and walls that leave room for the vehicle."""
    if vehicle.arm is not None and vehicle.tilt is not None:
        raise _error(layers, "vehicle.arm", "a vehicle whose rotors tilt carries none")
    for key, problem in (*arm_faults(vehicle.arm), *wall_faults(vehicle.environment.walls, _footprint_m(vehicle))):
        raise _error(layers, f"vehicle.{key}", problem)


def _footprint_m(vehicle: VehicleParams) -> float:
    """How far the hull reaches from the vehicle's origin, horizontally."""
    centre, half = vehicle.body.collision_centre_flu_m, vehicle.body.collision_half_size_m
    return math.hypot(abs(centre[0]) + half[0], abs(centre[1]) + half[1])


def _check_physics(vehicle: VehicleParams, layers: list[_Layer]) -> None:
    """What no body can be, and what no clock of whole microseconds can show."""
    drive = vehicle.ground_drive
    if drive is None and vehicle.propeller is None:
        raise _error(layers, "vehicle", "neither flies nor drives; expected a propeller, a ground_drive, or both")
    if drive is not None and drive.driven_axle >= len(drive.wheel_x_m):
        raise _error(
            layers,
            "vehicle.ground_drive.driven_axle",
            f"expected one of the {len(drive.wheel_x_m)} axles, counted from 0, got {drive.driven_axle}",
        )
    a, b, c = sorted(vehicle.body.inertia_kg_m2)
    if a + b < c:
        raise _error(
            layers,
            "vehicle.body.inertia_kg_m2",
            f"no body has one moment larger than the other two together, got {list(vehicle.body.inertia_kg_m2)}",
        )
    rate = vehicle.sensors.imu.rate_hz
    if abs(vehicle.step_dt_us * rate - 1e6) > 1e-6:
        raise _error(
            layers,
            "vehicle.sensors.imu.rate_hz",
            f"expected a rate whose period is whole microseconds "
            f"(100, 200, 250, 400, 500, 800, 1000 Hz ...), got {rate:g}",
        )
    if vehicle.step_dt_us % vehicle.environment.sim_dt_us:
        raise _error(
            layers,
            "vehicle.environment.sim_dt_us",
            f"expected a divisor of the IMU's period, {vehicle.step_dt_us} us, got {vehicle.environment.sim_dt_us}",
        )
    for name in ("barometer", "magnetometer", "gnss", "motion_capture"):
        sensor = getattr(vehicle.sensors, name)
        slower = 0.0 if sensor is None else sensor.rate_hz
        if slower > rate:
            raise _error(
                layers,
                f"vehicle.sensors.{name}.rate_hz",
                f"expected at most the IMU's rate, {rate:g} Hz, got {slower:g}",
            )
