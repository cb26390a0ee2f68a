"""Every block of Python in docs/task_space.md runs as it stands there; the blocks assert what the page says of them."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "task_space.md"
SECTION = re.compile(r"^## (.+?)\n(.*?)(?=^## |\Z)", re.MULTILINE | re.DOTALL)
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
FIGURES = re.compile(r"^assert |np\.testing\.", re.MULTILINE)

SECTIONS = dict(SECTION.findall(PAGE.read_text(encoding="utf-8")))
EXAMPLES = {title: BLOCK.findall(text) for title, text in SECTIONS.items() if "```python" in text}
CONTROLLERS = (
    *("JointEffortController", "JointVelocityController", "JointPositionController", "JointImpedanceController"),
    *("DifferentialIKController", "TaskSpaceImpedanceController", "OperationalSpaceController"),
    *("ProportionalForceController", "HybridForceMotionController", "ReactiveController", "MpcAdapter"),
    *("OperationalSpaceAction", "DifferentialIKAction", "JointImpedanceAction"),
)


@pytest.mark.parametrize("title", EXAMPLES)
def test_an_example_does_what_the_page_says(title: str, tmp_path: Path) -> None:
    """In a process of its own, as a reader runs it."""
    assert EXAMPLES[title]
    for number, block in enumerate(EXAMPLES[title]):
        assert FIGURES.search(block), "an example that asserts nothing shows nothing"
        script = tmp_path / f"example{number}.py"
        script.write_text(block, encoding="utf-8")
        result = subprocess.run(
            [sys.executable, "-W", "error", str(script)],
            capture_output=True,
            text=True,
            cwd=tmp_path,
            env=os.environ | {"PYTHONPATH": str(PAGE.parents[1])},
            timeout=60,
            check=False,
        )
        assert result.returncode == 0, result.stderr


@pytest.mark.parametrize("name", CONTROLLERS)
def test_every_controller_has_its_job(name: str) -> None:
    assert f"`{name}`" in SECTIONS["Which one"]


def test_what_the_page_points_at_is_there() -> None:
    text = PAGE.read_text(encoding="utf-8")
    root = PAGE.parents[1]
    for image in re.findall(r"\]\((images/[^)]+)\)", text):
        assert (PAGE.parent / image).is_file(), image
    for path in re.findall(r"`((?:tests|twin|tools|lav2_hil)/[\w/.]+)`", text):
        assert (root / path).exists(), path
    tests = "\n".join(path.read_text(encoding="utf-8") for path in root.glob("tests/**/test_*.py"))
    for name in re.findall(r"`(test_\w+)`", text):
        assert f"def {name}(" in tests, name
    anchors = {re.sub(r"[^\w -]", "", title).lower().replace(" ", "-") for title in SECTIONS}
    for anchor in re.findall(r"\]\(#([^)]+)\)", text):
        assert anchor in anchors, anchor
