"""What an import loads, whose packages are found, and what the wheel holds."""

import importlib.util
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def python(code: str, *path: Path, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Run code in a fresh interpreter, with directories at the front of its path."""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(map(str, (*path, ROOT))), "PYTHONSAFEPATH": "1"}
    return subprocess.run(
        [sys.executable, "-c", code], cwd=cwd, env=environment, capture_output=True, text=True, timeout=60
    )


@pytest.mark.parametrize(
    ("module", "unwanted"),
    [
        ("bridge", "mujoco torch serial numpy scipy pymavlink asyncio"),
        ("bridge.hil", "mujoco torch serial serial_asyncio_fast numpy scipy asyncio twin"),
        ("bridge.endpoint", "mujoco torch serial numpy scipy pymavlink asyncio"),
        ("bridge.transport.factory", "mujoco torch serial serial_asyncio_fast numpy"),
        ("firmware_profiles.loader", "mujoco torch numpy bridge twin lav2_hil"),
        ("firmware_profiles.signals", "mujoco torch numpy msgspec bridge twin lav2_hil"),
        ("twin", "mujoco torch numpy"),
        ("twin.frames", "mujoco torch pygeomag"),
        ("twin.environment", "mujoco torch asyncio"),
        ("twin.twin", "torch asyncio pymavlink serial bridge lav2_hil"),
        ("lav2_hil", "mujoco torch numpy"),
        ("lav2_hil.cli", "mujoco torch numpy pymavlink serial aiomqtt paho mcap zstandard"),
        ("lav2_hil.gate", "mujoco torch numpy"),
        ("lav2_hil.session.writer", "mujoco torch numpy pymavlink serial asyncio twin"),
        ("lav2_hil.commands.sim", "torch aiomqtt paho"),
        ("lav2_hil.mqtt.process", "mujoco torch numpy pymavlink serial"),
        ("lav2_hil.pytest_plugin", "mujoco torch numpy scipy msgspec pymavlink click mcap asyncio bridge twin"),
        ("lav2_hil.session.case", "mujoco torch numpy scipy msgspec pymavlink click mcap asyncio bridge twin"),
    ],
)
def test_an_import_loads_nothing_that_it_does_not_need(module: str, unwanted: str, tmp_path: Path) -> None:
    code = f"import sys, {module}; print(*sorted(sys.modules))"
    result = python(code, cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    loaded = set(result.stdout.split())
    assert module in loaded
    assert not loaded & set(unwanted.split())


@pytest.mark.parametrize("name", ["bridge", "twin", "firmware_profiles"])
def test_a_package_of_the_same_name_is_reported(name: str, tmp_path: Path) -> None:
    strange = tmp_path / "strange" / name
    strange.mkdir(parents=True)
    (strange / "__init__.py").write_text("", encoding="utf-8")
    result = python("import lav2_hil", tmp_path / "strange", cwd=tmp_path)
    assert result.returncode == 1
    last = result.stderr.strip().splitlines()[-1]
    assert last.startswith(f"ImportError: the package {name!r} found at {strange} is not lav2-hil's")
    assert "in an environment of its own" in last


def test_a_module_of_the_same_name_is_reported(tmp_path: Path) -> None:
    (tmp_path / "twin.py").write_text("", encoding="utf-8")
    result = python("import lav2_hil", tmp_path, cwd=tmp_path)
    assert result.returncode == 1
    assert "the package 'twin' found at" in result.stderr.strip().splitlines()[-1]


def test_an_empty_folder_of_the_same_name_does_no_harm(tmp_path: Path) -> None:
    (tmp_path / "bridge").mkdir()
    assert python("import lav2_hil, bridge.hil", tmp_path, cwd=tmp_path).returncode == 0


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    if importlib.util.find_spec("hatchling") is None:
        pytest.skip("hatchling is not installed")
    out = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(out)]
    result = subprocess.run(build, cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert result.returncode == 0, result.stderr
    (built,) = out.iterdir()
    with zipfile.ZipFile(built) as archive:
        return archive.namelist()


def test_the_wheel_holds_the_packages_with_their_data(wheel: list[str]) -> None:
    held = set(wheel)
    for package in ("lav2_hil", "bridge", "twin", "firmware_profiles"):
        assert f"{package}/py.typed" in held
        sources = {path.relative_to(ROOT).as_posix() for path in (ROOT / package).rglob("*.py")}
        assert sources <= held
    profiles = {path.relative_to(ROOT).as_posix() for path in (ROOT / "firmware_profiles" / "profiles").iterdir()}
    assert "firmware_profiles/profiles/px4_iris.toml" in profiles
    assert profiles <= held


def test_the_wheel_holds_nothing_else(wheel: list[str]) -> None:
    tops = {name.partition("/")[0] for name in wheel}
    (metadata,) = [top for top in tops if top.endswith(".dist-info")]
    assert tops - {metadata} == {"lav2_hil", "bridge", "twin", "firmware_profiles"}
    assert not [name for name in wheel if "__pycache__" in name or name.endswith(".pyc")]
    assert f"{metadata}/licenses/LICENSE" in wheel
    assert f"{metadata}/entry_points.txt" in wheel


def test_the_wheel_works_on_its_own(tmp_path: Path, wheel: list[str]) -> None:
    """Copied out of the checkout, the packages find their profiles and each other."""
    for name in wheel:
        source = ROOT / name
        if ".dist-info" not in name:
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name).write_bytes(source.read_bytes())
    code = (
        "import lav2_hil, firmware_profiles.loader as l; from lav2_hil.actuator_map import ActuatorMap;"
        "print(l.__file__, [l.load_profile(name).name for name in l.profile_names()])"
    )
    result = python(code, tmp_path, cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    assert result.stdout.startswith(str(tmp_path))
    assert "'px4_iris'" in result.stdout
