"""Vehicle profiles: the shipped ones against their sources, and an error for everything that a file can get wrong."""

import contextlib
import copy
import math
import tomllib
from importlib import resources
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from firmware_profiles.errors import ProfileError
from firmware_profiles.loader import load_profile, profile_names
from firmware_profiles.profile import VehicleProfile

SHIPPED = resources.files("firmware_profiles") / "profiles"
LISTED = ", ".join(profile_names())
IRIS = tomllib.loads((SHIPPED / "px4_iris.toml").read_text(encoding="utf-8"))


def toml(value: Any) -> str:
    """An inline TOML value."""
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{quoted(key)} = {toml(inner)}" for key, inner in value.items()) + " }"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(toml(inner) for inner in value) + "]"
    if isinstance(value, str):
        return quoted(value)
    if isinstance(value, bool):
        return str(value).lower()
    return repr(value)


def quoted(text: str) -> str:
    return '"' + "".join(c if c.isprintable() and c not in '"\\' else f"\\U{ord(c):08X}" for c in text) + '"'


def document(table: dict[str, Any]) -> str:
    return "".join(f"{quoted(key)} = {toml(value)}\n" for key, value in table.items())


def changed(path: str, value: Any) -> dict[str, Any]:
    """The Iris with one value replaced, added, or (value `...`) removed; list places are numbers."""
    table = copy.deepcopy(IRIS)
    *groups, last = [int(part) if part.isdigit() else part for part in path.split(".")]
    where: Any = table
    for group in groups:
        where = where[group]
    if value is ...:
        del where[last]
    else:
        where[last] = value
    return table


def refusal(path: Path | str) -> str:
    """The one line with which a profile is refused."""
    with pytest.raises(ProfileError) as caught:
        load_profile(str(path))
    message = str(caught.value)
    assert message.isprintable(), repr(message)
    return message


@pytest.fixture
def vehicle_toml(tmp_path: Path) -> Path:
    return tmp_path / "vehicle.toml"


# The shipped profiles


@pytest.mark.parametrize("name", profile_names())
def test_shipped_profiles_load_under_their_own_name(name: str) -> None:
    profile = load_profile(name)
    assert profile.name == name
    assert profile.description
    assert {airframe.release for airframe in profile.firmware.px4}


def test_the_shipped_profiles_are_listed() -> None:
    assert {"px4_iris", "px4_x500"} <= set(profile_names())
    assert profile_names() == sorted(profile_names())


@pytest.mark.parametrize(("name", "control"), [("px4_iris", 0.703), ("px4_x500", 0.729)])
def test_38_hover_control_is_the_control_map_inverted_at_the_hover_speed(name: str, control: float) -> None:
    """Public report 38: sqrt(m g / 4k) through the inverse of the profile's map, within 2 %."""
    profile = load_profile(name)
    body, propeller = profile.vehicle.body, profile.vehicle.propeller
    hover = math.sqrt(body.mass_kg * 9.80665 / (4 * propeller.thrust_coefficient_n_s2))
    assert profile.vehicle.hover_speed_rad_s() == pytest.approx(hover, rel=1e-12)
    for output in profile.firmware.rotor_outputs:
        idle, full = output.speed_range_rad_s
        assert (hover - idle) / (full - idle) == pytest.approx(control, rel=0.02)


@pytest.mark.parametrize(
    ("name", "hubs_frd", "mass_kg", "thrust", "moment_m", "largest", "speeds"),
    [
        # models/iris/iris.sdf.jinja (rotor positions z-up), models/x500_base; in FRD the y axis changes sign
        (
            "px4_iris",
            [(0.13, 0.22), (-0.13, -0.20), (0.13, -0.22), (-0.13, 0.20)],
            1.535,
            5.84e-06,
            0.06,
            1100,
            (100, 1100),
        ),
        (
            "px4_x500",
            [(0.174, 0.174), (-0.174, -0.174), (0.174, -0.174), (-0.174, 0.174)],
            2.0 + 4 * 0.01608,
            8.54858e-06,
            0.016,
            1000,
            (150, 1000),
        ),
    ],
)
def test_quads_have_px4s_order_and_spin(name, hubs_frd, mass_kg, thrust, moment_m, largest, speeds) -> None:
    profile = load_profile(name)
    propeller = profile.vehicle.propeller
    assert [(rotor.position_flu_m[0], -rotor.position_flu_m[1]) for rotor in propeller.rotors] == hubs_frd
    # PX4's order: front right, rear left, front left, rear right (signs of forward, right).
    assert [(math.copysign(1, x), math.copysign(1, y)) for x, y in hubs_frd] == [(1, 1), (-1, -1), (1, -1), (-1, 1)]
    # CA_ROTOR_KM: 0.05, 0.05, -0.05, -0.05 and positive is counter-clockwise: spin_dir -1.
    assert [rotor.spin_dir for rotor in propeller.rotors] == [-1, -1, 1, 1]
    assert profile.vehicle.body.mass_kg == pytest.approx(mass_kg, rel=1e-9)
    assert propeller.thrust_coefficient_n_s2 == thrust
    assert propeller.torque_coefficient_nm_s2 == pytest.approx(moment_m * thrust, rel=1e-9)
    assert propeller.max_speed_rad_s == largest
    assert [(out.channel, out.rotor, out.speed_range_rad_s) for out in profile.firmware.rotor_outputs] == [
        (index, index, speeds) for index in range(4)
    ]


def test_x500_inertia_is_the_base_with_its_rotors_as_points() -> None:
    """Steiner's theorem about the base's centre, from the published parts."""
    vehicle = load_profile("px4_x500").vehicle
    rotor_kg, at, up = 0.01608, 0.174, 0.06
    across = 0.0216667 + 4 * rotor_kg * (at**2 + up**2)
    around = 0.04 + 4 * rotor_kg * 2 * at**2
    assert vehicle.body.inertia_kg_m2 == pytest.approx((across, across, around), rel=0.01)


# Reading


def test_a_file_loads_as_its_shipped_twin(vehicle_toml: Path) -> None:
    vehicle_toml.write_text(document(IRIS))
    assert load_profile(str(vehicle_toml)) == load_profile("px4_iris")


def test_extends_merges_tables_and_replaces_arrays(vehicle_toml: Path) -> None:
    vehicle_toml.write_text(
        'extends = "px4_x500"\nname = "heavy"\n[vehicle.body]\nmass_kg = 3\n[vehicle.sensors.gnss]\nrate_hz = 5\n'
    )
    heavy, x500 = load_profile(str(vehicle_toml)), load_profile("px4_x500")
    replace = msgspec.structs.replace
    sensors = replace(x500.vehicle.sensors, gnss=replace(x500.vehicle.sensors.gnss, rate_hz=5.0))
    body = replace(x500.vehicle.body, mass_kg=3.0)
    assert heavy == replace(x500, name="heavy", vehicle=replace(x500.vehicle, body=body, sensors=sensors))


def test_extends_is_seen_from_its_own_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    inner = tmp_path / "a" / "b"
    inner.mkdir(parents=True)
    (tmp_path / "base.toml").write_text(document(IRIS))
    (tmp_path / "a" / "middle.toml").write_text('extends = "../base.toml"\n[vehicle.body]\nmass_kg = 2.5\n')
    (inner / "top.toml").write_text('extends = "../middle.toml"\nname = "top"\n')
    monkeypatch.chdir(inner)
    for name in ("top.toml", str(inner / "top.toml")):
        profile = load_profile(name)
        assert (profile.name, profile.vehicle.body.mass_kg) == ("top", 2.5)


def test_a_copy_may_extend_the_shipped_profile_of_the_same_name(tmp_path: Path, monkeypatch) -> None:
    (tmp_path / "px4_iris.toml").write_text('extends = "px4_iris"\n[vehicle.body]\nmass_kg = 2.0\n')
    monkeypatch.chdir(tmp_path)
    assert load_profile("px4_iris.toml").vehicle.body.mass_kg == 2.0
    assert load_profile("px4_iris").vehicle.body.mass_kg == 1.535


# What a file can get wrong: change, key that is named, words that say what is allowed

WRONG_VALUES = {
    "unknown key": ("vehicle.body.mass", 1.0, "vehicle.body.mass", "mass_kg"),
    "unknown key on top": ("weight_kg", 1.0, "weight_kg", "description"),
    "unknown key in a list": ("vehicle.propeller.rotors.1.spin", 1, "vehicle.propeller.rotors[1].spin", "spin_dir"),
    "missing field": ("vehicle.body.mass_kg", ..., "vehicle.body.mass_kg", "missing"),
    "missing group": ("vehicle.sensors.imu", ..., "vehicle.sensors.imu", "missing"),
    "field without its unit": ("vehicle.sensors.barometer.noise", 1, "vehicle.sensors.barometer.noise", "noise_hpa"),
    "too short": ("vehicle.body.inertia_kg_m2", [1.0, 1.0], "vehicle.body.inertia_kg_m2", "length 3"),
    "too long": ("vehicle.body.linear_drag_n_s_m", [0] * 4, "vehicle.body.linear_drag_n_s_m", "length 3"),
    "negative mass": ("vehicle.body.mass_kg", -1.0, "vehicle.body.mass_kg", ">= 1e-06"),
    "no mass": ("vehicle.body.mass_kg", 0, "vehicle.body.mass_kg", ">= 1e-06"),
    "negative inertia": ("vehicle.body.inertia_kg_m2.1", -0.02, "vehicle.body.inertia_kg_m2[1]", ">= 1e-12"),
    "inertia of nothing": ("vehicle.body.inertia_kg_m2", [1e-30] * 3, "vehicle.body.inertia_kg_m2[0]", ">= 1e-12"),
    "negative drag": ("vehicle.body.linear_drag_n_s_m.0", -0.1, "vehicle.body.linear_drag_n_s_m[0]", ">= 0"),
    "a text for a number": ("vehicle.body.mass_kg", "heavy", "vehicle.body.mass_kg", "float"),
    "a number for a text": ("name", 5, "name", "str"),
    "a truth for a number": ("vehicle.body.mass_kg", True, "vehicle.body.mass_kg", "float"),
    "a number for a table": ("vehicle.body", 5, "vehicle.body", "object"),
    "a fraction for a count": ("vehicle.sensors.gnss.satellites", 7.5, "vehicle.sensors.gnss.satellites", "int"),
    "spin 0": ("vehicle.propeller.rotors.0.spin_dir", 0, "vehicle.propeller.rotors[0].spin_dir", "-1, 1"),
    "unknown release": ("firmware.px4.0.release", "1.13", "firmware.px4[0].release", "'1.12', '1.17'"),
    "a parameter that is a text": ("firmware.px4.0.params", {"A": "x"}, "firmware.px4[0].params[...]", "int | float"),
    "not a number": ("vehicle.body.mass_kg", math.nan, "vehicle.body.mass_kg", "finite"),
    "infinite": ("vehicle.propeller.max_speed_rad_s", math.inf, "vehicle.propeller.max_speed_rad_s", "finite"),
    "infinite in a list": ("vehicle.body.inertia_kg_m2.2", -math.inf, "vehicle.body.inertia_kg_m2[2]", "finite"),
    "infinite parameter": ("firmware.px4.0.params", {"A": math.inf}, "firmware.px4[0].params.A", "finite"),
    "larger than a float": ("vehicle.body.mass_kg", 10**400, "vehicle.body.mass_kg", "out of range"),
    "unknown key of motion capture": (
        "vehicle.sensors.motion_capture",
        {"noise_m": 0.01},
        "vehicle.sensors.motion_capture.noise_m",
        "position_noise_m",
    ),
    "motion capture faster than the IMU": (
        "vehicle.sensors.motion_capture",
        {"rate_hz": 500.0},
        "vehicle.sensors.motion_capture.rate_hz",
        "at most the IMU's rate, 250 Hz",
    ),
    "no rotors": ("vehicle.propeller.rotors", [], "vehicle.propeller.rotors", "length >= 1"),
    "channel 16": ("firmware.rotor_outputs.0.channel", 16, "firmware.rotor_outputs[0].channel", "<= 15"),
    "channel twice": ("firmware.rotor_outputs.0.channel", 3, "firmware.rotor_outputs", "each channel drives one thing"),
    "rotor without an output": ("firmware.rotor_outputs.2", ..., "firmware.rotor_outputs", "exactly one output"),
    "rotor with two outputs": ("firmware.rotor_outputs.2.rotor", 1, "firmware.rotor_outputs", "exactly one output"),
    "unknown rotor": ("firmware.rotor_outputs.3.rotor", 4, "firmware.rotor_outputs", "0 to 3"),
    "no outputs": ("firmware.rotor_outputs", [], "firmware.rotor_outputs", "exactly one output"),
    "idle is full": (
        "firmware.rotor_outputs.1.speed_range_rad_s",
        [900.0, 900.0],
        "firmware.rotor_outputs[1].speed_range_rad_s",
        "idle < full",
    ),
    "idle above full": (
        "firmware.rotor_outputs.3.speed_range_rad_s",
        [900.0, 100.0],
        "firmware.rotor_outputs[3].speed_range_rad_s",
        "idle < full",
    ),
    "impossible inertia": (
        "vehicle.body.inertia_kg_m2",
        [0.01, 0.02, 0.0301],
        "vehicle.body.inertia_kg_m2",
        "larger than the other two together",
    ),
    "a period that is no whole number": (
        "vehicle.sensors.imu.rate_hz",
        300.0,
        "vehicle.sensors.imu.rate_hz",
        "whole microseconds",
    ),
    "a rate of almost nothing": ("vehicle.sensors.imu.rate_hz", 5e-324, "vehicle.sensors.imu.rate_hz", ">= 0.01"),
    "a rate of nothing": ("vehicle.sensors.gnss.rate_hz", 0.0, "vehicle.sensors.gnss.rate_hz", ">= 0.01"),
    "too fast a rate": ("vehicle.sensors.imu.rate_hz", 4000.0, "vehicle.sensors.imu.rate_hz", "<= 2000"),
    "steps that do not fit": ("vehicle.environment", {"sim_dt_us": 3000}, "vehicle.environment.sim_dt_us", "divisor"),
    "a step longer than the tick": (
        "vehicle.environment",
        {"sim_dt_us": 8000},
        "vehicle.environment.sim_dt_us",
        "divisor",
    ),
    "steps of a fraction": ("vehicle.environment", {"sim_dt_us": 500.5}, "vehicle.environment.sim_dt_us", "int"),
    "no gravity": ("vehicle.environment", {"gravity_m_s2": 0}, "vehicle.environment.gravity_m_s2", "> 0"),
    "barometer faster than the IMU": (
        "vehicle.sensors.barometer.rate_hz",
        251.0,
        "vehicle.sensors.barometer.rate_hz",
        "at most the IMU's rate, 250 Hz",
    ),
    "magnetometer faster than the IMU": (
        "vehicle.sensors.magnetometer.rate_hz",
        500.0,
        "vehicle.sensors.magnetometer.rate_hz",
        "at most the IMU's rate",
    ),
    "GNSS faster than the IMU": ("vehicle.sensors.gnss.rate_hz", 500.0, "vehicle.sensors.gnss.rate_hz", "at most"),
    "an endless delay": ("vehicle.sensors.gnss.delay_s", 3.0, "vehicle.sensors.gnss.delay_s", "<= 2"),
    "a key of two lines": ("vehicle.body.two\nlines", 1, "vehicle.body.two\\nlines", "mass_kg"),
    "extends a number": ("extends", 5, "extends", "a string"),
    "extends a list": ("extends", ["px4_iris"], "extends", "a string"),
    "extends an unknown name": ("extends", "px4_irs", "extends", LISTED),
    "extends an unknown file": ("extends", "nowhere.toml", "extends", LISTED),
    "extends itself": ("extends", "./vehicle.toml", "extends", "circle"),
    "extends two lines": ("extends", "two\nlines", "extends", LISTED),
    "extends a name with NUL": ("extends", "a\0b.toml", "extends", "cannot be read"),
}


@pytest.mark.parametrize("case", WRONG_VALUES)
def test_a_wrong_value_is_one_line_with_file_key_and_what_is_allowed(case: str, vehicle_toml: Path) -> None:
    path, value, key, allowed = WRONG_VALUES[case]
    vehicle_toml.write_text(document(changed(path, value)), encoding="utf-8")
    message = refusal(vehicle_toml)
    file, named, said = message.split(": ", 2)
    assert file == str(vehicle_toml)
    assert named == key
    assert allowed in said
    assert "Traceback" not in message


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("name = ", "not valid TOML"),
        ("name = 'a'\nname = 'b'", "not valid TOML"),
        ("[vehicle\nbody]", "not valid TOML"),
        ("x = " + "[" * 2000, "not valid TOML"),
        ("x = " + "9" * 5000, "not valid TOML"),
        ("a" + ".a" * 3000 + " = 1", "without end"),
        ("", "missing"),
    ],
    ids=["no value", "twice", "two lines", "brackets", "digits", "dots", "empty"],
)
def test_bad_toml(text: str, said: str, vehicle_toml: Path) -> None:
    vehicle_toml.write_text(text)
    message = refusal(vehicle_toml)
    assert message.startswith(f"{vehicle_toml}: ")
    assert said in message


def test_a_circle_of_files_is_named(tmp_path: Path) -> None:
    sub = tmp_path / "sub"
    sub.mkdir()
    (tmp_path / "a.toml").write_text('extends = "sub/b.toml"\n')
    (sub / "b.toml").write_text('extends = "../sub/../a.toml"\n')  # a path that grows with every turn
    message = refusal(tmp_path / "a.toml")
    assert message.startswith(f"{sub / 'b.toml'}: extends: goes in a circle (")
    assert message.count(" -> ") == 2


def test_the_error_names_the_file_in_the_chain_that_holds_the_value(tmp_path: Path) -> None:
    (tmp_path / "base.toml").write_text(document(changed("vehicle.body.mass_kg", -1.0)))
    (tmp_path / "top.toml").write_text('extends = "base.toml"\n[vehicle.body]\nfriction = 0.5\n')
    assert refusal(tmp_path / "top.toml").startswith(f"{tmp_path / 'base.toml'}: vehicle.body.mass_kg: ")
    (tmp_path / "top.toml").write_text('extends = "base.toml"\n[vehicle.body]\nmass_kg = 1.0\nfriction = -1\n')
    assert refusal(tmp_path / "top.toml").startswith(f"{tmp_path / 'top.toml'}: vehicle.body.friction: ")
    (tmp_path / "top.toml").write_text('extends = "broken.toml"\n')
    (tmp_path / "broken.toml").write_text("broken")
    assert refusal(tmp_path / "top.toml").startswith(f"{tmp_path / 'broken.toml'}: not valid TOML")


def test_what_is_no_readable_file(tmp_path: Path) -> None:
    missing, folder, binary, link = (tmp_path / f"{name}.toml" for name in ("missing", "folder", "binary", "link"))
    folder.mkdir()
    binary.write_bytes(bytes(range(256)))
    link.symlink_to(link)
    for path, said in (
        (missing, f"no such profile file; shipped profiles: {LISTED}"),
        (missing / "deeper.toml", "no such profile file"),
        (binary / "deeper.toml", "cannot be read: Not a directory"),
        (folder, "cannot be read: Is a directory"),
        (binary, "not valid TOML"),
        (link, "cannot be read"),
        (tmp_path / ("a" * 300 + ".toml"), "cannot be read: File name too long"),
        (str(tmp_path / "a\0b.toml"), "cannot be read"),
    ):
        assert said in refusal(path)


def test_an_unreadable_file(vehicle_toml: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    vehicle_toml.write_text(document(IRIS))
    vehicle_toml.chmod(0)
    with contextlib.suppress(PermissionError):
        vehicle_toml.read_text()  # root may: then the system's answer is made up

        def forbidden(self: Path, *_: Any, **__: Any) -> str:
            raise PermissionError(13, "Permission denied", str(self))

        monkeypatch.setattr(Path, "read_text", forbidden)
    assert refusal(vehicle_toml) == f"{vehicle_toml}: cannot be read: Permission denied"


@pytest.mark.parametrize("name", ["", "px4", "px4_iris ", "../px4_iris", "PX4_IRIS", "px4_iris.json", "a\nb", "\0"])
def test_an_unknown_name_lists_the_shipped_ones(name: str) -> None:
    message = refusal(name)
    assert message.startswith("unknown profile ")
    assert LISTED in message


# Anything at all


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(place for key, item in inner for place in places(item, (*path, key)))]


anything = st.recursive(
    st.one_of(
        st.booleans(),
        st.integers(),
        st.floats(),
        st.sampled_from([0, -1, 1, 5e-324, 1e-300, 1e300, 10**400, -0.0]),
        st.text(max_size=8),
    ),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=5,
)


@given(
    st.lists(
        st.tuples(
            st.sampled_from(places(IRIS)[1:]), st.sampled_from(["set", "drop", "add", "negate", "scale"]), anything
        ),
        min_size=1,
        max_size=3,
    ),
    st.text(max_size=8),
)
@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_change_of_a_profile_loads_or_is_refused_in_one_line(vehicle_toml: Path, changes, new_key: str) -> None:
    table = copy.deepcopy(IRIS)
    for path, kind, value in changes:
        try:
            where: Any = table
            for key in path[:-1]:
                where = where[key]
            old = where[path[-1]]
        except (KeyError, IndexError, TypeError):
            continue  # an earlier change took it away
        if kind == "set":
            where[path[-1]] = value
        elif kind == "drop":
            del where[path[-1]]
        elif kind == "add" and isinstance(old, dict):
            old[new_key] = value
        elif kind == "negate" and isinstance(old, float):
            where[path[-1]] = -old
        elif kind == "scale" and isinstance(old, float) and isinstance(value, int | float):
            with contextlib.suppress(OverflowError):
                where[path[-1]] = old * value
    vehicle_toml.write_text(document(table), encoding="utf-8", errors="replace")
    try:
        profile: VehicleProfile | str = load_profile(str(vehicle_toml))
    except ProfileError as error:
        profile = str(error)
    if isinstance(profile, str):
        assert profile.isprintable()
        assert profile.startswith(f"{vehicle_toml}: ")
    else:
        assert profile.vehicle.step_dt_us % profile.vehicle.environment.sim_dt_us == 0


@given(st.binary(max_size=200))
@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_bytes_are_refused_in_one_line(vehicle_toml: Path, data: bytes) -> None:
    vehicle_toml.write_bytes(data)
    refusal(vehicle_toml)
