"""Whether a comparison may ask for every bit: what was there, and what is here."""

from __future__ import annotations

import os
import subprocess
import sys

import msgspec
import numpy as np
import pytest
from session_files import header

from lav2_hil.session.header import cpu_features
from lav2_hil.session.surroundings import differences_from_here

FOUND = " ".join(np.show_config(mode="dicts")["SIMD Extensions"].get("found", ()))
FINGERPRINT = "from lav2_hil.session.rounding import rounding_fingerprint as f; print(f())"


def fingerprint(**environment: str) -> str:
    result = subprocess.run(
        [sys.executable, "-c", FINGERPRINT], env=os.environ | environment, capture_output=True, text=True, check=True
    )
    return result.stdout.strip()


def test_the_same_computer_gives_the_same_bits() -> None:
    assert differences_from_here(header()) == ()


def test_another_version_is_named() -> None:
    recorded = header()
    there = {**recorded.versions, "numpy": "1.0"}
    (reason,) = differences_from_here(msgspec.structs.replace(recorded, versions=there))
    assert reason == f"numpy was 1.0 and is {recorded.versions['numpy']} here"


def test_missing_and_added_features_are_named() -> None:
    there = tuple(name for name in cpu_features() if name != "X86_V2")
    missing, *_ = differences_from_here(msgspec.structs.replace(header(), cpu_features=(*there, "AVX999")))
    assert missing == "cpu features differ: AVX999 is missing here"


def test_another_rounding_alone_is_enough() -> None:
    there = (*cpu_features()[:-1], "rounding-00000000")
    reasons = differences_from_here(msgspec.structs.replace(header(), cpu_features=there))
    assert reasons == ("the C library or OpenBLAS rounds in another way here",)


def test_the_fingerprint_is_the_same_in_every_process() -> None:
    assert fingerprint() == fingerprint()


@pytest.mark.skipif(os.uname().machine != "x86_64" or not FOUND, reason="the names are those of x86 processors")
@pytest.mark.parametrize(
    "environment",
    [{"NPY_DISABLE_CPU_FEATURES": FOUND}, {"GLIBC_TUNABLES": "glibc.cpu.hwcaps=-AVX2,-FMA,-FMA4,-AVX512F"}],
    ids=["NumPy", "C library"],
)
def test_another_choice_of_functions_is_seen(environment: dict[str, str]) -> None:
    assert fingerprint(**environment) != fingerprint()
