"""pytest plugin: recorded flights as regression tests.

    def test_flight(replay):
        replay("flight.mcap")

Installed with the package, it adds the fixture `replay` and the option `--update-refs`, and imports nothing before a
test asks for it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

    from lav2_hil.session.case import ReplayCase
    from lav2_hil.session.check import ReplayResult


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add `--update-refs`."""
    parser.getgroup("lav2-hil").addoption(
        "--update-refs",
        action="store_true",
        help="accept what replayed sessions give now: write it into their files",
    )


@pytest.fixture
def replay(request: pytest.FixtureRequest) -> Callable[[ReplayCase | str | Path], ReplayResult]:
    """Replays a session, by its path or as a `ReplayCase`, and fails unless it comes out as it was recorded."""
    from lav2_hil.session.case import run_case

    update = bool(request.config.getoption("--update-refs"))

    def run(case: ReplayCase | str | Path) -> ReplayResult:
        __tracebackhide__ = True
        return run_case(case, request.path.parent, update=update)

    return run
