"""The demo flight, as it was recorded once: bit for bit on a computer like that one, within tolerances on others.

`python tests/replay/record_demo.py` records it anew, when a change of the twin or of the autopilot asks for it.
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from replay_rig import DEMO

from lav2_hil.session.case import ReplayCase
from lav2_hil.session.reader import read_session
from lav2_hil.session.surroundings import differences_from_here

FOUND = " ".join(np.show_config(mode="dicts")["SIMD Extensions"].get("found", ()))


def replayed(*arguments: str, **environment: str) -> tuple[int, dict[str, Any]]:
    """The replay command's exit code and document, in a process of its own."""
    command = [sys.executable, "-m", "lav2_hil", "replay", str(DEMO), "--json", *arguments]
    result = subprocess.run(
        command, env=os.environ | environment, capture_output=True, text=True, timeout=110, check=False
    )
    assert result.stdout, result.stderr
    return result.returncode, json.loads(result.stdout)


def test_the_demo_flight_is_small_and_whole() -> None:
    session = read_session(DEMO)
    assert (session.damage, session.incomplete_from_us) == (None, None)
    assert session.end is not None
    assert session.header.seed == 1
    assert session.header.profile_source == "lav2"
    assert DEMO.stat().st_size < 2_000_000


def test_the_demo_flight_comes_out_as_it_was_recorded(replay) -> None:
    reasons = differences_from_here(read_session(DEMO).header)
    result = replay(ReplayCase(DEMO))
    assert result.comparison.exact is (not reasons)
    assert result.comparison.identical or reasons
    assert result.comparison.frames > 14_000
    assert result.comparison.truth_samples >= 2700
    assert result.simulated_s > 50.0


@pytest.mark.slow
@pytest.mark.skipif(not FOUND, reason="NumPy uses nothing of this processor that it could do without")
def test_without_what_this_processor_has_it_stays_within_the_tolerances() -> None:
    code, document = replayed(NPY_DISABLE_CPU_FEATURES=FOUND)
    assert document["comparison"] == "tolerance"
    assert any("missing here" in reason for reason in document["why_not_exact"])
    assert document["differences"] == []
    assert document["course"] is None
    assert (code, document["equal"]) == (0, True)


@pytest.mark.slow
@pytest.mark.skipif(
    platform.machine() != "x86_64" or platform.libc_ver()[0] != "glibc" or "X86_V3" not in FOUND,
    reason="the names are those of glibc on x86, and there must be something to do without",
)
def test_where_bits_really_differ_it_stays_within_the_tolerances() -> None:
    """NumPy's choice changes no bit of this flight: here the C library and OpenBLAS round in another way."""
    others = {"GLIBC_TUNABLES": "glibc.cpu.hwcaps=-AVX2,-FMA,-FMA4,-AVX512F", "OPENBLAS_CORETYPE": "Nehalem"}
    code, document = replayed(**others)
    assert document["comparison"] == "tolerance"
    assert document["why_not_exact"] == ["the C library or OpenBLAS rounds in another way here"]
    assert document["differences"] == []
    assert (code, document["equal"]) == (0, True)
    assert not document["identical"], "nothing differed, so that nothing was tested"


@pytest.mark.slow
def test_a_rotor_constant_changed_by_a_thousandth_fails(tmp_path: Path) -> None:
    path = tmp_path / "changed.toml"
    thrust = read_session(DEMO).header.profile.vehicle.propeller.thrust_coefficient_n_s2
    path.write_text(f'extends = "lav2"\n[vehicle.propeller]\nthrust_coefficient_n_s2 = {thrust * 1.001!r}\n')
    code, document = replayed("--profile", str(path), NPY_DISABLE_CPU_FEATURES=FOUND)
    assert (code, document["equal"], document["comparison"]) == (1, False, "tolerance")
    assert [change["path"] for change in document["profile_changes"]] == ["vehicle.propeller.thrust_coefficient_n_s2"]
    worst = {difference["field"]: difference["largest_error"] for difference in document["differences"]}
    assert worst["truth.pos_enu_m[2]"] > 1.0
    assert "HIL_SENSOR.zacc" in worst
    assert document["course"] is None
