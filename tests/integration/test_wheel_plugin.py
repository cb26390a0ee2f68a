"""The pytest plugin as somebody else meets it: installed from the wheel, in a project of their own."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest
from replay_rig import beginning

from lav2_hil.session.rewrite import write_session

ROOT = Path(__file__).parents[2]

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

TEST_FLIGHT = """\
from lav2_hil.session.case import ReplayCase


def test_square(replay):
    replay(ReplayCase("flights/square.mcap", profile="vehicles/mine.toml"))
"""
"""What the README shows."""

INI = """\
[pytest]
filterwarnings = error
asyncio_default_fixture_loop_scope = function
"""
"""The last for pytest-asyncio, which is around and warns without."""

CONFTEST = f"""\
import sys
from pathlib import Path


def pytest_sessionstart(session):
    heavy = {{"numpy", "mujoco", "msgspec", "pymavlink", "mcap", "bridge", "twin", "firmware_profiles"}}
    assert "lav2_hil.pytest_plugin" in sys.modules
    assert not heavy & set(sys.modules), heavy & set(sys.modules)


def pytest_sessionfinish(session):
    for name in ("lav2_hil", "bridge", "twin", "firmware_profiles"):
        if name in sys.modules:
            assert Path(sys.modules[name].__file__).is_relative_to(sys.prefix), name
            assert not Path(sys.modules[name].__file__).is_relative_to({str(ROOT)!r}), name
"""


def run(*command: str | Path, cwd: Path, code: int = 0) -> str:
    """Run a command without anything of this checkout in its environment; give what it says."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "PYTEST"))}
    result = subprocess.run(
        list(map(str, command)), cwd=cwd, env=environment, capture_output=True, text=True, timeout=200, check=False
    )
    assert result.returncode == code, result.stdout + result.stderr
    return result.stdout + result.stderr


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The interpreter of an environment that has our wheel, and everything else from this one."""
    for module in ("hatchling", "pip"):
        if importlib.util.find_spec(module) is None:
            pytest.skip(f"{module} is not installed")
    folder = tmp_path_factory.mktemp("wheel")
    run(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", folder / "dist", cwd=ROOT)
    (wheel,) = (folder / "dist").iterdir()
    run(sys.executable, "-m", "venv", "--without-pip", folder / "env", cwd=folder)
    python = folder / "env" / "bin" / "python"
    # Before the other packages can be seen: pip would take our own installation there for an older one of this.
    pip = ("-m", "pip", "--python", python, "install", "--no-deps", "--no-index", "-q", wheel)
    run(sys.executable, *pip, cwd=folder)
    site = run(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))", cwd=folder).strip()
    # A folder named in a .pth file is searched, but the .pth files in it are not read: the checkout stays unknown.
    others = {sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}
    (Path(site) / "others.pth").write_text("\n".join(sorted(others)) + "\n")
    return python


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Somebody's repository, with a recorded flight and a vehicle."""
    folder = tmp_path / "project"
    (folder / "flights").mkdir(parents=True)
    (folder / "vehicles").mkdir()
    flight = folder / "flights" / "square.mcap"
    flight.touch()
    session = beginning(3.0)
    write_session(flight, session.header, session.truth_every, session.records)
    (folder / "vehicles" / "mine.toml").write_text('extends = "lav2"\n')
    (folder / "test_flight.py").write_text(TEST_FLIGHT)
    (folder / "conftest.py").write_text(CONFTEST)
    (folder / "pytest.ini").write_text(INI)
    return folder


def test_a_flight_is_a_regression_test_in_five_lines(installed: Path, project: Path) -> None:
    pytest_ = (installed, "-m", "pytest", "-p", "no:cacheprovider")
    assert "1 passed" in run(*pytest_, cwd=project)

    (project / "vehicles" / "mine.toml").write_text('extends = "lav2"\n[vehicle.body]\nmass_kg = 2.21\n')
    said = run(*pytest_, cwd=project, code=1)
    assert "flights/square.mcap: NOT as recorded" in said
    assert re.search(r"E +vehicle\.body\.mass_kg: recorded 2\.2, now 2\.21", said)
    assert re.search(r"E +first difference: \S+ at \d+\.\d+ s: recorded \S+, now \S+", said)
    assert "--update-refs" in said
    assert "check_session" not in said  # our own frames are not the user's business

    before = (project / "flights" / "square.mcap").read_bytes()
    assert "1 passed" in run(*pytest_, "--update-refs", cwd=project)
    assert (project / "flights" / "square.mcap").read_bytes() != before
    assert "1 passed" in run(*pytest_, cwd=project)


def test_the_readme_shows_the_same_lines() -> None:
    assert f"```python\n{TEST_FLIGHT}```" in (ROOT / "README.md").read_text(encoding="utf-8")


def test_it_works_in_the_processes_of_xdist(installed: Path, project: Path) -> None:
    if importlib.util.find_spec("xdist") is None:
        pytest.skip("pytest-xdist is not installed")
    (project / "conftest.py").unlink()  # its checks are of one process
    (project / "test_other.py").write_text('def test_by_path(replay):\n    replay("flights/square.mcap")\n')
    assert "2 passed" in run(installed, "-m", "pytest", "-n", "2", cwd=project)


def test_the_command_of_the_wheel_replays(installed: Path, project: Path) -> None:
    said = run(installed.with_name("lav2-hil"), "replay", "flights/square.mcap", cwd=project)
    assert "as recorded" in said
