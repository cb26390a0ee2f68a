"""Processes that run, by a word of their command line."""

from __future__ import annotations

from pathlib import Path


def processes(word: str) -> dict[int, int]:
    """Running processes with a word in their command line: id to parent's id."""
    found = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                words = (entry / "cmdline").read_bytes()
                state, parent = (entry / "stat").read_text().rpartition(")")[2].split()[:2]
            except OSError:
                continue  # it has ended
            if word.encode() in words and state != "Z":
                found[int(entry.name)] = int(parent)
    return found


def shadows_of(parent: int) -> list[int]:
    return [process for process, of in processes("lav2_hil.shadow_process").items() if of == parent]
